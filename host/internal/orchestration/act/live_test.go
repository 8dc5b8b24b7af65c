package act_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// reporting is a capability that reports progress and two values of a stream.
func reporting(t testing.TB, how string) (*dispatchtest.World, dispatchtest.Step) {
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{dispatchtest.Cap("a/one", "")},
		Policies: policy.Book{Intents: map[string]policy.Layer{
			"text/respond": {Stream: policy.Of(how, policy.Origin{Source: policy.SourceIntent})},
		}},
	})
	step := value(`{:text "x"}`)
	step.Progress = []edn.Value{edn.MustRead(`{:phase :hash :done 1 :total 2}`)}
	step.Values = []edn.Value{edn.MustRead(`{:seq 0 :event :ready}`), edn.MustRead(`{:seq 1 :event :change}`)}
	return w, step
}

// RUN-042, WIRE-002: the reader of a run sees the progress of its answer node
// under every stream policy, and the values of its stream once the policy shows
// an answer before its gates. Neither is recorded.
func TestWatchShowsWhatIsNotRecorded(t *testing.T) {
	for how, want := range map[string][]string{
		policy.Provisional: {`progress {:value {:done 1 :phase :hash :total 2}}`, `delta {:value {:event :ready :seq 0}}`,
			`delta {:value {:event :change :seq 1}}`},
		policy.GatePassed: {`progress {:value {:done 1 :phase :hash :total 2}}`},
	} {
		t.Run(how, func(t *testing.T) {
			w, step := reporting(t, how)
			w.On("a/one", step)
			s := service(t, w)
			a := request(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {} :response/type :stream}`)
			a.Watched = true
			r, err := s.Start(context.Background(), a)
			require.Nil(t, err)
			var all, got []string
			require.NoError(t, r.Watch(context.Background(), func(e journal.Event) error {
				all = append(all, e.Name)
				if e.Name == "progress" || e.Name == "delta" {
					assert.Equal(t, "a/one", e.CapID)
					assert.Equal(t, r.ID(), e.Run)
					assert.False(t, e.Value().HasKey("seq"), "it has no place in the journal")
					got = append(got, e.Name+" "+e.Details.String())
				}
				return nil
			}))
			assert.Equal(t, want, got)
			assert.Equal(t, "accepted", all[0])
			assert.Equal(t, "finished", all[len(all)-1])
			_, failure := r.Wait()
			assert.Nil(t, failure)
		})
	}
}

// A reader that stops does not block the capability, and one that fails cuts
// its own reading only.
func TestWatchStopsWithinProgress(t *testing.T) {
	w, step := reporting(t, policy.Provisional)
	w.On("a/one", step)
	s := service(t, w)
	a := request(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {} :response/type :stream}`)
	a.Watched = true
	r, err := s.Start(context.Background(), a)
	require.Nil(t, err)
	gone := errors.New("the reader is gone")
	assert.ErrorIs(t, r.Watch(context.Background(), func(e journal.Event) error {
		if e.Name == "progress" {
			return gone
		}
		return nil
	}), gone)
	_, failure := r.Wait()
	assert.Nil(t, failure)
}
