package stats

import (
	"errors"
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

// claim is the last remediation of a plugin: a plugin with bad answers for two
// intents is swapped once.
type claim struct {
	at   time.Time
	busy bool
}

// claim reserves a plugin for a remediation. It returns false while another one
// is running and for breaker.ActionPause after its start.
func (t *Table) claim(plugin string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claims == nil {
		t.claims = map[string]*claim{}
	}
	d := t.claims[plugin]
	if d != nil && (d.busy || now.Sub(d.at) < breaker.ActionPause) {
		return false
	}
	t.claims[plugin] = &claim{at: now, busy: true}
	return true
}

// releaseClaim ends the claim. A remediation that changed nothing leaves no
// pause.
func (t *Table) releaseClaim(plugin string, done bool) {
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

// Remediation is one remediation of a capability, with the configuration under
// which it started: calls with other rules may come meanwhile.
type Remediation struct {
	Registry *registry.Registry
	Now      func() time.Time
	// Available reports whether a capability can take a call now.
	Available  func(capID string) bool
	Remediator Remediator // nil: plugins cannot be changed
	Candidate  *Candidate
	List       []string // candidates of the call

	plugin string
	rules  registry.Quality
}

// Start selects the action and starts it, after Sample.Add returned true. It returns the
// notice of the action, which the Table has delivered, too. ok is false if there is
// nothing to report: another remediation of the plugin runs or has just run, or none is
// possible and that was reported before.
func (r Remediation) Start() (n Notice, ok bool) {
	cs, now := r.Candidate, r.Now()
	cs.mu.Lock()
	r.plugin, r.rules = cs.plugin, cs.health.rules
	cs.mu.Unlock()
	if !cs.table.claim(r.plugin, now) {
		cs.mu.Lock()
		cs.health.acting = false
		cs.mu.Unlock()
		return n, false
	}
	cs.mu.Lock()
	action, third := r.rules.Action, cs.health.window.IsThirdAction(now)
	cs.mu.Unlock()
	if third {
		action = registry.ActionQuarantine
	}
	switch {
	case action == registry.ActionSwap:
		if to := r.substitute(now); to != "" {
			return r.replace(now, to), true
		}
		if r.Remediator != nil {
			return r.renew(now), true
		}
	case action == registry.ActionRestart && r.Remediator != nil:
		return r.restart(now), true
	}
	return r.eject(now, third, "")
}

// substitute returns the configured substitute if it can serve, else "".
func (r Remediation) substitute(now time.Time) string {
	to := r.rules.SwapTo
	if to == "" || to == r.Candidate.capID {
		return ""
	}
	c, ok := r.Registry.Capability(to)
	if !ok || !c.Serves(r.Candidate.intent) || !r.serves(to, now) {
		return ""
	}
	return to
}

// serves reports whether a capability is available and its breaker admits
// calls.
func (r Remediation) serves(capID string, now time.Time) bool {
	if !r.Available(capID) {
		return false
	}
	cs := r.Candidate.table.lookup(capID, r.Candidate.intent)
	return cs == nil || cs.Admits(now)
}

// replace ejects the capability and lets the substitute serve.
func (r Remediation) replace(now time.Time, to string) Notice {
	defer r.finish(true)
	cs := r.Candidate
	cs.mu.Lock()
	defer cs.unlock(now)
	why := cs.health.reason()
	details := remediationDetails(cs.health.rate(), registry.ActionSwap, why)
	cs.health.recordAction(now)
	until := cs.eject(now, why)
	cs.health.substitute = to
	return cs.note(now, EventSwap, details.AssocKey("to", journal.Keyword(to)).AssocKey("until", inst(until)))
}

// renew replaces the edition of the plugin. The old edition serves until then,
// and is ejected if the swap fails.
func (r Remediation) renew(now time.Time) Notice {
	cs := r.Candidate
	cs.mu.Lock()
	why := cs.health.reason()
	n := cs.note(now, EventSwap, remediationDetails(cs.health.rate(), registry.ActionSwap, why))
	cs.health.recordAction(now)
	cs.unlock(now)
	r.Remediator.Renew(cs.capID, func(err error) { r.renewed(why, err) })
	return n
}

// renewed handles the end of a swap; why is the reason of the remediation.
func (r Remediation) renewed(why string, err error) {
	now := r.Now()
	cs := r.Candidate
	cs.mu.Lock()
	if err == nil {
		cs.note(now, EventSwapped, edn.MustMap())
		cs.health.degraded = false
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
func (r Remediation) restart(now time.Time) Notice {
	defer r.finish(true)
	cs := r.Candidate
	err := r.Remediator.Restart(cs.capID)
	cs.mu.Lock()
	defer cs.unlock(now)
	n := cs.note(now, EventRestart, remediationDetails(cs.health.rate(), registry.ActionRestart, cs.health.reason()))
	cs.health.recordAction(now)
	cs.health.renewed(now)
	if err != nil {
		cs.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionRestart), edn.K("why"),
			edn.Text("the restart failed: "+contract.AsError(err).FullMessage())))
	}
	return n
}

// eject ejects the capability if enough other candidates are left, and
// quarantines its plugin if all its capabilities are ejected. tried is the
// reason of a failed swap, which has emptied the window, else empty.
func (r Remediation) eject(now time.Time, third bool, tried string) (n Notice, ok bool) {
	cs, table := r.Candidate, r.Candidate.table
	table.deciding.Lock()
	may := r.mayEject(now)
	var until time.Time
	cs.mu.Lock()
	why, details := tried, cs.health.rate()
	if tried == "" {
		why = cs.health.reason()
	}
	if third {
		why += "; it is the third time within " + breaker.ActionSpan.String()
	}
	if may {
		if tried == "" {
			cs.health.recordAction(now)
		}
		until = cs.eject(now, why)
		cs.health.substitute = ""
		n, ok = cs.note(now, EventEject, remediationDetails(details, registry.ActionQuarantine, why).
			AssocKey("until", inst(until))), true
	} else if !cs.health.degraded {
		cs.health.degraded = true
		why += "; it stays, because too many candidates are ejected already or it is the last one"
		n, ok = cs.note(now, EventCapReached, details.AssocKey("why", edn.Text(why))), true
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
func (r Remediation) quarantine(now time.Time, why string, until time.Time) {
	if r.Remediator == nil || !r.allEjected(now) {
		return
	}
	err := r.Remediator.Quarantine(r.Candidate.capID, why, until)
	r.Candidate.mu.Lock()
	defer r.Candidate.unlock(now)
	if err != nil {
		r.Candidate.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionQuarantine), edn.K("why"),
			edn.Text("the quarantine failed: "+contract.AsError(err).FullMessage())))
		return
	}
	r.Candidate.note(now, EventQuarantine, edn.MustMap(edn.K("until"), inst(until), edn.K("why"), edn.Text(why)))
}

