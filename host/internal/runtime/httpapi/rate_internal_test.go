package httpapi

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
)

// AUTH-033: a bucket holds burst tokens and is refilled at its rate: within
// any time t it gives at most burst + rate x t, and a caller that waits the
// reported time gets one.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := config.Rate{Events: rapid.IntRange(1, 50).Draw(t, "events"), Per: time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second}
		burst := rapid.IntRange(1, 60).Draw(t, "burst")
		each := rate.Per / time.Duration(rate.Events)
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		now, given := begin, 0
		b := newBuckets()
		for range 200 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*each)).Draw(t, "pause")))
			wait, ok := b.take("a", now, rate, burst)
			if !ok {
				if wait <= 0 || wait > each {
					t.Fatalf("told to wait for %s where a token takes %s", wait, each)
				}
				now = now.Add(wait)
				if _, ok = b.take("a", now, rate, burst); !ok {
					t.Fatal("it waited as long as it was told, and got nothing")
				}
			}
			given++
			if most := burst + int(now.Sub(begin)/each); given > most {
				t.Fatalf("%d tokens in %s, %d at most", given, now.Sub(begin), most)
			}
		}
	})
}

// AUTH-033: the number of buckets is bounded, and the least recently used one
// is evicted.
func TestBucketsAreBounded(t *testing.T) {
	b := newBuckets()
	now := time.Now()
	rate := config.Rate{Events: 1, Per: time.Hour}
	take := func(name string) bool {
		_, ok := b.take(name, now, rate, 1)
		return ok
	}
	assert.True(t, take("busy"))
	for i := range 3 * maxBuckets {
		assert.True(t, take(fmt.Sprint(i)))
		if rand.IntN(100) == 0 || i%(maxBuckets/2) == 0 {
			assert.False(t, take("busy"), "it is not forgotten")
		}
	}
	assert.Equal(t, maxBuckets, b.order.Len())
	assert.Len(t, b.byName, maxBuckets)
}

// Addresses of one /64 network are one caller.
func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7",
		"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64", "::1": "::1", "@": "@",
	} {
		assert.Equal(t, want, network(address), address)
	}
}
