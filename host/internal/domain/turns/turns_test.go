package turns_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
)

// CNV-023: a turn per change of role; the messages are those that were given.
func TestAppend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles := rapid.SliceOfN(rapid.SampledFrom([]conversation.Role{"user", "assistant"}), 1, 9).Draw(t, "roles")
		var messages []conversation.Message
		for _, role := range roles {
			m, err := conversation.New(role, conversation.Text{Text: "x"})
			require.NoError(t, err)
			messages = append(messages, m)
		}
		c := turns.Append(4, messages)
		var said []conversation.Message
		for i, s := range c.Spans {
			said = append(said, s.Messages...)
			assert.Equal(t, turns.Step{Span: -int64(i + 1), Role: s.Role}, c.Steps[i])
		}
		assert.Len(t, c.Spans, len(slices.Compact(roles)))
		assert.True(t, slices.EqualFunc(said, messages, conversation.Message.Equal))
	})
}

func path(n int) (p turns.Path) {
	for i := range int64(n) {
		role := []conversation.Role{conversation.RoleUser, conversation.RoleAssistant}[i%2]
		p = append(p, turns.Step{Turn: 10 + i, Span: 20 + i, Role: role})
	}
	return p
}

// CNV-024: what becomes of the turns after a changed one.
func TestTails(t *testing.T) {
	p, said := path(4), []conversation.Message{conversation.Assistant("x")}
	numbers := []turns.Number{{Turn: 11, Span: 99}}
	cut, err := p.Answer(11, said, turns.Cut)
	require.Nil(t, err)
	assert.Equal(t, turns.Path{p[0], {Turn: 11, Span: 99, Role: "assistant"}}, p.Apply(cut, numbers))
	kept, err := p.Answer(11, said, turns.Keep)
	require.Nil(t, err)
	two, three := p[2], p[3]
	two.Stale, three.Stale = true, true
	assert.Equal(t, turns.Path{p[0], {Turn: 11, Span: 99, Role: "assistant"}, two, three}, p.Apply(kept, numbers))
	assert.Equal(t, path(4), p, "a path is not modified")
	same, err := p.Select(11, 21, []int64{21, 99}, turns.Cut)
	require.Nil(t, err)
	assert.False(t, same.Changes(len(p)))
	other, err := p.Select(11, 99, []int64{21, 99}, turns.Cut)
	require.Nil(t, err)
	assert.Equal(t, p.Apply(cut, numbers), p.Apply(other, nil))
	_, err = p.Select(11, 98, []int64{21, 99}, turns.Cut)
	assert.ErrorIs(t, err, contract.OfType("conversation/span-not-in-turn"))
	_, err = p.Truncate(77)
	assert.ErrorIs(t, err, contract.OfType("conversation/turn-not-in-path"))
}

// CNV-024: a message in place of a turn of the user takes its answer along, as an
// alternative of the answer that is there or as new turns; later turns leave the path.
func TestExchange(t *testing.T) {
	question := conversation.User("q")
	answer := []conversation.Message{conversation.Assistant("a"), conversation.ToolResult("1", "r")}
	c, err := path(4).Exchange(10, question, answer)
	require.Nil(t, err)
	assert.Equal(t, turns.Path{{Turn: 10, Span: 97, Role: "user"}, {Turn: 11, Span: 98, Role: "assistant"}, {Turn: 99, Span: 99, Role: "tool"}},
		path(4).Apply(c, []turns.Number{{Turn: 10, Span: 97}, {Turn: 11, Span: 98}, {Turn: 99, Span: 99}}))
	assert.Equal(t, answer[:1], c.Spans[1].Messages)
	assert.Equal(t, answer[1:], c.Spans[2].Messages)
	c, err = path(3).Exchange(12, question, answer)
	require.Nil(t, err)
	assert.Equal(t, 2, c.Keep)
	assert.Equal(t, []turns.Step{{Turn: 12, Span: -1, Role: "user"}, {Span: -2, Role: "assistant"}, {Span: -3, Role: "tool"}}, c.Steps)
	_, err = path(4).Exchange(11, question, answer)
	require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"))
	_, err = path(4).Exchange(77, question, answer)
	require.ErrorIs(t, err, contract.OfType("conversation/turn-not-in-path"))
}

