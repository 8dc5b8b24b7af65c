package rescore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// fakeHost is a set of judges with the clock of a synctest bubble: a store in
// memory and a function that grades answers.
type fakeHost struct {
	t testing.TB
	*rescore.Rescorer
	reg *registry.Registry

	mu      sync.Mutex
	records map[string]calibration.Record
	wrong   int           // wrong verdicts per label
	takes   time.Duration // duration of one verdict
	model   string
	fails   *contract.Error
	asked   []time.Time
	now     int // running verdicts
	most    int
	events  []stats.Notice
	kept    []calibration.Record
}

// Record implements rescore.Store.
func (b *fakeHost) Record(judge string) (*calibration.Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.records[judge]; ok {
		return &r, nil
	}
	return nil, nil
}

// Keep implements rescore.Store.
func (b *fakeHost) Keep(r calibration.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records[r.Judge] = r
	b.kept = append(b.kept, r)
	return nil
}

// Anchors implements rescore.Store.
func (b *fakeHost) Anchors(file string) (calibration.Anchors, error) {
	if file != "anchors.edn" {
		return calibration.Anchors{}, contract.Errorf("not-found", "no file %s", file)
	}
	return labelled(20), nil
}

// labelled returns n good and n bad answers.
func labelled(n int) calibration.Anchors {
	var list []edn.Value
	for i := range n {
		for _, label := range []string{"good", "bad"} {
			list = append(list, edn.MustRead(fmt.Sprintf(`{:id "%s%d" :label :%s :task/call {:input {:text "q%d"}} :task/result {:out {:text "%s %d"}}}`, label, i, label, i, label, i)))
		}
	}
	a, err := calibration.ParseAnchors(edn.MustMap(edn.K("anchors"), edn.Vector(list...)))
	if err != nil {
		panic(err)
	}
	return a
}

func judges(t testing.TB, list ...registry.Judge) *registry.Registry {
	t.Helper()
	c, err := contract.ParseCapability(edn.MustRead(`{:cap/id :j/rubric :cap/kind :judge :cap/intents #{:eval/grade} :io/in-schema :req/eval :io/out-schema :res/eval}`))
	require.NoError(t, err)
	for i := range list {
		j := &list[i]
		j.Intent, j.Capability, j.Enabled, j.ScorePath, j.MinKappa, j.Drift = registry.IntentGrade, "j/rubric", true, []string{"score"}, 0.4, 0.15
		if j.Recheck == 0 {
			j.Recheck = week
		}
	}
	reg, err := registry.New(registry.Spec{Capabilities: []registry.Capability{{Capability: c, Plugin: "judge"}}, Judges: list})
	require.NoError(t, err)
	return reg
}

func newFakeHost(t testing.TB, list ...registry.Judge) *fakeHost {
	b := &fakeHost{t: t, records: map[string]calibration.Record{}, takes: time.Second, model: "m-1", reg: judges(t, list...)}
	u := 0.0
	b.Rescorer = rescore.New(rescore.Settings{
		Clock: dispatch.SystemClock{}, Store: b,
		Random: func() float64 { u += 0.37; u -= float64(int(u)); return u },
		Tell: func(n stats.Notice) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, n)
		},
	})
	b.use(b.reg)
	return b
}

// use sets a configuration with all judges in use.
func (b *fakeHost) use(reg *registry.Registry) {
	b.Configure(rescore.Config{Registry: reg, Used: reg.Judges(), Ask: b.ask})
}

// serve runs the loop in the bubble until stop is called.
func (b *fakeHost) serve() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// before stores a record with the given age.
func (b *fakeHost) before(judge string, ago time.Duration, kappa float64) {
	at := time.Now().Add(-ago)
	b.records[judge] = calibration.Record{
		Judge: judge, Capability: "j/rubric", Key: "b3:k", Model: "m-1", Anchors: labelled(20).Hash, ScoreMin: 500, Good: 20, Bad: 20, At: at, Kappa: kappa, Why: calibration.ByOperator,
	}
}

