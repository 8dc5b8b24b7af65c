package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// reconnectAfter makes standard clients wait 1 s before they reconnect; reconnectLater, in the
// event shutdown, 3 s.
const (
	reconnectAfter = "retry: 1000\n\n"
	reconnectLater = "retry: 3000\n"
)

// defaultHeartbeat applies until the configuration is loaded.
const defaultHeartbeat = 15 * time.Second

// checkEvery is the interval at which an open stream checks the credential of its caller. Together
// with the maximum age of accounts that other hosts change, a change takes effect within 1 s
// (AUTH-003).
const checkEvery = 500 * time.Millisecond

// eventStream writes the events of one run as server-sent events (RUN-040 to
// RUN-044). Nothing is sent before the run is accepted, so a rejection is an
// ordinary response. Events and heartbeats come from different goroutines.
type eventStream struct {
	stop func() // stops reading events
	x    *exchange
	form mediaType // format of the data of events
	beat time.Duration

	leaves []func() // release its places
	frames *frames  // shared with the other readers of the run

	mu       sync.Mutex
	begun    bool
	run      string
	refused  *contract.Error // set if the run has too many readers
	ended    *journal.Event  // the event suspended, held back until the response is known
	finished bool
	err      error // error of the connection
	last     time.Time
	quit     chan struct{}
	quiet    sync.WaitGroup
}

// stream responds to an act with its events. The last event holds the
// response.
func (x *exchange) stream(turn Turn, a act.Act) reply {
	s, err := x.newStream()
	if err != nil {
		return refused(a.Request, err)
	}
	defer s.leave()
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	s.stop = cancel
	response, failure := turn.Watch(ctx, a, s.showAct)
	switch {
	case s.refused != nil:
		return refused(a.Request, s.refused)
	case !s.begun:
		return answered(response, failure)
	}
	s.stopUpkeep()
	switch {
	case s.finished:
	case s.ended != nil:
		s.ended.Response = response
		s.write(s.encode(*s.ended))
	case failure != nil && failure.Type == "runtime/draining":
		s.shutdown(s.run)
	default:
		s.write(s.frame("", "finished", edn.MustMap(edn.K("event"), edn.K("finished"), edn.K("response"), response)))
	}
	return reply{sent: true}
}

// newStream creates a stream for the caller and takes a place among its streams; leave releases it.
func (x *exchange) newStream() (*eventStream, *contract.Error) {
	form := typeJSON
	switch format := x.r.URL.Query().Get("format"); format {
	case "", "json":
	case "edn":
		form = typeEDN
	default:
		return nil, wrongPart("query", "json or edn", format, "the format %.40q of events is unknown", format).
			WithHint("ask for ?format=edn or ?format=json")
	}
	s := &eventStream{x: x, form: form, beat: x.settings.Heartbeat, quit: make(chan struct{})}
	return s, s.enter(ofCaller, x.who.Name, x.settings.Limits.PrincipalSubscribers)
}

// enter takes a place among the streams of a caller or of a run. The error is
// stream/too-many-subscribers.
func (s *eventStream) enter(of streamsOf, name string, most int) *contract.Error {
	p, leave, err := s.x.api.streams.enter(of, name, most)
	if err != nil {
		return err
	}
	s.leaves = append(s.leaves, leave)
	if of == ofRun {
		s.frames = &p.frames
	}
	return nil
}

// leave releases the places of the stream.
func (s *eventStream) leave() {
	for _, leave := range s.leaves {
		leave()
	}
}

// ofRun takes a place among the streams of a run.
func (s *eventStream) ofRun(run string) *contract.Error {
	return s.enter(ofRun, run, s.x.settings.Limits.RunSubscribers)
}

// follow writes the events that watch reads until they end, the reader is gone, or the server shuts
// down; in the last case it ends with the event shutdown. run may be empty.
func (s *eventStream) follow(run string, watch func(context.Context) error) {
	ctx, cancel := context.WithCancel(s.x.r.Context())
	defer cancel()
	s.mu.Lock()
	s.stop = cancel
	s.begin(run)
	s.mu.Unlock()
	defer context.AfterFunc(s.x.api.life, cancel)()
	err := watch(ctx)
	s.stopUpkeep()
	switch {
	case err == nil || s.err != nil || s.x.r.Context().Err() != nil:
	case s.x.api.life.Err() != nil:
		s.shutdown(run)
	default: // the reader notices the missing last event
		s.x.api.log.Error("events cannot be read", "path", s.x.r.URL.Path, "error", err)
	}
}

