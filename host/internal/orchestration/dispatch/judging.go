package dispatch

import (
	"context"
	"math/big"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// graded has the judge of the call grade an answer, if that can still matter
// (GATE-008). Ok is false if nobody was asked and nothing is to be said.
func (o *operation) graded(ctx context.Context, r *attemptResult, subject quality.Subject, results []quality.Result) (result quality.Result, ok bool) {
	j := o.w.Policy.jury
	if j == nil || o.failed != nil || !quality.JudgeMatters(results, o.w.Policy.scoreMin) || j.inside(o.d, o.w.Stack) {
		return result, false
	}
	cal := o.d.calibration(j.judge.Name)
	if cal.Worthless != "" && cal.Drift == "" {
		return o.conclusion(r, &bench{j: j, cal: cal}, nil), true
	}
	if g := j.known(o.d, r.capability, cal, o.w.Input, subject.Result); g != nil {
		return o.conclusion(r, &bench{j: j, cal: cal, least: o.w.Policy.scoreMin, memo: true}, g), true
	}
	if subject.Request.IsNil() {
		subject.Request = o.w.Policy.subject(o.w.Input)
	}
	b := o.bench(r, j, cal)
	if b.order() == nothingToDo {
		return result, false
	}
	g := b.grade(ctx, subject)
	if b.op.failed != nil && o.failed == nil {
		o.failed = b.op.failed
	}
	return o.conclusion(r, b, g), true
}

// bench is one judgement: the child call in which votes are asked for.
type bench struct {
	op       *operation // of the child call
	attempt  *attemptResult
	j        *jury
	cal      Calibration
	least    edn.Value
	ids      []string // who may be asked, in order
	by       checked  // of all calls together
	calls    int      // to judges
	usages   []edn.Value
	memo     bool
	short    bool // votes were left out, because there was nothing left for them
	unsound  bool // who graded is not wholly in itself
	rejected *contract.Error
}

func (o *operation) bench(r *attemptResult, j *jury, cal Calibration) *bench {
	child := &operation{d: o.d, run: o.run, number: r.number, gate: j.gate, vote: true, w: &Work{
		Op: "call", Node: o.w.Node, Path: o.w.Path, Intent: j.judge.Intent, Policy: j.policy,
		Input: o.w.Input, Deadline: o.w.Deadline, Wall: o.w.Wall, Deepest: o.w.Deepest,
		Stack: append(slices.Clip(o.w.Stack), r.capability.ID),
		// A judge spends what its node has.
		Budget: o.w.Budget,
	}}
	return &bench{op: child, attempt: r, j: j, cal: cal, least: o.w.Policy.scoreMin}
}

// outlook says whether there is anybody who could be asked, now or ever.
type outlook int

const (
	askThem     outlook = iota // or find out that nobody is there
	nothingToDo                // nobody but the author of the answer grades
)

// order settles who may be asked: not who wrote the answer, and not a model of
// the same family (JDG-006, JDG-009). Those for whom too little is left stay,
// because their grade may be known.
func (b *bench) order() outlook {
	b.drift()
	b.op.binding = b.op.bind()
	ids := slices.Clone(b.op.binding.Accepted)
	for _, r := range b.op.binding.Rejected {
		if r.Reason == policy.ReasonBudget {
			ids = append(ids, r.Cap)
		}
	}
	others := false
	for _, id := range b.op.binding.List {
		others = others || id != b.attempt.capability.ID
	}
	if !others && len(b.op.binding.List) > 0 {
		return nothingToDo
	}
	for _, id := range ids {
		if b.admissible(id) {
			b.ids = append(b.ids, id)
		}
	}
	return askThem
}

// drifted opens the breaker of a judge that is not believed any more.
func (b *bench) drifted(c *registry.Capability) {
	cs := b.op.w.Policy.stats[c.ID]
	if cs == nil {
		return
	}
	now := b.op.d.Clock.Now()
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, b.op.d.Executor.State(c.ID).Edition, c.Version)
	cs.drifted(now, b.j.judge.Name, b.cal.Drift)
}

// drift has the breakers of the judge agree with its calibration.
func (b *bench) drift() {
	for id, cs := range b.op.w.Policy.stats {
		if b.cal.Drift != "" {
			b.admissible(id)
		} else if !cs.closed.Load() {
			cs.steady(b.op.d.Clock.Now(), b.j.judge.Name)
		}
	}
}

func (b *bench) admissible(id string) bool {
	c, ok := b.op.d.Registry.Capability(id)
	author := b.attempt.capability
	switch {
	case !ok || id == author.ID:
		return false
	case !b.j.admits(c, author):
		b.rejected = contract.Errorf("judge/same-family", ":%s is of the family %s, like :%s, whose answer it would grade", id, c.Family, author.ID)
		return false
	case b.cal.Drift != "" && (b.cal.CapID == "" || b.cal.CapID == id):
		b.rejected = contract.Errorf("judge/drift", ":%s is not asked as judge %s any more: %s", id, b.j.judge.Name, b.cal.Drift)
		b.drifted(c)
		return false
	}
	return true
}