// CNV-023: an alternative has the role of its turn; what follows in another role is new turns.
func TestAnswerOfSeveralRoles(t *testing.T) {
	answer := []conversation.Message{conversation.Assistant("a"), conversation.ToolResult("1", "r"), conversation.Assistant("b")}
	c, err := path(4).Answer(11, answer, turns.Keep)
	require.Nil(t, err)
	got := path(4).Apply(c, []turns.Number{{Turn: 11, Span: 97}, {Turn: 98, Span: 98}, {Turn: 99, Span: 99}})
	assert.Equal(t, turns.Path{
		path(4)[0], {Turn: 11, Span: 97, Role: "assistant"}, {Turn: 98, Span: 98, Role: "tool"}, {Turn: 99, Span: 99, Role: "assistant"},
		{Turn: 12, Span: 22, Role: "user", Stale: true}, {Turn: 13, Span: 23, Role: "assistant", Stale: true},
	}, got)
	_, err = path(4).Answer(11, answer[1:], turns.Cut)
	require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"))
	assert.Equal(t, "[:messages 0 :role]", err.Details.Key("path").String())
}

// CNV-029: of any messages a model is sent each call with its result directly after it, and no
// other call or result.
func TestSendable(t *testing.T) {
	ids := []string{"1", "2", "3"}
	random := rapid.Custom(func(t *rapid.T) conversation.Message {
		id := rapid.SampledFrom(ids).Draw(t, "id")
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return conversation.User("u")
		case 1:
			return conversation.ToolResult(id, "r")
		case 2:
			return conversation.Assistant("a")
		}
		parts := []conversation.Part{}
		if rapid.Bool().Draw(t, "text") {
			parts = append(parts, conversation.Text{Text: "a"})
		}
		for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, 2, rapid.ID).Draw(t, "calls") {
			parts = append(parts, conversation.Call{ID: id, Tool: "x/y", Args: "{}"})
		}
		m, err := conversation.New(conversation.RoleAssistant, parts...)
		require.NoError(t, err)
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(random, 0, 12).Draw(t, "messages")
		out := turns.Sendable(messages)
		open := map[string]bool{}
		for _, m := range append(slices.Clone(out), conversation.User("next")) {
			if r, ok := m.Result(); ok {
				assert.True(t, open[r.CallID], "the result of %s has no call", r.CallID)
				delete(open, r.CallID)
				continue
			}
			assert.Empty(t, open, "a call has no result before %s", m)
			for c := range m.Calls() {
				open[c.ID] = true
			}
		}
		texts := func(all []conversation.Message) (out []string) {
			for _, m := range all {
				if m.Role() != conversation.RoleTool && m.Text() != "" {
					out = append(out, m.Text())
				}
			}
			return out
		}
		assert.Equal(t, texts(messages), texts(out), "no text is omitted")
		assert.Equal(t, out, turns.Sendable(out))
	})
}

// CNV-025: a result that comes after other messages, as that of a sub-agent, is sent after its call.
func TestSendableMovesResults(t *testing.T) {
	call, err := conversation.New(conversation.RoleAssistant, conversation.Call{ID: "1", Tool: "x/y", Args: "{}"})
	require.NoError(t, err)
	user, answer, result := conversation.User("u"), conversation.Assistant("a"), conversation.ToolResult("1", "r")
	assert.Equal(t, []conversation.Message{user, call, result, user, answer},
		turns.Sendable([]conversation.Message{user, call, user, answer, result}))
	assert.Equal(t, []conversation.Message{user, call, result, user},
		turns.Sendable([]conversation.Message{user, call, call, result, user}), "the call that comes last has the id")
}

// CNV-022: any version can be restored from any other.
func TestRestore(t *testing.T) {
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) turns.Step {
		return turns.Step{Turn: rapid.Int64Range(1, 3).Draw(t, "turn"), Span: rapid.Int64Range(1, 3).Draw(t, "span"), Stale: rapid.Bool().Draw(t, "stale")}
	}), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		a, b := turns.Path(steps.Draw(t, "a")), turns.Path(steps.Draw(t, "b"))
		c := a.Restore(b)
		assert.True(t, slices.Equal(b, a.Apply(c, nil)))
		assert.Equal(t, !slices.Equal(a, b), c.Changes(len(a)))
	})
}

