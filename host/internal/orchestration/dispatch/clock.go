package dispatch

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Clock is the source of time for all decisions.
type Clock interface {
	Now() time.Time
	// Wait returns nil after d, or the error of ctx if that ends first.
	Wait(ctx context.Context, d time.Duration) error
}

// SystemClock is the system clock.
type SystemClock struct{}

var _ Clock = SystemClock{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// Wait implements Clock.
func (SystemClock) Wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Rand returns the generator of one draw, seeded by the run, the node path and
// the ordinal of the draw at that path: concurrent nodes share no sequence, and
// a replay draws the same values.
func Rand(seed int64, path edn.Value, ordinal int) *rand.Rand {
	return rand.New(rand.NewChaCha8(drawSeed(seed, path, ordinal)))
}

// drawSeed is the seed of Rand.
func drawSeed(seed int64, path edn.Value, ordinal int) [32]byte {
	buf := make([]byte, 16, 64)
	binary.BigEndian.PutUint64(buf, uint64(seed))
	binary.BigEndian.PutUint64(buf[8:], uint64(ordinal))
	buf = path.AppendCanonical(buf)
	return blake3.Sum256(buf)
}
