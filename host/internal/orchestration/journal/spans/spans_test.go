package spans_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// collected is what a run gave.
type collected struct {
	Spans  []*spans.Span
	Events []*spans.Event
}

func (c *collected) Span(s *spans.Span)   { c.Spans = append(c.Spans, s) }
func (c *collected) Event(e *spans.Event) { c.Events = append(c.Events, e) }

func (c *collected) named(t require.TestingT, name string) *spans.Span {
	i := slices.IndexFunc(c.Spans, func(s *spans.Span) bool { return s.Name == name })
	require.GreaterOrEqual(t, i, 0, "there is no span %q", name)
	return c.Spans[i]
}

func read(records []journal.Record, content journal.Content) *collected {
	r, all := &spans.Run{Content: content}, &collected{}
	for _, rec := range records {
		r.Add(rec, all)
	}
	return all
}

func attrs(list []spans.Attr) map[string]any {
	out := map[string]any{}
	for _, a := range list {
		out[a.Key] = a.Value
	}
	return out
}

var boot = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// story writes the records of one run, a second apart.
type story struct {
	records []journal.Record
	epoch   int
	at      time.Time
	values  map[string]edn.Value
}

func newStory() *story { return &story{epoch: 1, at: boot, values: map[string]edn.Value{}} }

func (s *story) ref(v edn.Value) journal.Ref {
	s.values[edn.Hash(v)] = v
	return journal.RefTo(v)
}

func (s *story) put(path string, bodies ...journal.Body) {
	for _, body := range bodies {
		rec := journal.Record{Run: "run_1", Seq: len(s.records) + 1, At: s.at, Epoch: s.epoch, Body: body}
		if path != "" {
			rec.Path = edn.MustRead(path)
		}
		if rec.Path.Len() > 0 {
			rec.Node = "n"
		}
		s.records = append(s.records, rec)
		s.at = s.at.Add(time.Second)
	}
}

func (s *story) accept() {
	request := s.ref(edn.MustRead(`{:task {:intent :text/respond}}`))
	s.put("", &journal.RunAccepted{
		Principal: "ann", PrincipalType: "user", Roles: []string{"user"}, Operation: "http.v1/act", Intent: "text/respond",
		Request: request, Fingerprint: request, ResponseType: "value", Class: "sync", DeadlineAt: boot.Add(time.Hour),
		Config: edn.Hash(edn.Int(1)), Evaluator: 1, Budget: edn.MustMap(), Trace: edn.MustMap(), SessionID: "s-1",
	})
}

func (s *story) resolve(path, intent string) {
	s.put(path, &journal.NodeResolved{Op: "call", Intent: intent, Policy: "declared", Strategy: "cascade",
		Candidates: []journal.Candidate{{CapID: "a/one"}}, Rejected: []journal.Rejection{}})
}

func (s *story) start(path string, n int, capID, kind, entrant string) {
	s.put(path, &journal.AttemptStarted{
		Attempt: n, CapID: capID, CapVersion: "1.0.0", CapKind: kind, Request: s.ref(edn.MustRead(`{:input {:text "question"}}`)),
		Effects: []string{"none"}, Recovery: "none", EffectKey: edn.Hash(edn.Int(2)), Budget: edn.MustMap(), Entrant: entrant,
	})
}

func (s *story) finish(path string, n int, outcome, errorType string) {
	b := &journal.AttemptFinished{
		Attempt: n, Outcome: outcome, Latency: time.Second,
		Usage: edn.MustRead(`{:tokens-in 12 :tokens-out 34 :cost-usd 0.25M}`),
		Meta:  edn.MustRead(`{:provider {:name "openai" :model/served "m-2026"} :model "m" :finish :stop}`),
	}
	if errorType == "" {
		b.Result, b.ResultType = s.ref(edn.MustRead(`{:result {:out {:text "answer"}}}`)), "value"
	} else {
		b.Err = contract.Errorf(errorType, "no")
	}
	s.put(path, b)
}

