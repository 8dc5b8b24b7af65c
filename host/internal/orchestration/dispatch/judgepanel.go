package dispatch

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/memo"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Calibration is what is known about how far a judge may be believed.
type Calibration struct {
	// Known is false for a judge that was never measured.
	Known bool
	// Kappa is its agreement with labelled answers beyond chance.
	Kappa float64
	// CapID is who was measured, Key what determines the grades apart from task
	// and answer; empty: that is not known.
	CapID, Key string
	// Drift says why the judge must not be asked any more, empty if it may.
	Drift string
	// Worthless says why its grades tell nothing about an answer and weigh nothing,
	// empty if they count.
	Worthless string
}

// about reports whether the calibration is of the judge that gave a grade, as far as
// that is known; by is nil before anything was graded.
func (c Calibration) appliesTo(by *grade) bool {
	return c.Known && (by == nil || (c.CapID == "" || c.CapID == by.capID) && (c.Key == "" || by.key == "" || c.Key == by.key))
}

// Calibrations tells what is known about judges by their names. It is asked for
// each grade, from many goroutines, and must be quick.
type Calibrations interface {
	Calibration(judge string) Calibration
}

// Witness is what Calibrations may offer besides: it is told which model gave a
// grade, as its server calls it. It is called from many goroutines and must be
// quick.
type ModelObserver interface {
	Served(judge, capID, model string)
}

// grade is what a judge made of one answer.
type grade struct {
	ballot  *quality.Ballot
	score   *big.Rat
	rounded quality.Score
	votes   []edn.Value
	capID   string
	version string
	key     string    // of the judge
	model   string    // that gave the votes, as its server reports it; empty if not reported
	mixed   bool      // several models did
	says    edn.Value // criteria and violations, a map
}

// settle closes the ballot: the grade is what it says by then.
func (g *grade) close() {
	g.score = g.ballot.Score()
	g.rounded = quality.RoundScore(g.score)
	for _, vote := range g.ballot.Scores() {
		g.votes = append(g.votes, quality.RoundScore(vote).Value())
	}
}

// gradeKey is what a grade depends on: the judge with its rubric, who grades, and
// the hashes of task and answer. An edition of a plugin is one program under one
// configuration.
type gradeKey struct {
	judge, capID, version, binary string
	edition                       int
	models                        string // the programs behind the models that it may ask
	prompt                        string // the hash of the prompt of a model that grades itself
	task, answer                  string
}

// Grades remembers the grades of judges, over all configurations of a host. It is
// safe for concurrent use.
type Grades struct {
	kept *memo.Memo[gradeKey, grade]

	mu     sync.Mutex
	served map[string]string // by capability: the model of its last grade
}

// saw notes which model gave the last grade of a capability.
func (g *Grades) recordModel(capID, model string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.served[capID] = model
}

// stale reports whether another model has answered behind the judge since it gave a
// grade: a server may put another model behind the same name.
func (g *Grades) stale(by grade) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.served[by.capID] != by.model
}

// get returns the grade that is kept for the key, as long as it is not stale.
func (g *Grades) get(key gradeKey) (grade, bool) {
	g.kept.Drop(key, g.stale)
	return g.kept.Get(key)
}

// MaxGrades bounds how many grades are remembered.
const MaxGrades = 4096

// NewGrades remembers at most so many grades.
func NewGrades(most int) *Grades {
	return &Grades{kept: memo.New[gradeKey, grade](most), served: map[string]string{}}
}

// jury is the judge of the calls of one intent, with what is the same for all of
// them.
type judgePanel struct {
	judge  *registry.Judge
	gate   string // its name
	must   bool
	policy *CallPolicy // of the calls to the judge
	// fixed is the hash of what grades depend on, apart from who grades, the task
	// and the answer.
	fixed string
}

// jury is that of calls under these terms; nil if nobody judges them. A judge
// does not judge its own intent (JDG-006).
func (d *Dispatcher) judgePanel(p *CallPolicy) *judgePanel {
	if p.Judge == "" {
		return nil
	}
	judge, ok := d.Registry.Judge(p.Judge)
	if !ok || !judge.Enabled || judge.Intent == p.intent {
		return nil
	}
	// A judge looks, and does nothing else.
	layer := policy.Layer{Effects: policy.Of(policy.CheckEffects, policy.Origin{})}
	resolved, err := layer.Resolve()
	if err != nil {
		return nil
	}
	j := &judgePanel{judge: judge, gate: quality.JudgeGate(judge.Name, quality.Should).Name, must: p.JudgeMust, policy: d.CallPolicy(resolved, judge.Intent, judge.Capability)}
	j.fixed = edn.Hash(edn.Vector(
		edn.Text(judge.Name), edn.Text(judge.Intent), judge.Rubric, edn.Int(int64(judge.Votes)), edn.Bool(judge.AllowSameFamily), texts(judge.ScorePath),
		d.models(), withoutEmpty(p.subject(edn.MustMap())), p.done,
	))
	return j
}

