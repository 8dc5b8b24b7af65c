package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Word is the name of a keyword, without its colon.
type Word string

// UnmarshalEDN reads a keyword or a text.
func (w *Word) UnmarshalEDN(text []byte) error {
	v, err := edn.Read(text)
	if err != nil {
		return err
	}
	name, ok := v.AsKeyword()
	if !ok {
		name, ok = v.AsString()
	}
	if !ok {
		return fmt.Errorf("expected a keyword or a string, got %.80s", v)
	}
	*w = Word(name)
	return nil
}

// Run is the summary of a recorded run.
type Run struct {
	ID        string        `edn:"run"`
	Status    Word          `edn:"status"` // open, queued, running, waiting, suspended, completed, failed, canceled or expired
	Intent    Word          `edn:"intent"`
	Principal string        `edn:"principal"`
	Records   int           `edn:"records"`
	Accepted  time.Time     `edn:"accepted-at"`
	Finished  time.Time     `edn:"finished-at,omitempty"`
	ErrorType Word          `edn:"error/type,omitempty"`
	Pinned    bool          `edn:"pinned?,omitempty"`
	Value     edn.Value     `edn:"-"`
	Latency   time.Duration `edn:"-"`
}

func runOf(v edn.Value, err error) (Run, error) {
	r := Run{Value: v}
	err = decode(v, err, &r)
	ms, _ := v.Key("latency-ms").AsInt()
	r.Latency = time.Duration(ms) * time.Millisecond
	return r, err
}

// decode stores an answer in a struct.
func decode(v edn.Value, err error, into any) error {
	if err != nil {
		return err
	}
	if err := edn.Decode(v, into); err != nil {
		return contract.Errorf("runtime/protocol", "the response does not have the form that this client expects: %w",
			err).
			WithHint("client and daemon may differ in version: compare \"ferment version\" of both")
	}
	return nil
}

// Filter selects runs. Zero fields select all runs that the caller may read.
type Filter struct {
	Status, Intent, Session string
	Principal               string
	Since, Until            time.Time // accepted at Since or later, and before Until
	Key                     string    // idempotency key of Principal, else of the caller
	Limit                   int       // of a page, up to 200; 0: 20
	Cursor                  string    // Page.Next of the previous page
}

// Page is one page of a list of runs, the latest first.
type Page struct {
	Runs []Run
	Next string // cursor of the next page; empty: this is the last one
}

// Runs returns a page of the recorded runs. Runs that are accepted between two calls do
// not shift the following pages.
func (c *Client) Runs(ctx context.Context, f Filter) (Page, error) {
	v, err := c.get(ctx, "/v1/runs", "status", f.Status, "intent", f.Intent, "session", f.Session, "principal", f.Principal,
		"since", instant(f.Since), "until", instant(f.Until), "key", f.Key, "limit", number(f.Limit), "cursor", f.Cursor)
	if err != nil {
		return Page{}, err
	}
	var page Page
	page.Next, _ = v.Key("next").AsString()
	for each := range v.Key("runs").Elems() {
		run, err := runOf(each, nil)
		if err != nil {
			return Page{}, err
		}
		page.Runs = append(page.Runs, run)
	}
	return page, nil
}

func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// path returns the path of a run, or of a resource below it.
func path(run string, below ...string) string {
	all := "/v1/runs/" + url.PathEscape(run)
	for _, part := range below {
		all += "/" + url.PathEscape(part)
	}
	return all
}

// Run returns the summary of a run. Its Value also has the epochs, nodes, open
// interrupts and, once it has ended, the response. For an unknown run the error is
// run/not-found.
func (c *Client) Run(ctx context.Context, run string) (Run, error) {
	v, err := c.get(ctx, path(run))
	if err != nil {
		return Run{}, err
	}
	r, err := runOf(v.Key("run"), nil)
	r.Value = v
	return r, err
}

// Records returns up to limit records of a run that follow record number after, and
// reports whether there are more. If values is set, each record has the values that it
// refers to under :values.
func (c *Client) Records(ctx context.Context, run string, after, limit int, values bool) (records []edn.Value, more bool, err error) {
	flag := ""
	if values {
		flag = "true"
	}
	v, err := c.get(ctx, path(run, "records"), "after", number(after), "limit", number(limit), "values", flag)
	for each := range v.Key("records").Elems() {
		records = append(records, each)
	}
	return records, v.Key("more?").Truthy(), err
}

// Value returns a value by its hash, if a run of the caller refers to it. If run is not
// empty, only that run is searched.
func (c *Client) Value(ctx context.Context, hash, run string) (edn.Value, error) {
	v, err := c.get(ctx, "/v1/values/"+url.PathEscape(hash), "run", run)
	return v.Key("value"), err
}

