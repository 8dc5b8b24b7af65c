package journal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var (
	oneRef   = journal.RefTo(edn.Int(1))
	twoRef   = journal.RefTo(edn.Int(2))
	refusal  = contract.Errorf("provider/error", "no").WithSource(contract.SourcePlugin)
	figures  = edn.MustRead(`{:p95-ms 7}`)
	attempts = edn.MustRead(`{:attempts 1}`)
)

func reservedAs(what string, attempt int, gate string) *journal.BudgetReserved {
	r := &journal.BudgetReserved{
		For:     what,
		Scopes:  []string{"run", "node"},
		Amount:  attempts,
		Attempt: attempt,
		Gate:    gate,
	}
	r.SetSeq(3)
	return r
}

// daily is a reservation in scopes of which one counts per day.
func daily() *journal.BudgetReserved {
	r := reservedAs("vote", 2, "good")
	r.Scopes, r.Windows = []string{"tenant", "user"}, map[string]time.Time{"user": time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)}
	return r
}

// wholes are records with every possible key, and their own keys as EDN; H1
// and H2 are the hashes of 1 and 2, E1 is the error refusal.
func wholes() []struct {
	body journal.Body
	text string
} {
	return []struct {
		body journal.Body
		text string
	}{
		{&journal.RunAccepted{
			Principal:      "uid/7",
			PrincipalType:  "user",
			Roles:          []string{"admin", "any"},
			Operation:      "act/run",
			Intent:         "a/b",
			Request:        oneRef,
			Fingerprint:    twoRef,
			ResponseType:   "stream",
			Class:          "sync",
			Priority:       -3,
			DeadlineAt:     time.Unix(9, 0),
			Config:         edn.Hash(edn.Int(1)),
			Evaluator:      2,
			Seed:           -7,
			Budget:         attempts,
			Trace:          edn.MustRead(`{:id "t"}`),
			Access:         []edn.Value{edn.MustRead(`{:what 1 :rule 2 :reason 3}`)},
			Key:            edn.Hash(edn.Int(2)),
			RequestID:      "q-1",
			Dir:            "/home/ann",
			SessionID:      "s-1",
			SessionVersion: 4,
			SessionOwner:   "uid/7",
			SessionCreated: time.Unix(8, 0),
			ReplayOf:       "run_1",
			ReplayMode:     journal.ReplayFill,
		}, `{:access [{:reason 3 :rule 2 :what 1}] :budget {:attempts 1} :class :sync :config "H1"
			:deadline-at #inst "1970-01-01T00:00:09.000Z" :dir "/home/ann" :evaluator 2 :fingerprint "H2" :intent :a/b :key "H2"
			:operation :act/run :principal "uid/7" :principal/type :user :priority -3 :replay/mode :fill :replay/of "run_1" :request "H1" :request/id "q-1"
			:response/type :stream :roles #{:admin :any} :seed -7 :session/created-at #inst "1970-01-01T00:00:08.000Z" :session/id "s-1"
			:session/owner "uid/7" :session/version 4 :trace {:id "t"}}`},
		{&journal.RunStarted{Host: "h", Boot: "b", Config: edn.Hash(edn.Int(1)), Protocol: edn.Hash(edn.Int(2))},
			`{:boot "b" :config "H1" :host "h" :protocol "H2"}`},
		{&journal.RunResumed{Host: "h", Boot: "b", Config: edn.Hash(edn.Int(1)), Was: edn.Hash(edn.Int(2)), Why: "decision", Values: oneRef,
			Decisions: []journal.Decision{{Path: edn.Vector(edn.Int(0)), Choice: journal.DecisionDone, By: "uid/7"}}},
			`{:boot "b" :config "H1" :config/was "H2" :decisions [{:by "uid/7" :decision :skip-as-done :path [0]}] :host "h" :values "H1"
				:why :decision}`},
		{&journal.PlanResolved{
			Plan:      oneRef,
			Source:    "answer",
			WorstCase: attempts,
			Warnings:  []edn.Value{edn.MustRead(`{:code 1}`)},
			Unbounded: true,
			Bindings:  twoRef,
			Attempt:   2,
			CapID:     "a/one",
		}, `{:attempt 2 :bindings "H2" :cap/id :a/one :plan "H1" :source :answer :unbounded? true :warnings [{:code 1}]
			:worst-case {:attempts 1}}`},
		{&journal.NodeResolved{
			Op:         "call",
			Intent:     "a/b",
			ToolID:     "a/tool",
			Candidates: []journal.Candidate{{CapID: "a/one", Figures: figures}, {CapID: "a/two"}},
			Rejected: []journal.Rejection{
				{CapID: "a/three", Reason: "runtime/not-ready", Why: "provider/not-configured", Figures: figures},
				{CapID: "a/four", Reason: "runtime/not-ready"},
			},
			Policy:   "declared",
			Strategy: "race",
			Width:    2,
			Coerced:  []edn.Value{edn.MustRead(`[:input :text]`)},
			Stream:   "first-token",
			Learned: &journal.Learned{
				Bucket:     "small",
				Counts:     []journal.LearnedCounts{{CapID: "a/one", Major: 1, Passes: 2.5, Fails: 1}, {CapID: "a/two", Major: 2}},
				Seed:       oneRef.Hash(),
				Order:      []string{"a/two", "a/one"},
				Explored:   true,
				Propensity: 0.25,
			},
		}, `{:candidates [{:cap/id :a/one :figures {:p95-ms 7}} {:cap/id :a/two}] :coerced [[:input :text]]
			:intent :a/b :learned {:bucket "small" :counts [{:cap/id :a/one :fails 1M :major 1 :passes 2.5M} {:cap/id :a/two :fails 0M :major 2 :passes 0M}]
			 :explored? true :order [:a/two :a/one] :propensity 0.25M :seed "H1"} :op :call
			:policy :declared :rejected [{:cap/id :a/three :figures {:p95-ms 7} :reason :runtime/not-ready :why
			:provider/not-configured}
			{:cap/id :a/four :reason :runtime/not-ready}] :strategy :race :stream :first-token :tool/id :a/tool :width 2}`},
		{&journal.NodeSkipped{Op: "map", When: edn.MustRead(`{:slot/id :x}`)}, `{:op :map :when {:slot/id :x}}`},
		{&journal.AttemptStarted{
			Attempt:     2,
			CapID:       "a/one",
			CapVersion:  "1.2.3",
			CapKind:     "llm",
			Request:     oneRef,
			Effects:     []string{"fs/write"},
			Recovery:    "once",
			EffectKey:   edn.Hash(edn.Int(1)),
			Budget:      attempts,
			Binary:      edn.Hash(edn.Int(2)),
			Generation:  4,
			Enforcement: "port-only",
			Round:       1,
			Entrant:     "hedge",
			Waited:      1500 * time.Microsecond,
			Recorded:    true,
		}, `{:attempt 2 :binary "H2" :budget {:attempts 1} :cap/id :a/one :cap/kind :llm :cap/version "1.2.3" :effect/key "H1"
			:effects #{:fs/write}
			:enforcement :port-only :entrant :hedge :generation 4 :recorded? true :recovery :once :request "H1" :round 1 :waited-ms 1}`},
		{&journal.AttemptChunk{Attempt: 2, Chunk: 3, Value: oneRef, Visible: "provisional"},
			`{:attempt 2 :chunk 3 :value "H1" :visible :provisional}`},
		{&journal.AttemptChunk{Attempt: 2, Chunk: 3, Inline: "1", Visible: "provisional"}, // of an earlier version
			`{:attempt 2 :chunk 3 :text "1" :visible :provisional}`},
		{&journal.AttemptRetracted{Attempt: 2, Reason: "race/lost"}, `{:attempt 2 :reason :race/lost}`},
		{&journal.AttemptFinished{
			Attempt:    2,
			Outcome:    "error",
			Latency:    7 * time.Millisecond,
			Usage:      edn.MustRead(`{:tokens-in 1}`),
			Result:     oneRef,
			ResultType: "value",
			Raw:        twoRef,
			Meta:       edn.MustRead(`{:model "m"}`),
			Err:        refusal,
			Extended:   9 * time.Millisecond,
		}, `{:attempt 2 :error E1 :extended-ms 9 :latency-ms 7 :meta {:model "m"} :outcome :error :raw "H2" :result "H1"
			:result/type :value :source :plugin :usage {:tokens-in 1}}`},
		{&journal.GateVerdict{
			Attempt:       2,
			Gate:          "good",
			Severity:      "should",
			Tier:          3,
			Pass:          true,
			Score:         journal.ScoreOf(1000),
			Findings:      oneRef,
			NotApplicable: true,
			CapID:         "a/judge",
			CapVersion:    "1.0.0",
			Latency:       7 * time.Millisecond,
			Usage:         edn.MustRead(`{:tokens-in 1}`),
			Err:           refusal,
			JudgeKey:      edn.Hash(edn.Int(2)),
			Votes:         []edn.Value{edn.MustRead("0.5M"), edn.MustRead("1M")},
			Memo:          true,
			JudgeCalls:    2,
		}, `{:applicable? false :attempt 2 :cap/id :a/judge :cap/version "1.0.0" :error E1 :findings "H1" :gate
			:good :judge-calls 2
			:judge/key "H2" :latency-ms 7 :memo? true :pass true :score 1M :severity :should :tier 3 :usage
			{:tokens-in 1} :votes [0.5M 1M]}`},
		{&journal.NodeCommitted{
			Value:       oneRef,
			As:          "x",
			CapID:       "a/one",
			Attempt:     2,
			Score:       journal.ScoreOf(0),
			FailureType: "runtime/crashed",
		}, `{:as :x :attempt 2 :cap/id :a/one :failure/type :runtime/crashed :score 0M :value "H1"}`},
		{&journal.NodeFailed{Err: refusal, Attempts: 2, Findings: oneRef}, `{:attempts 2 :class :retry :error E1
			:failure/type :provider/error :findings "H1" :source :plugin}`},
		{daily(), `{:amounts {:tenant {:attempts 1} :user {:attempts 1}} :windows {:user #inst "2026-11-26T00:00:00.000Z"} :attempt 2 :for :vote
			:gate :good}`},
		{&journal.BudgetSettled{Of: reservedAs("vote", 2, "good"), Amount: attempts, Mark: "at-least"},
			`{:amounts {:node {:attempts 1} :run {:attempts 1}} :mark :at-least :of 3}`},
		{&journal.EnvRead{What: "clock", Ordinal: 2, Value: edn.Inst(time.Unix(1, 0))},
			`{:ordinal 2 :value #inst "1970-01-01T00:00:01.000Z" :what :clock}`},
		{&journal.InterruptOpened{
			Interrupt:  "0-1-1",
			Attempt:    1,
			Question:   oneRef,
			Schema:     "a/b",
			DeadlineAt: time.Unix(9, 0),
			OnDeadline: "default",
			Default:    journal.RefTo(edn.Int(2)),
		}, `{:attempt 1 :deadline-at #inst "1970-01-01T00:00:09.000Z" :default "H2" :interrupt "0-1-1" :on-deadline :default
			:question "H1" :schema :a/b}`},
		{&journal.InterruptAnswered{Interrupt: "0-1-1", By: "uid/7", Answer: oneRef}, `{:answer "H1" :by "uid/7" :interrupt "0-1-1"}`},
		{&journal.CancelRequested{By: "uid/7", Why: "enough"}, `{:by "uid/7" :why "enough"}`},
		{&journal.RunSuspended{Why: "effects/outcome-unknown", Open: []journal.Question{
			{Path: edn.Vector(edn.Int(0)), Node: "pay", Attempt: 2, CapID: "a/one", EffectKey: edn.Hash(edn.Int(2))},
		}}, `{:open [{:attempt 2 :cap/id :a/one :effect/key "H2" :node "pay" :path [0]}] :why :effects/outcome-unknown}`},
		{&journal.RunFinished{
			Status:   "failed",
			Response: oneRef,
			Executed: true,
			Latency:  7 * time.Millisecond,
			Totals:   edn.MustRead(`{:operations {:failed 1} :attempts {:total 2}}`),
			Err:      refusal,
		}, `{:error E1 :executed? true :latency-ms 7 :response "H1" :status :failed
			:totals {:attempts {:total 2} :operations {:failed 1}}}`},
		{&journal.HostEvent{Event: "quality/swap", Details: edn.MustRead(`{:to :a/two}`), CapID: "a/one", Intent: "a/b"},
			`{:cap/id :a/one :details {:to :a/two} :event :quality/swap :intent :a/b}`},
		{&journal.ActRejected{Operation: "http.v1/act", Trace: edn.MustRead(`{:id "t"}`), Err: refusal, Latency: 7 * time.Millisecond,
			Principal: "ann", Address: "::1"},
			`{:address "::1" :error E1 :latency-ms 7 :operation :http.v1/act :principal "ann" :trace {:id "t"}}`},
		{&journal.ActRejected{Operation: "http.v1/act", Trace: edn.MustRead(`{}`), Err: refusal, Principal: "ann",
			PrincipalType: "simple", Roles: []string{"role/a", "role/b"}, Intent: "a/b", Status: journal.ActWasRejected},
			`{:error E1 :intent :a/b :latency-ms 0 :operation :http.v1/act :principal "ann" :principal/type :simple
			:roles #{:role/a :role/b} :status :rejected :trace {}}`},
		{&journal.ActFinished{
			Run: "run_1", Operation: "http.v1/act", Trace: edn.MustRead(`{:id "t"}`), RequestID: "q-1", SessionID: "s-1",
			Principal: "uid/7", PrincipalType: "user", Roles: []string{"admin", "any"}, Intent: "a/b", CapID: "a/one", Outcome: journal.ActError,
			Status: "failed", ErrorType: "provider/error", Latency: 7 * time.Millisecond, Executed: true, Message: "no",
		}, `{:act/run "run_1" :cap/id :a/one :error/type :provider/error :executed? true :intent :a/b :latency-ms 7 :message "no"
			:operation :http.v1/act :outcome :error :principal "uid/7" :principal/type :user :request/id "q-1" :roles #{:admin :any}
			:session/id "s-1" :status :failed :trace {:id "t"}}`},
		{&journal.AuthEvent{Event: "auth/denied", User: "uid/7", Address: "::1", Operation: "http.v1/act", Level: journal.LevelWarn,
			Message: "no", Rule: edn.MustRead(`{:ok? false}`), Reason: "auth/forbidden"},
			`{:address "::1" :event :auth/denied :level :warn :message "no" :operation :http.v1/act :reason :auth/forbidden
			:rule {:ok? false} :success? false :user "uid/7"}`},
		{&journal.AuthEvent{Event: "auth/permitted", User: "uid/7", Operation: "runs/any", Success: true, Level: journal.LevelInfo,
			Message: "GET", Rule: edn.MustRead(`{:what :runs/any}`), Run: "run_1", SessionID: "s-1"},
			`{:act/run "run_1" :event :auth/permitted :level :info :message "GET" :operation :runs/any :rule {:what :runs/any}
			:session/id "s-1" :success? true :user "uid/7"}`},
		{&journal.SessionAction{Action: "session/put-var", Principal: "uid/7", SessionID: "s-1", Keys: []string{"session/a", "session/b"}, Err: refusal, TraceParent: "00-1-2-01",
			Access: []edn.Value{edn.MustRead(`{:what :http.v1/session :rule {} :reason :any}`)}},
			`{:access [{:reason :any :rule {} :what :http.v1/session}] :action :session/put-var :error E1 :keys #{"session/a" "session/b"} :ok? false :principal "uid/7" :session/id "s-1" :traceparent "00-1-2-01"}`},
		{&journal.AdminAction{Action: "admin/drain", Principal: "uid/7", Address: "::1", Input: edn.MustRead(`{:wait 1}`), Err: refusal, Replayed: true, TraceParent: "00-1-2-01",
			Access: []edn.Value{edn.MustRead(`{:what :admin/drain :rule {} :reason :any}`)}},
			`{:access [{:reason :any :rule {} :what :admin/drain}] :action :admin/drain :address "::1" :error E1 :input {:wait 1} :ok? false :principal "uid/7" :replayed? true :traceparent "00-1-2-01"}`},
		{&journal.PluginTransition{Plugin: "x", Generation: 3, From: "ready", To: "backoff", Cause: "exit", PID: 7, Calls: 2, Err: refusal},
			`{:calls 2 :cause :exit :error E1 :from :ready :generation 3 :instance 0 :pid 7 :plugin "x" :to :backoff}`},
		{&journal.ConfigReloaded{Old: edn.Hash(edn.Int(1)), New: edn.Hash(edn.Int(2)), Actions: []edn.Value{edn.MustRead(`{:path ["a"]}`)}},
			`{:actions [{:path ["a"]}] :new "H2" :old "H1"}`},
	}
}

