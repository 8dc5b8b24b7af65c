package conversation_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	. "github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/internal/messagegen"
)

// CNV-002: a message holds its parts as they were given, and what is done to the
// slice later has no effect on it.
func TestMessageKeepsItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messagegen.Message().Draw(t, "message")
		parts := slices.Collect(m.Parts())
		given := slices.Clone(parts)
		again, err := New(m.Role(), given...)
		require.NoError(t, err)
		clear(given)
		assert.Equal(t, parts, slices.Collect(again.Parts()))
		assert.True(t, again.WithAttribution(m.Attribution()).Equal(m))
		assert.False(t, again.Empty())
		other := m.WithAttribution(Attribution{Agent: m.Attribution().Agent + "x"})
		assert.False(t, other.Equal(m), "the attribution counts")
		assert.Equal(t, parts, slices.Collect(other.Parts()))
		var text strings.Builder
		calls := 0
		for _, p := range parts {
			switch p := p.(type) {
			case Text:
				text.WriteString(p.Text)
			case Call:
				calls++
			}
		}
		assert.Equal(t, text.String(), m.Text())
		assert.Len(t, slices.Collect(m.Calls()), calls)
		_, answers := m.Result()
		assert.Equal(t, m.Role() == RoleTool, answers)
	})
}

// CNV-002: what cannot be part of a conversation is not made.
func TestNewRejects(t *testing.T) {
	text, call := Text{Text: "a"}, Call{ID: "t1", Tool: "clock", Args: "{}"}
	for name, c := range map[string]struct {
		role  Role
		parts []Part
		wrong int
	}{
		"unknown role":                {"robot", []Part{text}, -1},
		"no part":                     {RoleUser, nil, -1},
		"no text":                     {RoleAssistant, []Part{Text{}}, -1},
		"nil":                         {RoleUser, []Part{text, nil}, 1},
		"pointer":                     {RoleUser, []Part{&text}, 0},
		"image of the system":         {RoleSystem, []Part{Image{URL: "https://example.org"}}, 0},
		"image of an assistant":       {RoleAssistant, []Part{Image{URL: "https://example.org"}}, 0},
		"image without content":       {RoleUser, []Part{Image{MediaType: "image/png"}}, 0},
		"image with two contents":     {RoleUser, []Part{Image{MediaType: "image/png", Data: "AAAA", URL: "https://a"}}, 0},
		"image without media type":    {RoleUser, []Part{Image{Data: "AAAA"}}, 0},
		"reference of the system":     {RoleSystem, []Part{Reference{Hash: "b3:0", MediaType: "text/plain"}}, 0},
		"reference without hash":      {RoleUser, []Part{Reference{MediaType: "text/plain"}}, 0},
		"reasoning of a user":         {RoleUser, []Part{Reasoning{Text: "a"}}, 0},
		"empty reasoning":             {RoleAssistant, []Part{text, Reasoning{Model: "m"}}, 1},
		"readable and secret":         {RoleAssistant, []Part{Reasoning{Text: "a", Data: "b"}}, 0},
		"call of a user":              {RoleUser, []Part{call}, 0},
		"call without id":             {RoleAssistant, []Part{Call{Tool: "clock", Args: "{}"}}, 0},
		"call without arguments":      {RoleAssistant, []Part{Call{ID: "t1", Tool: "clock"}}, 0},
		"mark within a message":       {RoleAssistant, []Part{Call{ID: "t1", Tool: "clock", Args: "{}", Cache: true}, text}, 0},
		"calls with one id":           {RoleAssistant, []Part{call, text, call}, 2},
		"result of an assistant":      {RoleAssistant, []Part{Result{CallID: "t1"}}, 0},
		"tool message without result": {RoleTool, []Part{text}, 0},
		"tool message of two":         {RoleTool, []Part{Result{CallID: "t1"}, Result{CallID: "t2"}}, 1},
		"result without id":           {RoleTool, []Part{Result{}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := New(c.role, c.parts...)
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, c.wrong, invalid.Part)
			assert.True(t, m.Empty())
		})
	}
}

