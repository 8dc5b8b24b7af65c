package journal_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files")

// JRN-009: the page of records is generated and current.
func TestRecordsPage(t *testing.T) {
	const file = "RECORDS.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(journal.Page()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), journal.Page(), "run: go test ./host/internal/orchestration/journal -update")
}

// JRN-009: the schema of a kind is closed, and every written kind has one.
func TestSchemasAreClosed(t *testing.T) {
	for _, kind := range journal.Kinds() {
		s, ok := journal.Schema(kind)
		require.True(t, ok, kind)
		assert.True(t, s.Closed(), kind)
		sample := record(samples()[kind])
		require.NoError(t, sample.Check(), kind)
		v := sample.Value()
		assert.Empty(t, s.Validate(v), kind)
		assert.NotEmpty(t, s.Validate(v.AssocKey("unheard/of", edn.Int(1))), "%s accepts an unknown key", kind)
		assert.NotEmpty(t, s.Validate(v.AssocKey("kind", edn.K("run/other"))), "%s accepts another kind", kind)
		for _, key := range []string{"v", "run", "seq", "at", "epoch", "kind"} {
			assert.NotEmpty(t, s.Validate(v.Dissoc(edn.K(key))), "%s does without :%s", kind, key)
		}
	}
	assert.Len(t, samples(), len(journal.Kinds()))
}

// underCondition matches the keys whose presence depends on other keys, which
// a schema cannot express.
var underCondition = regexp.MustCompile(`: (node|attempt|cap/version|error) is missing`)

// JRN-009: a missing or ill-typed key is rejected at the append, as a defect
// of the host. The check before the append and the schema agree.
func TestCheckAgreesWithSchema(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := drawBody(t)
		rec := record(body)
		if rapid.IntRange(0, 9).Draw(t, "no node") == 0 {
			rec.Node = ""
		}
		s, _ := journal.Schema(body.Kind())
		found := s.Validate(rec.Value())
		err := rec.Check()
		if len(found) > 0 && err == nil {
			t.Fatalf("the check lets pass what the schema refuses: %v in %s", found, rec.Value())
		}
		if len(found) == 0 && err != nil && !underCondition.MatchString(err.Error()) {
			t.Fatalf("the check refuses what the schema lets pass: %v in %s", err, rec.Value())
		}
		if err != nil && !errors.Is(err, contract.OfType("runtime/internal")) {
			t.Fatalf("wrong type: %v", err)
		}
	})
}

func record(body journal.Body) journal.Record {
	return journal.Record{
		Run: "run_x", Seq: 1, At: time.Unix(1, 0), Epoch: 1, Path: edn.Vector(edn.Int(0)), Node: "n0", Body: body,
	}
}

var someHash = edn.Hash(edn.Int(1))

