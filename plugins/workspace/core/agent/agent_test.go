package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

var prompts = Prompts{System: "s", File: "f", Directory: "d"}

func none(string) bool { return false }

func set(t *testing.T, agents ...Agent) *Set {
	s, err := New(agents, func(id string) bool { return id == "openai/voice" })
	require.NoError(t, err)
	return s
}

// WS-061: each role has exactly its capabilities; a list narrows them and never
// adds one. Administration belongs to no role.
func TestRoles(t *testing.T) {
	all := []Capability{ReadContext, ReadWorkspace, Scan, Append, Generate, Invalidate, Synthesize, Regenerate, "workspace/admin"}
	for role, may := range map[Role][]bool{
		Reader:    {true, true, false, false, false, false, false, false, false},
		Writer:    {true, true, true, true, true, true, false, false, false},
		Synthesis: {true, true, true, true, true, true, true, true, false},
	} {
		whole, narrow, empty := Agent{Role: role}, Agent{Role: role, Capabilities: []Capability{ReadContext, "workspace/admin"}}, Agent{Role: role, Capabilities: []Capability{}}
		for i, c := range all {
			assert.Equal(t, may[i], whole.May(c), "%s %s", role, c)
			assert.Equal(t, c == ReadContext, narrow.May(c), "%s %s", role, c)
			assert.False(t, empty.May(c))
		}
	}
}

// WS-062: the first reason in this order is the error.
func TestAllow(t *testing.T) {
	s := set(t, Agent{ID: "docs", Role: Writer, Principals: []string{"user/3"}}, Agent{ID: "closed", Role: Writer, Principals: []string{}})
	for _, c := range []struct {
		r   Request
		typ string
	}{
		{Request{Needs: Regenerate}, "agent/required"},
		{Request{Agent: "none", Needs: Regenerate}, "agent/unknown"},
		{Request{Agent: "docs", Needs: Regenerate}, "agent/impersonation"},
		{Request{Agent: "docs", Principal: "user/4", Needs: Append}, "agent/impersonation"},
		{Request{Agent: "closed", Principal: "user/3", Needs: Append}, "agent/impersonation"},
		{Request{Agent: "docs", Principal: "user/3", Needs: Regenerate}, "agent/role-denied"},
		{Request{Agent: "docs", Principal: "user/3", Needs: Append}, ""},
		{Request{Agent: "reader", Needs: Append}, "agent/role-denied"},
		{Request{Agent: "docs", Principal: "user/3", Needs: Generate}, "agent/prompt-missing"}, // WS-064, WS-065: no model, so it was accepted at load
		{Request{Agent: "synthesis", Needs: Generate}, ""},
	} {
		a, err := s.Allow(c.r)
		if c.typ == "" {
			require.NoError(t, err)
			assert.Equal(t, c.r.Agent, a.ID)
			continue
		}
		require.ErrorIs(t, err, contract.OfType(c.typ), "%v", c.r)
		assert.Nil(t, a)
	}
}

// WS-064: every problem of every declaration is reported, and the set is not
// made.
func TestNew(t *testing.T) {
	s, err := New([]Agent{
		{ID: "Upper", Role: Writer},
		{ID: strings.Repeat("x", 129), Role: Writer},
		{ID: "", Role: Writer},
		{ID: "a", Role: "owner"},
		{ID: "b", Role: Reader, Capabilities: []Capability{Append, "frame/none"}},
		{ID: "c", Role: Writer, Model: "voice", Prompts: prompts},
		{ID: "d", Role: Writer, Model: "openai/none", Prompts: Prompts{System: " "}},
		{ID: "e", Role: Writer},
		{ID: "e", Role: Writer},
		{ID: "f", Role: Writer, Principals: []string{"ci", "user/ci", "user/0", "uid/", "oidc/corp", "", " local"}},
		{ID: "g", Role: Writer, Principals: []string{"user/3", "uid/0", "oidc/corp/auth0|a/b", "local", "anonymous"}},
	}, none)
	assert.Nil(t, s)
	var joined interface{ Unwrap() []error }
	require.True(t, errors.As(err, &joined))
	types := map[string]int{}
	for _, problem := range joined.Unwrap() {
		types[contract.AsError(problem).Type]++
	}
	assert.Equal(t, map[string]int{"agent/invalid": 16, "agent/prompt-missing": 3}, types)

	good := set(t, Agent{ID: "docs", Role: Writer, Model: "openai/voice", Prompts: prompts}, Agent{ID: "reader", Role: Reader, Principals: []string{"local"}})
	var names []string
	for _, a := range good.List() {
		names = append(names, a.ID)
	}
	assert.Equal(t, []string{"docs", "reader", "synthesis", "writer"}, names)
	replaced, err := good.Get("reader")
	require.NoError(t, err)
	assert.Equal(t, []string{"local"}, replaced.Principals, "a declaration replaces the built-in agent")
}
