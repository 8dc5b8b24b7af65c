package act_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// echo returns its input immediately, so that only the work of the host is
// measured.
type echo struct{}

func (echo) Invoke(_ context.Context, c dispatch.Call) (dispatch.Answer, error) {
	return dispatch.Answer{Response: contract.ValueResult(c.Request.Key("input")), Plugin: "echo", Generation: 1}, nil
}
func (echo) State(string) dispatch.CapState      { return dispatch.CapState{Ready: true} }
func (echo) Await(context.Context, string) error { return nil }

// BenchmarkDo is a whole gated call of 1 KiB without the transport: EDN text
// in, request check, records, gates, EDN text out.
func BenchmarkDo(b *testing.B) {
	call := echoed(b)
	b.Run("one caller", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("many callers", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := call(); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// echoed returns a function that echoes 1 KiB of text.
func echoed(tb testing.TB) (call func() error) {
	w := dispatchtest.New(tb, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", "")}})
	s := service(tb, w, func(c *act.Config) { c.Executor = echo{} })
	text := []byte(`{:proto 1 :trace {:id "bench"} :task {:intent :text/respond} :input {:text "` + strings.Repeat("plain words and a few more, ", 34) + `"}}`)
	ctx := context.Background()
	return func() error {
		request, err := edn.Read(text)
		if err != nil {
			return err
		}
		response, failure := s.Do(ctx, act.Act{Request: request})
		if failure != nil {
			return failure
		}
		if out := response.Canonical(); len(out) < len(text) {
			return errors.New("the text did not come back")
		}
		return nil
	}
}
