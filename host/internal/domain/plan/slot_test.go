package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// truthEnv is the environment of the truth table of section 2: :a is a call, :f
// an allowed failed call, :v a let, :s a skipped node, :b a binding. The last
// node holds the value under test.
func truthEnv(t testing.TB, value string) (*plan.Program, *plan.Frame) {
	t.Helper()
	prog := load(t, `{:bindings {:b "x"} :nodes [
	  {:op :call :intent :text/respond :input {:prompt "p"} :as :a}
	  {:op :call :intent :text/respond :input {:prompt "p"} :dispatch {:allow-failure? true} :as :f}
	  {:op :let :value 7 :as :v}
	  {:op :let :value 1 :when {:failed? :a} :as :s}
	  {:op :call :intent :text/respond :input {:prompt "p"} :as :j}
	  {:op :tool :tool/id :fs/read :input {} :effects {:allowed #{:fs/read}} :as :t}
	  {:op :plan :plan {:nodes []} :as :p}
	  {:op :let :value `+value+` :as :out}]}`, testEnv(t))
	f := plan.NewFrame(prog, edn.Nil())
	f.Set(0, plan.CallSlot(&plan.Result{
		ID: "llm/voice", Out: edn.MustRead(`{:text "t" :n 0 :ok false :nil nil :list [[1 2] (3 4)] :set #{1} "json" {"k" 5 "9" "nine"} :error "mine"}`),
		Envelope: edn.MustRead(`{:proto 1 :result {:type :value :out {}}}`), Meta: edn.MustRead(`{:model "m"}`),
	}))
	failure := contract.Errorf("timeout/hard", "too slow")
	f.Set(1, plan.CallSlot(&plan.Result{ID: "llm/voice", Error: failure.Value(), FailureType: "timeout/hard", Recover: true, Failure: failure}))
	f.Set(2, plan.ValueSlot(edn.Int(7)))
	f.Set(4, plan.CallSlot(&plan.Result{ID: "llm/voice", Out: edn.MustRead(`{"text" "from json" "n" 1}`)}))
	f.Set(5, plan.ToolSlot(&plan.Result{ID: "fs/read", Out: edn.MustRead(`{:text "file"}`)}))
	f.Set(6, plan.PlanSlot(&plan.Result{Out: edn.MustRead(`{:x 1}`), Run: edn.MustRead(`{:ok? true}`)}))
	return prog, f
}

func fillLast(t testing.TB, value string) (edn.Value, *contract.Error) {
	t.Helper()
	prog, f := truthEnv(t, value)
	n := &prog.Plan.Nodes[len(prog.Plan.Nodes)-1]
	v, coerced, err := n.Value.Fill(f, nil)
	assert.Empty(t, coerced)
	return v, err
}

const unresolved = "slot/unresolved"

