package derive

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// benchWorld is a workspace of 10,000 files in 500 directories.
func benchWorld(b *testing.B) *world {
	files := map[string]string{}
	for i := range 10_000 {
		files[fmt.Sprintf("area%02d/part%02d/file%d", i/1000, i/20%50, i%20)] = fmt.Sprint(i)
	}
	return newWorld(b, files)
}

// describe puts a frame on the first file of each directory.
func (w *world) describe(frames string) {
	_, err := w.store.Update(background, "bench", func(tx *store.Tx) error {
		t, err := tx.Tree()
		for i := 0; i < 10_000 && err == nil; i += 20 {
			path := fmt.Sprintf("area%02d/part%02d/file0", i/1000, i/20%50)
			_, err = tx.PutFrame(store.NewFrame{
				Path: path, Type: frames, Agent: "writer", Origin: store.Authored, Text: fmt.Append(nil, "about ", i), Recipe: edn.MustMap(),
				Inputs: []store.Input{{Kind: id.InputNode, ID: t.Lookup(path).ID}},
			})
		}
		return err
	})
	require.NoError(w.t, err)
}

func summarized(r *SynthesizeRequest) { r.Policy, r.Children = edn.K("summarize"), store.ChildrenBuild }

// WS-249: the frames of 511 directories.
func BenchmarkSynthesize(b *testing.B) {
	w := benchWorld(b)
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		frames := fmt.Sprint("digest", n)
		w.describe(frames)
		b.StartTimer()
		w.synthesize("", frames, summarized)
	}
}

// WS-246: what is made again after one change at depth 2.
func BenchmarkRegenerate(b *testing.B) {
	w := benchWorld(b)
	w.describe("digest")
	_, err := w.Generate(background, GenerateRequest{Caller: writer, Targets: []Target{{Path: "area03/part07/file3"}}, Type: "digest", Producer: "extract/text"})
	require.NoError(b, err)
	w.synthesize("", "digest", summarized)
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		w.edit("area03/part07/file3", fmt.Sprint("change ", n))
		b.StartTimer()
		require.Equal(b, Counts{File: 1, Directory: 3}, w.regenerate("").Counts)
	}
}
