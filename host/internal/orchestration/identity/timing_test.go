package identity_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// AUTH-002: from the time that a login takes, a caller cannot tell whether the account
// exists or is locked. The logins are interleaved, so that noise of the machine meets all
// alike. apart is the probability that a login of one kind takes longer than one of
// another, whose expectation is 1/2; with n samples of each its standard deviation is
// sqrt((2n+1)/12n^2), and the limit of the full size is 3.9 of them. The usual size has
// cheaper hashes and finds only a login without one: a busy machine cannot fail it.
func TestLoginsTakeTheSameTime(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	w.set.Basic.Memory, w.set.Basic.Time = proof.Of[uint32](8<<10, 19<<10), 2
	w.set.Locks = identity.Locks{StrongMax: math.MaxInt, Max: math.MaxInt, Forgive: time.Nanosecond}
	w.add("known", "")
	w.add("locked", "")
	_, err := w.Lock(t.Context(), w.set, "locked", true, false)
	require.Nil(t, err)
	tries := []struct{ login, password string }{
		{"known", "a wrong password"}, {"unknown", "a wrong password"}, {"locked", password}, {"locked", "a wrong password"},
	}
	samples, limit := proof.Size(t, "timed logins of each kind", 9, 1000), proof.Of(0.5, 0.05)
	took := make([][]time.Duration, len(tries))
	for range samples {
		for _, i := range rand.Perm(len(tries)) { // the collector works after every second hash
			try := tries[i]
			begun := time.Now()
			_, err := w.login(try.login, try.password, "")
			took[i] = append(took[i], time.Since(begun))
			typed(t, "auth/unauthorized", err)
		}
	}
	for i, try := range tries[1:] {
		p := apart(took[0], took[i+1])
		t.Logf("known and %s with %q: medians %s and %s, apart %.3f", try.login, try.password, median(took[0]), median(took[i+1]), p)
		assert.InDelta(t, 0.5, p, limit, try.login)
		// Without a hash a login would take less than a hundredth. The load of a machine
		// cannot shorten one.
		assert.Greater(t, 10*slices.Min(took[i+1]), slices.Min(took[0]), try.login)
	}
}

func median(of []time.Duration) time.Duration {
	all := slices.Sorted(slices.Values(of))
	return all[len(all)/2]
}

// apart returns the share of pairs in which the first is larger.
func apart(a, b []time.Duration) float64 {
	larger := 0.0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				larger++
			case x == y:
				larger += 0.5
			}
		}
	}
	return larger / float64(len(a)*len(b))
}
