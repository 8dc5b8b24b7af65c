package report

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/storetest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// BenchmarkCollect reads what a report needs of 10,000 files with a frame each.
func BenchmarkCollect(b *testing.B) {
	const files = 10_000
	w := storetest.Open(b, id.B3)
	texts := map[string]string{}
	for i := range files {
		texts[fmt.Sprintf("part%02d/package%03d/file%d.go", i%23, i%997, i)] = strings.Repeat("x", i%100)
	}
	w.Tree(texts)
	_, err := w.Update(context.Background(), "tester", func(tx *store.Tx) error {
		t, err := tx.Tree()
		for path, text := range texts {
			if err == nil {
				_, err = tx.PutFrame(store.NewFrame{
					Path: path, Type: "note", Agent: "writer", Origin: store.Authored, Text: []byte(text), Recipe: edn.MustMap(),
					Inputs: []store.Input{{Kind: id.InputNode, ID: t.Lookup(path).ID}},
				})
			}
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f := collect(b, w)
		if _, err := New(f, Request{}); err != nil {
			b.Fatal(err)
		}
		if _, err := Graph(f, "x"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/files, "ns/file")
}
