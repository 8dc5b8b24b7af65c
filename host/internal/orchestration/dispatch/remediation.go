package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Keeper is what an executor may offer besides: it does something about the
// plugin of a capability whose answers are not good enough (BRK-002). Its
// methods begin that and do not wait for the end of it.
type Remediator interface {
	// Renew puts another edition of the plugin in the place of the current one,
	// after the trial that its settings ask for. done is called once: when the
	// new one has taken over, or with the reason why the old one stays, which is
	// ErrChanging if the plugin is being changed already.
	Renew(capID string, done func(error))
	// Restart starts the processes of the plugin anew.
	Restart(capID string) error
	// Quarantine takes the plugin out of service until that time, unless an
	// operator releases it before.
	Quarantine(capID, why string, until time.Time) error
}

// ErrChanging says that another change of the plugin is under way.
var ErrChanging = errors.New("the plugin is being changed")

// deed is the last thing that was done about a plugin: a plugin that answers
// badly for two intents is not swapped twice.
type remediationClaim struct {
	at   time.Time
	busy bool
}

// begin claims a plugin for a deed. It is refused while another one goes on and
// for a while after it.
func (t *StatsTable) claim(plugin string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claims == nil {
		t.claims = map[string]*remediationClaim{}
	}
	d := t.claims[plugin]
	if d != nil && (d.busy || now.Sub(d.at) < breaker.ActionPause) {
		return false
	}
	t.claims[plugin] = &remediationClaim{at: now, busy: true}
	return true
}

// end gives a plugin back. A deed that did nothing leaves no pause behind.
func (t *StatsTable) releaseClaim(plugin string, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !done {
		delete(t.claims, plugin)
		return
	}
	if d := t.claims[plugin]; d != nil {
		d.busy = false
	}
}

// ward is a capability about which something has to be done, with the
// configuration under which that was found.
type remediation struct {
	d      *Dispatcher
	stats  *candidateStats
	plugin string
	list   []string // who else may serve
}

// act does what the operator wants done about a capability whose answers fell
// below their floor. What is done at once is recorded with the run in which it
// showed.
func (o *operation) remediate(v sample) {
	r := remediation{d: o.d, stats: v.stats, plugin: v.stats.currentPlugin(), list: o.w.Policy.static.Accepted}
	n, ok := r.start(o.d.Clock.Now())
	if !ok {
		return
	}
	o.record(&journal.HostEvent{
		Event: n.Event, CapID: n.CapID, Intent: n.Intent,
		Details: n.Details.Merge(edn.MustMap(
			edn.K("path"), o.w.Path, edn.K("node"), edn.Text(o.w.Node), edn.K("attempt"), edn.Int(int64(v.attempt)))),
	})
}

// act decides and begins. ok is false if nothing is to be told: the plugin is
// being cared for already, or nothing can be done and that was told before.
func (r remediation) start(now time.Time) (n Notice, ok bool) {
	cs, table := r.stats, r.d.Stats
	if !table.claim(r.plugin, now) {
		cs.mu.Lock()
		cs.remediation.acting = false
		cs.mu.Unlock()
		return n, false
	}
	remediator, _ := r.d.Executor.(Remediator)
	cs.mu.Lock()
	action, third := cs.rules.Action, cs.window.IsThirdAction(now)
	cs.mu.Unlock()
	if third {
		action = registry.ActionQuarantine
	}
	switch {
	case action == registry.ActionSwap:
		if to := r.substitute(now); to != "" {
			return r.replace(now, to), true
		}
		if remediator != nil {
			return r.renew(now, remediator), true
		}
	case action == registry.ActionRestart && remediator != nil:
		return r.restart(now, remediator), true
	}
	return r.eject(now, third, "")
}

// substitute is the capability that is to take the place, if it can.
func (r remediation) substitute(now time.Time) string {
	to := r.stats.rules.SwapTo
	if to == "" || to == r.stats.capID {
		return ""
	}
	c, ok := r.d.Registry.Capability(to)
	if !ok || !c.Serves(r.stats.intent) || !r.serves(to, now) {
		return ""
	}
	return to
}

