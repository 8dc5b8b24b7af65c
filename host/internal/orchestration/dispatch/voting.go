package dispatch

import (
	"context"
	"math/big"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// gradeAnswer asks the judge of the call for a grade if the grade can still
// change the verdict (GATE-008). ok is false if there is no result to record.
func (j *judging) gradeAnswer(ctx context.Context, subject quality.Subject, results []quality.Result) (
	result quality.Result, ok bool,
) {
	n, p := j.n, j.n.w.Policy
	panel := p.judgePanel
	if panel == nil || n.failed != nil || !quality.JudgeMatters(results, p.scoreMin) || panel.asksFor(n.d, n.w.Stack) {
		return result, false
	}
	if v := j.pastVerdict(panel.gate); v != nil {
		if j.recallFailure(v); n.run.Fill != nil {
			j.repeatVerdict(v, quality.SeverityOf(v.Severity))
		}
		return pastGrade(panel, v), true
	}
	weight := n.d.weight(panel.judge.Name)
	if weight.Worthless() != "" {
		return j.recordGrade(&voting{j: panel, weight: weight}, nil), true
	}
	if g := panel.memoized(n.d, j.a.capability, weight, n.w.Input, subject.Result); g != nil {
		return j.recordGrade(&voting{j: panel, weight: weight, least: p.scoreMin, memoized: true}, g), true
	}
	if subject.Request.IsNil() {
		subject.Request = p.subject(n.w.Input)
	}
	v := j.voting(panel, weight)
	if v.selectJudges() == noOtherJudge {
		return result, false
	}
	g := v.run(ctx, subject)
	if v.failed() && n.failed == nil {
		n.failed = v.call.node.failed
	}
	return j.recordGrade(v, g), true
}

// voting is the grading of one answer: its calls collect the votes.
type voting struct {
	call         *gateCall
	attempt      *attempt
	j            *judgePanel
	weight       calibration.Weight
	least        edn.Value
	ids          []string // judges that may be asked, in order
	by           checked  // sum over all calls
	calls        int      // calls to judges
	usages       []edn.Value
	memoized     bool
	votesSkipped bool // the budget did not cover further votes
	unsound      bool // the breaker of the judge was not closed
	rejected     *contract.Error
}

func (j *judging) voting(panel *judgePanel, weight calibration.Weight) *voting {
	w := j.n.w
	call := newGateCall(j, &Work{
		Op: "call", Node: w.Node, Path: w.Path, Intent: panel.judge.Intent, Policy: panel.policy,
		Input: w.Input, Deadline: w.Deadline, Wall: w.Wall, Deepest: w.Deepest,
		Stack: append(slices.Clip(w.Stack), j.a.capability.ID),
		// A judge spends from the budget of its node.
		Budget: w.Budget,
	}, funds.ForVote, panel.gate)
	return &voting{call: call, attempt: j.a, j: panel, weight: weight, least: w.Policy.scoreMin}
}

// failed reports whether a call of the voting could not be recorded or settled.
func (v *voting) failed() bool { return v.call.node.failed != nil }

// selection is the result of selectJudges.
type selection int

const (
	judgesSelected selection = iota // v.ids may be empty
	noOtherJudge                    // the author of the answer is the only judge
)

// selectJudges sets the judges that may be asked: not the author of the answer,
// and no model of its family (JDG-006, JDG-009). Judges that exceed the budget
// stay, because their grade may be cached.
func (v *voting) selectJudges() selection {
	v.syncDrift()
	v.call.candidates.bind()
	ids := slices.Clone(v.call.candidates.binding.Accepted)
	for _, r := range v.call.candidates.binding.Rejected {
		if r.Reason == policy.ReasonBudget {
			ids = append(ids, r.Cap)
		}
	}
	others := false
	for _, id := range v.call.candidates.binding.List {
		others = others || id != v.attempt.capability.ID
	}
	if !others && len(v.call.candidates.binding.List) > 0 {
		return noOtherJudge
	}
	for _, id := range ids {
		if v.eligible(id) {
			v.ids = append(v.ids, id)
		}
	}
	return judgesSelected
}

// openForDrift opens the breaker of a drifted judge.
func (v *voting) openForDrift(c *registry.Capability) {
	if cs := v.call.node.w.Policy.stats[c.ID]; cs != nil {
		n := &v.call.node
		cs.OpenForDrift(n.now(), n.d.Executor.State(c.ID).Edition, c.Version, v.j.judge.Name, v.weight.Drift())
	}
}

// syncDrift applies the calibration of the judge to its breakers.
func (v *voting) syncDrift() {
	for id, cs := range v.call.node.w.Policy.stats {
		if v.weight.Drift() != "" {
			v.eligible(id)
		} else if !cs.Closed() {
			cs.ClearDrift(v.call.node.now(), v.j.judge.Name)
		}
	}
}

// eligible reports whether a capability may be asked. If not, it sets v.rejected, and
// opens the breaker of a drifted judge.
func (v *voting) eligible(id string) bool {
	c, ok := v.call.node.d.Registry.Capability(id)
	author := v.attempt.capability
	switch {
	case !ok || id == author.ID:
		return false
	case !v.j.mayGrade(c, author):
		v.rejected = contract.Errorf("judge/same-family",
			":%s cannot grade the answer of :%s: both are of the model family %s", id, author.ID, c.Family)
		return false
	case v.weight.Drift() != "" && (v.weight.CapID == "" || v.weight.CapID == id):
		v.rejected = contract.Errorf("judge/drift", ":%s is no longer used as judge %s: %s", id, v.j.judge.Name,
			v.weight.Drift())
		v.openForDrift(c)
		return false
	}
	return true
}

// run asks one judge after another until one gives a grade. It returns nil if
// none did, with the reason in v.by.err.
func (v *voting) run(ctx context.Context, subject quality.Subject) *grade {
	if len(v.ids) == 0 {
		v.await(ctx)
	}
	for _, id := range v.ids {
		c, ok := v.call.node.d.Registry.Capability(id)
		if !ok {
			continue
		}
		grades := v.call.node.d.Grades
		if grades == nil || !v.j.judge.Memo {
			if g, ok := v.collectVotes(ctx, c, subject); ok {
				return &g
			}
		} else {
			key := v.j.key(v.call.node.d, c, subject.Request.Key("input"), subject.Result)
			grades.kept.Drop(key, grades.stale)
			g, known := grades.kept.Do(ctx, key, func() (grade, bool) {
				g, ok := v.collectVotes(ctx, c, subject)
				return g, ok && len(g.models) == 1
			})
			if g.ballot != nil {
				v.memoized = known
				return &g
			}
		}
		if v.by.err == nil || v.failed() || ctx.Err() != nil || v.by.err.Type == "judge/rubric-invalid" {
			break
		}
	}
	if v.by.err == nil {
		v.by.err = v.rejected
	}
	if v.by.err == nil {
		v.by.err = v.call.candidates.noCandidate()
	}
	return nil
}

// await waits for the first judge that is respawning and adds it to v.ids.
func (v *voting) await(ctx context.Context) {
	ctx, cancel := v.call.node.reviving(ctx)
	defer cancel()
	for _, r := range v.call.candidates.binding.Rejected {
		if r.Reason != policy.ReasonNotReady || !v.eligible(r.Cap) || !v.call.node.d.Executor.State(r.Cap).willReturn() {
			continue
		}
		if v.call.node.d.Executor.Await(ctx, r.Cap) == nil {
			v.ids = append(v.ids, r.Cap)
			return
		}
	}
}

// collectVotes asks one judge until the votes settle the grade (JDG-008). A
// deterministic judge is asked once.
func (v *voting) collectVotes(ctx context.Context, c *registry.Capability, subject quality.Subject) (g grade, ok bool) {
	judge := v.j.judge
	most := judge.Votes
	if c.Deterministic {
		most = 1
	}
	g = grade{ballot: quality.NewBallot(most, v.least), capID: c.ID, version: c.Version}
	for sample := 0; sample < max(1, most) && !g.ballot.Settled(); sample++ {
		v.call.request.setInput(v.question(subject, sample))
		score, more, err := v.askWithRetry(ctx, c)
		switch {
		case err == nil:
			if !slices.Contains(g.models, more.model) {
				g.models = append(g.models, more.model)
			}
			g.ballot.Add(score)
			if len(g.ballot.Scores()) == 1 || !g.ballot.Passes(score) && len(more.key) > 0 {
				g.key, g.says = more.key, more.says
			}
		case len(g.ballot.Scores()) == 0:
			v.by.err = err
			return grade{}, false
		case isBudget(err):
			v.votesSkipped = true
			g.close()
			return g, true
		case v.failed() || ctx.Err() != nil:
			// The answer is no longer needed, and incomplete votes are not a grade.
			v.by.err = err
			return grade{}, false
		}
	}
	v.by.err = nil
	g.close()
	return g, true
}

func isBudget(err *contract.Error) bool { return strings.HasPrefix(err.Type, "budget/") }

// remarks is the part of a judge's answer besides the score.
type remarks struct {
	key   string
	model string // model that answered, as named by its server
	says  edn.Value
}

// askWithRetry makes the calls for one vote.
func (v *voting) askWithRetry(ctx context.Context, c *registry.Capability) (
	score *big.Rat, more remarks, err *contract.Error,
) {
	for try := 1; ; try++ {
		score, more, err = v.askOnce(ctx, c)
		if err == nil || try >= v.j.judge.MaxAttempts || ctx.Err() != nil || v.failed() {
			return score, more, err
		}
		switch {
		case lostExecutor(err):
			if v.call.node.awaitReady(ctx, c.ID) != nil {
				return nil, more, err
			}
		case err.Class != contract.ClassRetry:
			return nil, more, err
		}
	}
}

// askOnce makes one call to a judge and records its outcome at the breaker.
func (v *voting) askOnce(ctx context.Context, c *registry.Capability) (
	score *big.Rat, more remarks, err *contract.Error,
) {
	cs := v.call.node.w.Policy.stats[c.ID]
	permit, err := v.call.candidates.may.acquire(cs, c)
	if err != nil {
		return nil, more, err
	}
	if cs != nil && !cs.Closed() {
		v.unsound = true
	}
	by, out, asked := v.call.callOnce(ctx, c)
	if asked {
		v.calls++
		v.usages = append(v.usages, by.usage)
		v.by.latency += by.latency
		v.by.capID, v.by.version = c.ID, c.Version
	}
	if by.err == nil {
		if score, by.err = contract.ParseScore(out, v.call.node.d.Registry.ScoreRules(v.j.judge, c)); by.err == nil {
			more = parseRemarks(out)
			more.model = by.model
			v.reportModel(c, by.model)
		}
	}
	v.call.report(ctx, cs, permit, c, by, asked)
	return score, more, by.err
}

// reportModel reports which model gave a grade to Grades and Calibrations.
func (v *voting) reportModel(c *registry.Capability, model string) {
	if v.call.node.d.Grades != nil {
		v.call.node.d.Grades.recordModel(c.ID, model)
	}
	if w, ok := v.call.node.d.Calibrations.(ModelObserver); ok && model != "" {
		w.Served(v.j.judge.Name, c.ID, model)
	}
}

// voteDraws keeps the random values of votes apart from those of attempts.
const voteDraws = -1 << 20

// maxSays bounds the cached remarks of a judge, in bytes.
const maxSays = 4 << 10

// parseRemarks reads the answer of a judge without its score.
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

// question returns the input for a judge.
func (v *voting) question(subject quality.Subject, sample int) edn.Value {
	result := subject.Result
	if result.Kind() != edn.KindMap {
		result = edn.MustMap(edn.K("value"), result)
	}
	return v.j.judge.Question(registry.Task{
		Call:   withoutEmpty(subject.Request),
		Result: result,
		Done:   subject.Request.Key("done"),
		Author: v.author(subject.Meta),
		Sample: int64(sample), Seed: Rand(v.call.node.run.Seed, v.call.node.w.Path,
			voteDraws-64*v.attempt.number-sample).Int64N(1 << 53),
		AllowSameFamily: v.j.judge.AllowSameFamily,
	})
}

// author returns the author of the answer, with the names that must be hidden
// from the judge.
func (v *voting) author(meta edn.Value) edn.Value {
	c := v.attempt.capability
	var m edn.MapBuilder
	m.Key("cap/id", journal.Keyword(c.ID))
	m.OptText("family", c.Family)
	m.OptText("model", c.Model)
	var names []edn.Value
	for _, name := range []edn.Value{edn.Text(c.ID), edn.Text(c.Advertised), edn.Text(c.Model),
		meta.Key("provider").Key("model"), meta.Key("provider").Key("model/served"), meta.Key("agent/id")} {
		if text, ok := name.AsString(); ok && text != "" &&
			!slices.ContainsFunc(names, func(n edn.Value) bool { return edn.Equal(n, name) }) {
			names = append(names, name)
		}
	}
	m.Key("names", edn.Vector(names...))
	return m.Map()
}

// withoutEmpty returns the request without done, budget and empty maps.
func withoutEmpty(request edn.Value) edn.Value {
	var m edn.MapBuilder
	for k, v := range request.Entries() {
		if name, _ := k.AsKeyword(); name == "done" || name == "budget" || v.Kind() == edn.KindMap && v.Len() == 0 &&
			name != "input" {
			continue
		}
		m.Set(k, v)
	}
	return m.Map()
}
