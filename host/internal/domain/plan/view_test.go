package plan_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// viewOf returns a value after a round trip through JSON.
func viewOf(t testing.TB, v edn.Value) edn.Value {
	t.Helper()
	text, err := edn.WriteJSON(v)
	require.NoError(t, err)
	view, err := edn.ReadJSON(text)
	require.NoError(t, err)
	return view
}

// VAL-006: converting the JSON view of a plan gives the plan.
func TestPlanFromJSON(t *testing.T) {
	spec := testSpec(t)
	spec.Intents = append(spec.Intents, registry.Intent{ID: "model/chat", In: "req/chat", Out: "res/chat"})
	reg, err := registry.New(spec)
	require.NoError(t, err)
	for _, nodes := range []string{
		`{:op :let :value "x" :as :x} {:op :emit :input {:slot/id :x}}`,
		`{:op :call :id "a" :intent :text/respond :input {:prompt "p" :n [1 2.5 nil true]} :as :a :needs ["b"]}`,
		`{:op :call :intent :text/respond :input {:prompt {:slot/path [:a :out :text]}} :system {:slot/id :a :slot/system? true :slot/default "d"}}`,
		`{:op :call :intent :text/respond :input {:slot/id [:a :out]} :context {:c {:slot/id :x}} :constraints {:language :en :style :plain :max-chars 5}}`,
		`{:op :call :intent :chess/best-move :cap/id :chess/engine-v7 :input {:fen "f"} :role :voice :result/type :value :expect {:result/type :value}
		  :requires {:in-schema :req/any :out-schema :res/any :cap/kind :solver :cap/tags #{:a :b} :effects/allowed #{:none}}
		  :done {:must #{:legal-move} :should #{:json-valid} :score-min 0.5} :budget {:max-usd 0.05M :max-attempts 2} :temperature 0.5 :deadline-ms 100
		  :dispatch {:candidates [:chess/engine-v7 {:cap/ref :chess/rules} {:slot/id :best}] :exclude [:chess/x] :policy :declared :strategy :cascade
		             :retry {:same-cap-max 1} :switch-on #{:timeout/hard} :checks [:legal-move] :checks/hard #{:a} :checks/soft [:b] :allow-failure? true}}`,
		`{:op :call :intent :text/respond :output {:schema :res/text} :input {:prompt "p"}}`,
		`{:op :tool :tool/id :fs/write :input {:path "a" :content {:slot/path [:a :text]}} :effects {:allowed #{:fs/write} :scope {:fs/write {:allow ["out"] :max-bytes 9}}}}`,
		`{:op :let :value {:cap/ref :chess/rules} :as :h} {:op :map :over [{:a 1}] :fn {:cap/ref :llm/voice} :intent :text/respond}`,
		`{:op :map :over :items :item :it :on-item-error :keep :as :m :body [{:op :call :intent :text/respond :input {:prompt {:slot/id :it}}}]}`,
		`{:op :map :over {:slot/path [:a :list]} :body [{:op :emit :input {:x {:slot/id :item}}}]}`,
		`{:op :plan :bindings {:b "x"} :plan {:mode :lazy :nodes [{:op :let :value 1 :as :x}]} :as :p}`,
		`{:op :let :value 1 :when :a} {:op :let :value 1 :when true} {:op :let :value 1 :when {:failed? :a}} {:op :let :value 1 :when {:slot/path [:a :ok]}}`,
		`{:op :let :value 1 :when {:and [{:present? :a} {:not {:or [:b {:failed? :c}]}}]}}`,
		`{:op :call :intent :model/chat :input {:messages [{:role :system :content "s"} {:role :user :content {:slot/path [:a :text]}}
		    {:role :assistant :content "c" :tool/calls [{:id "t"}]}] :tools [{:tool/id :fs/read :description "d" :in-schema ["map" ["path" "string"]]}]}}`,
		`{:op :call :intent :model/chat :input {:messages {:slot/id :messages} :tools [{:slot/id :tool}]}}`,
	} {
		want := edn.MustRead(`{:id "p" :mode :strict :max-parallel 2 :nodes [` + nodes + `]}`)
		got := plan.FromJSON(viewOf(t, want), reg)
		assert.Equal(t, want.String(), got.String())
	}
	got := plan.FromJSON(edn.MustRead(`{:nodes [{:op "emit" :input ":x"} {:op "emit" :input "x"} {:op "emit" :input {:final ":x"}}]}`), reg)
	assert.Equal(t, `{:nodes [{:input :x :op :emit} {:input "x" :op :emit} {:input {:final :x} :op :emit}]}`, got.String())
	for _, text := range []string{`{"nodes": 7}`, `{"nodes": [7, null, "x", []]}`, `{"nodes": [{}]}`, `[]`, `7`, `{"nodes": [{"op": "call", "when": {"and": 7}, "input": 7}]}`} {
		v, err := edn.ReadJSON([]byte(text))
		require.NoError(t, err)
		require.NotPanics(t, func() { plan.Parse(plan.FromJSON(v, reg), nil) }, text)
	}
}

// VAL-006: the seed plans are equal in both forms.
func TestSeedPlansFromJSON(t *testing.T) {
	env := testEnv(t)
	files, err := filepath.Glob(filepath.Join("testdata", "seeds", "*.edn"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		// In JSON a keyword is a string: an emit names its slot in a map.
		want := edn.MustRead(regexp.MustCompile(`(:final|:op :emit :input) (:\w+)`).ReplaceAllString(string(text), "$1 {:slot/id $2}"))
		checks := func(v edn.Value) (out []string) {
			p, findings := plan.Parse(v, nil)
			if p != nil {
				findings = plan.Check(p, env)
			}
			for _, f := range findings {
				out = append(out, f.Render(name))
			}
			return out
		}
		assert.Equal(t, checks(want), checks(plan.FromJSON(viewOf(t, want), env.Registry)), name)
	}
}
