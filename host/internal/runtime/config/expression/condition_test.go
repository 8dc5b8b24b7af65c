package expression

import (
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"
)

// conditionOf compiles a condition and returns its diagnostics.
func conditionOf(text string, condition bool) (*program, diag.Diagnostics) {
	s := diag.NewSource("ferment.hcl", "/ferment.hcl", 0, []byte("c = "+text))
	report := diag.NewCollector(diag.Sources{s.Name: s})
	attr, ok := syntax.Parse(s, report).Attributes["c"]
	if !ok || report.Result().HasErrors() {
		return nil, report.Result()
	}
	p := Compile(syntax.ExprIn{Expr: attr.Expr, Source: s}, condition, []string{"check", "c", "condition"}, report)
	return p, report.Result()
}

func mustCondition(t testing.TB, text string) *program {
	t.Helper()
	p, ds := conditionOf(text, true)
	require.NotNil(t, p, "%s: %v", text, ds)
	return p
}

func subjectOf(result string) quality.Subject {
	return quality.Subject{Result: edn.MustRead(result), Request: edn.MustRead(`{:intent :text/respond :input {:prompt "hi"} :constraints {:max-chars 100}}`),
		Meta: edn.MustRead(`{:cap/id :llm/voice :finish :stop}`), Env: func() edn.Value { return edn.MustRead(`{:summary {:out {:text "s"}}}`) }}
}

