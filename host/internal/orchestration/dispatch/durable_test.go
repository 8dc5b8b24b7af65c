package dispatch_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// JRN-004: a call that has effects or a price starts after its attempt/started is
// durable; another one does not wait. Package act covers answers and keyed runs.
func TestDurableBeforeTheCall(t *testing.T) {
	for name, tc := range map[string]struct {
		meta  string
		waits bool
	}{
		"free, no effects":   {"", false},
		"a price of zero":    {":cap/cost {:usd 0}", false},
		"reads":              {":cap/effects #{:fs/read}", false},
		"idempotent":         {":cap/effects #{:fs/write} :cap/idempotent? true", true},
		"once":               {":cap/effects #{:fs/write}", true},
		"a price":            {":cap/cost {:usd 0.01M}", true},
		"a price of tokens":  {":cap/cost {:usd-in-per-mtok 1 :usd-out-per-mtok 2}", true},
		"a price by a limit": {":cap/limits {:max-tokens 10}", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.meta)
			records := dispatchtest.NewRecords(t)
			durable := false
			w.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
				for _, r := range records.Synced() {
					durable = durable || r.Body.Kind() == journal.KindAttemptStarted
				}
				return out(`{:n 1}`)
			})
			r := serve(t, w, order{records: records})
			require.Nil(t, r.Err)
			assert.Equal(t, tc.waits, durable)

			records = dispatchtest.NewRecords(t)
			records.Break(contract.Errorf("journal/unavailable", "no disk"))
			r = serve(t, w, order{records: records})
			if tc.waits {
				assert.Equal(t, "journal/unavailable", r.failure(), "nothing is called whose record may be lost")
				assert.Len(t, w.Dispatched(), 1)
			} else {
				assert.Nil(t, r.Err)
			}
		})
	}
}
