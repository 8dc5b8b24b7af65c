package config

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// written is an attribute of the specification with its enclosing blocks.
type written struct {
	path  string // with dots
	chain []*Block
	attr  *Attr
}

// everyAttribute returns all attributes of the specification.
func everyAttribute() []written {
	var out []written
	var walk func(b *Block, path string, chain []*Block)
	walk = func(b *Block, path string, chain []*Block) {
		for i := range b.Attrs {
			out = append(out, written{join(path, b.Attrs[i].Name), chain, &b.Attrs[i]})
		}
		for i := range b.Blocks {
			inner := &b.Blocks[i]
			walk(inner, join(path, inner.Name), append(chain[:len(chain):len(chain)], inner))
			for k := range inner.Variants {
				v := &inner.Variants[k]
				walk(v, join(path, inner.Name)+" "+v.Only, append(chain[:len(chain):len(chain)], v))
			}
		}
	}
	walk(Specification(), "", nil)
	return out
}

// specPath returns the path without the label of a variant.
func (w written) specPath() string {
	block, rest, ok := strings.Cut(w.path, " ")
	if !ok {
		return w.path
	}
	_, attr, _ := strings.Cut(rest, ".")
	return join(block, attr)
}

// Labels and required attributes of the files that TestEveryAttribute writes.
var labels = map[string]string{"plugin": "chess", "capability": "chess/engine", "include": "extra/*.hcl", "schema": "a/b", "check": "c", "dispatch": "d", "intent": "chess/best-move",
	"rule": "fs/read", "secret": "github", "role": "clerk", "judge": "j", "rubric": "answer", "criterion": "a"}

var required = map[string][]string{
	"plugin": {`command = ["bin/chess"]`}, "capability": {`plugin = "chess"`}, "schema": {`spec = edn(":any")`}, "check": {`builtin = "max-chars"`},
	"intent": {`in = "req/chess.position"`, `out = "res/chess.move+pv+eval"`}, "secret": {`value = secret("env:A")`},
	"rubric": {`criterion "b" { ask = "is it true?" }`}, "criterion": {`ask = "is it short?"`},
}

// file returns the smallest file with the attribute set to a value.
func (w written) file(value string) string {
	var b strings.Builder
	top := w.chain[0]
	if top.Name != "plugin" {
		b.WriteString("plugin \"chess\" {\n  command = [\"bin/chess\"]\n}\n")
	}
	for i, blk := range w.chain {
		b.WriteString(blk.Name)
		if blk.Label != LabelNone {
			label := labels[blk.Name]
			if blk.Only != "" {
				label = blk.Only
			}
			fmt.Fprintf(&b, " %q", label)
		}
		b.WriteString(" {\n")
		if i == 0 || blk.Name == "secret" || blk.Name == "criterion" {
			for _, line := range required[blk.Name] {
				if !strings.HasPrefix(line, w.attr.Name+" ") && !(blk.Name == "check" && (w.attr.Name == "condition" || w.attr.Name == "intent")) {
					b.WriteString(line + "\n")
				}
			}
		}
	}
	fmt.Fprintf(&b, "%s = %s\n%s", w.attr.Name, value, strings.Repeat("}\n", len(w.chain)))
	return b.String()
}

