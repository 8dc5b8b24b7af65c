package act_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func service(t testing.TB, w *dispatchtest.World, change ...func(*act.Config)) *act.Service {
	t.Helper()
	c := act.Config{
		Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: journal.NewMemory(),
		Hash: edn.Hash(edn.Nil()),
	}
	for _, f := range change {
		f(&c)
	}
	s, err := act.New(c)
	require.NoError(t, err)
	return s
}

func two(t testing.TB) *dispatchtest.World {
	return dispatchtest.New(t, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/two", "")}})
}

func value(text string) dispatchtest.Step { return dispatchtest.Step{Value: edn.MustRead(text)} }

func request(text string) act.Act { return act.Act{Request: edn.MustRead(text)} }

// do runs an act to its end and returns the response with the records of the
// run.
func do(t testing.TB, s *act.Service, text string) (edn.Value, *contract.Error, []journal.Record) {
	t.Helper()
	r, err := s.Start(context.Background(), request(text))
	if err != nil {
		return edn.Nil(), err, nil
	}
	resp, err := r.Wait()
	records := r.Records()
	for _, rec := range records {
		dispatchtest.Verify(t, rec)
	}
	if _, measured := t.(*testing.B); !measured { // JRN-050: every run can be replayed
		_, missed := act.Replay(context.Background(), s.Config(), r.ID(), records)
		assert.Nil(t, missed, "replay: %v", missed)
	}
	return resp, err, records
}

func kinds(records []journal.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = string(r.Body.Kind())
	}
	return out
}

const ask = `{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {:prompt "p"} `

// SCHED-006, RUN-003: an act that names only an intent is a one-node plan, and
// the input of its caller is data.
func TestIntentAlone(t *testing.T) {
	w := two(t)
	w.On("a/one", value(`{:text "hello"}`))
	resp, err, records := do(t, service(t, w), `{:proto 1 :trace {:id "r" :turn 2} :task {:intent :text/respond} :request/id "q-1"
	  :input {:prompt {:slot/id :x} :n 1} :context {:summary {:slot/path [:y]}}}`)
	require.Nil(t, err)
	assert.Equal(t, `{:out {:text "hello"} :type :value}`, resp.Key("result").String())
	sent := w.Calls()[0].Request
	assert.Equal(t, `{:n 1 :prompt {:slot/id :x}}`, sent.Key("input").String(), "a slot map in a request is data")
	assert.Equal(t, `{:summary {:slot/path [:y]}}`, sent.Key("context").String())
	assert.Equal(t, `{:id "r" :turn 2}`, sent.Key("trace").String())
	assert.Equal(t, `{:id "r" :turn 2}`, resp.Key("trace").String())
	assert.Equal(t, `"q-1"`, resp.Key("request/id").String())
	assert.Equal(t, []string{
		"run/accepted", "plan/resolved", "run/started", "node/resolved", "attempt/started", "attempt/finished", "gate/verdict", "node/committed", "run/finished",
	}, kinds(records), "EVAL-001")
}

// contracts.md 2.2: the response has capability, usage and quality.
func TestResponse(t *testing.T) {
	w := two(t)
	w.On("a/one", dispatchtest.Step{Err: contract.Errorf("runtime/invoke-failed", "no")})
	w.On("a/two", dispatchtest.Step{
		Value: edn.MustRead(`{:text "hello"}`),
		Usage: edn.MustRead(`{:mode :live :tokens-in 10 :tokens-out 5 :cost-usd 0.25M :cost-mark :exact}`),
		Meta:  edn.MustRead(`{:model "m-1" :cap/id :forged/id :finish :stop}`),
	})
	resp, err, _ := do(t, service(t, w), `{:proto 1 :trace {:id "r"} :debug/plan? true :input {:prompt "p"}
	  :task {:intent :text/respond :dispatch {:retry {:fallback-max 1}}} :done {:should #{:json-valid}}}`)
	require.Nil(t, err)
	assert.Equal(t, `{:cap/id :a/two :cap/version "1.0.0" :finish :stop :generation 1 :intent :text/respond :model "m-1" :plugin "scripted"}`,
		resp.Key("invoke/meta").String(), "the host's keys win")
	assert.Equal(t, `[[:a/two "m-1"]]`, resp.Key("models/used").String())
	q := resp.Key("quality")
	assert.Equal(t, `true 0M 2`, q.Key("must-pass?").String()+" "+q.Key("score").String()+" "+edn.Int(int64(q.Key("checks").Len())).String())
	u := resp.Key("usage")
	assert.Equal(t, `2`, u.Key("attempts").String())
	assert.Equal(t, `10`, u.Key("tokens-in").String())
	assert.Equal(t, `0.25M`, u.Key("cost-usd").String())
	assert.Equal(t, `:live`, u.Key("mode").String())
	assert.Equal(t, `1`, u.Key("by-capability").Key("a/one").Key("calls").String())
	assert.Equal(t, `{:cost-mark :exact :cost-usd 0.25M :mode :live :tokens-in 10 :tokens-out 5}`, resp.Key("result").Key("usage").String())
	run := resp.Key("plan/run")
	assert.Equal(t, `true`, run.Key("ok?").String())
	assert.Equal(t, `1`, run.Key("telemetry").Key("calls/fallback-hops").String())
	assert.Equal(t, `[[:a/one nil] [:a/two "m-1"]]`, run.Key("participants").String())
	assert.Equal(t, `[:a/one :a/two]`, candidatesOf(resp.Key("plan/debug")), "BIND-006")
	assert.False(t, resp.HasKey("transcript"), "only if asked for")
	name, _ := resp.Key("run/id").AsString()
	assert.Regexp(t, `^run_[0-9A-HJKMNP-TV-Z]{26}$`, name)
}

