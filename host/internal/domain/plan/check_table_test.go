package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TestCheckTable: CHECK-001, CHECK-003, every implemented row of the table,
// with position and nearest name. Nodes are on one line behind "{:nodes [", so
// the first begins at column 10.
func TestCheckTable(t *testing.T) {
	const respond = `{:op :call :intent :text/respond :input {:prompt "p"}`
	for _, row := range []struct {
		nodes string
		want  []string
	}{
		// CHECK-010: unknown op or key.
		{`{:op :cal :as :x} {:op :emit :input :x}`, []string{`1:15: error CHECK-010 unknown op :cal in [:nodes 0 :op]; nearest is :call`}},
		{`{:op :emit :inputt 1}`, []string{`1:21: error CHECK-010 unknown key :inputt in [:nodes 0]; nearest is :input`}},
		{`{:op :emit :input 1 "op" 2}`, []string{`1:30: error CHECK-010 unknown key "op" in [:nodes 0]; nearest is :op`}},
		{`{:op :call :intnt/zzz :text/respond :input {:prompt "p"}}`, []string{`1:21: error CHECK-010 unknown key :intnt/zzz in [:nodes 0]`}},
		{`{:op :let :zzzz 1 :as :x} {:op :emit :input :x}`, []string{`1:20: error CHECK-010 unknown key :zzzz in [:nodes 0]`}},
		{`{:op :let :value 1 :intent :x/y}`, []string{`1:29: error CHECK-010 unknown key :intent in [:nodes 0]`}},
		// The input under the misspelt key is not reported as missing too.
		{`{:op :call :intent :text/respond :inputs {:prompt "p"}}`, []string{
			`1:43: error CHECK-010 unknown key :inputs in [:nodes 0]; nearest is :input`}},
		{respond + ` :deadline-ms "30s"}`, []string{
			`1:77: error CHECK-015 wanted an integer, got "30s", in [:nodes 0 :deadline-ms]`}},
		{`{:op :emit :input {:a {:slot/idd :y}}}`, []string{
			`1:32: warning CHECK-044 {:slot/idd :y} is data because a slot map has one of :slot/id and :slot/path and nothing but ` +
				`:slot/default and :slot/system? beside it, in [:nodes 0 :input :a]`}},
		{respond + ` :dispatch {:candidate [:llm/voice]}}`, []string{`1:75: error CHECK-010 unknown key :candidate in [:nodes 0 :dispatch]; nearest is :candidates`}},
		{respond + ` :requires {:out-schem :res/text}}`, []string{`1:75: error CHECK-010 unknown key :out-schem in [:nodes 0 :requires]; nearest is :out-schema`}},
		{respond + ` :done {:most #{}}}`, []string{`1:71: error CHECK-010 unknown key :most in [:nodes 0 :done]; nearest is :must`}},
		{respond + ` :effects {:allow #{}}}`, []string{`1:74: error CHECK-010 unknown key :allow in [:nodes 0 :effects]; nearest is :allowed`}},

		// CHECK-010 and CHECK-015: unsupported features.
		{respond + ` :dispatch {:repair {:max 8}}}`, nil},
		{respond + ` :dispatch {:strategy :race :race {:width 3} :hedge {:after-ms 0 :max 2} :tournament {:width 16}}}`, nil},
		{respond + ` :dispatch {:strategy :run}}`, []string{`1:85: error CHECK-015 wanted :cascade or :race or :hedge or :tournament, got :run, in [:nodes 0 :dispatch :strategy]`}},
		{respond + ` :dispatch {:race {:width 1} :hedge {:max 0}}}`, []string{
			`1:89: error CHECK-015 wanted an integer from 2 to 16, got 1, in [:nodes 0 :dispatch :race :width]`,
			`1:105: error CHECK-015 wanted an integer from 1 to 8, got 0, in [:nodes 0 :dispatch :hedge :max]`}},

		// CHECK-023: a budget that permits no call.
		{`{:op :call :intent :num/add :input {:n 1} :budget {:max-attempts 0} :as :x} {:op :emit :input :x}`,
			[]string{`1:75: error CHECK-023 every call takes one attempt and one roundtrip, and the budget allows 0, in [:nodes 0 :budget :max-attempts]`}},

		// CHECK-024: candidates with effects must not run in parallel.
		{`{:op :call :intent :fs/write :effects {:allowed #{:fs/write}} :dispatch {:strategy :race} :input {:path "a" :content "b"}}`, []string{`1:93: error CHECK-024 the strategy :race calls several candidates at once, and :fs/write has effects that must not happen twice, in [:nodes 0 :dispatch :strategy]`}},
		{respond + ` :dispatch {:policy :quality-aware}}`, nil},
		{respond + ` :dispatch {:policy :learned}}`, []string{`1:83: warning CHECK-048 the policy :learned has no must check besides schema-valid to learn from, so it learns only from a judge, or that every answer passes; add one to :done :must, in [:nodes 0 :dispatch :policy]`}},
		{respond + ` :dispatch {:policy :declared :strategy :cascade}}`, nil},
		{respond + ` :dispatch {:policy :fast}}`, []string{`1:83: error CHECK-015 wanted :declared or :quality-aware or :cost-first or :latency-first or :availability or :learned, got :fast, in [:nodes 0 :dispatch :policy]`}},
		// ENV-016, IR-003: the budget of a node.
		{respond + ` :budget {:max-tokens 5 :max-usd 0.05M :max-attempts 2 :temperature 0.5}}`, []string{
			`1:96: warning CHECK-046 :llm/voice has no known price and is not called under :max-usd, in [:nodes 0 :budget :max-usd]`}},
		{respond + ` :budget {:max-tokns 5}}`, []string{`1:73: error CHECK-010 unknown key :max-tokns in [:nodes 0 :budget]; nearest is :max-tokens`}},
		{respond + ` :budget {:max-usd 0.05}}`, []string{`1:82: error CHECK-015 wanted an integer or a decimal that is not negative, such as 0.05M, got 0.05, in [:nodes 0 :budget :max-usd]`}},
		{respond + ` :budget {:max-attempts -1}}`, []string{`1:87: error CHECK-015 wanted an integer that is not negative, got -1, in [:nodes 0 :budget :max-attempts]`}},
		{respond + ` :budget {:temperature 3}}`, []string{`1:86: error CHECK-015 wanted a number from 0 to 2, got 3, in [:nodes 0 :budget :temperature]`}},
		{respond + ` :budget 5}`, []string{`1:72: error CHECK-015 wanted a map, got 5, in [:nodes 0 :budget]`}},
		{respond + ` :session? true}`, []string{`1:64: error CHECK-010 this build does not have :session?, remove it in [:nodes 0]`}},
		// IR-012: a map over a handle.
		{`{:op :map :over [{:prompt "p"}] :fn {:cap/ref :llm/voice} :intent :text/respond :done {:must #{:schema-valid}} :dispatch {:policy :declared}}`, nil},
		{`{:op :map :over [{:prompt "p"}] :fn {:cap/ref :llm/voice}}`, nil},
		{`{:op :map :over [1] :fn {:cap/ref :llm/voice}}`, []string{`1:26: error CHECK-020 :item is {:value 1}, which can never fit :req/text: [:prompt] required key is missing, in [:nodes 0 :over]`}},
		{`{:op :map :over [1] :fn {:cap/ref :llm/voic}}`, []string{`1:34: error CHECK-012 unknown capability :llm/voic in [:nodes 0 :fn]; nearest is :llm/voice`}},
		{`{:op :map :over [1] :fn {:cap/ref :llm/voice} :intent :text/respnd}`, []string{`1:64: error CHECK-011 unknown intent :text/respnd in [:nodes 0 :intent]; nearest is :text/respond`}},
		{`{:op :map :over [1] :fn :llm/voice}`, []string{`1:34: error CHECK-015 wanted a handle such as {:cap/ref :ns/name}, or a slot that holds one, got :llm/voice, in [:nodes 0 :fn]`}},
		{`{:op :map :over [1] :fn {:slot/id :best}}`, []string{`1:34: error CHECK-027 which intent a handle from a slot serves is not known before the run: write :intent beside :fn in [:nodes 0 :fn]`}},
		{`{:op :map :over [1] :fn {:cap/ref :llm/voice} :dispatch {:candidates [:llm/voice]}}`, []string{`1:79: error CHECK-027 the :fn of a map is its only candidate, remove :candidates in [:nodes 0 :dispatch :candidates]`}},
		{`{:op :map :over [1] :fn {:cap/ref :llm/voice} :body [{:op :emit :input :item}]}`, []string{`1:10: error CHECK-027 a map needs :over and exactly one of :body and :fn in [:nodes 0]`}},
		{`{:op :map :over [1] :intent :text/respond :body [{:op :emit :input :item}]}`, []string{`1:30: error CHECK-010 unknown key :intent in [:nodes 0]`}},
		{`{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read} :scope {}}}`, nil},
		{`{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read} :scope {:fs/read {:allow ["a"] :max-bytes 9}}}}`, nil},
		{`{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read} :scope {:fs/rea {}}}}`, []string{`1:78: error CHECK-010 unknown key :fs/rea in [:nodes 0 :effects :scope]; nearest is :fs/read`}},
		{`{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read} :scope {:fs/read {:alow ["a"] :allow ["../b"] :max-bytes -1}}}}`, []string{
			`1:94: error CHECK-015 [:nodes 0 :effects :scope :fs/read :alow] is not part of a scope of :fs/read; nearest is :allow`,
			`1:108: error CHECK-015 [:nodes 0 :effects :scope :fs/read :allow 0] leaves its root with ".."`,
			`1:127: error CHECK-015 [:nodes 0 :effects :scope :fs/read :max-bytes] is not a whole number of 0 or more`}},

		{`{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read}} :dispatch {:candidates [:fs/read] :allow-failure? true}}`, []string{
			`1:82: error CHECK-010 a tool is its own only candidate: remove :candidates in [:nodes 0 :dispatch]`}},

		// CHECK-010, CHECK-015: the mark of a slot for a system prompt
		// (PRM-002).
		{respond + ` :system {:slot/id :b :slot/system? 1}}`, []string{
			`1:72: error CHECK-017 slot :b is filled by no node, binding or default in [:nodes 0 :system]`,
			`1:99: error CHECK-015 wanted a boolean, got 1, in [:nodes 0 :system :slot/system?]`}},
		{`{:op :let :value {:slot/id :b :slot/default 1 :slot/system? true} :as :x} {:op :emit :input :x}`, []string{`1:56: error CHECK-010 only a slot in :system or :input of a call takes :slot/system?, remove it in [:nodes 0 :value]`}},
		{respond + ` :context {:x {:slot/id :b :slot/default 1 :slot/system? true}}}`, []string{`1:106: error CHECK-010 only a slot in :system or :input of a call takes :slot/system?, remove it in [:nodes 0 :context :x]`}},
		{`{:op :emit :input {:slot/id :b :slot/default 1 :slot/system? true}}`, []string{`1:57: error CHECK-010 only a slot in :system or :input of a call takes :slot/system?, remove it in [:nodes 0 :input]`}},
		{respond + ` :when {:slot/id :b :slot/default 1 :slot/system? true}}`, []string{`1:99: error CHECK-010 only a slot in :system or :input of a call takes :slot/system?, remove it in [:nodes 0 :when]`}},

		// CHECK-029: the result of a capability in a system prompt (PRM-002).
		{respond + ` :as :x} {:op :call :intent :text/respond :input {:prompt "p" :system {:slot/path [:x :text]}}}`, []string{
			`1:133: error CHECK-029 slot [:x :text] puts a result into the system prompt, which takes only text of the plan, in [:nodes 1 :input :system]`}},
		{respond + ` :as :x} {:op :call :intent :text/respond :input {:prompt "p" :system {:slot/path [:x :text] :slot/system? true}}}`, nil},
		{respond + ` :as :x} {:op :call :intent :chess/verify-move :dispatch {:candidates [:chess/rules]} :input {:system {:slot/path [:x :text]}}}`, nil},
		{respond + ` :as :x} {:op :call :intent :chess/verify-move :dispatch {:candidates [:llm/absent]} :input {:system {:slot/path [:x :text]}}}`, []string{
			`1:164: error CHECK-029 slot [:x :text] puts a result into the system prompt, which takes only text of the plan, in [:nodes 1 :input :system]`}},

		// CHECK-011: unknown intent.
		{`{:op :call :intent :text/respnd}`, []string{`1:29: error CHECK-011 unknown intent :text/respnd in [:nodes 0 :intent]; nearest is :text/respond`}},
		{`{:op :call :intent :llm/voice}`, []string{`1:29: error CHECK-011 unknown intent :llm/voice in [:nodes 0 :intent]; nearest is :text/respond`}},
		{`{:op :call :intent :zz/zz}`, []string{`1:29: error CHECK-011 unknown intent :zz/zz in [:nodes 0 :intent]`}},

		// CHECK-012: unknown capability or handle.
		{respond + ` :cap/id :llm/voic}`, []string{`1:72: error CHECK-012 unknown capability :llm/voic in [:nodes 0 :cap/id]; nearest is :llm/voice`}},
		{respond + ` :dispatch {:candidates [:llm/voice :llm/vioce]}}`, []string{`1:99: error CHECK-012 unknown capability :llm/vioce in [:nodes 0 :dispatch :candidates 1]; nearest is :llm/voice`}},
		{respond + ` :dispatch {:candidates [{:cap/ref :llm/vioce}]}}`, []string{`1:88: error CHECK-012 unknown capability :llm/vioce in [:nodes 0 :dispatch :candidates 0]; nearest is :llm/voice`}},
		{`{:op :let :value {:cap/ref :llm/vioce} :as :h} {:op :emit :input :h}`, []string{`1:27: error CHECK-012 unknown handle :llm/vioce in [:nodes 0 :value]; nearest is :llm/voice`}},
		{`{:op :tool :tool/id :fs/rite :effects {:allowed #{}}}`, []string{`1:30: error CHECK-012 unknown tool :fs/rite in [:nodes 0 :tool/id]; nearest is :fs/write`}},

		// CHECK-013: unknown schema.
		{respond + ` :output {:schema :res/txt}}`, []string{
			`1:81: error CHECK-013 unknown schema :res/txt in [:nodes 0 :output :schema]; nearest is :res/text`}},
		{respond + ` :requires {:in-schema :req/txt}}`, []string{
			`1:86: error CHECK-013 unknown schema :req/txt in [:nodes 0 :requires :in-schema]; nearest is :req/text`}},

		// CHECK-014: unknown check.
		{respond + ` :done {:must #{:legal-mov}}}`, []string{`1:77: error CHECK-014 unknown check :legal-mov in [:nodes 0 :done :must]; nearest is :legal-move`}},
		{respond + ` :done {:should [:json-vaild]}}`, []string{`1:79: error CHECK-014 unknown check :json-vaild in [:nodes 0 :done :should]; nearest is :json-valid`}},
		{respond + ` :dispatch {:checks [:a-x] :checks/soft [:b-x]}}`, []string{
			`1:83: error CHECK-014 unknown check :a-x in [:nodes 0 :dispatch :checks]`,
			`1:103: error CHECK-014 unknown check :b-x in [:nodes 0 :dispatch :checks/soft]`}},
		{respond + ` :dispatch {:checks/hard #{:c-x} :checks [:ignored-x]}}`, []string{`1:88: error CHECK-014 unknown check :c-x in [:nodes 0 :dispatch :checks/hard]`}},

		// CHECK-015: wrong type or range of a known key.
		{`5`, []string{`1:10: error CHECK-015 wanted a map as a node, got 5, in [:nodes 0]`}},
		{`{}`, []string{`1:10: error CHECK-015 a node needs :op in [:nodes 0]`}},
		{`{:op :let :as :x}{:op :emit :input :x}`, []string{`1:10: error CHECK-015 the op :let needs :value in [:nodes 0]`}},
		{`{:op :call :input {}}`, []string{`1:10: error CHECK-015 the op :call needs :intent in [:nodes 0]`}},
		{`{:op :tool}`, []string{
			`1:10: error CHECK-015 the op :tool needs :tool/id in [:nodes 0]`,
			`1:10: error CHECK-015 the op :tool needs :effects, such as :effects {:allowed #{:fs/read}}, in [:nodes 0]`}},
		{`{:op :tool :tool/id :db/query}`, []string{
			`1:10: error CHECK-015 the op :tool needs :effects, such as :effects {:allowed #{:db/read}}, in [:nodes 0]`,
			`1:30: error CHECK-012 unknown tool :db/query in [:nodes 0 :tool/id]`}},
		{`{:op :plan}`, []string{`1:10: error CHECK-015 the op :plan needs :plan in [:nodes 0]`}},
		{`{:op :emit :as "x"}`, []string{`1:21: error CHECK-010 unknown key :as in [:nodes 0]; nearest is :id`}},
		{`{:op :let :value 1 :as "x"}`, []string{`1:33: error CHECK-015 wanted a keyword, got "x", in [:nodes 0 :as]; nearest is :x`}},
		{`{:op :let :value 1 :id 7}`, []string{`1:33: error CHECK-015 wanted a string as the id of a node, got 7, in [:nodes 0 :id]`}},
		{`{:op :emit :input 1 :needs "a"}`, []string{`1:37: error CHECK-015 wanted a vector of node ids, got "a", in [:nodes 0 :needs]`}},
		{`{:op :let :as :a :value 1 :needs ["zz"]}`, []string{`1:44: error CHECK-015 no node has the id "zz" in [:nodes 0 :needs 0]`}},
		{`{:op :let :as :a :value 1} {:op :let :as :b :value 1 :needs [:a]}`, []string{
			`1:71: error CHECK-015 "a" in [:nodes 1 :needs 0] is the slot of node 0, not the id of a node: add :id "a" to that node`}},
		{`{:op :let :as :a :value 1 :id "first" :needs ["frist"]} {:op :let :as :b :value 1 :id "e1" :needs ["frst"]}`, []string{
			`1:56: error CHECK-015 no node has the id "frist" in [:nodes 0 :needs 0]`,
			`1:109: error CHECK-015 no node has the id "frst" in [:nodes 1 :needs 0]; nearest is "first"`}},
		{`{:op :emit :input 1 :needs ["a" 7]} {:id "b" :op :emit :input 1}`, []string{
			`1:10: warning CHECK-042 emit n0 is always overwritten by node 1 in [:nodes 0]`,
			`1:38: error CHECK-015 no node has the id "a" in [:nodes 0 :needs 0]`,
			`1:42: error CHECK-015 wanted the id of a node, got 7, in [:nodes 0 :needs 1]`}},
		{`{:op :emit :input 1 :when "yes"}`, []string{`1:36: error CHECK-015 wanted a condition: a boolean, a slot, or {:failed? k} {:present? k} {:not c} {:and [c]} {:or [c]}, got "yes", in [:nodes 0 :when]`}},
		{`{:op :emit :input 1 :when {:and :x}}`, []string{`1:42: error CHECK-015 wanted a vector of conditions, got :x, in [:nodes 0 :when :and]`}},
		{`{:op :emit :input 1 :when {:or [true {:failed? 3}]}}`, []string{`1:57: error CHECK-015 wanted a keyword, got 3, in [:nodes 0 :when :or 1 :failed?]`}},
		{`{:op :emit :input {:slot/id "a"}}`, []string{`1:28: error CHECK-015 wanted the name of a slot or a path, got "a", in [:nodes 0 :input]`}},
		{`{:op :emit :input {:slot/path []}}`, []string{`1:28: error CHECK-015 wanted a slot path that begins with the name of a slot, got [], in [:nodes 0 :input]`}},
		{`{:op :emit :input {:slot/path :a}}`, []string{`1:28: error CHECK-015 wanted a slot path that begins with the name of a slot, got :a, in [:nodes 0 :input]`}},
		{`{:op :emit :input {:slot/path ["a"]}}`, []string{`1:28: error CHECK-015 wanted the name of a slot, got "a", in [:nodes 0 :input]`}},
		{`{:op :let :value [] :as :a} {:op :emit :input {:slot/path [:a -1]}}`, []string{
			`1:56: error CHECK-015 wanted an index from 0 in a slot path, got -1, in [:nodes 1 :input]`}},
		{`{:op :call :intent "x" :input 5}`, []string{
			`1:29: error CHECK-015 wanted a keyword, got "x", in [:nodes 0 :intent]; nearest is :x`,
			`1:40: error CHECK-015 wanted a map, got 5, in [:nodes 0 :input]`}},
		{respond + ` :temperature 3}`, []string{`1:77: error CHECK-015 wanted a number from 0 to 2, got 3, in [:nodes 0 :temperature]`}},
		{respond + ` :deadline-ms 0}`, []string{`1:77: error CHECK-015 wanted an integer from 1 to 86400000, got 0, in [:nodes 0 :deadline-ms]`}},
		{respond + ` :model 5 :role "r" :system 5}`, []string{
			`1:71: error CHECK-015 wanted a keyword or a string, got 5, in [:nodes 0 :model]`,
			`1:79: error CHECK-015 wanted a keyword, got "r", in [:nodes 0 :role]; nearest is :r`,
			`1:91: error CHECK-015 wanted a string or a slot, got 5, in [:nodes 0 :system]`}},
		{respond + ` :done {:score-min 2 :must :schema-valid}}`, []string{
			`1:82: error CHECK-015 wanted a number from 0 to 1, got 2, in [:nodes 0 :done :score-min]`,
			`1:90: error CHECK-015 wanted a set of keywords, got :schema-valid, in [:nodes 0 :done :must]; nearest is #{:schema-valid}`}},
		{respond + ` :dispatch {:retry {:same-cap-max -1}}}`, []string{`1:97: error CHECK-015 wanted an integer from 0 to 16, got -1, in [:nodes 0 :dispatch :retry :same-cap-max]`}},
		{respond + ` :dispatch {:candidates ["llm/voice"]}}`, []string{`1:88: error CHECK-015 wanted a capability id or a handle, got "llm/voice", in [:nodes 0 :dispatch :candidates 0]`}},
		{respond + ` :dispatch {:candidates :llm/voice}}`, []string{`1:87: error CHECK-015 wanted a vector of capability ids, got :llm/voice, in [:nodes 0 :dispatch :candidates]`}},
		{respond + ` :dispatch {:allow-failure? 1 :exclude 2 :timeout {:extend-ms -1}}}`, []string{
			`1:91: error CHECK-015 wanted a boolean, got 1, in [:nodes 0 :dispatch :allow-failure?]`,
			`1:102: error CHECK-015 wanted a set of keywords, got 2, in [:nodes 0 :dispatch :exclude]`,
			`1:125: error CHECK-015 wanted an integer from 0 to 86400000, got -1, in [:nodes 0 :dispatch :timeout :extend-ms]`}},
		{respond + ` :dispatch {:switch-on #{:runtime/crushed}}}`, []string{`1:86: error CHECK-015 switch-on: there is no error type :runtime/crushed; nearest is :runtime/crashed in [:nodes 0 :dispatch :switch-on]`}},
		{respond + ` :dispatch {:switch-on/replace :timeout/soft}}`, []string{`1:94: error CHECK-015 wanted a set of keywords, got :timeout/soft, in [:nodes 0 :dispatch :switch-on/replace]; nearest is #{:timeout/soft}`}},
		{respond + ` :requires {:result/type :text}}`, []string{`1:88: error CHECK-015 wanted :value, :plan or :stream, got :text, in [:nodes 0 :requires :result/type]`}},
		{respond + ` :output {:schema :res/code} :requires {:out-schema :res/text}}`, []string{
			`1:81: error CHECK-025 no candidate can serve :text/respond in [:nodes 0 :output :schema]: :llm/voice is requires/schema-mismatch`,
			`1:115: error CHECK-015 two different values for :out-schema in [:nodes 0]`}},
		{respond + ` :effects {:allowed #{:fs/rite}}}`, []string{`1:83: error CHECK-015 unknown effect :fs/rite in [:nodes 0 :effects :allowed]; nearest is :fs/write`}},
		{respond + ` :constraints {:language "en" :max-chars 0 :no-web 1}}`, []string{
			`1:88: error CHECK-015 wanted a keyword, got "en", in [:nodes 0 :constraints :language]; nearest is :en`,
			`1:104: error CHECK-015 wanted an integer from 1 to 12000, got 0, in [:nodes 0 :constraints :max-chars]`,
			`1:114: error CHECK-015 wanted a boolean, got 1, in [:nodes 0 :constraints :no-web]`}},
		{respond + ` :max-attempts 0}`, []string{`1:78: error CHECK-015 wanted an integer from 1 to 17, got 0, in [:nodes 0 :max-attempts]`}},
		{`{:op :map :over 5 :item "x" :body {} :on-item-error :skip}`, []string{
			`1:26: error CHECK-015 wanted a slot or a collection, got 5, in [:nodes 0 :over]`,
			`1:34: error CHECK-015 wanted a keyword, got "x", in [:nodes 0 :item]; nearest is :x`,
			`1:44: error CHECK-015 wanted a vector of nodes, got {}, in [:nodes 0 :body]`,
			`1:62: error CHECK-015 wanted :fail or :keep, got :skip, in [:nodes 0 :on-item-error]`}},
		{`{:op :plan :plan 5 :bindings [1]}`, []string{
			`1:27: error CHECK-015 wanted a map with :nodes, got 5, in [:nodes 0 :plan]`,
			`1:39: error CHECK-015 wanted a map, got [1], in [:nodes 0 :bindings]`}},

		// CHECK-016: duplicate :id or :as.
		{`{:op :let :id "a" :value 1 :as :x} {:op :emit :id "a" :input :x}`, []string{`1:56: error CHECK-016 duplicate :id "a" in [:nodes 1]; first at 1:20`}},
		{`{:op :let :id "n1" :value 1 :as :x} {:op :emit :input :x}`, []string{`1:46: error CHECK-016 duplicate :id "n1" in [:nodes 1]; first at 1:20`}},
		{`{:op :let :value 1 :as :x} {:op :let :value 2 :as :x} {:op :emit :input :x}`, []string{`1:56: error CHECK-016 duplicate :as :x in [:nodes 1]; first at 1:29`}},

		// CHECK-017: slot never filled.
		{`{:op :emit :input {:x {:slot/id :none}}}`, []string{`1:32: error CHECK-017 slot :none is filled by no node, binding or default in [:nodes 0 :input :x]`}},
		{`{:op :emit :input :none}`, []string{`1:28: error CHECK-017 slot :none is filled by no node, binding or default in [:nodes 0 :input]`}},
		{`{:op :emit :input 1 :when {:failed? :none}}`, []string{`1:46: error CHECK-017 slot :none is filled by no node, binding or default in [:nodes 0 :when :failed?]`}},
		{`{:op :plan :plan {:nodes [{:op :emit :input :none}]}}`, []string{`1:54: error CHECK-017 slot :none is filled by no node, binding or default in [:nodes 0 :plan :nodes 0 :input]`}},
		{`{:op :map :over :none :body [{:op :emit :input :item/index}]}`, []string{`1:26: error CHECK-017 slot :none is filled by no node, binding or default in [:nodes 0 :over]`}},
		{`{:op :emit :input [{:slot/id :none :slot/default 1} {:slot/path [:none :x] :slot/default nil}]}`, nil},
		{`{:op :emit :input {:final :none}}`, nil},

		// CHECK-018: slot filled later.
		{`{:op :let :value {:slot/id :y} :as :x} {:op :let :value {:slot/id :x} :as :y} {:op :emit :input :y}`, []string{
			`1:27: error CHECK-019 nodes wait for each other: n0 -> n1 -> n0; take out one of the reads or use :slot/default`}},
		{`{:op :let :id "a" :value {:slot/id :z} :as :x} {:op :let :id "b" :value {:slot/id :x} :as :y} ` +
			`{:op :let :id "c" :value {:slot/id :y} :as :z} {:op :emit :input :z}`, []string{
			`1:35: error CHECK-019 nodes wait for each other: a -> c -> b -> a; take out one of the reads or use :slot/default`}},
		// Two reads go forward: the ring is reported once.
		{`{:op :let :id "a" :value {:slot/id :y} :as :x} {:op :let :id "b" :value {:slot/id :z} :as :y} ` +
			`{:op :let :id "c" :value {:slot/id :x} :as :z} {:op :emit :input :z}`, []string{
			`1:35: error CHECK-019 nodes wait for each other: a -> b -> c -> a; take out one of the reads or use :slot/default`}},
		// The read that goes forward is not in the first node of the ring: node a needs b.
		{`{:op :let :id "a" :needs ["b"] :value 1 :as :x} {:op :let :id "b" :value {:slot/id :z} :as :y} ` +
			`{:op :let :id "c" :value {:slot/id :x} :as :z} {:op :emit :input :z}`, []string{
			`1:83: error CHECK-019 nodes wait for each other: a -> b -> c -> a; take out one of the reads or use :slot/default`,
			`1:97: warning CHECK-040 slot :y is never read in [:nodes 1]`}},
		// Two rings through one node.
		{`{:op :let :id "a" :value [{:slot/id :y} {:slot/id :z} {:slot/id :y}] :as :x} {:op :let :id "b" :value {:slot/id :x} :as :y} ` +
			`{:op :let :id "c" :value {:slot/id :x} :as :z} {:op :emit :input :z}`, []string{
			`1:36: error CHECK-019 nodes wait for each other: a -> b -> a; take out one of the reads or use :slot/default`,
			`1:50: error CHECK-019 nodes wait for each other: a -> c -> a; take out one of the reads or use :slot/default`}},
		// A default breaks the ring, so the order is the mistake.
		{`{:op :let :value {:slot/id :y} :as :x} {:op :let :value {:slot/id :x :slot/default 1} :as :y} {:op :emit :input :y}`, []string{
			`1:27: error CHECK-018 slot :y is filled later, by node 1 at 1:96; move the let or use :slot/default`}},
		{`{:op :let :value {:slot/id :x} :as :x} {:op :emit :input :x}`, []string{
			`1:27: error CHECK-018 node n0 reads slot :x, which it fills itself; rename one of them or use :slot/default, in [:nodes 0 :value]`}},
		{`{:op :let :value 1} {:op :plan :as :x :plan {:nodes [{:op :emit :input :x}]}}`, []string{
			`1:81: error CHECK-018 node n1 reads slot :x, which it fills itself; rename one of them or use :slot/default, ` +
				`in [:nodes 1 :plan :nodes 0 :input]`}},
		{`{:op :emit :input 1 :when :x} {:op :let :value 1 :as :x}`, []string{
			`1:36: error CHECK-018 slot :x is filled later, by node 1 at 1:59; move the emit`}},
		{`{:op :plan :plan {:nodes [{:op :emit :input :x}]}} {:op :let :value 1 :as :x}`, []string{
			`1:54: error CHECK-018 slot :x is filled later, by node 1 at 1:80; move the emit or use :slot/default`}},
		{`{:op :emit :input {:final :x}} {:op :let :value 1 :as :x}`, []string{
			`1:36: error CHECK-018 slot :x is filled later, by node 1 at 1:60; move the emit or use :slot/default`}},

		// CHECK-019: cycle.
		{`{:op :emit :id "a" :input 1 :needs ["a"]}`, []string{`1:45: error CHECK-019 nodes wait for each other: a -> a`}},
		{`{:op :let :id "a" :value 1 :as :x :needs ["b"]} {:op :emit :id "b" :input :x}`, []string{`1:58: error CHECK-019 nodes wait for each other: a -> b -> a`}},

		{`{:op :let :id "a" :value 1 :needs ["b"]} {:op :let :id "b" :value 1 :needs ["a"]} {:op :let :id "c" :value 1 :needs ["d" "a"]} ` +
			`{:op :let :id "d" :value 1 :needs ["c"]} {:op :emit :id "e" :input 1 :needs ["e" "d"]}`, []string{
			`1:85: error CHECK-019 nodes wait for each other: a -> b -> a`,
			`1:171: error CHECK-019 nodes wait for each other: c -> d -> c`,
			`1:213: error CHECK-019 nodes wait for each other: e -> e`}},

		// CHECK-020: schemas can never fit.
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :call :intent :num/add :input {:n {:slot/path [:x :s]}} :as :y} {:op :emit :input :y}`,
			[]string{`1:99: error CHECK-020 [:x :s] of schema :res/number is :string and can never fit :req/number, which wants :int, in [:nodes 1 :input :n]`}},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :call :intent :num/add :input {:n {:slot/id :x}} :as :y} {:op :emit :input :y}`,
			[]string{`1:99: error CHECK-020 :x of schema :res/number is :map and can never fit :req/number, which wants :int, in [:nodes 1 :input :n]`}},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :call :intent :num/add :input {:n {:slot/path [:x :out :many 0]} :list [{:slot/path [:x :n]}]} :as :y} {:op :emit :input :y}`, nil},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :call :intent :num/add :input {:n 1 :list [{:slot/path [:x :s]}]} :as :y} {:op :emit :input :y}`,
			[]string{`1:108: error CHECK-020 [:x :s] of schema :res/number is :string and can never fit :req/number, which wants :int, in [:nodes 1 :input :list 0]`}},
		{respond + ` :as :x} {:op :call :intent :num/add :input {:n {:slot/path [:x :text]}} :as :y} {:op :emit :input :y}`,
			[]string{
				`1:111: warning CHECK-020 [:x :text] does not fit :req/number as its producer describes it, in [:nodes 1 :input :n]`}},
		{`{:op :call :intent :num/add :input {:n "one" :list [1 "two"]} :as :x} {:op :emit :input :x}`, []string{
			`1:49: error CHECK-020 the :input of :num/add: should be an integer, got "one", in [:nodes 0 :input :n]`,
			`1:64: error CHECK-020 the :input of :num/add: should be an integer, got "two", in [:nodes 0 :input :list 1]`}},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :call :intent :num/add :input {:n {:slot/path [:x :n]} :lst [1]} :as :y} {:op :emit :input :y}`, []string{`1:125: error CHECK-020 the :input of :num/add: unknown key; did you mean :list?, got [1], in [:nodes 1 :input :lst]`}},
		{`{:op :tool :tool/id :fs/write :effects {:allowed #{:fs/write}} :input {:path 7 :content {:slot/path [:x :text]}} :as :y} {:op :emit :input :y}`, []string{`1:87: error CHECK-020 the :input of :fs/write: should be a string, got 7, in [:nodes 0 :input :path]`,
			`1:98: error CHECK-017 slot :x is filled by no node, binding or default in [:nodes 0 :input :content]`}},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :map :over {:slot/path [:x :s]} :item :i :body [{:op :emit :input :i}] :as :y} {:op :emit :input :y}`, []string{`1:76: error CHECK-020 [:x :s] of schema :res/number is not a collection, in [:nodes 1 :over]`}},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :map :over {:slot/path [:x :out :many]} :item :i :body [{:op :emit :input :i}] :as :y} {:op :emit :input :y}`, nil},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} ` +
			`{:op :call :intent :num/add :input {:n {:slot/path [:x :n]}}} ` +
			`{:op :call :intent :num/add :input {:n {:slot/path [:x :s]}}}`,
			[]string{`1:161: error CHECK-020 [:x :s] of schema :res/number is :string and can never fit :req/number, which wants :int, in [:nodes 2 :input :n]`}},
		{`{:op :let :value "1" :as :s} {:op :call :intent :num/add :input {:n {:slot/id :s} :list {:slot/id :s}} :as :y} ` +
			`{:op :emit :input :y}`,
			[]string{
				`1:78: error CHECK-020 :s is "1", which can never fit :req/number: should be an integer, in [:nodes 1 :input :n]`,
				`1:98: error CHECK-020 :s is "1", which can never fit :req/number: should be a vector, in [:nodes 1 :input :list]`}},

		// CHECK-049: a slot path leads to a key that the schema does not name.
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :emit :input {:a {:slot/path [:x :mny 0]} :b {:slot/path [:x :out :other]}}}`, []string{`1:82: warning CHECK-049 [:x :mny 0] leads to :mny, which :res/number does not name, in [:nodes 1 :input :a]; nearest is :many`}},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :call :intent :num/add :input {:n {:slot/path [:x :error :type]}} :as :y} {:op :emit :input :y}`, nil},

		// CHECK-021: effects not covered.
		{`{:op :tool :tool/id :fs/write :input {:path "x" :content "y"} :effects {:allowed #{:fs/read}}}`,
			[]string{`1:81: error CHECK-021 :fs/write is needed by :fs/write and not in [:nodes 0 :effects :allowed]`}},
		{`{:op :call :intent :fs/scribe :effects {:allowed #{}}}`, []string{`1:49: error CHECK-021 :fs/write is needed by :fs/scribe and not in [:nodes 0 :effects :allowed]`}},

		// CHECK-022: a must check that nothing provides.
		{respond + ` :done {:must #{:tests-pass :legal-move} :should #{:tests-pass}}}`, []string{
			`1:77: error CHECK-022 nothing provides the must check :tests-pass, which asks for :code/test, in [:nodes 0 :done :must]`}},
		{respond + ` :dispatch {:checks [:tests-pass]}}`, []string{
			`1:83: error CHECK-022 nothing provides the must check :tests-pass, which asks for :code/test, in [:nodes 0 :dispatch :checks]`}},
		{respond + ` :dispatch {:checks/soft [:tests-pass]}}`, nil},

		// CHECK-025: no candidate passes the static filters.
		{`{:op :call :intent :idle/nobody}`, []string{`1:29: error CHECK-025 nothing serves :idle/nobody in [:nodes 0 :intent]`}},
		{respond + ` :dispatch {:candidates [:llm/meta :chess/rules]}}`, []string{
			`1:87: error CHECK-025 no candidate can serve :text/respond in [:nodes 0 :dispatch :candidates]: :llm/meta is intent/not-supported, :chess/rules is intent/not-supported`}},
		{respond + ` :cap/id :llm/meta}`, []string{`1:72: error CHECK-025 no candidate can serve :text/respond in [:nodes 0 :cap/id]: :llm/meta is intent/not-supported`}},
		{respond + ` :requires {:cap/kind :solver}}`, []string{`1:85: error CHECK-025 no candidate can serve :text/respond in [:nodes 0 :requires :cap/kind]: :llm/voice is requires/cap-kind-mismatch`}},
		{respond + ` :dispatch {:exclude [:llm/voice]}}`, []string{`1:84: error CHECK-025 no candidate can serve :text/respond: all are excluded, in [:nodes 0 :dispatch :exclude]`}},
		{respond + ` :dispatch {:candidates []}}`, []string{`1:87: error CHECK-025 no candidate can serve :text/respond: the list of candidates is empty, in [:nodes 0 :dispatch :candidates]`}},
		{`{:op :call :intent :num/add :input {:n 1} :as :x} {:op :call :intent :num/add :input {:n 1 :z {:slot/path [:x :n]}}}`,
			[]string{`1:104: error CHECK-020 the :input of :num/add: unknown key, in [:nodes 1 :input :z]`}},
		{respond + ` :cap/id :llm/voice :dispatch {:exclude [:llm/voice]}}`, []string{
			`1:103: error CHECK-025 no candidate can serve :text/respond: all are excluded, in [:nodes 0 :dispatch :exclude]`}},
		{respond + ` :dispatch {:candidates [:llm/voice] :exclude [:llm/voice]}}`, []string{
			`1:109: error CHECK-025 no candidate can serve :text/respond: all are excluded, in [:nodes 0 :dispatch :exclude]`}},
		{`{:op :call :intent :idle/nobody :dispatch {:candidates [:llm/voice] :exclude [:llm/voice]}}`, []string{
			`1:29: error CHECK-025 no candidate can serve :idle/nobody: all are excluded, in [:nodes 0 :intent]`}},
		{`{:op :call :intent :idle/nobody :cap/id :llm/voice}`, []string{
			`1:29: error CHECK-025 no candidate can serve :idle/nobody in [:nodes 0 :intent]: :llm/voice is intent/not-supported`}},
		{`{:op :call :intent :idle/nobody :requires {:cap/kind :solver}}`, []string{
			`1:29: error CHECK-025 nothing serves :idle/nobody in [:nodes 0 :intent]`}},
		{respond + ` :requires {:cap/kind :solver :cap/tags #{:x}}}`, []string{
			`1:85: error CHECK-025 no candidate can serve :text/respond in [:nodes 0 :requires :cap/kind]: ` +
				`:llm/voice is requires/cap-kind-mismatch`}},
		{`{:op :call :intent :idle/nobody :dispatch {:exclude [:llm/voice]}}`, []string{
			`1:29: error CHECK-025 nothing serves :idle/nobody in [:nodes 0 :intent]`}},
		{respond + ` :dispatch {:candidates [:llm/meta :chess/rules :llm/solver :num/add :fs/read :fs/write]}}`, []string{
			`1:87: error CHECK-025 no candidate can serve :text/respond in [:nodes 0 :dispatch :candidates]: ` +
				`:llm/meta is intent/not-supported, :chess/rules is intent/not-supported, :llm/solver is intent/not-supported, ` +
				`:num/add is intent/not-supported, and 2 more`}},
		{respond + ` :cap/id :llm/meta :requires {:cap/kind :solver}}`, []string{
			`1:72: error CHECK-025 no candidate can serve :text/respond in [:nodes 0 :cap/id]: :llm/meta is intent/not-supported`}},

		// CHECK-026: above a limit.
		{respond + ` :dispatch {:retry {:same-cap-max 17 :fallback-max 33}}}`, []string{
			`1:97: error CHECK-026 wanted an integer from 0 to 16, got 17, in [:nodes 0 :dispatch :retry :same-cap-max]`,
			`1:114: error CHECK-026 wanted an integer from 0 to 32, got 33, in [:nodes 0 :dispatch :retry :fallback-max]`}},
		{`{:op :map :over [1] :max-parallel 65 :body [{:op :emit :input :item}]}`, []string{`1:44: error CHECK-026 wanted an integer from 1 to 64, got 65, in [:nodes 0 :max-parallel]`}},

		// CHECK-027: map needs one body.
		{`{:op :map :over [1]}`, []string{`1:10: error CHECK-027 a map needs :over and exactly one of :body and :fn in [:nodes 0]`}},
		{`{:op :map :body [{:op :emit :input 1}]}`, []string{`1:10: error CHECK-027 a map needs :over and exactly one of :body and :fn in [:nodes 0]`}},

		// CHECK-028: host-only keys.
		{respond + ` :context {:repair {} :prompt "x"}}`, []string{
			`1:74: error CHECK-028 only the host writes :repair in [:nodes 0 :context]`,
			`1:85: error CHECK-028 only the host writes :prompt in [:nodes 0 :context]`}},

		// CHECK-040: slot never read.
		{respond + ` :as :x}`, []string{`1:64: warning CHECK-040 slot :x is never read in [:nodes 0]`}},
		{respond + ` :as :x} {:op :call :intent :plan/compile}`, nil},
		{`{:op :map :over [1] :as :m :body [{:op :let :value 1 :as :last}]} {:op :emit :input :m}`, nil},

		// CHECK-041: node never runs.
		{`{:op :emit :input 1 :when false}`, []string{`1:36: warning CHECK-041 node n0 never runs: its condition is always false, in [:nodes 0]`}},
		{`{:op :let :value 1 :as :x} {:op :emit :input 1 :when {:and [:x {:not true}]}}`, []string{`1:63: warning CHECK-041 node n1 never runs: its condition is always false, in [:nodes 1]`}},

		// CHECK-042: emit always overwritten.
		{`{:op :emit :input 1} {:op :emit :input 2}`, []string{`1:10: warning CHECK-042 emit n0 is always overwritten by node 1 in [:nodes 0]`}},
		{`{:op :let :value 1 :as :x} {:op :emit :input 1} {:op :emit :input 2 :when {:failed? :x}}`, nil},

		// CHECK-043: retry without switch-on.
		{respond + ` :dispatch {:retry {:fallback-max 1}}}`, []string{`1:82: warning CHECK-043 retry or fallback without :switch-on goes on after every failure of class retry, switch or repair, in [:nodes 0 :dispatch :retry]`}},
		{respond + ` :dispatch {:retry {:fallback-max 1} :switch-on #{}}}`, nil},
		{respond + ` :dispatch {:retry {:fallback-max 0}}}`, nil},

		// CHECK-044: data that looks like a slot.
		{`{:op :let :value 1 :as :x} {:op :emit :input [{:slot/id :x :note 1} {:slot/id :x}]}`, []string{
			`1:56: warning CHECK-044 {:note 1 :slot/id :x} is data because a slot map has one of :slot/id and :slot/path and nothing but :slot/default and :slot/system? beside it, in [:nodes 1 :input 0]`}},
		{`{:op :let :value 1 :as :x} {:op :emit :input {:answer :x :y {:slot/id :x}}}`, []string{
			`1:64: warning CHECK-044 :x names a slot but is data in [:nodes 1 :input :answer]; write {:slot/id :x}`}},
		{`{:op :plan :bindings {:b {:slot/id :x}} :plan {:nodes [{:op :emit :input :b}]}}`, []string{
			`1:35: warning CHECK-044 a slot in :bindings is data in [:nodes 0 :bindings :b]; the plan sees the environment itself`}},

		// CHECK-045: slot of a conditional node.
		{`{:op :let :value 1 :as :x} {:op :let :value 1 :when {:failed? :x} :as :y} {:op :emit :input :y}`, []string{
			`1:102: warning CHECK-045 slot :y may be unfilled because node n1 has a condition; use :slot/default or :when in [:nodes 2 :input]`}},
		{`{:op :let :value 1 :as :x} {:op :let :value 1 :when {:failed? :x} :as :y} {:op :emit :input :y :when {:failed? :x}}`, nil},
		{`{:op :let :value 1 :as :x} {:op :let :value 1 :when {:failed? :x} :as :y} {:op :emit :input :y :when {:present? :y}}`, nil},
		{`{:op :let :value 1 :as :x} {:op :let :value 1 :when {:failed? :x} :as :y} {:op :emit :input {:slot/id :y :slot/default 1}}`, nil},
		{`{:op :let :value 1 :as :x} {:op :let :value 1 :when true :as :y} {:op :emit :input [{:slot/id :x} {:slot/id :y}]}`, nil},
		{`{:op :let :value 1 :as :x} {:op :let :value 1 :when {:failed? :x} :as :y} {:op :plan :plan {:nodes [{:op :emit :input :y}]}}`, []string{
			`1:101: warning CHECK-045 slot :y may be unfilled because node n1 has a condition; use :slot/default or :when in [:nodes 2 :plan]`}},
	} {
		t.Run(row.nodes, func(t *testing.T) {
			var want []string
			for _, w := range row.want {
				want = append(want, "plan.edn:"+w)
			}
			assert.Equal(t, want, emptyIsNil(lines(t, "{:nodes ["+row.nodes+"]}", testEnv(t))))
		})
	}
}

