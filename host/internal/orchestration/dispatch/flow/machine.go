package flow

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Machine is the state of one operation.
type Machine struct {
	rules    Rules
	open     []Command // emitted and not answered
	newest   int       // ID of the newest command
	emitted  int       // commands of the last event, at the end of open
	used     []string  // candidates that were tried, in order
	attempts int       // attempts started so far

	parallel *parallel // nil in a cascade
	current  candidate // tried one attempt after another
	first    [1]Command
	name     [1]string
}

// candidate is one that is called one attempt after another.
type candidate struct {
	capID   string
	attempt int
	try     int
	failure *Failure // of its last attempt; nil before
	// Repair rounds over all its attempts. They are numbered consecutively,
	// because each is an effect of its own. round is the one that runs; 0: none.
	round, done, left int
	seen              [][]byte // fingerprints of the refused answers
}

// parallel is the state of parallel attempts and of the candidates that are
// retried afterwards.
type parallel struct {
	missing  int       // attempts to start
	started  int       // attempts started
	joined   int       // attempts that a hedge added
	timer    int       // ID of the open timer; 0: none
	running  []*member // whose call has not ended, in the order of their start
	ended    []*member // whose call has ended, not judged yet
	accepted []*member
	failures []*failed
	winner   *member  // its answer is accepted; the others are stopped
	final    *Failure // a failure that ends the operation
	retrying bool     // all have failed
	order    []string // candidates to be retried
}

type member struct {
	capID   string
	attempt int
	call    int // ID of its call
	rank    int // order of the start
	stopped bool
	score   edn.Value
	cost    edn.Value
}

type failed struct {
	capID   string
	failure *Failure
}

// Begin starts an operation and returns its first commands. The machine must be
// new, and must not be copied afterwards.
func (m *Machine) Begin(rules Rules) []Command {
	m.rules, m.open, m.used = rules, m.first[:0], m.name[:0]
	if rules.Strategy == policy.Cascade {
		m.emit(Command{Kind: Find, Wait: true})
	} else {
		m.parallel = &parallel{missing: rules.Width}
		if rules.Strategy == policy.Hedge {
			m.parallel.missing = 1
		}
		m.proceed()
	}
	return m.open
}

// Open returns the commands that are not answered, oldest first. A Finish stays
// open.
func (m *Machine) Open() []Command { return m.open }

// Apply continues after an event and returns the new commands, which are valid
// until the next event.
func (m *Machine) Apply(event *Event) []Command {
	m.emitted = 0
	c, e := m.answered(event.Of), event
	if event.Failure != nil {
		own, failure := *event, *event.Failure // the event stays as it is
		own.Failure, e = &failure, &own
	}
	switch c.Kind {
	case Find:
		m.found(&c, e)
	case Start:
		m.started(&c, e)
	case Call:
		m.ended(&c, e)
	case Judge:
		m.judged(&c, e)
	case Look:
		m.looked(e)
	case Ready:
		m.ready(e)
	case Timer:
		m.fired(e)
	}
	return m.open[len(m.open)-m.emitted:]
}

// answered removes a command from those that are open, with the commands that
// stop it.
func (m *Machine) answered(id int) Command {
	if len(m.open) == 1 && m.open[0].ID == id { // the usual case
		c := m.open[0]
		m.open = m.open[:0]
		return c
	}
	i := slices.IndexFunc(m.open, func(c Command) bool { return c.ID == id })
	if i < 0 {
		panic(fmt.Sprintf("flow: event of command %d, which is not open", id))
	}
	c := m.open[i]
	m.open = slices.DeleteFunc(m.open, func(o Command) bool { return o.ID == id || o.Kind == Stop && o.Target == id })
	return c
}

func (m *Machine) emit(c Command) int {
	m.newest++
	c.ID = m.newest
	m.open = append(m.open, c)
	m.emitted++
	return c.ID
}

