package act_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JRN-050: a replay calls no plugin and has the values of the run; a record that
// was changed is found.
func TestReplay(t *testing.T) {
	open := func(c *act.Config) { c.Effects = dispatchtest.Open() }
	for name, text := range resumeCases {
		t.Run(name, func(t *testing.T) {
			_, err, records := do(t, service(t, resumeWorld(t), open), text)
			require.NotEmpty(t, records, "%v", err)
			w := resumeWorld(t)
			s := service(t, w, open)
			want := edn.Hash(finished(t, records).Response.Value().Key("result").Key("out"))
			if err != nil {
				want = edn.Hash(edn.K(err.Type))
			}
			for range 3 {
				hash, missed := act.Replay(t.Context(), s.Config(), records[0].Run, decoded(t, records))
				require.Nil(t, missed, "%v", missed)
				assert.Equal(t, want, hash)
			}
			assert.Empty(t, w.Calls())

			for i, rec := range records {
				changed := decoded(t, records)
				switch body := rec.Body.(type) {
				case *journal.AttemptFinished:
					if body.Err != nil || refused(records, body.Attempt) {
						continue // another answer would not have been accepted either
					}
					other := *body
					other.Result = journal.RefTo(body.Result.Value().AssocKey("result", edn.MustRead(`{:type :value :out {:good true :by :another/one}}`)))
					other.ResultType = "value"
					changed[i].Body = &other
				case *journal.NodeCommitted:
					other := *body
					other.Value = journal.RefTo(edn.Text("another value"))
					changed[i].Body = &other
				default:
					continue
				}
				_, missed := act.Replay(t.Context(), s.Config(), rec.Run, changed)
				if assert.NotNil(t, missed, "record %d, %s", rec.Seq, rec.Body.Kind()) {
					assert.Equal(t, "replay/miss", missed.Type)
				}
			}
			assert.Empty(t, w.Calls())
		})
	}
}

// refused reports whether a gate refused the answer of an attempt, or another answer was
// better.
func refused(records []journal.Record, attempt int) bool {
	return slices.ContainsFunc(records, func(r journal.Record) bool {
		if c, ok := r.Body.(*journal.NodeCommitted); ok && slices.Contains(c.Outscored, attempt) {
			return true
		}
		v, ok := r.Body.(*journal.GateVerdict)
		return ok && v.Attempt == attempt && !v.Pass
	})
}

// JRN-050: an attempt without a record is a miss, and so is another plan.
func TestReplayMisses(t *testing.T) {
	s := service(t, resumeWorld(t))
	_, err, records := do(t, s, resumeCases["fallback"])
	require.Nil(t, err)
	for i, rec := range records {
		if _, ok := rec.Body.(*journal.AttemptStarted); ok {
			without := append(append([]journal.Record{}, records[:i]...), records[i+1:]...)
			_, missed := act.Replay(t.Context(), s.Config(), rec.Run, without)
			require.NotNil(t, missed, "without record %d", rec.Seq)
			assert.Equal(t, "replay/miss", missed.Type)
			assert.False(t, missed.Where.Key("node").IsNil(), "it says where: %v %s", missed, missed.Where)
		}
	}
	_, missed := act.Replay(t.Context(), s.Config(), records[0].Run, records[:len(records)-1])
	require.NotNil(t, missed)
	assert.Equal(t, "run/not-resumable", missed.Type)
	records, _ = suspendedRun(t, losing(t, 1), ownPlan(payPlan, "", writes))
	_, missed = act.Replay(t.Context(), s.Config(), records[0].Run, records)
	require.NotNil(t, missed)
	assert.Equal(t, "run/not-resumable", missed.Type)
}
