package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
)

// framesAt lists the frames of a path.
func framesAt(v *Snapshot, path string, f Filter) (*Page, error) {
	states, err := v.Lineage(background, path)
	if err != nil || len(states) == 0 {
		return &Page{}, err
	}
	return v.FramesOf(background, &Found{Path: path, States: states}, f)
}

// WS-074, WS-076: lists are filtered, ordered by time, transaction and id, and
// paged; a cursor belongs to its state, which the hint of the error names.
func TestFrameLists(t *testing.T) {
	now := int64(0)
	s := open(t, create(t, id.B3), func(o *Options) { o.Now = func() int64 { return now } })
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "1"}))
	var want []string
	for i := range 25 {
		now = int64(i / 4) // ties are broken by the transaction
		f := mustPut(t, s.Store, "a", []string{"note", "digest"}[i%2], fmt.Sprint(i), func(n *NewFrame) { n.Agent = []string{"x", "y", "z"}[i%3] })
		want = append(want, f.ID.String())
	}
	mustPut(t, s.Store, "b", "note", "elsewhere")
	slices.Reverse(want)
	list := func(asOf uint64, f Filter) (ids []string, cursor string, err error) {
		err = s.View(background, asOf, func(v *Snapshot) error {
			p, err := framesAt(v, "a", f)
			if err == nil {
				for _, x := range p.Frames {
					ids = append(ids, x.ID.String())
				}
				cursor = p.Cursor
			}
			return err
		})
		return ids, cursor, err
	}
	all, cursor, err := list(Latest, Filter{})
	require.NoError(t, err)
	assert.Equal(t, want, all)
	assert.Empty(t, cursor)
	var pages []string
	for f := (Filter{Limit: 10}); ; f.Cursor = cursor {
		var page []string
		page, cursor, err = list(Latest, f)
		require.NoError(t, err)
		pages = append(pages, page...)
		if cursor == "" {
			break
		}
		_, _, err = list(5, f.with(cursor))
		typed(t, err, "input/invalid")
		var seq uint64
		_, err = fmt.Sscanf(contract.AsError(err).Hint, "continue the list at its state with :as-of %d,", &seq)
		require.NoError(t, err)
		_, _, err = list(seq, f.with(cursor))
		require.NoError(t, err)
	}
	assert.Equal(t, want, pages)
	notes, _, err := list(Latest, Filter{Type: "note", Agent: "x", Origin: Authored})
	require.NoError(t, err)
	assert.Len(t, notes, 5)
	fresh, _, err := list(Latest, Filter{State: Fresh})
	require.NoError(t, err)
	assert.Equal(t, want[:2], fresh, "one head for each type")
	early, _, err := list(5, Filter{})
	require.NoError(t, err)
	assert.Len(t, early, 3)
	for _, bad := range []Filter{{Limit: -1}, {Limit: MaxPage + 1}, {Cursor: "?"}, {Cursor: "MTox"}} {
		_, _, err := list(Latest, bad)
		typed(t, err, "input/invalid")
	}
}

// WS-074: the history of a path has every state with its frames, newest first.
func TestHistory(t *testing.T) {
	s := open(t, create(t, id.B3))
	var want [][]id.ID
	for i := range 5 {
		putTree(t, s.Store, grow(id.B3, map[string]string{"a": fmt.Sprint(i), "b": ""}))
		var frames []id.ID
		for j := range i % 3 {
			frames = append([]id.ID{mustPut(t, s.Store, "a", "note", fmt.Sprint(i, j)).ID}, frames...)
		}
		want = append([][]id.ID{frames}, want...)
	}
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		var got [][]id.ID
		for cursor := ""; ; {
			page, next, err := v.History(background, "a", "", 2, cursor)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), 2)
			for _, x := range page {
				got = append(got, x.Frames)
			}
			if cursor = next; next == "" {
				break
			}
		}
		assert.Equal(t, want, got)
		_, _, err := v.History(background, "a", "", MaxPage+1, "")
		typed(t, err, "input/invalid")
		none, next, err := v.History(background, "none", "", 0, "")
		assert.Empty(t, none)
		assert.Empty(t, next)
		return err
	}))
}

func (f Filter) with(cursor string) Filter {
	f.Cursor = cursor
	return f
}
