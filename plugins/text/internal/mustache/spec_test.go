package mustache

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// specCase is one rule of the public Mustache specification: a template, its
// data and the expected output. HTML escaping is on, as in the specification.
type specCase struct {
	rule, template, data, want string
	partials                   map[string]string
	missing                    bool // the rule is about missing values, which must be permitted here
}

func runSpec(t *testing.T, cases []specCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			got, err := Render(c.template, edn.MustRead(c.data), Options{HTML: true, AllowMissing: c.missing, Partials: c.partials})
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

// EMB-005: the module on comments.
func TestSpecComments(t *testing.T) {
	runSpec(t, []specCase{
		{rule: "removed inline", template: "ab{{! gone }}cd", data: "{}", want: "abcd"},
		{rule: "over lines", template: "ab{{!\n gone\n}}cd\n", data: "{}", want: "abcd\n"},
		{rule: "standalone", template: "one\n{{! gone }}\ntwo\n", data: "{}", want: "one\ntwo\n"},
		{rule: "indented standalone", template: "one\n\t {{! gone }}\ntwo\n", data: "{}", want: "one\ntwo\n"},
		{rule: "standalone with CRLF", template: "|\r\n{{! gone }}\r\n|", data: "{}", want: "|\r\n|"},
		{rule: "standalone on the first line", template: "  {{! gone }}\n!", data: "{}", want: "!"},
		{rule: "standalone on the last line without end", template: "!\n  {{! gone }}", data: "{}", want: "!\n"},
		{rule: "over lines standalone", template: "one\n{{!\ngone\n}}\ntwo\n", data: "{}", want: "one\ntwo\n"},
		{rule: "over lines indented standalone", template: "one\n  {{!\n  gone\n  }}\ntwo\n", data: "{}", want: "one\ntwo\n"},
		{rule: "indented inline keeps the line", template: "  12 {{! gone }}\n", data: "{}", want: "  12 \n"},
		{rule: "blanks around stay", template: "1 {{! gone }} 2", data: "{}", want: "1  2"},
		{rule: "not a variable", template: "({{! a }}|{{!a}})", data: `{"! a" 1 "!a" 2 :a 3}`, want: "(|)"},
	})
}

// EMB-005: the module on interpolation.
func TestSpecInterpolation(t *testing.T) {
	runSpec(t, []specCase{
		{rule: "no tag", template: "Good { } day }} !\n", data: "{}", want: "Good { } day }} !\n"},
		{rule: "empty template", template: "", data: "{}", want: ""},
		{rule: "by name", template: "Dear {{who}}:\n", data: `{:who "Ada"}`, want: "Dear Ada:\n"},
		{rule: "not twice", template: "{{a}}: {{b}}", data: `{:a "{{b}}" :b "never in a"}`, want: "{{b}}: never in a"},
		{rule: "escaped", template: "{{s}}", data: `{:s "& \" < >"}`, want: "&amp; &quot; &lt; &gt;"},
		{rule: "triple is raw", template: "{{{s}}}", data: `{:s "& \" < >"}`, want: `& " < >`},
		{rule: "ampersand is raw", template: "{{&s}}", data: `{:s "& \" < >"}`, want: `& " < >`},
		{rule: "integer", template: "{{n}} km", data: `{:n 85}`, want: "85 km"},
		{rule: "integer, triple", template: "{{{n}}} km", data: `{:n 85}`, want: "85 km"},
		{rule: "integer, ampersand", template: "{{&n}} km", data: `{:n 85}`, want: "85 km"},
		{rule: "fraction", template: "{{n}} V", data: `{:n 1.21}`, want: "1.21 V"},
		{rule: "fraction, triple", template: "{{{n}}} V", data: `{:n 1.21}`, want: "1.21 V"},
		{rule: "fraction, ampersand", template: "{{&n}} V", data: `{:n 1.21M}`, want: "1.21 V"},
		{rule: "nil", template: "({{x}})", data: `{:x nil}`, want: "()", missing: true},
		{rule: "nil, triple", template: "({{{x}}})", data: `{:x nil}`, want: "()", missing: true},
		{rule: "nil, ampersand", template: "({{&x}})", data: `{:x nil}`, want: "()", missing: true},
		{rule: "missing", template: "({{x}})", data: `{}`, want: "()", missing: true},
		{rule: "missing, triple", template: "({{{x}}})", data: `{}`, want: "()", missing: true},
		{rule: "missing, ampersand", template: "({{&x}})", data: `{}`, want: "()", missing: true},
		{rule: "dotted is like a section", template: "{{p.name}} = {{#p}}{{name}}{{/p}}", data: `{:p {:name "Jo"}}`, want: "Jo = Jo"},
		{rule: "dotted, triple", template: "{{{p.name}}}", data: `{:p {:name "<Jo>"}}`, want: "<Jo>"},
		{rule: "dotted, ampersand", template: "{{&p.name}}", data: `{:p {:name "<Jo>"}}`, want: "<Jo>"},
		{rule: "dotted, deep", template: "{{a.b.c.d.e.name}}", data: `{:a {:b {:c {:d {:e {:name "Phil"}}}}}}`, want: "Phil"},
		{rule: "dotted, broken chain", template: "({{a.b.c}})", data: `{:a {}}`, want: "()", missing: true},
		{rule: "dotted, the rest is not looked up outside", template: "({{a.b.c.name}})", data: `{:a {:b {}} :c {:name "Jim"}}`, want: "()", missing: true},
		{rule: "dotted, the first part is looked up outside", template: "{{#a}}{{b.c.name}}{{/a}}", data: `{:a {:x 1} :b {:c {:name "Phil"}}}`, want: "Phil"},
		{rule: "dotted, the innermost first part decides", template: "({{#a}}{{b.c}}{{/a}})", data: `{:a {:b {}} :b {:c "wrong"}}`, want: "()", missing: true},
		{rule: "dotted is no single key", template: "({{a.b}})", data: `{"a.b" "wrong"}`, want: "()", missing: true},
		{rule: "dotted is not masked by a single key", template: "{{a.b}}", data: `{"a.b" "wrong" :a {:b "right"}}`, want: "right"},
		{rule: "item", template: "{{.}} km", data: `"<85>"`, want: "&lt;85&gt; km"},
		{rule: "item, triple", template: "{{{.}}} km", data: `"<85>"`, want: "<85> km"},
		{rule: "item, ampersand", template: "{{&.}} km", data: `"<85>"`, want: "<85> km"},
		{rule: "item, integer", template: "{{.}} km", data: `85`, want: "85 km"},
		{rule: "blanks around stay", template: "| {{s}} |", data: `{:s "-"}`, want: "| - |"},
		{rule: "blanks around stay, triple", template: "| {{{s}}} |", data: `{:s "-"}`, want: "| - |"},
		{rule: "blanks around stay, ampersand", template: "| {{&s}} |", data: `{:s "-"}`, want: "| - |"},
		{rule: "a variable is never standalone", template: "  {{s}}\n", data: `{:s "-"}`, want: "  -\n"},
		{rule: "a variable is never standalone, triple", template: "  {{{s}}}\n", data: `{:s "-"}`, want: "  -\n"},
		{rule: "a variable is never standalone, ampersand", template: "  {{&s}}\n", data: `{:s "-"}`, want: "  -\n"},
		{rule: "blanks inside go", template: "|{{ s }}|", data: `{:s "-"}`, want: "|-|"},
		{rule: "blanks inside go, triple", template: "|{{{ s }}}|", data: `{:s "-"}`, want: "|-|"},
		{rule: "blanks inside go, ampersand", template: "|{{& s }}|", data: `{:s "-"}`, want: "|-|"},
	})
}

// EMB-005: the module on sections.
func TestSpecSections(t *testing.T) {
	runSpec(t, []specCase{
		{rule: "true", template: "({{#b}}shown{{/b}})", data: `{:b true}`, want: "(shown)"},
		{rule: "false", template: "({{#b}}hidden{{/b}})", data: `{:b false}`, want: "()"},
		{rule: "nil", template: "({{#b}}hidden{{/b}})", data: `{:b nil}`, want: "()"},
		{rule: "a map is entered", template: "{{#c}}Hi {{name}}.{{/c}}", data: `{:c {:name "Jo"}}`, want: "Hi Jo."},
		{rule: "names of outer maps stay", template: "{{#s}}{{a}}, {{b}}, {{c.d}}{{/s}}", data: `{:a "foo" :b "wrong" :s {:b "bar"} :c {:d "baz"}}`, want: "foo, bar, baz"},
		{rule: "the value is the item", template: "{{#v}}{{.}} is {{v}}{{/v}}", data: `{:v "bar"}`, want: "bar is bar"},
		{rule: "list in a list", template: "{{#ts}}{{#ms}}{{t}}{{m}}.{{/ms}}{{/ts}}", data: `{:ts [{:t 1 :ms [{:m "a"} {:m "b"}]} {:t 2 :ms [{:m "c"}]}]}`, want: "1a.1b.2c."},
		{
			rule:     "deep nesting reaches all outer names",
			template: "{{#a}}{{one}}\n{{#b}}{{one}}{{two}}{{one}}\n{{#c.d}}{{one}}{{two}}{{three}}{{#five}}{{two}}{{.}}6{{.}}{{/five}}\n{{/c.d}}{{/b}}{{/a}}",
			data:     `{:a {:one 1} :b {:two 2} :c {:three 3 :d {:three 3 :five 5}}}`,
			want:     "1\n121\n1232565\n",
		},
		{rule: "list of maps", template: `"{{#l}}{{i}}{{/l}}"`, data: `{:l [{:i 1} {:i 2} {:i 3}]}`, want: `"123"`},
		{rule: "empty list", template: `"{{#l}}hidden{{/l}}"`, data: `{:l []}`, want: `""`},
		{rule: "the same section twice", template: "{{#b}}\n* one\n{{/b}}\n* {{n}}\n{{#b}}\n* three\n{{/b}}\n", data: `{:b true :n "two"}`, want: "* one\n* two\n* three\n"},
		{rule: "nested, true", template: "| A {{#b}}B {{#b}}C{{/b}} D{{/b}} E |", data: `{:b true}`, want: "| A B C D E |"},
		{rule: "nested, false", template: "| A {{#b}}B {{#b}}C{{/b}} D{{/b}} E |", data: `{:b false}`, want: "| A  E |"},
		{rule: "missing", template: "({{#x}}hidden{{/x}})", data: `{}`, want: "()"},
		{rule: "item of strings", template: "{{#l}}({{.}}){{/l}}", data: `{:l ["a" "b" "c"]}`, want: "(a)(b)(c)"},
		{rule: "item of integers", template: "{{#l}}({{.}}){{/l}}", data: `{:l [1 2 3]}`, want: "(1)(2)(3)"},
		{rule: "item of fractions", template: "{{#l}}({{.}}){{/l}}", data: `{:l [1.1 2.2 3.3]}`, want: "(1.1)(2.2)(3.3)"},
		{rule: "item of lists", template: "{{#l}}({{#.}}{{.}}{{/.}}){{/l}}", data: `{:l [[1 2 3] ["a" "b"]]}`, want: "(123)(ab)"},
		{rule: "item escaped", template: "{{#l}}({{.}}){{/l}}", data: `{:l ["&" "<"]}`, want: "(&amp;)(&lt;)"},
		{rule: "item triple", template: "{{#l}}({{{.}}}){{/l}}", data: `{:l ["&" "<"]}`, want: "(&)(<)"},
		{rule: "item ampersand", template: "{{#l}}({{&.}}){{/l}}", data: `{:l ["&" "<"]}`, want: "(&)(<)"},
		{rule: "item at the root", template: "{{#.}}({{v}}){{/.}}", data: `[{:v "a"} {:v "b"}]`, want: "(a)(b)"},
		{rule: "dotted, true", template: "({{#a.b.c}}here{{/a.b.c}})", data: `{:a {:b {:c true}}}`, want: "(here)"},
		{rule: "dotted, false", template: "({{#a.b.c}}here{{/a.b.c}})", data: `{:a {:b {:c false}}}`, want: "()"},
		{rule: "dotted, broken chain", template: "({{#a.b.c}}here{{/a.b.c}})", data: `{:a {}}`, want: "()"},
		{rule: "blanks around stay", template: " | {{#b}}\t|\t{{/b}} | \n", data: `{:b true}`, want: " | \t|\t | \n"},
		{rule: "blanks inside stay", template: " | {{#b}} {{! gone }}\n {{/b}} | \n", data: `{:b true}`, want: " |  \n  | \n"},
		{rule: "indented inline", template: " {{#b}}YES{{/b}}\n {{#b}}GOOD{{/b}}\n", data: `{:b true}`, want: " YES\n GOOD\n"},
		{rule: "standalone", template: "| This\n{{#b}}\n|\n{{/b}}\n| Line\n", data: `{:b true}`, want: "| This\n|\n| Line\n"},
		{rule: "indented standalone", template: "| This\n  {{#b}}\n|\n  {{/b}}\n| Line\n", data: `{:b true}`, want: "| This\n|\n| Line\n"},
		{rule: "standalone with CRLF", template: "|\r\n{{#b}}\r\n{{/b}}\r\n|", data: `{:b true}`, want: "|\r\n|"},
		{rule: "standalone on the first line", template: "  {{#b}}\n#{{/b}}\n/", data: `{:b true}`, want: "#\n/"},
		{rule: "standalone on the last line without end", template: "#{{#b}}\n/\n  {{/b}}", data: `{:b true}`, want: "#\n/\n"},
		{rule: "blanks inside the tag go", template: "|{{# b }}={{/ b }}|", data: `{:b true}`, want: "|=|"},
	})
}

// EMB-005: the module on inverted sections.
func TestSpecInverted(t *testing.T) {
	runSpec(t, []specCase{
		{rule: "false", template: "({{^b}}shown{{/b}})", data: `{:b false}`, want: "(shown)"},
		{rule: "true", template: "({{^b}}hidden{{/b}})", data: `{:b true}`, want: "()"},
		{rule: "nil", template: "({{^b}}shown{{/b}})", data: `{:b nil}`, want: "(shown)"},
		{rule: "a map is something", template: "({{^c}}hidden{{/c}})", data: `{:c {:name "Jo"}}`, want: "()"},
		{rule: "a list is something", template: "({{^l}}hidden{{/l}})", data: `{:l [{:n 1}]}`, want: "()"},
		{rule: "an empty list is nothing", template: "({{^l}}shown{{/l}})", data: `{:l []}`, want: "(shown)"},
		{rule: "the same section twice", template: "{{^b}}\n* one\n{{/b}}\n* {{n}}\n{{^b}}\n* three\n{{/b}}\n", data: `{:b false :n "two"}`, want: "* one\n* two\n* three\n"},
		{rule: "nested, false", template: "| A {{^b}}B {{^b}}C{{/b}} D{{/b}} E |", data: `{:b false}`, want: "| A B C D E |"},
		{rule: "nested, true", template: "| A {{^b}}B {{^b}}C{{/b}} D{{/b}} E |", data: `{:b true}`, want: "| A  E |"},
		{rule: "missing", template: "[{{^x}}not found{{/x}}]", data: `{}`, want: "[not found]"},
		{rule: "dotted, true", template: "({{^a.b.c}}not here{{/a.b.c}})", data: `{:a {:b {:c true}}}`, want: "()"},
		{rule: "dotted, false", template: "({{^a.b.c}}not here{{/a.b.c}})", data: `{:a {:b {:c false}}}`, want: "(not here)"},
		{rule: "dotted, broken chain", template: "({{^a.b.c}}not here{{/a.b.c}})", data: `{:a {}}`, want: "(not here)"},
		{rule: "blanks around stay", template: " | {{^b}}\t|\t{{/b}} | \n", data: `{:b false}`, want: " | \t|\t | \n"},
		{rule: "blanks inside stay", template: " | {{^b}} {{! gone }}\n {{/b}} | \n", data: `{:b false}`, want: " |  \n  | \n"},
		{rule: "indented inline", template: " {{^b}}NO{{/b}}\n {{^b}}WAY{{/b}}\n", data: `{:b false}`, want: " NO\n WAY\n"},
		{rule: "standalone", template: "| This\n{{^b}}\n|\n{{/b}}\n| Line\n", data: `{:b false}`, want: "| This\n|\n| Line\n"},
		{rule: "indented standalone", template: "| This\n  {{^b}}\n|\n  {{/b}}\n| Line\n", data: `{:b false}`, want: "| This\n|\n| Line\n"},
		{rule: "standalone with CRLF", template: "|\r\n{{^b}}\r\n{{/b}}\r\n|", data: `{:b false}`, want: "|\r\n|"},
		{rule: "standalone on the first line", template: "  {{^b}}\n^{{/b}}\n/", data: `{:b false}`, want: "^\n/"},
		{rule: "standalone on the last line without end", template: "^{{^b}}\n/\n  {{/b}}", data: `{:b false}`, want: "^\n/\n"},
		{rule: "blanks inside the tag go", template: "|{{^ b }}={{/ b }}|", data: `{:b false}`, want: "|=|"},
	})
}

// EMB-005: the module on partials; recursion is rejected instead, see
// TestRenderRefuses.
func TestSpecPartials(t *testing.T) {
	runSpec(t, []specCase{
		{rule: "by name", template: `"{{>p}}"`, data: "{}", want: `"from partial"`, partials: map[string]string{"p": "from partial"}},
		{rule: "missing", template: `"{{>p}}"`, data: "{}", want: `""`, missing: true},
		{rule: "sees the data", template: `"{{>p}}"`, data: `{:s "x"}`, want: `"*x*"`, partials: map[string]string{"p": "*{{s}}*"}},
		{rule: "sees the item", template: "{{#l}}{{>p}}{{/l}}", data: `{:l [1 2]}`, want: "<1><2>", partials: map[string]string{"p": "<{{.}}>"}},
		{rule: "in a partial", template: "{{>outer}}", data: `{:a "hello" :b "world"}`, want: "*hello world!*", partials: map[string]string{"outer": "*{{a}} {{>inner}}*", "inner": "{{b}}!"}},
		{rule: "blanks around stay", template: "| {{>p}} |", data: "{}", want: "| \t|\t |", partials: map[string]string{"p": "\t|\t"}},
		{rule: "inline is not indented", template: "  {{d}}  {{> p}}\n", data: `{:d "|"}`, want: "  |  >\n>\n", partials: map[string]string{"p": ">\n>"}},
		{rule: "standalone with CRLF", template: "|\r\n{{>p}}\r\n|", data: "{}", want: "|\r\n>|", partials: map[string]string{"p": ">"}},
		{rule: "standalone on the first line", template: "  {{>p}}\n>", data: "{}", want: "  >\n  >>", partials: map[string]string{"p": ">\n>"}},
		{rule: "standalone on the last line without end", template: ">\n  {{>p}}", data: "{}", want: ">\n  >\n  >", partials: map[string]string{"p": ">\n>"}},
		{rule: "lines are indented, those of values not", template: "\\\n {{>p}}\n/\n", data: `{:s "<\n->"}`, want: "\\\n |\n <\n->\n |\n/\n", partials: map[string]string{"p": "|\n{{{s}}}\n|\n"}},
		{rule: "blanks inside the tag go", template: "|{{> p }}|", data: "{}", want: "|[]|", partials: map[string]string{"p": "[]"}},
		{rule: "indentation adds up", template: " {{>a}}\n", data: "{}", want: " 1\n   2\n 3\n", partials: map[string]string{"a": "1\n  {{>b}}\n3\n", "b": "2\n"}},
		{rule: "a value that ends a line does not indent the rest", template: "  {{>p}}\n", data: `{:s "1\n"}`, want: "  1\n2\n", partials: map[string]string{"p": "{{s}}2\n"}},
		{rule: "an inline section is indented once", template: "  {{>p}}\n", data: `{:l [1 2]}`, want: "  12;\n", partials: map[string]string{"p": "{{#l}}{{.}}{{/l}};\n"}},
		{rule: "a standalone section is indented in each line", template: "  {{>p}}\n", data: `{:l [1 2]}`, want: "  -1\n  -2\n", partials: map[string]string{"p": "{{#l}}\n-{{.}}\n{{/l}}\n"}},
		{rule: "blank lines stay empty", template: "  {{>p}}\n", data: "{}", want: "  1\n\n  2\n", partials: map[string]string{"p": "1\n\n2\n"}},
		{rule: "a comment before the text does not lose the indentation", template: "  {{>p}}\n", data: "{}", want: "  x\n", partials: map[string]string{"p": "{{! gone }}x\n"}},
		{rule: "no output, no indentation", template: "  {{>p}}\nend", data: "{}", want: "end", partials: map[string]string{"p": ""}},
	})
}
