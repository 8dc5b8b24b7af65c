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

// Call holds the options of an act. The zero value sends the request once, as EDN, and
// accepts an answer from the cache.
type Call struct {
	// Key is an idempotency key, 1 to 128 visible ASCII characters. Requests of one
	// caller with the same key share one run, which continues if the connection is
	// lost.
	Key string
	// Fresh executes the act even if the cache has an answer; the new answer
	// replaces that one.
	Fresh bool
	// JSON sends the request as JSON, and the daemon converts its values to the types
	// of the schemas in its configuration.
	JSON bool
	// Dir is the directory to which relative paths in the input refer. It has
	// an effect only on the admin socket.
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
// that the caller chooses; it is recorded in the runs and logs of the request. The error
// is invalid-request for an invalid intent.
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

// Act sends a request envelope and waits for the response. err reports that no
// response was received; an error of the act itself is in the response
// ([Response.Err]). Canceling ctx cancels the run, unless the call has a key.
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

// Submit queues an act and returns its job at once. The daemon runs the act when the
// queue permits, also after a restart of the daemon.
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
			return q, contract.Errorf("invalid-request", "write the request as JSON: %w", err).
				WithHint("send it as EDN")
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

// Job is an act in the queue of the daemon. Its id is the id of its run and is also
// accepted by Cancel and Watch.
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

// Job returns the state of a queued act. For an unknown id the error is
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