func (m *Machine) finish(attempt int, outscored []int, f *Failure) {
	m.emit(Command{Kind: Finish, Attempt: attempt, Outscored: outscored, Failure: f})
}

// One attempt after another.

func (m *Machine) found(c *Command, e *Event) {
	capID, ok := m.next(&e.Situation)
	switch {
	case !c.Wait:
		m.join(capID, ok)
	case !ok:
		m.finish(0, nil, m.current.failure)
	default:
		m.used = append(m.used, capID)
		m.try(capID)
		m.start()
	}
}

func (m *Machine) try(capID string) {
	m.current = candidate{capID: capID, try: 1, left: m.rules.Limits.Repairs(capID)}
}

func (m *Machine) start() {
	m.emit(Command{Kind: Start, CapID: m.current.capID, Round: m.current.round, Repair: m.current.context()})
}

// context is the :repair of the request of a repair round.
func (t *candidate) context() edn.Value {
	if t.round == 0 {
		return edn.Nil()
	}
	return newRepairContext(t.failure, t.round)
}

func (m *Machine) started(c *Command, e *Event) {
	if m.running() {
		m.joined(c, e)
		return
	}
	if e.Failure != nil {
		m.attempted(e)
		return
	}
	m.attempts++
	m.current.attempt = e.Attempt
	m.emit(Command{Kind: Call, CapID: c.CapID, Attempt: e.Attempt})
}

func (m *Machine) ended(c *Command, e *Event) {
	if m.running() {
		m.arrived(c, e)
		return
	}
	m.emit(Command{Kind: Judge, CapID: c.CapID, Attempt: c.Attempt})
}

func (m *Machine) judged(c *Command, e *Event) {
	switch {
	case m.running():
		m.scored(c, e)
	case e.Failure == nil:
		m.accept(c.Attempt)
	default:
		m.attempted(e)
	}
}

// accept ends the operation with the answer of an attempt that ran alone.
func (m *Machine) accept(attempt int) {
	if m.current.round > 0 {
		m.current.failure.Owed = 0 // it was repaired
	}
	m.refuseRest()
	m.finish(attempt, nil, nil)
}

// attempted continues after an attempt at the tried candidate has failed.
func (m *Machine) attempted(e *Event) {
	t, f := &m.current, e.Failure
	switch last := t.failure; {
	case t.round > 0:
		m.repaired(f, &e.Situation)
		return
	case last != nil && f.OverBudget:
		f = last.stoppedByBudget(f, m.rules.SwitchOn)
	}
	m.failed(f, &e.Situation)
}

// failed repairs the answer if that may help, and otherwise goes on.
func (m *Machine) failed(f *Failure, s *Situation) {
	t := &m.current
	t.failure = f
	f.RoundsLeft = t.left > 0 && !m.yields(f, s)
	if action, _ := Decide(*f); action != Repair {
		m.refuse(f)
		return
	}
	m.repair()
}

// repair starts the next round.
func (m *Machine) repair() {
	t := &m.current
	t.left--
	t.done++
	t.seen = append(t.seen, answerFingerprint(t.failure))
	t.round = t.done
	m.start()
}

// repaired continues after a round has failed. All rounds of a candidate count
// as one verdict on it.
func (m *Machine) repaired(f *Failure, s *Situation) {
	t := &m.current
	last := t.failure
	t.round = 0
	if f.OverBudget {
		t.left = 0
		m.refuse(last.stoppedByBudget(f, m.rules.SwitchOn))
		return
	}
	if f.Owed == 0 {
		f.Owed = last.Owed
	}
	last.Owed = 0
	f.RoundsLeft = true
	if action, _ := Decide(*f); action != Repair { // another kind of failure
		f.RoundsLeft = false
		m.refuse(f)
		return
	}
	t.failure = f
	again := answerFingerprint(f)
	known := slices.ContainsFunc(t.seen, func(b []byte) bool { return bytes.Equal(b, again) })
	if known || t.left == 0 || m.yields(f, s) {
		t.left = 0
		m.refuse(exhausted(m.rules.Node, f, m.rules.SwitchOn))
		return
	}
	m.repair()
}