// ask grades an answer by its label, except for the first few of each label.
func (b *fakeHost) ask(ctx context.Context, request edn.Value) (edn.Value, error) {
	b.mu.Lock()
	b.asked = append(b.asked, time.Now())
	b.now++
	b.most = max(b.most, b.now)
	wrong, takes, model, fails := b.wrong, b.takes, b.model, b.fails
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now--
	}()
	if err := (dispatch.SystemClock{}).Wait(ctx, takes); err != nil {
		return edn.Nil(), contract.AsError(err)
	}
	if fails != nil {
		return edn.MustRead(`{:usage {:tokens-in 1}}`), fails
	}
	if pinned, _ := request.Key("task").Key("cap/id").AsKeyword(); pinned != "j/rubric" {
		b.t.Errorf("asked %s", request)
	}
	text, _ := request.Key("input").Key("task/result").Key("out").Key("text").AsString()
	var label string
	var i int
	_, _ = fmt.Sscanf(text, "%s %d", &label, &i)
	score := "0.9M"
	if (label == "good") == (i < wrong) {
		score = "0.1M"
	}
	said := edn.MustMap(edn.K("key"), edn.Text("b3:k"))
	if model != "" {
		said = said.AssocKey("model", edn.Text(model))
	}
	return edn.MustMap(edn.K("invoke/meta"), edn.MustRead(`{:cap/id :j/rubric}`), edn.K("usage"), edn.MustRead(`{:tokens-in 10 :tokens-out 2 :cost-usd 0.001M}`),
		edn.K("result"), edn.MustMap(edn.K("out"), edn.MustMap(edn.K("score"), edn.MustRead(score), edn.K("judge"), said))), nil
}

// eventNames returns the notices so far, abbreviated.
func (b *fakeHost) eventNames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, n := range b.events {
		judge, _ := n.Details.Key("judge").AsString()
		cause, _ := n.Details.Key("cause").AsKeyword()
		out = append(out, n.Event+" "+judge+" "+cause)
	}
	return out
}

func (b *fakeHost) stored() []calibration.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]calibration.Record(nil), b.kept...)
}

// asks returns the times of the verdicts.
func (b *fakeHost) asks() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]time.Time(nil), b.asked...)
}

// atOnce returns the maximum number of concurrent verdicts.
func (b *fakeHost) atOnce() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

func (b *fakeHost) notices() []stats.Notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]stats.Notice(nil), b.events...)
}

func anchored(name string) registry.Judge { return registry.Judge{Name: name, Anchors: "anchors.edn"} }

// JDG-011: a judge is measured again before its record expires, one verdict at
// a time with long rests, and the new figures replace the old ones, whose
// history is kept.
func TestMeasuredAgainInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeHost(t, anchored("grader"))
		b.before("grader", 2*day, 0.9)
		first := b.records["grader"]
		b.wrong = 1
		stop := b.serve()
		time.Sleep(week*17/20 - 2*day - time.Minute)
		assert.Empty(t, b.asks(), "not before it is due")
		st := b.Status()[0]
		assert.Equal(t, calibration.Believed, st.Standing)
		assert.True(t, st.Due.Before(first.At.Add(week*9/10+time.Second)) && st.Due.After(first.At.Add(week*17/20-time.Second)), "%s", st.Due)
		time.Sleep(week / 20)
		time.Sleep(time.Hour)
		stop()
		kept := b.stored()
		require.Len(t, kept, 1)
		r := kept[0]
		assert.Equal(t, 0.9, r.Kappa)
		assert.Equal(t, calibration.ByAge, r.Why)
		assert.Equal(t, []calibration.Point{{At: first.At, Kappa: 0.9, Model: "m-1", Why: calibration.ByOperator, Fresh: true}}, r.Course)
		assert.Equal(t, 0.9, r.Baseline.Value)
		assert.Less(t, r.At.Sub(first.At), week, "there was a record all the time")
		assert.Equal(t, 1, b.atOnce())
		assert.Len(t, b.asks(), 100, "each anchor twice, and each pair")
		for i := 1; i < len(b.asks()); i++ {
			require.GreaterOrEqual(t, b.asks()[i].Sub(b.asks()[i-1]), 4*time.Second, "a verdict takes one second, and three are rest")
		}
		assert.Equal(t, []string{"judge/rescored grader recheck"}, b.eventNames())
		n := b.notices()[0]
		assert.Equal(t, []string{"j/rubric", "eval/grade", "judge"}, []string{n.CapID, n.Intent, n.Plugin})
		assert.Equal(t, `"kappa 0.9, it was 0.9"`, n.Details.Key("why").String())
		assert.Equal(t, "0.1M", n.Details.Key("usage").Key("cost-usd").String())
	})
}