// CNV-002: a message is valid UTF-8, and readable in a log.
func TestMessageText(t *testing.T) {
	m, err := New(RoleAssistant, Reasoning{Text: "a\xff"}, Text{Text: "b\xff"}, Text{Text: "c"},
		Reference{Hash: "b3:0", MediaType: "text/plain"}, Call{ID: "t1", Tool: "clock", Args: "\xff"})
	require.NoError(t, err)
	assert.Equal(t, "b\ufffdc", m.Text())
	assert.Equal(t, "assistant: [reasoning] b\ufffd c [text/plain b3:0] [call t1: clock \ufffd]", m.String())
	assert.Equal(t, Part(Reasoning{Text: "a\ufffd"}), slices.Collect(m.Parts())[0])
	m, err = New(RoleTool, Result{CallID: "t1", Failed: true}, Image{URL: "https://example.org"})
	require.NoError(t, err)
	assert.Equal(t, "tool: [result of t1 failed] [image]", m.String())
	assert.Equal(t, "conversation: message: part 1: why", (&InvalidError{Part: 1, Reason: "why"}).Error())
	assert.Equal(t, "conversation: message: why", (&InvalidError{Part: -1, Reason: "why"}).Error())
	for range Assistant("no call").Calls() {
		t.Fatal("a call")
	}
}

func TestMessagesOfText(t *testing.T) {
	for role, m := range map[Role]Message{
		RoleSystem: System("a"), RoleUser: User("a"), RoleAssistant: Assistant("a"), RoleTool: ToolResult("t1", "a"),
	} {
		assert.Equal(t, role, m.Role())
		assert.Equal(t, "a", m.Text())
		assert.True(t, m.Equal(m.WithAttribution(Attribution{})))
	}
	assert.True(t, User("").Empty())
	assert.False(t, ToolResult("t1", "").Empty(), "a tool may have nothing to say")
	assert.True(t, utf8.ValidString(User("a\xffb").Text()))
	var zero Message
	assert.True(t, zero.Empty() && zero.Equal(Message{}) && zero.Role() == "" && zero.Text() == "")
	assert.True(t, zero.WithAttribution(Attribution{Run: "r"}).Equal(zero))
	assert.False(t, zero.Equal(User("")))
	assert.False(t, User("a").Equal(System("a")))
	assert.False(t, User("a").Equal(User("b")))
}

// CNV-007: a stream is folded into its messages; one that is cut within a message
// does not look complete.
func TestFold(t *testing.T) {
	broken := errors.New("broken")
	piece, whole := Delta{Kind: DeltaText, Text: "a"}, Delta{Kind: DeltaMessage, Message: Assistant("a")}
	retract := Delta{Kind: DeltaRetract, Text: "eval/low-score"}
	for name, c := range map[string]struct {
		deltas []Delta
		err    error
		n      int
		want   error
	}{
		"nothing":             {nil, nil, 0, nil},
		"a message":           {[]Delta{piece, whole}, nil, 1, nil},
		"without pieces":      {[]Delta{whole, whole}, nil, 2, nil},
		"error":               {[]Delta{whole, piece}, broken, 1, broken},
		"cut":                 {[]Delta{whole, piece}, nil, 1, io.ErrUnexpectedEOF},
		"withdrawn":           {[]Delta{whole, piece, retract}, nil, 1, nil},
		"withdrawn, then cut": {[]Delta{piece, retract, piece}, nil, 0, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			stream := func(yield func(Delta, error) bool) {
				for _, d := range c.deltas {
					if !yield(d, nil) {
						return
					}
				}
				if c.err != nil && yield(Delta{}, c.err) {
					yield(whole, nil)
				}
			}
			messages, err := Fold(stream, nil)
			assert.Len(t, messages, c.n)
			assert.ErrorIs(t, err, c.want)
			seen := 0
			messages, err = Fold(stream, func(Delta) bool { seen++; return false })
			if len(c.deltas) > 0 {
				assert.NoError(t, err)
				assert.Equal(t, 1, seen)
				assert.Equal(t, c.deltas[0].Kind == DeltaMessage, len(messages) == 1)
			}
		})
	}
}

// The zero message has no calls and equals itself alone, and reading calls can end
// early.
func TestZeroMessageAndEarlyEnd(t *testing.T) {
	assert.Empty(t, slices.Collect(Message{}.Calls()))
	assert.True(t, Message{}.Equal(Message{}))
	assert.False(t, Message{}.Equal(User("x")))
	assert.False(t, User("x").Equal(Message{}))
	m, err := New(RoleAssistant, Call{ID: "1", Tool: "a", Args: "{}"}, Call{ID: "2", Tool: "b", Args: "{}"})
	require.NoError(t, err)
	for c := range m.Calls() {
		assert.Equal(t, "1", c.ID)
		break
	}
}
