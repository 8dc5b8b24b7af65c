package act_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// asker has a/puts ask the host, in each attempt, for what asks returns: a capability
// and the number in its input. It answers with what it was told.
func asker(w *dispatchtest.World, service func() *act.Service, asks func(attempt int) [][2]any, end func(attempt int) *contract.Error) {
	w.Func("a/puts", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		var told []edn.Value
		for i, ask := range asks(c.Attempt) {
			text := fmt.Sprintf(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:%s]}} :input {:n %d} :effects {:allowed #{:fs/write}}}`, ask[0], ask[1])
			response, err, known := service().Within(ctx, act.HostCall{N: i + 1, Parent: c, Act: act.Act{
				Request: edn.MustRead(text), Roles: []string{policy.RoleAdmin}, Principal: "p", PrincipalType: "plugin", Stack: []string{c.CapID},
			}})
			if !known || err != nil {
				return dispatchtest.Step{Err: err}
			}
			told = append(told, response.Key("result").Key("out").Key("by"))
		}
		if err := end(c.Attempt); err != nil {
			return dispatchtest.Step{Err: err}
		}
		return dispatchtest.Step{Value: edn.MustMap(edn.K("good"), edn.Bool(true), edn.K("told"), edn.Vector(told...))}
	})
}

const askPuts = "[:a/puts]"

func same(asks ...[2]any) func(int) [][2]any { return func(int) [][2]any { return asks } }

// JRN-046: requests of a plugin are recorded below the attempt that makes them, with
// effect keys of their own. When that attempt is made again, because its process or the
// host has crashed, equal requests have their recorded results, wherever the crash came.
func TestHostCallsAreNotRepeated(t *testing.T) {
	asks := same([2]any{"a/one", 1}, [2]any{"a/adds", 2}, [2]any{"a/two", 3})
	text := asking(askPuts, ":retry {:same-cap-max 1}", "{}", writes)
	build := func(crashes bool) (*dispatchtest.World, func(*journal.Memory) *act.Service) {
		w := resumeWorld(t)
		var s *act.Service
		asker(w, func() *act.Service { return s }, asks, func(attempt int) *contract.Error {
			if crashes && attempt == 1 {
				return contract.Errorf("runtime/crashed", "the process ended")
			}
			return nil
		})
		return w, func(kept *journal.Memory) *act.Service {
			s = service(t, w, suspending, func(c *act.Config) { c.Journal = kept })
			return s
		}
	}
	w, start := build(true)
	_, err, _ := do(t, start(journal.NewMemory()), text)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []string{"a/puts", "a/one", "a/adds", "a/two", "a/puts"}, capsOf(w.Calls()), "a retry makes no request again")
	keys := map[string]bool{}
	for _, c := range w.Calls() {
		keys[c.EffectKey] = true
	}
	assert.Len(t, keys, 4, "both attempts have one key, and each request its own")

	_, start = build(false)
	_, err, records := do(t, start(journal.NewMemory()), text)
	require.Nil(t, err, "%v", err)
	want := finished(t, records).Response.Value().Key("result").Key("out").String()
	assert.Equal(t, `{:good true :told [:a/one :a/adds :a/two]}`, want)
	for n := 1; n < len(records); n++ {
		past, kept := decoded(t, records[:n]), journal.NewMemory()
		kept.Load(past[0].Run, past)
		w, start = build(false)
		run, refused := start(kept).Resume(t.Context(), past[0].Run, past, crashed)
		require.Nil(t, refused)
		_, err := run.Wait()
		calls := answered(past)
		for _, c := range w.Calls() {
			calls[made(c)]++
		}
		at := fmt.Sprintf("after %d records, %s", n, past[n-1].Body.Kind())
		open := underWay(past)
		if len(open) > 0 && open[len(open)-1].HadEffectOnce() {
			require.NotNil(t, err, at)
			assert.Equal(t, "run/suspended", err.Type, at)
			for _, c := range w.Calls() {
				assert.NotEqual(t, "a/adds", c.CapID, at)
			}
			all := run.Records()
			why, ok := all[len(all)-1].Body.(*journal.RunSuspended)
			require.True(t, ok, at)
			require.Len(t, why.Open, 1)
			assert.Equal(t, `[0 "h2" 0]`, why.Open[0].Path.String())
			continue
		}
		require.Nil(t, err, "%s: %v", at, err)
		assert.Equal(t, want, finished(t, run.Records()).Response.Value().Key("result").Key("out").String(), at)
		for call, times := range answered(records) {
			assert.LessOrEqual(t, calls[call], times, "%s: calls of %s", at, call)
		}
		_, missed := act.Replay(t.Context(), start(journal.NewMemory()).Config(), past[0].Run, decoded(t, run.Records()))
		assert.Nil(t, missed, "%s: %v", at, missed)
	}
}

