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
type Flow struct {
	outlet *outlet
	up     *voice // the attempt that this node works for; nil at the outermost
	mode   mode   // what the levels around it demand
	key    string // under which the answer has its text; empty: any of SLOT-008
}

// NewFlow is the flow of the answer node of a run. Text is taken from the key
// of its answer, or from the first that holds text if key is empty. Pace may be
// nil. With tell, text is told there instead of being recorded.
func (r *Run) NewFlow(clock Clock, path edn.Value, node, key string, pace *Pace, tell func(journal.Body)) *Flow {
	if tell == nil {
		// The error is of no use here: the recorder repeats it to the next who
		// records, and that ends the run.
		tell = func(body journal.Body) { _ = r.Recorder.Record(path, node, body) }
	}
	return &Flow{outlet: &outlet{record: tell, clock: clock, pace: pace}, key: key}
}

// mode is when text is shown. The stricter one is the greater.
type mode uint8

const (
	asItComes  mode = iota // first-token
	revocable              // provisional
	afterGates             // gate-passed
)

var modeNames = [...]string{policy.FirstToken, policy.Provisional, policy.GatePassed}

func (m mode) String() string { return modeNames[m] }

func modeOf(name string) mode {
	return mode(max(0, slices.Index(modeNames[:], name)))
}

// modeFor is when the text of a call is shown. Who is asked beside others, and
// under first-token who has to pass a must check besides its schema, is not
// heard before its gates: what was said could not be taken back.
func (f *Flow) modeFor(p *CallPolicy, s strategy) mode {
	m := modeOf(p.Stream)
	if held(m, s.name, &p.Policy) != "" {
		m = afterGates
	}
	return max(m, f.mode)
}