func samples() map[journal.Kind]journal.Body {
	ref := journal.RefTo(edn.Int(1))
	failure := contract.Errorf("runtime/crashed", "gone")
	empty := edn.MustMap()
	reserved := &journal.BudgetReserved{For: "attempt", Attempt: 1, Scopes: []string{"run", "node"}, Amount: edn.MustMap(edn.K("attempts"), edn.Int(1), edn.K("usd"), edn.MustRead("0.01M"))}
	reserved.SetSeq(3)
	bodies := []journal.Body{
		&journal.RunAccepted{
			Principal: "local", PrincipalType: "local", Operation: "act/run", Intent: "a/b", Request: ref, Fingerprint: ref,
			ResponseType: "value", Class: "sync", DeadlineAt: time.Unix(9, 0), Config: someHash, Evaluator: 1, Trace: empty,
		},
		&journal.RunStarted{Host: "h", Boot: "b", Config: someHash},
		&journal.RunResumed{Host: "h", Boot: "b", Config: someHash, Was: someHash, Why: journal.ResumedCrash},
		&journal.PlanResolved{Plan: ref, Source: "request"},
		&journal.NodeResolved{
			Op: "call", Intent: "a/b", Policy: "declared", Strategy: "cascade",
			Candidates: []journal.Candidate{{CapID: "a/one"}}, Rejected: []journal.Rejection{{CapID: "a/two", Reason: "runtime/not-ready", Why: "provider/not-configured"}},
		},
		&journal.NodeSkipped{Op: "call", When: edn.Bool(false)},
		&journal.AttemptStarted{Attempt: 1, CapID: "a/one", CapVersion: "1.0.0", Request: ref, Effects: []string{"none"}, Recovery: "none", EffectKey: someHash},
		&journal.AttemptChunk{Attempt: 1, Chunk: 2, Value: ref, Visible: "provisional"},
		&journal.AttemptRetracted{Attempt: 1, Reason: "eval/must-failed"},
		&journal.AttemptFinished{Attempt: 1, Outcome: "error", Err: failure},
		&journal.GateVerdict{Attempt: 1, Gate: "schema-valid", Severity: "must", Pass: true},
		&journal.NodeCommitted{Value: ref, As: "x", CapID: "a/one", Attempt: 1, Score: journal.ScoreOf(667), Outscored: []int{2, 3}},
		&journal.NodeFailed{Err: failure, Attempts: 2},
		reserved,
		&journal.BudgetSettled{Of: reserved, Amount: edn.MustMap(edn.K("attempts"), edn.Int(1)), Mark: "exact"},
		&journal.EnvRead{What: "random", Value: edn.Int(7)},
		&journal.InterruptOpened{Interrupt: "0-1-1", Attempt: 1, Question: ref, Schema: "a/b"},
		&journal.InterruptAnswered{Interrupt: "0-1-1", By: "local"},
		&journal.CancelRequested{By: "local"},
		&journal.RunSuspended{Why: "effects/outcome-unknown"},
		&journal.HostEvent{Event: "quality/swap", Details: empty, CapID: "a/one", Intent: "a/b"},
		&journal.ActRejected{Operation: "http.v1/act", Trace: empty, Err: contract.Errorf("auth/forbidden", "no"), Principal: "uid/7"},
		&journal.ActFinished{Run: "run_1", Operation: "act/run", Trace: empty, Principal: "local", PrincipalType: "local", Intent: "a/b",
			Outcome: "ok", Status: "completed"},
		&journal.AuthEvent{Event: "auth/login", Operation: "http.v1/act", Success: true, Level: "info", Message: "in"},
		&journal.SessionAction{Action: "session/get", Principal: "local", OK: true},
		&journal.AdminAction{Action: "admin/drain", Principal: "local", OK: true},
		&journal.ConfigReloaded{Old: someHash, New: someHash},
		&journal.PluginTransition{Plugin: "p", From: "stopped", To: "starting", Cause: "start"},
		&journal.RunFinished{Status: "completed", Response: ref, Totals: edn.MustMap(edn.K("operations"), empty, edn.K("attempts"), empty)},
	}
	out := map[journal.Kind]journal.Body{}
	for _, b := range bodies {
		out[b.Kind()] = b
	}
	return out
}

