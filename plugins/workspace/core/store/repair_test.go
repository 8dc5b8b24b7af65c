package store

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

var testOptions = Options{Now: func() int64 { return 1 }, Unsynced: true, SegmentSize: 1500}

// everyFile is a closed store that has every kind of file, a compaction behind
// it, and something in quarantine.
func everyFile(t testing.TB, scheme id.Scheme) (dir string, root id.ID) {
	dir = create(t, scheme)
	s := furnished(t, dir, func(o *Options) { o.SegmentSize = 1500 })
	mustPut(t, s.Store, "d", "other", "dropped")
	remove(t, s.Store, "d", true)
	require.Positive(t, compact(t, s.Store, Compaction{}).Purged)
	remove(t, s.Store, "", false)
	for i := range 6 {
		mustPut(t, s.Store, "a", "note", fmt.Sprint("more about a, ", i))
	}
	work := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(work, "f"), nil, 0o644))
	r, err := scan.Run(background, scan.Options{Root: work, Scheme: scheme})
	require.NoError(t, err)
	require.NoError(t, s.SaveCache(r))
	root = stateRoot(t, s.Store, Latest)
	require.NoError(t, s.Close())
	torn := filepath.Join(dir, "torn")
	require.NoError(t, os.WriteFile(torn, []byte("what was cut off"), 0o600))
	require.NoError(t, log.MoveAway(torn, filepath.Join(dir, quarantineDir)))
	return dir, root
}

// filesIn returns the content of every file below a directory.
func filesIn(t testing.TB, dir string) map[string]string {
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(b)
		return err
	}))
	return all
}

// WS-171, WS-173: any flipped byte of a cleanly closed store is reported with the
// name of its file; the plan of a repair changes nothing; after the repair the
// store is valid, the state is the same if the log is whole, nothing is lost that
// is not listed, and no byte is discarded.
func TestFlippedBytesAreRepaired(t *testing.T) {
	n := proof.Size(t, "flipped bytes repaired", 25, 2000)
	for _, scheme := range []id.Scheme{id.B3, id.S2} {
		whole, root := everyFile(t, scheme)
		before := filesIn(t, whole)
		names := []string{}
		for name, b := range before {
			if len(b) > 0 {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		require.Greater(t, len(names), 8)
		dir := filepath.Join(t.TempDir(), "w")
		for seed := range n / 2 {
			r := rand.New(rand.NewPCG(uint64(seed), 171))
			name := names[seed%len(names)]
			copyDir(t, whole, dir)
			b := []byte(before[name])
			at := r.IntN(len(b))
			b[at] ^= 1 << r.IntN(8)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
			what := fmt.Sprintf("%s: %s byte %d", scheme, name, at)

			report, err := Verify(background, dir, Check{})
			require.NoError(t, err, what)
			require.False(t, report.Valid, what)
			require.Equal(t, name, report.Errors[0].File, what)
			damaged := filesIn(t, dir)
			plan := &Repaired{}
			often := seed%8 < 1
			if often {
				plan, err = Repair(background, dir, testOptions, false)
				require.NoError(t, err, what)
				require.Equal(t, damaged, filesIn(t, dir), "%s: a plan changes nothing", what)
			}
			done, err := Repair(background, dir, testOptions, true)
			require.NoError(t, err, what)
			require.NotEmpty(t, done.Steps, what)
			if often {
				require.Equal(t, plan, done, what)
			}
			report, err = Verify(background, dir, Check{})
			require.NoError(t, err, what)
			require.Empty(t, report.Errors, what)
			if !strings.HasPrefix(name, logDir) {
				require.Equal(t, root, report.StateRoot, what)
				require.Empty(t, done.Lost, what)
			}
			kept := quarantined(t, dir)
			require.Contains(t, kept, string(b), "%s: the damaged file is in quarantine", what)
			if often {
				s := open(t, dir)
				require.Nil(t, s.Damage())
				require.Empty(t, s.Store.warnings(), what)
				putTree(t, s.Store, grow(scheme, map[string]string{"a": "new"}))
				mustPut(t, s.Store, "a", "note", "goes on")
				require.NoError(t, s.Close())
			}
			if often {
				again, err := Repair(background, dir, testOptions, true)
				require.NoError(t, err, what)
				require.Equal(t, &Repaired{}, again, "there is nothing left to repair")
			}
		}
	}
}

func quarantined(t testing.TB, dir string) (texts []string) {
	for _, b := range filesIn(t, filepath.Join(dir, quarantineDir)) {
		texts = append(texts, b)
	}
	return texts
}

// WS-173: of a log with a damaged part, every frame that verifies is there with
// its text, every other one is listed, heads fall back to the frame before, and
// states from the damage on are not readable by number.
func TestDamagedLogIsRepaired(t *testing.T) {
	for seed := range proof.Size(t, "damaged logs repaired", 6, 1000) {
		r := rand.New(rand.NewPCG(uint64(seed), 173))
		s := randomStore(t, r, "w")
		if r.IntN(3) == 0 {
			remove(t, s.Store, "a", true)
			compact(t, s.Store, Compaction{})
			remove(t, s.Store, "a", false)
		}
		dir, tr := s.dir, ids(treeOf(t, s.Store))
		frames := allFrames(t, s.Store)
		require.NoError(t, s.Close())
		damageLog(t, dir, r)
		without := []string{"", sealFile, indexFile}[r.IntN(3)]
		if without != "" {
			require.NoError(t, os.Remove(filepath.Join(dir, without)))
		}
		before := filesIn(t, filepath.Join(dir, logDir))
		done, err := Repair(background, dir, testOptions, true)
		require.NoError(t, err, "seed %d", seed)
		if len(done.Steps) == 0 { // the torn tail of a log of which more is not known
			continue
		}
		kept := quarantined(t, dir)
		if slices.Contains(done.Steps, RewriteLog) {
			for _, b := range before {
				require.Contains(t, kept, b, "seed %d", seed)
			}
		}
		s = open(t, dir)
		require.Nil(t, s.Damage())
		lost := map[id.ID]bool{}
		for _, f := range done.Lost {
			lost[f.Frame] = true
		}
		now := allFrames(t, s.Store)
		for x, text := range frames {
			switch got, there := now[x]; {
			case there && got != "":
				require.Equal(t, text, got, "seed %d", seed)
			case without != indexFile && text != "": // with an index, each loss is known
				require.True(t, lost[x], "seed %d: %s", seed, x)
			}
		}
		if without != indexFile {
			require.Equal(t, tr, ids(treeOf(t, s.Store)), "seed %d: the index knows the tree", seed)
		}
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			return v.frames().eachPath(background, "", func(p *pathState) error {
				for _, h := range p.heads {
					require.False(t, lost[h.frame], "a head is a frame that is there")
				}
				return nil
			})
		}))
		for _, x := range done.LostSeqs {
			typed(t, s.View(background, x.Since, func(*Snapshot) error { return nil }), "seq/compacted")
		}
		if treeOf(t, s.Store) == nil { // the index is lost too, and the log does not have the first scan any more
			putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
		}
		mustPut(t, s.Store, "", "note", "goes on")
		require.NoError(t, s.Close())
		report, err := Verify(background, dir, Check{})
		require.NoError(t, err)
		require.Empty(t, report.Errors, "seed %d", seed)
	}
}

