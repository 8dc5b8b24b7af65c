package dispatch

import (
	"context"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// TextStream forwards text of one node to the reader of the run: of the answer
// node of the run, or, while the answer of that node is a plan, of the answer
// node of that plan (STR-001). The strictest stream policy of all levels
// applies.
type TextStream struct {
	writer *streamWriter
	parent *attemptStream // attempt whose plan contains the node; nil at the outermost level
	mode   mode           // minimum mode required by the outer levels
	key    string         // key of the text in the answer; empty: any of SLOT-008
}

// NewTextStream returns the stream of the answer node of a run. Text is taken
// from key of its answer, or from the first key with text if key is empty. pace
// may be nil. If tell is set, it gets the text instead of the recorder.
func (r *Run) NewTextStream(clock Clock, path edn.Value, node, key string, pace *Pace,
	tell func(journal.Body)) *TextStream {
	if tell == nil {
		// The error can be ignored: the recorder returns it again at its next record,
		// which ends the run.
		tell = func(body journal.Body) { _ = r.Recorder.Record(path, node, body) }
	}
	return &TextStream{writer: &streamWriter{record: tell, clock: clock, pace: pace}, key: key}
}

// mode is when text is shown. A stricter mode is greater.
type mode uint8

const (
	firstToken mode = iota
	provisional
	gatePassed
)

var modeNames = [...]string{policy.FirstToken, policy.Provisional, policy.GatePassed}

func (m mode) String() string { return modeNames[m] }

func modeOf(name string) mode {
	return mode(max(0, slices.Index(modeNames[:], name)))
}

// modeFor returns when the text of a call is shown: as its policy and the outer
// levels require, or after the gates if there is a delayReason.
func (t *TextStream) modeFor(p *CallPolicy, s strategy) mode {
	m := modeOf(p.Stream)
	if delayReason(m, s.name, &p.Policy) != "" {
		m = gatePassed
	}
	return max(m, t.mode)
}

// delayReason returns why text waits for the gates against the stream policy.
func delayReason(m mode, strategy string, p *policy.Policy) string {
	if m == gatePassed {
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

// StreamDelayReason returns why the text of calls under a policy is shown only
// after its gates although the policy requests it earlier; empty if the policy
// is followed.
func StreamDelayReason(p *policy.Policy) string { return delayReason(modeOf(p.Stream), p.Strategy, p) }

// attemptStream is the text of one attempt. A nil stream shows nothing. Fields
// that change are guarded by writer.mu.
type attemptStream struct {
	writer  *streamWriter
	parent  *attemptStream
	mode    mode
	key     string
	attempt int // number of the attempt at the outermost level

	clean    *text.Stream // cleans text of a model; nil: text is not cleaned
	received int          // bytes
	buffer   strings.Builder
	ended    bool
	fault    *contract.Error
}

// forAttempt returns the stream of an attempt of the node.
func (t *TextStream) forAttempt(m mode, attempt int) *attemptStream {
	if t == nil {
		return nil
	}
	if t.parent != nil {
		attempt = t.parent.attempt
	}
	return &attemptStream{writer: t.writer, parent: t.parent, mode: m, key: t.key, attempt: attempt}
}

// cleanWith cleans the text of the attempt before it is shown (TXT-002), unless
// the key holds a program.
func (s *attemptStream) cleanWith(how text.Cleaning) {
	switch {
	case s == nil, s.key == "code", s.key == "patch":
	default:
		if s.key != "" && s.key != "text" {
			how.MaxChars = 0
		}
		s.clean = text.NewStream(how)
	}
}

// worksFor reports whether s is other or belongs to a plan that answers it.
func (s *attemptStream) worksFor(other *attemptStream) bool {
	for ; s != nil; s = s.parent {
		if s == other {
			return true
		}
	}
	return false
}

// child returns the stream of the plan that the attempt answered with.
func (s *attemptStream) child(key string) *TextStream {
	if s == nil {
		return nil
	}
	return &TextStream{writer: s.writer, parent: s, mode: s.mode, key: key}
}

// live reports whether text is shown while the attempt runs.
func (s *attemptStream) live() bool { return s != nil && s.mode != gatePassed }

// maxSaid bounds the text of one attempt in bytes, like one string of an
// answer.
const maxSaid = 8 << 20

// receive takes a piece of the answer. It blocks while the reader of the stream
// is behind. Too much text ends the attempt through stop.
func (s *attemptStream) receive(ctx context.Context, piece edn.Value, stop func()) {
	if kind, _ := piece.Key("kind").AsKeyword(); kind != "text" {
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
		if chunk, void = s.clean.Write(chunk); void && !s.retract() {
			w.mu.Unlock()
			stop()
			return
		}
	}
	s.buffer.WriteString(chunk)
	switch {
	case chunk == "":
	case w.current == nil: // another attempt was shown before and is gone
		w.current = s
		w.write(s.buffer.String(), s.mode)
	case w.current == s:
		w.write(chunk, s.mode)
	}
	w.mu.Unlock()
	w.pace.wait(ctx)
}

// retract drops the text so far because it turned out to be reasoning. It fails
// if the text is committed. writer.mu must be held.
func (s *attemptStream) retract() bool {
	w := s.writer
	if w.current == s {
		if w.committed {
			s.fault = contract.Errorf("stream/malformed", "a part of what was shown turned out to be reasoning").
				WithSource(contract.SourcePlugin).WithDetail("effect/state", edn.K("unknown"))
			return false
		}
		w.retract("stream/malformed")
	}
	s.buffer.Reset()
	return true
}

// failure returns the error of the text that ended the attempt, if any.
func (s *attemptStream) failure() *contract.Error {
	if s == nil {
		return nil
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.fault
}

// pause records pending text.
func (s *attemptStream) pause() {
	if s != nil {
		s.writer.mu.Lock()
		defer s.writer.mu.Unlock()
		s.writer.flush()
	}
}

// text returns the text of an answer as it is streamed.
func (s *attemptStream) text(out edn.Value) string {
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

// committed reports whether text of this attempt was shown and cannot be
// retracted, so that no other attempt may answer.
func (s *attemptStream) committed() bool {
	if s == nil {
		return false
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.writer.committed && s.writer.current.worksFor(s)
}

// committed reports whether shown text of the run's answer cannot be retracted.
func (t *TextStream) committed() bool {
	if t == nil {
		return false
	}
	t.writer.mu.Lock()
	defer t.writer.mu.Unlock()
	return t.writer.committed
}

// contradicts reports whether an answer differs from its committed text.
func (s *attemptStream) contradicts(out edn.Value) bool {
	if !s.committed() {
		return false
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return !strings.HasPrefix(s.text(out), s.writer.shown.String())
}

func contradiction(source string) *contract.Error {
	return contract.Errorf("stream/malformed", "%s answered with another text than it had streamed", source).
		WithSource(contract.SourcePlugin)
}

// fail ends the attempt. judged is true if gates refused its answer, over if
// the run or the node ends. It returns the error for the node.
func (s *attemptStream) fail(err *contract.Error, judged, over bool) *contract.Error {
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
			err.Message).WithCause(err).WithSource(err.Source)
	}
	return err
}

// accept makes the answer of the attempt the answer of its node.
func (s *attemptStream) accept(out edn.Value) {
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
	case s.mode == gatePassed && s.parent.mode != gatePassed && w.current == nil:
		w.current = s
		w.write(s.text(out), s.parent.mode)
	}
}

// close ends the stream of a node and retracts its text if the node failed.
func (t *TextStream) close(err *contract.Error) {
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

// InlineStream is the stream of an inline plan that is the answer node.
type InlineStream struct{ stream *attemptStream }

// Inline returns the stream of an inline plan; nil for nil.
func (t *TextStream) Inline() *InlineStream {
	if t == nil {
		return nil
	}
	return &InlineStream{t.forAttempt(t.mode, 0)}
}

// Stream returns the stream of the plan's answer node; nil for nil.
func (i *InlineStream) Stream(key string) *TextStream {
	if i == nil {
		return nil
	}
	return i.stream.child(key)
}

// End ends the stream of the plan and returns the error for its node.
func (i *InlineStream) End(out edn.Value, err *contract.Error, over bool) *contract.Error {
	if i == nil {
		return err
	}
	if err == nil && i.stream.contradicts(out) {
		err = contradiction("the plan")
	}
	if err != nil {
		err = i.stream.fail(err, false, over)
	} else {
		i.stream.accept(out)
	}
	i.stream.writer.stop()
	return err
}
