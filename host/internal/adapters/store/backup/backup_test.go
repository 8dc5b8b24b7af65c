package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/adapters/store/backup"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// house is a data directory with an open store.
type house struct {
	dir string
	s   *store.Store
}

func newHouse(t rapid.TB, dir string, faults store.Faults) *house {
	s, err := store.Open(context.Background(), store.Options{Path: filepath.Join(dir, "db", "ferment.db"), NoSync: true, Faults: faults})
	require.NoError(t, err)
	return &house{dir, s}
}

// accept records an open run whose request has so many bytes.
func (h *house) accept(t rapid.TB, id string, bytes int) {
	sum := edn.Hash(edn.Int(1))
	request := journal.RefTo(edn.Text(id + strings.Repeat("x", bytes)))
	require.NoError(t, h.s.Append(context.Background(), journal.Record{Run: id, Seq: 1, At: start, Epoch: 1, Body: &journal.RunAccepted{
		Principal:     "uid/7",
		PrincipalType: "user",
		Operation:     "act/run",
		Intent:        "a/b",
		Request:       request,
		Fingerprint:   request,
		ResponseType:  "value",
		Class:         "sync",
		DeadlineAt:    start.Add(time.Minute),
		Config:        sum,
		Evaluator:     1,
		Trace:         edn.MustMap(),
	}}))
	require.NoError(t, h.s.Sync(context.Background(), id))
}

// finish ends it.
func (h *house) finish(t rapid.TB, id string) {
	require.NoError(t, h.s.Append(context.Background(), journal.Record{Run: id, Seq: 2, At: start, Epoch: 1, Body: &journal.RunFinished{
		Status:   "completed",
		Response: journal.RefTo(edn.Text("done")),
		Totals:   edn.MustRead(`{:operations {} :attempts {:total 0}}`),
	}}))
	require.NoError(t, h.s.Sync(context.Background(), id))
}

func (h *house) source() backup.Source {
	return backup.Source{
		Dir:      h.dir,
		Format:   1,
		Database: filepath.Join(h.dir, "db", "ferment.db"),
		Store:    h.s,
		Program:  "1.0.0",
		Now:      func() time.Time { return start },
	}
}

func write(t rapid.TB, dir, name, text string) {
	path := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func opened(t rapid.TB, path string) *backup.Backup {
	b, err := backup.Open(context.Background(), path)
	require.NoError(t, err)
	return b
}

// OPS-008: whatever runs and files a data directory has, its backup, as a folder or as a
// file, verifies, and what is restored from it has the same runs and files. Files of one
// process or one host are not in it.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "backup-")
		require.NoError(t, err)
		defer func() { _ = os.RemoveAll(root) }()
		dir := filepath.Join(root, "var")
		if rapid.Bool().Draw(t, "link") { // the data directory is elsewhere
			require.NoError(t, os.Mkdir(filepath.Join(root, "disk"), 0o700))
			require.NoError(t, os.Symlink("disk", dir))
		}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "db"), 0o700))
		h := newHouse(t, dir, store.Faults{})
		defer func() { _ = h.s.Close() }()
		runs := rapid.IntRange(0, 4).Draw(t, "runs")
		for n := range runs {
			id := fmt.Sprintf("run_%d", n)
			h.accept(t, id, rapid.SampledFrom([]int{0, 300, 5_000, 400_000}).Draw(t, "bytes"))
			if rapid.Bool().Draw(t, "ends") {
				h.finish(t, id)
			}
		}
		kept := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"secrets.key", "prices.edn", "calibration/a.edn", "plugins/store/b3/x/program", "later/unknown/file",
		}), 0, 4, rapid.ID[string]).Draw(t, "files")
		for _, name := range kept {
			write(t, dir, name, "text of "+name)
		}
		for _, name := range []string{"LOCK", "HOST", "FORMAT", "run/admin.token", "work/x/y", "plugins/a/log/plugin.log", "backups/old/MANIFEST",
			"db/ferment.db.v3", "db/ferment.db.damaged-x/cut.edn"} {
			write(t, dir, name, "own")
		}
		name := filepath.Join(root, rapid.SampledFrom([]string{"b", "b.tar"}).Draw(t, "form"))
		m, err := backup.Create(context.Background(), h.source(), name)
		require.NoError(t, err)
		b := opened(t, name)
		defer func() { require.NoError(t, b.Close()) }()
		require.Equal(t, m, b.Manifest)
		found, err := b.Verify(context.Background())
		require.NoError(t, err)
		require.Empty(t, found)

		to := filepath.Join(root, "other")
		require.NoError(t, os.Mkdir(to, 0o700))
		require.NoError(t, b.Restore(context.Background(), to, filepath.Join(to, "journal.db")))
		for _, name := range kept {
			text, err := os.ReadFile(filepath.Join(to, filepath.FromSlash(name)))
			require.NoError(t, err)
			require.Equal(t, "text of "+name, string(text))
		}
		blobs, err := filepath.Glob(filepath.Join(to, "blobs", "??", "*"))
		require.NoError(t, err)
		require.Len(t, m.Files, len(kept)+1+len(blobs))
		s, err := store.Open(context.Background(), store.Options{Path: filepath.Join(to, "journal.db"), NoSync: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		damage, err := s.VerifyAll(context.Background())
		require.NoError(t, err)
		require.Empty(t, damage)
		p, err := s.Position(context.Background())
		require.NoError(t, err)
		require.Equal(t, runs, p.Runs)
	})
}

