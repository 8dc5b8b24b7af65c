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
func (o *operation) gradeAnswer(ctx context.Context, r *attemptResult, subject quality.Subject, results []quality.Result) (result quality.Result, ok bool) {
	j := o.w.Policy.judgePanel
	if j == nil || o.failed != nil || !quality.JudgeMatters(results, o.w.Policy.scoreMin) || j.asksFor(o.d, o.w.Stack) {
		return result, false
	}
	cal := o.d.calibration(j.judge.Name)
	if cal.Worthless != "" && cal.Drift == "" {
		return o.recordGrade(r, &voting{j: j, cal: cal}, nil), true
	}
	if g := j.memoized(o.d, r.capability, cal, o.w.Input, subject.Result); g != nil {
		return o.recordGrade(r, &voting{j: j, cal: cal, least: o.w.Policy.scoreMin, memoized: true}, g), true
	}
	if subject.Request.IsNil() {
		subject.Request = o.w.Policy.subject(o.w.Input)
	}
	v := o.voting(r, j, cal)
	if v.selectJudges() == noOtherJudge {
		return result, false
	}
	g := v.run(ctx, subject)
	if v.op.failed != nil && o.failed == nil {
		o.failed = v.op.failed
	}
	return o.recordGrade(r, v, g), true
}

// bench is one judgement: the child call in which votes are asked for.
type voting struct {
	op           *operation // of the child call
	attempt      *attemptResult
	j            *judgePanel
	cal          Calibration
	least        edn.Value
	ids          []string // who may be asked, in order
	by           checked  // of all calls together
	calls        int      // to judges
	usages       []edn.Value
	memoized     bool
	votesSkipped bool // votes were left out, because there was nothing left for them
	unsound      bool // who graded is not wholly in itself
	rejected     *contract.Error
}

func (o *operation) voting(r *attemptResult, j *judgePanel, cal Calibration) *voting {
	child := &operation{d: o.d, run: o.run, number: r.number, gate: j.gate, vote: true, w: &Work{
		Op: "call", Node: o.w.Node, Path: o.w.Path, Intent: j.judge.Intent, Policy: j.policy,
		Input: o.w.Input, Deadline: o.w.Deadline, Wall: o.w.Wall, Deepest: o.w.Deepest,
		Stack: append(slices.Clip(o.w.Stack), r.capability.ID),
		// A judge spends what its node has.
		Budget: o.w.Budget,
	}}
	return &voting{op: child, attempt: r, j: j, cal: cal, least: o.w.Policy.scoreMin}
}

// outlook says whether there is anybody who could be asked, now or ever.
type selection int

const (
	judgesSelected selection = iota // or find out that nobody is there
	noOtherJudge                    // nobody but the author of the answer grades
)

// order settles who may be asked: not who wrote the answer, and not a model of
// the same family (JDG-006, JDG-009). Those for whom too little is left stay,
// because their grade may be known.
func (v *voting) selectJudges() selection {
	v.syncDrift()
	v.op.binding = v.op.bind()
	ids := slices.Clone(v.op.binding.Accepted)
	for _, r := range v.op.binding.Rejected {
		if r.Reason == policy.ReasonBudget {
			ids = append(ids, r.Cap)
		}
	}
	others := false
	for _, id := range v.op.binding.List {
		others = others || id != v.attempt.capability.ID
	}
	if !others && len(v.op.binding.List) > 0 {
		return noOtherJudge
	}
	for _, id := range ids {
		if v.eligible(id) {
			v.ids = append(v.ids, id)
		}
	}
	return judgesSelected
}

// drifted opens the breaker of a judge that is not believed any more.
func (v *voting) openForDrift(c *registry.Capability) {
	cs := v.op.w.Policy.stats[c.ID]
	if cs == nil {
		return
	}
	now := v.op.d.Clock.Now()
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, v.op.d.Executor.State(c.ID).Edition, c.Version)
	cs.tripForDrift(now, v.j.judge.Name, v.cal.Drift)
}

// drift has the breakers of the judge agree with its calibration.
func (v *voting) syncDrift() {
	for id, cs := range v.op.w.Policy.stats {
		if v.cal.Drift != "" {
			v.eligible(id)
		} else if !cs.closed.Load() {
			cs.clearDrift(v.op.d.Clock.Now(), v.j.judge.Name)
		}
	}
}

func (v *voting) eligible(id string) bool {
	c, ok := v.op.d.Registry.Capability(id)
	author := v.attempt.capability
	switch {
	case !ok || id == author.ID:
		return false
	case !v.j.mayGrade(c, author):
		v.rejected = contract.Errorf("judge/same-family", ":%s is of the family %s, like :%s, whose answer it would grade", id, c.Family, author.ID)
		return false
	case v.cal.Drift != "" && (v.cal.CapID == "" || v.cal.CapID == id):
		v.rejected = contract.Errorf("judge/drift", ":%s is not asked as judge %s any more: %s", id, v.j.judge.Name, v.cal.Drift)
		v.openForDrift(c)
		return false
	}
	return true
}

