package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"syscall"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Client calls a daemon over its admin socket. It is safe for concurrent use.
type Client struct {
	http  http.Client
	token string
	json  bool // acts are sent as JSON
	fresh bool // acts get no answer of the cache
}

// ErrNoDaemon reports that no daemon listens on a socket.
var ErrNoDaemon = errors.New("no daemon listens on the socket")

// maxAnswer limits the size of a response in bytes.
const maxAnswer = 64 << 20

// Dial connects to the daemon of an admin socket. The error is ErrNoDaemon if
// none listens; another error reports why the daemon cannot be used.
func Dial(ctx context.Context, socket, tokenFile string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EINVAL),
		errors.Is(err, syscall.ENOTDIR):
		return nil, ErrNoDaemon
	case errors.Is(err, fs.ErrPermission):
		return nil, contract.Errorf("auth/forbidden", "the daemon of this data directory belongs to another user").
			WithHint("use --local, or run as that user")
	case err != nil:
		return nil, fmt.Errorf("reach the daemon: %w", err)
	}
	_ = conn.Close()
	token, err := os.ReadFile(tokenFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, contract.Errorf("runtime/not-ready", "the daemon runs, but its token file does not exist: %s",
			tokenFile).WithHint("try again in a few seconds: the daemon restores the file, or its log has the reason")
	case err != nil:
		return nil, contract.Errorf("auth/forbidden", "the token of the daemon cannot be read: %w", err).
			WithHint("run as the user of the daemon")
	}
	c := &Client{token: strings.TrimSpace(string(token))}
	c.http.Transport = &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
	}
	return c, nil
}

// Act sends a request envelope; dir is the base of relative paths in its
// input. The result is a response envelope; the error reports that none was
// received. accepted is called with the id of the run when the daemon accepts
// it.
func (c *Client) Act(ctx context.Context, request edn.Value, dir string, accepted func(run string)) (edn.Value, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
			accepted(header.Get("Ferment-Run-Id"))
			return nil
		},
	})
	body, err := c.act(request)
	if err != nil {
		return edn.Nil(), err
	}
	return c.send(ctx, http.MethodPost, "/v1/act", body, dir)
}

// ActOnce sends a request envelope with an idempotency key. replayed reports
// whether the response is the stored one of an earlier request. Canceling ctx does
// not cancel the run.
func (c *Client) ActOnce(ctx context.Context, request edn.Value, dir string) (_ edn.Value, replayed bool, _ error) {
	body, err := c.act(request)
	if err != nil {
		return edn.Nil(), false, err
	}
	resp, err := c.open(ctx, http.MethodPost, "/v1/act", body, dir, string(typeEDN))
	if err != nil {
		return edn.Nil(), false, err
	}
	defer func() { _ = resp.Body.Close() }()
	response, err := c.read(ctx, resp)
	return response, resp.Header.Get(replayedHeader) != "", err
}

// InJSON returns a client that sends acts as JSON: the daemon types their
// values by the schemas of its configuration.
func (c *Client) InJSON() *Client {
	other := *c
	other.json = true
	return &other
}

// Fresh returns a client whose acts get new answers, which replace those of the cache.
func (c *Client) Fresh() *Client {
	other := *c
	other.fresh = true
	return &other
}

// act encodes the body of an act.
func (c *Client) act(request edn.Value) ([]byte, error) {
	if !c.json {
		return edn.Write(request), nil
	}
	body, err := edn.WriteJSON(request)
	if err != nil {
		return nil, contract.Errorf("invalid-request", "the request cannot be written as JSON: %w", err)
	}
	return body, nil
}

// Do executes an action and returns its result. The error is the daemon's, or
// reports that no response was received.
func (c *Client) Do(ctx context.Context, action edn.Value) (edn.Value, error) {
	return c.do(ctx, "/v1/admin", action)
}

// Session executes a session action, as Do does an admin action.
func (c *Client) Session(ctx context.Context, action edn.Value) (edn.Value, error) {
	return c.do(ctx, "/v1/session", action)
}

func (c *Client) do(ctx context.Context, path string, action edn.Value) (edn.Value, error) {
	answer, err := c.send(ctx, http.MethodPost, path, edn.Write(action), "")
	if err != nil {
		return edn.Nil(), err
	}
	if failure := answer.Key("error"); !failure.IsNil() {
		return edn.Nil(), contract.ErrorFromValue(failure, contract.SourceHost)
	}
	return answer.Key("result"), nil
}

// Ready returns the readiness of the daemon.
func (c *Client) Ready(ctx context.Context) (edn.Value, error) {
	return c.send(ctx, http.MethodGet, "/ready", nil, "")
}

func (c *Client) send(ctx context.Context, method, path string, body []byte, dir string) (edn.Value, error) {
	resp, err := c.open(ctx, method, path, body, dir, string(typeEDN))
	if err != nil {
		return edn.Nil(), err
	}
	defer func() { _ = resp.Body.Close() }()
	return c.read(ctx, resp)
}

// open sends a request and returns the response with an unread body.
func (c *Client) open(
	ctx context.Context, method, path string, body []byte, dir, accept string,
) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set(AnnounceHeader, announceRun)
	r.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		r.Header.Set("Content-Type", string(typeEDN))
		if c.json {
			r.Header.Set("Content-Type", string(typeJSON))
		}
	}
	if dir != "" {
		r.Header.Set(DirHeader, dir)
	}
	if c.fresh {
		r.Header.Set("Cache-Control", "no-cache")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, broken("the daemon sent no response")
	}
	return resp, nil
}

// read reads the response as one value.
func (c *Client) read(ctx context.Context, resp *http.Response) (edn.Value, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		if ctx.Err() != nil {
			return edn.Nil(), context.Cause(ctx)
		}
		return edn.Nil(), broken("the response of the daemon is incomplete")
	}
	v, err := edn.Read(text, edn.WithLimits(edn.Stored))
	if err != nil {
		return edn.Nil(), contract.Errorf("runtime/protocol",
			"the process on the admin socket is not a daemon of this version: %s %s", resp.Status,
			truncate(string(text), 80))
	}
	return v, nil
}

// broken is the error for a connection that ended before the response did. It
// leaves out the error of the HTTP client, which names its own internals.
func broken(what string) *contract.Error {
	return contract.Errorf("runtime/not-ready", "%s: the connection ended too early", what).
		WithHint("\"ferment status\" shows whether the daemon still runs; its log has the reason")
}
