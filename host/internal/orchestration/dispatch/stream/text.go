package stream

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// Text forwards text of one node to the reader of the run: of the answer
// node of the run, or, while the answer of that node is a plan, of the answer
// node of that plan (STR-001). The strictest stream policy of all levels
// applies.
type Text struct {
	writer *writer
	parent *Attempt // attempt whose plan contains the node; nil at the outermost level
	mode   Mode     // minimum mode required by the outer levels
	key    string   // key of the text in the answer; empty: any of SLOT-008
}

// Clock is the time source of a stream.
type Clock interface {
	Now() time.Time
	// Wait returns nil after d, or the error of ctx if that ends first.
	Wait(ctx context.Context, d time.Duration) error
}

// New returns the stream of the answer node of a run. record gets its
// AttemptChunk and AttemptRetracted. Text is taken from key of the answer, or
// from the first key with text if key is empty. pace and live may be nil.
func New(record func(journal.Body), clock Clock, key string, pace *Pace, live *Live) *Text {
	return &Text{writer: &writer{record: record, clock: clock, pace: pace, live: live}, key: key}
}

// Mode says when text is shown. A stricter mode is greater.
type Mode uint8

// The modes: firstToken shows text at once and commits its node to the attempt,
// provisional shows it at once and can retract it, GatePassed shows it after the
// gates.
const (
	firstToken Mode = iota
	provisional
	GatePassed
)

var modeNames = [...]string{policy.FirstToken, policy.Provisional, policy.GatePassed}

// String returns the name of the mode in policies.
func (m Mode) String() string { return modeNames[m] }

func modeOf(name string) Mode {
	return Mode(max(0, slices.Index(modeNames[:], name)))
}

// Mode returns when the text of a call is shown: as its policy and the outer
// levels require, or after the gates if an earlier time is not possible.
// strategy is the strategy of the call.
func (t *Text) Mode(p *policy.Policy, strategy string) Mode {
	m := modeOf(p.Stream)
	if delayReason(m, strategy, p) != "" {
		m = GatePassed
	}
	return max(m, t.mode)
}

// delayReason returns why text waits for the gates against the stream policy.
func delayReason(m Mode, strategy string, p *policy.Policy) string {
	if m == GatePassed {
		return ""
	}
	if strategy == policy.Race || strategy == policy.Tournament {
		return "with the strategy :" + strategy + " the accepted attempt is known only after the gates"
	}
	if m == provisional {
		return ""
	}
	if i := slices.IndexFunc(p.Must, func(name string) bool { return name != quality.SchemaValid }); i >= 0 {
		return "the must check :" + p.Must[i] + " judges the whole answer, and what was shown could not be taken back"
	}
	if p.Judge != "" && p.JudgeMust {
		return "judge " + p.Judge + " grades the whole answer, and what was shown could not be taken back"
	}
	return ""
}

// ShowsValues reports whether values that the capability streams besides text are
// shown at once. They cannot be retracted, so they are not shown at all if a gate
// judges the whole answer. The stream policy does not apply to them.
func (t *Text) ShowsValues(p *policy.Policy) bool {
	return t != nil && t.parent == nil && t.writer.live != nil && delayReason(firstToken, p.Strategy, p) == ""
}

// DelayReason returns why the text of calls under a policy is shown only
// after its gates although the policy requests it earlier; empty if the policy
// is followed.
func DelayReason(p *policy.Policy) string { return delayReason(modeOf(p.Stream), p.Strategy, p) }

// Attempt is the text of one attempt. A nil Attempt shows nothing. Fields
// that change are guarded by writer.mu.
type Attempt struct {
	writer  *writer
	parent  *Attempt
	mode    Mode
	key     string
	attempt int // number of the attempt at the outermost level

	clean    *text.Stream // cleans text of a model; nil: text is not cleaned
	cleaning text.Cleaning
	received int // bytes
	buffer   strings.Builder
	ended    bool
	fault    *contract.Error
}

// ForAttempt returns the stream of an attempt of the node; nil if t is nil.
func (t *Text) ForAttempt(m Mode, attempt int) *Attempt {
	if t == nil {
		return nil
	}
	if t.parent != nil {
		attempt = t.parent.attempt
	}
	return &Attempt{writer: t.writer, parent: t.parent, mode: m, key: t.key, attempt: attempt}
}

// CleanWith cleans the text of the attempt before it is shown (TXT-002), unless
// the key holds a program. It must be called before Receive.
func (s *Attempt) CleanWith(how text.Cleaning) {
	switch {
	case s == nil, s.key == "code", s.key == "patch":
	default:
		if s.key != "" && s.key != "text" {
			how.MaxChars = 0
		}
		s.clean, s.cleaning = text.NewStream(how), how
	}
}