// held is why text waits for the gates although the policy says otherwise.
func held(m mode, strategy string, p *policy.Policy) string {
	if m == afterGates {
		return ""
	}
	if strategy == policy.Race || strategy == policy.Tournament {
		return "with the strategy :" + strategy + " it is not known before who answers"
	}
	if m == revocable {
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
func Held(p *policy.Policy) string { return held(modeOf(p.Stream), p.Strategy, p) }

// voice is an attempt as far as its text is concerned. A nil voice says
// nothing. Fields that change are guarded by the outlet.
type voice struct {
	outlet  *outlet
	up      *voice
	mode    mode
	key     string
	attempt int // of the outermost level

	clean *text.Stream // of a model; nil: text is shown as it comes
	heard int          // bytes
	said  strings.Builder
	over  bool
	fault *contract.Error
}

// speak is the voice of an attempt of the node.
func (f *Flow) speak(m mode, attempt int) *voice {
	if f == nil {
		return nil
	}
	if f.up != nil {
		attempt = f.up.attempt
	}
	return &voice{outlet: f.outlet, up: f.up, mode: m, key: f.key, attempt: attempt}
}

// cleaned has the text of the attempt cleaned before it is shown (TXT-002). What
// is known to be a program is not.
func (v *voice) cleaned(how text.Cleaning) {
	switch {
	case v == nil, v.key == "code", v.key == "patch":
	default:
		if v.key != "" && v.key != "text" {
			how.MaxChars = 0
		}
		v.clean = text.NewStream(how)
	}
}

// within tells whether v works for w, or is w.
func (v *voice) within(w *voice) bool {
	for ; v != nil; v = v.up {
		if v == w {
			return true
		}
	}
	return false
}

// flow is that of the plan which the attempt answered with.
func (v *voice) flow(key string) *Flow {
	if v == nil {
		return nil
	}
	return &Flow{outlet: v.outlet, up: v, mode: v.mode, key: key}
}

// live tells whether text is shown while the attempt works.
func (v *voice) live() bool { return v != nil && v.mode != afterGates }

// maxSaid bounds the text of one attempt in bytes. An answer cannot hold more
// in one string.
const maxSaid = 8 << 20

// hear takes a piece of the answer. It returns when the reader of the stream is
// near enough. Too much text ends the attempt through stop.
func (v *voice) hear(ctx context.Context, piece edn.Value, stop func()) {
	if kind, _ := piece.Key("kind").AsKeyword(); kind != "text" {
		return
	}
	said, _ := piece.Key("text").AsString()
	o := v.outlet
	o.mu.Lock()
	if said == "" || v.over || v.fault != nil {
		o.mu.Unlock()
		return
	}
	if v.heard += len(said); v.heard > maxSaid {
		v.fault = contract.Errorf("stream/malformed", "the text of one answer is longer than %d bytes", maxSaid).
			WithSource(contract.SourcePlugin).WithDetail("effect/state", edn.K("unknown"))
		o.mu.Unlock()
		stop()
		return
	}
	if v.clean != nil {
		void := false
		if said, void = v.clean.Write(said); void && !v.takeBack() {
			o.mu.Unlock()
			stop()
			return
		}
	}
	v.said.WriteString(said)
	switch {
	case said == "":
	case o.holder == nil: // it may have spoken before, while somebody else was heard
		o.holder = v
		o.put(v.said.String(), v.mode)
	case o.holder == v:
		o.put(said, v.mode)
	}
	o.mu.Unlock()
	o.pace.wait(ctx)
}

// takeBack drops what was said: it was reasoning that nobody had announced. It
// fails if that was shown for good. It needs the lock of the outlet.
func (v *voice) takeBack() bool {
	o := v.outlet
	if o.holder == v {
		if o.bound {
			v.fault = contract.Errorf("stream/malformed", "a part of what was shown turned out to be reasoning").
				WithSource(contract.SourcePlugin).WithDetail("effect/state", edn.K("unknown"))
			return false
		}
		o.retract("stream/malformed")
	}
	v.said.Reset()
	return true
}

// broken is why the text itself ended the attempt.
func (v *voice) broken() *contract.Error {
	if v == nil {
		return nil
	}
	v.outlet.mu.Lock()
	defer v.outlet.mu.Unlock()
	return v.fault
}

// pause records what was shown so far.
func (v *voice) pause() {
	if v != nil {
		v.outlet.mu.Lock()
		defer v.outlet.mu.Unlock()
		v.outlet.flush()
	}
}

// text is that of an answer, as the flow shows it.
func (v *voice) text(out edn.Value) string {
	if v.key != "" {
		found, _ := out.Key(v.key).AsString()
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
func (v *voice) bound() bool {
	if v == nil {
		return false
	}
	v.outlet.mu.Lock()
	defer v.outlet.mu.Unlock()
	return v.outlet.bound && v.outlet.holder.within(v)
}

// bound tells whether text of the run's answer was shown for good.
func (f *Flow) bound() bool {
	if f == nil {
		return false
	}
	f.outlet.mu.Lock()
	defer f.outlet.mu.Unlock()
	return f.outlet.bound
}

// contradicts tells whether an answer is not what was shown of it for good.
func (v *voice) contradicts(out edn.Value) bool {
	if !v.bound() {
		return false
	}
	v.outlet.mu.Lock()
	defer v.outlet.mu.Unlock()
	return !strings.HasPrefix(v.text(out), v.outlet.shown.String())
}

func contradiction(who string) *contract.Error {
	return contract.Errorf("stream/malformed", "%s answered with another text than it had streamed", who).WithSource(contract.SourcePlugin)
}

// fail ends the attempt. Judged tells that gates refused its answer, over that
// the run or the node is at its end. It returns the error that the node sees.
func (v *voice) fail(err *contract.Error, judged, over bool) *contract.Error {
	if v == nil {
		return err
	}
	o := v.outlet
	o.mu.Lock()
	defer o.mu.Unlock()
	v.over = true
	if !o.holder.within(v) {
		return err
	}
	switch {
	case !o.bound:
		o.retract(err.Type)
	case judged:
		o.mark(err.Type)
	case !over && !o.marked && err.Type != "stream/truncated":
		return contract.Errorf("stream/truncated", "the answer broke off after a part of it was shown: %s", err.Message).WithCause(err).WithSource(err.Source)
	}
	return err
}

// accept makes the answer of the attempt that of its node.
func (v *voice) accept(out edn.Value) {
	if v == nil {
		return
	}
	o := v.outlet
	o.mu.Lock()
	defer o.mu.Unlock()
	v.over = true
	switch {
	case v.up == nil:
		o.settle(v, v.text(out))
	case v.mode == afterGates && v.up.mode != afterGates && o.holder == nil:
		o.holder = v
		o.put(v.text(out), v.up.mode)
	}
}

// close ends the flow of a node: nothing of it is shown any more unless its
// answer was accepted.
func (f *Flow) close(err *contract.Error) {
	if f == nil {
		return
	}
	f.outlet.mu.Lock()
	h := f.outlet.holder
	own := h != nil && (f.up == nil || h.within(f.up))
	if err != nil && own && !f.outlet.bound {
		f.outlet.retract(err.Type)
	}
	f.outlet.mu.Unlock()
	f.outlet.rest()
}

// Inline is the flow of an inline plan that stands as the answer node.
type Inline struct{ voice *voice }

// Inline makes the flow of an inline plan; nil for nil.
func (f *Flow) Inline() *Inline {
	if f == nil {
		return nil
	}
	return &Inline{f.speak(f.mode, 0)}
}

// Flow is that of the node whose answer the plan gives; nil for nil.
func (i *Inline) Flow(key string) *Flow {
	if i == nil {
		return nil
	}
	return i.voice.flow(key)
}

// End says how the plan ended, and returns the error that its node sees.
func (i *Inline) End(out edn.Value, err *contract.Error, over bool) *contract.Error {
	if i == nil {
		return err
	}
	if err == nil && i.voice.contradicts(out) {
		err = contradiction("the plan")
	}
	if err != nil {
		err = i.voice.fail(err, false, over)
	} else {
		i.voice.accept(out)
	}
	i.voice.outlet.rest()
	return err
}
