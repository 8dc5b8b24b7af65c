package view_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/conversation/view"
	"github.com/fermenthq/ferment/sdk/internal/messagegen"
)

// CNV-003, CNV-004: each view, and any nesting of views, has the messages that
// the same operation on a plain slice has, and is a context itself.
func TestViewsAreOperationsOnSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, want := nested(t, rapid.IntRange(0, 5).Draw(t, "depth"))
		conversationtest.Context(t, c, want)
	})
}

// nested returns a context of views and the messages that it should have.
func nested(t *rapid.T, depth int) (conversation.Context, []conversation.Message) {
	if depth == 0 {
		messages := messagegen.Messages().Draw(t, "messages")
		return conversation.Of(messages...), messages
	}
	c, messages := nested(t, depth-1)
	switch rapid.SampledFrom([]string{"window", "filter", "system", "compose", "transaction"}).Draw(t, "view") {
	case "window":
		return windowed(t, c, messages)
	case "filter":
		short := func(m conversation.Message) bool { return len(m.Text()) < 5 }
		return view.Filtered(c, short), only(messages, short)
	case "system":
		return view.WithoutSystem(c), slices.DeleteFunc(slices.Clone(messages), isSystem)
	case "transaction":
		tx := conversation.Begin(nil)
		defer tx.Rollback()
		pending := messagegen.Messages().Draw(t, "pending")
		tx.Extend(pending...)
		return conversation.TransactionContext(c, tx), slices.Concat(messages, pending)
	}
	other, more := nested(t, depth-1)
	system := rapid.SampledFrom([]string{"", "Be brief."}).Draw(t, "system prompt")
	all := slices.Concat(messages, more)
	if system != "" {
		all = slices.Concat([]conversation.Message{conversation.System(system)}, all)
	}
	return view.Composed(system, c, other), all
}

func only(messages []conversation.Message, keep func(conversation.Message) bool) []conversation.Message {
	return slices.DeleteFunc(slices.Clone(messages), func(m conversation.Message) bool { return !keep(m) })
}

// CNV-004: a window is the longest end of the messages that keeps its rules.
func TestWindowIsTheLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := messagegen.Messages().Draw(t, "messages")
		c, want := windowed(t, conversation.Of(messages...), messages)
		conversationtest.Context(t, c, want)
	})
}

func isSystem(m conversation.Message) bool { return m.Role() == conversation.RoleSystem }

// windowed is a window with any options, and the same by trial: the longest end
// of the messages that keeps all the rules.
func windowed(
	t *rapid.T, c conversation.Context, messages []conversation.Message,
) (conversation.Context, []conversation.Message) {
	n := rapid.IntRange(0, 8).Draw(t, "n")
	var options []view.Option
	keep := rapid.Bool().Draw(t, "keep system")
	if keep {
		options = append(options, view.KeepSystem())
	}
	limit := -1
	count := func(m conversation.Message) int { return 1 + len(m.Text())%3 }
	if rapid.Bool().Draw(t, "by tokens") {
		limit = rapid.IntRange(0, 9).Draw(t, "tokens")
		options = append(options, view.Tokens(limit, count))
	}
	for start := range len(messages) + 1 {
		end := messages[start:]
		counted, tokens, calls, whole := 0, 0, map[string]bool{}, true
		for _, m := range end {
			if !keep || !isSystem(m) {
				counted++
				tokens += count(m)
			}
			for call := range m.Calls() {
				calls[call.ID] = true
			}
			if r, ok := m.Result(); ok && !calls[r.CallID] {
				whole = false
			}
		}
		var kept []conversation.Message
		for _, m := range messages {
			if keep && isSystem(m) {
				tokens += count(m)
			}
		}
		if keep {
			kept = only(messages[:start], isSystem)
		}
		if whole && counted <= n && (limit < 0 || counted == 0 || tokens <= limit) {
			return view.Windowed(c, n, options...), append(kept, end...)
		}
	}
	panic("the empty end keeps all rules")
}

// CNV-004: a window never begins with the result of a tool whose call is outside.
func TestWindowKeepsCallsWithTheirResults(t *testing.T) {
	call, err := conversation.New(conversation.RoleAssistant,
		conversation.Call{ID: "t1", Tool: "clock", Args: "{}"}, conversation.Call{ID: "t2", Tool: "clock", Args: "{}"})
	assert.NoError(t, err)
	all := []conversation.Message{
		conversation.User("When?"), call, conversation.ToolResult("t1", "noon"), conversation.User("And there?"),
		conversation.ToolResult("t2", "night"), conversation.Assistant("Noon, and night there."),
	}
	c := conversation.Of(all...)
	for n, want := range map[int]int{0: 0, 1: 1, 2: 1, 3: 1, 4: 1, 5: 5, 6: 6, 7: 6, -1: 0} {
		conversationtest.Context(t, view.Windowed(c, n), all[len(all)-want:])
	}
}

// CNV-003: a filter decides once for each message, so that a view does not change
// with what its filter depends on.
func TestFilterDecidesOnce(t *testing.T) {
	asked := 0
	c := view.Filtered(conversation.Of(conversation.User("a"), conversation.User("b")), func(conversation.Message) bool {
		asked++
		return asked == 1
	})
	conversationtest.Context(t, c, []conversation.Message{conversation.User("a")})
	assert.Equal(t, 2, asked)
}