// worksFor reports whether s is other or belongs to a plan that answers it.
func (s *Attempt) worksFor(other *Attempt) bool {
	for ; s != nil; s = s.parent {
		if s == other {
			return true
		}
	}
	return false
}

// Child returns the stream of the plan that the attempt answered with; nil if s is nil.
// key is that of the text in the answer of the plan's answer node.
func (s *Attempt) Child(key string) *Text {
	if s == nil {
		return nil
	}
	return &Text{writer: s.writer, parent: s, mode: s.mode, key: key}
}

// Live reports whether text is shown while the attempt runs.
func (s *Attempt) Live() bool { return s != nil && s.mode != GatePassed }

// Reports reports whether the run has a reader for events that are not recorded.
func (s *Attempt) Reports() bool { return s != nil && s.writer.live != nil }

// Report sends an event that is not recorded to the reader of the run. It blocks until
// the reader begins or ctx ends, then until the reader has taken the event, even if ctx
// ends. A reader that has stopped gets nothing. Call Report only if Reports is true.
func (s *Attempt) Report(ctx context.Context, e journal.Event) { s.writer.live.send(ctx, e) }

// maxSaid bounds the streamed text of one attempt, in bytes. One string of an answer
// has the same limit.
const maxSaid = 8 << 20

// IsText reports whether a piece of an answer is text, or withdraws the text
// before it.
func IsText(piece edn.Value) bool {
	kind, _ := piece.Key("kind").AsKeyword()
	return kind == "text" || kind == "retract"
}

// IsValue reports whether a piece is a complete value. Reasoning and tool calls come in
// pieces of text (LLM-011): a secret that is split between pieces cannot be redacted, so
// they are shown only with the answer.
func IsValue(piece edn.Value) bool {
	switch kind, _ := piece.Key("kind").AsKeyword(); kind {
	case "text", "retract", "reasoning", "tool-call":
		return false
	}
	return true
}

// Receive takes a piece of the answer; pieces that are not text are ignored. It blocks
// while the reader of the stream is behind and ctx has not ended. Too much text, or the
// retraction of committed text, sets Failure and calls stop.
func (s *Attempt) Receive(ctx context.Context, piece edn.Value, stop func()) {
	kind, _ := piece.Key("kind").AsKeyword()
	switch kind {
	case "text":
	case "retract":
		s.withdraw(piece, stop)
		return
	default:
		return
	}
	chunk, _ := piece.Key("text").AsString()
	w := s.writer
	w.mu.Lock()
	if chunk == "" || s.ended || s.fault != nil {
		w.mu.Unlock()
		return
	}
	if s.received += len(chunk); s.received > maxSaid {
		s.fault = contract.Errorf("stream/malformed", "the text of one answer is longer than %d bytes", maxSaid).
			WithSource(contract.SourcePlugin).WithDetail("effect/state", edn.K("unknown"))
		w.mu.Unlock()
		stop()
		return
	}
	if s.clean != nil {
		void := false
		const reasoning = "a part of what was shown turned out to be reasoning"
		if chunk, void = s.clean.Write(chunk); void && !s.retract("stream/malformed", reasoning) {
			w.mu.Unlock()
			stop()
			return
		}
	}
	s.buffer.WriteString(chunk)
	switch {
	case chunk == "":
	case w.current == nil: // none is shown: the first one, or the last one was retracted
		w.current = s
		w.write(s.buffer.String(), s.mode)
	case w.current == s:
		w.write(chunk, s.mode)
	}
	w.mu.Unlock()
	w.pace.wait(ctx)
}

// withdraw drops the text so far for a piece of the capability that retracts it.
func (s *Attempt) withdraw(piece edn.Value, stop func()) {
	reason, ok := piece.Key("reason").AsKeyword()
	if !ok {
		reason = "stream/malformed"
	}
	w := s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.ended || s.fault != nil {
		return
	}
	if s.clean != nil {
		s.clean = text.NewStream(s.cleaning)
	}
	if !s.retract(reason, "the capability withdrew text that was shown") {
		stop()
	}
}

// retract drops the text so far. It fails if the text is committed; why is the
// message of the error. writer.mu must be held.
func (s *Attempt) retract(reason, why string) bool {
	w := s.writer
	if w.current == s {
		if w.committed {
			s.fault = contract.Errorf("stream/malformed", "%s", why).
				WithSource(contract.SourcePlugin).WithDetail("effect/state", edn.K("unknown"))
			return false
		}
		w.retract(reason)
	}
	s.buffer.Reset()
	return true
}

