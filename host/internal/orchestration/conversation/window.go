package conversation

import (
	"context"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// summarizes is the intent that is called to summarize turns.
const summarizes = "context/summarize"

// maxChunks is the maximum number of summaries that one call makes; the next call
// continues.
const maxChunks = 8

// tellSummary precedes a summary in the message to the model.
const tellSummary = "Summary of the earlier conversation:\n"

// view is the part of a path that a model gets: the system turns at its beginning, a
// summary of the older turns, and the last turns. of is the conversation when it was read.
type view struct {
	s      *Service
	c      *Call
	of     Conversation
	path   turns.Path
	said   [][]conversation.Message // of each step
	known  []Summary
	limits Rules
}

// messages returns the messages for the model. cut is true if turns were left out without a
// summary.
func (v *view) messages(ctx context.Context) (out []conversation.Message, cut bool, err *contract.Error) {
	head := 0
	for head < len(v.path) && v.path[head].Role == conversation.RoleSystem {
		out, head = append(out, v.said[head]...), head+1
	}
	first := v.first(head)
	if first > head {
		var summary Summary
		if summary, err = v.summary(ctx, head, first); err != nil {
			return nil, false, err
		}
		cut = summary.Turns < first
		if summary.Text != "" {
			// Not a message of the system: it is text of callers and models (PRM-002).
			out = append(out, conversation.User(tellSummary+summary.Text))
		}
	}
	for _, messages := range v.said[first:] {
		out = append(out, messages...)
	}
	return turns.Sendable(out), cut, nil
}

// first returns the position from which on the last turns fit into the window (SES-016).
// The last turn is always included.
func (v *view) first(head int) int {
	first, chars := len(v.path), 0
	for first > head && len(v.path)-first < max(v.limits.Window.Turns, 1) {
		for _, m := range v.said[first-1] {
			chars += utf8.RuneCountInString(m.Text())
		}
		if chars > v.limits.Window.Chars && first < len(v.path) {
			break
		}
		first--
	}
	return first
}

// basis is the hash of the spans of the first n turns.
func (v *view) basis(n int) [32]byte {
	h := blake3.New(32, nil)
	for _, step := range v.path[:n] {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(step.Span)))
	}
	return [32]byte(h.Sum(nil))
}

// nearest returns the shortest stored summary that covers the turns before first; if there is none,
// the longest of the others; zero if there is none at all. Only those whose basis still matches the
// path count.
func (v *view) nearest(first int) (out Summary) {
	for _, s := range v.known {
		nearer := s.Turns > out.Turns
		if out.Turns >= first {
			nearer = s.Turns >= first && s.Turns < out.Turns
		}
		if nearer && s.Turns <= len(v.path) && s.Basis == v.basis(s.Turns) {
			out = s
		}
	}
	return out
}

// summary returns a summary that covers the turns before first, and possibly some of those that
// follow. It makes a new one only if no stored one covers them, and then of more turns than needed,
// so that the next calls need none (CNV-028). If the summarizing call fails, the result covers fewer
// turns.
func (v *view) summary(ctx context.Context, head, first int) (Summary, *contract.Error) {
	latest := v.nearest(first)
	latest.Turns = max(latest.Turns, head)
	if latest.Turns >= first || !v.c.Serves(summarizes) {
		return latest, nil
	}
	until := first + (len(v.path)-first)/2
	for until < len(v.path) && v.path[until].Role != conversation.RoleUser {
		until++
	}
	if until == len(v.path) {
		until = first
	}
	for range maxChunks {
		next, err := v.extend(ctx, latest, until)
		if err != nil {
			v.c.event("not-summarized", func(b *edn.MapBuilder) { b.Key("error", err.Value()) })
			return latest, nil
		}
		if latest = next; latest.Turns >= first {
			break
		}
	}
	return latest, nil
}

// extend makes and stores the summary that continues s, up to turn until at most.
func (v *view) extend(ctx context.Context, s Summary, until int) (Summary, *contract.Error) {
	var b strings.Builder
	if s.Text != "" {
		b.WriteString(s.Text + "\n\n")
	}
	n, chars := s.Turns, 0
	for n < until && (n == s.Turns || chars < v.limits.Window.Chars) {
		for _, m := range v.said[n] {
			if text := m.Text(); text != "" {
				b.WriteString(string(m.Role()) + ": " + text + "\n")
				chars += utf8.RuneCountInString(text)
			}
		}
		n++
	}
	out := Summary{Turns: n, Basis: v.basis(n), Text: s.Text, At: v.s.clock()}
	if chars > 0 {
		response, err := v.c.Ask(ctx, edn.MustMap(
			edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(summarizes)),
			edn.K("constraints"), edn.MustMap(edn.K("max-chars"), edn.Int(int64(v.limits.SummaryChars))),
			edn.K("input"), edn.MustMap(edn.K("text"), edn.Text(b.String())),
		), nil)
		if err != nil {
			return s, err
		}
		if out.Text = answerText(response.Key("result").Key("out")); out.Text == "" {
			return s, contract.Errorf("schema/invalid", "the answer of :%s has no text", summarizes)
		}
	}
	_, failure := v.s.store.Update(ctx, v.of.ID, func(r Reader) (Change, error) {
		if now, found := r.Conversation(); !found || !now.is(v.of) {
			return Change{}, notFound(v.of.ID)
		}
		return Change{Summary: &out}, nil
	})
	return out, failed("keep the summary of conversation "+v.of.ID, failure)
}

// answerText returns the text of an answer, "" if it has none.
func answerText(out edn.Value) string {
	for _, key := range []string{"summary", "text", "content"} {
		if s, ok := out.Key(key).AsString(); ok {
			return s
		}
	}
	return ""
}