// drawBody returns a valid record, possibly with faults.
func drawBody(t *rapid.T) journal.Body {
	kind := rapid.SampledFrom(journal.Kinds()).Draw(t, "kind")
	body := samples()[kind]
	spoil := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	odd := rapid.SampledFrom([]edn.Value{edn.Nil(), edn.Int(3), edn.Text("x"), edn.MustMap(edn.Int(1), edn.Int(2)), edn.MustMap(edn.K("usd"), edn.Text("1"))}).Draw(t, "odd")
	switch b := body.(type) {
	case *journal.RunAccepted:
		drop(spoil, &b.Principal, &b.PrincipalType, &b.Operation, &b.Intent, &b.ResponseType, &b.Class, &b.Config)
		if spoil("request") {
			b.Request = journal.Ref{}
		}
		if spoil("fingerprint") {
			b.Fingerprint = journal.Ref{}
		}
		if spoil("trace") {
			b.Trace = odd
		}
		if spoil("budget") {
			b.Budget = odd
		}
		if spoil("key") {
			b.Key = "b3:short"
		}
		if spoil("evaluator") {
			b.Evaluator = 0
		}
	case *journal.RunResumed:
		drop(spoil, &b.Host, &b.Boot, &b.Config, &b.Was, &b.Why)
	case *journal.RunStarted:
		drop(spoil, &b.Host, &b.Boot, &b.Config)
	case *journal.PlanResolved:
		drop(spoil, &b.Source)
		if spoil("plan") {
			b.Plan = journal.Ref{}
		}
		if spoil("worst") {
			b.WorstCase = odd
		}
		if spoil("warnings") {
			b.Warnings = []edn.Value{odd}
		}
	case *journal.NodeResolved:
		drop(spoil, &b.Op, &b.Policy, &b.Strategy)
		if spoil("candidates") {
			b.Candidates = append(b.Candidates, journal.Candidate{})
		}
		if spoil("figures") {
			b.Candidates = append(b.Candidates, journal.Candidate{CapID: "a/x", Figures: odd})
		}
		if spoil("rejected") {
			b.Rejected = append(b.Rejected, journal.Rejection{CapID: "a/x"})
		}
		if spoil("stream") {
			b.Stream = rapid.SampledFrom([]string{"provisional", "at once"}).Draw(t, "stream value")
		}
		if spoil("coerced") {
			b.Coerced = []edn.Value{odd}
		}
	case *journal.NodeSkipped:
		drop(spoil, &b.Op)
	case *journal.AttemptStarted:
		drop(spoil, &b.CapID, &b.CapVersion, &b.Recovery, &b.EffectKey)
		if spoil("attempt") {
			b.Attempt = 0
		}
		if spoil("binary") {
			b.Binary = "sha256:1"
		}
		if spoil("budget") {
			b.Budget = odd
		}
	case *journal.AttemptChunk:
		drop(spoil, &b.Visible)
		if spoil("attempt") {
			b.Attempt = rapid.IntRange(-1, 0).Draw(t, "attempt value")
		}
		if spoil("chunk") {
			b.Chunk = -1
		}
	case *journal.AttemptRetracted:
		drop(spoil, &b.Reason)
		if spoil("attempt") {
			b.Attempt = -1
		}
	case *journal.AttemptFinished:
		drop(spoil, &b.Outcome)
		if spoil("usage") {
			b.Usage = odd
		}
		if spoil("meta") {
			b.Meta = odd
		}
		if spoil("result") {
			b.Result = journal.RefTo(odd)
			b.ResultType = "value"
			if spoil("result type") {
				b.ResultType = "nonsense"
			}
		}
	case *journal.GateVerdict:
		drop(spoil, &b.Gate, &b.Severity)
		if spoil("tier") {
			b.Tier = 4
		}
		if spoil("score") {
			b.Score = journal.ScoreOf(int64(rapid.IntRange(999, 1001).Draw(t, "score value")))
		}
		if spoil("cap") {
			b.CapID = "a/judge"
			b.Usage = odd
			if !spoil("version") {
				b.CapVersion = "1.0.0"
			}
		}
	case *journal.NodeCommitted:
		if spoil("value") {
			b.Value = journal.Ref{}
		}
		if spoil("score") {
			b.Score = journal.ScoreOf(1001)
		}
	case *journal.NodeFailed:
		if spoil("attempts") {
			b.Attempts = -1
		}
	case *journal.BudgetReserved:
		drop(spoil, &b.For)
		if spoil("amount") {
			b.Amount = odd
		}
		if spoil("scopes") {
			b.Scopes = nil
		}
	case *journal.BudgetSettled:
		drop(spoil, &b.Mark)
		if spoil("amount") {
			b.Amount = odd
		}
		if spoil("of") {
			b.Of = &journal.BudgetReserved{}
		}
	case *journal.EnvRead:
		drop(spoil, &b.What)
		if spoil("value") {
			b.Value = odd
		}
	case *journal.InterruptOpened:
		drop(spoil, &b.Interrupt, &b.Schema)
		if spoil("question") {
			b.Question = journal.Ref{}
		}
	case *journal.InterruptAnswered:
		drop(spoil, &b.Interrupt, &b.By)
	case *journal.CancelRequested:
		drop(spoil, &b.By)
	case *journal.HostEvent:
		drop(spoil, &b.Event)
		if spoil("details") {
			b.Details = odd
		}
	case *journal.ActRejected:
		drop(spoil, &b.Operation)
		if spoil("trace") {
			b.Trace = odd
		}
		if spoil("error") {
			b.Err = nil
		}
	case *journal.RunFinished:
		drop(spoil, &b.Status)
		if spoil("totals") {
			b.Totals = rapid.SampledFrom([]edn.Value{edn.Nil(), edn.MustMap(), b.Totals.AssocKey("more", edn.Int(1)), b.Totals.AssocKey("attempts", edn.Int(1))}).Draw(t, "totals value")
		}
		if spoil("response") {
			b.Response = journal.Ref{}
		}
	}
	return body
}