func candidatesOf(debug edn.Value) string {
	node, _ := debug.Key("nodes").Nth(0)
	var ids []edn.Value
	for c := range node.Key("candidates").Elems() {
		ids = append(ids, c.Key("cap/id"))
	}
	return edn.Vector(ids...).String()
}

// BIND-009: the response reports that the first choice did not serve.
func TestDegraded(t *testing.T) {
	w := two(t)
	w.SetState("a/one", dispatch.CapState{Reason: "runtime/not-ready", Why: contract.Errorf("provider/not-configured", "no key")})
	w.On("a/two", value(`{:text "hello"}`))
	resp, err, _ := do(t, service(t, w), ask+`}`)
	require.Nil(t, err)
	assert.Equal(t, `true`, resp.Key("quality").Key("degraded?").String())
	assert.Equal(t, `[[:a/one :provider/not-configured]]`, resp.Key("quality").Key("why").String())
}

// What the metadata of the answer says about it is in the :quality of the response, too.
func TestDegradedAnswer(t *testing.T) {
	w := two(t)
	w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:text "hel"}`),
		Meta: edn.MustRead(`{:quality {:degraded? true :why [:finish/assumed :stream/skipped]}}`)})
	resp, err, _ := do(t, service(t, w), ask+`}`)
	require.Nil(t, err)
	assert.Equal(t, `true`, resp.Key("quality").Key("degraded?").String())
	assert.Equal(t, `[[:a/one :finish/assumed] [:a/one :stream/skipped]]`, resp.Key("quality").Key("why").String())
}

// A client's plan is sent as :plan/run with its bindings.
func TestOwnPlan(t *testing.T) {
	w := two(t)
	w.On("a/one", value(`{:text "hello"}`))
	resp, err, records := do(t, service(t, w), ownPlan(`{:nodes [{:op :call :intent :text/respond :input {:prompt {:slot/id :who}} :as :x} {:op :emit :input :x}]}`, `:bindings {:who "me"}`, ":debug/transcript? true"))
	require.Nil(t, err)
	assert.Equal(t, `{:text "hello"}`, resp.Key("result").Key("out").String())
	assert.Equal(t, `{:must-pass? true :score 1M}`, resp.Key("quality").String())
	assert.Equal(t, journal.Transcript(records).String(), resp.Key("transcript").String())
	for _, r := range records {
		if p, ok := r.Body.(*journal.PlanResolved); ok {
			assert.Equal(t, "request", p.Source)
			assert.Equal(t, `{:who "me"}`, p.Bindings.Value().String())
		}
	}
}

func ownPlan(plan, bindings, more string) string {
	return `{:proto 1 :trace {:id "r"} :task {:intent :plan/run} :input {:plan ` + plan + ` ` + bindings + `} ` + more + `}`
}

// EVAL-061: an entry of a transcript has these keys and no others.
func TestTranscriptKeys(t *testing.T) {
	w := two(t)
	w.On("a/one", dispatchtest.Step{Err: contract.Errorf("runtime/invoke-failed", "no")}, value(`{:text "hello"}`))
	resp, err, _ := do(t, service(t, w), `{:proto 1 :trace {:id "r"} :routing {:debug/transcript? true} :input {:prompt "p"} :task {:intent :text/respond :dispatch {:retry {:fallback-max 1}}} :done {:should #{:json-valid}}}`)
	require.Nil(t, err)
	entries := slices.Collect(resp.Key("transcript").Elems())
	require.Len(t, entries, 2)
	assert.Equal(t, "attempt candidate-index cap/id error failure/type input intent latency-ms node op path", keysOf(entries[0]))
	assert.Equal(t, "attempt candidate-index cap/id findings input intent invoke/meta latency-ms node op out path result/type", keysOf(entries[1]))
}

func keysOf(m edn.Value) string {
	var names []string
	for k := range m.Entries() {
		name, _ := k.AsKeyword()
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// RUN-002: a request that is rejected before acceptance creates no run.
func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct{ text, typ, reason string }{
		"no map":            {`7`, "invalid-request", "shape/not-map"},
		"no task":           {`{:proto 1 :trace {:id "r"} :input {}}`, "invalid-request", "shape/missing-key"},
		"unknown key":       {ask + `:constraint {}}`, "invalid-request", "shape/unknown-key"},
		"unknown intent":    {`{:proto 1 :trace {:id "r"} :task {:intent :text/respnd} :input {}}`, "invalid-request", "intent/not-supported"},
		"unknown check":     {ask + `:done {:must #{:nobody-knows}}}`, "invalid-request", "done/unknown-check"},
		"plan of no shape":  {ownPlan(`{:nodes 7}`, "", ""), "invalid-request", "input/schema-invalid"},
		"plan with errors":  {ownPlan(`{:nodes [{:op :nonsense}]}`, "", ""), "plan/invalid", ""},
		"unfilled binding":  {ownPlan(`{:nodes [{:op :emit :input {:slot/id :who}}]}`, "", ""), "plan/invalid", ""},
		"unread binding":    {ownPlan(`{:nodes [{:op :emit :input {:slot/id :who :slot/default 1}}]}`, ":bindings {:woh 2}", ""), "invalid-request", ""},
		"deadline too long": {ask + `:deadline-ms 86400001}`, "invalid-request", "shape/out-of-range"},
	} {
		t.Run(name, func(t *testing.T) {
			w := two(t)
			s := service(t, w)
			r, err := s.Start(context.Background(), request(tc.text))
			require.NotNil(t, err)
			assert.Nil(t, r)
			assert.Equal(t, tc.typ, err.Type)
			if tc.reason != "" {
				assert.Equal(t, ":"+tc.reason, err.Details.Key("reason").String())
			}
			assert.Empty(t, w.Calls())
			resp, _ := s.Do(context.Background(), request(tc.text))
			assert.Equal(t, ":"+tc.typ, resp.Key("error").Key("type").String())
			assert.False(t, resp.HasKey("run/id"))
		})
	}
}

// CHECK-001: findings of a plan with a text have line and column.
func TestFindingsHavePositions(t *testing.T) {
	plan, pos, err := edn.ReadWithPositions([]byte("{:nodes\n [{:op :emit\n   :input {:slot/id :who}}]}"))
	require.NoError(t, err)
	a := act.Act{Positions: pos, Request: edn.MustMap(
		edn.K("proto"), edn.Int(1), edn.K("trace"), edn.MustRead(`{:id "r"}`), edn.K("task"), edn.MustRead(`{:intent :plan/run}`),
		edn.K("input"), edn.MustMap(edn.K("plan"), plan))}
	_, failure := service(t, two(t)).Start(context.Background(), a)
	require.NotNil(t, failure)
	assert.Equal(t, `{:column 11 :line 3}`, failure.Where.String())
}

// The layer of a request applies to every node of its plan (POL-001); its
// requirements on the result apply to the outcome of the whole plan
// (EVAL-001).
func TestRequestLayer(t *testing.T) {
	w := two(t)
	w.On("a/one", value(`{:text "no json"}`))
	plan := `{:nodes [{:op :call :intent :text/respond :input {:prompt "p"} :as :x} {:op :emit :input {:n 1}}]}`
	_, err, _ := do(t, service(t, w), ownPlan(plan, "", `:done {:must #{:json-valid}}`))
	require.NotNil(t, err)
	assert.Equal(t, "eval/must-failed", err.Type)

	_, err, _ = do(t, service(t, w), `{:proto 1 :trace {:id "r"} :task {:intent :plan/run :requires {:out-schema :res/text}} :input {:plan `+plan+`}}`)
	require.NotNil(t, err)
	assert.Equal(t, "schema/invalid", err.Type)
}

// RUN-006: the deadline of a request that states none is that of the configuration.
func TestConfiguredDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		w.On("a/one", dispatchtest.Step{Hang: true})
		s := service(t, w, func(c *act.Config) { c.Deadlines.Usual = 3 * time.Second })
		begun := time.Now()
		_, err, _ := do(t, s, ask+`}`)
		require.NotNil(t, err)
		assert.Equal(t, "queue/deadline-exceeded", err.Type)
		assert.Contains(t, err.Message, "its deadline of 3000 ms")
		assert.Equal(t, 3*time.Second, time.Since(begun))
	})
}