// own returns the keys of a record that belong to its kind.
func own(text string) edn.Value {
	return edn.MustRead(strings.NewReplacer(
		"H1", edn.Hash(edn.Int(1)),
		"H2", edn.Hash(edn.Int(2)),
		"E1", refusal.Value().String(),
	).Replace(text))
}

// JRN-009: a record of each kind with all of its keys, as it is stored: the
// common keys, the path of the kinds that have one, and its own keys. The
// value fits the schema.
func TestWholeRecords(t *testing.T) {
	seen := map[journal.Kind]bool{}
	for _, w := range wholes() {
		kind := w.body.Kind()
		seen[kind] = true
		rec := record(w.body)
		require.NoError(t, rec.Check(), kind)
		s, _ := journal.Schema(kind)
		got := rec.Value()
		assert.Empty(t, s.Validate(got), kind)
		want := own(w.text).
			AssocKey("v", edn.Int(1)).AssocKey("run", edn.Text("run_x")).AssocKey("seq", edn.Int(1)).
			AssocKey("at", edn.Inst(time.Unix(1, 0))).AssocKey("epoch", edn.Int(1)).
			AssocKey("kind", edn.K(string(kind)))
		if s.Validate(got.Dissoc(edn.K("path"))) != nil { // the kind has a path
			want = want.AssocKey("path", edn.MustRead("[0]")).AssocKey("node", edn.Text("n0"))
		}
		assert.Equal(t, want.String(), got.String(), kind)
	}
	assert.Len(t, seen, len(journal.Kinds()))
}