// refuse counts a refused answer and looks at what is left.
func (m *Machine) refuse(f *Failure) {
	m.current.failure = f
	m.refuseOnce(f)
	m.emit(Command{Kind: Look, CapID: m.current.capID, Failure: f})
}

func (m *Machine) refuseOnce(f *Failure) {
	if f.Owed > 0 {
		m.emit(Command{Kind: Refuse, Attempt: f.Owed})
		f.Owed = 0
	}
}

// looked decides whether the candidate is called again.
func (m *Machine) looked(e *Event) {
	t := &m.current
	if t.failure == nil { // it failed as a parallel attempt
		m.failed(m.parallel.failureOf(t.capID), &e.Situation)
		return
	}
	f := t.failure
	f.TriesLeft = t.try <= m.rules.Limits.Retries(f.Err.Type) && !m.yields(f, &e.Situation)
	m.available(f, &e.Situation)
	switch action, _ := Decide(*f); action {
	case Again, AgainWhenReady:
		m.emit(Command{Kind: Ready, CapID: t.capID, Try: t.try, Wait: action == AgainWhenReady, Failure: f})
	default:
		m.leave()
	}
}

// available sets in f which candidates are left. A candidate whose process
// exited before the call reached it counts as not tried: it can be bound again,
// or keeps the retries that it has left. If it respawns and no other candidate
// is ready, the operation waits for it as after a crash (ATT-008 row 6).
func (m *Machine) available(f *Failure, s *Situation) {
	t := &m.current
	first := f.Undelivered && t.try == 1
	if first {
		m.used = slices.DeleteFunc(m.used, func(id string) bool { return id == t.capID })
	}
	if m.nextLeft(f, s) || first || f.Crashed || f.Err.Type != policy.ReasonNotReady || f.Outcome != Definite {
		return
	}
	f.ComesBack, f.Crashed = s.ComesBack, s.ComesBack
	f.TriesLeft = f.TriesLeft || f.Undelivered
}

// ready calls the candidate again, or leaves it: what made that possible is then
// cleared in its failure, so that Decide chooses another action.
func (m *Machine) ready(e *Event) {
	t := &m.current
	f := t.failure
	switch {
	case e.Ready:
		if !f.Undelivered {
			t.try++
		}
		m.start()
		return
	case e.Late:
		f.TriesLeft, f.Expired = false, e.Expired
	default:
		if e.Failure != nil { // the budget is too small now
			f = f.stoppedByBudget(e.Failure, m.rules.SwitchOn)
			t.failure = f
		}
		f.TriesLeft, f.ComesBack, f.Expired = false, false, e.Expired
		m.nextLeft(f, &e.Situation)
	}
	m.leave()
}

// leave continues with another candidate, or ends.
func (m *Machine) leave() {
	f := m.current.failure
	if b := m.parallel; b != nil && len(b.order) > 0 {
		if b.order = b.order[1:]; ends(f) {
			m.refuseRest()
			m.finish(0, nil, f)
			return
		}
		if len(b.order) > 0 {
			m.retry()
			return
		}
	}
	if action, _ := Decide(*f); action != Next {
		m.finish(0, nil, f)
		return
	}
	m.emit(Command{Kind: Find, Wait: true})
}

// Parallel attempts.

// running reports whether parallel attempts run, or are being started or
// stopped.
func (m *Machine) running() bool { return m.parallel != nil && !m.parallel.retrying }

// proceed starts what is missing, evaluates what has ended, or waits.
func (m *Machine) proceed() {
	b := m.parallel
	switch {
	case b.winner != nil:
		if len(b.running) == 0 {
			m.settle()
		}
	case b.missing > 0 && b.final == nil:
		b.missing--
		m.emit(Command{Kind: Find, Joins: b.started > 0})
	case len(b.ended) > 0:
		a := b.ended[0]
		m.emit(Command{Kind: Judge, CapID: a.capID, Attempt: a.attempt})
	case len(b.running) == 0:
		m.allEnded()
	}
}

