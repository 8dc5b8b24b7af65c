package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

func validate(t testing.TB, s *Store, check Check) *Report {
	t.Helper()
	r, err := s.Validate(background, check)
	require.NoError(t, err)
	return r
}

// codes returns code and place of findings.
func codes(list []Finding) (out []string) {
	for _, f := range list {
		out = append(out, fmt.Sprint(f.Code, " ", f.File, f.Path))
	}
	return out
}

// furnished is an open store with frames, deletions, snapshots and an ignore list.
func furnished(t testing.TB, dir string, change ...func(*Options)) *opened {
	s := open(t, dir, change...)
	putTree(t, s.Store, grow(s.Scheme, map[string]string{"a": "1", "d/b": "2", "d/e/c": "3", "\xff": ""}))
	child := mustPut(t, s.Store, "d/b", "note", "about b")
	mustPut(t, s.Store, "d", "digest", "about d", func(n *NewFrame) { n.Inputs = []Input{{Kind: id.InputFrame, ID: child.ID}} })
	mustPut(t, s.Store, "a", "note", "about a")
	mustPut(t, s.Store, "\xff", "note", "about a")
	putTree(t, s.Store, grow(s.Scheme, map[string]string{"a": "1", "d/b": "changed", "f": "2"}))
	mustPut(t, s.Store, "a", "context", "answer", func(n *NewFrame) { n.Origin, n.Inputs = Generated, nil })
	update(t, s.Store, func(tx *Tx) error {
		_, err := tx.SetSnapshot("first", 3)
		return errors.Join(err, second(tx.SetIgnore([]byte("*.log\n"))), second(tx.Delete("f")))
	})
	return s
}

func second[T any](_ T, err error) error { return err }

// WS-170, WS-172: an undamaged store is valid, open and closed, at both levels,
// and in every scheme; the report has its roots and counts, and validating
// changes nothing.
func TestValidateUndamaged(t *testing.T) {
	for _, scheme := range []id.Scheme{id.B3, id.S2, id.GitSHA1, id.GitSHA256} {
		dir := create(t, scheme)
		s := furnished(t, dir, func(o *Options) { o.SegmentSize = 1500 })
		var root id.ID
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			tr, err := v.Tree(background)
			root = tr.Root.ID
			return err
		}))
		check := func(r *Report, level Level) {
			require.True(t, r.Valid, r.Errors)
			assert.Empty(t, r.Warnings)
			assert.Equal(t, root, r.Root)
			assert.Equal(t, []int{4, 5}, []int{r.Nodes, r.Frames}, "without the deleted node")
			assert.Equal(t, level == Full, r.StateRoot == stateRoot(t, s.Store, Latest))
		}
		check(validate(t, s.Store, Check{}), Full)
		check(validate(t, s.Store, Check{Level: Quick}), Quick)
		require.NoError(t, s.Close())
		var steps int
		for _, level := range []Level{Full, Quick} {
			r, err := Verify(background, dir, Check{Level: level, Progress: func(done, total int) { steps++; assert.LessOrEqual(t, done, total) }})
			require.NoError(t, err)
			s = open(t, dir)
			check(r, level)
			require.NoError(t, s.Close())
		}
		assert.Positive(t, steps)
	}
}

// WS-170: what is not damage is a warning: a workspace without a tree, drift from
// the disk, agents that are not declared.
func TestValidateWarnings(t *testing.T) {
	s := open(t, create(t, id.B3))
	assert.Equal(t, []string{"workspace/unscanned "}, codes(validate(t, s.Store, Check{}).Warnings))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "1", "c": "1"}))
	mustPut(t, s.Store, "a", "note", "x")
	mustPut(t, s.Store, "a", "note", "y", func(n *NewFrame) { n.Agent = "stranger" })
	r := validate(t, s.Store, Check{
		Agents: func(agent string) bool { return agent == "writer" },
		Disk: func(context.Context) (*tree.Tree, error) {
			return grow(id.B3, map[string]string{"a": "1", "b": "2", "d": "1"}), nil
		},
	})
	assert.True(t, r.Valid)
	assert.Equal(t, []string{"agent/unknown ", "disk/differs d", "disk/differs ", "disk/differs b", "disk/differs c"}, codes(r.Warnings))
	broken := errors.New("disk")
	_, err := s.Validate(background, Check{Disk: func(context.Context) (*tree.Tree, error) { return nil, broken }})
	require.ErrorIs(t, err, broken)
}