// JDG-011: measurements that became due while no host ran start soon after the
// start, not at once, and one after another.
func TestDueWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeHost(t, anchored("a"), anchored("b"), anchored("c"))
		for _, name := range []string{"a", "b", "c"} {
			b.before(name, 20*day, 0.9)
		}
		began := time.Now()
		assert.Equal(t, calibration.Expired, b.Status()[0].Standing)
		stop := b.serve()
		time.Sleep(time.Hour)
		stop()
		assert.Len(t, b.stored(), 3)
		assert.Equal(t, 1, b.atOnce(), "one verdict at a time over all judges")
		assert.GreaterOrEqual(t, b.asks()[0].Sub(began), 30*time.Second)
		assert.LessOrEqual(t, b.asks()[0].Sub(began), 5*time.Minute)
		for _, s := range b.Status() {
			assert.Equal(t, calibration.Believed, s.Standing, s.Judge.Name)
		}
	})
}

// JDG-010, JDG-011: judges without anchors, without a first measurement or
// without a use are not measured.
func TestNotMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeHost(t, anchored("never"), registry.Judge{Name: "bare"}, anchored("unused"))
		b.before("bare", 30*day, 0.9)
		b.before("unused", 30*day, 0.9)
		b.Configure(rescore.Config{Registry: b.reg, Used: []string{"never", "bare"}, Ask: b.ask})
		stop := b.serve()
		b.Served("never", "m-2")
		b.Served("bare", "m-2")
		b.Served("nobody", "m-2")
		time.Sleep(10 * day)
		stop()
		assert.Empty(t, b.asks())
		var states []string
		for _, s := range b.Known() {
			states = append(states, s.Judge.Name+" "+string(s.Standing))
		}
		assert.Equal(t, []string{"never uncalibrated", "bare expired"}, states)
		for _, s := range b.Status() {
			assert.True(t, s.Due.IsZero(), s.Judge.Name)
		}
	})
}

// JDG-011: another model behind the judge is measured soon; a model in the
// record is not, and a provider with constantly changing model names causes one
// measurement per seventh of the recheck time.
func TestAnotherModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeHost(t, anchored("grader"))
		b.before("grader", time.Hour, 0.9)
		stop := b.serve()
		defer stop()
		time.Sleep(10 * time.Minute)
		b.Served("grader", "m-1")
		time.Sleep(10 * time.Minute)
		assert.Empty(t, b.asks())

		b.mu.Lock()
		b.model = "m-2"
		b.mu.Unlock()
		b.Served("grader", "m-2")
		time.Sleep(10 * time.Minute)
		require.Len(t, b.stored(), 1)
		r := b.stored()[0]
		assert.Equal(t, []any{"m-2", calibration.ByModel}, []any{r.Model, r.Why})
		assert.True(t, r.Baseline.Known(), "it is held against what the former model did")

		b.mu.Lock()
		b.model = "m-3"
		b.mu.Unlock()
		b.Served("grader", "m-3")
		time.Sleep(day - time.Hour)
		assert.Len(t, b.stored(), 1)
		time.Sleep(2 * time.Hour)
		assert.Len(t, b.stored(), 2)
		assert.Equal(t, []string{"judge/rescored grader model", "judge/rescored grader model"}, b.eventNames())
	})
}

