//go:build external

package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// JRN-030: whatever page is lost or wrong, and wherever the file is cut, every other
// record is kept, and each run that is not what it was is reported.
func TestRepairSalvagesEveryPage(t *testing.T) {
	base := t.TempDir()
	s := openAt(t, base)
	for n := range 6 {
		sc := newScript(fmt.Sprintf("run_%02d", n+1))
		appendAll(t, s, sc.whole(4)...)
		require.NoError(t, s.Sync(context.Background(), sc.run))
	}
	want := storedBytes(t, s)
	require.NoError(t, s.Close())
	file := readFile(t, base)
	type damage struct {
		name string
		file []byte
	}
	var all []damage
	for page := 0; page < len(file); page += pageSize {
		zero, noise := bytes.Clone(file), bytes.Clone(file)
		clear(zero[page : page+pageSize])
		for i := range pageSize {
			noise[page+i] ^= 0x55
		}
		n := page / pageSize
		all = append(all, damage{fmt.Sprintf("page %d zero", n), zero}, damage{fmt.Sprintf("page %d noise", n), noise})
		if n%4 == 1 {
			all = append(all, damage{fmt.Sprintf("%d pages", n), file[:page]}, damage{fmt.Sprintf("%d pages and a half", n), file[:page+pageSize/2]})
		}
	}
	dir := t.TempDir()
	salvaged := 0
	for _, d := range all {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.MkdirAll(dir, 0o700))
		writeFile(t, dir, d.file)
		got := repair(t, dir, false)
		s := openAt(t, dir)
		damage, err := s.VerifyAll(context.Background())
		require.NoError(t, err, d.name)
		require.Empty(t, damage, d.name)
		changed := map[string]bool{}
		for _, run := range got.Damaged {
			changed[run.Run] = true
		}
		have := storedBytes(t, s)
		missing, records := 0, 0
		for id, expected := range want {
			found, ok := have[id]
			switch {
			case !ok:
				missing++
			case !changed[id]:
				require.Equal(t, expected, found, "%s: %s", d.name, id)
			}
			records += len(found)
		}
		// The number of runs that were behind the end of the file is not known.
		if len(d.file) == len(file) {
			assert.LessOrEqual(t, missing, got.Missing+got.Unnamed, d.name)
			assert.GreaterOrEqual(t, len(have), len(want)-2, "a page has no more runs")
		}
		if got.File != "" {
			salvaged++
			assert.FileExists(t, filepath.Join(got.Kept, "ferment.db"))
		}
		require.NoError(t, s.Close())
		assert.True(t, repair(t, dir, true).Sound(), d.name)
	}
	assert.Greater(t, salvaged, len(all)/2)
}
