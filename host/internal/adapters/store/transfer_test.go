package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JRN-053: an exported run is one readable file; imported elsewhere it is the
// same run, byte for byte.
func TestExportComesBack(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		from := on.openAt(t, on.filled(t))
		var file bytes.Buffer
		require.NoError(t, from.Export(context.Background(), "run_1", &file))
		for line := range bytes.Lines(file.Bytes()) {
			_, err := edn.Read(line)
			require.NoError(t, err, "each line is a form")
		}
		to := on.openAt(t, t.TempDir())
		sc := newScript("run_0") // so that numbers differ
		appendAll(t, to, sc.whole(2)...)
		require.NoError(t, to.Sync(context.Background(), "run_0"))
		id, err := to.Import(context.Background(), bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		assert.Equal(t, "run_1", id)
		want, err := from.Bytes(context.Background(), "run_1", 0, 100)
		require.NoError(t, err)
		got, err := to.Bytes(context.Background(), "run_1", 0, 100)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		require.NoError(t, to.Verify(context.Background(), "run_1"))
		run, err := to.Run(context.Background(), "run_1")
		require.NoError(t, err)
		assert.True(t, run.Imported)
		for by, want := range map[Reach]bool{{}: true, {Principal: run.Principal}: false} { // AUTH-012: of another host
			runs, err := to.Runs(context.Background(), Filter{Reach: by})
			require.NoError(t, err)
			assert.Equal(t, want, slices.ContainsFunc(runs, func(r Run) bool { return r.ID == "run_1" }))
			readable, err := to.Readable(context.Background(), edn.Hash(large(1)), by)
			require.NoError(t, err)
			assert.Equal(t, want, readable)
		}
		is, err := to.InReach(context.Background(), "run_1", Reach{Principal: run.Principal})
		require.NoError(t, err)
		assert.False(t, is)
		var again bytes.Buffer
		require.NoError(t, to.Export(context.Background(), "run_1", &again))
		assert.Equal(t, file.String(), again.String())
		_, err = to.Import(context.Background(), bytes.NewReader(file.Bytes()))
		typed(t, err, "journal/fenced")
		require.ErrorIs(t, err, ErrRecorded)
		typed(t, from.Export(context.Background(), "run_3", &file), "queue/invalid-transition")
		require.NoError(t, to.Err())
	})
}

// JRN-053: a changed or cut file is refused and leaves nothing behind.
func TestImportVerifies(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		from := on.openAt(t, on.filled(t))
		var file bytes.Buffer
		require.NoError(t, from.Export(context.Background(), "run_1", &file))
		lines := strings.SplitAfter(strings.TrimSuffix(file.String(), "\n"), "\n")
		to := on.openAt(t, t.TempDir())
		refuse := func(what string, text string) {
			_, err := to.Import(context.Background(), strings.NewReader(text))
			require.Error(t, err, what)
			refused := contract.AsError(err)
			require.Equal(t, "import/invalid", refused.Type, "%s: %v", what, err)
			require.NotEmpty(t, refused.Hint, what)
			var damage *Damage
			require.NotErrorAs(t, err, &damage, "%s: the journal is not damaged", what)
			require.NoError(t, to.Err(), what)
		}
		refuse("empty", "")
		_, err := to.Import(context.Background(), strings.NewReader("{:a 1}"))
		typed(t, err, "import/invalid")
		refuse("text", "{:a")
		for i := range lines {
			refuse("without a line", strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), ""))
			for at := 5; at < len(lines[i])-5; at += 1 + len(lines[i])/8 {
				changed := []byte(lines[i])
				if changed[at]++; changed[at] == '\n' || changed[at] == ' '+1 || changed[at] == ',' {
					continue
				}
				refuse("changed "+string(changed[max(0, at-20):at+1]),
					strings.Join(lines[:i], "")+string(changed)+strings.Join(lines[i+1:], ""))
			}
		}
		runs, err := to.Runs(context.Background(), Filter{})
		require.NoError(t, err)
		assert.Empty(t, runs)
		for _, table := range []string{"records", "content"} {
			var n int
			require.NoError(t, to.db.readers().QueryRow("SELECT count(*) FROM "+table).Scan(&n))
			assert.Zero(t, n, table)
		}
		_, err = to.Import(context.Background(), &file)
		require.NoError(t, err)
	})
}