func drop(spoil func(string) bool, fields ...*string) {
	for _, f := range fields {
		if spoil("drop " + *f) {
			*f = ""
		}
	}
}

func at(seq int, body journal.Body) journal.Record {
	r := record(body)
	r.Seq = seq
	return r
}

func TestMemoryKeepsOrder(t *testing.T) {
	m := journal.NewMemory()
	all := samples()
	require.NoError(t, m.Append(context.Background(), at(1, all[journal.KindRunAccepted])))
	require.Error(t, m.Append(context.Background(), at(3, all[journal.KindRunStarted])), "a gap")
	require.Error(t, m.Append(context.Background(), at(1, all[journal.KindRunStarted])), "twice")
	require.NoError(t, m.Append(context.Background(), at(2, all[journal.KindRunFinished])))
	err := m.Append(context.Background(), at(3, all[journal.KindRunStarted]))
	require.ErrorIs(t, err, contract.OfType("runtime/internal"), "after the end")
	assert.Len(t, recordsOf(t, m, "run_x"), 2)
	assert.Empty(t, recordsOf(t, m, "run_y"))
}

// The log of a run returned by Open is the journal's, and stays valid after
// the run was dropped: a late writer finds it finished and does not create a
// new run.
func TestOpenLog(t *testing.T) {
	m, ctx, all := journal.NewMemory(), context.Background(), samples()
	log := m.Open("run_x")
	require.NoError(t, log.Append(ctx, at(1, all[journal.KindRunAccepted])))
	require.Error(t, log.Append(ctx, journal.Record{Run: "run_x", Seq: 2}), "no body")
	require.NoError(t, m.Append(ctx, at(2, all[journal.KindRunStarted])))
	seen := recordsOf(t, m, "run_x")
	require.Len(t, seen, 2)
	assert.Len(t, append(seen, journal.Record{}), 3)
	for seq := 3; seq <= 40; seq++ {
		require.NoError(t, log.Append(ctx, at(seq, all[journal.KindNodeSkipped])))
	}
	assert.Len(t, seen, 2, "what was read stays as it was")
	for i, rec := range recordsOf(t, m, "run_x") {
		assert.Equal(t, i+1, rec.Seq)
	}
	require.NoError(t, log.Append(ctx, at(41, all[journal.KindRunFinished])))
	assert.True(t, m.Has("run_x"))
	m.Drop("run_x")
	assert.False(t, m.Has("run_x"))
	require.ErrorIs(t, log.Append(ctx, at(42, all[journal.KindRunStarted])), contract.OfType("runtime/internal"))
	assert.Empty(t, recordsOf(t, m, "run_x"))
}

func TestMemoryFindsValuesByHash(t *testing.T) {
	m := journal.NewMemory()
	v := edn.MustRead(`{:a [1 2]}`)
	require.NoError(t, m.Append(context.Background(), at(1, &journal.NodeCommitted{Value: journal.RefTo(v)})))
	got, ok := m.Get("run_x", edn.Hash(v))
	require.True(t, ok)
	assert.True(t, edn.Equal(v, got))
	_, ok = m.Get("run_x", someHash)
	assert.False(t, ok)
	_, ok = m.Get("run_y", edn.Hash(v))
	assert.False(t, ok)
}

