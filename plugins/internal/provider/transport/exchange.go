package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// Ahead is the number of pieces that are read ahead of the caller, Piece their
// maximum size: together 256 KiB.
const (
	Ahead = 64
	Piece = 4 << 10
)

// MaxResponse is the maximum size of a body.
const MaxResponse = 8 << 20

// Kind is the kind of a Fault.
type Kind int

// The kinds of faults of an exchange.
const (
	NoConnection Kind = iota + 1 // refused, DNS, TLS, reset before headers
	Broken                       // the body broke off
	Silent                       // nothing arrived for too long
	Late                         // the first payload did not come
	Stalled                      // no further payload
	TooLong                      // the total time expired
	TooLarge                     // the body is over MaxResponse
	Lingered                     // nothing more came after the answer within the grace period
	Deadline                     // the caller's deadline passed
	Canceled                     // canceled by the caller
)

// Fault is the error of an exchange.
type Fault struct {
	Kind Kind
	// Text describes the cause, without address or header.
	Text string
}

func (f *Fault) Error() string { return f.Text }

// Head is the head of a response.
type Head struct {
	Status int
	Header http.Header
	Media  string // media type without parameters, in lower case
}

// Exchange is one request and its response. It belongs to one goroutine.
type Exchange struct {
	client  *Client
	cancel  context.CancelFunc
	headers chan headOrError
	pieces  chan piece
	free    chan []byte
	joined  chan struct{}

	connected chan struct{}
	sent      atomic.Bool

	// What follows belongs to the goroutine of the caller.
	now      func() time.Time
	begun    time.Time
	last     time.Time // of the last byte of the body
	paid     time.Time // of the last payload; zero: none yet
	held     time.Duration
	grace    time.Time // zero: none
	opened   bool
	hasHead  bool
	received int
}

type headOrError struct {
	head Head
	err  error
}

type piece struct {
	bytes []byte
	err   error // io.EOF at the end
}

// Post starts a POST request to a path below the base URL. The caller must
// close the Exchange.
func (c *Client) Post(path string, body []byte) *Exchange {
	return c.ask(http.MethodPost, strings.TrimSuffix(c.set.Base.String(), "/")+path, body)
}

// PostBeside is Post to a path beside the interface's version path instead of
// below it, for servers with more than one interface.
func (c *Client) PostBeside(path string, body []byte) *Exchange {
	return c.ask(http.MethodPost, c.beside(path), body)
}

// GetBeside starts a GET request to a path beside the interface's version path.
// The caller must close the Exchange.
func (c *Client) GetBeside(path string) *Exchange {
	return c.ask(http.MethodGet, c.beside(path), nil)
}

func (c *Client) beside(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(c.set.Base.String(), "/"), "/v1") + path
}

func (c *Client) ask(method, target string, body []byte) *Exchange {
	ctx, cancel := context.WithCancel(context.Background())
	x := &Exchange{
		client: c, cancel: cancel, headers: make(chan headOrError, 1),
		pieces: make(chan piece, Ahead), free: make(chan []byte, Ahead+2),
		joined: make(chan struct{}), connected: make(chan struct{}), now: c.set.Clock.Now,
	}
	x.begun = x.now()
	go x.run(ctx, method, target, body)
	return x
}