// join starts an attempt at the candidate that was found.
func (m *Machine) join(capID string, ok bool) {
	if !ok {
		m.parallel.missing = 0
		m.proceed()
		return
	}
	m.used = append(m.used, capID)
	m.emit(Command{Kind: Start, CapID: capID, Joins: m.parallel.started > 0, Parallel: true})
}

func (m *Machine) joined(c *Command, e *Event) {
	b := m.parallel
	if e.Failure != nil {
		m.lost(c.CapID, e.Failure)
		m.proceed()
		return
	}
	a := &member{capID: c.CapID, attempt: e.Attempt, rank: b.started}
	m.attempts++
	b.started++
	a.call = m.emit(Command{Kind: Call, CapID: c.CapID, Attempt: e.Attempt, Parallel: true})
	b.running = append(b.running, a)
	if m.rules.Strategy == policy.Hedge && b.joined < m.rules.Joining {
		b.timer = m.emit(Command{Kind: Timer, After: m.rules.After})
	}
	m.proceed()
}

// lost keeps the failure of a candidate.
func (m *Machine) lost(capID string, f *Failure) {
	b := m.parallel
	b.failures = append(b.failures, &failed{capID, f})
	if b.final == nil && ends(f) {
		b.final = f
	}
}

// fired adds an attempt to a hedge.
func (m *Machine) fired(e *Event) {
	b := m.parallel
	b.timer = 0
	if !m.running() || b.winner != nil || m.shown(e) != 0 || len(b.running) == 0 {
		return
	}
	b.joined++
	b.missing = 1
	m.idle()
}

// idle proceeds unless an earlier command will.
func (m *Machine) idle() {
	for _, c := range m.open {
		switch c.Kind {
		case Find, Start, Judge:
			return
		}
	}
	m.proceed()
}

func (m *Machine) arrived(c *Command, e *Event) {
	b := m.parallel
	i := slices.IndexFunc(b.running, func(a *member) bool { return a.attempt == c.Attempt })
	a := b.running[i]
	b.running = slices.Delete(b.running, i, i+1)
	if m.shown(e) != 0 && m.shown(e) != a.attempt && b.winner == nil {
		m.emit(Command{Kind: Discard, CapID: a.capID, Attempt: a.attempt}) // text of another attempt is shown
	} else {
		b.ended = append(b.ended, a)
	}
	m.idle()
}

func (m *Machine) scored(c *Command, e *Event) {
	b := m.parallel
	a := b.ended[0]
	b.ended = b.ended[1:]
	a.score, a.cost = e.Score, e.Cost
	switch {
	case e.Failure != nil:
		m.lost(c.CapID, e.Failure)
		if m.rules.Strategy == policy.Race {
			b.missing++
		}
	case m.rules.Strategy == policy.Tournament:
		b.accepted = append(b.accepted, a)
	default:
		b.winner = a
		m.stopTimer()
		for _, other := range b.running {
			m.stop(other)
		}
	}
	if shown := m.shown(e); shown != 0 && b.winner == nil {
		for _, other := range b.running {
			if other.attempt != shown {
				m.stop(other)
			}
		}
	}
	m.proceed()
}

// shown returns the attempt of a hedge whose text cannot be retracted; 0: none.
func (m *Machine) shown(e *Event) int {
	if m.rules.Strategy != policy.Hedge {
		return 0
	}
	return e.Committed
}

func (m *Machine) stop(a *member) {
	if !a.stopped {
		a.stopped = true
		m.emit(Command{Kind: Stop, CapID: a.capID, Attempt: a.attempt, Target: a.call})
	}
}