// A cursor follows a run while it is written, and reaches its end even after
// the run was dropped.
func TestCursorFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := journal.NewMemory()
		c := m.Follow("run_x", 0)
		var kinds []journal.Kind
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				rec, ok, err := c.Next(context.Background())
				if err != nil || !ok {
					return
				}
				kinds = append(kinds, rec.Body.Kind())
			}
		}()
		all := samples()
		for i, kind := range []journal.Kind{journal.KindRunAccepted, journal.KindRunStarted, journal.KindRunFinished} {
			synctest.Wait()
			assert.Len(t, kinds, i)
			require.NoError(t, m.Append(context.Background(), at(i+1, all[kind])))
		}
		m.Drop("run_x")
		<-done
		assert.Equal(t, []journal.Kind{journal.KindRunAccepted, journal.KindRunStarted, journal.KindRunFinished}, kinds)

		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, ok, err := m.Follow("run_z", 0).Next(ctx)
		assert.False(t, ok)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// The record of an accepted answer lists the attempts of its tournament
// that passed the gates and were not the best.
func TestOutscored(t *testing.T) {
	body := samples()[journal.KindNodeCommitted].(*journal.NodeCommitted)
	assert.Equal(t, "[2 3]", at(1, body).Value().Key("outscored").String())
	body.Outscored = nil
	assert.False(t, at(1, body).Value().HasKey("outscored"))
}

// JRN-009: reading a written record returns an equal record, and a key that is
// missing, unknown or ill-typed is found.
func TestDecode(t *testing.T) {
	values := map[string]edn.Value{}
	decoder := func() *journal.Decoder {
		return &journal.Decoder{Values: func(hash string) edn.Value { return values[hash] }}
	}
	rapid.Check(t, func(t *rapid.T) {
		rec := record(drawBody(t))
		if rec.Check() != nil {
			t.Skip("not a record")
		}
		rec.Refs(func(ref journal.Ref) { values[ref.Hash()] = ref.Value() })
		back, err := decoder().Decode(edn.MustRead(rec.Value().String()))
		require.NoError(t, err)
		assert.True(t, back.Value().Equal(rec.Value()), "%s became %s", rec.Value(), back.Value())
		assert.IsType(t, rec.Body, back.Body)
		back.Refs(func(ref journal.Ref) { assert.Equal(t, ref.Hash(), edn.Hash(ref.Value())) })
	})
}

func TestDecodeRefuses(t *testing.T) {
	damaged := contract.OfType("journal/damaged")
	for kind, body := range samples() {
		whole := record(body).Value()
		for k := range whole.Entries() {
			name, _ := k.AsKeyword()
			s, _ := journal.Schema(kind)
			for _, changed := range []edn.Value{whole.Dissoc(k), whole.Assoc(k, edn.MustRead(`1.5`)), whole.AssocKey(name+"s", edn.Int(1))} {
				var d journal.Decoder
				_, err := d.Decode(changed)
				if err != nil {
					assert.ErrorIs(t, err, damaged, "%s of %s", name, changed)
				}
				if len(s.Validate(changed)) > 0 {
					assert.Error(t, err, "%s of %s", name, changed)
				}
			}
		}
	}
	for _, v := range []string{`nil`, `[]`, `{}`, `{:v 1 :run "r" :seq 1 :at #inst "2026-01-01T00:00:00Z" :epoch 1 :kind :no/such}`} {
		var d journal.Decoder
		_, err := d.Decode(edn.MustRead(v))
		assert.ErrorIs(t, err, damaged, v)
	}
}

