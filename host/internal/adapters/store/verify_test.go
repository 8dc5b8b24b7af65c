package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// dialogue is a request with a number of messages.
func dialogue(turns int) edn.Value {
	var messages []edn.Value
	for i := range turns {
		messages = append(messages, edn.MustMap(edn.K("role"), edn.K("user"), edn.K("text"), textOf(5000+i, 300)))
	}
	return edn.MustMap(edn.K("messages"), edn.Vector(messages...))
}

// large is a value whose body is a file.
func large(seed int) edn.Value {
	return edn.MustMap(edn.K("n"), edn.Int(int64(seed)), edn.K("file"), edn.Text(string(bytes.Repeat([]byte{'a' + byte(seed%26)}, maxRow+1))))
}

// JRN-001, JRN-030: every change of a record, a chain value, a summary or a value
// is found, at its position. A broken chain of an open run refuses the start.
func TestVerifyFindsEveryChange(t *testing.T) {
	const second, third = "(1 << 32) | 2", "(1 << 32) | 3"
	flip := func(column, table, where string, at int) string {
		return fmt.Sprintf("UPDATE %[2]s SET %[1]s = CAST(substr(%[1]s, 1, %[4]d) || "+
			"char(unicode(substr(CAST(%[1]s AS TEXT), %[5]d, 1)) + 1) || substr(%[1]s, %[6]d) AS BLOB) WHERE %[3]s",
			column, table, where, at, at+1, at+2)
	}
	base := filled(t)
	for name, row := range map[string]struct {
		change []string
		want   Damage // What is not compared
	}{
		"record byte": {[]string{flip("body", "records", "id = "+second, 30)}, Damage{Run: "run_1", Seq: 2}},
		"last byte":   {[]string{"UPDATE records SET body = body || ' ' WHERE id = " + second}, Damage{Run: "run_1", Seq: 2}},
		"chain value": {[]string{"UPDATE records SET chain = zeroblob(32) WHERE id = " + second}, Damage{Run: "run_1", Seq: 2}},
		"gap":         {[]string{"DELETE FROM records WHERE id = " + second}, Damage{Run: "run_1", Seq: 2}},
		"lost tail":   {[]string{"DELETE FROM records WHERE id = (1 << 32) | 7"}, Damage{Run: "run_1", Seq: 7}},
		"lost run":    {[]string{"DELETE FROM records WHERE id >> 32 = 1"}, Damage{Run: "run_1", Seq: 1}},
		"record after the end": {[]string{"INSERT INTO records SELECT id + 1, chain, body FROM records WHERE id = (1 << 32) | 7"},
			Damage{Run: "run_1", Seq: 8}},
		"reorder": {[]string{"UPDATE records SET id = -1 WHERE id = " + second, "UPDATE records SET id = " + second + " WHERE id = " + third,
			"UPDATE records SET id = " + third + " WHERE id = -1"}, Damage{Run: "run_1", Seq: 2}},
		"record of another run": {[]string{"UPDATE records SET body = (SELECT body FROM records WHERE id = (2 << 32) | 2) WHERE id = " + second},
			Damage{Run: "run_1", Seq: 2}},
		"chain of the run": {[]string{"UPDATE runs SET chain = zeroblob(32) WHERE n = 1"}, Damage{Run: "run_1", Seq: 7}},
		"cut with its chain": {[]string{"DELETE FROM records WHERE id = (1 << 32) | 7",
			"UPDATE runs SET records = 6, chain = (SELECT chain FROM records WHERE id = (1 << 32) | 6) WHERE n = 1"}, Damage{Run: "run_1"}},
		"status":       {[]string{"UPDATE runs SET state = 'failed' WHERE n = 1"}, Damage{Run: "run_1"}},
		"cost":         {[]string{"UPDATE runs SET cost = '0.01' WHERE n = 1"}, Damage{Run: "run_1"}},
		"value":        {[]string{"UPDATE content SET body = CAST('{:n 7}' AS BLOB), size = 6 WHERE n = 1"}, Damage{Run: "run_1", Seq: 1}},
		"value length": {[]string{"UPDATE content SET size = size + 1 WHERE n = 1"}, Damage{Run: "run_1", Seq: 1}},
		"lost value":   {[]string{"DELETE FROM content WHERE n = 1"}, Damage{Run: "run_1", Seq: 1}},
		"lost part":    {[]string{"DELETE FROM content WHERE n = 2"}, Damage{Run: "run_1", Seq: 3}},
		"swapped parts": {[]string{"UPDATE content SET hash = zeroblob(31) WHERE n = 2",
			"UPDATE content SET body = (SELECT body FROM content WHERE n = 3), size = (SELECT size FROM content WHERE n = 3) WHERE n = 2"},
			Damage{Run: "run_1", Seq: 3}},
		"form": {[]string{"UPDATE content SET form = 2 WHERE n = 1"}, Damage{Run: "run_1", Seq: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
			tamper(t, dir, row.change...)
			s := openAt(t, dir)
			all, err := s.VerifyAll(context.Background())
			require.NoError(t, err)
			require.Len(t, all, 1)
			got := *all[0]
			got.What = ""
			if got.Seq > 0 && row.want.Seq > 0 {
				got.Hash = ""
			}
			assert.Equal(t, row.want, got)
			typed(t, all[0], "journal/damaged")
			require.NoError(t, s.Verify(context.Background(), "run_2"))
		})
	}
}

