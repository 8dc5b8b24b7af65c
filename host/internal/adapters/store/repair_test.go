package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

func repair(t testing.TB, dir string, dryRun bool) *Repaired {
	t.Helper()
	got, err := Repair(context.Background(), Options{Path: filepath.Join(dir, "ferment.db"), Now: now}, dryRun)
	require.NoError(t, err)
	return got
}

// storedBytes returns the records of all runs as they are stored.
func storedBytes(t testing.TB, s *Store) map[string][]Stored {
	t.Helper()
	out := map[string][]Stored{}
	runs, err := s.Runs(context.Background(), Filter{})
	require.NoError(t, err)
	for _, r := range runs {
		out[r.ID], err = s.Bytes(context.Background(), r.ID, 0, maxRecords)
		require.NoError(t, err)
	}
	return out
}

// JRN-030: a damaged run is cut before its first damaged record, a damaged value is
// left out, and everything else stays byte for byte. What is not kept is beside the
// database.
func TestRepairCutsDamagedRuns(t *testing.T) {
	base := filled(t)
	original := openAt(t, base)
	want := storedBytes(t, original)
	require.NoError(t, original.Close())
	flip := func(text string) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			file := readFile(t, dir)
			require.Equal(t, 1, bytes.Count(file, []byte(text)), text)
			file[bytes.Index(file, []byte(text))+len(text)-1] ^= 1
			writeFile(t, dir, file)
		}
	}
	change := func(statements ...string) func(testing.TB, string) {
		return func(t testing.TB, dir string) { tamper(t, dir, statements...) }
	}
	blob := func(do func(path string) error) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			files, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, do(files[0]))
		}
	}
	for name, row := range map[string]struct {
		damage func(testing.TB, string)
		want   RepairedRun // Lost is compared by its length
		lost   int
	}{
		"byte of a record":   {flip(`:run "run_2" :seq 4`), RepairedRun{Run: "run_2", Records: 3, Cut: 14, State: "suspended", Halted: true}, 0},
		"first record":       {flip(`:run "run_2" :seed 0 :seq 1 `), RepairedRun{Run: "run_2", Cut: 17, State: "completed"}, 0},
		"last record":        {flip(`:run "run_2" :seq 17`), RepairedRun{Run: "run_2", Records: 16, Cut: 1, State: "suspended", Halted: true}, 0},
		"open run":           {flip(`:run "run_3" :seq 5`), RepairedRun{Run: "run_3", Records: 4, Cut: 2, State: "suspended", Halted: true}, 0},
		"all of an open run": {flip(`:run "run_3" :seed 0 :seq 1 `), RepairedRun{Run: "run_3", Cut: 6, State: "failed", Halted: true}, 0},
		"gap": {change("DELETE FROM records WHERE id = (2 << 32) | 9"),
			RepairedRun{Run: "run_2", Records: 8, Cut: 9, State: "suspended", Halted: true}, 0},
		"lost end of an open run": {change("DELETE FROM records WHERE id = (3 << 32) | 6"),
			RepairedRun{Run: "run_3", Records: 5, Cut: 1, State: "suspended", Halted: true}, 0},
		"record after the end": {change("INSERT INTO records SELECT id + 1, chain, body FROM records WHERE id = (2 << 32) | 17"),
			RepairedRun{Run: "run_2", Records: 17, Cut: 1, State: "completed"}, 0},
		"chain value of another length": {change("UPDATE records SET chain = zeroblob(31) WHERE id = (2 << 32) | 3"),
			RepairedRun{Run: "run_2", Records: 2, Cut: 15, State: "suspended", Halted: true}, 0},
		"chain of the run": {change("UPDATE runs SET chain = zeroblob(32) WHERE n = 2"), RepairedRun{Run: "run_2", Records: 17, State: "completed"}, 0},
		"chain of the run, short": {change("UPDATE runs SET chain = zeroblob(31) WHERE n = 2"),
			RepairedRun{Run: "run_2", Records: 17, State: "completed"}, 0},
		"chain of an open run": {change("UPDATE runs SET chain = zeroblob(32) WHERE n = 3"),
			RepairedRun{Run: "run_3", Records: 6, State: "suspended", Halted: true}, 0},
		"cost":                 {change("UPDATE runs SET cost = '0.01' WHERE n = 2"), RepairedRun{Run: "run_2", Records: 17, State: "completed"}, 0},
		"lost value":           {change("DELETE FROM content WHERE n = 1"), RepairedRun{Run: "run_1", Records: 7, State: "completed"}, 1},
		"value":                {flip(`{:input "run_2`), RepairedRun{Run: "run_2", Records: 17, State: "completed"}, 1},
		"value of an open run": {flip(`{:input "run_3`), RepairedRun{Run: "run_3", Records: 6, State: "failed", Halted: true}, 1},
		"byte of a file": {blob(func(path string) error {
			body, err := os.ReadFile(path)
			require.NoError(t, err)
			body[len(body)/2] ^= 1
			return os.WriteFile(path, body, 0o600)
		}), RepairedRun{Run: "run_1", Records: 7, State: "completed"}, 1},
		"lost file": {blob(os.Remove), RepairedRun{Run: "run_1", Records: 7, State: "completed"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
			row.damage(t, dir)
			before := uncounted(readFile(t, dir))
			names := filesOf(t, dir)

			plan := repair(t, dir, true)
			assert.True(t, bytes.Equal(before, uncounted(readFile(t, dir))), "a dry run changes nothing")
			assert.Equal(t, names, filesOf(t, dir))
			got := repair(t, dir, false)
			plan.Kept = got.Kept
			assert.Equal(t, plan, got)
			require.Len(t, got.Damaged, 1)
			assert.False(t, got.Sound())
			assert.Equal(t, 3, got.Runs)
			found := got.Damaged[0]
			require.NotNil(t, found.Damage)
			assert.Equal(t, found.Run, found.Damage.Run)
			assert.Len(t, found.Lost, row.lost)
			found.Damage, found.Lost = nil, nil
			assert.Equal(t, row.want, found)

			kept, err := os.ReadFile(filepath.Join(got.Kept, "ferment.db"))
			require.NoError(t, err)
			assert.True(t, bytes.Equal(before, uncounted(kept)))
			blobs, err := filepath.Glob(filepath.Join(got.Kept, "blobs", "*", "*"))
			require.NoError(t, err)
			assert.Len(t, blobs, map[string]int{"byte of a file": 1}[name])
			for _, line := range cutRecords(t, got.Kept) {
				assert.Equal(t, `"`+row.want.Run+`"`, line.Key("run").String())
				seq, _ := line.Key("seq").AsInt()
				assert.Greater(t, int(seq), row.want.Records)
			}

			s := openAt(t, dir)
			damage, err := s.VerifyAll(context.Background())
			require.NoError(t, err)
			assert.Empty(t, damage)
			for id, records := range storedBytes(t, s) {
				expected := want[id]
				if id == row.want.Run {
					expected = expected[:row.want.Records]
					if row.want.Halted && len(expected) > 0 {
						require.Len(t, records, len(expected)+1)
						records = records[:len(expected)]
					}
				}
				assert.Equal(t, len(expected), len(records), id)
				for i := range expected {
					assert.Equal(t, expected[i], records[i], id)
				}
			}
			open, err := s.Unfinished(context.Background())
			require.NoError(t, err)
			assert.Len(t, open, map[bool]int{true: 0, false: 1}[row.want.Run == "run_3"], "a cut run is not resumed")
			run, err := s.Run(context.Background(), row.want.Run)
			require.NoError(t, err)
			if row.want.Halted || row.want.Records == 0 {
				assert.Equal(t, "journal/damaged", run.Error)
			}
			assert.Equal(t, row.lost > 0, !run.Purged.IsZero())
			_, err = s.Retain(context.Background()) // the store still works as a whole
			require.NoError(t, err)
			sc := newScript("run_4")
			appendAll(t, s, sc.whole(2)...)
			require.NoError(t, s.Sync(context.Background(), "run_4"))
			require.NoError(t, s.Close())
			assert.True(t, repair(t, dir, false).Sound())
		})
	}
}

