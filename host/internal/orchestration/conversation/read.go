package conversation

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of answers.
const (
	listed  = 100 // conversations, without a :limit
	maxList = 1000
	history = 100 // commits
)

// get returns a conversation with its path, of the current or an earlier version: the whole path,
// the last :window turns, or at most :limit turns after the turn :after. :messages? false leaves
// out messages and drafts. With :turn/id it returns the alternatives of that turn instead.
func (s *Service) get(ctx context.Context, c *Call) (out edn.Value, err *contract.Error) {
	err = s.read(ctx, c, text(c.Input, keyID), func(st state) error {
		b := st.value()
		if c.Input.HasKey(keyTurn) {
			alternatives, err := st.alternatives(turnOf(c.Input))
			if err != nil {
				return err
			}
			b.Key("alternatives", alternatives)
			out = b.Map()
			return nil
		}
		version := st.Version
		if !c.Input.Key("version").IsNil() {
			var err *contract.Error
			if version, err = st.versionIn(c.Input); err != nil {
				return err
			}
		}
		if err := st.pathInto(&b, version, c.Input); err != nil {
			return err
		}
		out = b.Map()
		return nil
	})
	return out, err
}

// pathInto adds the part of the path of a version that an input asks for, its messages, the
// drafts and the last commits.
func (st state) pathInto(b *edn.MapBuilder, version int64, input edn.Value) error {
	texts := flag(input, "messages?", true)
	if version > 0 {
		path, err := st.Path(version)
		if err != nil {
			return err
		}
		from, to, missing := part(path, input)
		if missing != nil {
			return missing
		}
		b.Key("turns", stepValues(path[from:to]))
		if texts {
			said, err := st.saidBetween(version, path, from, to)
			if err != nil {
				return err
			}
			b.Key("messages", messageValues(flat(said)))
		}
	}
	if texts {
		if err := st.draftsInto(b); err != nil {
			return err
		}
	}
	commits, err := st.Commits(history)
	if err != nil {
		return err
	}
	values := make([]edn.Value, len(commits))
	for i, k := range commits {
		values[i] = edn.MustMap(edn.K("version"), edn.Int(k.Version), edn.K("by"), edn.K(k.Kind), edn.K("at"), edn.Inst(k.At))
	}
	b.Key("commits", edn.Vector(values...))
	return nil
}

// part returns the range [from, to) of the path that an input asks for: the last :window turns, or
// with :after those after that turn; of these at most the first :limit. The error is that of Index.
func part(path turns.Path, input edn.Value) (from, to int, err *contract.Error) {
	to = len(path)
	if n, ok := input.Key("window").AsInt(); ok && n >= 0 && n < int64(to) {
		from = to - int(n)
	}
	if after := text(input, keyAfter); after != "" {
		if from, err = path.Index(turns.ParseTurn(after)); err != nil {
			return 0, 0, err
		}
		from++
	}
	if n, ok := input.Key("limit").AsInt(); ok && n > 0 && n < int64(to-from) {
		to = from + int(n)
	}
	return from, to, nil
}

// saidBetween returns the messages of each step of a path between two positions.
func (st state) saidBetween(version int64, path turns.Path, from, to int) ([][]conversation.Message, error) {
	if to == len(path) {
		return st.Messages(version, from)
	}
	out := make([][]conversation.Message, 0, to-from)
	for _, step := range path[from:to] {
		said, err := st.Said(step.Span)
		if err != nil {
			return nil, err
		}
		out = append(out, said)
	}
	return out, nil
}

// draftsInto adds the drafts, if there are any.
func (st state) draftsInto(b *edn.MapBuilder) error {
	drafts, err := st.Drafts()
	if err != nil || len(drafts) == 0 {
		return err
	}
	values := make([]edn.Value, len(drafts))
	for i, d := range drafts {
		values[i] = edn.MustMap(edn.K(keyDraft), edn.Text(d.Key), edn.K("run/id"), edn.Text(d.Run), edn.K("at"), edn.Inst(d.At),
			edn.K("message"), contract.MessageValue(d.Message))
	}
	b.Key("drafts", edn.Vector(values...))
	return nil
}

// alternatives returns the spans of a turn on the path with their messages.
func (st state) alternatives(turn int64) (edn.Value, error) {
	path, err := st.Path(0)
	if err != nil {
		return edn.Nil(), err
	}
	i, missing := path.Index(turn)
	if missing != nil {
		return edn.Nil(), missing
	}
	spans, err := st.Spans(turn)
	if err != nil {
		return edn.Nil(), err
	}
	out := make([]edn.Value, len(spans))
	for k, span := range spans {
		said, err := st.Said(span)
		if err != nil {
			return edn.Nil(), err
		}
		var b edn.MapBuilder
		b.Key(keySpan, edn.Text(turns.SpanID(span)))
		b.OptTrue("selected?", path[i].Span == span)
		values := make([]edn.Value, len(said))
		for j, m := range said {
			values[j] = contract.MessageValue(m)
		}
		b.Key("messages", edn.Vector(values...))
		out[k] = b.Map()
	}
	return edn.Vector(out...), nil
}

// list returns the conversations of the caller. With :any? it returns those of all
// principals, if the caller may read them.
func (s *Service) list(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	f := Filter{Owner: c.Caller.Principal, After: text(c.Input, keyAfter), Archived: flag(c.Input, "archived?", false), Limit: listed}
	if n, ok := c.Input.Key("limit").AsInt(); ok && n > 0 {
		f.Limit = int(min(n, maxList))
	}
	if c.Caller.Any && flag(c.Input, "any?", false) {
		f.Owner = ""
	}
	f.Session = c.Caller.Only
	all, err := s.store.List(ctx, f)
	if err != nil {
		return edn.Nil(), failed("list conversations", err)
	}
	values := make([]edn.Value, len(all))
	for i, of := range all {
		b := of.value()
		values[i] = b.Map()
	}
	var b edn.MapBuilder
	b.Key("conversations", edn.Vector(values...))
	if len(all) == f.Limit {
		b.Key("next", edn.Text(all[len(all)-1].ID))
	}
	return b.Map(), nil
}
