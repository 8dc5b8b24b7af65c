//go:build unix

package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// discard drops the pieces of an answer.
type discard struct{}

func (discard) Text(string) error        { return nil }
func (discard) Reasoning(string) error   { return nil }
func (discard) Delta(edn.Value) error    { return nil }
func (discard) Progress(edn.Value) error { return nil }

// BenchmarkWarmCall compares a call to a running server with the same request
// without a pool and a supervised process, round by round (MLX-022: at most
// 1.1).
func BenchmarkWarmCall(b *testing.B) {
	a := &adapter{clock: transport.System(), rungs: quick}
	s := settingsOf(b, config(b, filepath.Join(b.TempDir(), "mark"), "").String())
	require.NoError(b, a.start(b.Context(), s))
	defer func() { require.NoError(b, a.close(context.Background())) }()
	h := a.service.Load()
	request := edn.MustRead(`{:input {:prompt "hello"}}`)
	_, err := h.answer(b.Context(), "voice", request, discard{})
	require.NoError(b, err)
	lease, refused := h.pool.Acquire(b.Context(), "", func() {})
	require.Nil(b, refused)
	defer lease.Release()
	direct := func() *contract.Error {
		_, err := lease.Server.provider.Answer(b.Context(), lease.Server.models["voice"], "", request, discard{})
		return err
	}
	var pooled, bare []time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := h.answer(b.Context(), "voice", request, discard{}); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if err := direct(); err != nil {
			b.Fatal(err)
		}
		pooled, bare = append(pooled, middle.Sub(begin)), append(bare, time.Since(middle))
	}
	b.ReportMetric(float64(median(pooled))/float64(median(bare)), "x-direct")
}