// HCL-022, HCL-024: conditions over a result; an evaluation error is a finding.
func TestConditions(t *testing.T) {
	result := `{:text "Grüße" :n 3 :dec 1.10M :ok true :nil nil :list [1 2 3] :set #{:b :a} :kw :a/b :nested {:a {:b [10 20]}} "str key" 7 :cap/id :x/y :f 0.1 :sure? true}`
	pass, fail, broken := "pass", "fail", quality.CheckError
	for _, row := range []struct{ expr, want string }{
		{`true`, pass}, {`false`, fail},
		{`length(result.text)`, "error"}, {`(length(result.list))`, "error"}, {`keys(result)`, "error"},
		{`[for x in result.list : x]`, "error"}, {`result.list[*].a`, "error"}, {`coalesce(result.nil, true)`, pass},
		{`element([result.ok], 0)`, pass}, {`result.n + 1`, "error"},
		{`length(result.text) == 5`, pass}, {`length(result.list) == 3`, pass}, {`length(result) == 13`, pass},
		{`length(try(result.text, "")) <= 1200`, pass}, {`try(result.missing, "d") == "d"`, pass}, {`can(result.missing)`, fail}, {`can(result.text)`, pass},
		{`result.missing == 1`, broken}, {`result.nil == null`, pass}, {`result.nil`, broken}, {`result.text`, broken}, {`result.n`, broken},
		{`result.n > 2 && result.ok`, pass}, {`result.n == 3`, pass}, {`result.dec == 1.1`, pass}, {`result.f == 0.1`, pass}, {`result.f + 0.2 < 0.4`, pass},
		{`result["sure?"]`, pass}, {`result.sure`, broken}, {`result.kw == "a/b"`, pass}, {`result.set == ["a", "b"]`, pass}, {`result["str key"] == 7`, pass}, {`result["cap/id"] == "x/y"`, pass},
		{`result.nested.a.b[1] == 20`, pass}, {`result.nested.a.b[2] == 20`, broken}, {`contains(result.list, 2)`, pass}, {`contains(keys(result.nested), "a")`, pass},
		{`alltrue([for x in result.list : x > 0])`, pass}, {`anytrue([for x in result.list : x > 2])`, pass}, {`sum(result.list) == 6`, pass}, {`result.list[*] == [1, 2, 3]`, pass},
		{`max(result.list...) == 3`, pass}, {`min(1, 2) == 1`, pass}, {`abs(-1) == 1`, pass}, {`ceil(1.2) == 2`, pass}, {`floor(1.8) == 1`, pass}, {`parseint("ff", 16) == 255`, pass},
		{`matches("^Gr", result.text)`, pass}, {`regex("[a-z]+", "12ab") == "ab"`, pass}, {`regex("x", result.text) == "x"`, broken}, {`length(regexall("[0-9]", "1a2")) == 2`, pass},
		{`upper(result.text) == "GRÜSSE" || upper(result.text) == "GRÜßE"`, pass}, {`lower("AB") == "ab"`, pass}, {`substr(result.text, 1, 3) == "rüß"`, pass}, {`substr(result.text, 4, 3) == "x"`, broken},
		{`startswith(result.text, "Gr")`, pass}, {`endswith(result.text, "ße")`, pass}, {`trimspace(" a ") == "a"`, pass}, {`trim("xax", "x") == "a"`, pass},
		{`trimprefix("ab", "a") == "b"`, pass}, {`trimsuffix("ab", "b") == "a"`, pass}, {`replace("aba", "a", "c") == "cbc"`, pass}, {`split(",", "a,b") == tolist_missing(1)`, "error"},
		{`join("-", ["a", "b"]) == "a-b"`, pass}, {`format("%d-%s", 1, "a") == "1-a"`, pass}, {`chomp("a\n") == "a"`, pass}, {`indent(2, "a\nb") == "a\n  b"`, pass},
		{`tostring(1) == "1"`, pass}, {`tonumber("2") == 2`, pass}, {`tobool("true")`, pass}, {`tonumber("x") == 1`, "error"}, {`tonumber(result.text) == 1`, broken}, {`coalesce(result.nil, 4) == 4`, pass}, {`coalesce(null, null) == 1`, "error"}, {`coalesce(result.nil, result.nil) == 1`, broken},
		{`duration("1m") == 60000`, pass}, {`bytes("1KiB") == 1024`, pass}, {`duration(result.text) == 1`, broken},
		{`length(concat([1], [2])) == 2`, pass}, {`compact(["", "a"])[0] == "a"`, pass}, {`length(distinct([1, 1, 2])) == 2`, pass}, {`element([1, 2], 3) == 2`, pass}, {`flatten([[1], [2]])[1] == 2`, pass},
		{`values({ a = 1 })[0] == 1`, pass}, {`lookup(result.nested, "x", 5) == 5`, pass}, {`merge({ a = 1 }, { b = 2 }).b == 2`, pass}, {`reverse([1, 2])[0] == 2`, pass}, {`slice([1, 2, 3], 1, 2)[0] == 2`, pass},
		{`sort(["b", "a"])[0] == "a"`, pass}, {`zipmap(["a"], [1]).a == 1`, pass}, {`range(3)[2] == 2`, pass}, {`range(3, 0)[0] == 3`, pass}, {`range(0, 10, 5)[1] == 5`, pass},
		{`jsondecode(jsonencode({ a = [1] })).a[0] == 1`, pass},
		{`request.intent == "text/respond"`, pass}, {`request.input.prompt == "hi"`, pass}, {`length(result.text) <= try(request.constraints["max-chars"], 10)`, pass}, {`meta["cap/id"] == "llm/voice"`, pass},
		{`env.summary.out.text == "s"`, pass}, {`1 / 0 == 1`, "error"}, {`result.n / (result.n - 3) == 1`, broken}, {`result.n % (result.n - 3) == 1`, broken}, {`result.n == "3"`, fail}, {`!result.ok`, fail}, {`result.ok ? true : false`, pass},
		{`"${result.text}!" == "Grüße!"`, pass}, {`"%{ if result.ok }y%{ endif }" == "y"`, pass},
		{`local.x == 1`, "error"}, {`file("x") == ""`, "error"}, {`env("HOME") == ""`, "error"}, {`secret("env:X") == ""`, "error"}, {`edn("1") == 1`, "error"}, {`dispatch.x == 1`, "error"},
		{`request.foo == 1`, "error"}, {`lengthy(result) == 1`, "error"}, {`try(lengthy(result), 1) == 1`, "error"}, {`"yes"`, "error"}, {`1 + 1`, "error"}, {`matches("(", result.text)`, "error"}, {`length(1) == 1`, "error"},
	} {
		t.Run(row.expr, func(t *testing.T) {
			p, ds := conditionOf(row.expr, true)
			if row.want == "error" {
				assert.Nil(t, p)
				require.NotEmpty(t, ds)
				assert.NotNil(t, ds[0].Range)
				return
			}
			require.NotNil(t, p, "%v", ds)
			o := p.Judge()(subjectOf(result))
			got := fail
			if o.Pass {
				got = pass
			} else if len(o.Findings) > 0 {
				got = o.Findings[0].Code
				assert.Contains(t, o.Findings[0].Message, "ferment.hcl:1:", "the finding has the range")
			}
			assert.Equal(t, row.want, got, "%v", o.Findings)
		})
	}
}

