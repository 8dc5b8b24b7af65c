package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

const canary = "canary-7f3a9b"

// JRN-061: purge deletes the values of a run from every file, at once. Records,
// hashes and the values of other runs stay.
func TestPurgeErasesValues(t *testing.T) {
	dir := t.TempDir()
	var later atomic.Bool
	s := openAt(t, dir, func(o *Options) {
		o.Now = func() time.Time {
			if later.Load() {
				return start.Add(2 * time.Hour)
			}
			return start.Add(time.Hour)
		}
	})
	secret := edn.MustMap(edn.K("text"), edn.Text(strings.Repeat(canary+" ", 50)))
	file := edn.Text(strings.Repeat(canary+" ", maxRow/8))
	both := dialogue(40)
	a, b := newScript("run_a"), newScript("run_b")
	appendAll(t, s, a.accepted(secret))
	appendAll(t, s, a.step(file, both)...)
	appendAll(t, s, a.finished(nothing))
	appendAll(t, s, b.accepted(both), b.finished(nothing))
	for _, run := range []string{"run_a", "run_b"} {
		require.NoError(t, s.Sync(context.Background(), run))
		s.Drop(run)
	}
	require.True(t, onDisk(t, dir, canary))
	require.NoError(t, s.Purge(context.Background(), "run_a"))
	assert.False(t, onDisk(t, dir, canary))
	for _, run := range []string{"run_a", "run_b"} {
		require.NoError(t, s.Verify(context.Background(), run))
	}
	v, err := s.Value(context.Background(), edn.Hash(both))
	require.NoError(t, err)
	assert.True(t, edn.Equal(both, v), "the other run keeps what it names")
	_, err = s.Value(context.Background(), edn.Hash(secret))
	typed(t, err, "replay/values-purged")
	run, err := s.Run(context.Background(), "run_a")
	require.NoError(t, err)
	assert.Equal(t, start.Add(time.Hour), run.Purged)
	assert.Equal(t, 7, run.Records)
	later.Store(true)
	require.NoError(t, s.Purge(context.Background(), "run_a"))
	run, err = s.Run(context.Background(), "run_a")
	require.NoError(t, err)
	assert.Equal(t, start.Add(time.Hour), run.Purged, "the first time counts")

	// The value can be stored again.
	c := newScript("run_c")
	appendAll(t, s, c.accepted(secret), c.finished(file))
	require.NoError(t, s.Sync(context.Background(), "run_c"))
	require.NoError(t, s.Verify(context.Background(), "run_c"))
	require.NoError(t, s.Purge(context.Background(), "run_b"))
	_, err = s.Value(context.Background(), edn.Hash(both))
	typed(t, err, "replay/values-purged")
	require.NoError(t, s.Verify(context.Background(), "run_c"))
}

// JRN-061, JRN-053: the pieces of a streamed answer go with the values of the run, by a purge and by retention, from all
// files and exports. Records of earlier versions, which have the text themselves, are read and moved as before.
func TestPurgeErasesStreamedText(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir := t.TempDir()
		s := on.openAt(t, dir, func(o *Options) {
			o.Limits.Retain, o.Now = Retention{Age: time.Hour}, func() time.Time { return start.Add(9 * time.Hour) }
		})
		for _, run := range []string{"run_a", "run_b"} {
			sc := newScript(run)
			text := edn.Text(canary + " of " + run)
			appendAll(t, s, sc.accepted(nothing), sc.step(nothing, nothing)[0])
			sc.seq = 2 // step numbers more records than the one that is used
			for i := range 3 {
				appendAll(t, s, sc.record(&journal.AttemptChunk{Attempt: 1, Chunk: i, Value: journal.RefTo(text), Visible: "chunk"}))
			}
			appendAll(t, s, sc.finished(nothing))
			require.NoError(t, s.Sync(t.Context(), run))
			s.Drop(run)
		}
		chunks := func(s *Store, run string) (texts []string) {
			records, err := s.Read(t.Context(), run, 0, 99)
			require.NoError(t, err)
			for _, rec := range records {
				if chunk, ok := rec.Body.(*journal.AttemptChunk); ok {
					texts = append(texts, chunk.Text())
				}
			}
			return texts
		}
		text := canary + " of run_a"
		require.Equal(t, []string{text, text, text}, chunks(s, "run_a"))
		var before, after bytes.Buffer
		require.NoError(t, s.Export(t.Context(), "run_a", &before))
		require.Contains(t, before.String(), canary)
		require.NoError(t, s.Purge(t.Context(), "run_a"))
		require.NoError(t, s.Verify(t.Context(), "run_a"))
		assert.Equal(t, []string{"", "", ""}, chunks(s, "run_a"))
		require.NoError(t, s.Export(t.Context(), "run_a", &after))
		assert.NotContains(t, after.String(), canary)
		assert.False(t, onDisk(t, dir, text))
		for i, file := range []*bytes.Buffer{&before, &after} {
			other := on.openAt(t, t.TempDir())
			_, err := other.Import(t.Context(), file)
			require.NoError(t, err)
			require.NoError(t, other.Verify(t.Context(), "run_a"))
			assert.Equal(t, [][]string{{text, text, text}, {"", "", ""}}[i], chunks(other, "run_a"))
		}
		_, err := s.Retain(t.Context())
		require.NoError(t, err)
		_, err = s.Value(t.Context(), edn.Hash(edn.Text(canary+" of run_b")))
		typed(t, err, "replay/values-purged")

		old := newScript("run_old")
		appendAll(t, s, old.accepted(nothing),
			old.record(&journal.AttemptChunk{Attempt: 1, Inline: "inline", Visible: "chunk"}), old.finished(nothing))
		require.NoError(t, s.Sync(t.Context(), "run_old"))
		s.Drop("run_old")
		require.NoError(t, s.Verify(t.Context(), "run_old"))
		var moved bytes.Buffer
		require.NoError(t, s.Export(t.Context(), "run_old", &moved))
		other := on.openAt(t, t.TempDir())
		_, err = other.Import(t.Context(), &moved)
		require.NoError(t, err)
		assert.Equal(t, []string{"inline"}, chunks(other, "run_old"))
	})
}

