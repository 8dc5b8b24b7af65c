package dispatch

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/memo"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Calibrations returns the weight of the grades of a judge. It is called for
// each grade, must be safe for concurrent use and quick.
type Calibrations interface {
	Weight(judge string) calibration.Weight
}

// ModelObserver is an optional interface of Calibrations. Served is called with the
// model that gave a grade, as named by its server. It must be safe for concurrent use
// and quick.
type ModelObserver interface {
	Served(judge, capID, model string)
}

// GradeObserver is an optional interface of Calibrations. Graded is called with each
// grade of an answer and what gave it, but not with cached grades. It must be safe for
// concurrent use and quick.
type GradeObserver interface {
	Graded(judge string, by calibration.Grader, score quality.Score)
}

// grade is the grade of one answer.
type grade struct {
	ballot  *quality.Ballot
	score   *big.Rat
	rounded quality.Score
	votes   []edn.Value
	capID   string
	version string
	key     string    // identifies the judge
	models  []string  // that gave the votes, each once, as named by the server; an empty one was not reported
	says    edn.Value // criteria and violations, a map
}

// by returns what gave the grade; for nil, everything is unknown.
func (g *grade) by() calibration.Grader {
	if g == nil {
		return calibration.Grader{}
	}
	return calibration.Grader{CapID: g.capID, Key: g.key, Models: g.models}
}

// close computes the grade from the votes so far.
func (g *grade) close() {
	g.score = g.ballot.Score()
	g.rounded = quality.RoundScore(g.score)
	for _, vote := range g.ballot.Scores() {
		g.votes = append(g.votes, quality.RoundScore(vote).Value())
	}
}

// gradeKey is everything that a grade depends on: the judge with its rubric,
// the grading capability, and the hashes of task and answer. An edition of a
// plugin is one program with one configuration.
type gradeKey struct {
	judge, capID, version, binary string
	edition                       int
	models                        string // programs behind the models that the judge may call
	prompt                        string // hash of the prompt of a model that grades itself
	task, answer                  string
}

// Grades caches the grades of judges across all configurations of a host. It is
// safe for concurrent use.
type Grades struct {
	kept *memo.Memo[gradeKey, grade]

	mu     sync.Mutex
	served map[string]string // by capability: the model of its last grade
}

// recordModel records the model of the last grade of a capability.
func (g *Grades) recordModel(capID, model string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.served[capID] = model
}

// stale reports whether the judge's server has used another model since the
// grade: a server may change the model behind a name.
func (g *Grades) stale(by grade) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.Equal(by.models, []string{g.served[by.capID]})
}

// get returns the cached grade for the key unless it is stale.
func (g *Grades) get(key gradeKey) (grade, bool) {
	g.kept.Drop(key, g.stale)
	return g.kept.Get(key)
}

// MaxGrades is the usual argument of NewGrades: the number of grades that a host caches.
const MaxGrades = 4096

// NewGrades returns a cache of at most most grades (1 if most is smaller).
func NewGrades(most int) *Grades {
	return &Grades{kept: memo.New[gradeKey, grade](most), served: map[string]string{}}
}

// judgePanel is the judge of the calls of one intent, with everything that is
// constant for these calls.
type judgePanel struct {
	judge  *registry.Judge
	gate   string // name of the gate
	must   bool
	policy *CallPolicy // of the calls to the judge
	// fixed is the hash of what grades depend on besides capability, task and
	// answer.
	fixed string
	// models are the capabilities that the judge may call, sorted.
	models []string
}

// judgePanel returns the judge for calls under this policy; nil without one. A
// judge does not grade calls of its own intent (JDG-006).
func (d *Dispatcher) judgePanel(p *CallPolicy) *judgePanel {
	if p.Judge == "" {
		return nil
	}
	judge, ok := d.Registry.Judge(p.Judge)
	if !ok || !judge.Enabled || judge.Intent == p.intent {
		return nil
	}
	// A judge may only read.
	layer := policy.Layer{Effects: policy.Of(policy.CheckEffects, policy.Origin{})}
	resolved, err := layer.Resolve()
	if err != nil {
		return nil
	}
	j := &judgePanel{
		judge:  judge,
		gate:   quality.JudgeGate(judge.Name, quality.Should).Name,
		must:   p.JudgeMust,
		policy: d.CallPolicy(resolved, judge.Intent, judge.Capability),
		models: d.modelCandidates(),
	}
	j.fixed = edn.Hash(edn.Vector(
		edn.Text(judge.Name),
		edn.Text(judge.Intent),
		judge.Rubric,
		edn.Int(int64(judge.Votes)),
		edn.Bool(judge.AllowSameFamily),
		texts(judge.ScorePath),
		d.models(), withoutEmpty(p.subject(edn.MustMap())), p.done,
	))
	return j
}

