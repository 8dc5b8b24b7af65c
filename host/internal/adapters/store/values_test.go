package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// shelf keeps laid out values in memory.
type shelf struct {
	all  []content
	byID map[sum]int64
}

func (s *shelf) put(v edn.Value) (int64, error) {
	h := hashOf(v)
	if n := s.byID[h]; n > 0 {
		return n, nil
	}
	form, body, err := layout(v, s.put)
	if err != nil {
		return 0, err
	}
	s.all = append(s.all, content{n: int64(len(s.all) + 1), hash: h, form: form, size: len(body), body: body})
	if s.byID == nil {
		s.byID = map[sum]int64{}
	}
	s.byID[h] = int64(len(s.all))
	return int64(len(s.all)), nil
}

func (s *shelf) fetch(n int64) (content, error) {
	if n < 1 || int(n) > len(s.all) {
		return content{}, errors.New("not there")
	}
	return s.all[n-1], nil
}

// values draws values of every shape that the store lays out.
func values(t *rapid.T, depth int) edn.Value {
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind %= 3
	}
	parts := func(limit int) []edn.Value {
		out := make([]edn.Value, rapid.IntRange(0, limit).Draw(t, "len"))
		for i := range out {
			out[i] = values(t, depth-1)
		}
		return out
	}
	switch kind {
	case 0:
		return edn.Int(rapid.Int64().Draw(t, "int"))
	case 1:
		return edn.Text(strings.Repeat("x", rapid.IntRange(0, 600).Draw(t, "text")))
	case 2:
		return edn.MustTagged(partTag, edn.Int(rapid.Int64Range(-1, 9).Draw(t, "ref")))
	case 3:
		return edn.Vector(parts(6)...)
	case 4:
		var b edn.MapBuilder
		for i, v := range parts(6) {
			b.Set(edn.Int(int64(i)), v)
		}
		return b.Map()
	case 5:
		base := parts(4)
		out := make([]edn.Value, 0, 1200)
		for i := range rapid.IntRange(30, 1200).Draw(t, "many") {
			out = append(out, edn.Int(int64(i)))
		}
		return edn.Vector(append(out, base...)...)
	}
	return edn.List(parts(4)...)
}

// JRN-020, JRN-021: every value comes back from its parts, also one that looks
// like the marks of the store.
func TestValuesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(t, 3)
		var s shelf
		n, err := s.put(v)
		require.NoError(t, err)
		c, err := s.fetch(n)
		require.NoError(t, err)
		got, err := assemble(c, s.fetch)
		require.NoError(t, err)
		require.True(t, edn.Equal(v, got))
		for _, one := range s.all {
			got, err := assemble(one, s.fetch)
			require.NoError(t, err)
			require.Equal(t, one.hash, hashOf(got), "each part is a value")
		}
	})
}

// JRN-020: assembling never panics, and never returns a value with another hash.
func FuzzAssemble(f *testing.F) {
	f.Add([]byte(`{:a #store/part 1 :b 2}`), 1, []byte(`[1 2]`), 0)
	f.Add([]byte("\x01\x01"), 2, []byte(`[1 2]`), 0)
	f.Add([]byte("\x02"), 2, []byte(`[1 2]`), 0)
	f.Add([]byte(`#store/part 1`), 0, []byte(`"x"`), 1)
	f.Fuzz(func(t *testing.T, body []byte, kind int, part []byte, partKind int) {
		all := shelf{all: []content{{n: 1, form: form(partKind), size: len(part), body: part}}}
		c := content{n: 2, form: form(kind), size: len(body), body: body}
		if v, err := assemble(c, all.fetch); err == nil {
			t.Fatalf("a value without a hash was returned: %s", v)
		}
		c.hash = all.all[0].hash
		if whole, err := edn.Read(body, storedLimits); err == nil && form(kind) == formWhole {
			c.hash = hashOf(whole)
			v, err := assemble(c, all.fetch)
			require.NoError(t, err)
			require.True(t, edn.Equal(whole, v))
		}
		_, _ = c.parts()
	})
}

