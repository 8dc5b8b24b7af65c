package cli

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// measurement has one judge grade all anchors.
type measurement struct {
	judge    *registry.Judge
	registry *registry.Registry
	anchors  calibration.Anchors
	parallel int
	deadline time.Duration // of one verdict, 0: the default of acts
	// ask performs an act. It is called from several goroutines.
	ask func(ctx context.Context, request edn.Value) (edn.Value, error)
	// tick is told of each verdict, one at a time.
	tick func(done, all int)

	capability string // that gives the verdicts, known with the first one

	mu    sync.Mutex
	done  int
	spent spending
	last  error // why a verdict failed
}

// given is one verdict.
type given struct {
	score         quality.Score
	key           string
	model, family string
	capability    string
	choices       []calibration.Choice
	failed        bool
}

// take asks for all verdicts: two for each anchor, and one for each pair. The
// first that succeeds says who gives them all.
func (m *measurement) take(ctx context.Context) (calibration.Record, error) {
	list, pairs := m.anchors.List, m.anchors.Pairs()
	jobs := make([]edn.Value, 0, 2*len(list)+len(pairs))
	for sample := range int64(2) {
		for _, a := range list {
			jobs = append(jobs, m.question(a, edn.Nil(), sample))
		}
	}
	for i, p := range pairs {
		first, second := list[p.Good], list[p.Bad]
		if i%2 == 1 { // neither label is always the one that is judged
			first, second = second, first
		}
		jobs = append(jobs, m.question(first, second.Result, 0))
	}
	verdicts := make([]given, len(jobs))
	from, err := m.first(ctx, jobs, verdicts)
	if err != nil {
		return calibration.Record{}, err
	}
	m.rest(ctx, jobs, verdicts, from)
	if err := context.Cause(ctx); err != nil {
		return calibration.Record{}, err
	}
	return m.record(verdicts)
}

// mostFirst is how many verdicts may fail before the first one succeeds.
const mostFirst = 3

// first asks one after another until somebody judged.
func (m *measurement) first(ctx context.Context, jobs []edn.Value, verdicts []given) (next int, err error) {
	for i := range jobs {
		g, err := m.verdict(ctx, jobs[i], len(jobs))
		if err == nil {
			verdicts[i], m.capability = g, g.capability
			return i + 1, nil
		}
		verdicts[i].failed = true
		e := contract.AsError(err)
		if i+1 == mostFirst || e == nil || e.Class == contract.ClassStop || e.Class == contract.ClassFinal || ctx.Err() != nil {
			return 0, err
		}
	}
	return 0, errors.New("no anchors")
}

func (m *measurement) rest(ctx context.Context, jobs []edn.Value, verdicts []given, from int) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range m.parallel {
		workers.Go(func() {
			for i := range next {
				g, err := m.verdict(ctx, jobs[i], len(jobs))
				g.failed = err != nil
				verdicts[i] = g
			}
		})
	}
	for i := from; i < len(jobs) && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	workers.Wait()
}

// question is the request for one verdict. It says what gates say, so that the
// verdicts come from the same judge; a model may judge its own family, because how
// it does that is part of what is measured.
func (m *measurement) question(a calibration.Anchor, other edn.Value, sample int64) edn.Value {
	author := edn.MustMap()
	if a.Family != "" {
		author = author.AssocKey("family", edn.Text(a.Family))
	}
	return m.judge.Question(registry.Task{
		Call: a.Call, Result: a.Result, Done: a.Done, Env: a.Env, Other: other, Author: author, Sample: sample, Seed: 1, AllowSameFamily: true,
	})
}

// verdict asks for one verdict.
func (m *measurement) verdict(ctx context.Context, input edn.Value, all int) (given, error) {
	request := envelope(m.judge.Intent, input)
	pinned := m.capability
	if pinned == "" {
		pinned = m.judge.Capability
	}
	if pinned != "" {
		request = request.AssocKey("task", request.Key("task").AssocKey("cap/id", edn.K(pinned)))
	}
	if m.deadline > 0 {
		request = request.AssocKey("deadline-ms", edn.Int(max(1, m.deadline.Milliseconds())))
	}
	response, err := m.ask(ctx, request)
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
	m.tick(m.done, all)
	return g, err
}

