package rescore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Ask performs an act and returns the response envelope. The error is the one
// in the envelope, or reports that none came. It must be safe for concurrent
// use.
type Ask func(ctx context.Context, request edn.Value) (edn.Value, error)

// Measurement lets one judge grade all anchors, the labelled answers. It is used once.
type Measurement struct {
	Judge    *registry.Judge
	Registry *registry.Registry
	Anchors  calibration.Anchors
	Ask      Ask
	// Parallel is the number of concurrent verdicts, 0: one.
	Parallel int
	// Deadline of one verdict, 0: the default of acts.
	Deadline time.Duration
	// Tick is called after each verdict, one call at a time; nil: never.
	Tick func(done, all int)
	// Rest is called after each verdict with its duration, to pause; nil: no pause.
	Rest func(ctx context.Context, took time.Duration)
	// Clock measures the durations for Rest, and dates the record.
	Clock dispatch.Clock

	began      time.Time
	capability string // gives all verdicts; known after the first one

	mu    sync.Mutex
	done  int
	spent Spending
	last  error // of the last failed verdict
}

// given is one verdict.
type given struct {
	score         quality.Score
	key           string
	model, family string
	capability    string
	choices       []calibration.Choice
	asked, failed bool
}

// Spent returns the cost of the verdicts so far.
func (m *Measurement) Spent() Spending {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent
}

// Take requests two verdicts for each anchor and one for each pair. The
// capability of the first successful one gives all others. The record has no
// date and no history yet. Take returns judge/failed as soon as too few anchors are
// left for a record, or if the key of the judge changed meanwhile. If the first verdicts
// fail or ctx ends, it stops early and returns the error of the verdict or the cause of
// ctx.
func (m *Measurement) Take(ctx context.Context) (calibration.Record, error) {
	m.began = m.Clock.Now()
	list, pairs := m.Anchors.List, m.Anchors.Pairs()
	jobs := make([]edn.Value, 0, 2*len(list)+len(pairs))
	for sample := range int64(2) {
		for _, a := range list {
			jobs = append(jobs, m.question(a, edn.Nil(), sample))
		}
	}
	for i, p := range pairs {
		first, second := list[p.Good], list[p.Bad]
		if i%2 == 1 { // alternate which label is judged first
			first, second = second, first
		}
		jobs = append(jobs, m.question(first, second.Result, 0))
	}
	verdicts := make([]given, len(jobs))
	from, err := m.first(ctx, jobs, verdicts)
	if err != nil {
		return calibration.Record{}, err
	}
	if err := m.rest(ctx, jobs, verdicts, from); err != nil {
		return calibration.Record{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return calibration.Record{}, err
	}
	return m.record(verdicts)
}

// Conclude compares the record of Take with the judge's earlier one, and stores
// it. An earlier record that cannot be read is replaced. In the loop, a record that
// another process stored since Take began is kept and returned instead.
func (m *Measurement) Conclude(s Store, rec calibration.Record, o Options) (Outcome, error) {
	out := Outcome{Judge: m.Judge, Spent: m.Spent()}
	if out.Before, out.Unreadable = s.Record(m.Judge.Name); out.Unreadable != nil {
		out.Before = nil
	}
	if o.slow && out.Before != nil && out.Before.At.After(m.began) {
		out.Record, out.byOther = *out.Before, true
		return out, nil
	}
	rec.At, rec.Why = m.Clock.Now().UTC().Truncate(time.Second), o.Why
	if o.Reset {
		rec = rec.Anew(out.Before)
	} else {
		rec = rec.Since(out.Before)
	}
	out.Record = rec
	return out, s.Keep(rec)
}

// mostFirst is the number of failed verdicts after which Take gives up before
// the first success.
const mostFirst = 3

// first requests verdicts one after another until one succeeds.
func (m *Measurement) first(ctx context.Context, jobs []edn.Value, verdicts []given) (next int, err error) {
	for i := range jobs {
		g, err := m.paced(ctx, jobs[i], len(jobs))
		if err == nil {
			verdicts[i], m.capability = g, g.capability
			return i + 1, nil
		}
		verdicts[i].failed = true
		e := contract.AsError(err)
		if i+1 == mostFirst || e == nil || e.Class == contract.ClassStop || e.Class == contract.ClassFinal ||
			ctx.Err() != nil {
			return 0, err
		}
	}
	return 0, errors.New("no anchors")
}

// rest requests the remaining verdicts, from index from on.
func (m *Measurement) rest(ctx context.Context, jobs []edn.Value, verdicts []given, from int) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, m.Parallel) {
		workers.Go(func() {
			for i := range next {
				g, err := m.paced(inner, jobs[i], len(jobs))
				g.failed = err != nil
				m.mu.Lock()
				verdicts[i] = g
				hopeless := g.failed && m.hopeless(verdicts)
				m.mu.Unlock()
				if hopeless {
					cancel(errHopeless)
				}
			}
		})
	}
	for i := from; i < len(jobs) && inner.Err() == nil; i++ {
		select {
		case next <- i:
		case <-inner.Done():
		}
	}
	close(next)
	workers.Wait()
	if errors.Is(context.Cause(inner), errHopeless) {
		return m.tooFew(m.usable(verdicts))
	}
	return nil
}

