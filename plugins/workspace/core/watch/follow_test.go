package watch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// WS-163: a subscription goes on behind any transaction without a gap or a
// repeat; one that is not there yet is an error.
func TestResume(t *testing.T) {
	r := newRig(t, quick(), "f")
	s := r.subscribe(SubscribeOptions{})
	commits := []uint64{s.expect(Ready).Commit}
	for _, file := range []string{"a", "b", "c", "d"} {
		r.write(file)
		e := s.expect(Change)
		require.Equal(t, []string{file}, e.Added)
		commits = append(commits, e.Commit)
	}
	s.Close()
	assert.Equal(t, State{}, r.watcher.State(), "nothing is watched without a subscription")
	r.write("e")
	for i, after := range commits {
		s := r.subscribe(SubscribeOptions{After: &after})
		assert.Equal(t, after, s.expect(Ready).Commit)
		for _, file := range []string{"a", "b", "c", "d", "e"}[i:] {
			assert.Equal(t, []string{file}, s.expect(Change).Added)
		}
		s.silent()
	}
	future := commits[4] + 10
	_, err := r.watcher.Subscribe(background, SubscribeOptions{After: &future})
	require.ErrorIs(t, err, contract.OfType("seq/unknown"))
}

// WS-163: what other requests commit is reported too.
func TestScansOfOthers(t *testing.T) {
	r := newRig(t, Options{Debounce: time.Hour, Batch: time.Hour}, "f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	r.write("g")
	_, err := r.workspace.Scan(background, scan.Options{})
	require.NoError(t, err)
	assert.Equal(t, []string{"g"}, s.expect(Change).Added)
}

// WS-163: a consumer that is more than 10,000 changes behind gets one summary,
// with what differs in the end and bounded lists.
func TestSlowConsumer(t *testing.T) {
	r := newRig(t, Options{Debounce: time.Hour, Batch: time.Hour}, "f", "gone")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	commit := func(files map[string]bool) {
		root := &tree.Node{Mode: id.Dir}
		tr := &tree.Tree{Scheme: id.B3, Root: root}
		for name := range files {
			content := id.B3.Bytes([]byte(name))
			root.Children = append(root.Children, &tree.Node{Name: name, Mode: id.File, Size: 1, Content: content, ID: id.B3.Node(name, id.File, content)})
		}
		root.Sort()
		tr.Seal("", root)
		_, err := r.workspace.Store.Update(background, "other", func(tx *store.Tx) error {
			_, err := tx.PutTree(tr)
			return err
		})
		require.NoError(t, err)
	}
	many := map[string]bool{"f": true, "gone": true}
	for i := range 6000 {
		many["n"+time.Duration(i).String()] = true
	}
	commit(many)
	assert.Equal(t, Counts{Added: 6000, Ancestors: 1}, s.expect(Change).Counts, "6,000 changes are not too many")
	commit(map[string]bool{"f": true, "gone": true})
	commit(many)
	delete(many, "gone")
	commit(many)
	e := s.expect(Change)
	assert.True(t, e.Summary)
	assert.Equal(t, []string{"gone"}, e.Removed)
	assert.Equal(t, Counts{Removed: 1, Ancestors: 1}, e.Counts)
	s.silent()

	commit(map[string]bool{})
	e = s.expect(Change)
	assert.Equal(t, 6001, e.Counts.Removed)
	assert.Len(t, e.Removed, maxListed)
	assert.False(t, e.Summary, "one transaction is one event")
}

// WS-164: the hooks run after each change; what they return and their errors are
// events, and the watch goes on.
func TestHooks(t *testing.T) {
	r := newRig(t, quick(), "f")
	var calls []string
	fail := errors.New("no")
	s := r.subscribe(SubscribeOptions{
		Regenerate: func(_ context.Context, e *Event) (any, error) {
			calls = append(calls, "regenerate "+strings.Join(e.Added, " "))
			return len(calls), map[bool]error{true: fail}[len(calls) > 2]
		},
		OnChange: func(_ context.Context, e *Event) error {
			calls = append(calls, "hook "+strings.Join(e.Added, " "))
			return map[bool]error{true: fail}[len(calls) > 2]
		},
	})
	s.expect(Ready)
	r.write("a")
	changed := s.expect(Change)
	assert.Empty(t, calls, "the change is reported first")
	e := s.expect(Regenerated)
	assert.Equal(t, 1, e.Report)
	require.NoError(t, e.Err)
	assert.Equal(t, changed.Commit, e.Commit)
	r.write("b")
	s.expect(Change)
	require.ErrorIs(t, s.expect(Regenerated).Err, fail)
	require.ErrorIs(t, s.expect(OnChange).Err, fail)
	assert.Equal(t, []string{"regenerate a", "hook a", "regenerate b", "hook b"}, calls)
	s.silent()
}