// uncounted returns a database without its two counters of writers, which opening it
// can change.
func uncounted(file []byte) []byte {
	clear(file[24:28])
	clear(file[92:96])
	return file
}

// filesOf returns the names of all files below a folder.
func filesOf(t testing.TB, dir string) (out []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if !strings.HasSuffix(path, "-shm") && !strings.HasSuffix(path, "-wal") {
			out = append(out, path)
		}
		return err
	}))
	return out
}

func cutRecords(t testing.TB, kept string) (out []edn.Value) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kept, cutName))
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		v, err := edn.Read(line)
		require.NoError(t, err)
		out = append(out, v)
	}
	return out
}

// JRN-030: a run that was cut waits for a decision; its costs are kept. One that
// cannot go on has a response that says so.
func TestRepairHaltsACutRun(t *testing.T) {
	dir := filled(t)
	tamper(t, dir, "UPDATE records SET body = '{' WHERE id = (2 << 32) | 10", "DELETE FROM content WHERE owner = 3")
	got := repair(t, dir, false)
	lines := cutRecords(t, got.Kept)
	require.Len(t, lines, 8)
	assert.Equal(t, `"{"`, lines[0].Key("bytes").String())
	assert.Equal(t, "11", lines[1].Key("record").Key("seq").String())
	s := openAt(t, dir)
	records, err := s.Records("run_2")
	require.NoError(t, err)
	assert.Equal(t, &journal.RunSuspended{Why: "journal/damaged"}, records[9].Body)
	assert.Equal(t, records[8].At, records[9].At)
	lost, err := s.Records("run_3")
	require.NoError(t, err)
	end := lost[6].Body.(*journal.RunFinished)
	assert.Equal(t, "journal/damaged", end.Err.Type)
	assert.Equal(t, ":journal/damaged", end.Response.Value().Key("error").Key("type").String())
	assert.Equal(t, `"run_3"`, end.Response.Value().Key("run/id").String())
	assert.True(t, end.Executed)
}