// CNV-029: limits and malformed messages have typed errors.
func TestCheck(t *testing.T) {
	made := func(role conversation.Role, parts ...conversation.Part) conversation.Message {
		m, err := conversation.New(role, parts...)
		require.NoError(t, err)
		return m
	}
	user := conversation.User
	call := made("assistant", conversation.Call{ID: "1", Tool: "a/b", Args: "{}"})
	for name, row := range map[string]struct {
		messages []conversation.Message
		typ      string
	}{
		"none":          {nil, "conversation/invalid-message"},
		"empty":         {[]conversation.Message{user("a"), user("")}, "conversation/invalid-message"},
		"zero":          {[]conversation.Message{{}}, "conversation/invalid-message"},
		"text":          {[]conversation.Message{user(strings.Repeat("x", turns.MaxText))}, ""},
		"more text":     {[]conversation.Message{user(strings.Repeat("x", turns.MaxText+1))}, "conversation/too-large"},
		"parts":         {[]conversation.Message{made("user", slices.Repeat([]conversation.Part{conversation.Text{Text: "x"}}, 256)...)}, ""},
		"more parts":    {[]conversation.Message{made("user", slices.Repeat([]conversation.Part{conversation.Text{Text: "x"}}, 257)...)}, "conversation/too-large"},
		"messages":      {slices.Repeat([]conversation.Message{user("x")}, 10_000), ""},
		"reference":     {[]conversation.Message{made("user", conversation.Reference{Hash: "b3:00", MediaType: "text/plain"})}, "conversation/invalid-message"},
		"page":          {[]conversation.Message{made("user", conversation.Image{MediaType: "text/html", Data: "AAAA"})}, "conversation/invalid-message"},
		"picture":       {[]conversation.Message{made("user", conversation.Image{MediaType: "image/png", Data: "AAAA"})}, ""},
		"more messages": {slices.Repeat([]conversation.Message{user("x")}, 100_000), "conversation/too-large"},
	} {
		err := turns.Check(row.messages)
		if row.typ == "" {
			assert.Nil(t, err, name)
			continue
		}
		assert.ErrorIs(t, err, contract.OfType(row.typ), name)
	}
	assert.Equal(t, "[:messages]", turns.Check(nil).Details.Key("path").String())
	result := conversation.ToolResult("1", "x")
	assert.Nil(t, turns.Results(slices.Values([]conversation.Message{call, result})))
	assert.ErrorIs(t, turns.Results(slices.Values([]conversation.Message{result, call})), contract.OfType("conversation/invalid-message"))
	assert.Equal(t, []string{"1"}, turns.Needed([]conversation.Message{result, call, result}))
	assert.Nil(t, turns.Append(9_999, []conversation.Message{user("x")}).Fits(0))
	assert.ErrorIs(t, turns.Append(10_000, []conversation.Message{user("x")}).Fits(0), contract.OfType("conversation/too-large"))
	more, err := path(2).Answer(11, []conversation.Message{conversation.Assistant("x")}, turns.Cut)
	require.Nil(t, err)
	assert.Nil(t, more.Fits(63))
	assert.ErrorIs(t, more.Fits(64), contract.OfType("conversation/too-large"))
}

// Ids are read as they are written, and nothing else is.
func TestIDs(t *testing.T) {
	assert.Equal(t, int64(15), turns.ParseTurn(turns.TurnID(15)))
	assert.Equal(t, int64(31), turns.ParseSpan(turns.SpanID(31)))
	for _, id := range []string{"", "t-", "t-0", "t--1", "t-01", "s-1", "t-1 ", "t-+1", "1"} {
		assert.Zero(t, turns.ParseTurn(id), "%q", id)
	}
	var target *contract.Error
	_, err := turns.Path(nil).Index(1)
	assert.True(t, errors.As(err, &target))
}