func emptyIsNil(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

// TestCheckPlanKeys: IR-001, the keys beside :nodes.
func TestCheckPlanKeys(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{`5`, `1:1: error CHECK-015 wanted a map with :nodes, got 5, in the plan`},
		{`{}`, `1:1: error CHECK-015 :nodes is missing in the plan`},
		{`{:bindings {} :node []}`, `1:15: error CHECK-010 unknown key :node in the plan; nearest is :nodes`},
		{`{"nodes" []}`, `1:2: error CHECK-010 unknown key "nodes" in the plan; nearest is :nodes`},
		{`{:nodes {}}`, `1:9: error CHECK-015 :nodes is a vector of maps, not {}, in [:nodes]`},
		{`{:nodes nil}`, `1:9: error CHECK-015 :nodes is a vector of maps, not nil, in [:nodes]`},
		{`{:nodes [] :mod :strict}`, `1:12: error CHECK-010 unknown key :mod in the plan; nearest is :mode`},
		{`{:nodes [] :mode :eager}`, `1:18: error CHECK-015 wanted :strict, :lazy or :hybrid, got :eager, in [:mode]`},
		{`{:nodes [] :id 7}`, `1:16: error CHECK-015 wanted a string or a keyword, got 7, in [:id]`},
		{`{:bindings [1] :nodes [{:op :emit :input {:slot/id :x}}]}`, `1:12: error CHECK-015 wanted a map, got [1], in [:bindings]`},
		// A binding fills :x, so the reader of it does not wait for the later writer.
		{`{:bindings {:x 1} :nodes [{:op :let :value [{:slot/id :x} {:slot/id :q}] :as :a} {:op :let :value {:slot/id :x} :as :q} {:op :let :value {:slot/id :a} :as :x} {:op :emit :input {:slot/id :x}}]}`,
			`1:59: error CHECK-018 slot :q is filled later, by node 1 at 1:113; move the let or use :slot/default`},
		{`{:nodes [] :bindings [1]}`, `1:22: error CHECK-015 wanted a map, got [1], in [:bindings]`},
		{`{:nodes [] :bindings {"x" 1}}`, `1:27: error CHECK-015 wanted a keyword as the name of a binding, got "x", in [:bindings "x"]`},
		{`{:nodes [] :max-parallel 0}`, `1:26: error CHECK-015 wanted an integer from 1 to 64, got 0, in [:max-parallel]`},
		{`{:nodes [] :max-parallel 65}`, `1:26: error CHECK-026 wanted an integer from 1 to 64, got 65, in [:max-parallel]`},
		{`{:nodes [] :max-parallel 1.0}`, `1:26: error CHECK-015 wanted an integer, got 1.0, in [:max-parallel]`},
	} {
		assert.Equal(t, []string{"plan.edn:" + row.want}, lines(t, row.text, testEnv(t)), row.text)
	}
	for _, text := range []string{`{:nodes ()}`, `{:nodes ({:op :emit :input 1})}`, `{:id :p :nodes [] :mode :lazy :max-parallel 64 :bindings {}}`} {
		assert.Empty(t, lines(t, text, testEnv(t)), text)
	}
}

