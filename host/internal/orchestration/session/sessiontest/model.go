package sessiontest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Start is the first instant of a Clock.
var Start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// Clock is a clock whose time is set by the test.
type Clock struct{ At time.Time }

// Now returns the time.
func (c *Clock) Now() time.Time { return c.At }

const (
	modelVars  = 3
	modelShort = 10 * time.Second
	modelMost  = 30 * time.Second
)

// modelRules: names of the namespace eph live 10 s, at most 30 s, and may be written
// while frozen; names of the namespace in may not be read, those of out not written,
// those of keep not deleted.
func modelRules() session.Rules {
	r := session.Permissive()
	r.RequireQualified, r.AllowedNamespaces = true, []string{"a", "eph", "in", "out", "keep"}
	r.MaxVars, r.MaxKeyChars, r.MaxValueBytes = modelVars, 8, 20
	r.Classes = map[string]session.Class{
		"durable":   {},
		"ephemeral": {DefaultTTL: modelShort, MaxTTL: modelMost, FrozenWrite: true},
	}
	r.ByNamespace = map[string]string{"eph": "ephemeral"}
	r.Policy.Default = session.Access{
		Read:   []string{"a", "eph", "out", "keep"},
		Write:  []string{"a", "eph", "in", "keep"},
		Delete: []string{"a", "eph", "in", "out"},
	}
	return r
}

// names maps variable names to the error type with which writing them fails; empty:
// none.
var names = map[string]string{
	"a/x": "", "a/y": "", "eph/x": "", "eph/y": "", "in/x": "", "keep/x": "",
	"out/x":       "policy-write-forbidden",
	"bare":        "key-namespace-required",
	"no/x":        "key-namespace-forbidden",
	"a/too-long-": "key-too-long",
	"a b":         "invalid-key",
}

type modelVar struct {
	value   int
	expires time.Time
}

type modelSession struct {
	owner   string
	version int64
	frozen  bool
	vars    map[string]modelVar
}

// machine compares a service with a model.
type machine struct {
	service *session.Service
	clock   *Clock
	model   map[string]*modelSession
}

var order = []string{
	"invalid-key key-too-long key-namespace-required key-namespace-forbidden",
	"policy-read-forbidden policy-write-forbidden policy-delete-forbidden", "session-frozen", "limit-exceeded", "value-too-large",
}

// worst returns the error type that is expected for the reasons by key; empty for none.
func worst(reasons map[string]string) string {
	for _, rank := range order {
		for _, key := range slices.Sorted(maps.Keys(reasons)) {
			if slices.Contains(strings.Fields(rank), reasons[key]) {
				return ":session.vars/" + reasons[key]
			}
		}
	}
	return ""
}

func typeOf(err *contract.Error) string {
	if err == nil {
		return ""
	}
	return ":" + err.Type
}

func (m *machine) id(t *rapid.T) string { return rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "id") }

func (m *machine) who(t *rapid.T) session.Caller {
	return rapid.SampledFrom([]session.Caller{{Principal: "ann"}, {Principal: "bob"}, {Principal: "root", Any: true}}).Draw(t, "who")
}

func (m *machine) keys(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(names))), 1, 3, rapid.ID[string]).Draw(t, "keys")
}

// ref draws the expected version: none, the current one or another.
func (m *machine) ref(t *rapid.T, id string) session.Ref {
	ref := session.Ref{ID: id}
	if s := m.model[id]; s != nil {
		ref.Version = rapid.SampledFrom([]int64{0, 0, s.version, s.version + 1}).Draw(t, "version")
	}
	return ref
}

// find returns the session for a caller, or the type of the error.
func (m *machine) find(who session.Caller, ref session.Ref) (*modelSession, string) {
	s := m.model[ref.ID]
	switch {
	case s == nil || !who.Any && s.owner != who.Principal:
		return nil, ":session/not-found"
	case ref.Version != 0 && ref.Version != s.version:
		return nil, ":session/version-conflict"
	}
	for key, v := range s.vars {
		if !v.expires.IsZero() && !m.clock.At.Before(v.expires) {
			delete(s.vars, key)
		}
	}
	return s, ""
}

