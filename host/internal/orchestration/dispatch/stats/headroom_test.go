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

// BUD-002: what a model was found to need for reasoning is known for the edition that
// answered, until an operator resets it. Late answers of an earlier edition teach nothing.
func TestHeadroomIsForgotten(t *testing.T) {
	now := time.Unix(1760000000, 0)
	var table Table
	cs := table.For(&registry.Capability{Capability: contract.Capability{ID: "x/a"}}, "x/do", breaker.Defaults(), registry.Quality{}, now)
	end := func(edition int, kind string, n int64) {
		permit, ok := cs.Acquire(now, edition, "1.0.0")
		require.True(t, ok)
		err := contract.Errorf(kind, "nothing was said").WithDetail("tokens/headroom", edn.Int(n))
		cs.Record(now, permit, End{Err: err, Ignored: true, Edition: edition}, func() float64 { return 0 })
	}
	for _, row := range []struct {
		edition         int
		kind            string
		n, first, other int64
	}{
		{1, "provider/error", 900, 0, 0},
		{1, "provider/empty", 5000, 5000, 0},
		{1, "provider/empty", 4000, 5000, 0},
		{1, "provider/empty", maxHeadroom + 1, 5000, 0},
		{2, "provider/empty", 4000, 0, 4000},
		{1, "provider/empty", 9000, 0, 4000},
	} {
		end(row.edition, row.kind, row.n)
		assert.Equal(t, []int64{row.first, row.other}, []int64{cs.Headroom(1), cs.Headroom(2)}, "%+v", row)
	}
	table.Reset("x/a", "", now)
	assert.Zero(t, cs.Headroom(2))
}
