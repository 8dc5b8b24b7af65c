package schema

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// SCH-006, SCH-013: three accepted and three rejected values per built-in
// schema. Blank text is rejected, extra keys are accepted in open forms, and
// the ends of ranges are included.
var builtinTable = []struct {
	name    string
	accepts string
	refuses string
}{
	{"ferment/text", `["a" " a " "\n."]`, `["" " \t\n" nil :a]`},
	{"req/text", `[{:prompt "a"} {:text "a" :lang :en} {:content "a" :prompt 1}]`, `[{} {:prompt " "} {:prompt 1} "a" {"prompt" "a"}]`},
	{"req/problem", `[{:problem "a"} {:question "a"} {:task "a" :prompt ""} {:prompt "a"}]`, `[{:text "a"} {:task ""} []]`},
	{"req/code", `[{:task "a"} {:spec "a"} {:code "a" :lang :go} {:prompt "a"}]`, `[{:text "a"} {:code " "} {:code [1]}]`},
	{"req/context", `[{} {:summary "a" :x 1} {:context {}} {:text "a"} {:prompt "a"}]`, `[{:x 1} {:context []} {:text ""}]`},
	{"req/route", `[{:request {}} {:request {:a 1} :x 1} {:request {:task {}}}]`, `[{} {:request nil} {:request "a"}]`},
	{"req/eval", `[{:task/result {}} {:result {} :x 1} {:score nil} {:score "any"}]`, `[{} {:result "a"} {:task/result []}]`},
	{"req/meta", `[{} {:a 1} {1 2}]`, `[nil [] "a"]`},
	{"req/any", `[{} {:a 1} {"a" 1}]`, `[nil [] :a]`},
	{"req/plan", `[{:plan {:nodes []}} {:plan {:nodes [{:op :emit}] :id "p"}} {:plan {:nodes ({})} :bindings {}}]`, `[{} {:plan {:nodes {}}} {:plan {:nodes [1]}} {:plan {:nodes []} :x 1}]`},
	{"req/conversation", `[{} {:title "Hello"} {:conversation/id "c-01" :text "Hello" :model {:cap/ref :llm/voice} :base-version 7} {:model :model/chat :tail :keep :messages [{:role :user}]}
		{:agent :agent/run :tools [:a/b {:cap/ref :c/d}]}]`,
		`[{:tools [7]} {:conversation/id 1} {:tail :drop} {:txet "Hello"} {:model "llm/voice"} {:limit 0}]`},
	{"res/conversation", `[{} {:version 1} {:turns []}]`, `[[] "x" 3]`},
	{"req/chat", `[{:messages [{:role :user :content "a"}]} {:messages ({:role :system})} {:messages [{:role :assistant :tool/calls [{}]} {:role :tool :tool/id "1"}] :tools [{:tool/id :fs/read :in-schema [:map]}] :tool-choice :fs/read}
		{:messages [{:role :user :content [{:type :text :text "a"} {:type :image :media-type "image/png" :data "AA=="} {:type :image :url "https://a.example/b.png" :cache? true}] :cache? false}] :reasoning :low}
		{:messages [{:role :assistant :content [{:type :thinking :signature "a"} {:type :redacted-thinking :data "a"} {:type :tool-call :id "1"}]}] :reasoning {:budget-tokens 1}}]`,
		`[{} {:messages []} {:messages [{:role "user"}]} {:messages [{:content "a"}]} {:messages [{:role :user}] :tools [{:tool/id "x"}]} {:messages [{:role :user}] :tool-choice 1}
		{:messages [{:role :user :content []}]} {:messages [{:role :user :content [{:type :image :data "AA=="}]}]} {:messages [{:role :user :content [{:type :sound :text "a"}]}]}
		{:messages [{:role :user :cache? 1}]} {:messages [{:role :user}] :reasoning :much} {:messages [{:role :user}] :reasoning {:budget-tokens 0}} {:messages [{:role :assistant :content [{:type :redacted-thinking}]}]}]`},
	{"ferment/reference", `[:model/chat {:cap/ref :llm/voice} :a]`, `["model/chat" {:cap/ref "a/b"} {:cap/ref :a/b :note 1} {} 7]`},
	{"ferment/message", `[{:role :user :content "a"} {:role :assistant :content [{:type :reference}] :attribution {}} {:role :tool :tool/id "1" :tool/failed? true}]`,
		`[{} {:role "user"} {:role :robot} {:role :user :content 7} {:role :user :content []} {:role :tool :tool/failed? 1}]`},
	{"req/agent.run", `[{:messages [{:role :user :content "a"}]} {:conversation/id "c-1" :window 40} {:messages ({:role :tool :tool/id "1" :content "a"}) :model {:cap/ref :llm/voice} :tools [:a/b {:cap/ref :c/d}]
		:conversation/id "c-1" :turn/id "t-1" :agent/parent {:depth 1 :principal "ada"} :own 1} {:messages [{:role :user :content [{:type :reference :hash "b3:1"}]}] :model :model/chat}]`,
		`[{} {:messages []} {:messages [{:role :robot}]} {:window 1} {:conversation/id ""} {:conversation/id "c-1" :window 0} {:messages [{:role :user}] :model "llm/voice"} {:messages [{:role :user}] :tools [7]} {:messages [{:role :user}] :agent/parent 1}]`},
	{"res/agent.run", `[{:messages [] :agent/stop :done} {:messages [{:role :assistant :content "a"}] :text "a" :agent/stop :length} {:messages () :agent/stop :refused :x 1}]`,
		`[{} {:messages []} {:messages [{}] :agent/stop :done} {:messages [] :agent/stop :tired} {:messages [] :agent/stop :done :text 7}]`},
	{"req/embed", `[{:texts ["a"]} {:texts ("a" "b") :dims 8} {:texts ["a"] :x 1}]`, `[{} {:texts []} {:texts [" "]} {:texts ["a"] :dims 0} {:texts "a"}]`},
	{"res/embed", `[{:vectors [[0.5]] :dims 1} {:vectors [[1 2.5]] :dims 2} {:vectors ([0.1] [0.2]) :dims 1 :x 1}]`, `[{} {:vectors [] :dims 1} {:vectors [[]] :dims 1} {:vectors [["a"]] :dims 1} {:vectors [[1]]}]`},
	{"res/meta", `[{} {:a 1} {1 2}]`, `[nil [] "a"]`},
	{"res/any", `[{} {:a nil} {"x" []}]`, `[nil () 1]`},
	{"res/text", `[{:text "a"} {:content "a" :x 1} {:text "" :content "a"}]`, `[{} {:text " "} {:prompt "a"}]`},
	{"res/context-summary", `[{:summary "a"} {:text "a"} {:content "a"}]`, `[{} {:summary ""} {:context {}}]`},
	{"res/problem", `[{:answer "a"} {:plan {}} {:steps nil} {:open_questions []} {:summary "a"}]`, `[{} {:plan []} {:answer ""}]`},
	{"res/code", `[{:code "a"} {:patch "a"} {:files []} {:text "a"}]`, `[{} {:files {}} {:code "\n"}]`},
	{"res/patch+tests", `[{:patch "a"} {:tests ()} {:files ["a"]} {:text "a"}]`, `[{} {:code "a"} {:tests #{}}]`},
	{"res/explanation", `[{:explanation "a"} {:text "a"} {:summary "a"}]`, `[{} {:explanation ""} {:content "a"}]`},
	{"res/review", `[{:findings []} {:violations #{}} {:text "a"} {:summary "a"}]`, `[{} {:violations []} {:findings #{}}]`},
	{"res/eval", `[{:score 0} {:score 1 :retry? true} {:score 0.5 :violations #{:a}} {:score 0.25M :violations ["a"]}]`, `[{} {:score 1.1} {:score -0.01M} {:score "1"} {:score 1 :retry? 1} {:score 1 :violations {}}]`},
	{"res/route", `[{:cap/id :a/b} {:cap/id :a :x 1} {:cap/id :llm/code :why "x"}]`, `[{} {:cap/id "a/b"} {:cap/id nil}]`},
	{"res/chat", `[{:text "" :finish :stop} {:text "a" :finish :tool-calls :tool/calls [{:id "1" :tool/id :a :args {}}]} {:text "a" :finish :refused :x 1} {:text "a" :finish :stop :parts [{:type :thinking :text "b"} {:type :text :text "a"}]}]`,
		`[{:text "a"} {:text "a" :finish :other} {:text "a" :finish "stop"} {:text "a" :finish :stop :tool/calls [{}]} {:text "a" :finish :stop :parts [{:type :image}]}]`},
	{"res/chess.move+pv+eval", `[{:move "e2e4" :pv [] :eval 0} {:move "e2e4" :pv ["e2e4"] :eval -34.5 :mate 2} {:move "" :pv ["a"] :eval 1M}]`,
		`[{:move "e2e4" :pv [] } {:move "e2e4" :pv ("e2e4") :eval 0} {:move :e2e4 :pv [] :eval 0} {:move "e2e4" :pv [] :eval 0 :mate 1.0}]`},
	{"res/job-accepted", `[{:job/id "1" :job/status :queued :queue/class :batch :attempt 0 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "" :job/status :queued :queue/class :a/b :attempt 7 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "3" :job/status :queued :queue/class :x :attempt 99999999999999999999 :submitted-at #inst "0001-01-01T00:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "9999-12-31T23:59:59Z"}]`,
		`[{} {:job/id "1" :job/status :running :queue/class :batch :attempt 0 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :queued :queue/class :batch :attempt -1 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :queued :queue/class :batch :attempt 0 :submitted-at "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :queued :queue/class :batch :attempt 0 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z" :extra 1}]`},
	{"res/job-status", `[{:job/id "1" :job/status :queued :queue/class :batch :attempt 0 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :running :started-at #inst "2026-11-20T10:00:00Z" :queue/class :batch :attempt 1 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :failed :completed-at #inst "2026-11-20T10:00:00Z" :error {} :cancel/reason nil :queue/class :batch :attempt 1 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}]`,
		`[{} {:job/id "1" :job/status :running :queue/class :batch :attempt 1 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :completed :queue/class :batch :attempt 1 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :gone :queue/class :batch :attempt 1 :submitted-at #inst "2026-11-20T10:00:00Z" :updated-at #inst "2026-11-20T10:00:00Z" :deadline-at #inst "2026-11-20T10:00:00Z"}]`},
	{"res/job-cancel", `[{:job/id "1" :job/status :canceled :cancel/accepted? true :updated-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :completed :cancel/accepted? false :updated-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "x" :job/status :canceled :cancel/accepted? true :updated-at #inst "2026-11-20T10:00:00.5Z"}]`,
		`[{} {:job/id "1" :job/status "canceled" :cancel/accepted? true :updated-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :canceled :cancel/accepted? nil :updated-at #inst "2026-11-20T10:00:00Z"}
		{:job/id "1" :job/status :canceled :cancel/accepted? true :updated-at #inst "2026-11-20T10:00:00Z" :x 1}]`},
}

