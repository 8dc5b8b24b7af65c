package turns

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Step is a turn of a path with its selected span.
type Step struct {
	Turn, Span int64
	Role       conversation.Role // of the turn
	// Stale is true if an earlier turn was changed and this one was kept, so that it
	// answers something else.
	Stale bool
}

// Path is the list of the turns of a conversation, in order. It is immutable.
type Path []Step

// Span is an alternative that a change adds: to Turn, or as a new turn if Turn is 0.
type Span struct {
	Turn     int64
	Role     conversation.Role
	Messages []conversation.Message
}

// Change keeps the first Keep steps of a path and replaces the others by Steps. A step
// whose Span is -n selects Spans[n-1], and gets the numbers of that span when it is stored.
type Change struct {
	Keep  int
	Steps []Step
	Spans []Span
}

// Number holds the turn number and the span number that a store gave to a new span.
type Number struct{ Turn, Span int64 }

// Numbered returns a copy of the steps with the numbers of the new spans; numbers[i]
// belongs to Spans[i].
func (c Change) Numbered(numbers []Number) []Step {
	out := slices.Clone(c.Steps)
	for i, s := range out {
		if s.Span < 0 {
			out[i].Turn, out[i].Span = numbers[-s.Span-1].Turn, numbers[-s.Span-1].Span
		}
	}
	return out
}

// Apply returns the path after a change; numbers[i] belongs to c.Spans[i].
func (p Path) Apply(c Change, numbers []Number) Path {
	return slices.Concat(p[:c.Keep], c.Numbered(numbers))
}

// Tail is the treatment of the turns after a changed one.
type Tail string

// The tails: later turns are removed or kept.
const (
	Cut  Tail = "cut"  // they are removed from the path, because they answered something else
	Keep Tail = "keep" // they stay and are marked as stale
)

// Append returns the change that adds messages to a path of length n. Neighboring messages
// of one role form one turn (CNV-023).
func Append(n int, messages []conversation.Message) Change {
	c := Change{Keep: n}
	for _, m := range messages {
		last := len(c.Spans) - 1
		if last < 0 || c.Spans[last].Role != m.Role() {
			c.Spans = append(c.Spans, Span{Role: m.Role()})
			last++
			c.Steps = append(c.Steps, Step{Span: -int64(last + 1), Role: m.Role()})
		}
		c.Spans[last].Messages = append(c.Spans[last].Messages, m)
	}
	return c
}

// Index returns the position of a turn on the path. The error is
// conversation/turn-not-in-path.
func (p Path) Index(turn int64) (int, *contract.Error) {
	i := slices.IndexFunc(p, func(s Step) bool { return s.Turn == turn })
	if i < 0 {
		return 0, contract.Errorf("conversation/turn-not-in-path", "turn %s is not one of the %d turns on the path", TurnID(turn), len(p)).
			WithDetail("turn/id", edn.Text(TurnID(turn)))
	}
	return i, nil
}

// Answer returns the change that adds messages as an alternative of a turn and selects it. Of
// messages of several roles, those before the first change of role are the alternative, and the
// others new turns after it (CNV-023). The error is that of Index, or conversation/invalid-message
// if the first message is of another role than the turn.
func (p Path) Answer(turn int64, messages []conversation.Message, tail Tail) (Change, *contract.Error) {
	i, err := p.Index(turn)
	if err != nil {
		return Change{}, err
	}
	c := Append(i, messages)
	if c.Spans[0].Role != p[i].Role {
		return Change{}, invalid([]edn.Value{edn.K("messages"), edn.Int(0), edn.K("role")}, fmt.Sprintf(
			"the message is of the role %s, but turn %s of the role %s", c.Spans[0].Role, TurnID(turn), p[i].Role))
	}
	c.Spans[0].Turn, c.Steps[0].Turn = turn, turn
	c.Steps = append(c.Steps, p.after(i, tail)...)
	return c, nil
}

