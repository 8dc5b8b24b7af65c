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
type Keeper interface {
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
type deed struct {
	at   time.Time
	busy bool
}

// begin claims a plugin for a deed. It is refused while another one goes on and
// for a while after it.
func (b *Book) begin(plugin string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deeds == nil {
		b.deeds = map[string]*deed{}
	}
	d := b.deeds[plugin]
	if d != nil && (d.busy || now.Sub(d.at) < breaker.ActionPause) {
		return false
	}
	b.deeds[plugin] = &deed{at: now, busy: true}
	return true
}

// end gives a plugin back. A deed that did nothing leaves no pause behind.
func (b *Book) end(plugin string, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !done {
		delete(b.deeds, plugin)
		return
	}
	if d := b.deeds[plugin]; d != nil {
		d.busy = false
	}
}

// ward is a capability about which something has to be done, with the
// configuration under which that was found.
type ward struct {
	d      *Dispatcher
	p      *page
	plugin string
	list   []string // who else may serve
}

// act does what the operator wants done about a capability whose answers fell
// below their floor. What is done at once is recorded with the run in which it
// showed.
func (o *operation) act(v sample) {
	w := ward{d: o.d, p: v.page, plugin: v.page.owner(), list: o.w.Terms.static.Accepted}
	n, ok := w.act(o.d.Clock.Now())
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
func (w ward) act(now time.Time) (n Notice, ok bool) {
	p, book := w.p, w.d.Book
	if !book.begin(w.plugin, now) {
		p.mu.Lock()
		p.standing.acting = false
		p.mu.Unlock()
		return n, false
	}
	keeper, _ := w.d.Executor.(Keeper)
	p.mu.Lock()
	action, third := p.rules.Action, p.window.Third(now)
	p.mu.Unlock()
	if third {
		action = registry.ActionQuarantine
	}
	switch {
	case action == registry.ActionSwap:
		if to := w.substitute(now); to != "" {
			return w.replace(now, to), true
		}
		if keeper != nil {
			return w.renew(now, keeper), true
		}
	case action == registry.ActionRestart && keeper != nil:
		return w.restart(now, keeper), true
	}
	return w.leaveOut(now, third, "")
}

// substitute is the capability that is to take the place, if it can.
func (w ward) substitute(now time.Time) string {
	to := w.p.rules.SwapTo
	if to == "" || to == w.p.capID {
		return ""
	}
	c, ok := w.d.Registry.Capability(to)
	if !ok || !c.Serves(w.p.intent) || !w.serves(to, now) {
		return ""
	}
	return to
}

// serves tells whether a capability can be called now and is not left out.
func (w ward) serves(capID string, now time.Time) bool {
	if w.d.available(capID).Reason != "" {
		return false
	}
	p := w.d.Book.known(capID, w.p.intent)
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.unlock(now)
	return p.breaker.Admits(now)
}

// replace leaves the capability out and lets another one serve in its place.
func (w ward) replace(now time.Time, to string) Notice {
	defer w.done(true)
	p := w.p
	p.mu.Lock()
	defer p.unlock(now)
	why := p.below()
	details := said(p.rate(), registry.ActionSwap, why)
	p.begun(now)
	until := p.eject(now, why)
	p.standing.stead = to
	return p.tell(now, EventSwap, details.AssocKey("to", journal.Keyword(to)).AssocKey("until", inst(until)))
}

// renew puts another edition in the place of the one that answers. The old one
// answers until then, and is left out if there is no better one.
func (w ward) renew(now time.Time, keeper Keeper) Notice {
	p := w.p
	p.mu.Lock()
	why := p.below()
	n := p.tell(now, EventSwap, said(p.rate(), registry.ActionSwap, why))
	p.begun(now)
	p.unlock(now)
	keeper.Renew(p.capID, func(err error) { w.renewed(why, err) })
	return n
}

// renewed is told how a swap ended that was begun for that reason.
func (w ward) renewed(why string, err error) {
	now := w.d.Clock.Now()
	p := w.p
	p.mu.Lock()
	if err == nil {
		p.note(now, EventSwapped, edn.MustMap())
		p.standing.degraded = false
	} else {
		p.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionSwap), edn.K("why"), edn.Text("the swap did not come about: "+contract.AsError(err).FullMessage())))
	}
	p.unlock(now)
	if err == nil || errors.Is(err, ErrChanging) {
		w.done(true)
		return
	}
	w.leaveOut(now, false, why)
}