// onDisk reports whether a file below dir holds the text.
func onDisk(t *testing.T, dir, text string) (found bool) {
	require.NoError(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return nil
		}
		file, err := os.ReadFile(name)
		require.NoError(t, err)
		found = found || bytes.Contains(file, []byte(text))
		return nil
	}))
	return found
}

// JRN-061: what is shared in part goes to the runs that still need it, in every
// order of purges.
func TestSharedPartsFindAnHeir(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		for _, order := range [][]int{{0, 1, 2, 3}, {1, 0, 2, 3}, {2, 1, 0, 3}, {1, 3, 0, 2}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
			s := on.openAt(t, t.TempDir())
			for n, turns := range []int{40, 60, 60, 80} {
				sc := newScript(fmt.Sprintf("run_%d", n))
				appendAll(t, s, sc.accepted(dialogue(turns)), sc.finished(textOf(7, 300)))
				require.NoError(t, s.Sync(context.Background(), sc.run))
			}
			for i, n := range order {
				require.NoError(t, s.Purge(context.Background(), fmt.Sprintf("run_%d", n)))
				for _, rest := range order[i+1:] {
					require.NoError(t, s.Verify(context.Background(), fmt.Sprintf("run_%d", rest)), "order %v", order)
				}
			}
			for _, table := range []string{"content", "shared"} {
				var n int
				require.NoError(t, s.db.readers().QueryRow("SELECT count(*) FROM "+table).Scan(&n))
				assert.Zero(t, n, "order %v: %s", order, table)
			}
		}
	})
}

// JRN-060: runs are removed by age and size, oldest first; open, pinned and keyed
// runs stay, failed ones may stay longer. A removed run leaves its summary.
func TestRetainRemovesOldRuns(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		now := start
		s := on.openAt(t, t.TempDir(), func(o *Options) {
			o.Limits.Retain = Retention{Age: time.Hour, FailedAge: 3 * time.Hour, KeyWindow: 5 * time.Hour}
			o.Now = func() time.Time { return now }
		})
		for n, name := range []string{"plain", "pinned", "failed", "keyed", "open", "young"} {
			sc := newScript(name)
			if name == "young" {
				sc.at = start.Add(2 * time.Hour)
			}
			first, last := sc.accepted(textOf(n, 300)), sc.finished(textOf(-n, 300))
			switch name {
			case "failed":
				body := last.Body.(*journal.RunFinished)
				body.Status, body.Err = "failed", contract.Errorf("provider/error", "no")
			case "keyed":
				first.Body.(*journal.RunAccepted).Key = someSum
			}
			appendAll(t, s, first)
			if name != "open" {
				appendAll(t, s, last)
			}
			require.NoError(t, s.Sync(context.Background(), name))
		}
		require.NoError(t, s.Pin(context.Background(), "pinned"))
		removed := func() (out []string) {
			_, err := s.Retain(context.Background())
			require.NoError(t, err)
			runs, err := s.Runs(context.Background(), Filter{})
			require.NoError(t, err)
			for _, r := range runs {
				if !r.Removed.IsZero() {
					out = append(out, r.ID)
				}
			}
			return out
		}
		assert.Empty(t, removed())
		now = start.Add(2 * time.Hour)
		assert.Equal(t, []string{"plain"}, removed())
		now = start.Add(4 * time.Hour)
		assert.Equal(t, []string{"young", "failed", "plain"}, removed())
		now = start.Add(9 * time.Hour)
		assert.Equal(t, []string{"young", "keyed", "failed", "plain"}, removed())
		require.NoError(t, s.Unpin(context.Background(), "pinned"))
		assert.Equal(t, []string{"young", "keyed", "failed", "pinned", "plain"}, removed())

		run, err := s.Run(context.Background(), "failed")
		require.NoError(t, err)
		assert.Equal(t, "failed", run.State)
		assert.Equal(t, "provider/error", run.Error)
		assert.Equal(t, now, now)
		stored, err := s.Bytes(context.Background(), "failed", 0, 10)
		require.NoError(t, err)
		assert.Empty(t, stored)
		require.NoError(t, s.Verify(context.Background(), "failed"))
		require.NoError(t, s.Verify(context.Background(), "open"))
		typed(t, s.Purge(context.Background(), "open"), "queue/invalid-transition")
		typed(t, s.Purge(context.Background(), "nothing"), "run/not-found")
		typed(t, s.Pin(context.Background(), "nothing"), "run/not-found")
	})
}