// grade asks one after another until somebody grades. It is nil if nobody did;
// the reason is in b.by.err.
func (v *voting) run(ctx context.Context, subject quality.Subject) *grade {
	if len(v.ids) == 0 {
		v.await(ctx)
	}
	for _, id := range v.ids {
		c, ok := v.op.d.Registry.Capability(id)
		if !ok {
			continue
		}
		grades := v.op.d.Grades
		if grades == nil || !v.j.judge.Memo {
			if g, ok := v.collectVotes(ctx, c, subject); ok {
				return &g
			}
		} else {
			key := v.j.key(v.op.d, c, subject.Request.Key("input"), subject.Result)
			grades.kept.Drop(key, grades.stale)
			g, known := grades.kept.Do(ctx, key, func() (grade, bool) {
				g, ok := v.collectVotes(ctx, c, subject)
				return g, ok && !g.mixed
			})
			if g.ballot != nil {
				v.memoized = known
				return &g
			}
		}
		if v.by.err == nil || v.op.failed != nil || ctx.Err() != nil || v.by.err.Type == "judge/rubric-invalid" {
			break
		}
	}
	if v.by.err == nil {
		v.by.err = v.rejected
	}
	if v.by.err == nil {
		v.by.err = v.op.noCandidate()
	}
	return nil
}

// await waits for a judge that is on its way back.
func (v *voting) await(ctx context.Context) {
	for _, r := range v.op.binding.Rejected {
		if r.Reason != policy.ReasonNotReady || !v.eligible(r.Cap) || !v.op.d.Executor.State(r.Cap).willReturn() {
			continue
		}
		if v.op.d.Executor.Await(ctx, r.Cap) == nil {
			v.ids = append(v.ids, r.Cap)
			return
		}
	}
}

// vote asks one judge until its grades are settled (JDG-008). A judge that always
// says the same is asked once.
func (v *voting) collectVotes(ctx context.Context, c *registry.Capability, subject quality.Subject) (g grade, ok bool) {
	judge := v.j.judge
	most := judge.Votes
	if c.Deterministic {
		most = 1
	}
	g = grade{ballot: quality.NewBallot(most, v.least), capID: c.ID, version: c.Version}
	for sample := 0; sample < max(1, most) && !g.ballot.Settled(); sample++ {
		v.op.w.Input, v.op.tokens, v.op.counted = v.question(subject, sample), 0, nil
		score, said, err := v.askWithRetry(ctx, c)
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
			v.by.err = err
			return grade{}, false
		case isBudget(err):
			v.votesSkipped = true
			g.close()
			return g, true
		case v.op.failed != nil || ctx.Err() != nil:
			// Nobody waits for the answer any more, and half a ballot is no grade.
			v.by.err = err
			return grade{}, false
		}
	}
	v.by.err = nil
	g.close()
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
func (v *voting) askWithRetry(ctx context.Context, c *registry.Capability) (score *big.Rat, more remarks, err *contract.Error) {
	for try := 1; ; try++ {
		score, more, err = v.askOnce(ctx, c)
		if err == nil || try >= v.j.judge.MaxAttempts || ctx.Err() != nil || v.op.failed != nil {
			return score, more, err
		}
		switch {
		case lostExecutor(err):
			if v.op.await(ctx, c.ID) != nil {
				return nil, more, err
			}
		case err.Class != contract.ClassRetry:
			return nil, more, err
		}
	}
}

// once makes one call to a judge. Its breaker counts how that ended.
func (v *voting) askOnce(ctx context.Context, c *registry.Capability) (score *big.Rat, more remarks, err *contract.Error) {
	cs := v.op.w.Policy.stats[c.ID]
	permit, err := v.op.acquirePermit(cs, c)
	if err != nil {
		return nil, more, err
	}
	if cs != nil && !cs.closed.Load() {
		v.unsound = true
	}
	by, out, asked := v.op.callOnce(ctx, c)
	if asked {
		v.calls++
		v.usages = append(v.usages, by.usage)
		v.by.latency += by.latency
		v.by.capID, v.by.version = c.ID, c.Version
	}
	if by.err == nil {
		if score, by.err = contract.ParseScore(out, v.op.d.Registry.ScoreRules(v.j.judge, c)); by.err == nil {
			more = parseRemarks(out)
			more.model = by.model
			v.reportModel(c, by.model)
		}
	}
	v.op.recordVoteOutcome(ctx, cs, permit, by, asked)
	return score, more, by.err
}

// witness tells who keeps the grades and the calibrations which model gave a grade.
func (v *voting) reportModel(c *registry.Capability, model string) {
	if v.op.d.Grades != nil {
		v.op.d.Grades.recordModel(c.ID, model)
	}
	if w, ok := v.op.d.Calibrations.(ModelObserver); ok && model != "" {
		w.Served(v.j.judge.Name, c.ID, model)
	}
}

// reported tells the breaker of a judge how a call ended.
func (o *operation) recordVoteOutcome(ctx context.Context, cs *candidateStats, permit breaker.Permit, by checked, asked bool) {
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
	outcome = o.countBackendCrashes(now, by.capID, by.process, edn.Nil(), by.err, outcome)
	if isConfigurationFailure(by.err) {
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
func parseRemarks(out edn.Value) remarks {
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
func (v *voting) question(subject quality.Subject, sample int) edn.Value {
	result := subject.Result
	if result.Kind() != edn.KindMap {
		result = edn.MustMap(edn.K("value"), result)
	}
	return v.j.judge.Question(registry.Task{
		Call: withoutEmpty(subject.Request), Result: result, Done: subject.Request.Key("done"), Author: v.author(subject.Meta),
		Sample: int64(sample), Seed: Rand(v.op.run.Seed, v.op.w.Path, voteDraws-64*v.attempt.number-sample).Int64N(1 << 53),
		AllowSameFamily: v.j.judge.AllowSameFamily,
	})
}

// author says who wrote the answer, and by which names the judge must not know.
func (v *voting) author(meta edn.Value) edn.Value {
	c := v.attempt.capability
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