// TestSlotTruthTable holds every row of the truth table of section 2 (SLOT-001,
// SLOT-003, SLOT-004, SLOT-010) and the rules around it.
func TestSlotTruthTable(t *testing.T) {
	for _, row := range []struct{ id, slot, want string }{
		{"SLOT-001", `{:slot/id :v}`, "7"},
		{"SLOT-001", `{:slot/id :a}`, `{:cap/id :llm/voice :invoke/meta {:model "m"} :out {"json" {"9" "nine" "k" 5} :error "mine" :list [[1 2] (3 4)] :n 0 :nil nil :ok false :set #{1} :text "t"} :result {:proto 1 :result {:out {} :type :value}}}`},
		{"SLOT-001", `{:slot/id [:a :out :text]}`, `"t"`},
		{"SLOT-001", `{:slot/path [:a :text]}`, `"t"`},
		{"SLOT-001", `{:slot/path [:a :out :n]}`, "0"},
		{"SLOT-003", `{:slot/path [:a :ok]}`, "false"},
		{"SLOT-003", `{:slot/path [:v :x]}`, unresolved},
		{"SLOT-001", `{:slot/id :a :note 1}`, `{:note 1 :slot/id :a}`},
		{"SLOT-010", `{:slot/path [:a :nil]}`, unresolved},
		{"SLOT-010", `{:slot/path [:a :nil] :slot/default nil}`, "nil"},
		{"SLOT-003", `{:slot/id :s}`, unresolved},
		{"SLOT-003", `{:slot/id :s :slot/default "d"}`, `"d"`},
		{"SLOT-003", `{:slot/path [:f :text]}`, unresolved},
		{"SLOT-004", `{:slot/path [:f :failure/type]}`, ":timeout/hard"},
		{"SLOT-001", `{:slot/id :b}`, `"x"`},
		{"SLOT-001", `{:slot/id :a :slot/path [:a]}`, `{:slot/id :a :slot/path [:a]}`},

		{"SLOT-001", `{:slot/path [:v]}`, "7"},
		{"SLOT-001", `{:slot/id [:v] :slot/default 1}`, "7"},
		{"SLOT-001", `{:slot/id :a :slot/default 1 :x 2}`, `{:slot/default 1 :slot/id :a :x 2}`},
		{"SLOT-001", `{:slot/default 1}`, `{:slot/default 1}`},
		{"SLOT-001", `{:slot/path [:a :error]}`, `"mine"`},
		{"SLOT-004", `{:slot/path [:f :failure/recover?]}`, "true"},
		{"SLOT-004", `{:slot/path [:f :error :type]}`, ":timeout/hard"},
		{"SLOT-004", `{:slot/path [:a :cap/id]}`, ":llm/voice"},
		{"SLOT-004", `{:slot/path [:a :result :proto]}`, "1"},
		{"SLOT-004", `{:slot/path [:a :invoke/meta :model]}`, `"m"`},
		{"SLOT-004", `{:slot/path [:t :tool/id]}`, ":fs/read"},
		{"SLOT-004", `{:slot/path [:t :cap/id]}`, unresolved},
		{"SLOT-004", `{:slot/path [:p :x]}`, "1"},
		{"SLOT-004", `{:slot/id :p}`, `{:out {:x 1} :plan/run {:ok? true}}`},
		{"SLOT-005", `{:slot/path [:a :list 0 1]}`, "2"},
		{"SLOT-005", `{:slot/path [:a :list 1 0]}`, "3"},
		{"SLOT-005", `{:slot/path [:a :list 7]}`, unresolved},
		{"SLOT-005", `{:slot/path [:a :list :x]}`, unresolved},
		{"SLOT-005", `{:slot/path [:a :set 1]}`, unresolved},
		{"SLOT-005", `{:slot/path [:a :set 0]}`, unresolved},
		{"SLOT-005", `{:slot/path [:a :json :k]}`, "5"},
		{"SLOT-005", `{:slot/path [:a "json" "k"]}`, "5"},
		{"SLOT-005", `{:slot/path [:a :json 9]}`, `"nine"`},
		{"SLOT-005", `{:slot/path [:j :text]}`, `"from json"`},
		{"SLOT-005", `{:slot/path [:a :text 0]}`, unresolved},
		{"SLOT-001", `[{:slot/id :v} {:deep ({:slot/path [:a :n]} #{{:slot/id :b}})}]`, `[7 {:deep (0 #{"x"})}]`},
		{"SLOT-007", `{{:slot/id :v} 1 :s "{:slot/id :v}"}`, `{:s "{:slot/id :v}" {:slot/id :v} 1}`},
		{"SLOT-007", `#{{:slot/id :v} 7}`, `#{7}`},
		{"SLOT-007", `#my/tag {:slot/id :v}`, `#my/tag {:slot/id :v}`},
	} {
		t.Run(row.id+" "+row.slot, func(t *testing.T) {
			v, err := fillLast(t, row.slot)
			if row.want == unresolved {
				require.NotNil(t, err)
				assert.True(t, errors.Is(err, contract.OfType(unresolved)))
				return
			}
			require.Nil(t, err)
			assert.Equal(t, row.want, v.String())
		})
	}
}

// TestUnresolvedNamesItsCause: SLOT-003 and the row of the failed slot.
func TestUnresolvedNamesItsCause(t *testing.T) {
	_, err := fillLast(t, `{:x [{:slot/path [:f :text]}]}`)
	require.NotNil(t, err)
	require.NotNil(t, err.Cause)
	assert.Equal(t, "timeout/hard", err.Cause.Type)
	assert.Equal(t, "slot [:f :text] has no value at [:x 0]", err.Message)
	assert.Equal(t, `{:path [:x 0] :slot :f}`, err.Details.String())
	_, err = fillLast(t, `{:slot/id :s}`)
	require.NotNil(t, err)
	assert.Nil(t, err.Cause)
}

