package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

func streaming(how string, l policy.Layer) policy.Layer {
	l.Stream = policy.Of(how, here)
	return l
}

func mustPass(l policy.Layer, names ...string) policy.Layer {
	l.Must = policy.NamesOf(here, names...)
	return l
}

func should(l policy.Layer, name string) policy.Layer {
	l.Should = policy.NamesOf(here, name)
	l.ScoreMin = policy.Of(edn.Int(1), here)
	return l
}

// says returns a step that streams its pieces and answers with their text.
func says(pieces ...string) dispatchtest.Step {
	s := out("{:text " + edn.Text(strings.Join(pieces, "")).String() + "}")
	s.Pieces, s.Gap = pieces, 60*ms
	return s
}

// saysAfter returns a step that streams one text, withdraws it, and answers with
// another.
func saysAfter(withdrawn, text string) dispatchtest.Step {
	s := says(text)
	s.Pieces = []string{withdrawn, dispatchtest.Withdrawn, text}
	return s
}

// begins returns a step that streams pieces and then ends like last.
func begins(last dispatchtest.Step, pieces ...string) dispatchtest.Step {
	last.Pieces, last.Gap = pieces, 60*ms
	return last
}

// shown returns the text as seen by the reader of the run: ! marks provisional
// text, x a retraction.
func (s served) shown() string {
	var all []string
	for _, r := range s.records {
		switch x := r.Body.(type) {
		case *journal.AttemptChunk:
			mark := ""
			if x.Visible == journal.VisibleProvisional {
				mark = "!"
			}
			all = append(all, fmt.Sprintf("%d%s%s", x.Attempt, mark, x.Text()))
		case *journal.AttemptRetracted:
			all = append(all, fmt.Sprintf("%dx%s", x.Attempt, x.Reason))
		case *journal.NodeResolved:
			all = append(all, x.Stream)
		}
	}
	return strings.Join(all, " ")
}

// text returns the reader's text at the end of the node.
func (s served) text() string {
	var b strings.Builder
	for _, r := range s.records {
		switch x := r.Body.(type) {
		case *journal.AttemptChunk:
			b.WriteString(x.Text())
		case *journal.AttemptRetracted:
			b.Reset()
		}
	}
	return b.String()
}

func streamWorld(t testing.TB, n int) *dispatchtest.World {
	long := func(text string) quality.Check {
		judge := func(s quality.Subject) quality.Outcome {
			if _, got, _ := quality.Text(s.Result); !strings.Contains(got, text) {
				return quality.Failed(quality.Finding{Message: "lacks " + text})
			}
			return quality.Passed()
		}
		return quality.Check{Check: registry.Check{Name: text, Kind: registry.CheckCondition}, Judge: judge}
	}
	return dispatchtest.New(t, dispatchtest.Spec{Caps: caps(make([]string, n)...), Checks: []quality.Check{long("good")}})
}