// RUN-005, RUN-006, RUN-013: every accepted run ends with one final record,
// however it ends.
func TestEnds(t *testing.T) {
	hang := dispatchtest.Step{Hang: true}
	for name, tc := range map[string]struct {
		step   dispatchtest.Step
		text   string
		act    func(cancel context.CancelFunc, r *act.Run)
		typ    string
		status string
	}{
		"completed":          {value(`{:text "x"}`), ask + `}`, nil, "", "completed"},
		"failed":             {dispatchtest.Step{Err: contract.Errorf("input/invalid", "x")}, ask + `}`, nil, "input/invalid", "failed"},
		"nobody serves":      {hang, strings.Replace(ask, ":text/respond", ":text/respond :cap/id :a/nobody", 1) + `}`, nil, "unsupported/intent", "failed"},
		"expired":            {hang, ask + `:deadline-ms 50}`, nil, "queue/deadline-exceeded", "expired"},
		"expired by default": {hang, ask + `}`, nil, "queue/deadline-exceeded", "expired"},
		"canceled":           {hang, ask + `}`, func(_ context.CancelFunc, r *act.Run) { r.Cancel("local", "enough") }, "canceled", "canceled"},
		"caller gone":        {hang, ask + `}`, func(cancel context.CancelFunc, _ *act.Run) { cancel() }, "canceled", "canceled"},
		"defect in a call":   {dispatchtest.Step{Panic: "boom"}, ask + `}`, nil, "runtime/internal", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := two(t)
				w.On("a/one", tc.step)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				r, err := service(t, w).Start(ctx, request(tc.text))
				require.Nil(t, err)
				if tc.act != nil {
					synctest.Wait()
					tc.act(cancel, r)
				}
				resp, err := r.Wait()
				last, _ := r.Records()[len(r.Records())-1].Body.(*journal.RunFinished)
				require.NotNil(t, last, "the last record is run/finished")
				assert.Equal(t, tc.status, last.Status)
				if tc.typ == "" {
					assert.Nil(t, err)
					return
				}
				assert.Equal(t, tc.typ, err.Type)
				assert.Equal(t, ":"+tc.typ, resp.Key("error").Key("type").String())
				if name == "canceled" {
					details := resp.Key("error").Key("details")
					assert.Equal(t, `"local" "enough"`, details.Key("by").String()+" "+details.Key("why").String())
				}
				assert.Equal(t, `"`+r.ID()+`"`, resp.Key("error").Key("where").Key("run").String())
				for _, rec := range r.Records() {
					dispatchtest.Verify(t, rec)
				}
				r.Cancel("late", "") // does nothing
			})
		})
	}
}