var errHopeless = errors.New("too few anchors are left")

// paced requests a verdict and calls Rest.
func (m *Measurement) paced(ctx context.Context, job edn.Value, all int) (given, error) {
	if m.Rest == nil {
		return m.verdict(ctx, job, all)
	}
	began := m.Clock.Now()
	g, err := m.verdict(ctx, job, all)
	m.Rest(ctx, m.Clock.Now().Sub(began))
	return g, err
}

// hopeless reports whether too few anchors without a failure are left. m.mu
// must be held.
func (m *Measurement) hopeless(verdicts []given) bool {
	left := map[bool]int{}
	for i, a := range m.Anchors.List {
		if !verdicts[i].failed {
			left[a.Good]++
		}
	}
	return left[true] < calibration.LeastAnchors || left[false] < calibration.LeastAnchors
}

// usable counts the anchors of each label with a verdict.
func (m *Measurement) usable(verdicts []given) map[bool]int {
	out := map[bool]int{}
	for i, a := range m.Anchors.List {
		if verdicts[i].asked && !verdicts[i].failed {
			out[a.Good]++
		}
	}
	return out
}

func (m *Measurement) tooFew(usable map[bool]int) error {
	e := contract.Errorf("judge/failed",
		"judge %s gave verdicts on %d good and %d bad anchors, %d of each are needed; nothing was written",
		m.Judge.Name, usable[true], usable[false], calibration.LeastAnchors)
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.WithCause(contract.AsError(m.last))
}

// question returns the input of the request for one verdict, equal to that of
// gates, so that the same judge answers. A model may judge its own family,
// because this bias is measured too.
func (m *Measurement) question(a calibration.Anchor, other edn.Value, sample int64) edn.Value {
	author := edn.MustMap()
	if a.Family != "" {
		author = author.AssocKey("family", edn.Text(a.Family))
	}
	return m.Judge.Question(registry.Task{
		Call:            a.Call,
		Result:          a.Result,
		Done:            a.Done,
		Env:             a.Env,
		Other:           other,
		Author:          author,
		Sample:          sample,
		Seed:            1,
		AllowSameFamily: true,
	})
}

// request returns the act that requests one verdict.
func (m *Measurement) request(input edn.Value) edn.Value {
	task := edn.MustMap(edn.K("intent"), edn.K(m.Judge.Intent))
	pinned := m.capability
	if pinned == "" {
		pinned = m.Judge.Capability
	}
	if pinned != "" {
		task = task.AssocKey("cap/id", edn.K(pinned))
	}
	v := edn.MustMap(edn.K("proto"), edn.Int(contract.Proto), edn.K("trace"),
		edn.MustMap(edn.K("id"), edn.Text("judge")), edn.K("task"), task, edn.K("input"), input)
	if m.Deadline > 0 {
		v = v.AssocKey("deadline-ms", edn.Int(max(1, m.Deadline.Milliseconds())))
	}
	return v
}

