package journal

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Event is the short form of one record for a watcher of the run.
type Event struct {
	// Name is accepted, started, reopened, resolved, skipped, attempt, chunk, provisional,
	// retract, gate, quality, commit, failed, interrupt, cancel, suspended or finished;
	// progress or delta for an event that is not recorded.
	Name    string
	Run     string
	Seq     int // 0: it is not recorded
	At      time.Time
	Path    edn.Value // nil for events of the run itself
	Node    string
	Attempt int
	CapID   string
	Details edn.Value // map; keys depend on the event
	// Response is the response envelope of the run, in the event finished; else nil. It is
	// not part of Value.
	Response edn.Value
}

// Shown reports whether the event is a piece of text.
func (e Event) Shown() bool { return e.Name == VisibleChunk || e.Name == VisibleProvisional }

// Erased reports whether the event lacks a value that a purge of its run has deleted since the record was read.
func (e Event) Erased() bool {
	return e.Shown() && !e.Details.HasKey("text") || e.Name == "finished" && e.Response.IsNil()
}

// Value returns the event as one flat EDN map.
func (e Event) Value() edn.Value {
	var b edn.MapBuilder
	p := put{&b}
	for k, v := range e.Details.Entries() {
		b.Set(k, v)
	}
	p.kw("event", e.Name)
	p.str("run", e.Run)
	p.positive("seq", e.Seq)
	b.Key("at", edn.Inst(e.At))
	p.val("path", e.Path)
	p.str("node", e.Node)
	p.positive("attempt", e.Attempt)
	p.kw("cap/id", e.CapID)
	return b.Map()
}

// ReadEvent is the inverse of Value, for events of another process; it also reads
// :response. Missing and ill-typed keys give zero fields.
func ReadEvent(v edn.Value) Event {
	var e Event
	e.Name, _ = v.Key("event").AsKeyword()
	e.Run, _ = v.Key("run").AsString()
	seq, _ := v.Key("seq").AsInt()
	attempt, _ := v.Key("attempt").AsInt()
	e.Seq, e.Attempt = int(seq), int(attempt)
	e.At, _ = v.Key("at").AsInst()
	e.Path = v.Key("path")
	e.Node, _ = v.Key("node").AsString()
	e.CapID, _ = v.Key("cap/id").AsKeyword()
	e.Response = v.Key("response")
	e.Details = v.Dissoc(eventKeys...)
	return e
}

var eventKeys = []edn.Value{
	edn.K("event"), edn.K("run"), edn.K("seq"), edn.K("at"), edn.K("path"), edn.K("node"), edn.K("attempt"), edn.K("cap/id"), edn.K("response"),
}

// Progress converts a record to an event; ok is false for records without an
// event.
func Progress(rec Record) (e Event, ok bool) {
	e = Event{Run: rec.Run, Seq: rec.Seq, At: rec.At, Node: rec.Node}
	if rec.Body.describe().hasPath() {
		e.Path = rec.Path
	}
	var m edn.MapBuilder
	p := put{&m}
	switch b := rec.Body.(type) {
	case *RunAccepted:
		e.Name = "accepted"
		p.kw("intent", b.Intent)
		p.kw("operation", b.Operation)
		p.kw("queue/class", b.Class)
		m.Key("deadline-at", edn.Inst(b.DeadlineAt))
	case *RunStarted:
		e.Name = "started"
		p.str("host", b.Host)
	case *RunResumed:
		if !b.Reopens() {
			return Event{}, false
		}
		e.Name = "reopened"
		p.kw("why", b.Why)
		p.str("by", b.By)
		m.Key("deadline-at", edn.Inst(b.DeadlineAt))
		if b.Err != nil {
			m.Key("retry-at", edn.Inst(b.RetryAt))
			p.kw("failure/type", b.Err.Type)
			p.str("message", b.Err.Message)
		}
	case *PlanResolved:
		e.Name, e.Attempt, e.CapID = "resolved", b.Attempt, b.CapID
		p.kw("source", b.Source)
		m.Key("nodes", edn.Int(int64(nodesOf(b.Plan.Value()).Len())))
		m.Opt("route", b.Route)
	case *NodeResolved:
		e.Name = "resolved"
		p.kw("op", b.Op)
		p.kw("intent", b.Intent)
		p.kw("tool/id", b.ToolID)
		ids := make([]edn.Value, len(b.Candidates))
		for i, c := range b.Candidates {
			ids[i] = Keyword(c.CapID)
		}
		m.Key("candidates", edn.Vector(ids...))
		m.Key("rejected", RejectionsValue(b.Rejected))
		p.kw("stream", b.Stream)
	case *NodeSkipped:
		e.Name = "skipped"
		p.kw("op", b.Op)
	case *AttemptStarted:
		e.Name, e.Attempt, e.CapID = "attempt", b.Attempt, b.CapID
		p.kw("state", "started")
		p.positive("generation", b.Generation)
		p.kw("enforcement", b.Enforcement)
	case *AttemptFinished:
		e.Name, e.Attempt = "attempt", b.Attempt
		p.kw("state", "finished")
		p.kw("outcome", b.Outcome)
		m.Key("latency-ms", edn.Int(millis(b.Latency)))
		if b.Usage.Len() > 0 {
			m.Key("usage", b.Usage)
		}
		if b.Err != nil {
			p.kw("failure/type", b.Err.Type)
			p.str("message", b.Err.Message)
		}
	case *AttemptChunk:
		e.Name, e.Attempt = b.Visible, b.Attempt
		m.Key("chunk", edn.Int(int64(b.Chunk)))
		if shown := b.Text(); shown != "" {
			m.Key("text", edn.Text(shown))
		}
	case *AttemptRetracted:
		e.Name, e.Attempt = "retract", b.Attempt
		p.kw("reason", b.Reason)
	case *GateVerdict:
		e.Name, e.Attempt, e.CapID = "gate", b.Attempt, b.CapID
		p.kw("gate", b.Gate)
		p.kw("severity", b.Severity)
		m.Key("pass", edn.Bool(b.Pass))
		if b.Tier == tierJudge {
			judged(p, b)
		}
	case *HostEvent:
		e.Name, e.CapID = "quality", b.CapID
		p.kw("what", b.Event)
		p.kw("intent", b.Intent)
		for k, v := range b.Details.Entries() {
			m.Set(k, v)
		}
	case *NodeCommitted:
		e.Name, e.Attempt, e.CapID = "commit", b.Attempt, b.CapID
		p.kw("as", b.As)
		p.val("score", b.Score.Value())
		p.kw("failure/type", b.FailureType)
	case *NodeFailed:
		e.Name = "failed"
		p.kw("failure/type", b.Err.Type)
		p.str("message", b.Err.Message)
	case *InterruptOpened:
		e.Name, e.Attempt = "interrupt", b.Attempt
		p.kw("state", "opened")
		p.str("interrupt", b.Interrupt)
		p.val("question", b.Question.Value())
		p.kw("schema", b.Schema)
		if b.hasDeadline() {
			m.Key("deadline-at", edn.Inst(b.DeadlineAt))
			p.kw("on-deadline", b.OnDeadline)
		}
	case *InterruptAnswered:
		e.Name = "interrupt"
		p.kw("state", "answered")
		p.str("interrupt", b.Interrupt)
		p.str("by", b.By)
	case *CancelRequested:
		e.Name = "cancel"
		p.str("by", b.By)
		p.str("why", b.Why)
	case *RunSuspended:
		e.Name = "suspended"
		p.kw("why", b.Why)
		m.Key("open", edn.Int(int64(len(b.Open))))
	case *RunFinished:
		e.Name, e.Response = "finished", b.Response.Value()
		p.kw("status", b.Status)
		m.Key("latency-ms", edn.Int(millis(b.Latency)))
		if b.Err != nil {
			p.kw("failure/type", b.Err.Type)
			p.str("message", b.Err.Message)
		}
	default:
		return Event{}, false
	}
	e.Details = m.Map()
	return e, true
}