// JRN-030: what is only in the write-ahead log is salvaged too, up to its last
// commit.
func TestRepairReadsTheLog(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	s := openAt(t, dir)
	for n := range 6 {
		sc := newScript(fmt.Sprintf("run_%d", n+1))
		appendAll(t, s, sc.whole(4)...)
		require.NoError(t, s.Sync(context.Background(), sc.run))
		if n == 3 {
			checkpoint(t, s)
		}
	}
	want := storedBytes(t, s)
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir))) // as after a kill
	require.NoError(t, s.Close())
	log, err := os.OpenFile(filepath.Join(copied, "ferment.db-wal"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = log.Write(bytes.Repeat([]byte{7}, 3*pageSize)) // a torn tail
	require.NoError(t, err)
	require.NoError(t, log.Close())
	require.NoError(t, os.Remove(filepath.Join(copied, "ferment.db-shm")))

	pages, err := openPages(filepath.Join(copied, "ferment.db"))
	require.NoError(t, err)
	found := map[int64]bool{}
	require.NoError(t, pages.rows(context.Background(), func(table string, row []any) error {
		if table == "records" {
			found[row[0].(int64)] = true
		}
		return nil
	}))
	require.NoError(t, pages.close())
	total := 0
	for _, records := range want {
		total += len(records)
	}
	assert.Len(t, found, total)

	zeroPage(t, copied, pageOf(t, copied, `:run "run_1" :seed 0`))
	got := repair(t, copied, false)
	assert.NotEmpty(t, got.File)
	have := storedBytes(t, openAt(t, copied))
	for _, id := range []string{"run_5", "run_6"} {
		assert.Equal(t, want[id], have[id])
	}
}

// JRN-030: a database that was truncated to nothing is not taken for a new one, as
// far as other files show that it was not; what its log has is salvaged.
func TestEmptiedDatabaseIsDamaged(t *testing.T) {
	var d *Damage
	dir := filled(t)
	writeFile(t, dir, nil)
	_, err := tryOpen(t, dir)
	require.ErrorAs(t, err, &d)
	got := repair(t, dir, false)
	assert.False(t, got.Sound())
	values, err := filepath.Glob(filepath.Join(got.Kept, "blobs", "*", "*"))
	require.NoError(t, err)
	assert.Len(t, values, 1)

	dir = t.TempDir()
	copied := t.TempDir()
	s := openAt(t, dir)
	appendAll(t, s, newScript("run_1").whole(2)...)
	require.NoError(t, s.Sync(context.Background(), "run_1"))
	want := storedBytes(t, s)
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	writeFile(t, copied, nil)
	_, err = tryOpen(t, copied)
	require.ErrorAs(t, err, &d)
	repair(t, copied, false)
	assert.Equal(t, want, storedBytes(t, openAt(t, copied)))
}

// JRN-030: a repair that fails leaves the files as they were.
func TestFailedRepairChangesNothing(t *testing.T) {
	dir := filled(t)
	tamper(t, dir, "DELETE FROM records WHERE id = (3 << 32) | 4")
	first := repair(t, dir, true)
	require.Empty(t, first.Kept)
	before, names := uncounted(readFile(t, dir)), filesOf(t, dir)
	taken := filepath.Join(dir, "ferment.db"+damagedSuffix+now().Format("20060102T150405Z"))
	require.NoError(t, os.Mkdir(taken, 0o700))
	_, err := Repair(context.Background(), Options{Path: filepath.Join(dir, "ferment.db"), Now: now}, false)
	require.ErrorIs(t, err, os.ErrExist)
	require.NoError(t, os.Remove(taken))
	assert.True(t, bytes.Equal(before, uncounted(readFile(t, dir))))
	assert.Equal(t, names, filesOf(t, dir))
	s := openAt(t, t.TempDir())
	_, err = Repair(context.Background(), s.opts, false)
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
}

// The tables that a repair reads have the columns of the schema.
func TestRepairKnowsTheSchema(t *testing.T) {
	s := openAt(t, t.TempDir())
	for table, columns := range tableColumns {
		var n int
		require.NoError(t, s.db.readers().QueryRow("SELECT count(*) FROM pragma_table_info(?)", table).Scan(&n))
		assert.Equal(t, n, len(columns), table)
	}
}

// JRN-030: any file is read without a crash.
func FuzzPages(f *testing.F) {
	file := readFile(f, filled(f))
	for page := 0; page+pageSize <= len(file); page += pageSize {
		f.Add(file[page : page+pageSize])
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		path := filepath.Join(t.TempDir(), "ferment.db")
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(file[:2*pageSize]), page...), 0o600))
		require.NoError(t, os.WriteFile(path+"-wal", page, 0o600))
		pages, err := openPages(path)
		require.NoError(t, err)
		require.NoError(t, pages.rows(context.Background(), func(string, []any) error { return nil }))
		require.NoError(t, pages.close())
	})
}

