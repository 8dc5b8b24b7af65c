package stats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// BUD-002: what a model was found to need for reasoning is known until another edition or
// version of it serves, or until an operator resets it.
func TestHeadroomIsForgotten(t *testing.T) {
	now := time.Unix(1760000000, 0)
	var table Table
	cs := table.For(&registry.Capability{Capability: contract.Capability{ID: "x/a"}}, "x/do", breaker.Defaults(), registry.Quality{}, now)
	end := func(edition int, version, kind string, n int64) int64 {
		permit, ok := cs.Acquire(now, edition, version)
		require.True(t, ok)
		err := contract.Errorf(kind, "nothing was said").WithDetail("tokens/headroom", edn.Int(n))
		cs.Record(now, permit, End{Err: err, Ignored: true}, func() float64 { return 0 })
		return cs.Headroom()
	}
	assert.EqualValues(t, 0, end(1, "1.0.0", "provider/error", 900))
	assert.EqualValues(t, 5000, end(1, "1.0.0", "provider/empty", 5000))
	assert.EqualValues(t, 5000, end(1, "1.0.0", "provider/empty", 4000))
	assert.EqualValues(t, 5000, end(1, "1.0.0", "provider/empty", maxHeadroom+1))
	assert.EqualValues(t, 4000, end(2, "1.0.0", "provider/empty", 4000))
	assert.EqualValues(t, 3000, end(2, "1.0.1", "provider/empty", 3000))
	table.Reset("x/a", "", now)
	assert.Zero(t, cs.Headroom())
	assert.True(t, cs.Closed())
	assert.Equal(t, breaker.Closed, cs.notified)
}