// JRN-021: a conversation that sends its whole history with each turn grows by
// the turn, so twice as many turns take twice the bytes.
func TestConversationsGrowLinearly(t *testing.T) {
	longer := proof.Size(t, "turns of a conversation", 250, 1000)
	turns := []int{longer / 2, longer}
	var sizes []float64
	for _, n := range turns {
		s := openAt(t, t.TempDir())
		sc := newScript("run_1")
		appendAll(t, s, sc.accepted(nothing))
		var messages []edn.Value
		for i := range n {
			messages = append(messages, edn.MustMap(edn.K("role"), edn.K("user"), edn.K("text"),
				edn.Text(strings.Repeat(fmt.Sprintf("turn %d ", i), 60))))
			request := edn.MustMap(edn.K("messages"), edn.Vector(messages...))
			appendAll(t, s, sc.step(request, textOf(i, 400))...)
		}
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		checkpoint(t, s)
		var pages float64
		require.NoError(t, s.db.readers().QueryRow("PRAGMA page_count").Scan(&pages))
		sizes = append(sizes, pages*pageSize)
	}
	t.Logf("%d turns: %.0f KiB, %d turns: %.0f KiB, ratio %.3f", turns[0], sizes[0]/1024, turns[1], sizes[1]/1024, sizes[1]/sizes[0])
	assert.LessOrEqual(t, sizes[1]/sizes[0], 2.1)
}

// JRN-020: a value is stored once, whichever run names it.
func TestValuesAreStoredOnce(t *testing.T) {
	s := openAt(t, t.TempDir())
	for _, run := range []string{"run_1", "run_2"} {
		sc := newScript(run)
		appendAll(t, s, sc.accepted(large(1)), sc.finished(dialogue(40)))
		require.NoError(t, s.Sync(context.Background(), run))
	}
	counts := map[string]int{}
	for name, text := range map[string]string{
		"files":  "SELECT count(*) FROM content WHERE body IS NULL",
		"hashes": "SELECT count(*) FROM content GROUP BY hash HAVING count(*) > 1",
		"owners": "SELECT count(DISTINCT owner) FROM content",
	} {
		var n int
		if err := s.db.readers().QueryRow(text).Scan(&n); !errors.Is(err, sql.ErrNoRows) {
			require.NoError(t, err)
		}
		counts[name] = n
	}
	assert.Equal(t, map[string]int{"files": 1, "hashes": 0, "owners": 1}, counts)
}

// AUTH-012: a value is readable for those who may read a run that names it, the one that
// stored it first as well as a later one. The question looks at no other run.
func TestReadable(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		ctx := context.Background()
		s := b.openAt(t, t.TempDir())
		both, own := textOf(1, 300), textOf(2, 300)
		for n, of := range []struct {
			by    Reach
			value edn.Value
		}{{Reach{"ann", "lab", "s"}, both}, {Reach{Principal: "bob"}, both}, {Reach{Principal: "bob"}, own}} {
			sc := newScript(fmt.Sprintf("run_%d", n))
			accepted := sc.accepted(of.value)
			body := accepted.Body.(*journal.RunAccepted)
			body.Principal, body.Tenant, body.SessionID = of.by.Principal, of.by.Tenant, of.by.Session
			appendAll(t, s, accepted)
			require.NoError(t, s.Sync(ctx, sc.run))
		}
		for _, row := range []struct {
			value edn.Value
			by    Reach
			want  bool
		}{
			{both, Reach{}, true},
			{both, Reach{Principal: "ann"}, true},
			{both, Reach{Principal: "bob"}, true},
			{both, Reach{Principal: "eve"}, false},
			{both, Reach{Tenant: "lab"}, true},
			{both, Reach{Principal: "bob", Tenant: "lab"}, false},
			{both, Reach{Principal: "ann", Tenant: "lab"}, true},
			{both, Reach{Tenant: "shop"}, false},
			{both, Reach{Principal: "ann", Session: "s"}, true},
			{both, Reach{Principal: "ann", Session: "t"}, false},
			{both, Reach{Principal: "bob", Session: "s"}, false},
			{own, Reach{Principal: "bob"}, true},
			{own, Reach{Principal: "ann"}, false},
			{own, Reach{Tenant: "lab"}, false},
			{textOf(3, 300), Reach{}, false},
		} {
			got, err := s.Readable(ctx, edn.Hash(row.value), row.by)
			require.NoError(t, err)
			assert.Equal(t, row.want, got, "%s in %+v", row.value.Key("n"), row.by)
		}
		if b.driver != "sqlite" {
			return // the plan of a server depends on the number of rows
		}
		rows, err := s.db.readers().Query("EXPLAIN QUERY PLAN "+s.read.text["readable"], []byte{1}, "ann", "lab", "s", 1)
		require.NoError(t, err)
		defer func() { assert.NoError(t, rows.Close()) }()
		steps := 0
		for rows.Next() {
			var id, parent, unused int
			var step string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
			assert.NotContains(t, step, "SCAN", "all rows of a table are read")
			steps++
		}
		require.NoError(t, rows.Err())
		assert.Positive(t, steps)
	})
}