// serves tells whether a capability can be called now and is not left out.
func (r remediation) serves(capID string, now time.Time) bool {
	if r.d.available(capID).Reason != "" {
		return false
	}
	cs := r.d.Stats.lookup(capID, r.stats.intent)
	if cs == nil {
		return true
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	return cs.breaker.Admits(now)
}

// replace leaves the capability out and lets another one serve in its place.
func (r remediation) replace(now time.Time, to string) Notice {
	defer r.finish(true)
	cs := r.stats
	cs.mu.Lock()
	defer cs.unlock(now)
	why := cs.reason()
	details := remediationDetails(cs.rate(), registry.ActionSwap, why)
	cs.recordAction(now)
	until := cs.eject(now, why)
	cs.remediation.substitute = to
	return cs.notify(now, EventSwap, details.AssocKey("to", journal.Keyword(to)).AssocKey("until", inst(until)))
}

// renew puts another edition in the place of the one that answers. The old one
// answers until then, and is left out if there is no better one.
func (r remediation) renew(now time.Time, remediator Remediator) Notice {
	cs := r.stats
	cs.mu.Lock()
	why := cs.reason()
	n := cs.notify(now, EventSwap, remediationDetails(cs.rate(), registry.ActionSwap, why))
	cs.recordAction(now)
	cs.unlock(now)
	remediator.Renew(cs.capID, func(err error) { r.renewed(why, err) })
	return n
}

// renewed is told how a swap ended that was begun for that reason.
func (r remediation) renewed(why string, err error) {
	now := r.d.Clock.Now()
	cs := r.stats
	cs.mu.Lock()
	if err == nil {
		cs.note(now, EventSwapped, edn.MustMap())
		cs.remediation.degraded = false
	} else {
		cs.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionSwap), edn.K("why"), edn.Text("the swap did not come about: "+contract.AsError(err).FullMessage())))
	}
	cs.unlock(now)
	if err == nil || errors.Is(err, ErrChanging) {
		r.finish(true)
		return
	}
	r.eject(now, false, why)
}

// restart starts the processes anew.
func (r remediation) restart(now time.Time, remediator Remediator) Notice {
	defer r.finish(true)
	cs := r.stats
	err := remediator.Restart(cs.capID)
	cs.mu.Lock()
	defer cs.unlock(now)
	n := cs.notify(now, EventRestart, remediationDetails(cs.rate(), registry.ActionRestart, cs.reason()))
	cs.recordAction(now)
	cs.remediation.renewed(now)
	if err != nil {
		cs.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionRestart), edn.K("why"), edn.Text("the restart did not come about: "+contract.AsError(err).FullMessage())))
	}
	return n
}

// leaveOut ejects the capability, if enough others are left. The process goes
// out of service with it if nothing that it serves is in any more. The reason is
// empty unless something was tried before, which has emptied the window.
func (r remediation) eject(now time.Time, third bool, tried string) (n Notice, ok bool) {
	cs, table := r.stats, r.d.Stats
	table.deciding.Lock()
	may := r.mayEject(now)
	var until time.Time
	cs.mu.Lock()
	why, details := tried, cs.rate()
	if tried == "" {
		why = cs.reason()
	}
	if third {
		why += "; it is the third time within " + breaker.ActionSpan.String()
	}
	if may {
		if tried == "" {
			cs.recordAction(now)
		}
		until = cs.eject(now, why)
		cs.remediation.substitute = ""
		n, ok = cs.notify(now, EventEject, remediationDetails(details, registry.ActionQuarantine, why).AssocKey("until", inst(until))), true
	} else if !cs.remediation.degraded {
		cs.remediation.degraded = true
		n, ok = cs.notify(now, EventCapReached, details.AssocKey("why", edn.Text(why+"; it stays, because too many of those who serve are left out already or it is the last"))), true
	}
	cs.unlock(now)
	table.deciding.Unlock()
	if may {
		r.quarantine(now, why, until)
	}
	r.finish(may)
	return n, ok
}