// JRN-046, JRN-044: an attempt that asks for something else than the one before it gets
// an answer of its own, with another effect key. After an effect that must not be
// repeated the run is suspended instead, for a decision about the request.
func TestHostCallsThatDiffer(t *testing.T) {
	build := func(first string) (*dispatchtest.World, func(*journal.Memory) *act.Service) {
		w := resumeWorld(t)
		var s *act.Service
		asker(w, func() *act.Service { return s }, func(attempt int) [][2]any {
			return [][2]any{{first, 1}, {"a/two", min(attempt, 2)}}
		}, func(attempt int) *contract.Error {
			if attempt == 1 {
				return contract.Errorf("runtime/crashed", "the process ended")
			}
			return nil
		})
		return w, func(kept *journal.Memory) *act.Service {
			s = service(t, w, suspending, func(c *act.Config) { c.Journal = kept })
			return s
		}
	}
	text := asking(askPuts, ":retry {:same-cap-max 1}", "{}", writes)
	w, start := build("a/one")
	_, err, _ := do(t, start(journal.NewMemory()), text)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []string{"a/puts", "a/one", "a/two", "a/puts", "a/two"}, capsOf(w.Calls()))
	calls := w.Calls()
	assert.Equal(t, calls[2].Path.String(), calls[4].Path.String())
	assert.NotEqual(t, calls[2].EffectKey, calls[4].EffectKey)

	w, start = build("a/adds")
	run, refused := start(journal.NewMemory()).Start(t.Context(), request(text))
	require.Nil(t, refused)
	_, err = run.Wait()
	require.NotNil(t, err)
	assert.Equal(t, "run/suspended", err.Type, "%v", err)
	records := run.Records()
	why, ok := records[len(records)-1].Body.(*journal.RunSuspended)
	require.True(t, ok)
	require.Len(t, why.Open, 1)
	assert.Equal(t, `[0 "h2"]`, why.Open[0].Path.String())
	assert.Equal(t, []string{"a/puts", "a/adds", "a/two", "a/puts"}, capsOf(w.Calls()))
	for choice, tc := range map[string]struct {
		value edn.Value
		calls []string
		out   string
	}{
		journal.DecisionRetry: {edn.Nil(), []string{"a/puts", "a/two"}, `{:good true :told [:a/adds :a/two]}`},
		journal.DecisionDone:  {edn.MustRead(`{:by :hand}`), []string{"a/puts"}, `{:good true :told [:a/adds :hand]}`},
		journal.DecisionFail:  {edn.Nil(), []string{"a/puts"}, "nil"},
	} {
		past, kept := decoded(t, records), journal.NewMemory()
		kept.Load(run.ID(), past)
		w, start = build("a/adds")
		again, refused := start(kept).Resume(t.Context(), run.ID(), past, deciding(`[0 "h2"]`, choice, tc.value))
		require.Nil(t, refused, "%s: %v", choice, refused)
		response, err := again.Wait()
		assert.Equal(t, tc.calls, capsOf(w.Calls()), choice)
		assert.Equal(t, tc.out, response.Key("result").Key("out").String(), choice)
		if choice == journal.DecisionFail { // the plugin passes the failure on: what its call did is not known either
			require.NotNil(t, err)
			all := again.Records()
			why, ok := all[len(all)-1].Body.(*journal.RunSuspended)
			require.True(t, ok)
			assert.Equal(t, "[0]", why.Open[0].Path.String())
		}
	}
}