// RUN-001: a step that cannot be compiled fails the load and is named.
func TestMissingParts(t *testing.T) {
	for name, spoil := range map[string]func(*act.Config){
		"step validate": func(c *act.Config) { c.Registry = nil },
		"step accept":   func(c *act.Config) { c.Journal = nil },
		"hash":          func(c *act.Config) { c.Hash = "" },
		"step evaluate": func(c *act.Config) { c.Executor = nil },
		"checks":        func(c *act.Config) { c.Checks = nil },
		"policies":      func(c *act.Config) { c.Policies = nil },
	} {
		w := two(t)
		c := act.Config{Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: journal.NewMemory(), Hash: edn.Hash(edn.Nil())}
		spoil(&c)
		_, err := act.New(c)
		require.ErrorIs(t, err, contract.OfType("act/middleware-invalid"), name)
		assert.Contains(t, err.Error(), name)
	}
}

// RUN-005: a panic in a step becomes runtime/internal, with the stack for the log.
func TestPanicInAStep(t *testing.T) {
	var told string
	s := service(t, two(t), func(c *act.Config) {
		c.NewSeed = func() int64 { panic("no entropy") }
		c.Panicked = func(_, where string, v any, stack []byte) { told = where + " " + v.(string) }
	})
	_, err := s.Do(context.Background(), request(ask+`}`))
	require.NotNil(t, err)
	assert.Equal(t, "runtime/internal", err.Type)
	assert.Equal(t, "step accept no entropy", told)
}

// RUN-005: a run that was accepted has its end in the journal also after a panic, and its
// budget is settled.
func TestPanicInARun(t *testing.T) {
	told := make(chan string, 1)
	w := two(t)
	w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step { panic("no luck") })
	s := service(t, w, func(c *act.Config) {
		c.Panicked = func(_, _ string, v any, stack []byte) {
			assert.NotEmpty(t, stack)
			told <- v.(string)
		}
	})
	_, err, records := do(t, s, ask+`}`)
	require.NotNil(t, err)
	assert.Equal(t, "runtime/internal", err.Type)
	assert.Equal(t, "no luck", <-told)
	end := finished(t, records)
	assert.Equal(t, journal.StatusFailed, end.Status)
	assert.Equal(t, "runtime/internal", end.Err.Type)
	assert.Empty(t, journal.NewHistory(records).Reserved)
}

// broken is a journal that fails for a run that ends.
type broken struct {
	*journal.Memory
	records func() error // called once
	stuck   atomic.Bool  // it makes nothing durable
	dropped atomic.Int64
}

// Records implements act.Journal.
func (b *broken) Records(run string) ([]journal.Record, error) {
	if do := b.records; do != nil {
		b.records = nil
		if err := do(); err != nil {
			return nil, err
		}
	}
	return b.Memory.Records(run)
}