// OPS-008, JRN-061: a run that is purged between the copy of the database and that of its
// files is not in the backup, which is whole.
func TestPurgedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db"), 0o700))
	h := newHouse(t, dir, store.Faults{})
	t.Cleanup(func() { assert.NoError(t, h.s.Close()) })
	for _, id := range []string{"run_1", "run_2"} {
		h.accept(t, id, 400_000)
		h.finish(t, id)
	}
	src, copies := h.source(), 0
	src.Copied = func() {
		if copies++; copies == 1 {
			require.NoError(t, h.s.Purge(context.Background(), "run_1"))
		}
	}
	work := filepath.Join(t.TempDir(), "b")
	m, err := backup.Create(context.Background(), src, work)
	require.NoError(t, err)
	b := opened(t, work)
	found, err := b.Verify(context.Background())
	require.NoError(t, err)
	assert.Empty(t, found)
	assert.Len(t, m.Files, 2, "the database and one value")
	assert.Equal(t, 2, copies)
}

// A manifest is read as it was written, or not at all: each changed byte is found.
func TestEveryByteOfAManifestCounts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db"), 0o700))
	h := newHouse(t, dir, store.Faults{})
	t.Cleanup(func() { assert.NoError(t, h.s.Close()) })
	h.accept(t, "run_1", 10)
	write(t, dir, "secrets.key", "k")
	path := filepath.Join(t.TempDir(), "b")
	_, err := backup.Create(context.Background(), h.source(), path)
	require.NoError(t, err)
	name := filepath.Join(path, "MANIFEST")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		require.NoError(t, os.WriteFile(name, changed, 0o600))
		b, err := backup.Open(context.Background(), path)
		if err == nil { // white space in the last line means nothing
			found, err := b.Verify(context.Background())
			require.NoError(t, err)
			require.Empty(t, found)
			require.Greater(t, i, bytes.LastIndexByte(text[:len(text)-1], '\n'), "byte %d: %q", i, changed)
			continue
		}
		require.ErrorIs(t, err, contract.OfType("backup/invalid"))
	}
}

// OPS-008: an archive that is cut anywhere, or that goes on after its end, is not a backup.
// The error has a type and names the archive; nothing is left of it.
func TestEveryLengthOfAnArchive(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db"), 0o700))
	h := newHouse(t, dir, store.Faults{})
	t.Cleanup(func() { assert.NoError(t, h.s.Close()) })
	write(t, dir, "secrets.key", strings.Repeat("\x00", 2048)) // ends like an archive
	out := t.TempDir()
	path := filepath.Join(out, "b.tar")
	_, err := backup.Create(context.Background(), h.source(), path)
	require.NoError(t, err)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := func(text []byte, what string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, text, 0o600))
		_, err := backup.Open(context.Background(), path)
		require.ErrorIs(t, err, contract.OfType("backup/invalid"), what)
		require.NotErrorIs(t, err, os.ErrNotExist, what)
		require.ErrorContains(t, err, path, what)
		left, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Len(t, left, 1, what)
	}
	for n := 0; n < len(whole); n += step(n, len(whole)) {
		refused(whole[:n], fmt.Sprintf("the first %d of %d bytes", n, len(whole)))
	}
	refused(append(bytes.Clone(whole), 0), "a byte more")
	refused(append(bytes.Clone(whole), whole...), "two archives")
	refused(append(bytes.Clone(whole), make([]byte, 1024)...), "two ends")
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.NoError(t, opened(t, path).Close())
}