// WS-170, WS-172: rerun computes the heads again; other text is an error, drift from the
// disk and a recipe that cannot be run are warnings.
func TestValidateRerun(t *testing.T) {
	s := furnished(t, create(t, id.B3))
	called := 0
	check := Check{Rerun: func(_ context.Context, v *Snapshot, f *Frame) (id.ID, error) {
		called++
		switch f.Path {
		case "a":
			return id.ID{}, fmt.Errorf("read: %w", ErrDrift)
		case "d":
			return id.B3.Bytes([]byte("other")), nil
		case "d/b":
			return id.ID{}, errors.New("failed")
		}
		return f.Content, nil
	}}
	r := validate(t, s.Store, check)
	assert.Equal(t, []string{"synthesis/nondeterministic d"}, codes(r.Errors))
	assert.Equal(t, []string{"disk/differs a", "rerun/failed d/b"}, codes(r.Warnings))
	assert.Equal(t, 4, called, "every head of a path that is not gone")
}

// WS-170: rows of the index that are not those of the log are found in each
// table, in an open store too.
func TestValidateIndex(t *testing.T) {
	for _, statement := range []string{
		"UPDATE versions SET size = size + 1 WHERE path = CAST('a' AS BLOB)",
		"DELETE FROM heads WHERE type = 'digest'",
		"UPDATE sets SET root = zeroblob(32)",
		"DELETE FROM inputs",
		"DELETE FROM contents WHERE length = 7",
		"UPDATE frames SET agent = 'other'",
		"UPDATE commits SET time = 5 WHERE seq = 3",
		"UPDATE tombstones SET until = 20",
		"DELETE FROM snapshots",
		"INSERT INTO ignores VALUES (1, 'x')",
		"UPDATE meta SET value = value + 1 WHERE key = 'offset'",
		"UPDATE meta SET value = 'w2' WHERE key = 'workspace'",
	} {
		dir := create(t, id.B3)
		s := furnished(t, dir)
		require.NoError(t, s.index.exec(background, statement))
		r := validate(t, s.Store, Check{})
		assert.False(t, r.Valid, statement)
		assert.Equal(t, indexFile, r.Errors[0].File)
		require.NoError(t, s.Close())
		r, err := Verify(background, dir, Check{})
		require.NoError(t, err)
		assert.False(t, r.Valid, "%s: a seal does not make it right", statement)
	}
}

// WS-172: all findings are reported, not the first one; one kind of them is
// bounded.
func TestAllFindings(t *testing.T) {
	dir := create(t, id.B3)
	s := furnished(t, dir)
	require.NoError(t, s.index.exec(background, "DELETE FROM inputs", "UPDATE frames SET agent = 'other'"))
	r := validate(t, s.Store, Check{})
	assert.Len(t, r.Errors, 2)
	var f findings
	for range maxFindings + 5 {
		f.wrong(Finding{Code: NodeMismatch})
	}
	f.wrong(Finding{Code: IndexDiffers})
	list := f.done().Errors
	assert.Len(t, list, maxFindings+2)
	assert.Contains(t, list[len(list)-1].Reason, "5 more")
}

// WS-170, WS-171: an open store whose log is damaged says so, with every place of
// the damage; what was rebuilt since it was opened is a warning.
func TestValidateDamagedOpenStore(t *testing.T) {
	dir := create(t, id.B3)
	s := furnished(t, dir, func(o *Options) { o.SegmentSize = 1500 })
	require.NoError(t, s.Close())
	for _, n := range []int{2, 4} {
		path := filepath.Join(dir, logDir, log.SegmentName(n))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		b[len(b)/2] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(dir, indexFile)))
	s = open(t, dir)
	require.NotNil(t, s.Damage())
	r := validate(t, s.Store, Check{})
	assert.False(t, r.Valid)
	assert.Equal(t, logFile(2), r.Errors[0].File)
	assert.True(t, slices.ContainsFunc(r.Errors, func(f Finding) bool { return f.Code == LogDamaged && f.File == logFile(4) }))
	assert.True(t, slices.ContainsFunc(r.Warnings, func(f Finding) bool { return f.Code == Rebuilt }))
	_, err := s.Compact(background, "tester", Compaction{})
	typed(t, err, "store/read-only")
}