// Sync implements journal.Syncer.
func (b *broken) Sync(ctx context.Context, _ string) error {
	if !b.stuck.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// Drop implements act.Journal.
func (b *broken) Drop(string) { b.dropped.Add(1) }

// RUN-005: a run whose response cannot be made has its end in the journal, for its reader
// too.
func TestFailureInFinalize(t *testing.T) {
	for name, fault := range map[string]func() error{
		"panic": func() error { panic("no luck") },
		"error": func() error { return contract.Errorf("journal/unavailable", "no") },
	} {
		kept := &broken{Memory: journal.NewMemory(), records: fault}
		w := two(t)
		w.On("a/one", value(`{:n 1}`))
		s := service(t, w, func(c *act.Config) { c.Journal = kept })
		r, err := s.Start(t.Context(), request(ask+"}"))
		require.Nil(t, err)
		last := ""
		require.NoError(t, r.Watch(t.Context(), func(e journal.Event) error { last = e.Name; return nil }), name)
		assert.Equal(t, "finished", last, name)
		response, err := r.Wait()
		require.NotNil(t, err)
		assert.Equal(t, response.Key("error").Key("type").String(), ":"+err.Type, name)
		records, failed := kept.Memory.Records(r.ID())
		require.NoError(t, failed)
		end := finished(t, records)
		assert.Equal(t, journal.StatusFailed, end.Status, name)
		assert.Equal(t, err.Type, end.Err.Type, name)
		assert.Equal(t, int64(1), kept.dropped.Load(), name)
	}
}

// RUN-005, JRN-004: the answer waits at most 30 s for the confirmation that the end is on
// disk. The error says that the run is over, and what tells its outcome.
func TestFinalizeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &broken{Memory: journal.NewMemory()}
		w := two(t)
		w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step {
			kept.stuck.Store(true)
			return value(`{:n 1}`)
		})
		s := service(t, w, func(c *act.Config) { c.Journal = kept })
		begun := time.Now()
		r, err := s.Start(t.Context(), request(ask+"}"))
		require.Nil(t, err)
		_, err = r.Wait()
		require.NotNil(t, err)
		assert.Equal(t, "journal/unavailable", err.Type)
		assert.Equal(t, "run "+r.ID()+" has ended, but the journal did not confirm that its end is on disk within 30s", err.Message)
		assert.Equal(t, "ferment runs show "+r.ID()+" tells what is recorded", err.Hint)
		assert.False(t, err.Retryable, "without a key it would be executed again")
		assert.Equal(t, 30*time.Second, time.Since(begun))
		assert.Equal(t, int64(1), kept.dropped.Load())
	})
}

// RUN-004, DET-001: the same request, configuration and seed give the same
// plan, the same steps and the same response, whether the caller waits for the
// answer, streams it, or has it accepted.
func TestSameRequestSamePlan(t *testing.T) {
	type result struct{ plan, response, steps string }
	results := map[string]result{}
	forms := map[string]string{}
	run := func(how, form string, perform func(*act.Service, act.Act) *act.Run) {
		synctest.Test(t, func(t *testing.T) {
			w := two(t)
			bad := dispatchtest.Step{Pieces: []string{"not "}, Value: edn.MustRead(`{:text "x"}`)}
			good := dispatchtest.Step{Pieces: []string{"so"}, Value: edn.MustRead(`{:text "{}"}`)}
			w.On("a/one", bad, bad).On("a/two", good)
			w.Policies.Intents = map[string]policy.Layer{
				"text/respond": {Stream: policy.Of(policy.Provisional, policy.Origin{Source: policy.SourceIntent})},
			}
			s := service(t, w, func(c *act.Config) {
				c.NewSeed, c.NewID = func() int64 { return 7 }, func() string { return "run_1" }
			})
			r := perform(s, request(`{:proto 1 :trace {:id "r"} :input {:prompt "p"} :done {:must #{:json-valid}} `+form+`
			  :task {:intent :text/respond :dispatch {:retry {:fallback-max 1 :same-cap-max 1}}}}`))
			resp, err := r.Wait()
			require.Nil(t, err, how)
			var got result
			var steps []string
			for _, rec := range r.Records() {
				switch b := rec.Body.(type) {
				case *journal.PlanResolved:
					got.plan = b.Plan.Hash()
				case *journal.RunAccepted:
					assert.Equal(t, int64(7), b.Seed)
					forms[how] = b.ResponseType
				case *journal.AttemptChunk, *journal.AttemptRetracted:
					continue // shown text is not a step of the run
				}
				steps = append(steps, brief(rec))
			}
			got.response, got.steps = resp.String(), strings.Join(steps, "\n")
			results[how] = got
		})
	}
	start := func(s *act.Service, a act.Act) *act.Run {
		r, err := s.Start(context.Background(), a)
		require.Nil(t, err)
		return r
	}
	run("value", "", start)
	run("again", "", start)
	run("accepted", ":response/type :accepted", start)
	run("stream", ":response/type :stream", func(s *act.Service, a act.Act) *act.Run {
		a.Watched = true
		r := start(s, a)
		shown := 0
		require.NoError(t, r.Watch(context.Background(), func(e journal.Event) error {
			if e.Shown() {
				shown++
			}
			return nil
		}))
		assert.Positive(t, shown, "the text was streamed")
		return r
	})
	assert.Contains(t, results["value"].steps, "act: node/committed two 3")
	for how, got := range results {
		assert.Equal(t, results["value"], got, how)
	}
	want := map[string]string{"value": "value", "again": "value", "accepted": "accepted", "stream": "stream"}
	assert.Equal(t, want, forms)
}