// Failure returns the error of the text that ended the attempt; nil if there is none.
func (s *Attempt) Failure() *contract.Error {
	if s == nil {
		return nil
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.fault
}

// Pause records pending text at once, instead of after chunkTime.
func (s *Attempt) Pause() {
	if s != nil {
		s.writer.mu.Lock()
		defer s.writer.mu.Unlock()
		s.writer.flush()
	}
}

// text returns the text of an answer as it is streamed.
func (s *Attempt) text(out edn.Value) string {
	if s.key != "" {
		found, _ := out.Key(s.key).AsString()
		return found
	}
	if _, found, ok := quality.Text(out); ok {
		return found
	}
	if out.Len() == 1 { // emit under :final
		_, found, _ := quality.Text(out.Key("final"))
		return found
	}
	return ""
}

// Committed reports whether text of this attempt was shown and cannot be
// retracted, so that no other attempt may answer.
func (s *Attempt) Committed() bool {
	if s == nil {
		return false
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.writer.committed && s.writer.current.worksFor(s)
}

// Committed reports whether shown text of the run's answer cannot be retracted.
func (t *Text) Committed() bool {
	if t == nil {
		return false
	}
	t.writer.mu.Lock()
	defer t.writer.mu.Unlock()
	return t.writer.committed
}

// Contradicts reports whether the text of an answer does not begin with the committed
// text of the attempt; false if none is committed.
func (s *Attempt) Contradicts(out edn.Value) bool {
	if !s.Committed() {
		return false
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return !strings.HasPrefix(s.text(out), s.writer.shown.String())
}

// Contradiction returns the error stream/malformed for an answer of source that differs
// from its committed text.
func Contradiction(source string) *contract.Error {
	return contract.Errorf("stream/malformed", "the final text of %s differs from the text that it streamed", source).
		WithSource(contract.SourcePlugin)
}

// Fail ends the attempt with err, retracts its text unless that is committed, and
// returns the error for the node: stream/truncated if committed text breaks off,
// otherwise err. judged is true if gates refused its answer, over if the run or the
// node ends with err.
func (s *Attempt) Fail(err *contract.Error, judged, over bool) *contract.Error {
	if s == nil {
		return err
	}
	w := s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	s.ended = true
	if !w.current.worksFor(s) {
		return err
	}
	switch {
	case !w.committed:
		w.retract(err.Type)
	case judged:
		w.markRefused(err.Type)
	case !over && !w.refused && err.Type != "stream/truncated":
		return contract.Errorf("stream/truncated", "the answer broke off after a part of it was shown: %s",
			err.Message).WithCause(err).WithSource(err.Source).WithHint(cmp.Or(err.Hint, "send the request again"))
	}
	return err
}

// Accept makes the answer of the attempt the answer of its node, and shows the text
// that was not shown yet.
func (s *Attempt) Accept(out edn.Value) {
	if s == nil {
		return
	}
	w := s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	s.ended = true
	switch {
	case s.parent == nil:
		w.commit(s, s.text(out))
	case s.mode == GatePassed && s.parent.mode != GatePassed && w.current == nil:
		w.current = s
		w.write(s.text(out), s.parent.mode)
	}
}

// Close ends the stream of a node and records pending text. If err is not nil, it
// retracts text that is not committed.
func (t *Text) Close(err *contract.Error) {
	if t == nil {
		return
	}
	t.writer.mu.Lock()
	h := t.writer.current
	own := h != nil && (t.parent == nil || h.worksFor(t.parent))
	if err != nil && own && !t.writer.committed {
		t.writer.retract(err.Type)
	}
	t.writer.mu.Unlock()
	t.writer.stop()
}

// Inline is the stream of an inline plan that is the answer node.
type Inline struct{ stream *Attempt }

// Inline returns the stream of an inline plan; nil if t is nil.
func (t *Text) Inline() *Inline {
	if t == nil {
		return nil
	}
	return &Inline{t.ForAttempt(t.mode, 0)}
}

// Stream returns the stream of the plan's answer node; nil if i is nil. key is that of the
// text in the answer of that node.
func (i *Inline) Stream(key string) *Text {
	if i == nil {
		return nil
	}
	return i.stream.Child(key)
}

// End ends the stream of the plan with its answer out, or with err, and returns the
// error for its node; see Attempt.Fail.
func (i *Inline) End(out edn.Value, err *contract.Error, over bool) *contract.Error {
	if i == nil {
		return err
	}
	if err == nil && i.stream.Contradicts(out) {
		err = Contradiction("the plan")
	}
	if err != nil {
		err = i.stream.Fail(err, false, over)
	} else {
		i.stream.Accept(out)
	}
	i.stream.writer.stop()
	return err
}
