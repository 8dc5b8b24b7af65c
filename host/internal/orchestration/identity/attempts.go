package identity

import (
	"strings"
	"sync"
	"time"
)

// maxTallies bounds the counters of failed logins of each kind.
const maxTallies = 4096

// attempts counts failed logins. It is safe for concurrent use.
type attempts struct {
	mu       sync.Mutex
	pairs    tallies // by account and network
	accounts tallies // over all networks
}

// tally is one counter. It loses one failure per period; this is computed when it is read.
type tally struct {
	fails int
	from  time.Time // of the current period
	used  time.Time
	until time.Time // logins are rejected until then
}

type tallies map[string]*tally

// at returns the counter of a name with its current failures, and creates it if missing.
func (all tallies) at(name string, now time.Time, forgive time.Duration) *tally {
	t := all[name]
	if t == nil {
		all.makeRoom(now)
		t = &tally{from: now}
		all[name] = t
	}
	t.used = now
	if n := int(now.Sub(t.from) / forgive); n > 0 {
		t.fails, t.from = max(0, t.fails-n), t.from.Add(time.Duration(n)*forgive)
	}
	return t
}

// makeRoom drops a counter if there are maxTallies: the least recently used one that has no
// lock in force, because dropping a lock would let a caller end it early. If all have one,
// it drops the one whose lock ends first.
func (all tallies) makeRoom(now time.Time) {
	if len(all) < maxTallies {
		return
	}
	drop, least := "", (*tally)(nil)
	for name, t := range all {
		if least == nil || t.before(least, now) {
			drop, least = name, t
		}
	}
	delete(all, drop)
}

// before reports whether t should be dropped rather than o.
func (t *tally) before(o *tally, now time.Time) bool {
	switch locked, other := t.until.After(now), o.until.After(now); {
	case locked != other:
		return other
	case locked:
		return t.until.Before(o.until)
	}
	return t.used.Before(o.used)
}

func newAttempts() *attempts { return &attempts{pairs: tallies{}, accounts: tallies{}} }

func pairOf(login, network string) string { return login + "\x00" + network }

// check returns the time for which logins to an account from a network are still rejected,
// else the delay of this login.
func (a *attempts) check(login, network string, now time.Time, l Locks) (locked, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.pairs[pairOf(login, network)]; t != nil && t.until.After(now) {
		return t.until.Sub(now), 0
	}
	if t := a.accounts[login]; t != nil {
		t = a.accounts.at(login, now, l.Forgive)
		delay = delayAfter(t.fails, l.MaxDelay)
	}
	return 0, delay
}

// firstDelay is the delay after one failure. It doubles with every further one.
const firstDelay = 25 * time.Millisecond

func delayAfter(fails int, most time.Duration) time.Duration {
	if fails == 0 {
		return 0
	}
	return min(most, firstDelay<<min(fails-1, 20))
}

// failed counts a failed login, and locks the pair of account and network when it reaches
// its limit.
func (a *attempts) failed(login, network string, strong bool, now time.Time, l Locks) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.accounts.at(login, now, l.Forgive).fails++
	t := a.pairs.at(pairOf(login, network), now, l.Forgive)
	t.fails++
	most, window := l.Max, l.Window
	if strong {
		most, window = l.StrongMax, l.StrongWindow
	}
	if t.fails >= most {
		t.fails, t.until = 0, now.Add(window)
	}
}

// forget drops the counter of an account over all networks and its counter for one network;
// an empty network means each of them.
func (a *attempts) forget(login, network string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.accounts, login)
	if network != "" {
		delete(a.pairs, pairOf(login, network))
		return
	}
	prefix := pairOf(login, "")
	for name := range a.pairs {
		if strings.HasPrefix(name, prefix) {
			delete(a.pairs, name)
		}
	}
}
