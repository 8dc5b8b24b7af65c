package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Health returns the health of the daemon process, which does not depend on plugins. An
// unhealthy daemon is not an error: its value has :ok? false.
func (c *Client) Health(ctx context.Context) (edn.Value, error) { return c.state(ctx, "/health") }

// Ready reports whether the daemon accepts acts. A daemon that is not ready is not
// an error: its value has :ok? false and the reasons under :failed.
func (c *Client) Ready(ctx context.Context) (edn.Value, error) { return c.state(ctx, "/ready") }

// state requests a health route, whose answer is a value with :ok? for both of its
// statuses. A response without :ok? is an error.
func (c *Client) state(ctx context.Context, path string) (edn.Value, error) {
	v, resp, err := c.send(ctx, request{method: http.MethodGet, path: path})
	if err == nil && !v.HasKey("ok?") {
		err = refusal(v, resp)
	}
	return v, err
}

// Routes lists the routes of the daemon.
func (c *Client) Routes(ctx context.Context) (edn.Value, error) { return c.get(ctx, "/routes") }

// OpenAPI returns the OpenAPI document of the routes, read from JSON.
func (c *Client) OpenAPI(ctx context.Context) (edn.Value, error) { return c.get(ctx, "/openapi.json") }

// Telemetry returns the counters of the daemon as a map, by area.
func (c *Client) Telemetry(ctx context.Context) (edn.Value, error) {
	v, err := c.get(ctx, "/diag/telemetry")
	return v.Key("telemetry"), err
}

// Metrics returns the metrics in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	text, _, err := c.text(ctx, "/metrics", "text/plain")
	return text, err
}

// Stats returns statistics of the recorded runs of Intent and Principal that were
// accepted at Since or later and before Until. Zero fields select all runs of the last 24
// hours; the other fields of f are ignored.
func (c *Client) Stats(ctx context.Context, f Filter) (edn.Value, error) {
	return c.get(ctx, "/v1/runs/stats", "intent", f.Intent, "principal", f.Principal,
		"since", instant(f.Since), "until", instant(f.Until))
}

// TrailFilter selects rows of the audit trail.
type TrailFilter struct {
	After string        // cursor; empty: from the oldest row on
	Until time.Time     // only rows before it; zero: no limit
	Limit int           // of rows, up to 10,000; 0: 1,000
	Wait  time.Duration // the time to wait if there is no row, up to a minute
}

// Audit returns one page of the audit trail, oldest row first, and the cursor to pass as
// After for the next page. An empty page means that no newer row came within f.Wait. Rows
// are read from JSON, so EDN types without a JSON form are not preserved.
func (c *Client) Audit(ctx context.Context, f TrailFilter) (rows []edn.Value, cursor string, err error) {
	query := encode("after", f.After, "until", instant(f.Until), "limit", number(f.Limit), "wait-ms", millis(f.Wait))
	text, header, err := c.text(ctx, "/v1/admin/audit"+query, "application/x-ndjson")
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(text) {
		row, err := edn.ReadJSON([]byte(line), edn.WithLimits(edn.Stored))
		if err != nil {
			return nil, "", contract.Errorf("runtime/protocol", "GET /v1/admin/audit: a row is not valid JSON: %w",
				err).
				WithHint("client and daemon may differ in version: compare \"ferment version\" of both")
		}
		rows = append(rows, row)
	}
	return rows, header.Get("Ferment-Cursor"), nil
}

// text returns a response that is text of a media type.
func (c *Client) text(ctx context.Context, path, media string) (string, http.Header, error) {
	resp, err := c.open(ctx, request{method: http.MethodGet, path: path, accept: media + ", " + typeEDN + ";q=0.5"})
	if err != nil {
		return "", nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		v, err := read(ctx, resp)
		if err == nil {
			err = refusal(v, resp)
		}
		return "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if of, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); of != media {
		return "", nil, foreign(resp)
	}
	text, err := readAll(ctx, resp)
	return string(text), resp.Header, err
}

// CancelJob is Cancel for a queued act. For an unknown id the error is
// queue/job-not-found.
func (c *Client) CancelJob(ctx context.Context, id, why string, wait time.Duration) (accepted bool, err error) {
	var b edn.MapBuilder
	b.OptText("reason", why)
	v, err := c.ask(ctx, request{
		method: http.MethodPost,
		path:   jobs + url.PathEscape(id) + "/cancel" + encode("wait", millis(wait)),
		body:   edn.Write(b.Map()),
	})
	return v.Key("cancel/accepted?").Truthy(), err
}