// grade asks one after another until somebody grades. It is nil if nobody did;
// the reason is in b.by.err.
func (b *bench) grade(ctx context.Context, subject quality.Subject) *grade {
	if len(b.ids) == 0 {
		b.await(ctx)
	}
	for _, id := range b.ids {
		c, ok := b.op.d.Registry.Capability(id)
		if !ok {
			continue
		}
		grades := b.op.d.Grades
		if grades == nil || !b.j.judge.Memo {
			if g, ok := b.vote(ctx, c, subject); ok {
				return &g
			}
		} else {
			key := b.j.key(b.op.d, c, subject.Request.Key("input"), subject.Result)
			grades.kept.Drop(key, grades.stale)
			g, known := grades.kept.Do(ctx, key, func() (grade, bool) {
				g, ok := b.vote(ctx, c, subject)
				return g, ok && !g.mixed
			})
			if g.ballot != nil {
				b.memo = known
				return &g
			}
		}
		if b.by.err == nil || b.op.failed != nil || ctx.Err() != nil || b.by.err.Type == "judge/rubric-invalid" {
			break
		}
	}
	if b.by.err == nil {
		b.by.err = b.rejected
	}
	if b.by.err == nil {
		b.by.err = b.op.unbound()
	}
	return nil
}

// await waits for a judge that is on its way back.
func (b *bench) await(ctx context.Context) {
	for _, r := range b.op.binding.Rejected {
		if r.Reason != policy.ReasonNotReady || !b.admissible(r.Cap) || !b.op.d.Executor.State(r.Cap).comesBack() {
			continue
		}
		if b.op.d.Executor.Await(ctx, r.Cap) == nil {
			b.ids = append(b.ids, r.Cap)
			return
		}
	}
}

// vote asks one judge until its grades are settled (JDG-008). A judge that always
// says the same is asked once.
func (b *bench) vote(ctx context.Context, c *registry.Capability, subject quality.Subject) (g grade, ok bool) {
	judge := b.j.judge
	most := judge.Votes
	if c.Deterministic {
		most = 1
	}
	g = grade{ballot: quality.NewBallot(most, b.least), capID: c.ID, version: c.Version}
	for sample := 0; sample < max(1, most) && !g.ballot.Settled(); sample++ {
		b.op.w.Input, b.op.tokens, b.op.counted = b.question(subject, sample), 0, nil
		score, said, err := b.ask(ctx, c)
		if err == nil {
			g.mixed = g.mixed || sample > 0 && g.model != said.model
			g.model = said.model
		}
		switch {
		case err == nil:
			g.ballot.Add(score)
			if len(g.ballot.Scores()) == 1 || !g.ballot.Passes(score) && len(said.key) > 0 {
				g.key, g.says = said.key, said.says
			}
		case len(g.ballot.Scores()) == 0:
			b.by.err = err
			return grade{}, false
		case isBudget(err):
			b.short = true
			g.settle()
			return g, true
		case b.op.failed != nil || ctx.Err() != nil:
			// Nobody waits for the answer any more, and half a ballot is no grade.
			b.by.err = err
			return grade{}, false
		}
	}
	b.by.err = nil
	g.settle()
	return g, true
}

func isBudget(err *contract.Error) bool { return strings.HasPrefix(err.Type, "budget/") }

// remarks is what an answer of a judge holds beside the score.
type remarks struct {
	key   string
	model string // that answered, as its server calls it
	says  edn.Value
}

// ask makes the calls for one vote.
func (b *bench) ask(ctx context.Context, c *registry.Capability) (score *big.Rat, more remarks, err *contract.Error) {
	for try := 1; ; try++ {
		score, more, err = b.once(ctx, c)
		if err == nil || try >= b.j.judge.MaxAttempts || ctx.Err() != nil || b.op.failed != nil {
			return score, more, err
		}
		switch {
		case lostExecutor(err):
			if b.op.await(ctx, c.ID) != nil {
				return nil, more, err
			}
		case err.Class != contract.ClassRetry:
			return nil, more, err
		}
	}
}

// once makes one call to a judge. Its breaker counts how that ended.
func (b *bench) once(ctx context.Context, c *registry.Capability) (score *big.Rat, more remarks, err *contract.Error) {
	cs := b.op.w.Policy.stats[c.ID]
	permit, err := b.op.acquirePermit(cs, c)
	if err != nil {
		return nil, more, err
	}
	if cs != nil && !cs.closed.Load() {
		b.unsound = true
	}
	by, out, asked := b.op.askOne(ctx, c)
	if asked {
		b.calls++
		b.usages = append(b.usages, by.usage)
		b.by.latency += by.latency
		b.by.capID, b.by.version = c.ID, c.Version
	}
	if by.err == nil {
		if score, by.err = contract.ParseScore(out, b.op.d.Registry.ScoreRules(b.j.judge, c)); by.err == nil {
			more = saidBy(out)
			more.model = by.model
			b.witness(c, by.model)
		}
	}
	b.op.reported(ctx, cs, permit, by, asked)
	return score, more, by.err
}