// TestInjectedIsNotWalkedAgain: SLOT-001.
func TestInjectedIsNotWalkedAgain(t *testing.T) {
	prog := load(t, `{:bindings {:b {:slot/id :v}} :nodes [{:op :let :value 7 :as :v} {:op :let :value [{:slot/id :b} {:slot/id :v}] :as :out}]}`, testEnv(t))
	f := plan.NewFrame(prog, edn.Nil())
	f.Set(0, plan.ValueSlot(edn.Int(7)))
	v, _, err := prog.Plan.Nodes[1].Value.Fill(f, nil)
	require.Nil(t, err)
	assert.Equal(t, "[{:slot/id :v} 7]", v.String())
}

// TestDeepValuesEnd: SLOT-009, values that grow from slot to slot end in a
// typed error before they exceed the value type.
func TestDeepValuesEnd(t *testing.T) {
	prog := load(t, `{:nodes [{:op :let :value 1 :as :a} {:op :let :value [[[[{:slot/id :a}]]]] :as :b} {:op :emit :input :b}]}`, testEnv(t))
	f := plan.NewFrame(prog, edn.Nil())
	v := edn.Int(1)
	for range 200 {
		f.Set(0, plan.ValueSlot(v))
		next, _, err := prog.Plan.Nodes[1].Value.Fill(f, nil)
		if err != nil {
			assert.Equal(t, "plan/too-deep", err.Type)
			assert.Greater(t, v.Depth(), 100)
			return
		}
		v = next
	}
	t.Fatal("the value grew for ever")
}

// TestFilledLimits: SLOT-009, a filled value exactly at a limit is accepted;
// one more level or byte is rejected. A value weighs 16 bytes besides its text.
func TestFilledLimits(t *testing.T) {
	nested := func(depth int) edn.Value {
		v := edn.Int(1)
		for range depth {
			v = edn.Vector(v)
		}
		return v
	}
	text := func(weight int) edn.Value { return edn.Text(strings.Repeat("x", weight-16)) }
	const most = 16 << 20
	for _, row := range []struct {
		name, template string
		value          edn.Value
		typ            string
	}{
		{"a value of 128 levels", `{:slot/id :a}`, nested(128), ""},
		{"a value of 129 levels", `{:slot/id :a}`, nested(129), "plan/too-deep"},
		{"127 levels inside one", `[{:slot/id :a}]`, nested(127), ""},
		{"128 levels inside one", `[{:slot/id :a}]`, nested(128), "plan/too-deep"},
		{"126 levels inside a map in a map", `{:b {:c {:slot/id :a}}}`, nested(126), ""},
		{"127 levels inside a map in a map", `{:b {:c {:slot/id :a}}}`, nested(127), "plan/too-deep"},
		{"16 MiB", `{:slot/id :a}`, text(most), ""},
		{"16 MiB and a byte", `{:slot/id :a}`, text(most + 1), "plan/too-large"},
		{"16 MiB with the vector", `[{:slot/id :a}]`, text(most - 16), ""},
		{"16 MiB and a byte with the vector", `[{:slot/id :a}]`, text(most - 15), "plan/too-large"},
		{"twice one value, 16 MiB", `[{:slot/id :a} {:slot/id :a}]`, text((most - 16) / 2), ""},
		{"twice one value, two bytes more", `[{:slot/id :a} {:slot/id :a}]`, text((most-16)/2 + 1), "plan/too-large"},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := `{:nodes [{:op :let :value 1 :as :a} {:op :let :value ` + row.template + ` :as :b} {:op :emit :input :b}]}`
			prog := load(t, text, testEnv(t))
			f := plan.NewFrame(prog, edn.Nil())
			f.Set(0, plan.ValueSlot(row.value))
			_, _, err := prog.Plan.Nodes[1].Value.Fill(f, nil)
			if row.typ == "" {
				require.Nil(t, err, "%v", err)
				return
			}
			require.NotNil(t, err)
			assert.Equal(t, row.typ, err.Type)
		})
	}
}

