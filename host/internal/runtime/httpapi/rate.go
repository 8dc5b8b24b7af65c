package httpapi

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxBuckets is the maximum number of buckets. The least recently used one is evicted; its caller
// starts with a full bucket again.
const maxBuckets = 4096

// buckets holds the token buckets of the callers (AUTH-033). A bucket stores only the time at which
// it will be full again, so it needs no timer.
type buckets struct {
	mu     sync.Mutex
	byName map[string]*list.Element
	order  *list.List // of *bucket, most recently used first
}

type bucket struct {
	name string
	full time.Time
}

func newBuckets() *buckets { return &buckets{byName: map[string]*list.Element{}, order: list.New()} }

// take removes a token from the bucket of a caller, which holds burst tokens and is refilled at
// rate. If it is empty, ok is false and wait is the time until the next token.
func (b *buckets) take(name string, now time.Time, rate config.Rate, burst int) (wait time.Duration, ok bool) {
	if rate.Events <= 0 || rate.Per <= 0 {
		return 0, true // unlimited
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

// of returns the bucket of a caller. The caller of of holds mu.
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

// checkRate enforces the rate limits. A principal has one bucket per operation; requests without a
// valid identity share the bucket of their address. Rejected requests count too. The admin socket
// and the probe routes are exempt, because they must work during a flood.
func (x *exchange) checkRate(refused *contract.Error) *contract.Error {
	if x.via.admin || x.route.early {
		x.counted = refused == nil
		return refused
	}
	err := (*contract.Error)(nil)
	if limits := x.settings.Limits; refused != nil || x.route.Operation == OpOpen {
		err = x.checkUnverified()
	} else {
		name := string(x.route.Operation) + " " + x.who.Name
		if x.who.Type == Anonymous {
			name += " " + network(x.client())
		}
		err = x.take(name, limits.ActRate, limits.ActBurst)
	}
	if err != nil {
		return err
	}
	x.counted = refused == nil || refused.Type != "auth/rate-limited"
	return refused
}

// checkUnverified takes a token from the bucket of the caller's address, once per request, for a
// request without a credential or with one whose check needs a hash.
func (x *exchange) checkUnverified() *contract.Error {
	if x.unverified {
		return nil
	}
	rate := x.settings.Limits.AnonymousRate
	err := x.take("any "+network(x.client()), rate, 2*rate.Events)
	x.unverified = err == nil
	return err
}

// take removes a token from a bucket. The error of an empty bucket has the time until the next
// token.
func (x *exchange) take(name string, rate config.Rate, burst int) *contract.Error {
	wait, ok := x.api.buckets.take(name, time.Now(), rate, burst)
	if ok {
		return nil
	}
	return rateLimited(rate, wait)
}

func rateLimited(rate config.Rate, wait time.Duration) *contract.Error {
	return contract.Errorf("auth/rate-limited", "more requests than the limit of %d in %s", rate.Events, rate.Per).
		WithDetail("retry-after-ms", edn.Int((wait + time.Millisecond - 1).Milliseconds()))
}

// network returns the origin of a request for rate limits: the IPv4 address, or the /64 prefix of
// an IPv6 address.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() && !ip.IsLoopback() {
		if site, err := ip.Prefix(64); err == nil {
			return site.String()
		}
	}
	return ip.String()
}