// step goes through the first and the last blocks of an archive closely, and to each end of
// a block between them.
func step(n, size int) int {
	switch {
	case n < 2048 || n > size-4096:
		return 64 - n%64
	default:
		return 4096 - n%4096
	}
}

// OPS-008: what a killed backup or a killed verification left is removed by the next one
// in the same folder. What another process works on stays, and so does what is not of a
// backup.
func TestLeftoversAreRemoved(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db"), 0o700))
	h := newHouse(t, dir, store.Faults{})
	t.Cleanup(func() { assert.NoError(t, h.s.Close()) })
	leave := func() {
		write(t, out, ".old.tar.partial-12/data/ferment.db", "a copy")
		write(t, out, ".old.tar.partial-12.tar", "a copy")
		write(t, out, ".old.tar.open-34/MANIFEST", "")
		require.NoError(t, os.MkdirAll(filepath.Join(out, ".other.partial-5"), 0o700))
	}
	kept := []string{".mine.partial-7", ".notes.partial-x"}
	write(t, out, ".mine.partial-7/letter", "")
	write(t, out, ".notes.partial-x/data/a", "")
	names := func() (all []string) {
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	src := h.source()
	src.Copied = func() { // another backup begins while this one is written
		other := h.source()
		_, err := backup.Create(context.Background(), other, filepath.Join(out, "c"))
		require.NoError(t, err)
	}
	leave()
	_, err := backup.Create(context.Background(), src, filepath.Join(out, "b.tar"))
	require.NoError(t, err)
	require.Equal(t, append(kept, "b.tar", "c"), names())
	leave()
	b := opened(t, filepath.Join(out, "b.tar"))
	require.NoError(t, opened(t, filepath.Join(out, "b.tar")).Close())
	found, err := b.Verify(context.Background())
	require.NoError(t, err)
	require.Empty(t, found, "another one was opened meanwhile")
	require.NoError(t, b.Close())
	require.Equal(t, append(kept, "b.tar", "c"), names())
}

// FuzzOpen: no archive makes Open write outside its folder, panic, or leave anything.
func FuzzOpen(f *testing.F) {
	entry := func(heads ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range heads {
			h.Size = 1
			if h.Typeflag != tar.TypeReg {
				h.Size = 0
			}
			_ = w.WriteHeader(&h)
			_, _ = w.Write([]byte("x")[:h.Size])
		}
		_ = w.Close()
		return b.Bytes()
	}
	f.Add(entry(tar.Header{Name: "../../outside", Typeflag: tar.TypeReg}))
	f.Add(entry(tar.Header{Name: "/outside", Typeflag: tar.TypeReg}))
	f.Add(entry(tar.Header{Name: "data", Typeflag: tar.TypeSymlink, Linkname: "/"}, tar.Header{Name: "data/outside", Typeflag: tar.TypeReg}))
	f.Add(entry(tar.Header{Name: "MANIFEST", Typeflag: tar.TypeReg}))
	f.Add([]byte("{:ferment/backup 1}\n"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "in", "b.tar")
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, archive, 0o600))
		b, err := backup.Open(context.Background(), path)
		if err == nil {
			require.NoError(t, b.Close())
		}
		left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		require.NoError(t, err)
		require.Equal(t, []string{path}, left)
	})
}

// OPS-008: what stops a backup leaves nothing: a target with content, and one that cannot
// be written.
func TestRefusedTargets(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db"), 0o700))
	h := newHouse(t, dir, store.Faults{})
	t.Cleanup(func() { assert.NoError(t, h.s.Close()) })
	out := t.TempDir()
	write(t, out, "full/file", "")
	_, err := backup.Create(context.Background(), h.source(), filepath.Join(out, "full"))
	require.ErrorIs(t, err, contract.OfType("admin/conflict"))
	_, err = backup.Create(context.Background(), h.source(), filepath.Join(out, "full", "file", "b"))
	require.ErrorIs(t, err, contract.OfType("backup/failed"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = backup.Create(ctx, h.source(), filepath.Join(out, "b"))
	require.ErrorIs(t, err, contract.OfType("backup/failed"))
	require.NoError(t, os.Mkdir(filepath.Join(out, "empty"), 0o700))
	_, err = backup.Create(context.Background(), h.source(), filepath.Join(out, "empty"))
	require.NoError(t, err)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	assert.Len(t, entries, 2)
}