// shutdown writes the event shutdown, the last one of a stream that can be continued later.
func (s *eventStream) shutdown(run string) {
	v := edn.MustMap(edn.K("event"), edn.K("shutdown"))
	if run != "" {
		v = v.AssocKey("run", edn.Text(run))
	}
	s.write(append([]byte(reconnectLater), s.frame("", "shutdown", v)...))
}

// showAct writes events of the run of an act. An event suspended is held back, because it is the
// last one and gets the response.
func (s *eventStream) showAct(events []journal.Event) error {
	if last := events[len(events)-1]; last.Name == "suspended" {
		s.ended, events = &last, events[:len(events)-1]
	}
	if len(events) == 0 {
		return nil
	}
	return s.show(events)
}

// show writes events of a run in one write.
func (s *eventStream) show(events []journal.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		if s.refused = s.ofRun(events[0].Run); s.refused != nil {
			return s.refused
		}
		s.begin(events[0].Run)
	}
	var page []byte
	for _, e := range events {
		s.finished = s.finished || e.Name == "finished"
		page = append(page, s.frames.of(e, s.form, s.encode)...)
	}
	s.write(page)
	return s.err
}

// encode returns the text of an event, with the response if it has one or is the last of its run.
func (s *eventStream) encode(e journal.Event) []byte {
	v := e.Value()
	if e.Name == "finished" || !e.Response.IsNil() {
		v = v.AssocKey("response", e.Response)
	}
	id := ""
	if e.Seq > 0 { // otherwise it cannot be read again
		id = e.Run + "." + strconv.Itoa(e.Seq)
	}
	return s.frame(id, e.Name, v)
}

// beginStream writes the status and the headers of a stream.
func (x *exchange) beginStream(run string) {
	h := x.w.Header()
	h.Set("Content-Type", string(typeSSE))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if run != "" {
		h.Set("Ferment-Run-Id", run)
	}
	x.w.WriteHeader(http.StatusOK)
}

// begin writes the headers and starts the upkeep. The caller holds mu.
func (s *eventStream) begin(run string) {
	s.begun, s.run = true, run
	s.x.beginStream(run)
	s.write([]byte(reconnectAfter))
	s.quiet.Go(s.upkeep)
}

// frame returns the text of one event.
func (s *eventStream) frame(id, name string, v edn.Value) []byte {
	data, _ := encode(v, s.form)
	if data == nil { // two keys have the same name in JSON
		collision := contract.Errorf("value/json-collision", "the event cannot be written as JSON: two keys of a map have the same name there").
			WithHint("ask for ?format=edn")
		data, _ = encode(formEnvelope.failure(collision).body, typeJSON)
	}
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(data) // one line, including its line end
	b.WriteByte('\n')
	return b.Bytes()
}

// write writes and flushes. The caller holds mu. A client that does not read in time is
// disconnected (AUTH-033).
func (s *eventStream) write(frame []byte) {
	if !s.check() {
		return
	}
	control := http.NewResponseController(s.x.w)
	if limit := s.x.settings.Limits.StreamWrite; limit > 0 {
		_ = control.SetWriteDeadline(time.Now().Add(limit))
	}
	_, err := s.x.w.Write(frame)
	if err == nil {
		err = control.Flush()
	}
	if err != nil {
		s.fail(err)
	}
	s.last = time.Now()
}

// errRevoked is the error of a stream whose caller's credential is no longer valid.
var errRevoked = errors.New("the credential of the caller is not valid any more")

// check reports whether the stream can be written to. It fails the stream if the credential of the
// caller is no longer valid. The caller holds mu.
func (s *eventStream) check() bool {
	if s.err == nil && !s.x.holds(s.x.r.Context()) {
		s.fail(errRevoked)
	}
	return s.err == nil
}

// fail stops the stream: nothing more is written, and no more events are read. The caller holds mu.
func (s *eventStream) fail(err error) {
	s.err = err
	s.stop()
}

// upkeep checks the credential of the caller until the stream ends, and writes a comment whenever
// the stream was idle for one period.
func (s *eventStream) upkeep() {
	for {
		s.mu.Lock()
		wait := checkEvery
		if s.beat > 0 {
			if time.Since(s.last) >= s.beat {
				s.write([]byte(": alive\n\n"))
			}
			wait = min(wait, s.beat-time.Since(s.last))
		}
		ok := s.check()
		s.mu.Unlock()
		if !ok {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.quit:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// stopUpkeep stops the checks and heartbeats. Writes after it do not need mu.
func (s *eventStream) stopUpkeep() {
	close(s.quit)
	s.quiet.Wait()
}