// TestDefaults: IR-008.
func TestDefaults(t *testing.T) {
	prog := load(t, `{:nodes [{:op :call :intent :plan/compile} {:op :map :over [1] :body [{:op :emit}]} {:op :call :intent :text/respond :max-attempts 3 :dispatch {:timeout {:extend-ms 5}} :input {:prompt "x"}}]}`, testEnv(t))
	p := prog.Plan
	assert.Equal(t, plan.Hybrid, p.Mode)
	assert.Equal(t, 8, p.MaxParallel)
	assert.Equal(t, "n0", p.Nodes[0].ID)
	assert.Equal(t, "{}", p.Nodes[0].Input.Source().String())
	assert.Equal(t, 4, p.Nodes[1].MaxParallel)
	assert.Equal(t, "item", p.Nodes[1].Item)
	pol, err := p.Nodes[2].Layer.Resolve()
	require.NoError(t, err)
	assert.Equal(t, 2, pol.Retries("schema/invalid"))
	assert.Equal(t, 0, pol.Retries("timeout/soft"))
	assert.Equal(t, "5ms", pol.Extend.String())
	v, _, fillErr := p.Nodes[1].Sub.Nodes[0].Input.Fill(nil, nil)
	require.Nil(t, fillErr)
	assert.True(t, v.IsNil())
}