// allFrames returns every frame with its text, empty if that is gone.
func allFrames(t testing.TB, s *Store) map[id.ID]string {
	all := map[id.ID]string{}
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		list, err := v.frames().ids(background, "SELECT id FROM frames")
		for _, x := range list {
			f, err := v.Frame(background, x)
			require.NoError(t, err)
			b, err := v.Content(background, f.Content)
			if err != nil {
				require.ErrorIs(t, err, ErrTextDropped)
			}
			all[x] = string(b)
		}
		return err
	}))
	return all
}

// damageLog makes a part of one segment garbage, cuts it, or removes it.
func damageLog(t testing.TB, dir string, r *rand.Rand) {
	entries, err := os.ReadDir(filepath.Join(dir, logDir))
	require.NoError(t, err)
	path := filepath.Join(dir, logDir, entries[r.IntN(len(entries))].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	switch at := r.IntN(len(b)); r.IntN(4) {
	case 0:
		b = b[:at]
	case 1:
		require.NoError(t, os.Remove(path))
		return
	default:
		for i := range b[at:min(at+1+r.IntN(400), len(b))] {
			b[at+i] = byte(r.IntN(256))
		}
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// WS-173: a head whose frame is lost falls back to the frame before it, and the
// texts that other frames share stay.
func TestHeadsFallBack(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	one := mustPut(t, s.Store, "a", "note", "the first text")
	two := mustPut(t, s.Store, "a", "note", "the second text")
	three := mustPut(t, s.Store, "a", "other", "the second text")
	_, end := put(t, s.Store, "last")
	require.NoError(t, s.Close())
	path := filepath.Join(dir, logDir, log.SegmentName(1))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[bytes.Index(b, []byte("the second text"))] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	done, err := Repair(background, dir, testOptions, true)
	require.NoError(t, err)
	assert.Equal(t, []RepairStep{RewriteLog, RebuildIndex}, done.Steps)
	assert.Equal(t, []LostFrame{
		{Frame: two.ID, Path: "a", Type: "note", Seq: two.Seq},
		{Frame: three.ID, Path: "a", Type: "other", Seq: three.Seq, Text: true},
	}, done.Lost)
	s = open(t, dir)
	assert.Equal(t, one.ID.String()+" fresh", head(t, s.Store, Latest, "a", "note"))
	assert.Equal(t, "frame/no-head", head(t, s.Store, Latest, "a", "other"))
	assert.Equal(t, "frame/not-found", textOf(t, s.Store, Latest, three.ID))
	assert.Equal(t, []string{"text/dropped a"}, codes(validate(t, s.Store, Check{}).Warnings))
	again := mustPut(t, s.Store, "a", "other", "the second text")
	assert.Equal(t, three.ID, again.ID)
	typed(t, s.View(background, end, func(*Snapshot) error { return nil }), "seq/compacted")
	require.NoError(t, s.View(background, two.Seq-1, func(*Snapshot) error { return nil }))
}

// WS-173: a repair that fails leaves the damaged store, and the next one goes on;
// a store that is open cannot be repaired.
func TestFailedRepair(t *testing.T) {
	whole, _ := everyFile(t, id.B3)
	entries, err := os.ReadDir(filepath.Join(whole, logDir))
	require.NoError(t, err)
	path := filepath.Join(whole, logDir, entries[0].Name())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(whole, identityFile), []byte("garbage"), 0o600))
	for _, op := range []string{log.OpWrite, log.OpCreate, log.OpSync, log.OpRemove, opIdentity, opSeal} {
		for after := range 3 {
			dir := filepath.Join(t.TempDir(), "w")
			copyDir(t, whole, dir)
			left := after
			o := testOptions
			o.Faults.Before = func(at string) error {
				if at != op {
					return nil
				}
				if left--; left >= 0 {
					return nil
				}
				return &log.Partial{Bytes: 100, Err: unix.ENOSPC}
			}
			if _, err := Repair(background, dir, o, true); err != nil {
				require.ErrorIs(t, err, unix.ENOSPC, "%s %d", op, after)
			}
			done, err := Repair(background, dir, testOptions, true)
			require.NoError(t, err, "%s %d", op, after)
			_ = done
			findings, err := verifyDir(dir)
			require.NoError(t, err)
			require.Empty(t, findings, "%s %d", op, after)
			require.Contains(t, quarantined(t, dir), string(b))
		}
	}
	s := open(t, create(t, id.B3))
	_, err = Repair(background, s.dir, testOptions, true)
	typed(t, err, "store/locked")
}

// WS-171, WS-220: a format that is newer because of a flipped byte is damage; one
// that the log was begun with is a newer version.
func TestFormatOfIdentity(t *testing.T) {
	dir, _ := everyFile(t, id.B3)
	path := filepath.Join(dir, identityFile)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	newer := bytes.Replace(whole, []byte(":format 1"), []byte(":format 3"), 1)
	require.NotEqual(t, whole, newer)
	require.NoError(t, os.WriteFile(path, newer, 0o600))
	found, err := Verify(background, dir, Check{})
	require.NoError(t, err)
	assert.Equal(t, []any{IdentityNewer, identityFile, false}, []any{found.Errors[0].Code, found.Errors[0].File, found.Valid})
	done, err := Repair(background, dir, testOptions, true)
	require.NoError(t, err)
	assert.Equal(t, []RepairStep{RestoreIdentity}, done.Steps)
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, whole, again)

	require.NoError(t, os.WriteFile(path, newer, 0o600))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, logDir)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, logDir), 0o700))
	_, err = Verify(background, dir, Check{})
	typed(t, err, "store/version")
}