// JDG-011: a judge below its first agreement has drifted, one with too little
// agreement is weak, and both are reported; a recovered judge counts again.
func TestDriftAndWeakness(t *testing.T) {
	for _, row := range []struct {
		before float64
		wrong  int
		state  calibration.Standing
		says   string
	}{
		{0.9, 2, calibration.Believed, "kappa 0.8, it was 0.9"},
		{0.95, 2, calibration.Drifted, "that is 0.15 or more below the first one, so it is no longer called"},
		{0.4, 7, calibration.Weak, "0.4 is needed to refuse answers, so its grades only count in the score"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newFakeHost(t, anchored("grader"))
			b.before("grader", week, row.before)
			b.wrong = row.wrong
			stop := b.serve()
			defer stop()
			time.Sleep(time.Hour)
			assert.Equal(t, row.state, b.Status()[0].Standing)
			assert.Equal(t, row.state, b.Known()[0].Standing)
			require.Len(t, b.notices(), 1)
			assert.Contains(t, b.notices()[0].Details.Key("why").String(), row.says)
			b.mu.Lock()
			b.wrong = 0
			b.mu.Unlock()
			time.Sleep(week)
			assert.Equal(t, calibration.Believed, b.Status()[0].Standing)
			assert.Len(t, b.stored()[1].Course, 2)
		})
	}
}

// JDG-011: a failed measurement is repeated with a growing backoff, and the
// record stays in force until it expires.
func TestFailedMeasurements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeHost(t, anchored("grader"))
		b.before("grader", week*9/10, 0.9)
		b.fails = contract.Errorf("provider/unavailable", "the server is down")
		stop := b.serve()
		defer stop()
		time.Sleep(12 * time.Hour)
		st := b.Status()[0]
		assert.Equal(t, calibration.Believed, st.Standing, "the old record holds")
		assert.Equal(t, "provider/unavailable", st.Failure.Type)
		failures := st.Failures
		assert.Positive(t, failures)
		assert.LessOrEqual(t, failures, 8, "5, 10, 20 minutes and so on between them")
		assert.Len(t, b.asks(), 3*failures, "a server that is down is not asked for all verdicts")
		assert.Contains(t, b.notices()[0].Details.Key("why").String(), "the server is down")
		time.Sleep(day)
		assert.Equal(t, calibration.Expired, b.Status()[0].Standing)
		assert.LessOrEqual(t, b.Status()[0].Failures-failures, 5)
		assert.Empty(t, b.stored())

		b.mu.Lock()
		b.fails = nil
		b.mu.Unlock()
		time.Sleep(9 * time.Hour)
		assert.Equal(t, calibration.Believed, b.Status()[0].Standing)
		assert.Zero(t, b.Status()[0].Failures)
	})
}

// JDG-010: if the server fails during a measurement, no further verdicts are
// requested once too few are possible for a record.
func TestGivenUpOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeHost(t, anchored("grader"))
		b.before("grader", time.Hour, 0.9)
		time.AfterFunc(10*time.Second, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.fails = contract.Errorf("provider/unavailable", "the server is down")
		})
		_, err := b.Score(context.Background(), "grader", rescore.Options{Why: calibration.ByOperator, Parallel: 1})
		require.Error(t, err)
		e := contract.AsError(err)
		assert.Equal(t, []string{"judge/failed", "provider/unavailable"}, []string{e.Type, e.Cause.Type})
		assert.LessOrEqual(t, len(b.asks()), 12)
		assert.Empty(t, b.stored())
	})
}