func TestBuiltin(t *testing.T) {
	r, err := NewRegistry(Builtin())
	require.NoError(t, err)
	seen := make(map[string]bool)
	for _, row := range builtinTable {
		seen[row.name] = true
		s, ok := r.Lookup(row.name)
		require.True(t, ok, row.name)
		good, bad := read(t, row.accepts), read(t, row.refuses)
		assert.GreaterOrEqual(t, good.Len(), 3, row.name)
		assert.GreaterOrEqual(t, bad.Len(), 3, row.name)
		for v := range good.Elems() {
			assert.Empty(t, texts(s.Validate(v)), "%s: %s", row.name, v)
		}
		for v := range bad.Elems() {
			assert.NotEmpty(t, s.Validate(v), "%s: %s", row.name, v)
		}
	}
	for _, name := range r.Names() {
		assert.True(t, seen[name], "%s has no row", name)
	}
}

// SCH-013: JSON has no sets, so an array becomes the collection of the first
// branch that fits after coercion.
func TestBuiltinFromJSON(t *testing.T) {
	r, err := NewRegistry(Builtin())
	require.NoError(t, err)
	for _, c := range []struct{ name, json, want string }{
		{"res/review", `{"violations":["a","b"]}`, `{:violations #{"a" "b"}}`},
		{"res/eval", `{"score":0.5,"violations":["a"]}`, `{:score 0.5 :violations #{"a"}}`},
		{"res/eval", `{"score":1,"violations":["a","a"]}`, `{:score 1 :violations ["a" "a"]}`},
		{"res/route", `{"cap/id":":llm/code"}`, `{:cap/id :llm/code}`},
		{"req/chat", `{"messages":[{"role":"user","content":"hi"}],"tools":[{"tool/id":"fs/read","in-schema":["map"]}]}`,
			`{:messages [{:role :user :content "hi"}] :tools [{:tool/id :fs/read :in-schema ["map"]}]}`},
		{"res/job-cancel", `{"job/id":"1","job/status":"canceled","cancel/accepted?":true,"updated-at":"2026-11-20T10:00:00Z"}`,
			`{:job/id "1" :job/status :canceled :cancel/accepted? true :updated-at #inst "2026-11-20T10:00:00Z"}`},
	} {
		s, _ := r.Lookup(c.name)
		v, err := edn.ReadJSON([]byte(c.json))
		require.NoError(t, err)
		got := s.CoerceJSON(v)
		assert.Equal(t, read(t, c.want).String(), got.String(), c.name)
		assert.Empty(t, texts(s.Validate(got)), c.name)
	}
}
