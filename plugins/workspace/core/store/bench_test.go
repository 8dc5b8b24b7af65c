package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// WS-247: the work of putting a frame, without waiting for the disk.
func BenchmarkPutFrame(b *testing.B) {
	s := open(b, create(b, id.B3))
	files := map[string]string{}
	for i := range 2000 {
		files[fmt.Sprintf("d%d/f%d", i%50, i)] = fmt.Sprint(i)
	}
	putTree(b, s.Store, grow(id.B3, files))
	text := strings.Repeat("x", 2048)
	for n := 0; b.Loop(); n++ {
		_, err := s.Update(background, "tester", func(tx *Tx) error {
			_, err := tx.PutFrame(NewFrame{Path: fmt.Sprintf("d%d/f%d", n%50, n%2000), Type: "note", Agent: "a", Origin: Authored, Text: fmt.Append([]byte(text), n)})
			return err
		})
		require.NoError(b, err)
	}
}

// WS-250: the verification of a store with 20,000 files.
func BenchmarkValidate(b *testing.B) {
	s := open(b, create(b, id.B3))
	files := map[string]string{}
	for i := range 20_000 {
		files[fmt.Sprintf("a%d/d%d/f%d", i%20, i%1000, i)] = fmt.Sprint(i)
	}
	putTree(b, s.Store, grow(id.B3, files))
	for b.Loop() {
		report, err := s.Validate(background, Check{Level: Full})
		require.NoError(b, err)
		require.True(b, report.Valid)
	}
}
