package store

import (
	"database/sql"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// A query that runs while rows of the same query are open gets rows of its own.
func TestNestedQueries(t *testing.T) {
	s := open(t, create(t, id.B3))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "2", "c": "3"}))
	const query = "SELECT path FROM versions WHERE since <= ?1 ORDER BY path"
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		r := v.frames()
		var pairs []string
		for range 2 {
			pairs = nil
			require.NoError(t, r.each(background, func(outer *sql.Rows) error {
				var a []byte
				require.NoError(t, outer.Scan(&a))
				return r.each(background, func(inner *sql.Rows) error {
					var b []byte
					require.NoError(t, inner.Scan(&b))
					pairs = append(pairs, string(a)+string(b))
					return nil
				}, query, int64(v.seq))
			}, query, int64(v.seq)))
		}
		assert.Equal(t, []string{"", "a", "b", "c", "a", "aa", "ab", "ac", "b", "ba", "bb", "bc", "c", "ca", "cb", "cc"}, pairs)
		return nil
	}))
}

// BenchmarkPut is what putting a frame costs without the disk.
func BenchmarkPut(b *testing.B) {
	s := open(b, create(b, id.B3))
	putTree(b, s.Store, grow(id.B3, map[string]string{"d/a": "1", "d/b": "2"}))
	for i := 0; b.Loop(); i++ {
		mustPut(b, s.Store, "d/a", "note", strconv.Itoa(i))
	}
}