// STR-001, STR-002, GATE-005: each row of the state table under each policy,
// and the effect of strategies.
func TestStreamTable(t *testing.T) {
	const gatePassed, firstToken, provisional = policy.GatePassed, policy.FirstToken, policy.Provisional
	for name, tc := range map[string]struct {
		layer    policy.Layer
		a, b     dispatchtest.Step
		deadline time.Duration
		shown    string
		fails    string
	}{
		"hidden until the gates pass":          {layer: streaming(gatePassed, retries(0, 1)), a: says("a", "b"), shown: "gate-passed 1ab"},
		"unset is hidden":                      {layer: retries(0, 1), a: says("a", "b"), shown: "gate-passed 1ab"},
		"unset is hidden, fault":               {layer: retries(0, 1), a: begins(fails("provider/error"), "a"), b: says("b"), shown: "gate-passed 2b"},
		"hidden, dropped with its attempt":     {layer: streaming(gatePassed, retries(0, 1)), a: begins(fails("provider/error"), "a"), b: says("b"), shown: "gate-passed 2b"},
		"hidden, gates fail":                   {layer: mustPass(streaming(gatePassed, retries(0, 1)), "good"), a: says("bad"), b: says("good"), shown: "gate-passed 2good"},
		"shown, withdrawn":                     {layer: streaming(provisional, retries(0, 1)), a: saysAfter("a", "b"), shown: "provisional 1!a 1xschema/invalid 1!b"},
		"hidden, withdrawn":                    {layer: streaming(gatePassed, retries(0, 1)), a: saysAfter("a", "b"), shown: "gate-passed 1b"},
		"bound, withdrawn":                     {layer: streaming(firstToken, retries(0, 1)), a: saysAfter("a", "b"), b: says("c"), shown: "first-token 1a", fails: "stream/truncated"},
		"shown, commits":                       {layer: streaming(provisional, retries(0, 1)), a: says("a", "b"), shown: "provisional 1!a 1!b"},
		"shown, gates fail":                    {layer: mustPass(streaming(provisional, retries(0, 1)), "good"), a: says("b", "ad"), b: says("go", "od"), shown: "provisional 1!b 1!ad 1xeval/must-failed 2!go 2!od"},
		"shown, fault":                         {layer: streaming(provisional, retries(0, 1)), a: begins(fails("provider/error"), "a"), b: says("b"), shown: "provisional 1!a 1xprovider/error 2!b"},
		"shown, crash, the same again":         {layer: streaming(provisional, retries(1, 0)), a: begins(dispatchtest.Step{Crash: true}, "a"), shown: "provisional 1!a 1xruntime/crashed 2!a 2xruntime/crashed", fails: "runtime/crashed"},
		"shown, deadline":                      {layer: streaming(provisional, retries(0, 0)), a: begins(dispatchtest.Step{Hang: true}, "a"), deadline: time.Second, shown: "provisional 1!a 1xtimeout/hard", fails: "timeout/hard"},
		"hidden, nothing was said":             {layer: streaming(provisional, retries(0, 1)), a: out(`{:text "ab"}`), shown: "provisional 1ab"},
		"shown, another text in the end":       {layer: streaming(provisional, retries(0, 1)), a: begins(out(`{:text "xyz"}`), "a"), shown: "provisional 1!a 1xstream/malformed 1xyz"},
		"shown, the end was not streamed":      {layer: streaming(provisional, retries(0, 1)), a: begins(out(`{:text "abc"}`), "a"), shown: "provisional 1!a 1bc"},
		"bound, commits":                       {layer: streaming(firstToken, retries(0, 1)), a: says("a", "b"), shown: "first-token 1a 1b"},
		"bound, fault":                         {layer: streaming(firstToken, retries(1, 1)), a: begins(fails("provider/error"), "a"), b: says("b"), shown: "first-token 1a", fails: "stream/truncated"},
		"bound, crash":                         {layer: streaming(firstToken, retries(1, 1)), a: begins(dispatchtest.Step{Crash: true}, "a"), b: says("b"), shown: "first-token 1a", fails: "stream/truncated"},
		"bound, gates fail":                    {layer: should(streaming(firstToken, retries(0, 1)), "good"), a: says("bad"), b: says("good"), shown: "first-token 1bad 1xeval/low-score", fails: "eval/low-score"},
		"bound, deadline":                      {layer: streaming(firstToken, retries(0, 1)), a: begins(dispatchtest.Step{Hang: true}, "a"), deadline: time.Second, shown: "first-token 1a", fails: "timeout/hard"},
		"bound, another text in the end":       {layer: streaming(firstToken, retries(0, 1)), a: begins(out(`{:text "xyz"}`), "a"), b: says("b"), shown: "first-token 1a", fails: "stream/truncated"},
		"not yet bound, fault":                 {layer: streaming(firstToken, retries(0, 1)), a: fails("provider/error"), b: says("b"), shown: "first-token 2b"},
		"a must check hides the first token":   {layer: mustPass(streaming(firstToken, retries(0, 1)), "good"), a: says("bad"), b: says("good"), shown: "gate-passed 2good"},
		"a race hides all attempts":            {layer: streaming(provisional, race(2, 0)), a: in(ms, says("a")), b: in(time.Second, says("b")), shown: "gate-passed 1a"},
		"a tournament hides all attempts":      {layer: streaming(firstToken, tournament(2, 0)), a: says("a"), b: says("b"), shown: "gate-passed 1a"},
		"a hedge that is silent is overtaken":  {layer: streaming(provisional, hedge(100*ms, 1, 0, 0)), a: dispatchtest.Step{Hang: true}, b: says("b"), shown: "provisional 2!b"},
		"a hedge that was heard first loses":   {layer: streaming(provisional, hedge(100*ms, 1, 0, 0)), a: begins(in(time.Minute, says("a")), "a"), b: says("b"), shown: "provisional 1!a 1xrace/lost 2b"},
		"a hedge that was heard for good wins": {layer: streaming(firstToken, hedge(100*ms, 1, 0, 1)), a: begins(in(time.Second, says("a")), "a"), b: says("b"), shown: "first-token 1a"},
		"a hedge takes over with all it said":  {layer: streaming(provisional, hedge(100*ms, 1, 0, 0)), a: begins(in(200*ms, fails("provider/error")), "a"), b: says("1", "2", "3", "4"), shown: "provisional 1!a 1xprovider/error 2!1234"},
		"reasoning is no text":                 {layer: streaming(provisional, retries(0, 0)), a: says(""), shown: "provisional"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := streamWorld(t, 2)
				w.On("t/a", tc.a).On("t/b", tc.b)
				s := serve(t, w, order{layer: tc.layer, streams: true, deadline: tc.deadline})
				assert.Equal(t, tc.shown, s.shown())
				assert.Equal(t, tc.fails, s.failure())
				if tc.fails == "" {
					_, text, _ := quality.Text(s.Out)
					assert.Equal(t, text, s.text(), "STR-003")
				}
				assert.Zero(t, w.Live())
			})
		})
	}
}