// run makes the request and reads the body. It ends with the body or when the
// exchange is closed.
func (x *Exchange) run(ctx context.Context, method, target string, body []byte) {
	defer close(x.joined)
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:          func(httptrace.GotConnInfo) { x.gotConn() },
		WroteHeaderField: func(string, []string) { x.sent.Store(true) },
		WroteHeaders:     func() { x.sent.Store(true) },
	})
	request, err := http.NewRequestWithContext(traced, method, target, bytes.NewReader(body))
	if err != nil {
		x.headers <- headOrError{err: errors.New("the URL of the request is not valid")}
		return
	}
	// Without GetBody, net/http cannot send a request again.
	request.GetBody = nil
	request.Header = x.client.set.Header.Clone()
	response, err := x.client.transport.RoundTrip(request)
	if err != nil {
		x.headers <- headOrError{err: err}
		return
	}
	defer func() { _ = response.Body.Close() }()
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	head := Head{Status: response.StatusCode, Header: response.Header, Media: strings.ToLower(media)}
	x.headers <- headOrError{head: head}
	for {
		buffer := x.buffer()
		n, err := response.Body.Read(buffer)
		if n > 0 && !x.pass(ctx, piece{bytes: buffer[:n]}) {
			return
		}
		if err != nil {
			x.pass(ctx, piece{err: err})
			return
		}
	}
}

// gotConn may be called more than once if a connection proves dead before
// anything was written.
func (x *Exchange) gotConn() {
	select {
	case <-x.connected:
	default:
		close(x.connected)
	}
}

func (x *Exchange) pass(ctx context.Context, p piece) bool {
	select {
	case x.pieces <- p:
		return true
	case <-ctx.Done():
		return false
	}
}

func (x *Exchange) buffer() []byte {
	select {
	case b := <-x.free:
		return b[:Piece]
	default:
		return make([]byte, Piece)
	}
}

// Recycle returns a piece from Next, whose content is no longer needed, for
// reuse.
func (x *Exchange) Recycle(b []byte) {
	if cap(b) < Piece {
		return
	}
	select {
	case x.free <- b:
	default:
	}
}

// Close closes the connection unless the body was read to its end, and waits
// for the goroutine of the exchange.
func (x *Exchange) Close() {
	x.cancel()
	<-x.joined
}

// Sent reports whether a byte of the request may have left.
func (x *Exchange) Sent() bool { return x.sent.Load() }

// Payload records that payload has arrived and returns the time since the
// start.
func (x *Exchange) Payload() time.Duration {
	x.paid = x.now()
	return x.paid.Sub(x.begun)
}

// Grace limits the wait for data after a whole answer. Next returns a Fault of
// kind Lingered when it expires. Of several calls the earliest limit applies.
func (x *Exchange) Grace(d time.Duration) {
	if until := x.now().Add(d); x.grace.IsZero() || until.Before(x.grace) {
		x.grace = until
	}
}

// Elapsed returns the time since the start.
func (x *Exchange) Elapsed() time.Duration { return x.now().Sub(x.begun) }

// Blocked runs f, which may block on the reader of the answer, and stops all
// timers meanwhile.
func (x *Exchange) Blocked(f func() error) error {
	before := x.now()
	err := f()
	d := x.now().Sub(before)
	x.last, x.held = x.last.Add(d), x.held+d
	if !x.paid.IsZero() {
		x.paid = x.paid.Add(d)
	}
	return err
}

// Head waits for the head of the response, under the timers Connect and First.
func (x *Exchange) Head(ctx context.Context) (Head, *Fault) {
	connected := x.connected
	for {
		timer, kind := x.timer()
		select {
		case h := <-x.headers:
			timer.Stop()
			if h.err != nil {
				return Head{}, &Fault{NoConnection, explain(h.err)}
			}
			x.hasHead, x.last = true, x.now()
			return h.head, nil
		case <-connected:
			connected, x.opened = nil, true
		case <-timer.C():
			return Head{}, overdue(kind)
		case <-ctx.Done():
			timer.Stop()
			return Head{}, ended(ctx)
		}
		timer.Stop()
	}
}

