package conversation

import (
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Keys of inputs and answers.
const (
	keyID    = "conversation/id"
	keyTurn  = "turn/id"
	keySpan  = "span/id"
	keyDraft = "draft/id"
	keyNew   = "new/id"
	keyCall  = "tool/id"
	keyAt    = "at-turn"
	keyAfter = "after"
)

// idKeys are the keys of inputs whose value is an id.
var idKeys = [...]string{keyID, keyNew, keyTurn, keySpan, keyDraft, keyCall, keyAt, keyAfter}

// nameOf returns an intent without its namespace.
func nameOf(intent string) string { return strings.TrimPrefix(intent, "conversation/") }

func text(input edn.Value, key string) string {
	s, _ := input.Key(key).AsString()
	return s
}

func flag(input edn.Value, key string, otherwise bool) bool {
	if b, ok := input.Key(key).AsBool(); ok {
		return b
	}
	return otherwise
}

// anyVersion is the base version of a change that applies to every version. noVersion is one that
// no conversation has.
const (
	anyVersion = math.MinInt64
	noVersion  = -1
)

// base returns the version that the caller expects, anyVersion if the input names none.
func base(input edn.Value) int64 {
	v := input.Key("base-version")
	if v.IsNil() {
		return anyVersion
	}
	if n, ok := v.AsInt(); ok && n > anyVersion {
		return n
	}
	return noVersion
}

// tail returns the :tail of an input, turns.Cut by default.
func tail(input edn.Value) turns.Tail {
	if k, _ := input.Key("tail").AsKeyword(); k == string(turns.Keep) {
		return turns.Keep
	}
	return turns.Cut
}

// needed are the required keys of the operations.
var needed = map[string][]string{
	"get": {keyID}, "append": {keyID}, "send": {keyID}, "regenerate": {keyID}, "edit": {keyID, keyTurn},
	"select": {keyID, keyTurn, keySpan}, "truncate": {keyID, keyTurn}, "fork": {keyID}, "spawn": {keyID},
	"result": {keyID}, "restore": {keyID, "version"}, "archive": {keyID}, "delete": {keyID},
}

// complete rejects an input that lacks a key of its intent.
func complete(intent string, input edn.Value) *contract.Error {
	for _, key := range needed[nameOf(intent)] {
		if input.Key(key).IsNil() {
			return contract.Errorf("invalid-request", "the input of :%s has no :%s", intent, key).
				WithDetail("reason", edn.K("shape/missing-key")).WithDetail("path", edn.Vector(edn.K(key)))
		}
	}
	return nil
}

// wellFormed rejects empty ids, and malformed ids of turns and spans. An empty id is not the same
// as none: a caller whose variable is empty asks for one thing, and would change another. The error
// repeats the id as the caller wrote it.
func wellFormed(intent string, input edn.Value) *contract.Error {
	for _, key := range idKeys {
		if input.HasKey(key) && text(input, key) == "" {
			return contract.Errorf("invalid-request", ":%s is empty: expected an id", key).
				WithDetail("reason", edn.K("shape/bad-value")).WithDetail("path", edn.Vector(edn.K(key))).
				WithHint("give the id, or leave the key out if none is meant")
		}
	}
	for _, id := range []struct {
		key, typ, noun, example string
		parse                   func(string) int64
	}{
		{keyTurn, "conversation/turn-not-in-path", "turn", "t-3", turns.ParseTurn},
		{keyAt, "conversation/turn-not-in-path", "turn", "t-3", turns.ParseTurn},
		{keyAfter, "conversation/turn-not-in-path", "turn", "t-3", turns.ParseTurn},
		{keySpan, "conversation/span-not-in-turn", "span", "s-3", turns.ParseSpan},
	} {
		if id.key == keyAfter && nameOf(intent) == "list" {
			continue // there it is the id of a conversation
		}
		if written := text(input, id.key); input.HasKey(id.key) && id.parse(written) == 0 {
			return contract.Errorf(id.typ, ":%s %.80q is not the id of a %s: expected one such as %q", id.key, written, id.noun, id.example).
				WithDetail(id.key, edn.Text(written)).
				WithHint(":conversation/get lists the ids")
		}
	}
	return nil
}

// usableWindow rejects a :window that an intent cannot use: one without a turn for a model or an
// agent, and one for the turns after another one, of which :limit selects the first.
func usableWindow(intent string, input edn.Value) *contract.Error {
	n, ok := input.Key("window").AsInt()
	refuse := func(why, hint string) *contract.Error {
		return contract.Errorf("invalid-request", ":window %d: %s", n, why).
			WithDetail("reason", edn.K("shape/bad-value")).WithDetail("path", edn.Vector(edn.K("window"))).WithHint(hint)
	}
	switch name := nameOf(intent); {
	case !ok:
	case n < 1 && (name == "send" || name == "regenerate"):
		return refuse("expected at least 1 turn", "leave :window out for session.window_turns")
	case name == "get" && input.HasKey(keyAfter):
		return refuse("the input has :after too, expected one of them", "the turns after :after are limited by :limit")
	}
	return nil
}

// turnOf returns the number of the turn that an input names, 0 for a malformed id.
func turnOf(input edn.Value) int64 { return turns.ParseTurn(text(input, keyTurn)) }

// messagesOf reads and checks the :messages of a value, of which there must be at least
// one.
func messagesOf(v edn.Value) (out []conversation.Message, err *contract.Error) {
	list := v.Key("messages")
	if n := list.Len(); n > turns.MaxTurns {
		return nil, contract.Errorf("conversation/too-large", "%d messages, the limit is %d", n, turns.MaxTurns).
			WithDetail("limit", edn.Int(turns.MaxTurns)).WithDetail("found", edn.Int(int64(n))).
			WithHint("append fewer messages at once")
	}
	i := int64(0)
	for each := range list.Elems() {
		m, err := contract.MessageFromValue(each)
		if err != nil {
			at := slices.AppendSeq([]edn.Value{edn.K("messages"), edn.Int(i)}, err.Details.Key("path").Elems())
			return nil, err.WithDetail("message", edn.Int(i)).WithDetail("path", edn.Vector(at...))
		}
		out, i = append(out, m), i+1
	}
	return out, turns.Check(out)
}

// flat yields the messages of spans.
func flat(spans [][]conversation.Message) iter.Seq[conversation.Message] {
	return func(yield func(conversation.Message) bool) {
		for _, messages := range spans {
			for _, m := range messages {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// value returns the fields of a conversation without its path.
func (c Conversation) value() edn.MapBuilder {
	var b edn.MapBuilder
	b.Key(keyID, edn.Text(c.ID))
	b.Key("version", edn.Int(c.Version))
	b.Key("owner", edn.Text(c.Owner))
	b.OptText("title", c.Title)
	b.OptText("session/id", c.Session)
	b.Key("turn-count", edn.Int(int64(c.Turns)))
	b.OptTrue("archived?", c.Archived)
	b.Key("created-at", edn.Inst(c.Created))
	b.Key("updated-at", edn.Inst(c.Updated))
	if f := c.From; f.Kind != "" {
		var from edn.MapBuilder
		from.Key("relation", edn.K(f.Kind))
		from.Key(keyID, edn.Text(f.ID))
		if f.Turn != 0 {
			from.Key(keyTurn, edn.Text(turns.TurnID(f.Turn)))
		}
		from.OptText(keyCall, f.Call)
		b.Key("from", from.Map())
	}
	return b
}

// stepValues returns steps in the form of answers.
func stepValues(steps []turns.Step) edn.Value {
	out := make([]edn.Value, len(steps))
	for i, s := range steps {
		var b edn.MapBuilder
		b.Key(keyTurn, edn.Text(turns.TurnID(s.Turn)))
		b.Key("role", edn.K(string(s.Role)))
		b.Key(keySpan, edn.Text(turns.SpanID(s.Span)))
		b.OptTrue("stale?", s.Stale)
		out[i] = b.Map()
	}
	return edn.Vector(out...)
}

func messageValues(messages iter.Seq[conversation.Message]) edn.Value {
	var out []edn.Value
	for m := range messages {
		out = append(out, contract.MessageValue(m))
	}
	return edn.Vector(out...)
}

// value returns the answer of an operation that changed a path: the new version and the new
// turns after the unchanged ones.
func (w written) value() edn.MapBuilder {
	var b edn.MapBuilder
	b.Key(keyID, edn.Text(w.ID))
	b.Key("version", edn.Int(w.Version))
	b.Key("turn-count", edn.Int(int64(w.Turns)))
	b.Key("turns", stepValues(w.steps))
	return b
}

// event sends an event to c.Event, if set. more, which may be nil, adds fields.
func (c *Call) event(kind string, more func(*edn.MapBuilder)) {
	if c.Event == nil {
		return
	}
	var b edn.MapBuilder
	b.Key("event", edn.K("conversation/"+kind))
	b.Key(keyID, c.Input.Key(keyID))
	if more != nil {
		more(&b)
	}
	c.Event(b.Map())
}