// Without a reader no text is recorded, and plugins are not asked to stream.
func TestStreamOff(t *testing.T) {
	w := streamWorld(t, 1)
	w.On("t/a", out(`{:text "a"}`))
	s := serve(t, w, order{layer: streaming(policy.Provisional, retries(0, 0))})
	assert.Empty(t, s.shown())
	assert.Nil(t, w.Calls()[0].OnDelta)
}

// RUN-042: at most one record per 50 ms or 4 KiB, the first one at once, and no
// text is held back longer.
func TestStreamJoinsPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := streamWorld(t, 1)
		pieces := strings.Split(strings.Repeat("0123456789", 20), "")
		step := says(pieces...)
		step.Gap = 10 * ms
		w.On("t/a", step)
		s := serve(t, w, order{layer: streaming(policy.Provisional, retries(0, 0)), streams: true})
		assert.Equal(t, strings.Join(pieces, ""), s.text())
		assert.Regexp(t, "^provisional 1!0 1!", s.shown())
		n := len(strings.Fields(s.shown())) - 1
		assert.LessOrEqual(t, n, 41, "2 s of text")
		assert.GreaterOrEqual(t, n, 30)
	})
	synctest.Test(t, func(t *testing.T) {
		w := streamWorld(t, 1)
		w.On("t/a", says(strings.Repeat("ż", 5000)))
		s := serve(t, w, order{layer: streaming(policy.Provisional, retries(0, 0)), streams: true})
		assert.Equal(t, strings.Repeat("ż", 5000), s.text())
		assert.Len(t, strings.Fields(s.shown()), 4, "10,000 bytes in records of whole characters")
	})
}

// STR-003: text beyond the maximum size of an answer ends the attempt.
func TestStreamLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := streamWorld(t, 2)
		large := strings.Repeat("x", 1<<20)
		w.On("t/a", begins(dispatchtest.Step{Hang: true}, large, large, large, large, large, large, large, large, "x")).On("t/b", says("b"))
		s := serve(t, w, order{layer: streaming(policy.Provisional, retries(0, 1)), streams: true})
		assert.Empty(t, s.failure())
		assert.Equal(t, "b", s.text())
		assert.Equal(t, []string{"stream/malformed", ""}, []string{s.Attempts[0].Failure, s.Attempts[1].Failure})
	})
}