// JRN-053, JRN-061: a run that was imported without the values that are here
// already keeps them when the run that stored them is purged.
func TestImportSharesParts(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		a := newScript("run_a")
		appendAll(t, s, a.accepted(dialogue(40)), a.finished(nothing))
		require.NoError(t, s.Sync(context.Background(), "run_a"))
		var file bytes.Buffer
		require.NoError(t, s.Export(context.Background(), "run_a", &file))
		other := on.openAt(t, t.TempDir())
		b := newScript("run_b")
		appendAll(t, other, b.accepted(dialogue(41)), b.finished(nothing))
		require.NoError(t, other.Sync(context.Background(), "run_b"))
		file.Reset()
		require.NoError(t, other.Export(context.Background(), "run_b", &file))
		var kept []string
		for line := range strings.Lines(file.String()) {
			hash, _ := edn.MustRead(line).Key("hash").AsString()
			if h, err := parseSum(hash); err == nil {
				if _, err := s.content(context.Background(), "content_by_hash", h); err == nil {
					continue // the line of a part that is here
				}
			}
			kept = append(kept, line)
		}
		require.Less(t, len(kept), 10)
		_, err := s.Import(context.Background(), strings.NewReader(strings.Join(kept, "")))
		require.NoError(t, err)
		require.NoError(t, s.Purge(context.Background(), "run_a"))
		require.NoError(t, s.Verify(context.Background(), "run_b"))
	})
}

// JRN-053, JRN-061: a purged run is exported without its values.
func TestExportOfAPurgedRun(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		from := on.openAt(t, on.filled(t))
		require.NoError(t, from.Purge(context.Background(), "run_1"))
		var file bytes.Buffer
		require.NoError(t, from.Export(context.Background(), "run_1", &file))
		to := on.openAt(t, t.TempDir())
		_, err := to.Import(context.Background(), &file)
		require.NoError(t, err)
		require.NoError(t, to.Verify(context.Background(), "run_1"))
		run, err := to.Run(context.Background(), "run_1")
		require.NoError(t, err)
		assert.False(t, run.Purged.IsZero())
	})
}

// JRN-053: the lines about plugins are read back by name, and an import, which has plugins of
// its own, only verifies them.
func TestExportedPlugins(t *testing.T) {
	from := openAt(t, filled(t))
	var file bytes.Buffer
	require.NoError(t, from.Export(t.Context(), "run_1", &file))
	run := file.String()
	want := map[string]edn.Value{"a": edn.MustRead(`{:plugin/name "first"}`), "b": edn.MustRead(`{:plugin/name "second"}`)}
	file.WriteString(ExportedPlugins(want))
	got, err := Exported(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
	got, err = Exported(strings.NewReader(run))
	require.NoError(t, err)
	assert.Empty(t, got)

	to := openAt(t, t.TempDir())
	for old, changed := range map[string]string{`"first"`: `"fiRst"`, `:plugin "b"`: `:plugin "c"`} {
		require.Equal(t, 1, strings.Count(file.String(), old))
		text := strings.Replace(file.String(), old, changed, 1)
		_, err = Exported(strings.NewReader(text))
		typed(t, err, "import/invalid")
		_, err = to.Import(t.Context(), strings.NewReader(text))
		typed(t, err, "import/invalid")
	}
	id, err := to.Import(t.Context(), &file)
	require.NoError(t, err)
	assert.Equal(t, "run_1", id)
	file.Reset()
	require.NoError(t, to.Export(t.Context(), id, &file))
	assert.Equal(t, run, file.String())
}