func (s *story) commit(path string) {
	s.put(path, &journal.NodeCommitted{Value: s.ref(edn.Int(3)), CapID: "a/one", Attempt: 1})
}

func (s *story) end(status string) {
	b := &journal.RunFinished{Status: status, Response: s.ref(edn.MustMap()), Totals: edn.MustRead(`{:operations {} :attempts {}}`)}
	if status != journal.StatusCompleted {
		b.Err = contract.Errorf("eval/must-failed", "no")
	}
	s.put("", b)
}

func (s *story) resume(why string) {
	s.epoch++
	s.put("", &journal.RunResumed{Host: "h", Boot: "2", Config: edn.Hash(edn.Int(1)), Was: edn.Hash(edn.Int(1)), Why: why})
}

// TEL-005: a run is the root, operations are its children, attempts theirs; a model is
// called as a client, anything else is a tool.
func TestSpansOfARun(t *testing.T) {
	s := newStory()
	s.accept()
	s.resolve("[0]", "text/respond")
	s.start("[0]", 1, "a/one", "llm", "")
	s.finish("[0]", 1, "error", "provider/quota")
	s.start("[0]", 2, "chess/engine", "solver", "")
	s.finish("[0]", 2, "ok", "")
	s.commit("[0]")
	s.end(journal.StatusCompleted)
	all := read(s.records, journal.ContentHash)
	require.Len(t, all.Spans, 4)

	run := all.named(t, "invoke_workflow text/respond")
	assert.Equal(t, spans.RunContext("run_1", 1), run.Context)
	assert.Zero(t, run.Parent)
	assert.Equal(t, [2]time.Time{boot, boot.Add(7 * time.Second)}, [2]time.Time{run.Start, run.End})
	assert.False(t, run.Failed)
	have := attrs(run.Attrs)
	assert.Equal(t, []any{"invoke_workflow", "text/respond", "s-1", "run_1", int64(1), "completed", spans.Conventions},
		[]any{have["gen_ai.operation.name"], have["gen_ai.workflow.name"], have["gen_ai.conversation.id"], have["ferment.run.id"],
			have["ferment.run.epoch"], have["ferment.run.status"], have["ferment.conventions"]})

	operation := all.named(t, "ferment.operation text/respond")
	assert.Equal(t, run.Context.Span, operation.Parent)
	assert.Equal(t, "committed", attrs(operation.Attrs)["ferment.outcome"])

	model := all.named(t, "chat m")
	assert.Equal(t, operation.Context.Span, model.Parent)
	assert.Equal(t, spans.Client, model.Kind)
	assert.Equal(t, spans.AttemptContext("run_1", 1, edn.MustRead("[0]"), 1), model.Context)
	assert.True(t, model.Failed)
	have = attrs(model.Attrs)
	assert.Equal(t, []any{"chat", "openai", "m", "m-2026", []string{"stop"}, int64(12), int64(34), 0.25, "provider/quota"},
		[]any{have["gen_ai.operation.name"], have["gen_ai.provider.name"], have["gen_ai.request.model"], have["gen_ai.response.model"],
			have["gen_ai.response.finish_reasons"], have["gen_ai.usage.input_tokens"], have["gen_ai.usage.output_tokens"],
			have["ferment.cost.usd"], have["error.type"]})

	tool := all.named(t, "execute_tool chess/engine")
	assert.Equal(t, operation.Context.Span, tool.Parent)
	assert.Equal(t, spans.Internal, tool.Kind)
	assert.False(t, tool.Failed)
	have = attrs(tool.Attrs)
	assert.Equal(t, []any{"execute_tool", "chess/engine", int64(2), "ok", nil},
		[]any{have["gen_ai.operation.name"], have["gen_ai.tool.name"], have["ferment.attempt"], have["ferment.outcome"],
			have["gen_ai.usage.input_tokens"]})
	assert.Equal(t, "00-"+fmt.Sprintf("%x-%x", tool.Trace, tool.Context.Span)+"-01", tool.TraceParent(true))
	assert.True(t, strings.HasSuffix(tool.TraceParent(false), "-00"))
}