// TestIdentity: IR-007, equal plans have the same hash in every notation.
func TestIdentity(t *testing.T) {
	a, _ := plan.Parse(edn.MustRead(`{:id "p" :nodes [{:op :emit :input {:b 1 :a 2}}]}`), nil)
	b, _ := plan.Parse(edn.MustRead(`{:nodes [{:input {:a 2, :b 1} :op :emit}] ; the same
	 :id "p"}`), nil)
	c, _ := plan.Parse(edn.MustRead(`{:id "p" :nodes [{:op :emit :input {:b 1 :a 3}}]}`), nil)
	assert.Equal(t, a.Hash(), b.Hash())
	assert.NotEqual(t, a.Hash(), c.Hash())
	assert.True(t, strings.HasPrefix(a.Hash(), "b3:"))
}

// TestSurroundings: CHECK-021, CHECK-022, CHECK-025, request, policy and parent
// count too.
func TestSurroundings(t *testing.T) {
	env := testEnv(t)
	request := policy.Origin{Source: policy.SourceRequest}
	const tool = `{:nodes [{:op :tool :tool/id :fs/write :input {:path "x" :content "y"} :effects {:allowed #{:fs/write}}}]}`
	assert.Empty(t, lines(t, tool, env))
	env.Request = policy.Layer{Effects: policy.Of([]string{"none"}, request)}
	assert.Equal(t, []string{"plan.edn:1:30: error CHECK-021 :fs/write is needed by :fs/write and not allowed to the request in [:nodes 0 :tool/id]"}, lines(t, tool, env))
	assert.Equal(t, []string{"plan.edn:1:29: error CHECK-021 :fs/write is needed by :fs/scribe and not allowed to the request in [:nodes 0 :intent]"},
		lines(t, `{:nodes [{:op :call :intent :fs/scribe}]}`, env))
	for _, keys := range []string{``, `:dispatch {:timeout {:extend-ms 5}}`} {
		assert.Equal(t, []string{"CHECK-015 [:nodes 0]"},
			places(t, env, `{:nodes [{:op :tool :tool/id :fs/write :input {:path "x" :content "y"} `+keys+`}]}`))
	}

	env = testEnv(t)
	env.Policies = &policy.Book{Intents: map[string]policy.Layer{"text/respond": {
		Must:      policy.NamesOf(policy.Origin{Source: policy.SourceIntent}, "tests-pass"),
		Fallbacks: policy.NamesOf(policy.Origin{Source: policy.SourceIntent}, "llm/meta"),
		Requires:  policy.Requires{OutSchema: policy.Of("res/text", policy.Origin{Source: policy.SourceIntent})},
	}}}
	assert.Equal(t, []string{"plan.edn:1:29: error CHECK-022 nothing provides the must check :tests-pass, which asks for :code/test, in [:nodes 0 :intent]"},
		lines(t, `{:nodes [{:op :call :intent :text/respond :dispatch {:candidates [:llm/voice]} :input {:prompt "x"}}]}`, env))
	assert.Contains(t, strings.Join(lines(t, `{:nodes [{:op :call :intent :text/respond :output {:schema :res/code}}]}`, env), "\n"),
		"CHECK-015 two different values for :out-schema in [:nodes 0] and in a weaker layer")

	env = testEnv(t)
	env.Routing = func(intent string) []string { return []string{"llm/voice"} }
	assert.Contains(t, lines(t, `{:nodes [{:op :call :intent :idle/nobody}]}`, env)[0], ":llm/voice is intent/not-supported")
	assert.Equal(t, []string{"plan.edn:1:29: error CHECK-025 no candidate can serve :idle/nobody: all are excluded, " +
		"in [:nodes 0 :intent]"},
		lines(t, `{:nodes [{:op :call :intent :idle/nobody :dispatch {:exclude [:llm/voice]}}]}`, env))

	env = testEnv(t)
	env.Outer = func(name string) bool { return name == "given" }
	assert.Empty(t, lines(t, `{:nodes [{:op :emit :input :given}]}`, env))
	assert.Len(t, lines(t, `{:nodes [{:op :emit :input :missing}]}`, env), 1)
	assert.Empty(t, lines(t, `{:bindings {:own 1} :nodes [{:op :emit :input :own}]}`, env))

	// The binding fills :x before node c does, so b waits for no other node.
	assert.Equal(t, []string{"plan.edn:1:52: error CHECK-018 slot :y is filled later, by node 1 at 1:113; move the let or use :slot/default"},
		lines(t, `{:bindings {:x 1} :nodes [{:op :let :id "a" :value {:slot/id :y} :as :w} {:op :let :id "b" :value {:slot/id :x} :as :y} `+
			`{:op :let :id "c" :value {:slot/id :w} :as :x} {:op :emit :input :x}]}`, env))
}

