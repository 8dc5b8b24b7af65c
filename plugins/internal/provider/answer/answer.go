package answer

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
	"github.com/fermenthq/ferment/plugins/internal/provider/question"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Answer answers a call of an intent and sends pieces of the answer to out as they arrive. The
// first result is a whole response envelope: a value, or an error, each with the usage so far. The
// second result is set in its place if the question could not be sent to the model; for a probe, if
// the server cannot be called or the caller canceled.
func (p *Provider) Answer(
	ctx context.Context, m *Model, intent string, request edn.Value, out Sink,
) (edn.Value, *contract.Error) {
	if p.Missing != "" {
		return edn.Nil(), p.Report.Error(failure.NotConfigured, failure.Known{}, "%s", p.Missing)
	}
	if intent == Probe {
		return p.probeServer(ctx, m, func(name string) error {
			return out.Delta(edn.MustMap(edn.K("kind"), edn.K("check"), edn.K("check"), edn.K(name)))
		})
	}
	if intent == Count {
		return p.countQuestion(ctx, m, request, out)
	}
	if intent == question.Embed {
		return p.embed(ctx, m, request, out)
	}
	q, err := question.Read(intent, request, m.Options)
	if err != nil {
		return edn.Nil(), err
	}
	c := &call{provider: p, model: m, question: q, out: out, answer: chat.NewAnswer()}
	c.reserved, _ = sdk.CallFrom(ctx).Budget.Key("reserved-tokens-out").AsInt()
	leave, err := c.begin(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	defer leave()
	value, err := c.run(ctx)
	if err == nil || c.known {
		c.settle(ctx)
	}
	return c.envelope(value, err), nil
}

// begin encodes the request, waits until Gate admits it, and starts the exchange. leave closes the
// exchange and frees the place in Gate.
func (c *call) begin(ctx context.Context) (leave func(), failed *contract.Error) {
	body, failed := c.encode()
	if failed != nil {
		return nil, failed
	}
	return c.post(ctx, c.model.Preset.Path, body)
}

// post is begin for a body that is already encoded.
func (c *call) post(ctx context.Context, path string, body []byte) (leave func(), failed *contract.Error) {
	if err := c.provider.Gate.Enter(ctx); err != nil {
		if errors.Is(err, transport.ErrFull) {
			return nil, c.fail(failure.QueueFull, "the queue of waiting calls is full").
				WithHint("try again later, or raise max_in_flight or queue in the config block of the plugin")
		}
		return nil, c.fault(&transport.Fault{Kind: waiting(err), Text: "the call ended while it waited in the queue"})
	}
	if failed := c.weigh(ctx); failed != nil {
		c.provider.Gate.Leave()
		return nil, failed
	}
	c.exchange = c.provider.Client.Post(path, body)
	return func() { c.exchange.Close(); c.provider.Gate.Leave() }, nil
}

func waiting(err error) transport.Kind {
	if errors.Is(err, context.DeadlineExceeded) {
		return transport.Deadline
	}
	return transport.Canceled
}

// call is the state of one call.
type call struct {
	provider *Provider
	model    *Model
	question *question.Question
	out      Sink
	exchange *transport.Exchange
	request  *chat.Request

	form     chat.Form
	dropped  []string
	fields   map[string]any // of the body
	headroom int64
	needed   int64 // see Model.needed; 0 without a limit
	reserved int64 // output tokens that the host reserved; 0: not stated
	head     transport.Head
	answer   *chat.Answer

	begun      bool // a piece was sent to the sink
	firstToken time.Duration
	skipped    int
	inARow     int
	foreign    bool // a frame was not an answer of this format
	known      bool // a frame was an answer of this format
	cut        bool // the answer did not end by itself
	unended    bool // the server kept the connection open after the finish reason
	doubted    bool // the server may have read only a part of the prompt
	how        string
	pending    chat.Piece // merged with later pieces of the same read

	countedIn struct {
		n   int64
		way pricing.Way // empty: not counted
	}
	spent pricing.Tokens
	by    ways
}

// fail returns the error of a row of package failure, with all known facts about the call.
func (c *call) fail(row failure.Row, format string, args ...any) *contract.Error {
	return c.provider.Report.Error(row, c.knownFacts(), format, args...)
}

func (c *call) knownFacts() failure.Known {
	k := failure.Known{Status: c.head.Status, RequestID: c.requestID(), Begun: c.begun}
	if c.exchange != nil {
		k.Sent = c.exchange.Sent()
	}
	return k
}

func (c *call) requestID() string {
	for _, name := range []string{"X-Request-Id", "Request-Id"} {
		if id := c.head.Header.Get(name); id != "" {
			return id
		}
	}
	return c.answer.RequestID
}

// leastLimit is a limit of output tokens that every model accepts.
const leastLimit = 4096

// encode returns the body of the request, or an error if it cannot be
// expressed.
func (c *call) encode() ([]byte, *contract.Error) {
	q, m := c.question, c.model
	if len(q.Tools) > 0 && !m.Preset.Tools {
		return nil, c.fail(failure.NotConfigured, "preset %s has no tools, and the request has %d", m.Preset.Name,
			len(q.Tools)).
			WithHint("set quirks { tools = true } in the model block if this server has them")
	}
	r := &chat.Request{
		Model: m.wire(), Messages: q.Messages, Tools: q.Tools, Choice: q.Choice, Options: q.Options, Context: m.Context,
		Whole: q.Whole || len(q.Tools) > 0 && !m.Preset.ToolsStream,
	}
	r.Without, r.Rejected = m.Traits.Refuses(q.Options.Effort), m.Learned.Rejected()
	switch {
	case r.Options.MaxTokens == 0 && c.reserved > 0:
		// All that is left is reserved. A model may refuse a limit above its own, which is
		// not known here, so only a small one is sent. A format that requires a limit
		// sends leastLimit beside the budget for reasoning.
		room := c.reserved - leastLimit
		if room <= 0 {
			r.Options.MaxTokens, room = c.reserved, c.reserved/2
		}
		r.Options.Budget = min(r.Options.Budget, room)
	case r.Options.MaxTokens > 0:
		spare := int64(math.MaxInt64)
		if c.reserved > 0 { // a request for more could exceed the budget of the call
			spare = max(0, c.reserved-r.Options.MaxTokens)
		}
		if r.Options.Budget > spare {
			r.Options.Budget = max(1, spare) // 1: it is dropped and reported
		}
		c.needed = m.needed(r)
		c.headroom = min(c.room(), spare)
		r.Options.MaxTokens += c.headroom
	}
	if q.Shape != nil {
		output, ok := q.Shape.Ask(m.Structured, m.Preset)
		if !ok {
			return nil, c.fail(failure.Unsayable,
				"the schema %s cannot be requested with structured = %q", q.Shape.Name, m.Structured).
				WithHint("set structured = \"auto\" in the model block")
		}
		r.Output, c.form = output, output.Form
		if c.form != chat.Native {
			r.Messages = instructed(r.Messages, q.Shape.Instruction())
		}
	}
	encoded, err := dialect.Encode(m.Preset, r)
	var unsayable *dialect.Unsayable
	if errors.As(err, &unsayable) {
		return nil, c.fail(failure.Unsayable, "the format %s cannot express the request: %s", m.Preset.Dialect,
			unsayable.What).
			WithHint("change the request, or use a provider of another format")
	}
	if err != nil {
		return nil, c.fail(failure.RequestInvalid, "write the request as JSON: %v", err).
			WithHint("change the value in the request that JSON cannot hold")
	}
	if len(encoded.Dropped) > 0 && m.StrictOptions {
		names := strings.Join(encoded.Dropped, ", ")
		return nil, c.fail(failure.Unsayable, "the format %s cannot express the options %s, and strict_options is set",
			m.Preset.Dialect, names).
			WithHint("leave the options out, or remove strict_options from the model block")
	}
	if len(encoded.Body) > MaxRequest {
		return nil, question.Beyond("the request has %d bytes, the limit is %d", len(encoded.Body), MaxRequest)
	}
	r.Messages = encoded.Messages
	c.request, c.dropped, c.fields = r, encoded.Dropped, encoded.Fields
	return encoded.Body, nil
}

// room returns the number of tokens that a request with a limit leaves for
// reasoning.
func (c *call) room() int64 { return c.model.Learned.room(c.needed) }

// needed returns the number of tokens that a request needs for reasoning: those of the model, and more if
// it asks the model to reason. A budget that is not sent needs nothing.
func (m *Model) needed(r *chat.Request) int64 {
	budget, asked := dialect.Reasoning(m.Preset, r)
	if asked {
		budget = max(budget, m.Asked)
	}
	return max(m.Headroom, budget)
}

// instructed appends an instruction to the system message.
func instructed(messages []chat.Message, text string) []chat.Message {
	messages = slices.Clone(messages)
	for i, m := range messages {
		if m.Role == chat.System {
			messages[i] = m.With(text)
			return messages
		}
	}
	return slices.Insert(messages, 0, chat.Message{Role: chat.System, Content: text})
}

// run reads the answer to its end and returns its output.
func (c *call) run(ctx context.Context) (edn.Value, *contract.Error) {
	if err := c.fetch(ctx); err != nil {
		return edn.Nil(), err
	}
	return c.conclude(ctx)
}

// fetch reads the exchange to its end, whatever the answer is.
func (c *call) fetch(ctx context.Context) *contract.Error {
	if err := c.accepted(ctx); err != nil {
		return err
	}
	if err := c.receive(ctx); err != nil {
		c.cut = true
		return err
	}
	return nil
}

var compression = regexp.MustCompile(`(?i)\b(gzip|x-gzip|br|zstd|deflate|compress|x-compress)\b`)

// accepted waits for the head of the response. It returns an error if the server declined the
// request or its body cannot be read.
func (c *call) accepted(ctx context.Context) *contract.Error {
	head, fault := c.exchange.Head(ctx)
	if fault != nil {
		return c.fault(fault)
	}
	if c.head = head; c.declined() {
		return c.refused(ctx)
	}
	if coding := head.Header.Get("Content-Encoding"); compression.MatchString(coding) {
		return c.fail(failure.Foreign, "the body has the content coding %s, the request accepts none", coding).
			WithHint("configure the server, or the proxy in front of it, not to compress responses")
	}
	return nil
}

// fault converts the error of a broken exchange.
func (c *call) fault(f *transport.Fault) *contract.Error {
	return c.fail(map[transport.Kind]failure.Row{
		transport.NoConnection: failure.Unavailable,
		transport.Broken:       failure.Truncated,
		transport.Silent:       failure.Timeout,
		transport.Late:         failure.Timeout,
		transport.Stalled:      failure.Stalled,
		transport.TooLong:      failure.Timeout,
		transport.TooLarge:     failure.Malformed,
		transport.Lingered:     failure.Truncated,
		transport.Deadline:     failure.Deadline,
		transport.Canceled:     failure.Canceled,
	}[f.Kind], "%s", f.Text)
}

// refused converts an error response.
func (c *call) refused(ctx context.Context) *contract.Error {
	body, fault := c.exchange.All(ctx, failure.MaxBody)
	if fault != nil && (fault.Kind == transport.Deadline || fault.Kind == transport.Canceled) {
		return c.fault(fault)
	}
	known := c.knownFacts()
	known.Report = failure.ReadBody(body)
	known.RetryAfter = failure.RetryAfter(c.head.Header, c.provider.Client.Clock().Now())
	row := failure.Of(c.head.Status, known.Report)
	if known.Report.Window > 0 {
		c.model.Learned.reads(known.Report.Window, c.provider.Client.Clock().Now())
	}
	if row == failure.RequestInvalid {
		said := known.Report.Message + " " + known.Report.Words
		rejected, needed := dialect.Rejects(known.Report.Param, said, known.Report.Own(), c.fields)
		if needed {
			row = failure.Unsayable
		} else if rejected.Field != "" && c.model.Learned.reject(rejected) {
			// The next attempt is another request, without the field.
			return c.provider.Report.Error(failure.ProviderError, known,
				"the model does not take %s (status %d)", consequence(rejected), c.head.Status).
				WithHint("send the request again").
				WithDetail("options/refused", edn.K(rejected.Field))
		}
	}
	return c.provider.Report.Error(row, known, "%s (status %d)", row.Said(c.model.Name), c.head.Status)
}

// consequence describes a rejected field and what later requests have in place of it.
func consequence(r chat.Rejected) string {
	switch other := dialect.OtherLimit(r.Field); {
	case other != "":
		return r.Field + ", which is " + other + " from now on"
	case r.Value != "":
		return r.Field + " = " + r.Value + ", which is left out from now on"
	}
	return r.Field + ", which is left out from now on"
}