// TEL-005: the question to a router is a span of its own around its operation, with
// what became of it.
func TestSpanOfARouter(t *testing.T) {
	s := newStory()
	s.accept()
	plan := &journal.PlanResolved{Plan: s.ref(edn.MustMap()), Source: "inline"}
	s.put(`["route"]`, plan)
	s.resolve(`["route" 0]`, "route/decide")
	s.commit(`["route" 0]`)
	s.put("[]", &journal.PlanResolved{Plan: s.ref(edn.MustMap()), Source: "route", Route: edn.MustRead(`{:outcome :routed}`)})
	s.resolve("[0]", "text/respond")
	s.commit("[0]")
	s.end(journal.StatusCompleted)
	all := read(s.records, journal.ContentOff)
	route := all.named(t, "plan")
	assert.Equal(t, spans.RunContext("run_1", 1).Span, route.Parent)
	assert.Equal(t, "routed", attrs(route.Attrs)["ferment.route.outcome"])
	assert.Equal(t, route.Context.Span, all.named(t, "ferment.operation route/decide").Parent)
	assert.Equal(t, route.Parent, all.named(t, "ferment.operation text/respond").Parent)
}

// TEL-008: what a plugin asks its host within an attempt hangs below that attempt.
func TestHostCallsHangBelowTheirAttempt(t *testing.T) {
	s := newStory()
	s.accept()
	s.resolve("[0]", "agent/run")
	s.start("[0]", 1, "a/agent", "agent", "")
	s.put(`[0 "h1"]`, &journal.PlanResolved{Plan: s.ref(edn.MustMap()), Source: "intent"})
	s.resolve(`[0 "h1" 0]`, "text/respond")
	s.commit(`[0 "h1" 0]`)
	s.finish("[0]", 1, "ok", "")
	s.commit("[0]")
	s.end(journal.StatusCompleted)
	all := read(s.records, journal.ContentOff)
	assert.Equal(t, spans.AttemptContext("run_1", 1, edn.MustRead("[0]"), 1).Span, all.named(t, "ferment.operation text/respond").Parent)
}

// TEL-006: each verdict is one event in the context of its attempt; the explanation is
// there only with content full; a gate that itself failed has no label.
func TestVerdicts(t *testing.T) {
	s := newStory()
	s.accept()
	s.resolve("[0]", "text/respond")
	s.start("[0]", 1, "a/one", "llm", "")
	s.finish("[0]", 1, "ok", "")
	s.put("[0]",
		&journal.GateVerdict{Attempt: 1, Gate: "polite", Severity: "must", Pass: true, Score: journal.ScoreOf(750)},
		&journal.GateVerdict{Attempt: 1, Gate: "short", Severity: "should", Findings: s.ref(edn.Text("too long"))},
		&journal.GateVerdict{Attempt: 1, Gate: "judge", Severity: "must", Err: contract.Errorf("judge/failed", "no")},
		&journal.GateVerdict{Attempt: 1, Gate: "other", Severity: "must", NotApplicable: true},
	)
	s.commit("[0]")
	s.end(journal.StatusCompleted)
	for _, content := range []journal.Content{journal.ContentOff, journal.ContentHash, journal.ContentFull} {
		all := read(s.records, content)
		require.Len(t, all.Events, 3, content)
		var got []map[string]any
		for _, e := range all.Events {
			assert.Equal(t, all.named(t, "chat m").Context, e.Context)
			assert.Equal(t, "gen_ai.evaluation.result", e.Name)
			got = append(got, attrs(e.Attrs))
		}
		want := []map[string]any{
			{"gen_ai.evaluation.name": "polite", "gen_ai.evaluation.score.value": 0.75, "gen_ai.evaluation.score.label": "pass",
				"ferment.gate.severity": "must"},
			{"gen_ai.evaluation.name": "short", "gen_ai.evaluation.score.label": "fail", "ferment.gate.severity": "should"},
			{"gen_ai.evaluation.name": "judge", "error.type": "judge/failed", "ferment.gate.severity": "must"},
		}
		if content == journal.ContentFull {
			want[1]["gen_ai.evaluation.explanation"] = `"too long"`
		}
		assert.Equal(t, want, got, content)
	}
}