// TestAllFindingsAtOnce: CHECK-003, at most 200, by position; errors take
// precedence over warnings.
func TestAllFindingsAtOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("{:nodes [\n")
	for i := range 600 {
		fmt.Fprintf(&b, "{:op :let :value 1 :as :s%d}\n", i)
	}
	for i := range 150 {
		fmt.Fprintf(&b, "{:op :call :intent :text/respnd :id \"c%d\"}\n", i)
	}
	b.WriteString("]}")
	p, _ := readPlan(t, b.String())
	fs := plan.Check(p, testEnv(t))
	require.Len(t, fs, plan.MaxFindings)
	errors, last := 0, 0
	for _, f := range fs {
		if f.Severity == plan.Error {
			errors++
		}
		assert.Greater(t, f.Line, last)
		last = f.Line
	}
	assert.Equal(t, 150, errors)

	many := strings.ReplaceAll(b.String(), ":value 1", ":valeu 1")
	p, fs = readPlan(t, many)
	require.NotNil(t, p)
	assert.Len(t, fs, plan.MaxFindings)
	assert.Len(t, plan.Check(p, testEnv(t)), plan.MaxFindings)
	assert.True(t, plan.HasErrors(fs))
}

// TestFindingsError: a rejected plan is one typed error with all findings.
func TestFindingsError(t *testing.T) {
	p, _ := readPlan(t, testdata(t, "bad.edn"))
	fs := plan.Check(p, testEnv(t))
	err := plan.FindingsError(fs, 2)
	require.NotNil(t, err)
	assert.Equal(t, "plan/invalid", err.Type)
	assert.Contains(t, err.Message, "CHECK-011 unknown intent :text/respnd")
	assert.Contains(t, err.Message, "(and 4 more)")
	findings, ok := err.Details.Get(edn.K("findings"))
	require.True(t, ok)
	assert.Equal(t, 5, findings.Len())
	assert.Equal(t, "2", err.Where.Key("line").String())
	assert.Nil(t, plan.FindingsError(nil, 1))
	assert.Nil(t, plan.FindingsError([]plan.Finding{{Severity: plan.Warning}}, 1))
}