// JDG-011: stop, drain and a new configuration end a measurement, and the
// record stays.
func TestMeasurementsEnd(t *testing.T) {
	for name, end := range map[string]func(b *fakeHost, stop func()){
		"the host ends": func(_ *fakeHost, stop func()) { stop() },
		"a drain":       func(b *fakeHost, _ func()) { b.Stop() },
		"a reload":      func(b *fakeHost, _ func()) { b.use(b.reg) },
		"the judge goes": func(b *fakeHost, _ func()) {
			b.use(judges(b.t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFakeHost(t, anchored("grader"))
				b.before("grader", week, 0.9)
				stop := b.serve()
				time.Sleep(6 * time.Minute) // the measurement is running
				require.NotEmpty(t, b.asks())
				require.True(t, b.Status()[0].Busy)
				end(b, stop)
				synctest.Wait()
				asked := len(b.asks())
				time.Sleep(20 * time.Second)
				assert.Len(t, b.asks(), asked, "nothing is asked any more")
				assert.Empty(t, b.stored())
				assert.Empty(t, b.eventNames(), "that is no failure")
				if name == "a reload" {
					time.Sleep(20 * time.Minute)
					assert.Len(t, b.stored(), 1, "it is begun again")
				}
				if name == "a drain" {
					_, err := b.Score(context.Background(), "grader", rescore.Options{})
					assert.ErrorIs(t, err, contract.OfType("runtime/draining"))
				}
				stop()
			})
		})
	}
}

// A judge is measured by one call at a time, and a record stored by another
// process in the meantime is not overwritten.
func TestOneMeasurementAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeHost(t, anchored("grader"))
		b.before("grader", week, 0.9)
		stop := b.serve()
		defer stop()
		time.Sleep(6 * time.Minute)
		st := b.Status()[0]
		require.True(t, st.Busy)
		assert.Equal(t, 100, st.All)
		_, err := b.Score(context.Background(), "grader", rescore.Options{})
		require.Error(t, err)
		assert.Contains(t, err.Error(), "the judge is being measured")
		assert.Equal(t, 1, b.atOnce())
		b.mu.Lock()
		mine := b.records["grader"]
		mine.At, mine.Kappa = time.Now(), 0.95
		b.records["grader"] = mine
		b.mu.Unlock()
		time.Sleep(time.Hour)
		assert.Empty(t, b.stored())
		assert.Equal(t, 0.95, b.Status()[0].Record.Kappa)
	})
}

// Score measures at once, and can reset the baseline.
func TestScore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeHost(t, anchored("grader"), registry.Judge{Name: "bare"})
		b.wrong = 4
		out, err := b.Score(context.Background(), "bare", rescore.Options{File: "anchors.edn", Why: calibration.ByOperator, Parallel: 8})
		require.NoError(t, err)
		assert.Equal(t, 0.6, out.Record.Kappa)
		assert.Greater(t, b.atOnce(), 1)
		b.wrong = 8
		for _, reset := range []bool{false, true} {
			out, err = b.Score(context.Background(), "bare", rescore.Options{File: "anchors.edn", Why: calibration.ByOperator, Reset: reset})
			require.NoError(t, err)
			assert.Equal(t, !reset, out.Record.Drifted(0.15))
			assert.Equal(t, "false", out.Value().Key("believed?").String(), "kappa 0.2 is little")
		}
		assert.Len(t, out.Record.Course, 2)
		_, err = b.Score(context.Background(), "bare", rescore.Options{})
		assert.ErrorIs(t, err, contract.OfType("invalid-request"))
		_, err = b.Score(context.Background(), "gradr", rescore.Options{})
		assert.ErrorIs(t, err, contract.OfType("not-found"))
		ctx, cancel := context.WithCancelCause(context.Background())
		gone := errors.New("no caller waits")
		time.AfterFunc(3*time.Second, func() { cancel(gone) })
		_, err = b.Score(ctx, "grader", rescore.Options{})
		assert.ErrorIs(t, err, gone)
	})
}