// JRN-060: the oldest runs are removed until the rest fits, with their files.
func TestRetainKeepsWithinBytes(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir := t.TempDir()
		var dropped []string
		s := on.openAt(t, dir, func(o *Options) {
			o.Limits.Retain, o.Dropped = Retention{Bytes: 2 << 20}, func(run string) { dropped = append(dropped, run) }
		})
		for n := range 8 {
			sc := newScript(fmt.Sprintf("run_%d", n))
			appendAll(t, s, sc.accepted(textOf(n, 600_000)), sc.finished(nothing))
			require.NoError(t, s.Sync(context.Background(), sc.run))
		}
		would, err := s.Removable(context.Background())
		require.NoError(t, err)
		before, err := s.Status(context.Background())
		require.NoError(t, err)
		done, err := s.Retain(context.Background())
		require.NoError(t, err)
		assert.Equal(t, 5, done.Runs)
		assert.Equal(t, []string{"run_0", "run_1", "run_2", "run_3", "run_4"}, dropped)
		assert.Equal(t, done, would, "the dry run says what the removal does")
		after, err := s.Status(context.Background())
		require.NoError(t, err)
		assert.Equal(t, before.Bytes-done.Bytes, after.Bytes)
		assert.Equal(t, []int{8 * on.files, 3 * on.files}, []int{before.Files, after.Files})
		files, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
		require.NoError(t, err)
		assert.Len(t, files, 3*on.files)
		damage, err := s.VerifyAll(context.Background())
		require.NoError(t, err)
		assert.Empty(t, damage)
	})
}

// JRN-060, CLI-005: a file that no value names, as a crash leaves it, is counted and then
// deleted.
func TestRetainSweepsFiles(t *testing.T) {
	s := openAt(t, filled(t))
	lost := filepath.Join(s.blobs.dir, "aa", strings.Repeat("a", 64))
	require.NoError(t, os.MkdirAll(filepath.Dir(lost), 0o700))
	require.NoError(t, os.WriteFile(lost, []byte("12345"), 0o600))
	would, err := s.Removable(context.Background())
	require.NoError(t, err)
	assert.Equal(t, Removal{Files: 1, FileBytes: 5}, would)
	assert.FileExists(t, lost)
	done, err := s.Retain(context.Background())
	require.NoError(t, err)
	assert.Equal(t, would, done)
	assert.NoFileExists(t, lost)
}

// JRN-060: a damaged run is reported and does not keep the others.
func TestRetainReportsDamage(t *testing.T) {
	dir := filled(t)
	tamper(t, dir, "UPDATE content SET body = CAST('{' AS BLOB), size = 1, form = 1 WHERE n = 2")
	s := openAt(t, dir, func(o *Options) { o.Limits.Retain = Retention{Age: time.Second} })
	n, err := s.Retain(context.Background())
	assert.ErrorIs(t, err, errDamaged)
	assert.Equal(t, 1, n.Runs)
	require.NoError(t, s.Err())
}

// HCL-039, JRN-060: changed limits hold from the next removal and the next run on.
func TestSetLimits(t *testing.T) {
	now, free := start, uint64(1<<30)
	s := openAt(t, t.TempDir(), func(o *Options) {
		o.Now = func() time.Time { return now }
		o.Faults.Free = func() (uint64, error) { return free, nil }
	})
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(nothing), sc.finished(nothing))
	syncRun(t, s, sc.run)
	now = now.Add(2 * time.Hour)
	done, err := s.Retain(t.Context())
	require.NoError(t, err)
	require.Zero(t, done.Runs)
	require.False(t, s.Full())
	s.SetLimits(Limits{MinFree: 2 << 30, Retain: Retention{Age: time.Hour}})
	assert.True(t, s.Full())
	done, err = s.Retain(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, done.Runs)
	s.SetLimits(Limits{})
	assert.False(t, s.Full())
}