// quarantine takes the plugin out of service if all that it serves is out.
func (r remediation) quarantine(now time.Time, why string, until time.Time) {
	remediator, ok := r.d.Executor.(Remediator)
	if !ok || !r.allEjected(now) {
		return
	}
	err := remediator.Quarantine(r.stats.capID, why, until)
	r.stats.mu.Lock()
	defer r.stats.unlock(now)
	if err != nil {
		r.stats.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionQuarantine), edn.K("why"), edn.Text("the quarantine did not come about: "+contract.AsError(err).FullMessage())))
		return
	}
	r.stats.note(now, EventQuarantine, edn.MustMap(edn.K("until"), inst(until), edn.K("why"), edn.Text(why)))
}

// alone tells whether everything that the plugin serves is left out.
func (r remediation) allEjected(now time.Time) bool {
	reg := r.d.Registry
	for _, intent := range reg.Intents() {
		for _, id := range reg.Serving(intent) {
			if c, ok := reg.Capability(id); !ok || c.Plugin != r.plugin {
				continue
			}
			cs := r.d.Stats.lookup(id, intent)
			if cs == nil || !cs.ejected(now) {
				return false
			}
		}
	}
	return true
}

// mayLeave tells whether one more candidate of the intent may be left out: so
// many and no more, and never the last one that can be called (BRK-010).
func (r remediation) mayEject(now time.Time) bool {
	ids := slices.Clone(r.d.Registry.Candidates(r.stats.intent))
	for _, id := range r.list {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	out, others := 0, 0
	for _, id := range ids {
		if id == r.stats.capID {
			continue
		}
		if cs := r.d.Stats.lookup(id, r.stats.intent); cs != nil && cs.ejected(now) {
			out++
		} else if r.serves(id, now) {
			others++
		}
	}
	most := int(math.Floor(r.stats.rules.MaxEjected.V*float64(len(ids)) + 1e-9))
	return others > 0 && out < most
}

// out tells whether the capability is left out because of its answers and
// nobody was put in its place.
func (cs *candidateStats) ejected(now time.Time) bool {
	cs.mu.Lock()
	defer cs.unlock(now)
	return cs.breaker.Ejected(now) && cs.remediation.substitute == ""
}

// owner is the plugin that has the capability now.
func (cs *candidateStats) currentPlugin() string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.plugin
}

// done says that nothing is being done any more.
func (r remediation) finish(anything bool) {
	r.stats.mu.Lock()
	r.stats.remediation.acting = false
	r.stats.mu.Unlock()
	r.d.Stats.releaseClaim(r.plugin, anything)
}

// below says in words how bad it is. It is called with the lock.
func (cs *candidateStats) reason() string {
	passes, samples := cs.window.Counts()
	return fmt.Sprintf("%d of the last %d answers passed their gates, %s of them should", passes, samples, formatShare(cs.rules.MinPassRate.V))
}

// said is what is told of a deed.
func remediationDetails(rate edn.Value, action, why string) edn.Value {
	return rate.AssocKey("action", edn.K(action)).AssocKey("why", edn.Text(why))
}

// begun empties the window, because something is being done. It is called with
// the lock.
func (cs *candidateStats) recordAction(now time.Time) {
	cs.window.RecordAction(now)
	cs.remediation.degraded = false
}

// eject opens the breaker because of the answers. It is called with the lock.
func (cs *candidateStats) eject(now time.Time, why string) (until time.Time) {
	until = cs.breaker.Eject(now)
	cs.remediation.renewed(now)
	cs.remediation.why = why
	cs.notified = breaker.Open // the notice of the deed says so
	return until
}

// tell is note for what is given back too. It is called with the lock.
func (cs *candidateStats) notify(now time.Time, event string, details edn.Value) Notice {
	cs.note(now, event, details)
	return cs.notices[len(cs.notices)-1]
}

func inst(t time.Time) edn.Value { return edn.Inst(t.UTC().Truncate(time.Millisecond)) }

// Released lets the capabilities of a plugin in again, through the ramp: an
// operator has seen to it.
func (t *StatsTable) Released(plugin string, now time.Time) {
	for _, cs := range t.sorted() {
		cs.release(plugin, now)
	}
}

