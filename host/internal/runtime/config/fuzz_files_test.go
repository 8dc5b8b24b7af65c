package config

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// FuzzEnv: any text is parsed or rejected; a parsed name is a valid variable name,
// and an error has a place in the file (HCL-017).
func FuzzEnv(f *testing.F) {
	for _, s := range []string{"A=b", "export A='x'\n# c\nB=\"\\n\"", "A", "=", "A=\"", "A='\n", "A=1\nA=2", "export\t A = b # c", "\xef\xbb\xbfA=\r\n", "A=\x00", "ż=1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 4096 {
			return
		}
		s := newSource("x.env", "/x.env", 0, raw)
		report := newCollector(sources{})
		vars := parseEnv(s, report)
		for key, v := range vars {
			if !variableName.MatchString(key) || v.at.Start.Line < 1 {
				t.Fatalf("%q at %v", key, v.at)
			}
		}
		for _, d := range report.result() {
			if d.Range == nil || d.Range.Start.Byte > len(raw) {
				t.Fatalf("%v", d)
			}
		}
	})
}

// FuzzJSON: any text is parsed or rejected, and a parsed body is decoded without a
// panic (HCL-012).
func FuzzJSON(f *testing.F) {
	for _, s := range []string{jsonSample, `{}`, `[]`, `[{"plugin": {}}]`, `{"a": {"b": [1, "${x}", null]}}`, `{"ferment": {"seed": "${1 + }"}}`, `{"locals": {"a": "%{ if true }x%{ endif }", "b": "$${x} \\ \" \n"}}`, `{"plugin": {"chess": [{"command": "${[\"bin/chess\"]}", "config": [{"depth": 1}, {"depth": 2}]}]}}`, `{"check": {"a": {"condition": "${<<EOT\nx\nEOT\n}"}}}`, "{\"//\": 1, \"a\": \"\\u0000\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 8192 {
			return
		}
		loadText(t, "x.hcl.json", raw)
		f := Format("x.hcl.json", raw)
		if f.Diagnostics.HasErrors() {
			return
		}
		if again := Format("x.hcl.json", f.After); again.Diagnostics.HasErrors() || again.Changed() {
			t.Fatalf("%q became %q, then %q", raw, f.After, again.After)
		}
	})
}

// FuzzMerge: native files merge and decode without a panic, and merging three files
// is associative (HCL-014).
func FuzzMerge(f *testing.F) {
	f.Add([]byte(sample), []byte(localsFirst), []byte("ferment {\n  seed = null\n}\n"))
	f.Add([]byte("plugin \"a\" {\n  env = { A = 1 }\n  config {\n    x = 1\n    y \"l\" {}\n  }\n}\n"), []byte("plugin \"a\" {\n  env = { (local.a) = 2 }\n}\n"), []byte("plugin \"a\" {\n  config = 3\n}\n"))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		if len(a)+len(b)+len(c) > 8192 {
			return
		}
		x, y, z := grown("a.hcl", a), grown("b.hcl", b), grown("c.hcl", c)
		left, right := merge(merge(x, y), z), merge(x, merge(y, z))
		if dumped(left) != dumped(right) {
			t.Fatalf("not associative:\n%s\n%s", dumped(left), dumped(right))
		}
		decodeTree(left)
	})
}

func grown(name string, raw []byte) *node {
	report := newCollector(sources{})
	s := newSource(name, "/"+name, 0, raw)
	var body hcl.Body
	if name == "x.hcl.json" {
		body = parseJSON(s, report)
	} else {
		body = parse(s, report)
	}
	root := &node{spec: Specification(), source: s}
	(&grower{source: s, report: report}).grow(root, body)
	return root
}

func loadText(t *testing.T, name string, raw []byte) {
	t.Helper()
	decodeTree(grown(name, raw))
}

// decodeTree evaluates and decodes a tree without files.
func decodeTree(root *node) {
	var rest []*node
	for _, b := range root.blocks {
		if b.spec.Name != "include" {
			rest = append(rest, b)
		}
	}
	root.blocks = rest
	l := loader{opts: Options{Env: noEnv}, files: sources{}, config: &Config{Root: "/nowhere", Profile: ProfileProd, prints: map[string]string{}}, variables: map[string]envVar{}, hashes: map[string]string{}}
	l.report = newCollector(l.files)
	l.decode(root)
	l.build()
	l.config.tree = l.root
	_, _ = l.config.Show(ShowOptions{Defaults: true, Origins: true})
	Compare(l.config, l.config)
}