// JRN-009: a record of each kind without optional keys.
func TestLeastRecords(t *testing.T) {
	for kind, text := range map[journal.Kind]string{
		journal.KindRunAccepted: `{:access [] :budget {} :class :sync :config "H1" :deadline-at #inst
			"1970-01-01T00:00:09.000Z"
			:evaluator 1 :fingerprint "H1" :intent :a/b :operation :act/run :principal "local" :principal/type :local
			:priority 0
			:request "H1" :response/type :value :roles #{} :seed 0 :trace {}}`,
		journal.KindRunStarted:   `{:boot "b" :config "H1" :host "h"}`,
		journal.KindPlanResolved: `{:plan "H1" :source :request :warnings [] :worst-case {}}`,
		journal.KindNodeResolved: `{:candidates [{:cap/id :a/one}] :intent :a/b :op :call :policy :declared
			:rejected [{:cap/id :a/two :reason :runtime/not-ready :why :provider/not-configured}] :strategy :cascade}`,
		journal.KindAttemptStarted: `{:attempt 1 :budget {} :cap/id :a/one :cap/version "1.0.0" :effect/key "H1"
			:effects #{:none}
			:recovery :none :request "H1"}`,
		journal.KindGateVerdict:     `{:attempt 1 :gate :schema-valid :pass true :severity :must :tier 0}`,
		journal.KindCancelRequested: `{:by "local"}`,
		journal.KindRunFinished: `{:executed? false :latency-ms 0 :response "H1" :status :completed
			:totals {:attempts {} :operations {}}}`,
	} {
		got := record(samples()[kind]).Value().Dissoc(edn.K("v"), edn.K("run"), edn.K("seq"), edn.K("at"), edn.K("epoch"),
			edn.K("kind"), edn.K("path"), edn.K("node"))
		assert.Equal(t, own(text).String(), got.String(), kind)
	}
	finished := &journal.AttemptFinished{Attempt: 1, Outcome: "ok", Latency: -time.Second, Extended: time.Microsecond}
	got := record(finished).Value()
	assert.Equal(t, "0", got.Key("latency-ms").String(), "a clock that was set back")
	for _, key := range []string{"error", "source", "extended-ms", "meta", "raw", "result"} {
		assert.False(t, got.HasKey(key), key)
	}
	committed := record(&journal.NodeCommitted{Value: oneRef}).Value()
	for _, key := range []string{"as", "cap/id", "attempt", "score", "failure/type"} {
		assert.False(t, committed.HasKey(key), key)
	}
	root := record(&journal.PlanResolved{Plan: oneRef, Source: "request"})
	root.Path, root.Node = edn.Nil(), ""
	require.NoError(t, root.Check())
	assert.Equal(t, "[]", root.Value().Key("path").String())
	assert.False(t, root.Value().HasKey("node"))
	unknown := journal.Record{Run: "run_x"}.Value()
	assert.Equal(t, []bool{true, false}, []bool{unknown.HasKey("run"), unknown.HasKey("kind")})
	reserved := record(&journal.BudgetReserved{For: "run", Scopes: []string{"run"}})
	require.NoError(t, reserved.Check())
	assert.Equal(t, "{:run {}}", reserved.Value().Key("amounts").String())
	verdict := record(&journal.GateVerdict{Votes: []edn.Value{edn.Int(1)}})
	assert.Equal(t, "[1]", verdict.Value().Key("votes").String())
}