// models are those that a judge may ask: with others it would be another judge.
func (d *Dispatcher) models() edn.Value {
	ids := d.Registry.Candidates(registry.IntentChat)
	out := make([]edn.Value, 0, len(ids))
	for _, id := range ids {
		if c, ok := d.Registry.Capability(id); ok {
			out = append(out, edn.Vector(edn.Text(c.ID), edn.Text(c.Version), edn.Text(c.Model)))
		}
	}
	return edn.Vector(out...)
}

func texts(list []string) edn.Value {
	out := make([]edn.Value, len(list))
	for i, s := range list {
		out[i] = edn.Text(s)
	}
	return edn.Vector(out...)
}

// inside tells whether a call is made on behalf of somebody who judges for this
// jury: its question to a model is not judged in turn (JDG-006).
func (j *judgePanel) asksFor(d *Dispatcher, stack []string) bool {
	return slices.ContainsFunc(stack, func(id string) bool {
		c, ok := d.Registry.Capability(id)
		return ok && len(c.Intents) > 0 && c.Serves(j.judge.Intent)
	})
}

// key is that of a grade by a capability.
func (j *judgePanel) key(d *Dispatcher, c *registry.Capability, task, answer edn.Value) gradeKey {
	st := d.Executor.State(c.ID)
	key := gradeKey{
		judge: j.fixed, capID: c.ID, version: c.Version, binary: st.Binary, edition: st.Edition,
		task: edn.Hash(task), answer: edn.Hash(answer),
	}
	if !c.Deterministic {
		key.models = d.programs()
	}
	if j.policy.composes(c) {
		key.prompt = j.policy.preparation(c).Hash()
	}
	return key
}

// programs names the programs that run the models that a judge may ask, and their
// configurations: a new one may serve another model under the same name.
func (d *Dispatcher) programs() string {
	var b strings.Builder
	for _, id := range d.Registry.Candidates(registry.IntentChat) {
		st := d.Executor.State(id)
		b.WriteString(id)
		b.WriteByte(' ')
		b.WriteString(st.Binary)
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(st.Edition))
		b.WriteByte('\n')
	}
	return b.String()
}

// admits tells whether a capability may grade what an author wrote: not its own
// answer, and not that of a model of its family (JDG-006, JDG-009).
func (j *judgePanel) mayGrade(c, author *registry.Capability) bool {
	return c.ID != author.ID && (j.judge.AllowSameFamily || c.Family == "" || c.Family != author.Family)
}

// known is the grade of an equal answer to an equal task, by who would be asked
// first; nil if there is none. It is found before anything is prepared, so that
// it costs next to nothing.
func (j *judgePanel) memoized(d *Dispatcher, author *registry.Capability, cal Calibration, task, answer edn.Value) *grade {
	if d.Grades == nil || !j.judge.Memo || cal.Drift != "" || j.policy.Ordering != policy.Declared {
		return nil
	}
	for _, id := range j.policy.static.Accepted {
		c, ok := d.Registry.Capability(id)
		if !ok || !j.mayGrade(c, author) {
			continue
		}
		st := d.Executor.State(id)
		if cs := j.policy.stats[id]; !st.Ready && !st.Standby || cs != nil && !cs.closed.Load() {
			return nil
		}
		if g, ok := d.Grades.get(j.key(d, c, task, answer)); ok {
			return &g
		}
		return nil
	}
	return nil
}

// severity is what a grade that is not enough costs. A judge that nobody has
// measured, or that agrees too little with people, refuses nothing by itself
// (JDG-011).
func (j *judgePanel) severity(cal Calibration, by *grade) quality.Severity {
	if !j.must || !cal.appliesTo(by) || cal.Kappa < j.judge.MinKappa || cal.Worthless != "" {
		return quality.Should
	}
	return quality.Must
}

// weighs reports whether a grade counts at all. One of a judge that nobody has
// measured counts in the score, unless the judge is one whose failures are ignored:
// nothing is known of such a grade either (JDG-005).
func (j *judgePanel) counts(cal Calibration, by *grade) bool {
	return !j.judge.IgnoreErrors || j.judge.Plain || cal.appliesTo(by)
}

func (d *Dispatcher) calibration(judge string) Calibration {
	if d.Calibrations == nil {
		return Calibration{}
	}
	return d.Calibrations.Calibration(judge)
}