// witness tells who keeps the grades and the calibrations which model gave a grade.
func (b *bench) witness(c *registry.Capability, model string) {
	if b.op.d.Grades != nil {
		b.op.d.Grades.saw(c.ID, model)
	}
	if w, ok := b.op.d.Calibrations.(Witness); ok && model != "" {
		w.Served(b.j.judge.Name, c.ID, model)
	}
}

// reported tells the breaker of a judge how a call ended.
func (o *operation) reported(ctx context.Context, cs *candidateStats, permit breaker.Permit, by checked, asked bool) {
	if cs == nil {
		return
	}
	outcome := outcomeOf(by.err)
	switch {
	case !asked, by.err != nil && ctx.Err() != nil:
		outcome = breaker.Ignored
	case outcome == breaker.Failure && by.err.Type == "runtime/crashed" && cs.sameCrash(by.err):
		outcome = breaker.Ignored
	}
	now := o.d.Clock.Now()
	outcome = o.bereaved(now, by.capID, by.process, edn.Nil(), by.err, outcome)
	if tripping(by.err) {
		cs.trip(now, by.edition, by.err)
		return
	}
	u := 0.0
	if outcome == breaker.Failure {
		u = Rand(o.run.Seed, o.w.Path, voteDraws-o.number).Float64()
	}
	cs.report(now, permit, outcome, retryAfter(by.err), u)
	if outcome == breaker.Success {
		cs.recordSuccess(by.latency, speedOf(by.usage, 0), by.usage.Key("cost-usd"))
	}
}

// voteDraws sets the random values of votes apart from those of attempts.
const voteDraws = -1 << 20

// maxSays bounds what is remembered of a judge's reasons, in bytes.
const maxSays = 4 << 10

// saidBy reads what a judge says besides its score.
func saidBy(out edn.Value) remarks {
	var s remarks
	var m edn.MapBuilder
	if out.Kind() != edn.KindMap {
		return s
	}
	if key, ok := out.Key("judge").Key("key").AsString(); ok && isHash(key) {
		s.key = key
	}
	if v := out.Key("criteria"); v.Kind() == edn.KindMap && v.Len() > 0 {
		m.Key("criteria", v)
	}
	if v := out.Key("violations"); v.Kind() != edn.KindMap && v.Len() > 0 {
		m.Key("violations", v)
	}
	if says := m.Map(); len(says.Canonical()) <= maxSays {
		s.says = says.Detach()
	}
	return s
}

func isHash(s string) bool {
	digits, ok := strings.CutPrefix(s, "b3:")
	return ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == ""
}

// question is what a judge is asked.
func (b *bench) question(subject quality.Subject, sample int) edn.Value {
	result := subject.Result
	if result.Kind() != edn.KindMap {
		result = edn.MustMap(edn.K("value"), result)
	}
	return b.j.judge.Question(registry.Task{
		Call: withoutEmpty(subject.Request), Result: result, Done: subject.Request.Key("done"), Author: b.author(subject.Meta),
		Sample: int64(sample), Seed: Rand(b.op.run.Seed, b.op.w.Path, voteDraws-64*b.attempt.number-sample).Int64N(1 << 53),
		AllowSameFamily: b.j.judge.AllowSameFamily,
	})
}

// author says who wrote the answer, and by which names the judge must not know.
func (b *bench) author(meta edn.Value) edn.Value {
	c := b.attempt.capability
	var m edn.MapBuilder
	m.Key("cap/id", journal.Keyword(c.ID))
	if c.Family != "" {
		m.Key("family", edn.Text(c.Family))
	}
	if c.Model != "" {
		m.Key("model", edn.Text(c.Model))
	}
	var names []edn.Value
	for _, name := range []edn.Value{edn.Text(c.ID), edn.Text(c.Advertised), edn.Text(c.Model), meta.Key("provider").Key("model"), meta.Key("provider").Key("model/served"), meta.Key("agent/id")} {
		if text, ok := name.AsString(); ok && text != "" && !slices.ContainsFunc(names, func(n edn.Value) bool { return edn.Equal(n, name) }) {
			names = append(names, name)
		}
	}
	m.Key("names", edn.Vector(names...))
	return m.Map()
}

// withoutEmpty leaves out what says nothing.
func withoutEmpty(request edn.Value) edn.Value {
	var m edn.MapBuilder
	for k, v := range request.Entries() {
		if name, _ := k.AsKeyword(); name == "done" || name == "budget" || v.Kind() == edn.KindMap && v.Len() == 0 && name != "input" {
			continue
		}
		m.Set(k, v)
	}
	return m.Map()
}