// RUN-002: the later steps before acceptance, in order: shape of the request,
// plan check with the effects, worst-case cost. The request has a fault for
// each; each row removes the reported one. TestOrderOfRefusals of package
// httpapi covers the steps of the transport.
func TestOrderOfPrepare(t *testing.T) {
	w := priced(t, dispatchtest.Cap("a/writes", ":cap/effects #{:fs/write} :cap/cost {:usd 0}"))
	w.On("a/two", value(`{:good true}`))
	user := block(t, "{:max-attempts 3}")
	user.RefuseWorst = true
	kept := &keeping{Journal: journal.NewMemory()}
	s := service(t, w, budgets(policy.Budgets{User: user}), func(c *act.Config) { c.Journal = kept })
	const node = `{:op :call :intent :text/respond :input {} :as :x
	  :dispatch {:candidates [%s] :retry {:same-cap-max %d}} %s}`
	plan := func(candidate string, retries int, more string) string {
		return fmt.Sprintf(`{:nodes [`+node+` {:op :emit :input :x}]}`, candidate, retries, more)
	}
	const effects = `:effects {:allowed #{:fs/write}}`
	for _, row := range []struct{ step, text, typ string }{
		{"translation", `{:proto 1 :trace 7 :task {:intent :nope} :input {:plan {:nodes 7}}}`, "invalid-request"},
		{"contract", ownPlan(plan(":a/nobody", 9, ""), "", ":deadline-ms 0"), "invalid-request"},
		{"plan check", ownPlan(plan(":a/nobody", 9, ""), "", ""), "plan/invalid"},
		{"effects", ownPlan(plan(":a/writes", 9, effects), "", ""), "plan/invalid"},
		{"worst case", ownPlan(plan(":a/two", 9, ""), "", ""), "budget/would-exceed"},
	} {
		_, err := s.Start(t.Context(), request(row.text))
		require.NotNil(t, err, row.step)
		assert.Equal(t, row.typ, err.Type, row.step)
		assert.Empty(t, kept.runs, "%s: no record, so no run", row.step)
	}
	_, err, records := do(t, s, ownPlan(plan(":a/two", 0, ""), "", ""))
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []string{"run/accepted", "budget/reserved"}, kinds(records)[:2])
	assert.Equal(t, []string{records[0].Run}, kept.runs)
}

// RUN-002, BIND-002: an act that names an intent is rejected before acceptance
// exactly if its run could only end with the rejection of the effects of all
// candidates, and with the error of that run.
func TestEffectsOfAnIntent(t *testing.T) {
	const effects = `:effects {:allowed #{:fs/write}}`
	open := func(c *act.Config) { c.Effects = dispatchtest.Open() }
	for _, row := range []struct {
		name, candidates, more string
		change                 func(*act.Config)
		typ                    string
		run                    bool
	}{
		{"not allowed by the request", "[:a/writes :a/logs]", "", nil, "unsupported/intent", false},
		{"not allowed to the caller", "[:a/writes :a/logs]", effects, nil, "auth/forbidden-effect", false},
		{"for another reason too", "[:a/writes :a/else]", effects, nil, "unsupported/intent", true},
		{"one has no effects", "[:a/writes :a/two]", effects, nil, "", true},
		{"allowed", "[:a/writes]", effects, open, "", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := priced(t,
				dispatchtest.Cap("a/writes", ":cap/effects #{:fs/write}"), dispatchtest.Cap("a/logs", ":cap/effects #{:fs/write}"),
				`{:cap/id :a/else :cap/kind :solver :cap/intents #{:text/verify} :io/in-schema :req/any :io/out-schema :res/any}`)
			w.On("a/two", value(`{:good true}`)).On("a/writes", value(`{:good true}`))
			kept := &keeping{Journal: journal.NewMemory()}
			changes := []func(*act.Config){func(c *act.Config) { c.Journal = kept }}
			if row.change != nil {
				changes = append(changes, row.change)
			}
			s := service(t, w, changes...)
			for range 2 { // computed, and from the cache of shapes
				_, err := s.Do(t.Context(), request(asking(row.candidates, "", "{}", row.more)))
				if row.typ == "" {
					require.Nil(t, err, "%v", err)
				} else {
					require.NotNil(t, err)
					assert.Equal(t, row.typ, err.Type)
				}
			}
			assert.Equal(t, row.run, len(kept.runs) > 0)
			assert.Equal(t, row.typ == "", len(w.Calls()) > 0)
		})
	}
}