// set calls an operation that freezes or thaws a session, in the service and in the
// model.
func (m *machine) set(t *rapid.T, frozen bool,
	do func(context.Context, session.Caller, session.Ref, edn.Value) (session.Session, *contract.Error), creates bool,
) {
	who, id := m.who(t), m.id(t)
	ref := m.ref(t, id)
	_, err := do(context.Background(), who, ref, edn.Nil())
	s, want := m.find(who, ref)
	if creates && m.model[id] == nil {
		m.model[id] = &modelSession{owner: who.Principal, version: 1, vars: map[string]modelVar{}}
		s, want = nil, ""
	}
	require.Equal(t, want, typeOf(err))
	if s != nil && s.frozen != frozen {
		s.frozen = frozen
		s.version++
	}
}

func (m *machine) put(t *rapid.T) {
	who, id := m.who(t), m.id(t)
	ref, keys := m.ref(t, id), m.keys(t)
	ttl := rapid.SampledFrom([]time.Duration{0, 5 * time.Second, time.Hour}).Draw(t, "ttl")
	value := rapid.IntRange(0, 9).Draw(t, "value")
	large := rapid.IntRange(0, 9).Draw(t, "large") == 0
	vars := map[string]edn.Value{}
	for _, key := range keys {
		vars[key] = edn.Int(int64(value))
		if large {
			vars[key] = edn.Text(strings.Repeat("x", 19))
		}
	}
	_, err := m.service.Put(context.Background(), who, ref, vars, ttl)
	s, want := m.find(who, ref)
	if want != "" {
		require.Equal(t, want, typeOf(err))
		return
	}
	reasons := map[string]string{}
	held := len(s.vars)
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		_, exists := s.vars[key]
		switch {
		case names[key] != "":
			reasons[key] = names[key]
		case s.frozen && !strings.HasPrefix(key, "eph/"):
			reasons[key] = "session-frozen"
		case !exists && held == modelVars:
			reasons[key] = "limit-exceeded"
		case large:
			reasons[key] = "value-too-large"
		}
		if reasons[key] == "" && !exists || reasons[key] == "value-too-large" && !exists {
			held++
		}
	}
	m.compare(t, err, reasons)
	if len(reasons) > 0 {
		return
	}
	s.version++
	for key := range vars {
		v := modelVar{value: value}
		switch {
		case strings.HasPrefix(key, "eph/") && ttl == 0:
			v.expires = m.clock.At.Add(modelShort)
		case strings.HasPrefix(key, "eph/"):
			v.expires = m.clock.At.Add(min(ttl, modelMost))
		case ttl > 0:
			v.expires = m.clock.At.Add(ttl)
		}
		s.vars[key] = v
	}
}

func (m *machine) drop(t *rapid.T) {
	who, id := m.who(t), m.id(t)
	ref := m.ref(t, id)
	var keys []string
	if rapid.Bool().Draw(t, "some") {
		keys = m.keys(t)
	}
	_, dropped, err := m.service.Drop(context.Background(), who, ref, keys)
	s, want := m.find(who, ref)
	if want != "" {
		require.Equal(t, want, typeOf(err))
		return
	}
	if keys == nil {
		keys = slices.Sorted(maps.Keys(s.vars))
	}
	reasons := map[string]string{}
	for _, key := range keys {
		switch ns, _, ok := strings.Cut(key, "/"); {
		case key == "a b":
			reasons[key] = "invalid-key"
		case !ok || ns == "keep" || ns == "no":
			reasons[key] = "policy-delete-forbidden"
		case s.frozen:
			reasons[key] = "session-frozen"
		}
	}
	m.compare(t, err, reasons)
	if len(reasons) > 0 {
		return
	}
	var gone []string
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if _, ok := s.vars[key]; ok {
			delete(s.vars, key)
			gone = append(gone, key)
		}
	}
	assert.Equal(t, fmt.Sprint(gone), fmt.Sprint(dropped))
	if len(gone) > 0 {
		s.version++
	}
}