// restart starts the processes anew.
func (w ward) restart(now time.Time, keeper Keeper) Notice {
	defer w.done(true)
	p := w.p
	err := keeper.Restart(p.capID)
	p.mu.Lock()
	defer p.unlock(now)
	n := p.tell(now, EventRestart, said(p.rate(), registry.ActionRestart, p.below()))
	p.begun(now)
	p.standing.renewed(now)
	if err != nil {
		p.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionRestart), edn.K("why"), edn.Text("the restart did not come about: "+contract.AsError(err).FullMessage())))
	}
	return n
}

// leaveOut ejects the capability, if enough others are left. The process goes
// out of service with it if nothing that it serves is in any more. The reason is
// empty unless something was tried before, which has emptied the window.
func (w ward) leaveOut(now time.Time, third bool, tried string) (n Notice, ok bool) {
	p, book := w.p, w.d.Book
	book.deciding.Lock()
	may := w.mayLeave(now)
	var until time.Time
	p.mu.Lock()
	why, details := tried, p.rate()
	if tried == "" {
		why = p.below()
	}
	if third {
		why += "; it is the third time within " + breaker.ActionSpan.String()
	}
	if may {
		if tried == "" {
			p.begun(now)
		}
		until = p.eject(now, why)
		p.standing.stead = ""
		n, ok = p.tell(now, EventEject, said(details, registry.ActionQuarantine, why).AssocKey("until", inst(until))), true
	} else if !p.standing.degraded {
		p.standing.degraded = true
		n, ok = p.tell(now, EventCapReached, details.AssocKey("why", edn.Text(why+"; it stays, because too many of those who serve are left out already or it is the last"))), true
	}
	p.unlock(now)
	book.deciding.Unlock()
	if may {
		w.quarantine(now, why, until)
	}
	w.done(may)
	return n, ok
}

// quarantine takes the plugin out of service if all that it serves is out.
func (w ward) quarantine(now time.Time, why string, until time.Time) {
	keeper, ok := w.d.Executor.(Keeper)
	if !ok || !w.alone(now) {
		return
	}
	err := keeper.Quarantine(w.p.capID, why, until)
	w.p.mu.Lock()
	defer w.p.unlock(now)
	if err != nil {
		w.p.note(now, EventFailed, edn.MustMap(edn.K("action"), edn.K(registry.ActionQuarantine), edn.K("why"), edn.Text("the quarantine did not come about: "+contract.AsError(err).FullMessage())))
		return
	}
	w.p.note(now, EventQuarantine, edn.MustMap(edn.K("until"), inst(until), edn.K("why"), edn.Text(why)))
}

// alone tells whether everything that the plugin serves is left out.
func (w ward) alone(now time.Time) bool {
	reg := w.d.Registry
	for _, intent := range reg.Intents() {
		for _, id := range reg.Serving(intent) {
			if c, ok := reg.Capability(id); !ok || c.Plugin != w.plugin {
				continue
			}
			p := w.d.Book.known(id, intent)
			if p == nil || !p.out(now) {
				return false
			}
		}
	}
	return true
}

// mayLeave tells whether one more candidate of the intent may be left out: so
// many and no more, and never the last one that can be called (BRK-010).
func (w ward) mayLeave(now time.Time) bool {
	ids := slices.Clone(w.d.Registry.Candidates(w.p.intent))
	for _, id := range w.list {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	out, others := 0, 0
	for _, id := range ids {
		if id == w.p.capID {
			continue
		}
		if p := w.d.Book.known(id, w.p.intent); p != nil && p.out(now) {
			out++
		} else if w.serves(id, now) {
			others++
		}
	}
	most := int(math.Floor(w.p.rules.MaxEjected.V*float64(len(ids)) + 1e-9))
	return others > 0 && out < most
}

// out tells whether the capability is left out because of its answers and
// nobody was put in its place.
func (p *page) out(now time.Time) bool {
	p.mu.Lock()
	defer p.unlock(now)
	return p.breaker.Ejected(now) && p.standing.stead == ""
}

// owner is the plugin that has the capability now.
func (p *page) owner() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plugin
}