// TEL-001: spans have the hash of requests and answers, or their text, or nothing.
func TestContentOfSpans(t *testing.T) {
	s := newStory()
	s.accept()
	s.resolve("[0]", "text/respond")
	s.start("[0]", 1, "a/one", "llm", "")
	s.finish("[0]", 1, "ok", "")
	s.commit("[0]")
	s.end(journal.StatusCompleted)
	for content, want := range map[journal.Content][4]any{
		journal.ContentOff: {},
		journal.ContentHash: {edn.Hash(edn.MustRead(`{:input {:text "question"}}`)),
			edn.Hash(edn.MustRead(`{:result {:out {:text "answer"}}}`)), nil, nil},
		journal.ContentFull: {nil, nil, `{:input {:text "question"}}`, `{:result {:out {:text "answer"}}}`},
	} {
		all := read(s.records, content)
		have := attrs(all.named(t, "chat m").Attrs)
		assert.Equal(t, want, [4]any{have["ferment.request.hash"], have["ferment.response.hash"], have["ferment.request"],
			have["ferment.response"]}, content)
		if content != journal.ContentFull {
			assert.NotContains(t, fmt.Sprint(all.Spans), "question")
		}
	}
}

// TEL-007: the attempts of a race link to each other, also one that ends after its
// operation; other attempts have no links.
func TestRacesLink(t *testing.T) {
	s := newStory()
	s.accept()
	s.resolve("[0]", "text/respond")
	s.start("[0]", 1, "a/one", "solver", "race")
	s.finish("[0]", 1, "error", "runtime/invoke-failed")
	s.start("[0]", 2, "a/two", "solver", "race")
	s.start("[0]", 3, "a/three", "solver", "race")
	s.finish("[0]", 2, "ok", "")
	s.commit("[0]")
	s.finish("[0]", 3, "canceled", "canceled")
	s.end(journal.StatusCompleted)
	all := read(s.records, journal.ContentOff)
	one, two, three := all.named(t, "execute_tool a/one"), all.named(t, "execute_tool a/two"), all.named(t, "execute_tool a/three")
	assert.Equal(t, []spans.Context{two.Context, three.Context}, one.Links)
	assert.Equal(t, []spans.Context{one.Context, three.Context}, two.Links)
	assert.Equal(t, []spans.Context{one.Context, two.Context}, three.Links)
	assert.False(t, three.Failed, "the loser of a race has not failed")
	assert.Empty(t, all.named(t, "ferment.operation text/respond").Links)
}