// verdict requests one verdict.
func (m *Measurement) verdict(ctx context.Context, input edn.Value, all int) (given, error) {
	response, err := m.Ask(ctx, m.request(input))
	var g given
	if err == nil {
		g, err = m.read(response, input.HasKey("task/other"))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent.add(response.Key("usage"))
	if err != nil {
		m.last = err
	}
	m.done++
	if m.Tick != nil {
		m.Tick(m.done, all)
	}
	return g, err
}

// read parses a verdict like the gates do.
func (m *Measurement) read(response edn.Value, pair bool) (given, error) {
	meta, out := response.Key("invoke/meta"), response.Key("result").Key("out")
	g := given{asked: true}
	g.capability, _ = meta.Key("cap/id").AsKeyword()
	c, ok := m.Registry.Capability(g.capability)
	if !ok {
		c = &registry.Capability{}
	}
	score, err := contract.ParseScore(out, m.Registry.ScoreRules(m.Judge, c))
	if err != nil {
		return given{}, err
	}
	g.score = quality.RoundScore(new(big.Rat).Set(score))
	said := out.Key("judge")
	g.key, _ = said.Key("key").AsString()
	g.model = dispatch.ServedModel(meta, out)
	g.family, _ = said.Key("family").AsString()
	if pair {
		for order := range said.Key("orders").Elems() {
			switch chosen, _ := order.Key("chosen").AsKeyword(); chosen {
			case "first":
				g.choices = append(g.choices, calibration.First)
			case "second":
				g.choices = append(g.choices, calibration.Second)
			case "same":
				g.choices = append(g.choices, calibration.Neither)
			}
		}
	}
	return g, nil
}

// record computes the record from the verdicts.
func (m *Measurement) record(verdicts []given) (calibration.Record, error) {
	list := m.Anchors.List
	r := calibration.Record{
		Judge:      m.Judge.Name,
		Capability: m.capability,
		Anchors:    m.Anchors.Hash,
		ScoreMin:   m.Anchors.ScoreMin,
	}
	first := true
	for _, g := range verdicts {
		if g.failed {
			continue
		}
		if first {
			first, r.Key, r.Family = false, g.key, g.family
		}
		if g.key != r.Key {
			return r, contract.Errorf("judge/failed",
				"judge %s changed while it was measured: its key was %s, then %s",
				m.Judge.Name, r.Key, g.key).WithHint("measure it again")
		}
	}
	r.Model, r.Models = models(verdicts)
	var seen []calibration.Observation
	for i, a := range list {
		one, again := verdicts[i], verdicts[len(list)+i]
		seen = append(seen, calibration.Observation{
			Good:     a.Good,
			Failed:   one.failed,
			Score:    one.score,
			Again:    again.score,
			Repeated: !again.failed,
			Length:   a.Length(),
			Family:   a.Family,
		})
	}
	if usable := m.usable(verdicts); usable[true] < calibration.LeastAnchors ||
		usable[false] < calibration.LeastAnchors {
		return r, m.tooFew(usable)
	}
	var choices []calibration.Choice
	for _, g := range verdicts[2*len(list):] {
		choices = append(choices, g.choices...)
	}
	return calibration.Measure(r, seen, choices), nil
}

// models returns the model that gave most verdicts, and all models if there are
// several.
func models(verdicts []given) (most string, all []string) {
	count := map[string]int{}
	for _, g := range verdicts {
		if !g.failed && g.model != "" {
			count[g.model]++
		}
	}
	all = slices.SortedFunc(maps.Keys(count),
		func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	switch len(all) {
	case 0:
		return "", nil
	case 1:
		return all[0], nil
	}
	most = all[0]
	slices.Sort(all)
	return most, all[:min(len(all), calibration.MostModels)]
}