// JRN-001: a flipped byte of a record is found, whichever it is.
func TestVerifyFindsEveryByte(t *testing.T) {
	dir := filled(t)
	s := openAt(t, dir)
	stored, err := s.Bytes(context.Background(), "run_2", 0, 1)
	require.NoError(t, err)
	body := stored[0].Bytes
	require.NoError(t, s.Close())
	for at := 0; at < len(body); at += 13 {
		changed := bytes.Clone(body)
		changed[at] ^= 1
		assert.NotEqual(t, stored[0].Chain, chained(sum{}, changed).hash(), "byte %d", at)
	}
	assert.Equal(t, stored[0].Chain, chained(sum{}, body).hash())
}

// JRN-030: Open verifies open runs, and only these.
func TestOpenRefusesADamagedOpenRun(t *testing.T) {
	dir := filled(t)
	tamper(t, dir, "DELETE FROM records WHERE id = (3 << 32) | 4")
	_, err := tryOpen(t, dir)
	var d *Damage
	require.ErrorAs(t, err, &d)
	assert.Equal(t, "run_3", d.Run)
	assert.Equal(t, 4, d.Seq)
	assert.Contains(t, d.Error(), "run run_3")
}

// JRN-030: a damaged page is reported as damage, not read as content.
func TestOpenReportsADamagedFile(t *testing.T) {
	dir := filled(t)
	name := filepath.Join(dir, "ferment.db")
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append([]byte("no database"), file[11:]...), 0o600))
	_, err = tryOpen(t, dir)
	var d *Damage
	require.ErrorAs(t, err, &d)
	// Any damaged page behind the first is found by Open or by VerifyAll.
	for page := pageSize; page < len(file); page += pageSize {
		spoilt := bytes.Clone(file)
		for i := range pageSize {
			spoilt[page+i] ^= 0x55
		}
		require.NoError(t, os.WriteFile(name, spoilt, 0o600))
		s, err := tryOpen(t, dir)
		if err == nil {
			var damage []*Damage
			damage, err = s.VerifyAll(context.Background())
			if err == nil && len(damage) > 0 {
				err = damage[0]
			}
			require.NoError(t, s.Close())
		}
		// A free page and the index of pages hold nothing.
		if err != nil {
			assert.True(t, errors.As(err, &d) || isCorrupt(err), "page %d: %v", page/pageSize, err)
		}
	}
}

// JRN-020: a value that is a file is compared with its hash when it is read.
func TestValueFileIsVerified(t *testing.T) {
	dir := filled(t)
	files, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	body, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for name, change := range map[string]func() error{
		"byte":  func() error { return os.WriteFile(files[0], append([]byte(`"c`), body[2:]...), 0o600) },
		"short": func() error { return os.WriteFile(files[0], body[:len(body)-1], 0o600) },
		"gone":  func() error { return os.Remove(files[0]) },
	} {
		require.NoError(t, change(), name)
		s := openAt(t, dir)
		var d *Damage
		require.ErrorAs(t, s.Verify(context.Background(), "run_1"), &d, name)
		assert.Equal(t, 4, d.Seq, name)
		assert.Equal(t, edn.Hash(large(1)), d.Hash, name)
		require.NoError(t, s.Close())
	}
}

// JRN-001: the schema itself refuses changes.
func TestSchemaRefusesChanges(t *testing.T) {
	s := openAt(t, filled(t))
	for _, text := range []string{
		"UPDATE records SET body = body",
		"DELETE FROM records WHERE id = (1 << 32) | 2",
		"UPDATE content SET body = NULL",
		"DELETE FROM content",
		"DELETE FROM runs",
		"UPDATE runs SET id = id || 'x'",
	} {
		require.NoError(t, s.queue.run(context.Background(), func(ctx context.Context) error {
			_, err := s.db.writer().ExecContext(ctx, text)
			assert.ErrorContains(t, err, "append-only", text)
			return nil
		}))
	}
	_, err := s.db.readers().Exec("INSERT INTO shared VALUES (1, 1)")
	assert.Error(t, err, "readers do not write")
}

// Readers use a purged value as nil, and Verify accepts what is missing on
// purpose only.
func TestReadersOfMissingValues(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir := on.filled(t)
		s := on.openAt(t, dir)
		require.NoError(t, s.Purge(context.Background(), "run_2"))
		require.NoError(t, s.Verify(context.Background(), "run_2"))
		records, err := s.Read(context.Background(), "run_2", 0, 1)
		require.NoError(t, err)
		ref := records[0].Body.(*journal.RunAccepted).Request
		assert.True(t, ref.Value().IsNil())
		_, err = s.Value(context.Background(), ref.Hash())
		typed(t, err, "replay/values-purged")
	})
}

