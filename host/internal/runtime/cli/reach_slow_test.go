//go:build slow

package cli_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// An act starts the plugins of its candidates, gates and judge, and no others.
// Capabilities that are known only at run time, from plans in answers and
// requests of plugins, start their plugin when called.
func TestReach(t *testing.T) {
	t.Parallel()
	answer := func(id, intent, step string) string {
		return script(id, intent, ":in-schema :req/any :out-schema :res/any :can-produce #{:value :plan}", step)
	}
	intent := func(name, rest string) string {
		return "\nintent \"" + name + "\" {\n  in           = \"req/any\"\n  out          = \"res/any\"\n" + rest + "}\n"
	}
	config := testProfile
	for _, name := range []string{"first", "spare", "gate", "grader", "asker", "helper", "planner", "late", "other"} {
		config += scripted(name)
	}
	w := newWorld(t,
		"ferment.hcl", config+`
check "good" {
  intent = "t/check"
}

judge "fair" {
  capability = "grader/eval"
}
`+
			intent("t/a", "  candidates = [\"first/a\", \"spare/a\"]\n\n  done { must = [\"good\"] }\n")+
			intent("t/judged", "  candidates = [\"first/judged\"]\n\n  judge { use = \"fair\" }\n")+
			intent("t/ask", "")+intent("t/help", "")+intent("t/plan", "  result_types = [\"plan\", \"value\"]\n")+intent("t/late", ""),
		"first.edn", `{:capabilities
 {:first/a {:intents #{:t/a} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}
  :first/judged {:intents #{:t/judged} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}}}`,
		"spare.edn", answer(":spare/a", ":t/a", "{:value {:n 2}}"),
		"gate.edn", answer(":gate/check", ":t/check", "{:value {:pass? true}}"),
		"grader.edn", script(":grader/eval", ":eval/grade", ":in-schema :req/eval :out-schema :res/eval :deterministic? true",
			"{:value {:score 1 :violations []}}"),
		"asker.edn", answer(":asker/ask", ":t/ask", "{:ask {:intent :t/help :input {}}}"),
		"helper.edn", answer(":helper/help", ":t/help", "{:value {:n 3}}"),
		"planner.edn", answer(":planner/plan", ":t/plan",
			`{:plan {:nodes [{:op :call :intent :t/late :input {} :as :x} {:op :emit :input :x}]}}`),
		"late.edn", answer(":late/late", ":t/late", "{:value {:n 4}}"),
		"other.edn", answer(":other/other", ":t/other", "{:value {:n 5}}"),
		"plan.edn", `{:nodes [{:op :map :over [1 2] :item :i :as :all
          :body [{:op :plan :as :p :plan {:nodes [{:op :call :intent :t/a :input {} :as :a} {:op :emit :input :a}]}}
                 {:op :emit :input :p}]}
         {:op :tool :tool/id :helper/help :effects {:allowed [:none]} :input {} :as :h}
         {:op :emit :input {:all :all :h :h}}]}`,
		"chosen.edn", `{:proto 1 :trace {:id "t"} :task {:intent :t/a :dispatch {:candidates [:spare/a]}} :input {}}`,
		"wrong.edn", `{:proto 1 :trace {:id "t"} :task {:intent :t/a :cap/id :t/nothing} :input {}}`,
	)
	for _, tt := range []struct {
		name string
		args []string
		want []string
		code int
	}{
		{"candidates and a gate", []string{"act", "t/a", "{}"}, []string{"first", "gate", "spare"}, 0},
		{"a judge", []string{"act", "t/judged", "{}"}, []string{"first", "grader"}, 0},
		{"candidates of the request", []string{"act", "chosen.edn"}, []string{"gate", "spare"}, 0},
		{"a plan with plans in it", []string{"run", "plan.edn"}, []string{"first", "gate", "helper", "spare"}, 0},
		{"a question of a plugin", []string{"act", "t/ask", "{}"}, []string{"asker", "helper"}, 0},
		{"an answer that is a plan", []string{"act", "t/plan", "{}"}, []string{"late", "planner"}, 0},
		{"an act that is refused", []string{"act", "wrong.edn"}, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			started, got := w.startedBy(tt.args...)
			assert.Equal(t, tt.code, got.code, "%s%s", got.stdout, got.stderr)
			assert.Equal(t, tt.want, started, "%s", got.stderr)
		})
	}
}
