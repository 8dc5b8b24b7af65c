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

// Flow is the way of text from an answer node to whoever follows the run: that
// of the node whose answer the run gives, or, while that node's answer is a
// plan, of the node whose answer this plan gives (STR-001). The policy of each
// level counts; the strictest of them holds.
type TextStream struct {
	writer *streamWriter
	parent *attemptStream // the attempt that this node works for; nil at the outermost
	mode   mode           // what the levels around it demand
	key    string         // under which the answer has its text; empty: any of SLOT-008
}

// NewFlow is the flow of the answer node of a run. Text is taken from the key
// of its answer, or from the first that holds text if key is empty. Pace may be
// nil. With tell, text is told there instead of being recorded.
func (r *Run) NewTextStream(clock Clock, path edn.Value, node, key string, pace *Pace, tell func(journal.Body)) *TextStream {
	if tell == nil {
		// The error is of no use here: the recorder repeats it to the next who
		// records, and that ends the run.
		tell = func(body journal.Body) { _ = r.Recorder.Record(path, node, body) }
	}
	return &TextStream{writer: &streamWriter{record: tell, clock: clock, pace: pace}, key: key}
}

// mode is when text is shown. The stricter one is the greater.
type mode uint8

const (
	firstToken  mode = iota // first-token
	provisional             // provisional
	gatePassed              // gate-passed
)

var modeNames = [...]string{policy.FirstToken, policy.Provisional, policy.GatePassed}

func (m mode) String() string { return modeNames[m] }

func modeOf(name string) mode {
	return mode(max(0, slices.Index(modeNames[:], name)))
}

// modeFor is when the text of a call is shown. Who is asked beside others, and
// under first-token who has to pass a must check besides its schema, is not
// heard before its gates: what was said could not be taken back.
func (t *TextStream) modeFor(p *CallPolicy, s strategy) mode {
	m := modeOf(p.Stream)
	if delayReason(m, s.name, &p.Policy) != "" {
		m = gatePassed
	}
	return max(m, t.mode)
}

// held is why text waits for the gates although the policy says otherwise.
func delayReason(m mode, strategy string, p *policy.Policy) string {
	if m == gatePassed {
		return ""
	}
	if strategy == policy.Race || strategy == policy.Tournament {
		return "with the strategy :" + strategy + " it is not known before who answers"
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

// Held says why the text of calls under a policy is shown after its gates
// although the policy wants it earlier; empty if it is shown as the policy says.
func StreamDelayReason(p *policy.Policy) string { return delayReason(modeOf(p.Stream), p.Strategy, p) }

// voice is an attempt as far as its text is concerned. A nil voice says
// nothing. Fields that change are guarded by the outlet.
type attemptStream struct {
	writer  *streamWriter
	parent  *attemptStream
	mode    mode
	key     string
	attempt int // of the outermost level

	clean    *text.Stream // of a model; nil: text is shown as it comes
	received int          // bytes
	buffer   strings.Builder
	ended    bool
	fault    *contract.Error
}

// speak is the voice of an attempt of the node.
func (s *TextStream) forAttempt(m mode, attempt int) *attemptStream {
	if s == nil {
		return nil
	}
	if s.parent != nil {
		attempt = s.parent.attempt
	}
	return &attemptStream{writer: s.writer, parent: s.parent, mode: m, key: s.key, attempt: attempt}
}

// cleaned has the text of the attempt cleaned before it is shown (TXT-002). What
// is known to be a program is not.
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

// within tells whether v works for w, or is w.
func (s *attemptStream) worksFor(other *attemptStream) bool {
	for ; s != nil; s = s.parent {
		if s == other {
			return true
		}
	}
	return false
}

// flow is that of the plan which the attempt answered with.
func (s *attemptStream) child(key string) *TextStream {
	if s == nil {
		return nil
	}
	return &TextStream{writer: s.writer, parent: s, mode: s.mode, key: key}
}

// live tells whether text is shown while the attempt works.
func (s *attemptStream) live() bool { return s != nil && s.mode != gatePassed }

// maxSaid bounds the text of one attempt in bytes. An answer cannot hold more
// in one string.
const maxSaid = 8 << 20

// hear takes a piece of the answer. It returns when the reader of the stream is
// near enough. Too much text ends the attempt through stop.
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
	case w.current == nil: // it may have spoken before, while somebody else was heard
		w.current = s
		w.write(s.buffer.String(), s.mode)
	case w.current == s:
		w.write(chunk, s.mode)
	}
	w.mu.Unlock()
	w.pace.wait(ctx)
}

// takeBack drops what was said: it was reasoning that nobody had announced. It
// fails if that was shown for good. It needs the lock of the outlet.
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

// broken is why the text itself ended the attempt.
func (s *attemptStream) failure() *contract.Error {
	if s == nil {
		return nil
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.fault
}

// pause records what was shown so far.
func (s *attemptStream) pause() {
	if s != nil {
		s.writer.mu.Lock()
		defer s.writer.mu.Unlock()
		s.writer.flush()
	}
}

// text is that of an answer, as the flow shows it.
func (s *attemptStream) text(out edn.Value) string {
	if s.key != "" {
		found, _ := out.Key(s.key).AsString()
		return found
	}
	if _, found, ok := quality.Text(out); ok {
		return found
	}
	if out.Len() == 1 { // what an emit under :final shows
		_, found, _ := quality.Text(out.Key("final"))
		return found
	}
	return ""
}

// bound tells whether nobody else may answer any more, because text of this
// attempt was shown for good.
func (s *attemptStream) committed() bool {
	if s == nil {
		return false
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.writer.committed && s.writer.current.worksFor(s)
}

// bound tells whether text of the run's answer was shown for good.
func (s *TextStream) committed() bool {
	if s == nil {
		return false
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.writer.committed
}

// contradicts tells whether an answer is not what was shown of it for good.
func (s *attemptStream) contradicts(out edn.Value) bool {
	if !s.committed() {
		return false
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return !strings.HasPrefix(s.text(out), s.writer.shown.String())
}

func contradiction(who string) *contract.Error {
	return contract.Errorf("stream/malformed", "%s answered with another text than it had streamed", who).WithSource(contract.SourcePlugin)
}

// fail ends the attempt. Judged tells that gates refused its answer, over that
// the run or the node is at its end. It returns the error that the node sees.
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
		return contract.Errorf("stream/truncated", "the answer broke off after a part of it was shown: %s", err.Message).WithCause(err).WithSource(err.Source)
	}
	return err
}

// accept makes the answer of the attempt that of its node.
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

// close ends the flow of a node: nothing of it is shown any more unless its
// answer was accepted.
func (s *TextStream) close(err *contract.Error) {
	if s == nil {
		return
	}
	s.writer.mu.Lock()
	h := s.writer.current
	own := h != nil && (s.parent == nil || h.worksFor(s.parent))
	if err != nil && own && !s.writer.committed {
		s.writer.retract(err.Type)
	}
	s.writer.mu.Unlock()
	s.writer.stop()
}

// Inline is the flow of an inline plan that stands as the answer node.
type InlineStream struct{ stream *attemptStream }

// Inline makes the flow of an inline plan; nil for nil.
func (s *TextStream) Inline() *InlineStream {
	if s == nil {
		return nil
	}
	return &InlineStream{s.forAttempt(s.mode, 0)}
}

// Flow is that of the node whose answer the plan gives; nil for nil.
func (i *InlineStream) Stream(key string) *TextStream {
	if i == nil {
		return nil
	}
	return i.stream.child(key)
}

// End says how the plan ended, and returns the error that its node sees.
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