// CHECK-001: with the text of a plan, findings that were made without it get
// positions.
func TestFindingsOf(t *testing.T) {
	for _, text := range []string{
		testdata(t, "bad.edn"),
		`{:nodes [{:op :let :value 1 :as "b"} {:op :emit :input :ghost}] :nodse 1}`,
		`{:nodes [{:op :call :intnet :num/add :as :a} {:op :emit :input {:slot/id :b}}]}`,
		`[{:nodes []}]`,
		`{:nodes [{:op :emit :id "[:nodes 0]" :input 1} {:op :emit :id "[:nodes 0]" :input 2}]}`,
	} {
		v, positions, err := edn.ReadWithPositions([]byte(text))
		require.NoError(t, err)
		check := func(positions *edn.Positions) []plan.Finding {
			p, found := plan.Parse(v, positions)
			if p != nil {
				found = plan.Check(p, testEnv(t))
			}
			return found
		}
		without := plan.FindingsError(check(nil), contract.SourceRequest)
		require.NotNil(t, without, text)
		assert.True(t, without.Where.Key("line").IsNil(), "it had no text")
		read := contract.ErrorFromValue(without.Value(), contract.SourceHost)
		want, got := check(positions), plan.FindingsOf(read, positions)
		require.Len(t, got, len(want), text)
		assert.Equal(t, want, got, text)
	}
	assert.Nil(t, plan.FindingsOf(contract.Errorf("timeout/hard", "late"), nil))
}