// Verify compares the records and values of a run with their hashes. result lists
// the damaged ones under :damaged; ok is true if there are none.
func (c *Client) Verify(ctx context.Context, run string) (ok bool, result edn.Value, err error) {
	v, err := c.get(ctx, path(run, "verify"))
	return v.Key("ok?").Truthy(), v, err
}

// Diff compares two runs node by node.
func (c *Client) Diff(ctx context.Context, a, b string) (edn.Value, error) {
	return c.get(ctx, path(a, "diff", b))
}

// Replay executes a finished run again. how is a map with any of :mode, :swap and
// :effects; nil requests a strict replay, which fails with replay/miss if a value
// differs.
func (c *Client) Replay(ctx context.Context, run string, how edn.Value) (edn.Value, error) {
	if how.IsNil() {
		return c.post(ctx, path(run, "replay"))
	}
	return c.ask(ctx, request{method: http.MethodPost, path: path(run, "replay"), body: edn.Write(how)})
}

// Resume continues a suspended run. Each decision is a map with :node, :decision and
// :value; there must be one for each call that waits for a decision. A failed run whose
// error is retryable needs no decisions.
func (c *Client) Resume(ctx context.Context, run string, decisions ...edn.Value) error {
	body := edn.MustMap(edn.K("decisions"), edn.Vector(decisions...))
	_, err := c.ask(ctx, request{method: http.MethodPost, path: path(run, "resume"), body: edn.Write(body)})
	return err
}

// Cancel requests the cancellation of a run and waits at most wait, up to 30 s, for its
// end. accepted is false if the run had already ended.
func (c *Client) Cancel(ctx context.Context, run, why string, wait time.Duration) (accepted bool, err error) {
	v, err := c.post(ctx, path(run, "cancel"), "why", why, "wait", millis(wait))
	return v.Key("cancel/accepted?").Truthy(), err
}

// Pin exempts a run from removal by age or size; with on false it removes the
// exemption.
func (c *Client) Pin(ctx context.Context, run string, on bool) (Run, error) {
	if !on {
		return runOf(c.post(ctx, path(run, "unpin")))
	}
	return runOf(c.post(ctx, path(run, "pin")))
}

// Purge deletes the values of a finished run. If dry is set, it deletes nothing
// and only returns the run.
func (c *Client) Purge(ctx context.Context, run string, dry bool) (Run, error) {
	flag := ""
	if dry {
		flag = "true"
	}
	return runOf(c.ask(ctx, request{method: http.MethodDelete, path: path(run) + encode("dry-run", flag)}))
}

// Interrupts returns the open interrupts: questions of runs to people.
func (c *Client) Interrupts(ctx context.Context) (open []edn.Value, err error) {
	v, err := c.get(ctx, "/v1/interrupts")
	for each := range v.Key("interrupts").Elems() {
		open = append(open, each)
	}
	return open, err
}

// Answer answers an open interrupt of a run; interrupt is the id of the interrupt or of
// its node. The answer is stored durably when Answer returns.
func (c *Client) Answer(ctx context.Context, run, interrupt string, answer edn.Value) error {
	body := edn.MustMap(edn.K("answer"), answer)
	_, err := c.ask(ctx, request{method: http.MethodPost, path: path(run, "interrupts", interrupt), body: edn.Write(body)})
	return err
}

// Admin executes an admin action, a map with :action and its keys, and returns its result.
func (c *Client) Admin(ctx context.Context, action edn.Value) (edn.Value, error) {
	return c.action(ctx, "/v1/admin", action, "")
}

// AdminOnce is Admin with an idempotency key: the first call with the key executes the
// action, later calls return its result. Secrets in a result, such as the text of a
// token, are returned only to the first call.
func (c *Client) AdminOnce(ctx context.Context, key string, action edn.Value) (edn.Value, error) {
	return c.action(ctx, "/v1/admin", action, key)
}

// Session executes an action of POST /v1/session and returns its result. The action is
// a map with :action, such as :open, :put-vars, :get-vars, :del-vars or :list, and its
// keys, such as :session/id.
func (c *Client) Session(ctx context.Context, action edn.Value) (edn.Value, error) {
	return c.action(ctx, "/v1/session", action, "")
}

func (c *Client) action(ctx context.Context, path string, action edn.Value, key string) (edn.Value, error) {
	q := request{method: http.MethodPost, path: path, body: edn.Write(action)}
	if key != "" {
		q.header = http.Header{"Idempotency-Key": {key}}
	}
	v, err := c.ask(ctx, q)
	return v.Key("result"), err
}

// Whoami returns the identity of the caller, its roles and its permissions.
func (c *Client) Whoami(ctx context.Context) (edn.Value, error) { return c.get(ctx, "/v1/whoami") }
