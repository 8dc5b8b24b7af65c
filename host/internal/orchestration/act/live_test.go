package act_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// reporting is a capability that reports progress and two values of a stream.
func reporting(t testing.TB, layer policy.Layer) (*dispatchtest.World, dispatchtest.Step) {
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps:     []string{dispatchtest.Cap("a/one", "")},
		Policies: policy.Book{Intents: map[string]policy.Layer{"text/respond": layer}},
		Checks: []quality.Check{{
			Check: registry.Check{Name: "good", Kind: registry.CheckCondition},
			Judge: func(quality.Subject) quality.Outcome { return quality.Passed() },
		}},
	})
	step := value(`{:text "x"}`)
	step.Progress = []edn.Value{edn.MustRead(`{:phase :hash :done 1 :total 2}`)}
	step.Values = []edn.Value{edn.MustRead(`{:seq 0 :event :ready}`), edn.MustRead(`{:seq 1 :event :change}`)}
	return w, step
}

// watched returns a streaming act whose reader is Watch.
func watched() act.Act {
	a := request(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {} :response/type :stream}`)
	a.Watched = true
	return a
}

// RUN-042, WIRE-002: the reader of a run sees the progress of its answer node, and
// the values of its stream unless a gate judges the whole answer: they cannot be
// retracted. The stream policy is about text. Neither is recorded.
func TestWatchShowsWhatIsNotRecorded(t *testing.T) {
	origin := policy.Origin{Source: policy.SourceIntent}
	progress := `progress {:value {:done 1 :phase :hash :total 2}}`
	values := []string{progress, `delta {:value {:event :ready :seq 0}}`, `delta {:value {:event :change :seq 1}}`}
	for name, tc := range map[string]struct {
		layer policy.Layer
		want  []string
	}{
		"no policy":      {policy.Layer{}, values},
		"provisional":    {policy.Layer{Stream: policy.Of(policy.Provisional, origin)}, values},
		"after gates":    {policy.Layer{Stream: policy.Of(policy.GatePassed, origin)}, values},
		"a must check":   {policy.Layer{Must: policy.NamesOf(origin, "good")}, []string{progress}},
		"a should check": {policy.Layer{Should: policy.NamesOf(origin, "good")}, values},
	} {
		t.Run(name, func(t *testing.T) {
			w, step := reporting(t, tc.layer)
			w.On("a/one", step)
			r, err := service(t, w).Start(context.Background(), watched())
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
			assert.Equal(t, tc.want, got)
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
	w, step := reporting(t, policy.Layer{})
	w.On("a/one", step)
	r, err := service(t, w).Start(context.Background(), watched())
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