// JRN-030, JRN-061: what a repair is not about stays as it was: pins, purged values,
// removed runs, values that runs share, and whose runs they are.
func TestRepairKeepsTheRest(t *testing.T) {
	dir := filled(t)
	s := openAt(t, dir, func(o *Options) { o.Limits.Retain = Retention{Bytes: 1} })
	sc := newScript("run_4")
	appendAll(t, s, sc.whole(3)...) // the values of steps are those of run_2
	require.NoError(t, s.Sync(context.Background(), "run_4"))
	require.NoError(t, s.Pin(context.Background(), "run_4"))
	require.NoError(t, s.Pin(context.Background(), "run_2"))
	_, err := s.Retain(context.Background())
	require.NoError(t, err)
	require.NoError(t, s.Purge(context.Background(), "run_2"))
	runs, err := s.Runs(context.Background(), Filter{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	damage := map[string]func(){
		"record": func() { tamper(t, dir, "UPDATE records SET body = 'x' WHERE id = (3 << 32) | 6") },
		"page":   func() { zeroPage(t, dir, 0) },
	}
	for _, name := range []string{"page", "record"} { // the second is for the result of the first
		damage[name]()
		require.False(t, repair(t, dir, false).Sound())
		s = openAt(t, dir)
		got, err := s.Runs(context.Background(), Filter{})
		require.NoError(t, err)
		require.Len(t, got, 4)
		for i, run := range got {
			if run.ID != "run_3" || name == "page" {
				assert.Equal(t, runs[i], run, name)
			}
			if run.Removed.IsZero() { // a removed run has no record that says whose it was
				of, err := s.Runs(context.Background(), Filter{Tenant: "a tenant", Session: "session of " + run.ID})
				require.NoError(t, err)
				assert.Len(t, of, 1)
			}
		}
		require.NoError(t, s.Close())
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "ferment.db"+damagedSuffix+now().Format("20060102T150405Z"))))
	}
	s = openAt(t, dir)
	require.NoError(t, s.Purge(context.Background(), "run_4"))
	damaged, err := s.VerifyAll(context.Background())
	require.NoError(t, err)
	assert.Empty(t, damaged)
}