// TEL-007: a resumed run is a new trace with a link to the old one, whose open spans
// end where its records end. Verdicts on an attempt of the old epoch stay with it.
func TestResumedRunLinks(t *testing.T) {
	s := newStory()
	s.accept()
	s.resolve("[0]", "text/respond")
	s.start("[0]", 1, "a/one", "solver", "")
	s.finish("[0]", 1, "ok", "")
	s.start("[0]", 2, "a/two", "solver", "")
	crash := s.at.Add(-time.Second)
	s.at = s.at.Add(time.Hour)
	s.resume(journal.ResumedCrash)
	s.resolve("[0]", "text/respond")
	s.put("[0]", &journal.GateVerdict{Attempt: 1, Gate: "g", Severity: "must", Pass: true})
	s.finish("[0]", 2, "unknown", "runtime/crashed")
	s.commit("[0]")
	s.end(journal.StatusFailed)
	s.resume(journal.ResumedDecision)
	caller := spans.RunContext("caller", 1) // HTTP-011: of the request to resume it
	s.records[len(s.records)-1].Body.(*journal.RunResumed).TraceParent = caller.TraceParent(true)
	s.end(journal.StatusCompleted)
	all := read(s.records, journal.ContentOff)

	var runs []*spans.Span
	for _, span := range all.Spans {
		if strings.HasPrefix(span.Name, "invoke_workflow ") {
			runs = append(runs, span)
		}
	}
	require.Len(t, runs, 3)
	assert.Empty(t, runs[0].Links)
	assert.Equal(t, []spans.Context{runs[0].Context}, runs[1].Links)
	assert.Equal(t, []spans.Context{runs[1].Context, caller}, runs[2].Links)
	assert.NotEqual(t, caller.Trace, runs[2].Trace)
	assert.NotEqual(t, runs[0].Trace, runs[1].Trace)
	assert.Equal(t, []any{"interrupted", "failed", "completed"}, []any{attrs(runs[0].Attrs)["ferment.run.status"],
		attrs(runs[1].Attrs)["ferment.run.status"], attrs(runs[2].Attrs)["ferment.run.status"]})
	assert.Equal(t, []bool{true, true, false}, []bool{runs[0].Failed, runs[1].Failed, runs[2].Failed})
	assert.Equal(t, "eval/must-failed", attrs(runs[1].Attrs)["error.type"])
	assert.Equal(t, crash, runs[0].End)
	two := all.named(t, "execute_tool a/two")
	assert.Equal(t, runs[0].Trace, two.Trace)
	assert.Equal(t, crash, two.End)
	require.Len(t, all.Events, 1)
	assert.Equal(t, all.named(t, "execute_tool a/one").Context, all.Events[0].Context)
}

// An attempt of a replay whose end is taken from another run was not made, so it has no
// span and its verdicts are not given again.
func TestRecordedAttemptsHaveNoSpan(t *testing.T) {
	s := newStory()
	s.accept()
	s.resolve("[0]", "text/respond")
	s.start("[0]", 1, "a/one", "solver", "")
	s.records[len(s.records)-1].Body.(*journal.AttemptStarted).Recorded = true
	s.finish("[0]", 1, "ok", "")
	s.put("[0]", &journal.GateVerdict{Attempt: 1, Gate: "g", Severity: "must", Pass: true})
	s.commit("[0]")
	s.end(journal.StatusCompleted)
	all := read(s.records, journal.ContentOff)
	assert.Len(t, all.Spans, 2)
	assert.Empty(t, all.Events)
}

// drawn writes a random run: nested operations, races, retries and crashes.
func drawn(t *rapid.T) *story {
	s := newStory()
	s.accept()
	later := func() {
		s.at = s.at.Add(time.Duration(rapid.IntRange(0, 5_000_000).Draw(t, "later")) * time.Microsecond)
	}
	var operation func(path string, depth int)
	operation = func(path string, depth int) {
		s.resolve(path, rapid.SampledFrom([]string{"a/x", "a/y"}).Draw(t, "intent"))
		var open []int
		for n := range rapid.IntRange(0, 4).Draw(t, "attempts") {
			later()
			entrant := rapid.SampledFrom([]string{"", "race", "hedge"}).Draw(t, "entrant")
			s.start(path, n+1, "c/n"+fmt.Sprint(n), rapid.SampledFrom([]string{"llm", "solver", ""}).Draw(t, "kind"), entrant)
			s.records[len(s.records)-1].Body.(*journal.AttemptStarted).Recorded = rapid.IntRange(0, 7).Draw(t, "recorded") == 0
			if depth < 2 && rapid.IntRange(0, 5).Draw(t, "asks") == 0 {
				operation(strings.TrimSuffix(path, "]")+fmt.Sprintf(` "h%d" 0]`, n+1), depth+1)
			}
			if open = append(open, n+1); entrant != "" && rapid.Bool().Draw(t, "beside") {
				continue
			}
			for _, each := range open {
				later()
				end := rapid.SampledFrom([][2]string{{"ok", ""}, {"error", "provider/quota"}, {"canceled", "canceled"}}).Draw(t, "end")
				s.finish(path, each, end[0], end[1])
				s.put(path, &journal.GateVerdict{Attempt: each, Gate: "g", Severity: "must", Pass: rapid.Bool().Draw(t, "pass")})
			}
			if open = nil; depth == 0 && rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
				s.resume(journal.ResumedCrash)
				s.resolve(path, "a/x")
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "left open") > 0 {
			s.commit(path)
		}
		for _, each := range open {
			s.finish(path, each, "canceled", "canceled")
		}
	}
	for n := range rapid.IntRange(0, 3).Draw(t, "nodes") {
		operation(fmt.Sprintf("[%d]", n), 0)
	}
	s.end(rapid.SampledFrom([]string{"completed", "failed", "canceled", "expired"}).Draw(t, "status"))
	return s
}

