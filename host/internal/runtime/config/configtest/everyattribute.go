package configtest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// Written is an attribute of the specification with its enclosing blocks.
type Written struct {
	Path  string // names joined by dots
	Chain []*language.Block
	Attr  *language.Attr
}

// EveryAttribute returns all attributes of the specification.
func EveryAttribute() []Written {
	var out []Written
	var walk func(b *language.Block, path string, chain []*language.Block)
	walk = func(b *language.Block, path string, chain []*language.Block) {
		for i := range b.Attrs {
			out = append(out, Written{language.Join(path, b.Attrs[i].Name), chain, &b.Attrs[i]})
		}
		for i := range b.Blocks {
			inner := &b.Blocks[i]
			walk(inner, language.Join(path, inner.Name), append(chain[:len(chain):len(chain)], inner))
			for k := range inner.Variants {
				v := &inner.Variants[k]
				walk(v, language.Join(path, inner.Name)+" "+v.Only, append(chain[:len(chain):len(chain)], v))
			}
		}
	}
	walk(language.Specification(), "", nil)
	return out
}

// SpecPath returns Path without the label of a variant.
func (w Written) SpecPath() string {
	block, rest, ok := strings.Cut(w.Path, " ")
	if !ok {
		return w.Path
	}
	_, attr, _ := strings.Cut(rest, ".")
	return language.Join(block, attr)
}

// Labels and required attributes in the files that Written.File returns.
var labels = map[string]string{"plugin": "chess", "capability": "chess/engine", "include": "extra/*.hcl", "schema": "a/b", "check": "c", "human": "people/clerk", "dispatch": "d", "intent": "chess/best-move",
	"rule": "fs/read", "secret": "github", "db": "main", "role": "clerk", "judge": "j", "rubric": "answer", "criterion": "a", "class": "batch", "operation": "act/defaults", "binding": "session/language", "profile": "strict-meta", "oidc": "corp"}

// File returns the smallest configuration file in which the attribute has the value.
func (w Written) File(value string) string {
	var b strings.Builder
	top := w.Chain[0]
	if top.Name != "plugin" {
		b.WriteString("plugin \"chess\" {\n  command = [\"bin/chess\"]\n}\n")
	}
	if top.Name == "human" {
		b.WriteString("intent \"chess/best-move\" {\n  in = \"req/any\"\n  out = \"res/any\"\n}\n")
	}
	for i, blk := range w.Chain {
		b.WriteString(blk.Name)
		if blk.Label != language.LabelNone {
			label := labels[blk.Name]
			if top.Name == "operations" {
				label = "http.v1/act"
			}
			if blk.Only != "" {
				label = blk.Only
			}
			fmt.Fprintf(&b, " %q", label)
		}
		b.WriteString(" {\n")
		if i == 0 || blk.Name == "secret" || blk.Name == "db" || blk.Name == "oidc" || blk.Name == "criterion" || blk.Name == "binding" || blk.Name == "otel" {
			for _, line := range required[blk.Name] {
				if !strings.HasPrefix(line, w.Attr.Name+" ") && !(blk.Name == "check" && (w.Attr.Name == "condition" || w.Attr.Name == "intent")) {
					b.WriteString(line + "\n")
				}
			}
		}
	}
	fmt.Fprintf(&b, "%s = %s\n%s", w.Attr.Name, value, strings.Repeat("}\n", len(w.Chain)))
	return b.String()
}