// done says that nothing is being done any more.
func (w ward) done(anything bool) {
	w.p.mu.Lock()
	w.p.standing.acting = false
	w.p.mu.Unlock()
	w.d.Book.end(w.plugin, anything)
}

// below says in words how bad it is. It is called with the lock.
func (p *page) below() string {
	passes, samples := p.window.Counts()
	return fmt.Sprintf("%d of the last %d answers passed their gates, %s of them should", passes, samples, formatShare(p.rules.MinPassRate.V))
}

// said is what is told of a deed.
func said(rate edn.Value, action, why string) edn.Value {
	return rate.AssocKey("action", edn.K(action)).AssocKey("why", edn.Text(why))
}

// begun empties the window, because something is being done. It is called with
// the lock.
func (p *page) begun(now time.Time) {
	p.window.Acted(now)
	p.standing.degraded = false
}

// eject opens the breaker because of the answers. It is called with the lock.
func (p *page) eject(now time.Time, why string) (until time.Time) {
	until = p.breaker.Eject(now)
	p.standing.renewed(now)
	p.standing.why = why
	p.told = breaker.Open // the notice of the deed says so
	return until
}

// tell is note for what is given back too. It is called with the lock.
func (p *page) tell(now time.Time, event string, details edn.Value) Notice {
	p.note(now, event, details)
	return p.news[len(p.news)-1]
}

func inst(t time.Time) edn.Value { return edn.Inst(t.UTC().Truncate(time.Millisecond)) }

// Released lets the capabilities of a plugin in again, through the ramp: an
// operator has seen to it.
func (b *Book) Released(plugin string, now time.Time) {
	for _, p := range b.all() {
		p.release(plugin, now)
	}
}

func (p *page) release(plugin string, now time.Time) {
	p.mu.Lock()
	defer p.unlock(now)
	if p.plugin != plugin || p.breaker.State(now) != breaker.Open {
		return
	}
	ejected := p.breaker.Ejected(now)
	p.breaker.Readmit(now)
	p.standing.renewed(now)
	if ejected {
		p.note(now, EventReleased, edn.MustMap())
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
func (b *Book) Standings(now time.Time) []Standing {
	pages := b.all()
	out := make([]Standing, len(pages))
	for i, p := range pages {
		out[i] = Standing{Figures: p.seen(now), Intent: p.intent, Plugin: p.owner()}
		p.mu.Lock()
		out[i].MinPassRate, out[i].Action = p.rules.MinPassRate.V, p.rules.Action
		out[i].Acting, out[i].Why = p.standing.acting, p.standing.why
		p.mu.Unlock()
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
func (b *Book) Believe(judge string, c *registry.Capability, intent string, edition int, drift string, now time.Time) {
	p := b.known(c.ID, intent)
	if drift == "" {
		if p != nil {
			p.steady(now, judge)
		}
		return
	}
	if p == nil { // its rules come with the first call
		p = b.page(c, intent, c.Breaker, c.Quality, now)
	}
	p.mu.Lock()
	defer p.unlock(now)
	p.meet(now, edition, c.Version)
	p.drifted(now, judge, drift)
}

// drifted leaves a judge alone that no longer agrees with labelled answers, until
// it is another edition or was calibrated again (JDG-011). It is called with the
// lock.
func (p *page) drifted(now time.Time, judge, why string) {
	if p.drift != "" {
		return
	}
	p.drift, p.tripped = judge, contract.Errorf("judge/drift", ":%s is not asked as judge %s any more: %s", p.capID, judge, why)
	p.breaker.Trip(now, time.Time{})
	p.told = breaker.Open // the notice of the drift says so
	p.note(now, EventDrift, edn.MustMap(edn.K("judge"), edn.Text(judge), edn.K("why"), edn.Text(why)))
}

// steady lets a judge in again that was left alone because it had drifted.
func (p *page) steady(now time.Time, judge string) {
	p.mu.Lock()
	defer p.unlock(now)
	if p.drift == judge {
		p.drift = ""
		p.breaker.Reset(now)
	}
}
