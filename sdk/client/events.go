package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Event is an event of a stream.
type Event struct {
	// ID is the cursor of the event within its run, for [Client.Events]. It is empty
	// if the event cannot be read again.
	ID string
	// Name is accepted, started, resolved, attempt, chunk, provisional, retract, gate,
	// commit, usage, interrupt, suspended, reopened, finished, shutdown or another name.
	Name string
	// Data is a map with the data of the event. That of finished has the response
	// envelope under :response, and so has that of suspended in the stream of an act.
	Data edn.Value
}

// The last events of a run. A suspended run waits for a decision and may continue.
const (
	finished  = "finished"
	suspended = "suspended"
)

// maxStream limits the total size of the events of one stream in bytes.
const maxStream = 1 << 30

// Stream sends a request envelope and calls show with each event of its run, in order.
// It returns an error if no response was received, or the error of show. Canceling ctx,
// or an error of show, closes the stream. The daemon then cancels the run, unless the
// call has a key or a client reads the events again in time, for example with Events.
func (c *Client) Stream(ctx context.Context, envelope edn.Value, call Call, show func(Event) error) (Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q, err := c.actRequest(envelope, call)
	if err != nil {
		return Response{}, err
	}
	q.path += "?format=edn"
	q.accept = typeSSE + ", " + typeEDN + ";q=0.5"
	resp, err := c.open(ctx, q)
	if err != nil {
		return Response{}, err
	}
	body, err := events(ctx, resp, show)
	return responseOf(body, resp), err
}

// Events calls show with the events of a run that follow the event with the id after, or
// with all of them if after is empty. It returns the response envelope of the run, or nil
// if after is the id of the last event. The error is that of the daemon or of show;
// run/suspended for a run that waits for a decision; or it reports that the stream ended
// before the run. A later call with the id of the last event continues there.
func (c *Client) Events(ctx context.Context, run, after string, show func(Event) error) (edn.Value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := request{
		method: http.MethodGet, path: "/v1/runs/" + url.PathEscape(run) + "/events?format=edn",
		accept: typeSSE + ", " + typeEDN + ";q=0.5", header: http.Header{},
	}
	if after != "" {
		q.header.Set("Last-Event-ID", after)
	}
	resp, err := c.open(ctx, q)
	if err != nil {
		return edn.Nil(), err
	}
	response, err := events(ctx, resp, show)
	if err == nil {
		err = refusal(response, resp)
	}
	if err != nil {
		return edn.Nil(), err
	}
	return response, nil
}

// Pauses of Watch between its requests grow from firstPause to longestPause.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
)

// Watch is Events across restarts of the daemon and lost connections: it connects again
// and continues after the last event, so that show receives each event once. It returns
// when the run ends, ctx ends, show returns an error, or the daemon returns an error that
// is not retryable.
func (c *Client) Watch(ctx context.Context, run string, show func(Event) error) (edn.Value, error) {
	after, pause := "", firstPause
	var failed error
	for {
		response, err := c.Events(ctx, run, after, func(e Event) error {
			if e.ID != "" {
				after, pause = e.ID, firstPause
			}
			failed = show(e)
			return failed
		})
		var refused *contract.Error
		if err == nil || failed != nil || ctx.Err() != nil || errors.As(err, &refused) && !refused.Retryable {
			return response, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return edn.Nil(), context.Cause(ctx)
		}
		pause = min(2*pause, longestPause)
	}
}

// Logs calls show with the last lines of a plugin's log, oldest first, then with each new
// line until ctx ends, show returns an error or the daemon stops. A line is a map, or a
// string if it is not JSON.
func (c *Client) Logs(ctx context.Context, plugin string, lines int, show func(line edn.Value) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := "/v1/admin/plugins/" + url.PathEscape(plugin) + "/logs" + encode("follow", "1", "format", "edn", "lines", number(lines))
	resp, err := c.open(ctx, request{method: http.MethodGet, path: path, accept: typeSSE + ", " + typeEDN + ";q=0.5"})
	if err != nil {
		return err
	}
	v, err := events(ctx, resp, func(e Event) error {
		if e.Name != "log" {
			return nil
		}
		return show(e.Data)
	})
	if err == nil {
		err = refusal(v, resp)
	}
	return err
}

// events reads a stream of events up to the one with the response, which it returns. The
// error is run/suspended if the run was suspended instead, runtime/protocol for an event
// that is not EDN, or that of ctx or show. A response that is not a stream is returned as
// it is.
func events(ctx context.Context, resp *http.Response, show func(Event) error) (edn.Value, error) {
	if resp.Header.Get("Content-Type") != typeSSE {
		return read(ctx, resp)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReader(io.LimitReader(resp.Body, maxStream))
	var e Event
	last := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if ctx.Err() != nil {
				return edn.Nil(), context.Cause(ctx)
			}
			if last == suspended {
				return edn.Nil(), contract.Errorf("run/suspended", "the run waits for a decision")
			}
			return edn.Nil(), broken("the event stream of the daemon ended before the run")
		}
		key, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		switch string(key) {
		case "id":
			e.ID = string(value)
		case "event":
			e.Name = string(value)
		case "data":
			if e.Data, err = edn.Read(value, edn.WithLimits(edn.Stored)); err != nil {
				return edn.Nil(), contract.Errorf("runtime/protocol", "the daemon sent an event that is not EDN: %w", err).
					WithHint("client and daemon may differ in version: compare \"ferment version\" of both")
			}
			if err := show(e); err != nil {
				return edn.Nil(), err
			}
			if response, there := e.Data.Get(edn.K("response")); there || e.Name == finished {
				return response, nil
			}
			e, last = Event{}, e.Name
		}
	}
}