// WS-173: workspace.edn is restored from the log, the log's first record from
// workspace.edn; without both the store cannot be repaired, and says so.
func TestIdentityIsRestored(t *testing.T) {
	dir, _ := everyFile(t, id.GitSHA1)
	text, err := os.ReadFile(filepath.Join(dir, identityFile))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, identityFile)))
	done, err := Repair(background, dir, testOptions, true)
	require.NoError(t, err)
	assert.Equal(t, []RepairStep{RestoreIdentity}, done.Steps)
	again, err := os.ReadFile(filepath.Join(dir, identityFile))
	require.NoError(t, err)
	assert.Equal(t, text, again)

	require.NoError(t, os.RemoveAll(filepath.Join(dir, logDir)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, logDir), 0o700))
	done, err = Repair(background, dir, testOptions, true)
	require.NoError(t, err)
	assert.NotEmpty(t, done.Lost, "the index knows what was there")
	s := open(t, dir)
	assert.NotNil(t, treeOf(t, s.Store), "and the tree")
	require.NoError(t, s.Close())

	require.NoError(t, os.RemoveAll(filepath.Join(dir, logDir)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, logDir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, identityFile), []byte("garbage"), 0o600))
	_, err = Repair(background, dir, testOptions, true)
	typed(t, err, "store/corrupt")
}