// Exchange returns the change that adds a message as an alternative of a turn of the user,
// with its answer. The answer starts as an alternative of the next turn if that is of the
// assistant, and its other roles are new turns. Later turns are removed from the path. The error is
// that of Index, or conversation/invalid-message if the turn is not of the user.
func (p Path) Exchange(turn int64, m conversation.Message, answer []conversation.Message) (Change, *contract.Error) {
	i, err := p.Index(turn)
	switch {
	case err != nil:
		return Change{}, err
	case p[i].Role != conversation.RoleUser:
		return Change{}, contract.Errorf("conversation/invalid-message", "turn %s is of the role %s, expected one of the user",
			TurnID(turn), p[i].Role)
	}
	spans := Append(0, answer).Spans
	if i+1 < len(p) && p[i+1].Role == conversation.RoleAssistant && spans[0].Role == conversation.RoleAssistant {
		spans[0].Turn = p[i+1].Turn
	}
	c := Change{Keep: i, Spans: append([]Span{{Turn: turn, Role: p[i].Role, Messages: []conversation.Message{m}}}, spans...)}
	for k, s := range c.Spans {
		c.Steps = append(c.Steps, Step{Turn: s.Turn, Span: -int64(k + 1), Role: s.Role})
	}
	return c, nil
}

// Select returns the change that selects one of the alternatives of a turn; selecting the
// selected one changes nothing. The error is that of Index, or
// conversation/span-not-in-turn.
func (p Path) Select(turn, span int64, alternatives []int64, tail Tail) (Change, *contract.Error) {
	i, err := p.Index(turn)
	switch {
	case err != nil:
		return Change{}, err
	case !slices.Contains(alternatives, span):
		return Change{}, contract.Errorf("conversation/span-not-in-turn", "span %s is not one of the %d alternatives of turn %s",
			SpanID(span), len(alternatives), TurnID(turn)).
			WithDetail("turn/id", edn.Text(TurnID(turn))).WithDetail("span/id", edn.Text(SpanID(span)))
	case p[i].Span == span:
		return Change{Keep: len(p)}, nil
	}
	return Change{Keep: i, Steps: append([]Step{{Turn: turn, Span: span, Role: p[i].Role}}, p.after(i, tail)...)}, nil
}

// after returns the steps after a changed step i that tail leaves on the path.
func (p Path) after(i int, tail Tail) (steps []Step) {
	if tail == Keep {
		for _, later := range p[i+1:] {
			later.Stale = true
			steps = append(steps, later)
		}
	}
	return steps
}

// Truncate returns the change that removes a turn and all later ones from the path. The
// error is that of Index.
func (p Path) Truncate(turn int64) (Change, *contract.Error) {
	i, err := p.Index(turn)
	return Change{Keep: i}, err
}

// Restore returns the change that makes the path equal to other.
func (p Path) Restore(other Path) Change {
	same := 0
	for same < len(p) && same < len(other) && p[same] == other[same] {
		same++
	}
	return Change{Keep: same, Steps: slices.Clone(other[same:])}
}

// Changes reports whether the change alters a path of length n.
func (c Change) Changes(n int) bool { return c.Keep < n || len(c.Steps) > 0 }

// TurnID returns the id of a turn outside the host, such as "t-3".
func TurnID(turn int64) string { return fmt.Sprintf("t-%d", turn) }

// SpanID returns the id of a span outside the host, such as "s-3".
func SpanID(span int64) string { return fmt.Sprintf("s-%d", span) }

// ParseTurn returns the number of the turn with an id, 0 for a text that is not the id of a
// turn. No turn has the number 0.
func ParseTurn(id string) int64 { return number(id, "t-") }

// ParseSpan is ParseTurn for the ids of spans.
func ParseSpan(id string) int64 { return number(id, "s-") }

func number(id, prefix string) int64 {
	digits, ok := strings.CutPrefix(id, prefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 1 || digits != strconv.FormatInt(n, 10) {
		return 0
	}
	return n
}
