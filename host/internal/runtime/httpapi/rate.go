package httpapi

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxBuckets is how many callers are told apart. Whoever has been quiet for
// longest is forgotten first, which gives him a full bucket again.
const maxBuckets = 4096

// buckets are the token buckets of the callers (AUTH-033). A bucket is one
// instant, at which it is full again: no timer fills it.
type buckets struct {
	mu     sync.Mutex
	byName map[string]*list.Element
	order  *list.List // of *bucket, the most recently used in front
}

type bucket struct {
	name string
	full time.Time
}

func newBuckets() *buckets { return &buckets{byName: map[string]*list.Element{}, order: list.New()} }

// take takes a token from the bucket of a caller, which holds burst of them and
// gets new ones at a rate. Without one it says how long the next takes.
func (b *buckets) take(name string, now time.Time, rate config.Rate, burst int) (wait time.Duration, ok bool) {
	if rate.Events <= 0 || rate.Per <= 0 {
		return 0, true // nothing was said
	}
	each := rate.Per / time.Duration(rate.Events)
	b.mu.Lock()
	defer b.mu.Unlock()
	here := b.of(name)
	full := here.full
	if full.Before(now) {
		full = now
	}
	full = full.Add(each)
	if over := full.Sub(now) - each*time.Duration(max(1, burst)); over > 0 {
		return over, false
	}
	here.full = full
	return 0, true
}

// of needs mu.
func (b *buckets) of(name string) *bucket {
	if e, ok := b.byName[name]; ok {
		b.order.MoveToFront(e)
		return e.Value.(*bucket)
	}
	if b.order.Len() >= maxBuckets {
		last := b.order.Back()
		delete(b.byName, last.Value.(*bucket).name)
		b.order.Remove(last)
	}
	fresh := &bucket{name: name}
	b.byName[name] = b.order.PushFront(fresh)
	return fresh
}

// checkRate holds callers to their buckets. The acts of a principal have one,
// everything else that an address asks for has another; who is refused for what
// he is pays too. Nobody counts an operator on the admin socket, nor the probes
// of whoever watches the daemon: both have to get through a flood of others.
func (x *exchange) checkRate(refused *contract.Error) *contract.Error {
	if x.via.admin || x.route.early {
		return refused
	}
	limits, caller := x.settings.Limits, network(x.r)
	name, rate, burst := "any "+caller, limits.AnonymousRate, 2*limits.AnonymousRate.Events
	if refused == nil && x.route.Operation == OpAct {
		name, rate, burst = "act "+x.who.Name, limits.ActRate, limits.ActBurst
		if x.who.Type == anonymous {
			name += " " + caller
		}
	}
	wait, ok := x.api.buckets.take(name, time.Now(), rate, burst)
	if ok {
		return refused
	}
	return contract.Errorf("auth/rate-limited", "more requests than the limit of %d in %s", rate.Events, rate.Per).
		WithDetail("retry-after-ms", edn.Int((wait + time.Millisecond - 1).Milliseconds()))
}

// network is whom a request comes from, as far as limits go: an address, or
// the part of an IPv6 address that one site has.
func network(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() && !ip.IsLoopback() {
		if site, err := ip.Prefix(64); err == nil {
			return site.String()
		}
	}
	return ip.String()
}
