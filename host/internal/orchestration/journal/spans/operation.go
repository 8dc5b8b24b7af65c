package spans

import (
	"cmp"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// operation is one execution of a :call or :tool node.
type operation struct {
	*Span
	path     string
	attempts []*attempt
	closed   bool
}

// attempt is one dispatch of an operation.
type attempt struct {
	*Span
	began    *journal.AttemptStarted
	ended    bool
	given    bool
	finished *journal.AttemptFinished
}

// inner returns the id of the only attempt in progress, else of the operation: if
// several attempts run concurrently, the records do not tell which one made a request to
// the host.
func (o *operation) inner() [8]byte {
	var only *attempt
	for _, a := range o.attempts {
		if a.ended {
			continue
		}
		if only != nil {
			return o.Span.Span
		}
		only = a
	}
	if only == nil {
		return o.Span.Span
	}
	return only.Span.Span
}

func (r *Run) addToNode(rec journal.Record) {
	if b, ok := rec.Body.(*journal.NodeResolved); ok {
		r.resolve(rec, b)
		return
	}
	o := r.operations[rec.Path.String()]
	switch b := rec.Body.(type) {
	case *journal.GateVerdict:
		r.judge(rec, b, o)
	case *journal.AttemptStarted:
		r.start(rec, b, o)
	case *journal.AttemptFinished:
		r.finish(rec, b, o)
	case *journal.NodeCommitted:
		if b.FailureType != "" {
			r.end(o, rec.At, outcomeKept, b.FailureType)
		} else {
			r.end(o, rec.At, outcomeCommitted, "")
		}
	case *journal.NodeFailed:
		r.end(o, rec.At, outcomeFailed, b.Err.Type)
	}
}

// resolve opens an operation, unless the node is resolved again during one.
func (r *Run) resolve(rec journal.Record, b *journal.NodeResolved) {
	key := rec.Path.String()
	if o := r.operations[key]; o != nil && !o.closed {
		return
	}
	asked := cmp.Or(b.Intent, b.ToolID)
	id := spanOf("operation", rec.Run, r.epoch, key, rec.Seq)
	s := r.open(operationSpan+" "+asked, id, r.around(rec.Path), rec.At)
	s.text(attrNode, rec.Node)
	s.add(attrPath, key)
	s.text(attrPolicy, b.Policy)
	s.text(attrStrategy, b.Strategy)
	o := &operation{Span: s, path: key}
	if r.operations == nil {
		r.operations = map[string]*operation{}
	}
	r.operations[key] = o
	r.order = append(r.order, o)
}

// end closes an operation and emits its span. Finished attempts of a race are emitted
// only now, so that they have links to all others.
func (r *Run) end(o *operation, at time.Time, outcome, errorType string) {
	if o == nil || o.closed {
		return
	}
	o.closed = true
	for _, a := range o.attempts {
		if a.ended {
			r.give(o, a)
		}
	}
	o.End = at
	o.add(attrOutcome, outcome)
	switch {
	case outcome == outcomeFailed:
		o.fail(errorType)
	case outcome == statusInterrupted:
		o.fail(statusInterrupted)
	default:
		o.text(AttrError, errorType)
	}
	r.to.Span(o.Span)
}

// start opens an attempt, unless a replay took its result from another run.
func (r *Run) start(rec journal.Record, b *journal.AttemptStarted, o *operation) {
	if o == nil || b.Recorded {
		return
	}
	c := AttemptContext(rec.Run, r.epoch, rec.Path, b.Attempt)
	s := r.open("", c.Span, o.Span.Span, rec.At)
	if b.CapKind == registry.ModelKind {
		s.Kind = Client
		s.add(attrOperationName, operationChat)
	} else {
		s.Name = operationTool + " " + b.CapID
		s.add(attrOperationName, operationTool)
		s.add(attrToolName, b.CapID)
	}
	s.add(attrCapability, b.CapID)
	s.text(attrCapabilityVersion, b.CapVersion)
	s.text(attrCapabilityKind, b.CapKind)
	s.add(attrAttempt, int64(b.Attempt))
	s.text(attrStrategy, b.Entrant)
	if b.Round > 0 {
		s.add(attrRound, int64(b.Round))
	}
	r.content(s, attrRequestHash, attrRequest, b.Request)
	o.attempts = append(o.attempts, &attempt{Span: s, began: b})
}

// attempt returns the newest attempt with a number; nil if there is none or o is nil.
func (o *operation) attempt(number int) *attempt {
	if o == nil {
		return nil
	}
	for i := len(o.attempts) - 1; i >= 0; i-- {
		if o.attempts[i].began.Attempt == number {
			return o.attempts[i]
		}
	}
	return nil
}

// finish ends an attempt. Its operation may have ended before.
func (r *Run) finish(rec journal.Record, b *journal.AttemptFinished, o *operation) {
	a := o.attempt(b.Attempt)
	if a == nil || a.ended {
		return
	}
	a.finished = b
	r.endAttempt(a, rec.At, b.Outcome)
	if o.closed || a.began.Entrant == "" {
		r.give(o, a)
	}
}

// endAttempt completes the span of an attempt.
func (r *Run) endAttempt(a *attempt, at time.Time, outcome string) {
	if a.ended {
		return
	}
	a.ended = true
	a.End = at
	a.add(attrOutcome, outcome)
	model := ""
	if b := a.finished; b != nil {
		model = a.describe(b)
		r.content(a.Span, attrResponseHash, attrResponse, b.Result)
	}
	if a.Kind == Client {
		a.Name = operationChat + " " + cmp.Or(model, a.began.CapID)
	}
	if outcome == statusInterrupted {
		a.fail(statusInterrupted)
	}
}

// describe adds what a plugin reported at the end of an attempt, and returns the name
// of its model.
func (a *attempt) describe(b *journal.AttemptFinished) (model string) {
	provider := b.Meta.Key("provider")
	if a.Kind == Client {
		model = cmp.Or(word(b.Meta.Key("model")), word(provider.Key("model")))
		a.text(attrProvider, word(provider.Key("name")))
		a.text(attrRequestModel, model)
		a.text(attrResponseModel, word(provider.Key("model/served")))
		if finish := word(b.Meta.Key("finish")); finish != "" {
			a.add(attrFinishReasons, []string{finish})
		}
		a.number(attrInputTokens, b.Usage.Key("tokens-in"))
		a.number(attrOutputTokens, b.Usage.Key("tokens-out"))
	}
	if usd, ok := b.Usage.Key("cost-usd").AsNumber(); ok {
		f, _ := usd.Float64()
		a.add(attrCost, f)
	}
	switch {
	case b.Err == nil:
	case b.Outcome == journal.OutcomeCanceled:
		a.text(AttrError, b.Err.Type)
	default:
		a.fail(b.Err.Type)
	}
	return model
}

// give emits the span of an attempt that has ended, once, with links to the other
// attempts of its race.
func (r *Run) give(o *operation, a *attempt) {
	if a.given {
		return
	}
	a.given = true
	if a.began.Entrant != "" {
		for _, other := range o.attempts {
			if other != a && other.began.Entrant == a.began.Entrant {
				a.Links = append(a.Links, other.Context)
			}
		}
	}
	r.to.Span(a.Span)
}

// number adds an integer; it does nothing for other values.
func (s *Span) number(key string, v edn.Value) {
	if n, ok := v.AsInt(); ok {
		s.add(key, n)
	}
}

// word returns the text of a string or of a keyword.
func word(v edn.Value) string {
	if s, ok := v.AsString(); ok {
		return s
	}
	s, _ := v.AsKeyword()
	return s
}

// judge emits the event of a verdict, in the context of the judged attempt. Verdicts
// that a replay took from another run give no event.
func (r *Run) judge(rec journal.Record, b *journal.GateVerdict, o *operation) {
	a := o.attempt(b.Attempt)
	within, earlier := r.earlier[place{rec.Path.String(), b.Attempt}]
	switch {
	case b.NotApplicable:
		return
	case a != nil:
		within = a.Context
	case o == nil:
		within = Context{r.root.Trace, r.around(rec.Path)}
	case !earlier:
		return
	}
	e := &Event{Context: within, Name: EventEvaluation, At: rec.At}
	add := func(key string, value any) { e.Attrs = append(e.Attrs, Attr{key, value}) }
	add(attrEvaluation, b.Gate)
	if score, ok := b.Score.Value().AsNumber(); ok {
		f, _ := score.Float64()
		add(attrScore, f)
	}
	switch {
	case b.Err != nil:
		add(AttrError, b.Err.Type)
	case b.Pass:
		add(attrScoreLabel, labelPass)
	default:
		add(attrScoreLabel, labelFail)
	}
	add(attrSeverity, b.Severity)
	if r.Content == journal.ContentFull && b.Findings.Set() {
		add(attrExplanation, cut(b.Findings))
	}
	r.to.Event(e)
}