func BenchmarkDecode(b *testing.B) {
	for kind, body := range samples() {
		v := record(body).Value()
		b.Run(string(kind), func(b *testing.B) {
			for b.Loop() {
				var d journal.Decoder
				if _, err := d.Decode(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// JRN-004: a reader of a held journal sees a record only once it is shown.
func TestHeldRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := journal.NewHeld()
		ctx := t.Context()
		cursor, seen := m.Follow("run_x", 0), make(chan int, 9)
		go func() {
			defer close(seen)
			for {
				rec, ok, err := cursor.Next(ctx)
				if !ok || err != nil {
					return
				}
				seen <- rec.Seq
			}
		}()
		kinds := samples()
		require.NoError(t, m.Append(ctx, at(1, kinds[journal.KindRunAccepted])))
		require.NoError(t, m.Append(ctx, at(2, kinds[journal.KindRunStarted])))
		require.NoError(t, m.Append(ctx, at(3, kinds[journal.KindRunFinished])))
		synctest.Wait()
		assert.Empty(t, seen)
		assert.Len(t, recordsOf(t, m, "run_x"), 3)
		m.Show("run_x", 2)
		m.Show("run_x", 1)
		m.Show("run_y", 1)
		synctest.Wait()
		assert.Len(t, seen, 2)
		m.Show("run_x", 9)
		synctest.Wait()
		var all []int
		for seq := range seen {
			all = append(all, seq)
		}
		assert.Equal(t, []int{1, 2, 3}, all, "the cursor ends after run/finished")
	})
}

// RUN-040: a reader gets the records that became readable together in one page, of a
// bounded size, whatever was appended while it had an earlier page; each once.
func TestPages(t *testing.T) {
	m := journal.NewHeld()
	ctx := t.Context()
	n := 0
	grow := func(by int) {
		for range by {
			n++
			require.NoError(t, m.Append(ctx, at(n, samples()[journal.KindCancelRequested])))
		}
		m.Show("run_x", n)
	}
	cursor, seen := m.Follow("run_x", 0), 0
	page := func(size int) []journal.Record {
		t.Helper()
		records, err := cursor.Page(ctx)
		require.NoError(t, err)
		require.Len(t, records, size)
		for _, rec := range records {
			seen++
			require.Equal(t, seen, rec.Seq)
		}
		return records
	}
	grow(4)
	first := page(4)
	grow(1)
	page(1)
	grow(3)
	require.NoError(t, m.Append(ctx, at(n+1, samples()[journal.KindRunFinished]))) // not readable yet
	page(3)
	assert.Equal(t, 4, cap(first), "what is appended to a page does not change the run")
	m.Show("run_x", n+1)
	page(1)
	page(0)

	var long []journal.Record
	for i := range 70 {
		long = append(long, at(i+1, samples()[journal.KindCancelRequested]))
	}
	cursor, seen = journal.Recorded(long), 0
	page(32)
	page(32)
	page(6)
	page(0)
	_, err := journal.Unreadable(errors.New("lost")).Page(ctx)
	assert.EqualError(t, err, "lost")
}

func TestRecorded(t *testing.T) {
	var all []journal.Record
	for i := range 70 {
		all = append(all, at(i+1, samples()[journal.KindCancelRequested]))
	}
	cursor := journal.Recorded(all)
	for i := range all {
		rec, ok, err := cursor.Next(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, i+1, rec.Seq)
	}
	_, ok, err := cursor.Next(t.Context())
	assert.NoError(t, err)
	assert.False(t, ok)
}

// JRN-009: whatever a store holds, it is a record or an error.
func FuzzDecode(f *testing.F) {
	for _, body := range samples() {
		f.Add(record(body).Value().String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := edn.ReadString(text)
		if err != nil {
			return
		}
		var d journal.Decoder
		rec, err := d.Decode(v)
		if err != nil {
			assert.ErrorIs(t, err, contract.OfType("journal/damaged"))
			return
		}
		assert.NoError(t, rec.Check())
		assert.True(t, rec.Value().Equal(v))
	})
}

// recordsOf returns the records of a run.
func recordsOf(t testing.TB, from interface {
	Records(run string) ([]journal.Record, error)
}, run string) []journal.Record {
	t.Helper()
	records, err := from.Records(run)
	require.NoError(t, err)
	return records
}
