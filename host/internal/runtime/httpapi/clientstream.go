package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Stream sends a request envelope and calls show with each event of its run.
// The result is a response envelope; the error reports that none was received,
// or is the one of show. Canceling ctx, or an error of show, cancels the run.
func (c *Client) Stream(
	ctx context.Context, request edn.Value, dir string, show func(event edn.Value) error,
) (edn.Value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := c.act(request)
	if err != nil {
		return edn.Nil(), err
	}
	resp, err := c.open(ctx, http.MethodPost, "/v1/act?format=edn", body, dir,
		string(typeSSE)+", "+string(typeEDN)+";q=0.5")
	if err != nil {
		return edn.Nil(), err
	}
	return c.events(ctx, resp, show)
}

// Events calls show with the events of a run after the one with an id; empty: with
// all of them. The result is the response envelope of the run, nil if the stream
// ended before the run; the error is that of the daemon or of show, or reports that
// the connection ended.
func (c *Client) Events(ctx context.Context, run, after string, show func(event edn.Value) error) (edn.Value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := "/v1/runs/" + run + "/events?format=edn"
	if after != "" {
		path += "&after=" + after
	}
	resp, err := c.open(ctx, http.MethodGet, path, nil, "", string(typeSSE)+", "+string(typeEDN)+";q=0.5")
	if err != nil {
		return edn.Nil(), err
	}
	response, err := c.events(ctx, resp, show)
	if refused := response.Key("error"); err == nil && !refused.IsNil() && resp.StatusCode >= 400 {
		return edn.Nil(), contract.ErrorFromValue(refused, contract.SourceHost)
	}
	return response, err
}

// events reads a stream of events, or the envelope of a request that was refused.
func (c *Client) events(ctx context.Context, resp *http.Response, show func(event edn.Value) error) (edn.Value, error) {
	defer func() { _ = resp.Body.Close() }()
	if resp.Header.Get("Content-Type") != string(typeSSE) {
		return c.read(ctx, resp)
	}
	lines := bufio.NewReader(io.LimitReader(resp.Body, maxStream))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if ctx.Err() != nil {
				return edn.Nil(), context.Cause(ctx)
			}
			return edn.Nil(), broken("the event stream of the daemon ended before the run")
		}
		data, isData := bytes.CutPrefix(bytes.TrimRight(line, "\n"), []byte("data: "))
		if !isData {
			continue // the data holds the event name too
		}
		event, err := edn.Read(data, edn.WithLimits(edn.Stored))
		if err != nil {
			return edn.Nil(), contract.Errorf("runtime/protocol", "the daemon sent an event that is not EDN: %w", err)
		}
		if err := show(event); err != nil {
			return edn.Nil(), err
		}
		if name, _ := event.Key("event").AsKeyword(); name == "finished" {
			return event.Key("response"), nil
		}
	}
}

// maxStream limits the total size of the events of one run in bytes.
const maxStream = 1 << 30
