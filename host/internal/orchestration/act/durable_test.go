package act_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// disk is a journal that notes which records were durable at each Sync.
type disk struct {
	act.Journal
	last  map[string]journal.Kind // newest record of each run
	syncs []journal.Kind          // newest record at each Sync
	fault error
}

// Append implements journal.Journal.
func (d *disk) Append(ctx context.Context, r journal.Record) error {
	d.last[r.Run] = r.Body.Kind()
	return d.Journal.Append(ctx, r)
}

// Sync implements journal.Syncer.
func (d *disk) Sync(_ context.Context, run string) error {
	d.syncs = append(d.syncs, d.last[run])
	return d.fault
}

// Keyed implements act.KeyFinder.
func (d *disk) Keyed(context.Context, string) (string, error) { return "", nil }

// JRN-004: an act without effects or price commits once, before its answer leaves;
// one with a key is durable before it starts. Package dispatch covers calls.
func TestDurableBeforeTheAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		more string
		want []journal.Kind
	}{
		"plain": {"", []journal.Kind{journal.KindRunFinished}},
		"keyed": {`:idempotency/key "k-1"`, []journal.Kind{journal.KindRunAccepted, journal.KindRunFinished}},
	} {
		t.Run(name, func(t *testing.T) {
			w := priced(t, dispatchtest.Cap("a/free", ":cap/cost {:usd 0}"))
			d := &disk{Journal: journal.NewMemory(), last: map[string]journal.Kind{}}
			s := service(t, w, func(c *act.Config) { c.Journal, c.Keys = d, &act.Keys{} })
			called := 0
			w.Func("a/free", func(context.Context, dispatch.Call) dispatchtest.Step {
				called = len(d.syncs)
				return value(`{:good true}`)
			})
			response, err := s.Do(t.Context(), request(asking("[:a/free]", "", "{}", tc.more)))
			require.Nil(t, err, "%v", err)
			assert.True(t, response.HasKey("result"))
			assert.Equal(t, tc.want, d.syncs)
			assert.Equal(t, len(tc.want)-1, called)

			d.fault = contract.Errorf("journal/unavailable", "no disk")
			response, err = s.Do(t.Context(), request(asking("[:a/free]", "", "{}", tc.more)))
			require.NotNil(t, err)
			assert.Equal(t, "journal/unavailable", err.Type)
			assert.False(t, response.HasKey("result"), "an answer that is not recorded does not leave")
		})
	}
}