// ValuesOf returns HCL values for a type: valid ones at the bounds of its range, ones beyond its
// range, and ones of another type.
func ValuesOf(t language.Type) (good, beyond, other []string) {
	num := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch t.Kind {
	case language.KindBool:
		return []string{"true", "false"}, nil, []string{`"true"`, "1"}
	case language.KindSecret:
		return nil, nil, []string{"1"}
	case language.KindInt:
		return []string{num(*t.Min), num(*t.Max)}, []string{num(*t.Min - 1), num(*t.Max + 1)}, []string{`"` + num(*t.Max) + `"`, num(*t.Min) + ".5"}
	case language.KindNum:
		return []string{num(*t.Min), num(*t.Max)}, []string{num(*t.Min - 0.1), num(*t.Max + 0.1)}, []string{`"` + num(*t.Max) + `"`, "[]"}
	case language.KindDec:
		return []string{"0", `"0.000000000000000001"`, "1.5"}, []string{"-1", `"-0.5"`, `"1234567890123456789012345678901234567.5"`}, []string{`"cheap"`, "true"}
	case language.KindDur:
		good = []string{diag.Quote(language.FormatDuration(int64(*t.Min))), diag.Quote(language.FormatDuration(int64(*t.Max)))}
		if *t.Min > 0 {
			beyond = append(beyond, diag.Quote(fmt.Sprintf("%dms", int64(*t.Min)-1)))
		}
		return good, append(beyond, diag.Quote(fmt.Sprintf("%dms", int64(*t.Max)+1))), []string{`"soon"`, "5", `"-1s"`, `"1.0001ms"`, `""`}
	case language.KindBytes:
		good = []string{num(*t.Min), num(*t.Max), diag.Quote(language.FormatBytes(int64(*t.Max)))}
		return good, []string{num(*t.Min - 1), num(*t.Max + 1), `"9999999GiB"`}, []string{`"big"`, `"1KX"`, "true", `"1.5B"`}
	case language.KindEnum:
		for _, w := range t.Enum {
			good = append(good, diag.Quote(w))
		}
		return good, []string{`"` + t.Enum[0] + `x"`}, []string{"1", "[]"}
	case language.KindStr:
		return []string{`"a"`}, nil, []string{"1", "true", `["a"]`}
	case language.KindPath, language.KindRun:
		return []string{`"a"`, `"/a/b"`, `"../a"`}, nil, []string{"1", `""`}
	case language.KindVariable:
		return []string{`"A"`, `"_a1"`}, nil, []string{`""`, `"1A"`, `"A-B"`, "1"}
	case language.KindRate:
		return []string{`"20/s"`}, nil, []string{"20", `"fast"`}
	case language.KindListen:
		return []string{`"127.0.0.1:0"`, `"[::1]:65535"`, `"localhost:7180"`}, nil, []string{`"127.0.0.1"`, `"127.0.0.1:65536"`, `"127.0.0.1:-1"`, `"a b:1"`, "1"}
	case language.KindNetwork:
		return []string{`"10.0.0.0/8"`, `"::1/128"`}, []string{`"10.0.0.1/8"`}, []string{`"10.0.0.0"`, `"proxies"`, "1"}
	case language.KindOrigin:
		return []string{`"https://app.example"`, `"http://localhost:3000"`, `"http://[::1]:8080"`}, nil, []string{`"*"`, `"null"`, `"app.example"`, `"https://app.example/"`, `"https://app.example:443"`, `"https://App.example"`, `"ftp://a"`, `"https://a@b"`, `"https://*.example"`, `""`, "1"}
	case language.KindHostName:
		return []string{`"a"`, `"ferment.example.org"`}, nil, []string{`""`, `"a:1"`, `"http://a"`, `"*"`, "1"}
	case language.KindVersion:
		return []string{`">= 0.1, < 2.0"`, `"1.0.0"`}, nil, []string{`"newest"`, "1", `""`}
	case language.KindSwitch:
		return []string{`"runtime/crashed"`, `"class/retry"`, `"provider/*"`, `"invalid-result"`}, nil, []string{`"runtime/crashd"`, `"class/stop"`, "1"}
	case language.KindRef:
		return nil, nil, []string{"1", "[]"}
	case language.KindCond:
		return []string{"true", "result.ok", `length(try(result.text, "")) > 3`}, nil, []string{`"yes"`, "result +", "nope()"}
	case language.KindTemplate:
		return []string{`"a"`, `"${request.intent}: ${result.text}"`}, nil, []string{"nope()"}
	case language.KindEDN:
		return []string{`edn(":any")`, `":any"`}, nil, []string{`edn("[")`, `secret("env:A")`}
	case language.KindLayer:
		return []string{`"a"`, `["a", "b {language}"]`, "[]"}, nil, []string{"1", "[1]", "[null]", `{ a = "b" }`, `{ file = 1 }`}
	case language.KindMap:
		good, other = []string{"{}"}, []string{"[]", `"a"`, "1"}
		if t.Elem != nil {
			g, _, o := ValuesOf(*t.Elem)
			first, second := "A", `"A_b"`
			if t.Key != nil && t.Key.Kind == language.KindEnum {
				first, second = t.Key.Enum[0], diag.Quote(t.Key.Enum[1])
			}
			if len(g) > 0 { // secrets have no value that is valid in every test
				good = append(good, "{ "+first+" = "+g[0]+" }", "{ "+second+" = "+g[0]+" }")
			}
			other = append(other, "{ "+first+" = "+o[0]+" }")
			if t.Key != nil {
				other = append(other, `{ "A b" = `+g[0]+" }")
			}
		}
		return good, nil, other
	case language.KindList, language.KindSet:
		g, b, o := ValuesOf(*t.Elem)
		other = []string{"1", `"a"`, "[null]"}
		if t.OrMap {
			good = append(good, "{}")
		} else {
			other = append(other, "{}")
		}
		low, high := 0, 0
		if t.Min != nil {
			low = int(*t.Min)
		}
		some := func(v string) string { return "[" + strings.Repeat(v+",", max(1, low)) + "]" }
		for _, v := range g {
			good = append(good, some(v))
		}
		for _, v := range append(b, o...) {
			other = append(other, some(v))
		}
		if low == 0 {
			good = append(good, "[]")
		} else {
			beyond = append(beyond, "[]")
		}
		if t.Max != nil && len(g) > 0 {
			high = int(*t.Max)
			good = append(good, "["+strings.Repeat(g[0]+",", high)+"]")
			beyond = append(beyond, "["+strings.Repeat(g[0]+",", high+1)+"]")
		}
		return good, beyond, other
	}
	return nil, nil, nil
}

var required = map[string][]string{
	"plugin": {`command = ["bin/chess"]`}, "capability": {`plugin = "chess"`}, "schema": {`spec = edn(":any")`}, "check": {`builtin = "max-chars"`},
	"human": {`intents = ["chess/best-move"]`}, "intent": {`in = "req/chess.position"`, `out = "res/chess.move+pv+eval"`}, "secret": {`value = secret("env:A")`},
	"db":     {`driver = "sqlite"`, `path = "db/main.db"`},
	"rubric": {`criterion "b" { ask = "is it true?" }`}, "criterion": {`ask = "is it short?"`},
	"oidc":    {`issuer = "https://corp.example"`, `audience = "ferment"`},
	"binding": {`target = ["constraints", "language"]`},
	"otel":    {`endpoint = "http://127.0.0.1:4317"`},
}