// read reads a verdict as gates read it.
func (m *measurement) read(response edn.Value, pair bool) (given, error) {
	meta, out := response.Key("invoke/meta"), response.Key("result").Key("out")
	var g given
	g.capability, _ = meta.Key("cap/id").AsKeyword()
	c, ok := m.registry.Capability(g.capability)
	if !ok {
		c = &registry.Capability{}
	}
	score, err := contract.ParseScore(out, m.registry.ScoreRules(m.judge, c))
	if err != nil {
		return given{}, err
	}
	g.score = quality.RoundScore(new(big.Rat).Set(score))
	said := out.Key("judge")
	g.key, _ = said.Key("key").AsString()
	g.model, _ = said.Key("model").AsString()
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

// record makes the figures of the verdicts.
func (m *measurement) record(verdicts []given) (calibration.Record, error) {
	list := m.anchors.List
	r := calibration.Record{Judge: m.judge.Name, Capability: m.capability, Anchors: m.anchors.Hash, ScoreMin: m.anchors.ScoreMin}
	for _, g := range verdicts {
		if g.failed {
			continue
		}
		if r.Key == "" {
			r.Key, r.Model, r.Family = g.key, g.model, g.family
		}
		if g.key != r.Key {
			return r, contract.Errorf("judge/failed", "judge %s changed while it was measured: some verdicts are of %s, others of %s", m.judge.Name, r.Key, g.key)
		}
	}
	var seen []calibration.Observation
	usable := map[bool]int{}
	for i, a := range list {
		one, again := verdicts[i], verdicts[len(list)+i]
		seen = append(seen, calibration.Observation{
			Good: a.Good, Failed: one.failed, Score: one.score, Again: again.score, Repeated: !again.failed, Length: a.Length(), Family: a.Family,
		})
		if !one.failed {
			usable[a.Good]++
		}
	}
	if usable[true] < calibration.LeastAnchors || usable[false] < calibration.LeastAnchors {
		e := contract.Errorf("judge/failed", "judge %s gave verdicts on %d good and %d bad anchors, %d of each are needed; nothing was written", m.judge.Name, usable[true], usable[false], calibration.LeastAnchors)
		return r, e.WithCause(contract.AsError(m.last))
	}
	var choices []calibration.Choice
	for _, g := range verdicts[2*len(list):] {
		choices = append(choices, g.choices...)
	}
	return calibration.Measure(r, seen, choices), nil
}

// spending sums what verdicts cost.
type spending struct {
	calls     int
	in, out   int64
	cost      *big.Rat
	uncertain bool // some cost is not known exactly
}

func (s *spending) add(usage edn.Value) {
	s.calls++
	in, _ := usage.Key("tokens-in").AsInt()
	out, _ := usage.Key("tokens-out").AsInt()
	s.in, s.out = s.in+in, s.out+out
	if s.cost == nil {
		s.cost = new(big.Rat)
	}
	if usd, ok := usage.Key("cost-usd").AsNumber(); ok {
		s.cost.Add(s.cost, usd)
	}
	if mark, ok := usage.Key("cost-mark").AsKeyword(); ok && mark != "exact" {
		s.uncertain = true
	}
}

func (s *spending) usd() string {
	if s.cost == nil {
		return "0"
	}
	return s.cost.FloatString(6)
}

func (s *spending) text() string {
	least := ""
	if s.uncertain {
		least = "at least "
	}
	return fmt.Sprintf("%d verdicts, %d tokens in, %d out, %s%s USD", s.calls, s.in, s.out, least, s.usd())
}

func (s *spending) value() edn.Value {
	mark := "exact"
	if s.uncertain {
		mark = "at-least"
	}
	return edn.MustMap(edn.K("verdicts"), edn.Int(int64(s.calls)), edn.K("tokens-in"), edn.Int(s.in), edn.K("tokens-out"), edn.Int(s.out),
		edn.K("cost-usd"), edn.MustDecimal(s.usd()), edn.K("cost-mark"), edn.K(mark))
}
