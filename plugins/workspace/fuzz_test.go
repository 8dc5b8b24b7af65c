package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-220: whatever an input holds, an intent answers with a result that fits its schema, or
// with an error of a known type. The caller is not an administrator; workspace/watch, which
// does not end, is left out.
func FuzzRequests(f *testing.F) {
	root := f.TempDir()
	require.NoError(f, os.WriteFile(filepath.Join(root, "a.txt"), []byte("one\n"), 0o600))
	cfg := defaults
	cfg.AllowedRoots, cfg.DefaultAgent = []string{root}, "synthesis"
	s := newServer()
	require.NoError(f, s.start(f.Context(), cfg))
	f.Cleanup(func() { _ = s.close(context.Background()) })
	ask := func(ctx context.Context, i *intent, in edn.Value) (edn.Value, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return s.serve(ctx, i, in, nil)
	}
	_, err := ask(f.Context(), s.table["workspace/scan"], edn.MustMap())
	require.NoError(f, err)

	var fuzzed []intent
	for _, i := range intents() {
		if i.name != "workspace/watch" {
			fuzzed = append(fuzzed, i)
		}
	}
	for n := range fuzzed {
		for _, text := range []string{
			`{}`,
			`{:path "a.txt"}`,
			`{:path "a.txt" :frame/type "note" :content "text" :meta {:k 1} :basis :node}`,
			`{:path "." :frame/type "note" :policy {:kind :filter :name "*"} :children :build}`,
			`{:path "." :recursive? true :up :root :missing :create :as-of 1}`,
			`{:op :list :pattern "*.o" :name "x" :seq 1}`,
			`{:from 1 :to :current :limit 3 :view {:select :history :max-frames 2}}`,
			`{:items [{:intent :context/get-node :input {:path "a.txt"}}] :atomic? true}`,
		} {
			f.Add(uint8(n), text)
		}
	}
	known := registry(schemasOf(schemaText))
	f.Fuzz(func(t *testing.T, n uint8, text string) {
		in, err := edn.ReadString(text)
		if err != nil || !in.IsMap() {
			return
		}
		i := &fuzzed[int(n)%len(fuzzed)]
		out, err := ask(t.Context(), i, in)
		if err != nil {
			e := contract.AsError(err)
			if _, ok := contract.Lookup(e.Type); !ok || e.Type == "runtime/internal" {
				t.Errorf("%s %s: %v", i.name, text, err)
			}
			return
		}
		shape, _ := known.Lookup(schemaName("res", i.name))
		if findings := shape.Validate(out); len(findings) > 0 {
			t.Errorf("%s %s: %v in %s", i.name, text, findings, out)
		}
	})
}