// allEjected reports whether all capabilities of the plugin are ejected for all
// their intents.
func (r Remediation) allEjected(now time.Time) bool {
	reg := r.Registry
	for _, intent := range reg.Intents() {
		for _, id := range reg.Serving(intent) {
			if c, ok := reg.Capability(id); !ok || c.Plugin != r.plugin {
				continue
			}
			cs := r.Candidate.table.lookup(id, intent)
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
func (r Remediation) mayEject(now time.Time) bool {
	ids := slices.Clone(r.Registry.Candidates(r.Candidate.intent))
	for _, id := range r.List {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	out, others := 0, 0
	for _, id := range ids {
		if id == r.Candidate.capID {
			continue
		}
		if cs := r.Candidate.table.lookup(id, r.Candidate.intent); cs != nil && cs.ejected(now) {
			out++
		} else if r.serves(id, now) {
			others++
		}
	}
	most := int(math.Floor(r.rules.MaxEjected.V*float64(len(ids)) + 1e-9))
	return others > 0 && out < most
}

// ejected reports whether the capability is ejected without a substitute.
func (cs *Candidate) ejected(now time.Time) bool {
	cs.mu.Lock()
	defer cs.unlock(now)
	return cs.breaker.Ejected(now) && cs.health.substitute == ""
}

// finish ends the remediation; anything reports whether something was changed.
func (r Remediation) finish(anything bool) {
	r.Candidate.mu.Lock()
	r.Candidate.health.acting = false
	r.Candidate.mu.Unlock()
	r.Candidate.table.releaseClaim(r.plugin, anything)
}

// remediationDetails are the details of the notice of a remediation.
func remediationDetails(rate edn.Value, action, why string) edn.Value {
	return rate.AssocKey("action", edn.K(action)).AssocKey("why", edn.Text(why))
}

// reset closes the breaker by order of an operator.
func (cs *Candidate) reset(now time.Time) {
	cs.mu.Lock()
	defer cs.unlock(now)
	ejected := cs.breaker.Ejected(now)
	cs.headroom.Store(nil)
	cs.breaker.Reset(now)
	cs.health.renewed(now)
	if ejected {
		cs.note(now, EventReleased, edn.MustMap())
	}
}

// release readmits the capability after an operator released its plugin.
func (cs *Candidate) release(plugin string, now time.Time) {
	cs.mu.Lock()
	defer cs.unlock(now)
	if cs.plugin != plugin || cs.breaker.State(now) != breaker.Open {
		return
	}
	ejected := cs.breaker.Ejected(now)
	cs.breaker.Readmit(now)
	cs.health.renewed(now)
	if ejected {
		cs.note(now, EventReleased, edn.MustMap())
	}
}