// TEL-005, TEL-007: of a random run, the stored records give the spans that the live ones
// gave, as many at each record. Every span is given once, its parent is in its trace,
// every attempt that was made has one, and links have their counterpart.
func TestSpansAreAFunctionOfRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawn(t)
		live := read(s.records, journal.ContentFull)

		var stored []journal.Record
		d := &journal.Decoder{Values: func(hash string) edn.Value { return s.values[hash] }}
		for _, rec := range s.records {
			back, err := d.Decode(edn.MustRead(rec.Value().String()))
			require.NoError(t, err)
			stored = append(stored, back)
		}
		require.Equal(t, live, read(stored, journal.ContentFull))
		cut := read(stored[:rapid.IntRange(0, len(stored)).Draw(t, "cut")], journal.ContentFull)
		require.Equal(t, live.Spans[:len(cut.Spans)], append([]*spans.Span{}, cut.Spans...))

		byID := map[spans.Context]*spans.Span{}
		for _, span := range live.Spans {
			require.NotContains(t, byID, span.Context)
			byID[span.Context] = span
			require.False(t, span.End.Before(span.Start))
			require.NotEmpty(t, span.Name)
		}
		roots, attempts := 0, 0
		for id, span := range byID {
			if span.Parent == ([8]byte{}) {
				roots++
			} else {
				require.Contains(t, byID, spans.Context{Trace: id.Trace, Span: span.Parent})
			}
			for _, link := range span.Links {
				require.Contains(t, byID, link)
				if span.Parent != ([8]byte{}) {
					require.Contains(t, byID[link].Links, id)
				}
			}
			if _, is := attrs(span.Attrs)["ferment.attempt"]; is {
				attempts++
			}
		}
		made := 0
		for _, rec := range s.records {
			if b, ok := rec.Body.(*journal.AttemptStarted); ok && !b.Recorded {
				made++
			}
		}
		require.Equal(t, s.epoch, roots)
		require.Equal(t, made, attempts)
		for _, e := range live.Events {
			require.Contains(t, byID, e.Context)
		}
		require.NotEmpty(t, slices.Collect(maps.Keys(byID)))
	})
}

func BenchmarkRun(b *testing.B) {
	s := newStory()
	s.accept()
	s.resolve("[0]", "text/respond")
	s.start("[0]", 1, "a/one", "llm", "")
	s.finish("[0]", 1, "ok", "")
	s.put("[0]", &journal.GateVerdict{Attempt: 1, Gate: "polite", Severity: "must", Pass: true})
	s.commit("[0]")
	s.end(journal.StatusCompleted)
	for _, content := range []journal.Content{journal.ContentOff, journal.ContentHash, journal.ContentFull} {
		b.Run(string(content), func(b *testing.B) {
			for b.Loop() {
				read(s.records, content)
			}
		})
	}
}