// TestWideValuesEnd: SLOT-009, values that double from slot to slot share their
// parts and cost nothing until they are serialised; they end in a typed error
// before.
func TestWideValuesEnd(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{:nodes [{:op :let :value ["seed"] :as :s0}`)
	for i := range 100 {
		fmt.Fprintf(&b, "{:op :let :value [{:slot/id :s%d} {:slot/path [:s%d]}] :as :s%d}", i, i, i+1)
	}
	b.WriteString(`{:op :emit :input :s100}]}`)
	_, err := runFrame(plan.NewFrame(load(t, b.String(), testEnv(t)), edn.Nil()))
	var typed *contract.Error
	require.ErrorAs(t, err, &typed)
	assert.Equal(t, "plan/too-large", typed.Type)
}

// TestSmallPartsOfLargeValues: the bound counts a whole slot for each path into
// it; a value that is in fact small still fills.
func TestSmallPartsOfLargeValues(t *testing.T) {
	prog := load(t, `{:nodes [{:op :let :value 0 :as :x} {:op :let :value [{:slot/path [:x :n]} {:slot/path [:x :n]} {:slot/path [:x :n]}] :as :y} {:op :let :value [{:slot/path [:x :s]} {:slot/path [:x :s]} {:slot/path [:x :s]}] :as :z} {:op :emit :input [{:slot/id :y} {:slot/id :z}]}]}`, testEnv(t))
	f := plan.NewFrame(prog, edn.Nil())
	f.Set(0, plan.ValueSlot(edn.MustMap(edn.K("n"), edn.Int(1), edn.K("s"), edn.Text(strings.Repeat("x", 7<<20)))))
	s, err := prog.Plan.Nodes[1].FillLet(f)
	require.Nil(t, err)
	assert.Equal(t, "[1 1 1]", s.Value().String())
	_, err = prog.Plan.Nodes[2].FillLet(f)
	require.NotNil(t, err)
	assert.Equal(t, "plan/too-large", err.Type)
}

// TestTextPositions: SLOT-008, the places where a slot is replaced by its text.
func TestTextPositions(t *testing.T) {
	for _, row := range []struct{ name, intent, input, want, coerced string }{
		{"every branch that knows the key wants text", "text/respond", `{:prompt {:slot/id :a}}`, `{:prompt "t"}`, "[[:prompt]]"},
		{"a path is itself", "text/respond", `{:text "p" :prompt {:slot/path [:a :out]}}`,
			`{:prompt {:n 0 :text "t"} :text "p"}`, "[]"},
		{"a key that the schema does not know", "text/respond", `{:prompt "p" :x {:slot/id :a}}`, "", "[]"},
		{"a map is wanted", "plan/compile", `{:prompt {:slot/id :a}}`, "", "[]"},
		{"a tool slot", "text/respond", `{:prompt {:slot/id :t}}`, `{:prompt "file"}`, "[[:prompt]]"},
		{"a plan slot is no call or tool slot", "text/respond", `{:prompt {:slot/id :p}}`, `{:prompt {:out {:text "p"}}}`, "[]"},
		{"a plain value", "text/respond", `{:text "p" :prompt {:slot/id :v}}`, `{:prompt 7 :text "p"}`, "[]"},
		{"two at once", "text/respond", `{:prompt {:slot/id :a} :text {:slot/id :t}}`, `{:prompt "t" :text "file"}`, "[[:prompt] [:text]]"},
		{"no text in the answer", "text/respond", `{:prompt {:slot/id :e}}`, unresolved, "[]"},
		{"no text in the answer, with default", "text/respond", `{:prompt {:slot/id :e :slot/default "d"}}`, `{:prompt "d"}`, "[]"},
		{"the first non-blank of the text keys", "text/respond", `{:prompt {:slot/id :k}}`, `{:prompt "sum"}`, "[[:prompt]]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			prog := load(t, `{:nodes [
			  {:op :call :intent :text/respond :input {:prompt "p"} :as :a}
			  {:op :tool :tool/id :fs/read :input {} :effects {:allowed #{:fs/read}} :as :t}
			  {:op :plan :plan {:nodes []} :as :p}
			  {:op :let :value 7 :as :v}
			  {:op :call :intent :plan/compile :input {} :as :e}
			  {:op :call :intent :plan/compile :input {} :as :k}
			  {:op :call :intent :`+row.intent+` :input `+row.input+` :as :z}]}`, testEnv(t))
			f := plan.NewFrame(prog, edn.Nil())
			f.Set(0, plan.CallSlot(&plan.Result{ID: "llm/voice", Out: edn.MustRead(`{:text "t" :n 0}`)}))
			f.Set(1, plan.ToolSlot(&plan.Result{ID: "fs/read", Out: edn.MustRead(`{:text "file"}`)}))
			f.Set(2, plan.PlanSlot(&plan.Result{Out: edn.MustRead(`{:text "p"}`)}))
			f.Set(3, plan.ValueSlot(edn.Int(7)))
			f.Set(4, plan.CallSlot(&plan.Result{ID: "x/y", Out: edn.MustRead(`{:n 1}`)}))
			f.Set(5, plan.CallSlot(&plan.Result{ID: "x/y", Out: edn.MustRead(`{:patch "p" :text "  " :content 5 :summary "sum"}`)}))
			v, coerced, err := prog.Plan.Nodes[6].Input.Fill(f, prog.Text[6])
			assert.Equal(t, row.coerced, edn.Vector(coerced...).String())
			if row.want == unresolved {
				require.NotNil(t, err)
				assert.Equal(t, unresolved, err.Type)
				return
			}
			require.Nil(t, err)
			if row.want != "" {
				assert.Equal(t, row.want, v.String())
			}
		})
	}
}

// TestConditions: IR-002, every form of :when.
func TestConditions(t *testing.T) {
	for _, row := range []struct {
		when string
		want bool
	}{
		{"nil", true}, {"true", true}, {"false", false},
		{":a", true}, {":v", true}, {":s", false}, {":b", true},
		{"{:failed? :a}", false}, {"{:failed? :f}", true}, {"{:failed? :s}", false}, {"{:failed? :v}", false},
		{"{:present? :a}", true}, {"{:present? :s}", false}, {"{:present? :b}", true}, {"{:present? :f}", true},
		{"{:not :a}", false}, {"{:not :s}", true}, {"{:not nil}", false}, {"{:not {:not :a}}", true},
		{"{:and [:a :v]}", true}, {"{:and [:a :s]}", false}, {"{:and []}", true}, {"{:and [nil true]}", true},
		{"{:or [:s :a]}", true}, {"{:or [:s false]}", false}, {"{:or []}", false}, {"{:or [nil]}", true},
		{"{:slot/path [:a :ok]}", false}, {"{:slot/path [:a :n]}", true}, {"{:slot/path [:a :nil]}", false},
		{"{:slot/path [:a :none]}", false}, {"{:slot/path [:a :none] :slot/default true}", true}, {"{:slot/id :s :slot/default false}", false},
		{"{:and ({:failed? :f} {:not {:present? :s}} {:or [:s {:slot/id :v}]})}", true},
	} {
		t.Run(row.when, func(t *testing.T) {
			prog, f := truthEnv(t, "1 :when "+row.when)
			assert.Equal(t, row.want, prog.Plan.Nodes[7].When.Eval(f))
		})
	}
}

// TestFailedValues: IR-002, the plain values and results that count as failed.
func TestFailedValues(t *testing.T) {
	for text, want := range map[string]bool{
		`{:error {:type :x}}`: true, `{:error nil}`: false, `{:failure/type :x}`: true,
		`{:result {:type :error}}`: true, `{:result {:result {:type :error}}}`: true, `{:result {:type :value}}`: false,
		`{:a 1}`: false, `"error"`: false, `[:error]`: false, `{:type :error}`: false,
	} {
		assert.Equal(t, want, plan.ValueSlot(edn.MustRead(text)).Failed(), text)
	}
	assert.True(t, plan.CallSlot(&plan.Result{Envelope: edn.MustRead(`{:result {:type :error}}`)}).Failed())
	assert.False(t, plan.CallSlot(&plan.Result{Out: edn.MustRead(`{:error 1}`)}).Failed(), "the answer is not the slot")
	assert.False(t, plan.Slot{}.Failed())
	assert.False(t, plan.ValueSlot(edn.Nil()).Filled(), "SLOT-010")
}

// TestNilIsUnfilled: SLOT-010, a binding or let of nil counts as absent.
func TestNilIsUnfilled(t *testing.T) {
	prog := load(t, `{:nodes [{:op :let :value nil :as :n} {:op :let :value {:slot/id :n :slot/default 3} :when {:not {:present? :n}} :as :m} {:op :emit :input :m}]}`, testEnv(t))
	f := plan.NewFrame(prog, edn.Nil())
	v, _, err := prog.Plan.Nodes[0].Value.Fill(f, nil)
	require.Nil(t, err)
	f.Set(0, plan.ValueSlot(v))
	assert.True(t, prog.Plan.Nodes[1].When.Eval(f))
	v, _, err = prog.Plan.Nodes[1].Value.Fill(f, nil)
	require.Nil(t, err)
	assert.Equal(t, "3", v.String())
}
