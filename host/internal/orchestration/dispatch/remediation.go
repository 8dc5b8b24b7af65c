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

// Remediator is an optional interface of an Executor that changes the plugin of
// a capability whose answers fail their gates (BRK-002). Its methods return
// without waiting for the change.
type Remediator interface {
	// Renew replaces the current edition of the plugin by another, after the trial
	// that its settings require. done is called once: with nil when the new edition
	// serves, or with the reason why the old one stays, which is ErrChanging if
	// another change of the plugin is running.
	Renew(capID string, done func(error))
	// Restart restarts the processes of the plugin.
	Restart(capID string) error
	// Quarantine takes the plugin out of service until the given time or until an
	// operator releases it.
	Quarantine(capID, why string, until time.Time) error
}

// ErrChanging reports that another change of the plugin is running.
var ErrChanging = errors.New("the plugin is being changed")

// remediationClaim is the last remediation of a plugin: a plugin with bad
// answers for two intents is swapped once.
type remediationClaim struct {
	at   time.Time
	busy bool
}

// claim reserves a plugin for a remediation. It returns false while another one
// is running and for breaker.ActionPause after its start.
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

// releaseClaim ends the claim. A remediation that changed nothing leaves no
// pause.
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

// remediation is one remediation of a capability, with the configuration under
// which it started.
type remediation struct {
	d      *Dispatcher
	stats  *candidateStats
	plugin string
	list   []string // candidates of the call
}

// remediate starts the configured remediation of a capability whose pass rate
// fell below its floor. Its immediate action is recorded in the run of the
// verdict.
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

// start decides on the action and starts it. ok is false if there is no notice:
// another remediation is running, or nothing can be done and that was reported
// before.
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

// substitute returns the configured substitute if it can serve, else "".
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

// serves reports whether a capability is available and its breaker admits
// calls.
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

// replace ejects the capability and lets the substitute serve.
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

// renew replaces the edition of the plugin. The old edition serves until then,
// and is ejected if the swap fails.
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

// renewed handles the end of a swap; why is the reason of the remediation.
func (r remediation) renewed(why string, err error) {
	now := r.d.Clock.Now()
	cs := r.stats
	cs.mu.Lock()
	if err == nil {
		cs.note(now, EventSwapped, edn.MustMap())
		cs.remediation.degraded = false
	} else {
		cs.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionSwap), edn.K("why"),
			edn.Text("the swap failed: "+contract.AsError(err).FullMessage())))
	}
	cs.unlock(now)
	if err == nil || errors.Is(err, ErrChanging) {
		r.finish(true)
		return
	}
	r.eject(now, false, why)
}

// restart restarts the processes of the plugin.
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
		cs.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionRestart), edn.K("why"),
			edn.Text("the restart failed: "+contract.AsError(err).FullMessage())))
	}
	return n
}

// eject ejects the capability if enough other candidates are left, and
// quarantines its plugin if all its capabilities are ejected. tried is the
// reason of a failed swap, which has emptied the window, else empty.
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
		n, ok = cs.notify(now, EventEject, remediationDetails(details, registry.ActionQuarantine, why).
			AssocKey("until", inst(until))), true
	} else if !cs.remediation.degraded {
		cs.remediation.degraded = true
		why += "; it stays, because too many candidates are ejected already or it is the last one"
		n, ok = cs.notify(now, EventCapReached, details.AssocKey("why", edn.Text(why))), true
	}
	cs.unlock(now)
	table.deciding.Unlock()
	if may {
		r.quarantine(now, why, until)
	}
	r.finish(may)
	return n, ok
}

// quarantine takes the plugin out of service if all its capabilities are
// ejected.
func (r remediation) quarantine(now time.Time, why string, until time.Time) {
	remediator, ok := r.d.Executor.(Remediator)
	if !ok || !r.allEjected(now) {
		return
	}
	err := remediator.Quarantine(r.stats.capID, why, until)
	r.stats.mu.Lock()
	defer r.stats.unlock(now)
	if err != nil {
		r.stats.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionQuarantine), edn.K("why"),
			edn.Text("the quarantine failed: "+contract.AsError(err).FullMessage())))
		return
	}
	r.stats.note(now, EventQuarantine, edn.MustMap(edn.K("until"), inst(until), edn.K("why"), edn.Text(why)))
}

// allEjected reports whether all capabilities of the plugin are ejected for all
// their intents.
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

// mayEject reports whether one more candidate of the intent may be ejected: the
// configured share limits the ejected ones, and the last available candidate
// stays (BRK-010).
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

// ejected reports whether the capability is ejected without a substitute.
func (cs *candidateStats) ejected(now time.Time) bool {
	cs.mu.Lock()
	defer cs.unlock(now)
	return cs.breaker.Ejected(now) && cs.remediation.substitute == ""
}

// currentPlugin returns the plugin that has the capability now.
func (cs *candidateStats) currentPlugin() string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.plugin
}