// Next waits for the next piece of the body. At the end of the body the error
// is io.EOF; a Fault reports any failure.
func (x *Exchange) Next(ctx context.Context) ([]byte, *Fault, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx), nil
	}
	var p piece
	select {
	case p = <-x.pieces: // no timer for pieces already read
	default:
		timer, kind := x.timer()
		select {
		case p = <-x.pieces:
			timer.Stop()
		case <-timer.C():
			return nil, overdue(kind), nil
		case <-ctx.Done():
			timer.Stop()
			return nil, ended(ctx), nil
		}
	}
	x.last = x.now()
	switch {
	case p.err == io.EOF:
		return nil, nil, io.EOF
	case p.err != nil:
		return nil, &Fault{Broken, "the body broke off: " + explain(p.err)}, nil
	}
	if x.received += len(p.bytes); x.received > MaxResponse {
		return nil, &Fault{TooLarge, "the body is over 8 MiB"}, nil
	}
	return p.bytes, nil, nil
}

// All reads the body until its end or until it has at least most bytes. With a
// Fault it returns the bytes received before it.
func (x *Exchange) All(ctx context.Context, most int) ([]byte, *Fault) {
	var body []byte
	for len(body) < most {
		piece, fault, end := x.Next(ctx)
		if fault != nil || end != nil {
			return body, fault
		}
		body = append(body, piece...)
		x.Recycle(piece)
	}
	return body, nil
}

// Whole returns the body of a response with status 200, and whether the
// exchange succeeded.
func (x *Exchange) Whole(ctx context.Context) ([]byte, bool) {
	head, fault := x.Head(ctx)
	if fault != nil || head.Status != http.StatusOK {
		return nil, false
	}
	body, fault := x.All(ctx, MaxResponse+1)
	return body, fault == nil
}

// timer returns the timer that fires first, and its kind.
func (x *Exchange) timer() (Timer, Kind) {
	t := x.client.set.Timeouts
	at, kind := x.begun.Add(t.Total+x.held), TooLong
	sooner := func(when time.Time, k Kind) {
		if when.Before(at) {
			at, kind = when, k
		}
	}
	switch {
	case !x.opened && !x.hasHead:
		sooner(x.begun.Add(t.Connect), NoConnection)
	case x.paid.IsZero():
		sooner(x.begun.Add(t.First+x.held), Late)
	default:
		sooner(x.paid.Add(t.Stall), Stalled)
	}
	if x.hasHead {
		sooner(x.last.Add(t.Silence), Silent)
	}
	if !x.grace.IsZero() {
		sooner(x.grace, Lingered)
	}
	return x.client.set.Clock.NewTimer(max(at.Sub(x.now()), 0)), kind
}

func overdue(kind Kind) *Fault {
	return &Fault{kind, map[Kind]string{
		NoConnection: "no connection within timeouts.connect",
		Late:         "the first part of the answer did not come within timeouts.first_token",
		Silent:       "the provider was silent for the time of timeouts.silence",
		Stalled:      "no further part of the answer came within timeouts.stall",
		Lingered:     "nothing follows the answer",
		TooLong:      "the whole answer took longer than timeouts.total",
	}[kind]}
}

func ended(ctx context.Context) *Fault {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Fault{Deadline, "the deadline of the call passed"}
	}
	return &Fault{Canceled, "the caller canceled the call"}
}

// explain describes an error by its kind. The text of the error is not used where it may hold the
// address and, with it, secrets.
func explain(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return "its name has no address"
	case isCertificate(err):
		return "its certificate is not trusted"
	case isPlain(err):
		return "it answers without TLS: base_url may have to begin with http://"
	case saysOf(err, `malformed HTTP response "\x15\x03`):
		return "it wants TLS: base_url may have to begin with https://"
	case saysOf(err, "malformed HTTP"), saysOf(err, "malformed MIME header"):
		return "its answer is not HTTP"
	case saysOf(err, "server response headers exceeded"):
		return "the headers of its answer are too long"
	case errors.As(err, &op) && op.Op == "dial":
		return "no connection: " + op.Err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it closed the connection"
	case errors.As(err, &op):
		return "the connection failed: " + op.Err.Error()
	}
	return "the connection failed"
}

// saysOf searches for phrases of net/http, whose errors have no types.
func saysOf(err error, words string) bool { return strings.Contains(err.Error(), words) }