// models returns the models that a judge may call, in their order; other models make it another
// judge. The plugin of the judge decides which intent it calls, so all intents of models count.
func (d *Dispatcher) models() edn.Value {
	var out []edn.Value
	for _, intent := range d.Registry.ModelIntents() {
		out = append(out, edn.Text(intent))
		for _, id := range d.Registry.Candidates(intent) {
			if c, ok := d.Registry.Capability(id); ok {
				out = append(out, edn.Vector(edn.Text(c.ID), edn.Text(c.Version), edn.Text(c.Model)))
			}
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

// asksFor reports whether a call is made on behalf of a judge of this intent:
// such calls are not graded (JDG-006).
func (j *judgePanel) asksFor(d *Dispatcher, stack []string) bool {
	return slices.ContainsFunc(stack, func(id string) bool {
		c, ok := d.Registry.Capability(id)
		return ok && len(c.Intents) > 0 && c.Serves(j.judge.Intent)
	})
}

// key returns the key of a grade by the capability.
func (j *judgePanel) key(d *Dispatcher, c *registry.Capability, task, answer edn.Value) gradeKey {
	st := d.Executor.State(c.ID)
	key := gradeKey{
		judge: j.fixed, capID: c.ID, version: c.Version, binary: st.Binary, edition: st.Edition,
		task: edn.Hash(task), answer: edn.Hash(answer),
	}
	if !c.Deterministic {
		key.models = d.programs(j.models)
	}
	if j.policy.composes(c) {
		key.prompt = j.policy.preparation(c).Hash()
	}
	return key
}

// programs identifies the programs and configurations behind the models that a
// judge may call: a new one may serve another model under the same name.
func (d *Dispatcher) programs(models []string) string {
	var b strings.Builder
	for _, id := range models {
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

// modelCandidates returns the candidates of the intents of models, sorted.
func (d *Dispatcher) modelCandidates() []string {
	var ids []string
	for _, intent := range d.Registry.ModelIntents() {
		ids = append(ids, d.Registry.Candidates(intent)...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// mayGrade reports whether a capability may grade answers of author: not its
// own, and not those of a model of its family (JDG-006, JDG-009).
func (j *judgePanel) mayGrade(c, author *registry.Capability) bool {
	return c.ID != author.ID && (j.judge.AllowSameFamily || c.Family == "" || c.Family != author.Family)
}

// memoized returns the cached grade of an equal answer to an equal task by the first
// capability that may grade; nil if there is none. Then no voting is set up.
func (j *judgePanel) memoized(d *Dispatcher, author *registry.Capability, weight calibration.Weight,
	task, answer edn.Value) *grade {
	if d.Grades == nil || !j.judge.Memo || weight.Drift() != "" ||
		j.policy.Ordering != policy.Declared && j.policy.Ordering != policy.Learning {
		return nil
	}
	for _, id := range j.policy.static.Accepted {
		c, ok := d.Registry.Capability(id)
		if !ok || !j.mayGrade(c, author) {
			continue
		}
		st := d.Executor.State(id)
		if cs := j.policy.stats[id]; !st.Ready && !st.Standby || cs != nil && !cs.Closed() {
			return nil
		}
		if g, ok := d.Grades.get(j.key(d, c, task, answer)); ok {
			return &g
		}
		return nil
	}
	return nil
}

// severity returns the severity of a grade below the minimum. g is nil if there
// is no grade.
func (j *judgePanel) severity(w calibration.Weight, g *grade) quality.Severity {
	if !j.must || !w.Rejects(g.by()) {
		return quality.Should
	}
	return quality.Must
}

// counts reports whether a grade counts at all. A grade that the calibration
// does not cover counts in the score, unless errors of the judge are ignored
// (JDG-005).
func (j *judgePanel) counts(w calibration.Weight, g *grade) bool {
	return !j.judge.IgnoreErrors || j.judge.Plain || w.Covers(g.by())
}

// weight returns the weight of the grades of a judge.
func (d *Dispatcher) weight(judge string) calibration.Weight {
	if d.Calibrations == nil {
		return calibration.Weight{}
	}
	return d.Calibrations.Weight(judge)
}