// keeping is a journal that tracks the runs with records.
type keeping struct {
	act.Journal
	runs []string
}

// Append implements journal.Journal.
func (k *keeping) Append(ctx context.Context, r journal.Record) error {
	if !slices.Contains(k.runs, r.Run) {
		k.runs = append(k.runs, r.Run)
	}
	return k.Journal.Append(ctx, r)
}

// PRM-006: constraints of the defaults, of the intent and of the request merge
// per key, the later wins; budgets merge per key and the lowest limit wins, so
// a caller can lower one. TestRaisedBudget is about those that may raise one.
func TestDefaultsMergePerKey(t *testing.T) {
	layer := func(constraints, budget string) policy.Layer {
		from := policy.Origin{Source: policy.SourceIntent}
		return policy.Layer{
			Constraints: policy.FieldsOf(edn.MustRead(constraints), from),
			Budget:      policy.FieldsOf(edn.MustRead(budget), from),
		}
	}
	const (
		merged = "{:lang :pl :style :dry :tone :warm}"
		lowest = "{:max-tokens 400 :max-usd 0.5M}"
	)
	for _, row := range []struct{ name, request, constraints, budget string }{
		{"defaults and intent", "", merged, lowest},
		{"the request wins per key", ":constraints {:tone :cold :n 1}", "{:lang :pl :n 1 :style :dry :tone :cold}", lowest},
		{"the request lowers", ":budget {:max-tokens 300 :max-usd 0.1M}", merged, "{:max-tokens 300 :max-usd 0.1M}"},
		{"a limit of its own", ":budget {:max-attempts 2}", merged, "{:max-attempts 2 :max-tokens 400 :max-usd 0.5M}"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := priced(t)
			w.On("a/one", value(`{:good true}`))
			w.Policies.Default = layer("{:lang :en :style :dry}", "{:max-tokens 900 :max-usd 0.5M}")
			w.Policies.Intents = map[string]policy.Layer{
				"text/respond": layer("{:lang :pl :tone :warm}", "{:max-tokens 400}"),
			}
			text := asking("[:a/one]", "", "{}", "")
			if strings.Contains(row.request, ":budget") {
				text = strings.Replace(text, ":budget {}", "", 1)
			}
			_, err, _ := do(t, service(t, w), strings.TrimSuffix(text, "}")+row.request+"}")
			require.Nil(t, err, "%v", err)
			sent := w.Calls()[0].Request
			assert.Equal(t, row.constraints, sent.Key("constraints").String())
			assert.Equal(t, row.budget, sent.Key("budget").String())
		})
	}
}

// RUN-021: transport keys do not change the identity of a request; every other key does.
func TestFingerprint(t *testing.T) {
	print := func(text string) string {
		_, refused, records := do(t, service(t, two(t)), text)
		require.NotEmpty(t, records, "%s: %v", text, refused)
		return records[0].Body.(*journal.RunAccepted).Fingerprint.Hash()
	}
	same := print(ask + `}`)
	assert.Equal(t, same, print(`{:proto "1" :trace {:id "other" :turn 3} :task {:intent :text/respond} :input {:prompt "p"}}`))
	for _, key := range []string{
		`:deadline-ms 1000`, `:request/id "x"`, `:response/type :accepted`, `:response/type :stream`, `:stream? true`, `:queue {:priority 3}`,
	} {
		assert.Equal(t, same, print(ask+key+`}`), key)
	}
	for _, key := range []string{
		`:context {:summary "s"}`, `:constraints {:language :pl}`, `:budget {:max-attempts 3}`, `:effects {:allowed #{}}`, `:done {:must #{:json-valid}}`,
		`:debug/plan? true`,
	} {
		assert.NotEqual(t, same, print(ask+key+`}`), key)
	}
	assert.NotEqual(t, same, print(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {:prompt "q"}}`))
}

// RUN-008: relative paths are resolved against the directory of the caller,
// else the root, before they reach a plugin.
func TestRelativePaths(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps:    []string{`{:cap/id :a/one :cap/kind :tool :cap/intents #{:text/respond} :io/in-schema :req/files :io/out-schema :res/any}`},
		Schemas: map[string]string{"req/files": `[:map [:file {:optional true} [:string {:unit :path}]] [:list {:optional true} [:vector [:string {:unit :path}]]]]`},
	})
	s := service(t, w, func(c *act.Config) { c.Root = "/root/dir" })
	text := `{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {:file "a/b" :list ["/abs" "c"] :dir "." :other "x"}}`
	for _, dir := range []string{"/caller", ""} {
		a := request(text)
		a.Dir = dir
		_, err := s.Do(context.Background(), a)
		require.Nil(t, err)
	}
	assert.Equal(t, `{:dir "/caller" :file "/caller/a/b" :list ["/abs" "/caller/c"] :other "x"}`, w.Calls()[0].Request.Key("input").String())
	assert.Equal(t, `"/root/dir/a/b"`, w.Calls()[1].Request.Key("input").Key("file").String())
}

