package cache_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RUN-030: every part of the key counts. Package act proves what is in the parts.
func TestEveryPartCounts(t *testing.T) {
	base := cache.Key{Programs: []cache.Program{{ID: "a/one"}}}
	assert.Equal(t, base.Hash(), cache.Key{Programs: []cache.Program{{ID: "a/one"}}}.Hash())
	seen := map[string]string{base.Hash(): "nothing"}
	note := func(name string, k cache.Key) {
		assert.Empty(t, seen[k.Hash()], name)
		seen[k.Hash()] = name
	}
	other := map[reflect.Type]any{
		reflect.TypeFor[string]():          "x",
		reflect.TypeFor[int]():             1,
		reflect.TypeFor[edn.Value]():       edn.Text("x"),
		reflect.TypeFor[cache.Session]():   cache.Session{ID: "x"},
		reflect.TypeFor[[]cache.Program](): []cache.Program{{ID: "a/two"}},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[cache.Key]()) {
		k := base
		reflect.ValueOf(&k).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(other[field.Type]))
		note(field.Name, k)
	}
	for name, p := range map[string]cache.Program{"version": {ID: "a/one", Version: "x"}, "binary": {ID: "a/one", Binary: "x"}} {
		note(name, cache.Key{Programs: []cache.Program{p}})
	}
	note("version of the session", cache.Key{Programs: base.Programs, Session: cache.Session{Version: 1}})
	note("one more program", cache.Key{Programs: append(base.Programs, cache.Program{})})
}

// RUN-033: the answers of a store have the size of their EDN.
func TestStoreIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	s := cache.New(cache.Settings{TTL: time.Second, MaxEntries: 10, MaxBytes: 100}, func() time.Time { return now })
	text := func(n int) cache.Answer { return cache.Answer{Out: edn.Text(string(make([]byte, n)))} }
	s.Put("too large", text(100))
	_, ok := s.Get("too large")
	assert.False(t, ok)
	s.Put("a", cache.Answer{Out: edn.Text("a")})
	_, ok = s.Get("a")
	assert.True(t, ok)
	now = now.Add(time.Second)
	_, ok = s.Get("a")
	assert.False(t, ok)
}