// HCL-024: if applies fails, the check applies; messages are templates.
func TestAppliesAndMessage(t *testing.T) {
	p := mustCondition(t, `result.lang == "en"`)
	for input, want := range map[string]struct{ applies, unknown bool }{
		`{:lang "en"}`: {true, false},
		`{:lang "pl"}`: {false, false},
		`{}`:           {true, true},
	} {
		applies, unknown := p.Applies()(subjectOf(input))
		assert.Equal(t, want.applies, applies, input)
		assert.Equal(t, want.unknown, unknown != nil, input)
		if want.unknown {
			assert.Equal(t, quality.CheckError, unknown.Code)
			assert.Contains(t, unknown.Message, "lang")
		}
	}

	m, ds := conditionOf(`"${length(result.text)} characters, at most ${request.constraints["max-chars"]}"`, false)
	require.NotNil(t, m, "%v", ds)
	assert.Equal(t, "3 characters, at most 100", m.Message("short")(subjectOf(`{:text "abc"}`)))
	assert.Contains(t, m.Message("short")(subjectOf(`{}`)), "its message cannot be made")
}

// HCL-025: limits at load.
func TestGateBoundsAtLoad(t *testing.T) {
	for name, text := range map[string]string{
		"source":         `"` + strings.Repeat("x", MaxGateSource) + `" == "x"`,
		"operators":      "1" + strings.Repeat("+1", MaxGateOperators) + " > 1",
		"loop in loop":   `alltrue([for x in result : alltrue([for y in x : y])])`,
		"splat in loop":  `alltrue([for x in result : length(x[*].a) > 1])`,
		"loop in splat?": `alltrue([for x in [for y in result : y] : x])`,
	} {
		t.Run(name, func(t *testing.T) {
			p, ds := conditionOf(text, true)
			if name == "loop in splat?" {
				// Nested loops are rejected even if the inner loop runs once.
				assert.Nil(t, p)
			}
			require.Nil(t, p)
			require.Len(t, ds, 1)
			assert.Equal(t, "config/limit", ds[0].Type)
		})
	}
	p, ds := conditionOf("1"+strings.Repeat("+1", MaxGateOperators-1)+" > 1", true)
	assert.NotNil(t, p, "%v", ds)
}

// HCL-025: limits during evaluation; time and memory are bounded for every
// expression.
func TestGateBoundsAtRun(t *testing.T) {
	mib := strings.Repeat("x", 1<<20-100)
	list := make([]edn.Value, 20_000)
	for i := range list {
		list[i] = edn.Int(int64(i))
	}
	short := edn.MustMap(edn.K("list"), edn.Vector(list[:2000]...))
	big := edn.MustMap(edn.K("text"), edn.Text(mib))
	long := edn.MustMap(edn.K("list"), edn.Vector(list...), edn.K("s"), edn.Text(strings.Repeat("x", 10_000)), edn.K("n"), edn.Int(1_000_000), edn.K("e"), edn.Text("1e999999999"))
	huge := edn.MustMap(edn.K("text"), edn.Text(mib), edn.K("more"), edn.Text(mib))
	deep := edn.MustMap(edn.K("list"), edn.Vector(edn.Vector(list...), edn.Vector(list...), edn.Vector(list...), edn.Vector(list...), edn.Vector(list...), edn.Vector(list...)))
	for _, row := range []struct {
		name, expr string
		result     edn.Value
	}{
		{"value over 1 MiB", `length(result.text) > 0`, huge},
		{"value over 100,000 elements", `length(result.list) > 0`, deep},
		{"replace", `length(replace(result.text, "x", "` + strings.Repeat("y", 3000) + `")) > 0`, big},
		{"join", `length(join(result.text, ["a", "b", "c", "d", "e", "f", "g"])) > 0`, big},
		{"template", `length("` + strings.Repeat("${result.text}", 200) + `") > 0`, big},
		{"template in a loop", `length([for x in range(10000) : "${x}${result.text}"]) > 0`, big},
		{"split", `length(split("", result.text)) > 0`, big},
		{"regexall", `length(regexall("x", result.text)) > 0`, big},
		{"indent", `length(indent(result.n, "a\nb\nc\nd\ne\nf\n")) > 0`, long},
		{"format", `length(format("%${result.n}d", 1)) > 0`, long},
		{"format of many", `length([for x in result.list : format("%999d", x)]) > 0`, long},
		{"loop", `length([for x in result.list : [for2(x)]]) > 0`, long},
		{"work in a loop", `length([for x in result.list : replace(result.s, "x", "y")]) > 0`, long},
		{"hidden by try", `try(length([for x in result.list : contains(result.list, -1)]) > 0, true)`, short},
		{"nested try", strings.Repeat("try(", 60) + `result.missing` + strings.Repeat(", result.list[99999999])", 60) + " == 1", long},
		{"distinct", `length(distinct(concat(result.list, result.list, result.list, result.list, result.list, result.list))) > 0`, long},
		{"tonumber", `tonumber(result.e) > 0`, long},
		{"range", `length(range(result.n)) > 0`, long},
		{"conditional types", `length(result.n == 1 ? result.list : [1, 2]) > 0`, long},
		{"comparisons", strings.Repeat("result.list != result.list || ", 100) + "false", long},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, ds := conditionOf(row.expr, true)
			if row.name == "loop" {
				assert.Nil(t, p)
				return
			}
			require.NotNil(t, p, "%v", ds)
			start := time.Now()
			o := p.Judge()(quality.Subject{Result: row.result})
			assert.Less(t, time.Since(start), time.Minute, "a second or two; the margin is for a busy machine")
			switch row.name {
			case "range", "tonumber", "nested try":
				require.Len(t, o.Findings, 1)
				assert.Equal(t, quality.CheckError, o.Findings[0].Code)
			case "distinct", "format of many":
				// only the time is checked
			case "replace":
				require.Equal(t, CheckLimit, o.Findings[0].Code)
				small := edn.MustMap(edn.K("text"), edn.Text("x"))
				assert.True(t, p.Judge()(quality.Subject{Result: small}).Pass, "the meter starts anew")
			default:
				require.Len(t, o.Findings, 1, "%v", o)
				assert.Equal(t, CheckLimit, o.Findings[0].Code, "%v", o.Findings)
			}
		})
	}
}