// JRN-001: a run that grows while it is verified is not damaged.
func TestVerifyOfAGrowingRun(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		sc := newScript("run_1")
		appendAll(t, s, sc.accepted(nothing), sc.record(&journal.CancelRequested{By: "a"}))
		syncRun(t, s, "run_1")
		row, err := s.run(context.Background(), "run_1")
		require.NoError(t, err)
		appendAll(t, s, sc.record(&journal.CancelRequested{By: "b"}))
		syncRun(t, s, "run_1")
		require.NoError(t, s.verify(context.Background(), row), "as it was when its row was read")
		require.NoError(t, s.Verify(context.Background(), "run_1"))
	})
}

// JRN-030: readers of a stored run get the error of a damaged record, value or
// page, and no shorter sequence.
func TestReadersGetDamage(t *testing.T) {
	base := filled(t)
	for name, change := range map[string]func(t *testing.T, dir string){
		"record": func(t *testing.T, dir string) {
			tamper(t, dir, "UPDATE records SET body = 'x' WHERE id = (2 << 32) | 3")
		},
		"value": func(t *testing.T, dir string) { damageValue(t, dir, "run_2") },
		"page":  func(t *testing.T, dir string) { zeroPage(t, dir, pageOf(t, dir, `:run "run_2" :seq 4`)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
			change(t, dir)
			s, err := tryOpen(t, dir)
			if err == nil {
				_, err = s.Records("run_2")
			}
			var d *Damage
			require.ErrorAs(t, err, &d)
			typed(t, err, "journal/damaged")
			if s == nil {
				return
			}
			_, ok, err := s.Follow("run_2", 0).Next(context.Background())
			assert.False(t, ok)
			typed(t, err, "journal/damaged")
			none, err := s.Records("run_9")
			require.NoError(t, err)
			assert.Empty(t, none)
		})
	}
}

// damageValue changes the request of a run, which no other run has.
func damageValue(t testing.TB, dir, run string) {
	t.Helper()
	file := readFile(t, dir)
	text := []byte(`{:input "` + run + `"}`)
	require.Equal(t, 1, bytes.Count(file, text))
	writeFile(t, dir, bytes.Replace(file, text, bytes.ToUpper(text), 1))
}

// pageOf returns the number of the only page of a closed database that has a
// text, from 0.
func pageOf(t testing.TB, dir, text string) int {
	t.Helper()
	file := readFile(t, dir)
	require.Equal(t, 1, bytes.Count(file, []byte(text)), text)
	return bytes.Index(file, []byte(text)) / pageSize
}

func zeroPage(t testing.TB, dir string, page int) {
	t.Helper()
	file := readFile(t, dir)
	clear(file[page*pageSize : (page+1)*pageSize])
	writeFile(t, dir, file)
}

func readFile(t testing.TB, dir string) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(dir, "ferment.db"))
	require.NoError(t, err)
	return file
}

func writeFile(t testing.TB, dir string, file []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ferment.db"), file, 0o600))
}

// JRN-001, JRN-030: a run whose summary was removed is damage, and its number is not
// given to another run. A suspended run with a missing record is not resumed.
func TestVerifyFindsWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir)
	appendAll(t, s, newScript("run_1").whole(1)...)
	appendAll(t, s, newScript("run_2").whole(1)...)
	syncRun(t, s, "run_1")
	syncRun(t, s, "run_2")
	require.NoError(t, s.Close())
	tamper(t, dir, "DROP TRIGGER runs_delete", "DELETE FROM runs WHERE id = 'run_2'")
	s = openAt(t, dir)
	damaged, err := s.VerifyAll(context.Background())
	require.NoError(t, err)
	require.Len(t, damaged, 1)
	assert.Equal(t, "run_2", damaged[0].Run)
	assert.Contains(t, damaged[0].What, "summary is missing")
	appendAll(t, s, newScript("run_3").whole(1)...)
	syncRun(t, s, "run_3")
	require.NoError(t, s.Verify(context.Background(), "run_3"))
	require.NoError(t, s.Close())

	dir = t.TempDir()
	s = openAt(t, dir)
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(nothing))
	appendAll(t, s, sc.step(nothing, nothing)[:2]...)
	sc.seq = 3
	appendAll(t, s, sc.record(&journal.RunSuspended{Why: "effects/outcome-unknown"}))
	syncRun(t, s, "run_1")
	require.NoError(t, s.Close())
	tamper(t, dir, "DELETE FROM records WHERE id & 4294967295 = 2")
	_, err = tryOpen(t, dir)
	typed(t, err, "journal/damaged")
}