// A slow reader blocks the plugin; a closed one does not.
func TestStreamPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := streamWorld(t, 1)
		step := says(strings.Split(strings.Repeat("x", 100), "")...)
		for i := range step.Pieces {
			step.Pieces[i] = strings.Repeat("x", 10<<10)
		}
		step.Value = edn.MustMap(edn.K("text"), edn.Text(strings.Repeat("x", 1000<<10)))
		w.On("t/a", step)
		pace := stream.NewPace()
		done := make(chan served, 1)
		go func() {
			done <- serve(t, w, order{layer: streaming(policy.Provisional, retries(0, 0)), streams: true, pace: pace})
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Empty(t, done, "held back")
		pace.Read(200 << 10)
		time.Sleep(time.Hour)
		assert.Empty(t, done, "held back again")
		pace.Close()
		s := <-done
		assert.Len(t, s.text(), 1000<<10)
	})
	synctest.Test(t, func(t *testing.T) {
		w := streamWorld(t, 1)
		w.On("t/a", says(strings.Repeat("x", 300<<10), "y"))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		s := serve(t, w, order{ctx: ctx, layer: streaming(policy.Provisional, retries(0, 0)), streams: true, pace: stream.NewPace()})
		assert.Equal(t, "canceled", s.failure(), "a blocked plugin can be canceled")
	})
}

// EVAL-073, STR-003: provisional text is always followed by its retraction or
// by the end of the node, and the final text is the answer.
func TestStreamProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		piece := rapid.SampledFrom([]string{"go", "od", "bad ", "ż"})
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) dispatchtest.Step {
			pieces := rapid.SliceOfN(piece, 0, 4).Draw(rt, "pieces")
			s := says(pieces...)
			switch rapid.IntRange(0, 4).Draw(rt, "end") {
			case 0:
				s = begins(fails("provider/error"), pieces...)
			case 1:
				s = begins(dispatchtest.Step{Crash: true}, pieces...)
			case 2:
				s = begins(out(`{:text "good other"}`), pieces...)
			}
			s.Gap = time.Duration(rapid.IntRange(0, 70).Draw(rt, "gap")) * ms
			s.Delay = time.Duration(rapid.IntRange(0, 300).Draw(rt, "delay")) * ms
			return s
		}), 3, 3).Draw(rt, "steps")
		how := rapid.SampledFrom([]string{policy.GatePassed, policy.FirstToken, policy.Provisional}).Draw(rt, "policy")
		layer := rapid.SampledFrom([]policy.Layer{retries(0, 2), retries(1, 2), race(2, 1), hedge(100*ms, 2, 0, 2), tournament(3, 0)}).Draw(rt, "layer")
		layer = streaming(how, layer)
		if rapid.Bool().Draw(rt, "must") {
			layer = mustPass(layer, "good")
		} else if rapid.Bool().Draw(rt, "should") {
			layer = should(layer, "good")
		}
		synctest.Test(t, func(t *testing.T) {
			w := streamWorld(t, 3)
			w.On("t/a", steps[0]).On("t/b", steps[1]).On("t/c", steps[2])
			s := serve(t, w, order{layer: layer, streams: true})
			require.Zero(t, w.Live())
			_, want, _ := quality.Text(s.Out)
			switch {
			case s.Err == nil:
				require.Equal(t, want, s.text(), "%s", s.shown())
			case !strings.HasPrefix(s.shown(), policy.FirstToken):
				require.Empty(t, s.text(), "%s", s.shown())
			}
			if strings.HasPrefix(s.shown(), policy.FirstToken) {
				require.LessOrEqual(t, strings.Count(s.shown(), "x"), 1)
			}
		})
	})
}

// STR-001: text that waits for the gates has a reason for operators.
func TestStreamDelayReason(t *testing.T) {
	for _, row := range []struct {
		stream, strategy string
		must             []string
		why              string
	}{
		{policy.FirstToken, "", []string{"schema-valid"}, ""},
		{policy.FirstToken, "", []string{"good", "schema-valid"}, "the must check :good judges the whole answer"},
		{policy.Provisional, "", []string{"good"}, ""},
		{policy.GatePassed, policy.Race, []string{"good"}, ""},
		{policy.FirstToken, policy.Race, nil, "with the strategy :race the accepted attempt is known"},
		{policy.Provisional, policy.Tournament, nil, "with the strategy :tournament the accepted attempt is known"},
		{policy.FirstToken, policy.Hedge, nil, ""},
	} {
		why := stream.DelayReason(&policy.Policy{Stream: row.stream, Strategy: row.strategy, Must: row.must})
		assert.Equal(t, row.why == "", why == "", "%+v: %s", row, why)
		assert.Contains(t, why, row.why)
	}
}
