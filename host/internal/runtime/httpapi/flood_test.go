package httpapi_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// AUTH-002, AUTH-020, AUTH-033: a flood of 10,000 logins of accounts that do not exist, with
// hashes of the default cost, takes the bounded slots of hashes only: the p99 of acts with a
// token is at most 1.5 times that of a quiet host. Half of the logins come from one address,
// which has no more than two of its logins checked, the others from an address each. Quiet
// and flooded parts alternate, so that the rest of the machine disturbs both. The usual size
// shows that all acts are served.
func TestLoginFlood(t *testing.T) {
	const floods = 16
	logins, parts, acts := proof.Size(t, "logins of a flood", 200, 10_000), proof.Of(2, 10), proof.Of(20, 200)
	w := newWorld(t, strict, func(s *httpapi.Settings) {
		s.Identity.Basic.Memory, s.Identity.Basic.Time = proof.Of[uint32](64, 19<<10), 2
		s.Limits.Connections, s.Limits.PerAddress = 1000, 1000
		s.Limits.AnonymousRate = config.Rate{Events: 1, Per: 24 * time.Hour}
		s.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	w.user("ann")
	token, _ := w.token("ann", policy.Narrowing{})
	w.exec.Cycle("t/any").On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	act := func() time.Duration {
		begun := time.Now()
		require.Equal(t, 200, w.call("POST /v1/act", jsonAct("t/any", "{}"), "Authorization", token).status)
		return time.Since(begun)
	}
	act()
	var sent atomic.Int64
	const one, many = "one address", "many addresses"
	statuses := map[string]*sync.Map{one: {}, many: {}}
	flood := func(stop <-chan struct{}, of int) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		for {
			select {
			case <-stop:
				return
			default:
			}
			n := sent.Add(1)
			from, address := one, "192.0.2.1"
			if of%2 == 0 {
				from, address = many, fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
			}
			a := w.through(client, w.address, "GET /v1/whoami", "", "X-Forwarded-For", address,
				"Authorization", basic(fmt.Sprintf("guess-%d-%d", of, n), "a wrong password"))
			count, _ := statuses[from].LoadOrStore(a.status, new(atomic.Int64))
			count.(*atomic.Int64).Add(1)
		}
	}
	took := map[bool][]time.Duration{}
	for part := 0; part < parts || sent.Load() < int64(logins); part++ {
		for _, flooded := range []bool{false, true} {
			stop := make(chan struct{})
			var all sync.WaitGroup
			for i := range floods {
				if flooded {
					all.Go(func() { flood(stop, i) })
				}
			}
			for range acts {
				took[flooded] = append(took[flooded], act())
			}
			for flooded && sent.Load() < int64((part+1)*logins/parts) {
				took[flooded] = append(took[flooded], act())
			}
			close(stop)
			all.Wait()
		}
	}
	p99 := func(flooded bool) time.Duration {
		all := slices.Sorted(slices.Values(took[flooded]))
		return all[len(all)*99/100]
	}
	for from, counts := range statuses {
		checked := int64(0)
		counts.Range(func(status, count any) bool {
			n := count.(*atomic.Int64).Load()
			t.Logf("%s: status %d: %d logins", from, status, n)
			if status != http.StatusTooManyRequests {
				checked += n
			}
			return true
		})
		if from == one {
			assert.LessOrEqual(t, checked, int64(2), from)
		} else {
			assert.Greater(t, checked, int64(2), from)
		}
	}
	t.Logf("p99 of acts: quiet %s of %d, flooded %s of %d, ratio %.2f", p99(false), len(took[false]), p99(true), len(took[true]),
		float64(p99(true))/float64(p99(false)))
	if proof.Of(false, true) {
		assert.LessOrEqual(t, float64(p99(true)), 1.5*float64(p99(false)))
	}
}