// values returns values at the bounds of a type's range, beyond them, and of
// another type.
func (t Type) values() (good, beyond, other []string) {
	num := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch t.Kind {
	case KindBool:
		return []string{"true", "false"}, nil, []string{`"true"`, "1"}
	case KindInt:
		return []string{num(*t.Min), num(*t.Max)}, []string{num(*t.Min - 1), num(*t.Max + 1)}, []string{`"` + num(*t.Max) + `"`, num(*t.Min) + ".5"}
	case KindNum:
		return []string{num(*t.Min), num(*t.Max)}, []string{num(*t.Min - 0.1), num(*t.Max + 0.1)}, []string{`"` + num(*t.Max) + `"`, "[]"}
	case KindDec:
		return []string{"0", `"0.000000000000000001"`, "1.5"}, []string{"-1", `"-0.5"`, `"1234567890123456789012345678901234567.5"`}, []string{`"cheap"`, "true"}
	case KindDur:
		good = []string{quote(formatDuration(int64(*t.Min))), quote(formatDuration(int64(*t.Max)))}
		if *t.Min > 0 {
			beyond = append(beyond, quote(fmt.Sprintf("%dms", int64(*t.Min)-1)))
		}
		return good, append(beyond, quote(fmt.Sprintf("%dms", int64(*t.Max)+1))), []string{`"soon"`, "5", `"-1s"`, `"1.0001ms"`, `""`}
	case KindBytes:
		good = []string{num(*t.Min), num(*t.Max), quote(formatBytes(int64(*t.Max)))}
		return good, []string{num(*t.Min - 1), num(*t.Max + 1), `"9999999GiB"`}, []string{`"big"`, `"1KX"`, "true", `"1.5B"`}
	case KindEnum:
		for _, w := range t.Enum {
			good = append(good, quote(w))
		}
		return good, []string{`"` + t.Enum[0] + `x"`}, []string{"1", "[]"}
	case KindStr:
		return []string{`"a"`}, nil, []string{"1", "true", `["a"]`}
	case KindPath, KindRun:
		return []string{`"a"`, `"/a/b"`, `"../a"`}, nil, []string{"1", `""`}
	case KindVariable:
		return []string{`"A"`, `"_a1"`}, nil, []string{`""`, `"1A"`, `"A-B"`, "1"}
	case KindRate:
		return []string{`"20/s"`}, nil, []string{"20", `"fast"`}
	case KindListen:
		return []string{`"127.0.0.1:0"`, `"[::1]:65535"`, `"localhost:7180"`}, nil, []string{`"0.0.0.0:80"`, `":80"`, `"10.0.0.1:80"`, `"[::]:80"`, `"127.0.0.1"`, `"127.0.0.1:65536"`, `"127.0.0.1:-1"`, `"a b:1"`, "1"}
	case KindHostName:
		return []string{`"a"`, `"ferment.example.org"`}, nil, []string{`""`, `"a:1"`, `"http://a"`, `"*"`, "1"}
	case KindVersion:
		return []string{`">= 0.1, < 2.0"`, `"1.0.0"`}, nil, []string{`"newest"`, "1", `""`}
	case KindSwitch:
		return []string{`"runtime/crashed"`, `"class/retry"`, `"provider/*"`, `"invalid-result"`}, nil, []string{`"runtime/crashd"`, `"class/stop"`, "1"}
	case KindRef:
		return nil, nil, []string{"1", "[]"}
	case KindCond:
		return []string{"true", "result.ok", `length(try(result.text, "")) > 3`}, nil, []string{`"yes"`, "result +", "nope()"}
	case KindTemplate:
		return []string{`"a"`, `"${request.intent}: ${result.text}"`}, nil, []string{"nope()"}
	case KindEDN:
		return []string{`edn(":any")`, `":any"`}, nil, []string{`edn("[")`, `secret("env:A")`}
	case KindLayer:
		return []string{`"a"`, `["a", "b {language}"]`, "[]"}, nil, []string{"1", "[1]", "[null]", `{ a = "b" }`, `{ file = 1 }`}
	case KindMap:
		good, other = []string{"{}"}, []string{"[]", `"a"`, "1"}
		if t.Elem != nil {
			g, _, o := t.Elem.values()
			good = append(good, "{ A = "+g[0]+" }", `{ "A_b" = `+g[0]+" }")
			other = append(other, "{ A = "+o[0]+" }")
			if t.Key != nil {
				other = append(other, `{ "A b" = `+g[0]+" }")
			}
		}
		return good, nil, other
	case KindList, KindSet:
		g, b, o := t.Elem.values()
		other = []string{"1", `"a"`, "{}", "[null]"}
		for _, v := range g {
			good = append(good, "["+v+"]")
		}
		for _, v := range append(b, o...) {
			other = append(other, "["+v+"]")
		}
		low, high := 0, 0
		if t.Min != nil {
			low = int(*t.Min)
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

// HCL-044, HCL-019: each attribute at, below and above its range, and of
// another type.
func TestEveryAttribute(t *testing.T) {
	// Attributes whose values in range are invalid for another reason.
	elsewhere := map[string]bool{
		"plugin.command": true, "plugin.files": true, "plugin.workdir": true, // missing paths
		"ferment.root": true, "judge.anchors": true, "effects.secret.hosts": true, "effects.secret.header": true, // and a secret
		"plugin.isolation.cpu": true,                                                    // not enforceable
		"check.builtin":        true, "check.intent": true, "capability.provides": true, // unknown names, and checks without a kind
		"prompts.language_packs": true, "include.optional": true, "http.tls.cert_file": true, "http.tls.key_file": true, // missing files
		"rubric.scale":    true,                                                                                                                          // must be ascending
		"capability.role": true, "intent.role": true, "prompts.roles": true, "prompts.intents": true, "prompts.fragments": true, "prompts.allowed": true, // names that refer to each other
		"ferment.requires": true, "plugin.version": true,
		"capability.effects": true, "schema.spec": true, "check.condition": true,
		"plugin.restart.backoff": true, "plugin.restart.max_backoff": true, "plugin.health.timeout": true, "plugin.health.interval": true,
		// keys that are programs, and prefixes and hosts with their own grammar
		"effects.scope process/run.arguments": true, "capability.scope process/run.arguments": true, "role.scope process/run.arguments": true,
		"dispatch.breaker.window": true, "dispatch.breaker.min_samples": true, "dispatch.breaker.base": true, "dispatch.breaker.ceiling": true, "dispatch.breaker.ramp": true,
		"capability.breaker.window": true, "capability.breaker.min_samples": true, "capability.breaker.base": true, "capability.breaker.ceiling": true, "capability.breaker.ramp": true,
		"plugin.quality.window": true, "plugin.quality.min_samples": true, "intent.quality.window": true, "intent.quality.min_samples": true,
		"dispatch.retry.backoff": true, "dispatch.retry.max_backoff": true, "plugin.instances.min": true,
	}
	for _, w := range everyAttribute() {
		t.Run(w.path, func(t *testing.T) {
			good, beyond, other := w.attr.Type.values()
			r, isReserved := reservedAt(w.specPath())
			if isReserved && !r.partly() {
				_, ds := load(t, w.file(append(good, other...)[0]))
				assert.Contains(t, types(ds), "config/reserved")
				return
			}
			for _, v := range good {
				_, ds := load(t, w.file(v))
				found := types(ds)
				if isReserved && len(found) == 1 && !elsewhere[w.path] {
					assert.Equal(t, "config/reserved", found[0], "%s = %s", w.path, v)
				} else if !elsewhere[w.path] {
					assert.Empty(t, found, "%s = %s\n%s", w.path, v, newReport(ds, 0, 1, 9).Text(false))
				}
			}
			for _, v := range beyond {
				_, ds := load(t, w.file(v))
				require.NotEmpty(t, types(ds), "%s = %s", w.path, v)
				assert.Equal(t, "config/range", types(ds)[0], "%s = %s\n%s", w.path, v, newReport(ds, 0, 1, 9).Text(false))
				assert.Equal(t, w.attr.Name, ds[0].Path[len(ds[0].Path)-1])
			}
			for _, v := range other {
				_, ds := load(t, w.file(v))
				assert.NotEmpty(t, types(ds), "%s = %s", w.path, v)
			}
			_, ds := load(t, w.file("null"))
			if w.attr.Required {
				assert.NotEmpty(t, types(ds), "%s = null", w.path)
			} else if !elsewhere[w.path] {
				assert.Empty(t, types(ds), "%s = null\n%s", w.path, newReport(ds, 0, 1, 9).Text(false))
			}
		})
	}
}

// HCL-001: every attribute has a type, a reload effect and a requirement; every
// default is a value of its type.
func TestSpecificationIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range everyAttribute() {
		assert.False(t, seen[w.path], "%s is there twice", w.path)
		seen[w.path] = true
		assert.Contains(t, "NUPH", string(w.attr.Reload), w.path)
		assert.NotEmpty(t, w.attr.Serves, w.path)
		assert.NotEmpty(t, w.attr.Type.String(), w.path)
		if w.attr.Default == "" {
			continue
		}
		assert.False(t, w.attr.Required, "%s is required and has a default", w.path)
		expr, diags := hclsyntax.ParseExpression([]byte(w.attr.Default), "default", hcl.InitialPos)
		require.False(t, diags.HasErrors(), w.path)
		report := newCollector(sources{})
		d := newDecoder(newEvaluator(report, newInputs("/", noEnv)))
		_, ok := d.decode(w.attr.Type, expr, newSource("x", "/x", 0, []byte(w.attr.Default)), []string{"x", w.attr.Name})
		assert.True(t, ok, "%s = %s: %v", w.path, w.attr.Default, report.list)
	}
}

// Each reserved name is rejected with a message and a range.
func TestReserved(t *testing.T) {
	known := map[string]bool{}
	var walk func(b *Block, path string)
	walk = func(b *Block, path string) {
		for _, a := range b.Attrs {
			known[join(path, a.Name)] = true
		}
		for i := range b.Blocks {
			known[join(path, b.Blocks[i].Name)] = true
			walk(&b.Blocks[i], join(path, b.Blocks[i].Name))
			for k := range b.Blocks[i].Variants {
				walk(&b.Blocks[i].Variants[k], join(path, b.Blocks[i].Name))
			}
		}
	}
	walk(Specification(), "")
	for _, r := range reservedTable {
		t.Run(r.path, func(t *testing.T) {
			assert.NotEmpty(t, r.what)
			if !strings.Contains(r.path, ".") {
				_, ds := load(t, r.path+" {}\n")
				require.Equal(t, []string{"config/reserved"}, types(ds))
				assert.Equal(t, "1:1", fmt.Sprintf("%d:%d", ds[0].Range.Start.Line, ds[0].Range.Start.Column))
				assert.Contains(t, ds[0].Message, r.what)
				return
			}
			assert.True(t, known[r.path], "the specification has no %s", r.path)
		})
	}
}

// HCL-019: the units of durations and sizes.
func TestUnits(t *testing.T) {
	for text, want := range map[string]int64{"1h30m": 5_400_000, "250ms": 250, "1.5s": 1500, "1d": 86_400_000, "2m30s5ms": 150_005, "0s": 0, "30m1h": 5_400_000} {
		got, err := parseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5", "s", "-1s", "1 s", "1S", "1h30", "1w", "0.1ms", "1..5s", "99999999999999999999d"} {
		_, err := parseDuration(text)
		assert.Error(t, err, text)
	}
	for text, want := range map[string]int64{"0B": 0, "512KiB": 524_288, "1.5GB": 1_500_000_000, "3MB": 3_000_000, "2MiB": 2 << 20, "1KB": 1000} {
		got, err := parseBytes(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5", "KiB", "-1B", "1 KiB", "1kib", "1.5B", "99999999999GiB"} {
		_, err := parseBytes(text)
		assert.Error(t, err, text)
	}
	for _, ms := range []int64{0, 1, 1000, 5_400_000, 90_061_001} {
		back, err := parseDuration(formatDuration(ms))
		require.NoError(t, err)
		assert.Equal(t, ms, back)
	}
	events, period, err := parseRate("5/min")
	require.NoError(t, err)
	assert.Equal(t, []int64{5, 60_000}, []int64{events, period})
	for _, text := range []string{"", "5", "5/", "/s", "5/week", "-1/s", "1.5/s"} {
		_, _, err := parseRate(text)
		assert.Error(t, err, text)
	}
}

// WIRE-005: version constraints.
func TestConstraints(t *testing.T) {
	for _, row := range []struct {
		constraint, version string
		want                bool
	}{
		{">= 0.4, < 1.0", "0.4.0", true}, {">= 0.4, < 1.0", "1.0.0", false}, {">= 0.4, < 1.0", "0.3.9", false},
		{"1.2.3", "v1.2.3", true}, {"= 1.2", "1.2.1", false}, {"!= 1.2.0", "1.2.0", false}, {"> 1", "1.0.1", true}, {"<= 2", "2.0.0", true},
		{">= 1.0.0", "1.0.0-rc1", false}, {"> 1.0.0-rc1", "1.0.0-rc2", true}, {">= 1.0", "1.0.0+build", true},
	} {
		c, err := parseConstraint(row.constraint)
		require.NoError(t, err)
		v, ok := parseVersion(row.version)
		require.True(t, ok)
		assert.Equal(t, row.want, c.allows(v), "%s allows %s", row.constraint, row.version)
	}
	for _, bad := range []string{"", ">=", "1.x", "1,,2", "~> 1", "1.2.3.4"} {
		_, err := parseConstraint(bad)
		assert.Error(t, err, bad)
	}
}