func (m *Machine) stopTimer() {
	if m.parallel.timer > 0 {
		m.emit(Command{Kind: Stop, Target: m.parallel.timer})
		m.parallel.timer = 0
	}
}

// settle ends the operation with the winner, once the others have ended.
func (m *Machine) settle() {
	b := m.parallel
	slices.SortFunc(b.ended, byRank)
	for _, a := range b.ended {
		m.emit(Command{Kind: Discard, CapID: a.capID, Attempt: a.attempt})
	}
	m.refuseRest()
	m.finish(b.winner.attempt, nil, nil)
}

func byRank(a, b *member) int { return cmp.Compare(a.rank, b.rank) }

// refuseRest counts the refused answers of candidates that are not retried.
func (m *Machine) refuseRest() {
	if m.parallel == nil {
		return
	}
	for _, f := range m.parallel.failures {
		m.refuseOnce(f.failure)
	}
}

// allEnded accepts the best answer of a tournament. If no answer was accepted,
// candidates that may be retried are retried one after another.
func (m *Machine) allEnded() {
	b := m.parallel
	m.stopTimer()
	if len(b.accepted) > 0 {
		best := slices.MinFunc(b.accepted, better)
		var outscored []int
		for _, a := range b.accepted {
			if a != best {
				outscored = append(outscored, a.attempt)
			}
		}
		slices.Sort(outscored)
		m.refuseRest()
		m.finish(best.attempt, outscored, nil)
		return
	}
	if b.final != nil {
		m.refuseRest()
		m.finish(0, nil, b.final)
		return
	}
	b.retrying, b.order = true, slices.DeleteFunc(slices.Clone(m.used), func(id string) bool { return b.failureOf(id) == nil })
	if len(b.order) == 0 { // nothing could be started
		m.emit(Command{Kind: Find, Wait: true})
		return
	}
	if m.rules.Strategy == policy.Tournament { // best score first
		slices.SortStableFunc(b.order, func(x, y string) int { return compareScores(b.scoreOf(y), b.scoreOf(x)) })
	}
	m.retry()
}

// retry continues with the first candidate to be retried.
func (m *Machine) retry() {
	m.try(m.parallel.order[0])
	m.emit(Command{Kind: Look, CapID: m.current.capID})
}

func (b *parallel) failureOf(capID string) *Failure {
	for _, f := range slices.Backward(b.failures) {
		if f.capID == capID {
			return f.failure
		}
	}
	return nil
}

// scoreOf returns 0 for a candidate without a score.
func (b *parallel) scoreOf(capID string) edn.Value {
	f := b.failureOf(capID)
	if f == nil || !f.Score.IsNumber() {
		return edn.Int(0)
	}
	return f.Score
}

// better orders accepted answers: the best score, then the lowest cost, where an
// unknown one is last, then the order of the candidates.
func better(a, b *member) int {
	return cmp.Or(compareScores(b.score, a.score), compareCosts(a.cost, b.cost), byRank(a, b))
}

func compareScores(a, b edn.Value) int {
	x, xok := a.AsNumber()
	y, yok := b.AsNumber()
	if !xok || !yok {
		return 0
	}
	return x.Cmp(y)
}

func compareCosts(a, b edn.Value) int {
	x, xok := a.AsNumber()
	y, yok := b.AsNumber()
	switch {
	case xok && yok:
		return x.Cmp(y)
	case xok:
		return -1
	case yok:
		return 1
	}
	return 0
}

// ends reports whether a failure ends the operation even if candidates are left.
func ends(f *Failure) bool {
	hopeful := *f
	hopeful.NextLeft = true
	action, _ := Decide(hopeful)
	return action == End
}

// GoesOn reports whether the operation would try another candidate after f if
// there were one.
func (m *Machine) GoesOn(f *Failure) bool {
	hopeful := *f
	hopeful.NextLeft = true
	action, _ := Decide(hopeful)
	return !m.Exhausted() && action == Next
}
