package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/orchestration/session/sessiontest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// listed returns the keys of an error with their reasons and classes.
func listed(err *contract.Error) (out []string) {
	for f := range err.Details.Key("keys").Elems() {
		out = append(out, strings.TrimSpace(fmt.Sprint(f.Key("key"), " ", f.Key("reason").Name(), " ", f.Key("class").Name())))
	}
	return out
}

// SES-010, SES-011, SES-013: the type of the error is that of the first check that
// fails, and the details list every variable with its own reason.
func TestRefusals(t *testing.T) {
	ctx, clock := context.Background(), &sessiontest.Clock{At: sessiontest.Start}
	rules := session.Restrictive()
	rules.MaxVars, rules.MaxKeyChars, rules.MaxValueBytes = 2, 20, 30
	rules.Policy.Default.Write = []string{"session", "request", "conversation", ""}
	rules.Policy.Default.Delete = []string{"session", "request"}
	s := session.New(&session.Memory{}, rules, nil, clock.Now)
	who, ref := session.Caller{Principal: "ann"}, session.Ref{ID: "s"}
	_, err := s.Open(ctx, who, ref, edn.Nil())
	require.Nil(t, err)
	put := func(ttl time.Duration, text ...string) *contract.Error {
		vars := map[string]edn.Value{}
		for i := 0; i < len(text); i += 2 {
			vars[text[i]] = edn.MustRead(text[i+1])
		}
		_, err := s.Put(ctx, who, ref, vars, ttl)
		return err
	}
	drop := func(keys ...string) *contract.Error { _, _, err := s.Drop(ctx, who, ref, keys); return err }
	freeze := func() *contract.Error { _, err := s.Freeze(ctx, who, ref, edn.Nil()); return err }
	long := `"` + strings.Repeat("x", 29) + `"`
	for _, row := range []struct {
		do   func() *contract.Error
		typ  string
		keys []string
	}{
		{func() *contract.Error { return put(0, "session/a", "1", "a b", "1", "other/x", "1") },
			"session.vars/invalid-key", []string{`"a b" invalid-key`, ":other/x key-namespace-forbidden"}},
		{func() *contract.Error { return put(0, "bare", "1") }, "session.vars/key-namespace-required", []string{":bare key-namespace-required"}},
		{func() *contract.Error { return put(0, "other/x", "1", "project/x", "1") }, "session.vars/key-namespace-forbidden",
			[]string{":other/x key-namespace-forbidden", ":project/x policy-write-forbidden"}},
		{func() *contract.Error { return put(0, "session/abcdefghijklmn", "1") }, "session.vars/key-too-long", []string{":session/abcdefghijklmn key-too-long"}},
		{func() *contract.Error { return put(0, "project/x", "1", "session/a", long) }, "session.vars/policy-write-forbidden",
			[]string{":project/x policy-write-forbidden", ":session/a value-too-large"}},
		{func() *contract.Error { return put(0, "session/a", long) }, "session.vars/value-too-large", []string{":session/a value-too-large"}},
		{func() *contract.Error { return put(0, "session/a", "1", "session/b", "1", "session/c", "1") },
			"session.vars/limit-exceeded", []string{":session/c limit-exceeded"}},
		{func() *contract.Error { return put(0, "session/a", "1", "session/b", "1") }, "", nil},
		{func() *contract.Error { return put(0, "session/a", "2", "session/b", "2") }, "", nil}, // overwriting is free
		{func() *contract.Error { return drop("conversation/x", "session/a") }, "session.vars/policy-delete-forbidden",
			[]string{":conversation/x policy-delete-forbidden"}},
		{func() *contract.Error { return drop("session/b") }, "", nil},
		{func() *contract.Error { return put(0, "request/a", "1") }, "", nil},
		{freeze, "", nil},
		{func() *contract.Error { return put(0, "request/a", "1", "session/a", "1") }, "session.vars/session-frozen",
			[]string{":session/a session-frozen durable"}},
		{func() *contract.Error { return put(0, "request/a", "2") }, "", nil}, // its class permits it
		{func() *contract.Error { return drop() }, "session.vars/session-frozen",
			[]string{":request/a session-frozen ephemeral", ":session/a session-frozen durable"}},
		{func() *contract.Error {
			_, _, err := s.Vars(ctx, who, session.Ref{ID: "s", Operation: session.OpDefaults}, []string{"request/a", "session/a"})
			return err
		}, "session.vars/policy-read-forbidden", []string{":request/a policy-read-forbidden"}},
	} {
		err := row.do()
		if row.typ == "" {
			require.Nil(t, err)
			continue
		}
		require.NotNil(t, err, row.typ)
		assert.Equal(t, row.typ, err.Type)
		assert.Equal(t, row.keys, listed(err))
		first, _ := err.Details.Key("keys").Nth(0)
		switch row.typ { // the details have the limit and what was found
		case "session.vars/value-too-large":
			assert.Equal(t, "30 31", first.Key("limit").String()+" "+first.Key("found").String())
		case "session.vars/limit-exceeded":
			assert.Equal(t, "2 2", first.Key("limit").String()+" "+first.Key("found").String())
		case "session.vars/key-too-long":
			assert.Equal(t, "20 22", first.Key("limit").String()+" "+first.Key("found").String())
		}
	}
	_, err = s.Thaw(ctx, who, session.Ref{ID: "s", Version: 99}, edn.Nil())
	assert.ErrorIs(t, err, contract.OfType("session/version-conflict"))
	_, err = s.Get(ctx, who, "no such id")
	assert.ErrorIs(t, err, contract.OfType("session/invalid-id"))
	// SES-012: what is written without a lifetime has that of its class.
	clock.At = clock.At.Add(15 * time.Minute)
	_, vars, err := s.Vars(ctx, who, ref, nil)
	require.Nil(t, err)
	require.Len(t, vars, 1)
	assert.Equal(t, "session/a", vars[0].Key)
}