// finish ends the remediation; anything reports whether something was changed.
func (r remediation) finish(anything bool) {
	r.stats.mu.Lock()
	r.stats.remediation.acting = false
	r.stats.mu.Unlock()
	r.d.Stats.releaseClaim(r.plugin, anything)
}

// reason describes the pass rate. cs.mu must be held.
func (cs *candidateStats) reason() string {
	passes, samples := cs.window.Counts()
	return fmt.Sprintf("%d of the last %d answers passed their gates, %s of them should", passes, samples,
		formatShare(cs.rules.MinPassRate.V))
}

// remediationDetails are the details of the notice of a remediation.
func remediationDetails(rate edn.Value, action, why string) edn.Value {
	return rate.AssocKey("action", edn.K(action)).AssocKey("why", edn.Text(why))
}

// recordAction empties the window at the start of an action. cs.mu must be
// held.
func (cs *candidateStats) recordAction(now time.Time) {
	cs.window.RecordAction(now)
	cs.remediation.degraded = false
}

// eject opens the breaker because of quality. cs.mu must be held.
func (cs *candidateStats) eject(now time.Time, why string) (until time.Time) {
	until = cs.breaker.Eject(now)
	cs.remediation.renewed(now)
	cs.remediation.why = why
	cs.notified = breaker.Open // the notice of the ejection covers this state
	return until
}

// notify queues a notice and returns it. cs.mu must be held.
func (cs *candidateStats) notify(now time.Time, event string, details edn.Value) Notice {
	cs.note(now, event, details)
	return cs.notices[len(cs.notices)-1]
}

func inst(t time.Time) edn.Value { return edn.Inst(t.UTC().Truncate(time.Millisecond)) }

// Released readmits the capabilities of a plugin through the ramp after an
// operator released it.
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

// Standing is the status of a capability for an intent.
type Standing struct {
	Figures
	Intent, Plugin string
	MinPassRate    float64 // 0: no floor
	Action         string  // remediation below the floor
	Acting         bool    // the remediation is running
	Why            string  // why it is ejected
}

// Standings returns all capabilities that were called, sorted by plugin,
// capability and intent.
func (t *StatsTable) Standings(now time.Time) []Standing {
	all := t.sorted()
	out := make([]Standing, len(all))
	for i, cs := range all {
		out[i] = Standing{Figures: cs.observed(now), Intent: cs.intent, Plugin: cs.currentPlugin()}
		cs.mu.Lock()
		out[i].MinPassRate, out[i].Action = cs.rules.MinPassRate.V, cs.rules.Action
		out[i].Acting, out[i].Why = cs.remediation.acting, cs.remediation.why
		cs.mu.Unlock()
	}
	slices.SortStableFunc(out, func(x, y Standing) int {
		return cmp.Or(cmp.Compare(x.Plugin, y.Plugin), cmp.Compare(x.CapID, y.CapID), cmp.Compare(x.Intent, y.Intent))
	})
	return out
}

// State returns the status in a word: ok, degraded, acting, out or swapped
// after an ejection, or the state of a breaker that is not closed.
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

// Value returns the standing as data.
func (s Standing) Value() edn.Value {
	v := s.Figures.Value().Merge(edn.MustMap(
		edn.K("cap/id"), journal.Keyword(s.CapID),
		edn.K("intent"), journal.Keyword(s.Intent),
		edn.K("state"), edn.K(s.State())))
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

// Believe applies a measurement of a judge to its breaker at once, before the
// next answer is graded: drift is the reason why the judge must not be called,
// empty if it may (JDG-011). edition is the current one of the capability.
func (t *StatsTable) Believe(judge string, c *registry.Capability, intent string, edition int, drift string,
	now time.Time) {
	cs := t.lookup(c.ID, intent)
	if drift == "" {
		if cs != nil {
			cs.clearDrift(now, judge)
		}
		return
	}
	if cs == nil { // settings come with the first call
		cs = t.statsFor(c, intent, c.Breaker, c.Quality, now)
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, edition, c.Version)
	cs.tripForDrift(now, judge, drift)
}

// tripForDrift opens the breaker of a judge that no longer agrees with labelled
// answers, until it is another edition or was calibrated again (JDG-011). cs.mu
// must be held.
func (cs *candidateStats) tripForDrift(now time.Time, judge, why string) {
	if cs.drift != "" {
		return
	}
	cs.drift, cs.tripped = judge, contract.Errorf("judge/drift", ":%s is not asked as judge %s any more: %s",
		cs.capID, judge, why)
	cs.breaker.Trip(now, time.Time{})
	cs.notified = breaker.Open // the drift notice covers this state
	cs.note(now, EventDrift, edn.MustMap(edn.K("judge"), edn.Text(judge), edn.K("why"), edn.Text(why)))
}

// clearDrift closes the breaker that was opened for the drift of the judge.
func (cs *candidateStats) clearDrift(now time.Time, judge string) {
	cs.mu.Lock()
	defer cs.unlock(now)
	if cs.drift == judge {
		cs.drift = ""
		cs.breaker.Reset(now)
	}
}