// A program is safe for concurrent use (HCL-022).
func TestConditionConcurrent(t *testing.T) {
	p := mustCondition(t, `length(result.text) == result.n && alltrue([for x in result.list : x > 0])`)
	judge := p.Judge()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			s := subjectOf(fmt.Sprintf(`{:text %q :n %d :list [1 2]}`, strings.Repeat("x", i), i))
			for range 50 {
				assert.True(t, judge(s).Pass)
			}
		})
	}
	wg.Wait()
}

// HCL-023: two keys with the same text, tagged values, instants.
func TestToCty(t *testing.T) {
	p := mustCondition(t, `result.a == 1`)
	o := p.Judge()(quality.Subject{Result: edn.MustMap(edn.K("a"), edn.Int(1), edn.Text("a"), edn.Int(2))})
	require.Len(t, o.Findings, 1)
	assert.Contains(t, o.Findings[0].Message, "two keys")
	for expr, result := range map[string]string{
		`result.t.tag == "my/tag" && result.t.value == 1`:    `{:t #my/tag 1}`,
		`result.i == "2026-11-20T09:00:00.000Z"`:             `{:i #inst "2026-11-20T10:00:00+01:00"}`,
		`result.u == "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`: `{:u #uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}`,
		`result.c == "x" && result.s == "sym"`:               `{:c \x :s sym}`,
		`result.big == 123456789012345678901234567890`:       `{:big 123456789012345678901234567890}`,
		`result["1"] == "int key"`:                           `{1 "int key"}`,
		`result.list == ["a", [1], null]`:                    `{:list ("a" [1] nil)}`,
		`result.d == 0.00000000000000000000000000001`:        `{:d 0.00000000000000000000000000001M}`,
	} {
		assert.True(t, mustCondition(t, expr).Judge()(quality.Subject{Result: edn.MustRead(result)}).Pass, expr)
	}
}

// plainValues generates values with an HCL literal: strings, numbers, lists, maps.
func plainValues() *rapid.Generator[edn.Value] {
	leaf := rapid.OneOf(
		rapid.Just(edn.Nil()),
		rapid.Map(rapid.Bool(), edn.Bool),
		rapid.Map(rapid.Int64(), edn.Int),
		rapid.Custom(func(t *rapid.T) edn.Value {
			n := new(big.Int).SetInt64(rapid.Int64().Draw(t, "n"))
			return edn.BigInt(n.Mul(n, big.NewInt(rapid.Int64().Draw(t, "m"))))
		}),
		rapid.Custom(func(t *rapid.T) edn.Value {
			d, err := edn.Decimal(big.NewInt(rapid.Int64().Draw(t, "coef")*10+1), -rapid.IntRange(1, 30).Draw(t, "exp"))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}),
		rapid.Custom(func(t *rapid.T) edn.Value { return edn.Text(rapid.StringMatching(`[a-z0-9 "\\é]{0,12}`).Draw(t, "s")) }),
	)
	var value func(depth int) *rapid.Generator[edn.Value]
	value = func(depth int) *rapid.Generator[edn.Value] {
		if depth == 0 {
			return leaf
		}
		inner := value(depth - 1)
		return rapid.OneOf(leaf,
			rapid.Custom(func(t *rapid.T) edn.Value { return edn.Vector(rapid.SliceOfN(inner, 0, 4).Draw(t, "items")...) }),
			rapid.Custom(func(t *rapid.T) edn.Value {
				var b edn.MapBuilder
				for k, v := range rapid.MapOfN(rapid.StringMatching(`[a-z][a-z0-9]{0,5}(-[a-z]{1,3})?`), inner, 0, 4).Draw(t, "entries") {
					b.Key(k, v)
				}
				return b.Map()
			}))
	}
	return value(4)
}

