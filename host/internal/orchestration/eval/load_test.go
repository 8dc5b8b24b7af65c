package eval_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Evaluation.md section 17: 1,000 concurrent plans use bounded memory and
// leave no goroutine.
func TestThousandPlansInFlight(t *testing.T) {
	const plans, width = 1000, 8
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("t/a", "")}})
	gate := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Add(plans * width)
	payload := edn.MustMap(edn.K("text"), edn.Text(strings.Repeat("x", 1024)))
	w.Dispatcher.Executor = held{gate, &waiting, dispatch.Answer{Response: contract.ValueResult(payload)}}
	var list []string
	for i := range width {
		list = append(list, fmt.Sprintf(`{:op :call :intent :text/respond :input {:n %d} :as :s%d}`, i, i))
	}
	env := plan.Env{Registry: w.Registry, Policies: w.Policies}
	p, findings := plan.Parse(edn.MustRead(nodes("hybrid", append(list, `{:op :emit :input :s0}`)...)), nil)
	require.Empty(t, findings)

	heap := heapInUse()
	var running sync.WaitGroup
	var mu sync.Mutex
	bad := 0
	for range plans {
		running.Go(func() {
			if out := quickRun(t, w, p, env); out.Err != nil || out.Out.Len() != 1 {
				mu.Lock()
				bad++
				mu.Unlock()
			}
		})
	}
	waiting.Wait() // every call of every plan is in progress
	per := (heapInUse() - heap) / plans
	close(gate)
	running.Wait()
	assert.Zero(t, bad)
	assert.Less(t, per, int64(planBytes), "bytes per plan in flight, with the stacks of its %d calls", width)
	goleak.VerifyNone(t)
}

// held answers when the gate opens.
type held struct {
	gate    chan struct{}
	waiting *sync.WaitGroup
	answer  dispatch.Answer
}

func (h held) Invoke(ctx context.Context, _ dispatch.Call) (dispatch.Answer, error) {
	h.waiting.Done()
	select {
	case <-h.gate:
		return h.answer, nil
	case <-ctx.Done():
		return dispatch.Answer{}, contract.AsError(ctx.Err())
	}
}
func (h held) State(string) dispatch.CapState      { return dispatch.CapState{Ready: true} }
func (h held) Await(context.Context, string) error { return nil }

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