// judged adds the score, the votes and the first finding of a judge.
func judged(p put, b *GateVerdict) {
	p.val("score", b.Score.Value())
	if len(b.Votes) > 0 {
		p.b.Key("votes", edn.Vector(b.Votes...))
	}
	if b.Memo {
		p.b.Key("memo?", edn.Bool(true))
	}
	if first, ok := b.Findings.Value().Nth(0); ok {
		p.val("message", first.Key("message"))
	}
}

// lastEvent returns the event of the last record of a run; ok is false if end is nil.
func lastEvent(end *Record) (Event, bool) {
	if end == nil {
		return Event{}, false
	}
	return Progress(*end)
}

// asked maps attempts to capabilities: events contain the capability, while
// many records do not.
type asked map[string]string

func attemptKey(path edn.Value, attempt int) string {
	return string(edn.Int(int64(attempt)).AppendCanonical(path.AppendCanonical(nil)))
}

func (a asked) note(rec Record) {
	if b, ok := rec.Body.(*AttemptStarted); ok {
		a[attemptKey(rec.Path, b.Attempt)] = b.CapID
	}
}

func (a asked) named(e Event) Event {
	if e.CapID == "" && e.Attempt > 0 {
		e.CapID = a[attemptKey(e.Path, e.Attempt)]
	}
	return e
}

// Reader reads the records of a run in order, a page at a time. Page blocks until there
// is at least one record; an empty page means that the run has ended. The caller must
// not change the page.
type Reader interface {
	Page(ctx context.Context) ([]Record, error)
}

// Watch calls show with the events of a run until the run has ended, ctx is done, or
// show returns false. The error is that of c; nil if show returned false. The event
// finished is held back until the reader has no more records, so that it is not shown
// for a run that was reopened, if the reader returns the later records.
func Watch(ctx context.Context, c Reader, show func(Event) bool) error {
	return WatchPages(ctx, c, func(events []Event) bool {
		for _, e := range events {
			if !show(e) {
				return false
			}
		}
		return true
	})
}

// WatchPages is like Watch, but passes all events of a page to one call of show.
func WatchPages(ctx context.Context, c Reader, show func([]Event) bool) error {
	who := asked{}
	var end *Record
	for {
		page, err := c.Page(ctx)
		if err != nil || len(page) == 0 {
			if e, ends := lastEvent(end); ends {
				show([]Event{e})
			}
			return err
		}
		events := make([]Event, 0, len(page))
		for i, rec := range page {
			if _, ends := rec.Body.(*RunFinished); ends { // the reader has nothing to wait for after it
				end = &page[i]
				continue
			}
			end = nil
			who.note(rec)
			if e, ok := Progress(rec); ok {
				events = append(events, who.named(e))
			}
		}
		if len(events) > 0 && !show(events) {
			return nil
		}
	}
}