// HCL-023, HCL-044: the conversion from EDN to HCL and back is exact for values with
// an HCL literal, and always exact inside edn().
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := plainValues().Draw(t, "v")
		c, err := toCty(v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := FromCty(c)
		if err != nil {
			t.Fatal(err)
		}
		if !edn.Equal(v, back) {
			t.Fatalf("%s came back as %s", v, back)
		}
		if err := measure(v); err != nil {
			t.Fatal(err)
		}
		again, err := FromCty(ednCapsule(edn.MustTagged("x/y", v)))
		if err != nil || !edn.Equal(again, edn.MustTagged("x/y", v)) {
			t.Fatalf("edn(): %s, %v", again, err)
		}
	})
}

// A condition gives the same result for the needed part of a value as for the whole.
func TestNeedsAreEnough(t *testing.T) {
	whole := &need{all: true}
	v := edn.MustRead(`{:a {:b {:c [1 {:d 2}]} :e 5} :f "x"}`)
	for _, expr := range []string{`result.a.b.c[1].d`, `result.a`, `result.a.b["c"][0]`, `result.f`, `[result.a.e, result.a.b]`, `[for k, x in result.a : k]`, `result["a"].e`} {
		parsed, diags := hclsyntax.ParseExpression([]byte(expr), "x", hcl.InitialPos)
		require.False(t, diags.HasErrors())
		p := &program{needs: map[string]*need{}}
		for _, tr := range parsed.Variables() {
			p.require(tr)
		}
		part, err := p.needs["result"].convert(v)
		require.NoError(t, err)
		all, err := whole.convert(v)
		require.NoError(t, err)
		got, diags := parsed.Value(&hcl.EvalContext{Variables: map[string]cty.Value{"result": part}})
		require.False(t, diags.HasErrors(), expr)
		want, _ := parsed.Value(&hcl.EvalContext{Variables: map[string]cty.Value{"result": all}})
		assert.True(t, want.RawEquals(got), expr)
	}
}

// HCL-025: at most 20 us for a 1 KiB result and 10 operators.
func BenchmarkCondition(b *testing.B) {
	p := mustCondition(b, `length(try(result.text, "")) <= 1200 && result.score >= 0.5 && result.ok && !startswith(result.text, "Sorry") && length(result.tags) > 1 && contains(result.tags, "a")`)
	judge := p.Judge()
	s := subjectOf(`{:text "` + strings.Repeat("lorem ipsum ", 70) + `" :score 0.75 :ok true :tags ["a" "b" "c"] :meta {:x 1 :y [1 2 3 4 5 6 7 8 9 10] :z {:a "b" :c "d"}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if !judge(s).Pass {
			b.Fatal("does not pass")
		}
	}
}

// HCL-025: no gate expression and no value makes an evaluation panic.
func FuzzCondition(f *testing.F) {
	for _, s := range []string{`length(try(result.text, "")) <= 1200`, `alltrue([for x in result.list : x > 0])`, `"${result.text}%{ if result.ok }x%{ endif }" == "a"`, `result.list[*].a == [1]`, `format("%5d", result.n) == "x"`, `regexall("a+", result.text) == []`, `jsondecode(jsonencode(result)).n == 1 ? true : can(result.x)`, `substr(result.text, -1, 2) == range(1, 10, 2)[0]`, `1 / result.n > 2 && matches(result.text, "a")`} {
		f.Add(s)
	}
	s := subjectOf(`{:text "Grüße" :n 0 :ok true :nil nil :list [{:a 1} 2 "x"] :set #{:b :a} :kw :a/b :f 0.1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > MaxGateSource {
			return
		}
		p, ds := conditionOf(text, true)
		if p == nil {
			if !ds.HasErrors() {
				t.Fatal("refused without a word")
			}
			return
		}
		start := time.Now()
		first := p.Judge()(s)
		if d := time.Since(start); d > 10*time.Second {
			t.Fatalf("takes %v: %v", d, first)
		}
		second := p.Judge()(s)
		if first.Pass != second.Pass || len(first.Findings) != len(second.Findings) {
			t.Fatalf("not the same verdict twice: %v, %v", first, second)
		}
	})
}