// TestRefusedLink: a plan with a cycle has no graph.
func TestRefusedLink(t *testing.T) {
	p, _ := readPlan(t, `{:nodes [{:op :plan :plan {:nodes [{:op :emit :id "a" :input 1 :needs ["b"]} {:op :emit :id "b" :input 1 :needs ["a"]}]}}]}`)
	_, err := plan.Link(p, testEnv(t))
	require.NotNil(t, err)
	assert.Equal(t, "plan/invalid", err.Type)
}

// TestNextSteps: a time with a unit and a misspelt slot have a hint with the
// correct form (CHECK-001).
func TestNextSteps(t *testing.T) {
	found := func(text string) plan.Finding {
		_, findings := plan.Parse(edn.MustRead(text), nil)
		require.Len(t, findings, 1, text)
		return findings[0]
	}
	assert.Equal(t, "write it in milliseconds: 1500", found(`{:nodes [{:op :call :intent :x/y :deadline-ms "1.5s" :input {}}]}`).Hint)
	assert.Empty(t, found(`{:nodes [{:op :call :intent :x/y :deadline-ms "soon" :input {}}]}`).Hint)
	assert.Equal(t, ":slot/path", found(`{:nodes [{:op :emit :input {:slot/paht [:y]}}]}`).Nearest.String())
}