// spoilt changes a whole record of the type of B.
func spoilt[B journal.Body](change func(B)) journal.Body {
	for _, w := range wholes() {
		if b, ok := w.body.(B); ok {
			change(b)
			return b
		}
	}
	panic("no such record")
}

// JRN-009: the error names the key that is missing or ill-typed.
func TestRefusedRecords(t *testing.T) {
	type (
		accepted = *journal.RunAccepted
		started  = *journal.RunStarted
		plan     = *journal.PlanResolved
		resolved = *journal.NodeResolved
		skipped  = *journal.NodeSkipped
		attempt  = *journal.AttemptStarted
		chunk    = *journal.AttemptChunk
		retract  = *journal.AttemptRetracted
		answered = *journal.AttemptFinished
		verdict  = *journal.GateVerdict
		commit   = *journal.NodeCommitted
		failed   = *journal.NodeFailed
		reserved = *journal.BudgetReserved
		settled  = *journal.BudgetSettled
		env      = *journal.EnvRead
		opened   = *journal.InterruptOpened
		cancel   = *journal.CancelRequested
		finished = *journal.RunFinished
		host     = *journal.HostEvent
		rejected = *journal.ActRejected
	)
	none, text := journal.Ref{}, edn.Text("x")
	for _, row := range []struct {
		key  string
		body journal.Body
	}{
		{"principal", spoilt(func(b accepted) { b.Principal = "" })},
		{"principal/type", spoilt(func(b accepted) { b.PrincipalType = "" })},
		{"operation", spoilt(func(b accepted) { b.Operation = "" })},
		{"intent", spoilt(func(b accepted) { b.Intent = "" })},
		{"request", spoilt(func(b accepted) { b.Request = none })},
		{"fingerprint", spoilt(func(b accepted) { b.Fingerprint = none })},
		{"response/type", spoilt(func(b accepted) { b.ResponseType = "file" })},
		{"class", spoilt(func(b accepted) { b.Class = "" })},
		{"deadline-at", spoilt(func(b accepted) { b.DeadlineAt = time.Time{} })},
		{"config", spoilt(func(b accepted) { b.Config = "" })},
		{"evaluator", spoilt(func(b accepted) { b.Evaluator = 0 })},
		{"budget", spoilt(func(b accepted) { b.Budget = text })},
		{"trace", spoilt(func(b accepted) { b.Trace = edn.Nil() })},
		{"key", spoilt(func(b accepted) { b.Key = "b3:" })},
		{"host", spoilt(func(b started) { b.Host = "" })},
		{"boot", spoilt(func(b started) { b.Boot = "" })},
		{"config", spoilt(func(b started) { b.Config = "" })},
		{"protocol", spoilt(func(b started) { b.Protocol = "b3" })},
		{"plan", spoilt(func(b plan) { b.Plan = none })},
		{"source", spoilt(func(b plan) { b.Source = "thought" })},
		{"worst-case", spoilt(func(b plan) { b.WorstCase = text })},
		{"attempt", spoilt(func(b plan) { b.Attempt = 0 })},
		{"cap/id", spoilt(func(b plan) { b.CapID = "" })},
		{"warnings", spoilt(func(b plan) { b.Warnings = []edn.Value{text} })},
		{"op", spoilt(func(b resolved) { b.Op = "let" })},
		{"intent", spoilt(func(b resolved) { b.Intent = "" })},
		{"tool/id", spoilt(func(b resolved) { b.Op, b.ToolID = "tool", "" })},
		{"policy", spoilt(func(b resolved) { b.Policy = "" })},
		{"strategy", spoilt(func(b resolved) { b.Strategy = "" })},
		{"stream", spoilt(func(b resolved) { b.Stream = "at-once" })},
		{"candidates", spoilt(func(b resolved) { b.Candidates[1].CapID = "" })},
		{"candidates", spoilt(func(b resolved) { b.Candidates[0].Figures = text })},
		{"rejected", spoilt(func(b resolved) { b.Rejected[1].CapID = "" })},
		{"rejected", spoilt(func(b resolved) { b.Rejected[1].Reason = "" })},
		{"rejected", spoilt(func(b resolved) { b.Rejected[1].Figures = text })},
		{"coerced", spoilt(func(b resolved) { b.Coerced[0] = text })},
		{"op", spoilt(func(b skipped) { b.Op = "" })},
		{"attempt", spoilt(func(b attempt) { b.Attempt = 0 })},
		{"cap/id", spoilt(func(b attempt) { b.CapID = "" })},
		{"cap/version", spoilt(func(b attempt) { b.CapVersion = "" })},
		{"request", spoilt(func(b attempt) { b.Request = none })},
		{"recovery", spoilt(func(b attempt) { b.Recovery = "twice" })},
		{"effect/key", spoilt(func(b attempt) { b.EffectKey = "" })},
		{"budget", spoilt(func(b attempt) { b.Budget = text })},
		{"binary", spoilt(func(b attempt) { b.Binary = "b3" })},
		{"enforcement", spoilt(func(b attempt) { b.Enforcement = "kernel" })},
		{"entrant", spoilt(func(b attempt) { b.Entrant = "cascade" })},
		{"attempt", spoilt(func(b chunk) { b.Attempt = -1 })},
		{"chunk", spoilt(func(b chunk) { b.Chunk = -1 })},
		{"value", spoilt(func(b chunk) { b.Value = none })},
		{"value", spoilt(func(b chunk) { b.Inline = "also" })},
		{"visible", spoilt(func(b chunk) { b.Visible = "hidden" })},
		{"attempt", spoilt(func(b retract) { b.Attempt = -1 })},
		{"reason", spoilt(func(b retract) { b.Reason = "" })},
		{"attempt", spoilt(func(b answered) { b.Attempt = 0 })},
		{"outcome", spoilt(func(b answered) { b.Outcome = "fine" })},
		{"usage", spoilt(func(b answered) { b.Usage = text })},
		{"meta", spoilt(func(b answered) { b.Meta = text })},
		{"result/type", spoilt(func(b answered) { b.ResultType = "" })},
		{"error", spoilt(func(b answered) { b.Err = nil })},
		{"attempt", spoilt(func(b verdict) { b.Attempt = -1 })},
		{"gate", spoilt(func(b verdict) { b.Gate = "" })},
		{"severity", spoilt(func(b verdict) { b.Severity = "may" })},
		{"tier", spoilt(func(b verdict) { b.Tier = -1 })},
		{"tier", spoilt(func(b verdict) { b.Tier = 4 })},
		{"score", spoilt(func(b verdict) { b.Score = journal.ScoreOf(-1) })},
		{"score", spoilt(func(b verdict) { b.Score = journal.ScoreOf(1001) })},
		{"cap/version", spoilt(func(b verdict) { b.CapVersion = "" })},
		{"usage", spoilt(func(b verdict) { b.Usage = text })},
		{"judge-calls", spoilt(func(b verdict) { b.JudgeCalls = -1 })},
		{"value", spoilt(func(b commit) { b.Value = none })},
		{"score", spoilt(func(b commit) { b.Score = journal.ScoreOf(1001) })},
		{"error", spoilt(func(b failed) { b.Err = nil })},
		{"error", spoilt(func(b failed) { b.Err = &contract.Error{Message: "without a type"} })},
		{"attempts", spoilt(func(b failed) { b.Attempts = -1 })},
		{"for", spoilt(func(b reserved) { b.For = "fun" })},
		{"amounts", spoilt(func(b reserved) { b.Scopes = nil })},
		{"amounts", spoilt(func(b reserved) { b.Amount = text })},
		{"amounts", spoilt(func(b reserved) { b.Amount = edn.MustRead(`{"usd" 1}`) })},
		{"amounts", spoilt(func(b reserved) { b.Amount = edn.MustRead(`{:usd "1"}`) })},
		{"attempt", spoilt(func(b reserved) { b.Attempt = 0 })},
		{"windows", spoilt(func(b reserved) { b.Windows = map[string]time.Time{"session": time.Unix(9, 0)} })},
		{"attempt", reservedAs("run", 1, "")},
		{"gate", reservedAs("check", 1, "")},
		{"gate", reservedAs("vote", 1, "")},
		{"gate", reservedAs("attempt", 1, "good")},
		{"of", spoilt(func(b settled) { b.Of = nil })},
		{"of", spoilt(func(b settled) { b.Of = &journal.BudgetReserved{} })},
		{"amounts", spoilt(func(b settled) { b.Amount = text })},
		{"mark", spoilt(func(b settled) { b.Mark = "sure" })},
		{"what", spoilt(func(b env) { b.What = "dice" })},
		{"ordinal", spoilt(func(b env) { b.Ordinal = -1 })},
		{"value", spoilt(func(b env) { b.Value = text })},
		{"interrupt", spoilt(func(b opened) { b.Interrupt = "" })},
		{"question", spoilt(func(b opened) { b.Question = none })},
		{"on-deadline", spoilt(func(b opened) { b.DeadlineAt = time.Time{} })},
		{"on-deadline", spoilt(func(b opened) { b.OnDeadline = "wait" })},
		{"default", spoilt(func(b opened) { b.Default = none })},
		{"default", spoilt(func(b opened) { b.OnDeadline = registry.DeadlineDeny })},
		{"by", spoilt(func(b cancel) { b.By = "" })},
		{"status", spoilt(func(b finished) { b.Status = "done" })},
		{"response", spoilt(func(b finished) { b.Response = none })},
		{"totals", spoilt(func(b finished) { b.Totals = text })},
		{"totals", spoilt(func(b finished) { b.Totals = edn.MustRead(`{:operations {} :attempts {} :more {}}`) })},
		{"totals", spoilt(func(b finished) { b.Totals = edn.MustRead(`{:operations 1 :attempts {}}`) })},
		{"totals", spoilt(func(b finished) { b.Totals = edn.MustRead(`{:operations {} :attempts 1}`) })},
		{"error", spoilt(func(b finished) { b.Err = nil })},
		{"event", spoilt(func(b host) { b.Event = "" })},
		{"details", spoilt(func(b host) { b.Details = edn.Nil() })},
		{"operation", spoilt(func(b rejected) { b.Operation = "" })},
		{"trace", spoilt(func(b rejected) { b.Trace = edn.Nil() })},
		{"error", spoilt(func(b rejected) { b.Err = nil })},
	} {
		err := record(row.body).Check()
		require.ErrorIs(t, err, contract.OfType("runtime/internal"), "%s %s", row.body.Kind(), row.key)
		assert.Contains(t, err.Error(), " "+row.key+" is missing or ill-typed", row.body.Kind())
	}
}

