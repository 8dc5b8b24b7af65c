package client

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Call says how an act is sent. The zero value sends EDN, once, and takes an answer of
// the cache if there is one.
type Call struct {
	// Key is an idempotency key, of 1 to 128 visible ASCII characters: requests of one
	// caller with one key share one run, which outlives the connection.
	Key string
	// Fresh has a cacheable act executed; its answer replaces that of the cache.
	Fresh bool
	// JSON sends the request as JSON: the daemon types its values by the schemas of its
	// configuration.
	JSON bool
	// Dir is the directory of relative paths in the input, on the admin socket.
	Dir string
	// Accepted, if set, is called with the id of the run once the daemon has accepted
	// it, before the response.
	Accepted func(run string)
}

// Response is the response to an act.
type Response struct {
	// Body is the response envelope, or the job of an act that asks for one with
	// :response/type :accepted.
	Body edn.Value
	// Run is the id of the run, empty if none was accepted.
	Run string
	// Replayed reports that this is the stored response of an earlier request with the
	// idempotency key.
	Replayed bool
	// Cache is hit, miss or bypass for a cacheable act, else empty.
	Cache string
}

// Out returns the accepted answer, nil if there is none.
func (r *Response) Out() edn.Value { return r.Body.Key("result").Key("out") }

// Err returns the error of the act, nil if its answer was accepted.
func (r *Response) Err() error {
	if e := r.Body.Key("error"); e.IsMap() {
		return contract.ErrorFromValue(e, contract.SourceHost)
	}
	return nil
}

// NewRequest returns the request envelope of an intent with an input map. trace is an id
// of the caller's choice that its runs and logs have in common.
func NewRequest(trace, intent string, input edn.Value) (edn.Value, error) {
	name, err := edn.Keyword(intent)
	if err != nil {
		return edn.Nil(), contract.Errorf("invalid-request", "the intent %.80q is not a name such as text/respond", intent)
	}
	return edn.MustMap(
		edn.K("proto"), edn.Int(contract.Proto),
		edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text(trace)),
		edn.K("task"), edn.MustMap(edn.K("intent"), name),
		edn.K("input"), input,
	), nil
}

// Act sends a request envelope and waits for the response. The error reports that none
// was received; the one of the act is in the response. Canceling ctx cancels the run,
// unless the call has a key.
func (c *Client) Act(ctx context.Context, envelope edn.Value, call Call) (Response, error) {
	if call.Accepted != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
				if run := header.Get(runHeader); run != "" {
					call.Accepted(run)
				}
				return nil
			},
		})
	}
	q, err := c.actRequest(envelope, call)
	if err != nil {
		return Response{}, err
	}
	body, resp, err := c.send(ctx, q)
	if err != nil {
		return Response{}, err
	}
	return responseOf(body, resp), nil
}

// Submit has the daemon accept an act and returns its job at once: the act runs when it
// is its turn, also after a restart of the daemon.
func (c *Client) Submit(ctx context.Context, envelope edn.Value, call Call) (Job, error) {
	r, err := c.Act(ctx, envelope.AssocKey("response/type", edn.K("accepted")), call)
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return Job{}, err
	}
	return jobOf(r.Body, nil)
}

func responseOf(body edn.Value, resp *http.Response) Response {
	return Response{
		Body:     body,
		Run:      resp.Header.Get(runHeader),
		Replayed: resp.Header.Get("Idempotency-Replayed") != "",
		Cache:    resp.Header.Get("Ferment-Cache"),
	}
}

// actRequest returns the HTTP request of an act.
func (c *Client) actRequest(envelope edn.Value, call Call) (request, error) {
	q := request{method: http.MethodPost, path: "/v1/act", body: edn.Write(envelope), header: http.Header{}}
	if call.JSON {
		var err error
		if q.body, err = edn.WriteJSON(envelope); err != nil {
			return q, contract.Errorf("invalid-request", "the request cannot be written as JSON: %w", err)
		}
		q.sent = typeJSON
	}
	if call.Accepted != nil {
		q.header.Set(announceHeader, "run")
	}
	if call.Key != "" {
		q.header.Set("Idempotency-Key", call.Key)
	}
	if call.Fresh {
		q.header.Set("Cache-Control", "no-cache")
	}
	if call.Dir != "" && c.admin != nil {
		q.header.Set(dirHeader, call.Dir)
	}
	return q, nil
}

// Job is an act that was accepted before it ran. Its id is that of its run, so Cancel and
// Watch take it too.
type Job struct {
	ID        string    `edn:"job/id"`
	Status    Word      `edn:"job/status"` // queued, running, waiting, suspended, completed, failed, canceled or expired
	Class     Word      `edn:"queue/class,omitempty"`
	Submitted time.Time `edn:"submitted-at,omitempty"`
	Deadline  time.Time `edn:"deadline-at,omitempty"`
	Result    edn.Value `edn:"result,omitempty"` // of a completed job
	Value     edn.Value `edn:"-"`
}

// Ended reports whether the job is in a final state.
func (j *Job) Ended() bool {
	switch j.Status {
	case "completed", "failed", "canceled", "expired":
		return true
	}
	return false
}

func jobOf(v edn.Value, err error) (Job, error) {
	j := Job{Value: v}
	return j, decode(v, err, &j)
}

const jobs = "/v1/act/jobs/"

// Job returns the state of an accepted act; the error of an unknown one is
// queue/job-not-found.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	return jobOf(c.get(ctx, jobs+url.PathEscape(id)))
}

// millis returns a duration as a parameter; 0 is left out.
func millis(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}
