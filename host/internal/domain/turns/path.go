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
	// Stale is set if a turn before it was changed and this one kept: it answers
	// something else.
	Stale bool
}

// Path is the turns of a conversation in their order. It is not modified.
type Path []Step

// Span is an alternative that a change adds: to Turn, or as a turn of its own if Turn
// is 0.
type Span struct {
	Turn     int64
	Role     conversation.Role
	Messages []conversation.Message
}

// Change replaces the steps of a path from Keep on by Steps. A step with the negative
// Span -n selects the n-th of Spans, from 1; it gets the numbers of that span.
type Change struct {
	Keep  int
	Steps []Step
	Spans []Span
}

// Number is the turn and the number that a store gave to a new span.
type Number struct{ Turn, Span int64 }

// Numbered returns the steps of the change with the numbers of its spans.
func (c Change) Numbered(numbers []Number) []Step {
	out := slices.Clone(c.Steps)
	for i, s := range out {
		if s.Span < 0 {
			out[i].Turn, out[i].Span = numbers[-s.Span-1].Turn, numbers[-s.Span-1].Span
		}
	}
	return out
}

// Apply returns the path after a change whose spans have the numbers.
func (p Path) Apply(c Change, numbers []Number) Path {
	return slices.Concat(p[:c.Keep], c.Numbered(numbers))
}

// Tail says what becomes of the turns after a changed one.
type Tail string

// The tails.
const (
	Cut  Tail = "cut"  // they leave the path: they answered something else
	Keep Tail = "keep" // they stay and are marked as stale
)

// Append returns the change that adds messages to a path of length n: a turn for each
// change of role, whose neighbors of one role share a span (CNV-023).
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

// Index returns the place of a turn on the path.
func (p Path) Index(turn int64) (int, *contract.Error) {
	i := slices.IndexFunc(p, func(s Step) bool { return s.Turn == turn })
	if i < 0 {
		return 0, contract.Errorf("conversation/turn-not-in-path", "turn %s is not one of the %d turns on the path", TurnID(turn), len(p)).
			WithDetail("turn/id", edn.Text(TurnID(turn)))
	}
	return i, nil
}

// Answer returns the change that adds messages as an alternative of a turn and
// selects it.
func (p Path) Answer(turn int64, messages []conversation.Message, tail Tail) (Change, *contract.Error) {
	i, err := p.Index(turn)
	if err != nil {
		return Change{}, err
	}
	c := p.at(i, Step{Turn: turn, Span: -1, Role: p[i].Role}, tail)
	c.Spans = []Span{{Turn: turn, Role: p[i].Role, Messages: messages}}
	return c, nil
}

// Exchange returns the change that adds a message as an alternative of a turn of the user,
// with its answer: as an alternative of the turn of the assistant after that, if there is
// one, else as new turns. Later turns leave the path.
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
	if i+1 < len(p) && p[i+1].Role == conversation.RoleAssistant {
		spans = []Span{{Turn: p[i+1].Turn, Role: p[i+1].Role, Messages: answer}}
	}
	c := Change{Keep: i, Spans: append([]Span{{Turn: turn, Role: p[i].Role, Messages: []conversation.Message{m}}}, spans...)}
	for k, s := range c.Spans {
		c.Steps = append(c.Steps, Step{Turn: s.Turn, Span: -int64(k + 1), Role: s.Role})
	}
	return c, nil
}

// Select returns the change that selects a span of a turn, whose alternatives are
// given. To select the selected span changes nothing.
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
	return p.at(i, Step{Turn: turn, Span: span, Role: p[i].Role}, tail), nil
}

// at replaces one step and decides about those after it.
func (p Path) at(i int, step Step, tail Tail) Change {
	c := Change{Keep: i, Steps: []Step{step}}
	if tail == Keep {
		for _, later := range p[i+1:] {
			later.Stale = true
			c.Steps = append(c.Steps, later)
		}
	}
	return c
}

// Truncate returns the change that ends the path before a turn.
func (p Path) Truncate(turn int64) (Change, *contract.Error) {
	i, err := p.Index(turn)
	return Change{Keep: i}, err
}

// Restore returns the change that makes the path another one.
func (p Path) Restore(other Path) Change {
	same := 0
	for same < len(p) && same < len(other) && p[same] == other[same] {
		same++
	}
	return Change{Keep: same, Steps: slices.Clone(other[same:])}
}

// Changes reports whether the change makes a path of length n another one.
func (c Change) Changes(n int) bool { return c.Keep < n || len(c.Steps) > 0 }

// TurnID and SpanID return the ids of turns and spans outside the host.
func TurnID(turn int64) string { return fmt.Sprintf("t-%d", turn) }

// SpanID is TurnID for spans.
func SpanID(span int64) string { return fmt.Sprintf("s-%d", span) }

// ParseTurn and ParseSpan read ids; another text gives the number 0, which no turn and
// no span has.
func ParseTurn(id string) int64 { return number(id, "t-") }

// ParseSpan is ParseTurn for spans.
func ParseSpan(id string) int64 { return number(id, "s-") }

func number(id, prefix string) int64 {
	digits, ok := strings.CutPrefix(id, prefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 1 || digits != strconv.FormatInt(n, 10) {
		return 0
	}
	return n
}