// JRN-009: the common keys are checked before those of the kind.
func TestRefusedHeads(t *testing.T) {
	whole := record(&journal.CancelRequested{By: "x"})
	require.NoError(t, whole.Check())
	node := record(&journal.NodeSkipped{Op: "call"})
	require.NoError(t, node.Check())
	for name, rec := range map[string]journal.Record{
		"no kind":            change(whole, func(r *journal.Record) { r.Body = nil }),
		"no run":             change(whole, func(r *journal.Record) { r.Run = "" }),
		"seq 0":              change(whole, func(r *journal.Record) { r.Seq = 0 }),
		"epoch 0":            change(whole, func(r *journal.Record) { r.Epoch = 0 }),
		"no time":            change(whole, func(r *journal.Record) { r.At = time.Time{} }),
		"path is a number":   change(node, func(r *journal.Record) { r.Path = edn.Int(1) }),
		"path without node":  change(node, func(r *journal.Record) { r.Node = "" }),
		"a fault of its own": record(&journal.CancelRequested{}),
	} {
		assert.ErrorIs(t, rec.Check(), contract.OfType("runtime/internal"), name)
	}
}

func change(r journal.Record, f func(*journal.Record)) journal.Record {
	f(&r)
	return r
}

// Values at a limit are valid.
func TestRecordsAtLimits(t *testing.T) {
	for _, body := range []journal.Body{
		spoilt(func(b *journal.AttemptChunk) { b.Attempt, b.Chunk = 0, 0 }),
		spoilt(func(b *journal.AttemptRetracted) { b.Attempt = 0 }),
		spoilt(func(b *journal.GateVerdict) { b.Attempt, b.Tier, b.Score, b.JudgeCalls = 0, 0, journal.ScoreOf(0), 0 }),
		spoilt(func(b *journal.GateVerdict) { b.Tier, b.Score = 3, journal.ScoreOf(1000) }),
		spoilt(func(b *journal.NodeFailed) { b.Attempts = 0 }),
		spoilt(func(b *journal.EnvRead) { b.Ordinal, b.Value = 0, edn.Int(0) }),
		spoilt(func(b *journal.PlanResolved) { b.Attempt = 1 }),
		spoilt(func(b *journal.AttemptStarted) { b.Attempt = 1 }),
		spoilt(func(b *journal.AttemptFinished) { b.Attempt, b.Outcome, b.Err = 1, "ok", nil }),
		spoilt(func(b *journal.AttemptFinished) { b.Result, b.ResultType = journal.Ref{}, "" }),
		spoilt(func(b *journal.RunFinished) { b.Status, b.Err = "completed", nil }),
		spoilt(func(b *journal.BudgetReserved) { b.Amount = edn.MustRead(`{:usd 0.1M :attempts 1 :share 0.5}`) }),
		reservedAs("run", 0, ""),
		reservedAs("check", 1, "good"),
	} {
		rec := record(body)
		require.NoError(t, rec.Check(), body.Kind())
		s, _ := journal.Schema(body.Kind())
		assert.Empty(t, s.Validate(rec.Value()), body.Kind())
	}
}