// A run is followed while it goes on; its journal is released when it is over.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		w.On("a/one", dispatchtest.Step{Delay: time.Second, Value: edn.MustRead(`{:text "x"}`)})
		mem := journal.NewMemory()
		r, err := service(t, w, func(c *act.Config) { c.Journal = mem }).Start(context.Background(), request(ask+`}`))
		require.Nil(t, err)
		var mu sync.Mutex
		var names []string
		seen := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(names)
		}
		watched := make(chan error, 1)
		go func() {
			watched <- journal.Watch(context.Background(), r.Follow(), func(e journal.Event) bool {
				mu.Lock()
				defer mu.Unlock()
				names = append(names, e.Name)
				return true
			})
		}()
		synctest.Wait()
		assert.Equal(t, []string{"accepted", "resolved", "started", "resolved", "attempt"}, seen())
		_, err = r.Wait()
		require.Nil(t, err)
		require.NoError(t, <-watched)
		assert.Equal(t, []string{"accepted", "resolved", "started", "resolved", "attempt", "attempt", "gate", "commit", "finished"}, seen())
		kept, unread := mem.Records(r.ID())
		require.NoError(t, unread)
		assert.Empty(t, kept, "RUN-017")
		assert.Len(t, r.Records(), 9)
	})
}

// ENV-008: plain text is input of :text/respond, with a trace id of the host.
func TestBareText(t *testing.T) {
	w := two(t)
	w.On("a/one", value(`{:text "hello"}`))
	resp, err := service(t, w).Do(context.Background(), request(`"just text"`))
	require.Nil(t, err)
	assert.Equal(t, `{:text "hello"}`, resp.Key("result").Key("out").String())
	assert.Equal(t, `{:prompt "just text"}`, w.Calls()[0].Request.Key("input").String())
	assert.NotEmpty(t, resp.Key("trace").Key("id").String())
}

// ENV-005: the format of version 0.3 is converted at the interface: plans,
// policies, plugins and the journal use only the contract format, whatever the
// outcome.
func TestOlderSpellingEndsAtTheEdge(t *testing.T) {
	const older = `{:request/id "q" :session/id "s" :intent :chat :opts {:max-tokens 7 :temperature 0.5M} :context {:lang "pl" :summary "s"}
		:requires {:quality/must [:schema-valid]} :steps [{:op :build-prompt} {:op :call-capability} {:op :postprocess}]
		:messages [{:role "system" :content "be brief"} {:role "user" :content "hi"}]}`
	for name, step := range map[string]dispatchtest.Step{"answered": value(`{:text "hello"}`), "failed": {Err: contract.Errorf("provider/refused", "no")}} {
		t.Run(name, func(t *testing.T) {
			w := two(t)
			w.On("a/one", step)
			resp, _, records := do(t, service(t, w, withSession(t)), older)
			calls := w.Calls()
			require.NotEmpty(t, calls)
			sent := calls[0].Request
			assert.Equal(t, "1", sent.Key("proto").String())
			assert.Equal(t, ":text/respond", sent.Key("task").Key("intent").String())
			assert.Equal(t, `{:messages [{:content "be brief" :role :system} {:content "hi" :role :user}] :prompt "hi"}`, sent.Key("input").String())
			assert.Equal(t, ":pl", sent.Key("constraints").Key("language").String())
			assert.Equal(t, "7", sent.Key("budget").Key("max-tokens").String())
			for _, gone := range []string{"messages", "opts", "intent", "steps", "status", "output"} {
				assert.False(t, sent.HasKey(gone), gone)
			}
			assert.False(t, sent.Key("context").HasKey("lang"))
			accepted, ok := records[0].Body.(*journal.RunAccepted)
			require.True(t, ok)
			assert.Equal(t, ":text/respond", accepted.Request.Value().Key("task").Key("intent").String())
			assert.False(t, accepted.Request.Value().HasKey("messages"))
			var keys []string
			for k := range resp.Entries() {
				keys = append(keys, k.String())
			}
			assert.ElementsMatch(t, []string{":request/id", ":status", ":output", ":usage", ":quality", ":errors"}, keys)
			assert.Equal(t, map[string]string{"answered": ":ok", "failed": ":error"}[name], resp.Key("status").String())
		})
	}
}

// ENV-009, ENV-023: a request of version 0.3 is answered in its own format.
func TestOlderSpelling(t *testing.T) {
	w := two(t)
	w.On("a/one", value(`{:text "hello"}`))
	resp, err := service(t, w).Do(context.Background(), request(`{:request/id "q" :messages [{:role "user" :content "hi"}]}`))
	require.Nil(t, err)
	assert.Equal(t, `"hi"`, w.Calls()[0].Request.Key("input").Key("prompt").String())
	assert.Equal(t, `"q"`, resp.Key("request/id").String())
	assert.Equal(t, `{:text "hello"}`, resp.Key("output").String())
	assert.True(t, resp.HasKey("status"))
}