func (cs *candidateStats) release(plugin string, now time.Time) {
	cs.mu.Lock()
	defer cs.unlock(now)
	if cs.plugin != plugin || cs.breaker.State(now) != breaker.Open {
		return
	}
	ejected := cs.breaker.Ejected(now)
	cs.breaker.Readmit(now)
	cs.remediation.renewed(now)
	if ejected {
		cs.note(now, EventReleased, edn.MustMap())
	}
}

// Standing is how a capability stands for an intent.
type Standing struct {
	Figures
	Intent, Plugin string
	MinPassRate    float64 // 0: nothing is asked
	Action         string  // what is done below it
	Acting         bool    // it is being done
	Why            string  // it is out
}

// Standings are all capabilities that were called, by intent.
func (t *StatsTable) Standings(now time.Time) []Standing {
	all := t.sorted()
	ejected := make([]Standing, len(all))
	for i, cs := range all {
		out[i] = Standing{Figures: cs.observed(now), Intent: cs.intent, Plugin: cs.currentPlugin()}
		cs.mu.Lock()
		ejected[i].MinPassRate, out[i].Action = cs.rules.MinPassRate.V, cs.rules.Action
		out[i].Acting, out[i].Why = cs.remediation.acting, cs.remediation.why
		cs.mu.Unlock()
	}
	slices.SortStableFunc(out, func(x, y Standing) int {
		return cmp.Or(cmp.Compare(x.Plugin, y.Plugin), cmp.Compare(x.CapID, y.CapID), cmp.Compare(x.Intent, y.Intent))
	})
	return out
}

// State is the standing in a word: ok, degraded, acting, or the state of a
// breaker that is not closed, which is out if that is for its answers.
func (s Standing) State() string {
	switch {
	case s.Out && s.Stead != "":
		return "swapped"
	case s.Out:
		return "out"
	case s.Acting:
		return "acting"
	case s.Degraded:
		return "degraded"
	case s.Breaker != breaker.Closed:
		return string(s.Breaker)
	}
	return "ok"
}

// Value is the standing as data.
func (s Standing) Value() edn.Value {
	v := s.Figures.Value().Merge(edn.MustMap(
		edn.K("cap/id"), journal.Keyword(s.CapID), edn.K("intent"), journal.Keyword(s.Intent), edn.K("state"), edn.K(s.State())))
	if s.MinPassRate > 0 {
		if floor, err := edn.ParseDecimal(formatShare(s.MinPassRate)); err == nil {
			v = v.AssocKey("min-pass-rate", floor).AssocKey("action", edn.K(s.Action))
		}
	}
	if s.Why != "" {
		v = v.AssocKey("why", edn.Text(s.Why))
	}
	return v
}

// Believe has the breaker of a judge agree with what was measured of it, without
// waiting for the next answer that it would grade: drift says why the judge must
// not be asked any more, empty if it may (JDG-011). The edition is that of the
// capability now.
func (t *StatsTable) Believe(judge string, c *registry.Capability, intent string, edition int, drift string, now time.Time) {
	cs := t.lookup(c.ID, intent)
	if drift == "" {
		if cs != nil {
			cs.clearDrift(now, judge)
		}
		return
	}
	if cs == nil { // its rules come with the first call
		cs = t.statsFor(c, intent, c.Breaker, c.Quality, now)
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, edition, c.Version)
	cs.tripForDrift(now, judge, drift)
}

// drifted leaves a judge alone that no longer agrees with labelled answers, until
// it is another edition or was calibrated again (JDG-011). It is called with the
// lock.
func (cs *candidateStats) tripForDrift(now time.Time, judge, why string) {
	if cs.drift != "" {
		return
	}
	cs.drift, cs.tripped = judge, contract.Errorf("judge/drift", ":%s is not asked as judge %s any more: %s", cs.capID, judge, why)
	cs.breaker.Trip(now, time.Time{})
	cs.notified = breaker.Open // the notice of the drift says so
	cs.note(now, EventDrift, edn.MustMap(edn.K("judge"), edn.Text(judge), edn.K("why"), edn.Text(why)))
}

// steady lets a judge in again that was left alone because it had drifted.
func (cs *candidateStats) clearDrift(now time.Time, judge string) {
	cs.mu.Lock()
	defer cs.unlock(now)
	if cs.drift == judge {
		cs.drift = ""
		cs.breaker.Reset(now)
	}
}