// A reservation is referred to by the number of its record.
func TestReservationIsNumbered(t *testing.T) {
	r := &journal.BudgetReserved{Scopes: []string{"run"}}
	assert.Zero(t, r.Seq())
	r.SetSeq(7)
	assert.Equal(t, 7, r.Seq())
	settled := &journal.BudgetSettled{Of: r, Mark: "exact"}
	assert.Equal(t, "7", record(settled).Value().Key("of").String())
	assert.Equal(t, "{:run {}}", record(settled).Value().Key("amounts").String())
	r.SetSeq(1)
	require.NoError(t, record(settled).Check(), "the first record of a run")
	assert.False(t, record(&journal.BudgetSettled{}).Value().HasKey("of"))
}

// A reference creates and hashes its value on demand.
func TestRefs(t *testing.T) {
	asked := 0
	ref := journal.RefOf(valuer(func() edn.Value { asked++; return edn.Int(1) }))
	assert.True(t, ref.Set())
	assert.Zero(t, asked)
	assert.Equal(t, edn.Hash(edn.Int(1)), ref.Hash())
	assert.Equal(t, "1", ref.Value().String())
	assert.Equal(t, 2, asked)
	unset := journal.Ref{}
	assert.False(t, unset.Set())
	assert.Empty(t, unset.Hash())
	assert.True(t, unset.Value().IsNil())
}

type valuer func() edn.Value

func (f valuer) Value() edn.Value { return f() }

// A score is in thousandths; an unset score is not 0.
func TestScores(t *testing.T) {
	for thousandths, want := range map[int64]string{0: "0M", 1: "0.001M", 667: "0.667M", 1000: "1M"} {
		s := journal.ScoreOf(thousandths)
		assert.True(t, s.Set())
		assert.Equal(t, want, s.Value().String())
	}
	assert.False(t, journal.Score{}.Set())
	assert.True(t, journal.Score{}.Value().IsNil())
}