// compare requires the error for the reasons by key, each of which it lists.
func (m *machine) compare(t *rapid.T, err *contract.Error, reasons map[string]string) {
	require.Equal(t, worst(reasons), typeOf(err), "%v", reasons)
	if err == nil {
		return
	}
	listed := map[string]string{}
	for f := range err.Details.Key("keys").Elems() {
		key, ok := f.Key("key").AsKeyword()
		if !ok {
			key, _ = f.Key("key").AsString()
		}
		listed[key] = f.Key("reason").Name()
	}
	require.Equal(t, reasons, listed)
}

// check compares everything that is visible.
func (m *machine) check(t *rapid.T) {
	ctx, root := context.Background(), session.Caller{Principal: "root", Any: true}
	for _, who := range []session.Caller{{Principal: "ann"}, {Principal: "bob"}, root} {
		page, next, err := m.service.List(ctx, who, "", 0)
		require.Nil(t, err)
		assert.Empty(t, next)
		listed := map[string]int64{}
		for _, s := range page {
			listed[s.ID] = s.Version
		}
		want := map[string]int64{}
		for id, s := range m.model {
			if who.Any || s.owner == who.Principal {
				want[id] = s.version
			}
		}
		require.Equal(t, want, listed)
	}
	for id := range m.model {
		s, _ := m.find(root, session.Ref{ID: id})
		of, vars, err := m.service.Vars(ctx, root, session.Ref{ID: id}, nil)
		require.Nil(t, err)
		assert.Equal(t, s.frozen, of.Frozen)
		assert.Equal(t, s.owner, of.Owner)
		got, want := map[string]string{}, map[string]string{}
		for _, v := range vars {
			got[v.Key] = v.Value.String()
		}
		for key, v := range s.vars {
			if !strings.HasPrefix(key, "in/") {
				want[key] = fmt.Sprint(v.value)
			}
		}
		require.Equal(t, want, got)
	}
}

// runModel runs random operations on a store and on a model.
func runModel(t *rapid.T, store session.Store) {
	for _, id := range []string{"s1", "s2"} { // of the last run
		require.NoError(t, store.Update(context.Background(), id, func(st session.Stored) (session.Change, error) {
			return session.Change{Delete: st.Found}, nil
		}))
	}
	m := &machine{clock: &Clock{At: Start}, model: map[string]*modelSession{}}
	m.service = session.New(store, modelRules(), nil, m.clock.Now)
	t.Repeat(map[string]func(*rapid.T){
		"open":   func(t *rapid.T) { m.set(t, false, m.service.Open, true) },
		"thaw":   func(t *rapid.T) { m.set(t, false, m.service.Thaw, false) },
		"freeze": func(t *rapid.T) { m.set(t, true, m.service.Freeze, false) },
		"delete": func(t *rapid.T) {
			who, id := m.who(t), m.id(t)
			ref := m.ref(t, id)
			_, err := m.service.Delete(context.Background(), who, ref)
			_, want := m.find(who, ref)
			require.Equal(t, want, typeOf(err))
			if want == "" {
				delete(m.model, id)
			}
		},
		"put":  m.put,
		"put2": m.put,
		"drop": m.drop,
		"read": func(t *rapid.T) {
			_, _, err := m.service.Vars(context.Background(), session.Caller{Any: true}, session.Ref{ID: "s1"}, []string{"in/x", "a/x"})
			require.Equal(t, ":session.vars/policy-read-forbidden", typeOf(err))
		},
		"wait": func(t *rapid.T) {
			m.clock.At = m.clock.At.Add(rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second, modelShort}).Draw(t, "wait"))
		},
		"upkeep": func(t *rapid.T) {
			_, err := m.service.Upkeep(context.Background())
			require.Nil(t, err)
		},
		"": m.check,
	})
}