// SES-021: without the operation :session/any the session of another principal is
// not there, for every operation.
func TestSessionsHaveOwners(t *testing.T) {
	ctx := context.Background()
	s := session.New(&session.Memory{}, session.Permissive(), nil, nil)
	made, err := s.Open(ctx, session.Caller{Principal: "ann"}, session.Ref{}, edn.Nil())
	require.Nil(t, err)
	ref := session.Ref{ID: made.ID}
	operations := map[string]func(session.Caller) *contract.Error{
		"get":    func(c session.Caller) *contract.Error { _, err := s.Get(ctx, c, ref.ID); return err },
		"open":   func(c session.Caller) *contract.Error { _, err := s.Open(ctx, c, ref, edn.Nil()); return err },
		"freeze": func(c session.Caller) *contract.Error { _, err := s.Freeze(ctx, c, ref, edn.Nil()); return err },
		"thaw":   func(c session.Caller) *contract.Error { _, err := s.Thaw(ctx, c, ref, edn.Nil()); return err },
		"vars":   func(c session.Caller) *contract.Error { _, _, err := s.Vars(ctx, c, ref, nil); return err },
		"put": func(c session.Caller) *contract.Error {
			_, err := s.Put(ctx, c, ref, map[string]edn.Value{"a": edn.Int(1)}, 0)
			return err
		},
		"drop":  func(c session.Caller) *contract.Error { _, _, err := s.Drop(ctx, c, ref, nil); return err },
		"turns": func(c session.Caller) *contract.Error { _, _, err := s.Turns(ctx, c, ref.ID); return err },
	}
	for name, do := range operations {
		assert.ErrorIs(t, do(session.Caller{Principal: "bob"}), contract.OfType("session/not-found"), name)
		assert.Nil(t, do(session.Caller{Principal: "bob", Any: true}), name)
		assert.Nil(t, do(session.Caller{Principal: "ann"}), name)
	}
	for _, c := range []session.Caller{{Principal: "bob"}, {Principal: "ann"}} {
		_, err := s.Delete(ctx, c, ref)
		if c.Principal == "bob" {
			assert.ErrorIs(t, err, contract.OfType("session/not-found"))
			continue
		}
		assert.Nil(t, err)
	}
}
