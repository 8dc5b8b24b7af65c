package answer

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
	"github.com/fermenthq/ferment/plugins/internal/provider/question"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Answer answers a call of an intent. Pieces of the answer go to out as they
// arrive. The result is a whole response envelope: a value, or an error with
// what it took all the same. An error beside it means that nothing was asked.
func (p *Provider) Answer(ctx context.Context, m *Model, intent string, request edn.Value, out Sink) (edn.Value, *contract.Error) {
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

// begin sends the request when it is its turn. leave ends the exchange.
func (c *call) begin(ctx context.Context) (leave func(), failed *contract.Error) {
	body, failed := c.encode()
	if failed != nil {
		return nil, failed
	}
	return c.post(ctx, c.model.Preset.Path, body)
}

// post sends a body when it is its turn.
func (c *call) post(ctx context.Context, path string, body []byte) (leave func(), failed *contract.Error) {
	if err := c.provider.Gate.Enter(ctx); err != nil {
		if errors.Is(err, transport.ErrFull) {
			return nil, c.fail(failure.QueueFull, "as many calls wait as may")
		}
		return nil, c.fault(&transport.Fault{Kind: waiting(err), Text: "the call waited for its turn"})
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

// call is one call on its way.
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
	head     transport.Head
	answer   *chat.Answer

	begun      bool // a piece was shown
	firstToken time.Duration
	skipped    int
	inARow     int
	foreign    bool // a frame was no answer of this format
	known      bool // a frame was
	cut        bool // the answer did not end by itself
	how        string
	pending    chat.Piece // merged with what follows in the same read

	countedIn struct {
		n   int64
		way pricing.Way // empty: not counted
	}
	spent pricing.Tokens
	by    ways
}

// fail makes the error of a row with all that is known.
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

// encode makes the body of the request, or refuses what cannot be asked.
func (c *call) encode() ([]byte, *contract.Error) {
	q, m := c.question, c.model
	if len(q.Tools) > 0 && !m.Preset.Tools {
		return nil, c.fail(failure.NotConfigured, "preset %s has no tools: set quirks { tools = true } if this server has them", m.Preset.Name)
	}
	r := &chat.Request{
		Model: m.wire(), Messages: q.Messages, Tools: q.Tools, Choice: q.Choice, Options: q.Options, Context: m.Context,
		Whole: q.Whole || len(q.Tools) > 0 && !m.Preset.ToolsStream,
	}
	r.Without = slices.Concat(m.Traits.Refuses(q.Options.Effort), m.Learned.Refused())
	if r.Options.MaxTokens > 0 {
		c.headroom = m.Learned.room(max(m.Headroom, r.Options.Budget))
		r.Options.MaxTokens += c.headroom
	}
	if q.Shape != nil {
		output, ok := q.Shape.Ask(m.Structured, m.Preset)
		if !ok {
			return nil, c.fail(failure.Unsayable, "the schema %s cannot be asked for with structured = %q", q.Shape.Name, m.Structured)
		}
		r.Output, c.form = output, output.Form
		if c.form != chat.Native {
			r.Messages = instructed(r.Messages, q.Shape.Instruction())
		}
	}
	encoded, err := dialect.Encode(m.Preset, r)
	var unsayable *dialect.Unsayable
	if errors.As(err, &unsayable) {
		return nil, c.fail(failure.Unsayable, "the format %s cannot express the request: %s",
			m.Preset.Dialect, unsayable.What)
	}
	if err != nil {
		return nil, c.fail(failure.RequestInvalid, "the request cannot be written")
	}
	if len(encoded.Dropped) > 0 && m.StrictOptions {
		return nil, c.fail(failure.Unsayable, "the format %s has no %s", m.Preset.Dialect, strings.Join(encoded.Dropped, ", "))
	}
	if len(encoded.Body) > MaxRequest {
		return nil, question.Beyond("the request has %d bytes, the limit is %d", len(encoded.Body), MaxRequest)
	}
	c.request, c.dropped, c.fields = r, encoded.Dropped, encoded.Fields
	return encoded.Body, nil
}

// instructed puts an instruction to the end of the system message.
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

// run follows the exchange to its end.
func (c *call) run(ctx context.Context) (edn.Value, *contract.Error) {
	if err := c.fetch(ctx); err != nil {
		return edn.Nil(), err
	}
	return c.conclude()
}

// fetch follows the exchange to its end, whatever the answer is.
func (c *call) fetch(ctx context.Context) *contract.Error {
	head, fault := c.exchange.Head(ctx)
	if fault != nil {
		return c.fault(fault)
	}
	c.head = head
	if head.Status < 200 || head.Status > 299 {
		return c.refused(ctx)
	}
	if err := c.receive(ctx); err != nil {
		c.cut = true
		return err
	}
	return nil
}

// fault is the error of a broken exchange.
func (c *call) fault(f *transport.Fault) *contract.Error {
	return c.fail(map[transport.Kind]failure.Row{
		transport.NoConnection: failure.Unavailable, transport.Broken: failure.Truncated, transport.Silent: failure.Timeout, transport.Late: failure.Timeout,
		transport.Stalled: failure.Stalled, transport.TooLong: failure.Timeout, transport.TooLarge: failure.Malformed, transport.Lingered: failure.Truncated,
		transport.Deadline: failure.Deadline, transport.Canceled: failure.Canceled,
	}[f.Kind], "%s", f.Text)
}

// refused reads the body of an error.
func (c *call) refused(ctx context.Context) *contract.Error {
	var body []byte
	for len(body) < failure.MaxBody {
		piece, fault, err := c.exchange.Next(ctx)
		if fault != nil && (fault.Kind == transport.Deadline || fault.Kind == transport.Canceled) {
			return c.fault(fault)
		}
		if fault != nil || err != nil {
			break // what has come will do
		}
		body = append(body, piece...)
	}
	known := c.knownFacts()
	known.Report = failure.ReadBody(body)
	known.RetryAfter = failure.RetryAfter(c.head.Header, c.provider.Client.Clock().Now())
	row := failure.Of(c.head.Status, known.Report)
	if known.Report.Window > 0 {
		c.model.Learned.reads(known.Report.Window, c.provider.Client.Clock().Now())
	}
	if row == failure.RequestInvalid {
		field := dialect.Refused(known.Report.Param, known.Report.Message, c.fields)
		if field != "" && c.model.Learned.refuse(field) {
			// The next attempt is another request: it goes without the field.
			return c.provider.Report.Error(failure.ProviderError, known, "the model does not take %s, which is left out from now on (status %d)", field, c.head.Status).
				WithDetail("options/refused", edn.K(field))
		}
	}
	said := map[failure.Row]string{
		failure.Foreign: "no model answers at this address", failure.ModelNotFound: "the model " + c.model.Name + " is not there", failure.AuthFailed: "the key is refused",
		failure.QuotaExhausted: "the quota is used up", failure.RateLimited: "too many requests", failure.Overloaded: "overloaded",
		failure.ContextExceeded: "the request is longer than the model can read", failure.Refused: "the request was refused", failure.Timeout: "timed out",
	}[row]
	if said == "" {
		said = "failed"
	}
	return c.provider.Report.Error(row, known, "%s (status %d)", said, c.head.Status)
}

// envelope is the response: the value or the error, and what it took.
func (c *call) envelope(value edn.Value, err *contract.Error) edn.Value {
	var result, response edn.MapBuilder
	if err != nil {
		result.Key("type", edn.K("error"))
		result.Key("error", err.Value())
	} else {
		result.Key("type", edn.K("value"))
		result.Key("out", value)
	}
	if usage := c.usage(err); !usage.IsNil() {
		result.Key("usage", usage)
	}
	response.Key("result", result.Map())
	response.Key("invoke/meta", c.meta())
	return response.Map()
}

// usage is what the call took. What is not known is left to the host, which has
// reserved for it.
func (c *call) usage(err *contract.Error) edn.Value {
	switch {
	case err != nil && c.declined():
		return c.nothing()
	case err != nil && !c.known:
		return edn.Nil()
	}
	return c.account(c.spent, c.exchange.Elapsed())
}

// account writes tokens and their price down.
func (c *call) account(tokens pricing.Tokens, took time.Duration) edn.Value {
	var u edn.MapBuilder
	u.Key("mode", edn.K("live"))
	u.Key("latency-ms", edn.Int(took.Milliseconds()))
	if c.begun {
		u.Key("first-token-ms", edn.Int(c.firstToken.Milliseconds()))
	}
	u.Key("tokens-in", edn.Int(tokens.In))
	u.Key("tokens-out", edn.Int(tokens.Out))
	u.Key("tokens-cached", edn.Int(tokens.Cached))
	u.Key("tokens-reasoning", edn.Int(tokens.Reasoning))
	if tokens.Written > 0 {
		u.Key("tokens-cache-written", edn.Int(tokens.Written))
	}
	u.Key("tokens-mark", edn.K(string(tokens.Mark)))
	c.model.cost(&u, tokens)
	return u.Map()
}

// declined tells whether a status stood in the place of an answer.
func (c *call) declined() bool {
	return c.head.Status != 0 && (c.head.Status < 200 || c.head.Status > 299)
}

// nothing is the usage of a request that was declined: the next candidate has
// all of the budget. Who failed on the way may have asked a model before.
func (c *call) nothing() edn.Value {
	tokens := pricing.Tokens{Mark: pricing.Exact}
	if c.head.Status >= 500 || c.head.Status == http.StatusRequestTimeout {
		tokens.Mark = pricing.AtLeast
	}
	var u edn.MapBuilder
	u.Key("mode", edn.K("live"))
	u.Key("latency-ms", edn.Int(c.exchange.Elapsed().Milliseconds()))
	u.Key("tokens-in", edn.Int(0))
	u.Key("tokens-out", edn.Int(0))
	u.Key("tokens-mark", edn.K(string(tokens.Mark)))
	c.model.cost(&u, tokens)
	return u.Map()
}

// cost adds what tokens cost, and how well that is known.
func (m *Model) cost(u *edn.MapBuilder, tokens pricing.Tokens) {
	cost, mark := m.Price.Cost(tokens)
	if !cost.IsNil() {
		u.Key("cost-usd", cost)
	}
	u.Key("cost-mark", edn.K(string(mark)))
}

// meta says how the answer came about.
func (c *call) meta() edn.Value {
	clean := c.provider.Report.Scrub.Clean
	var provider, m edn.MapBuilder
	provider.Key("name", edn.Text(c.provider.Name))
	provider.Key("type", edn.K(c.provider.Name))
	provider.Key("model", edn.Text(c.model.Name))
	if c.answer.Model != "" {
		provider.Key("model/served", edn.Text(clean(c.answer.Model)))
	}
	if id := c.requestID(); id != "" {
		provider.Key("request/id", edn.Text(clean(id)))
	}
	m.Key("provider", provider.Map())
	m.Key("model", edn.Text(c.model.Name))
	m.Key("prompt/hash", edn.Text(c.question.Hash))
	if !c.question.Agent.IsNil() {
		m.Key("agent/id", c.question.Agent)
	}
	if f := c.answer.Finish; f != chat.Unfinished && f != chat.Failed {
		m.Key("finish", edn.K(string(f)))
	}
	if c.answer.Assumed {
		m.Key("finish/assumed?", edn.Bool(true))
	}
	if c.skipped > 0 {
		m.Key("stream/skipped", edn.Int(int64(c.skipped)))
	}
	if why := c.losses(); len(why) > 0 {
		m.Key("quality", edn.MustMap(edn.K("degraded?"), edn.Bool(true), edn.K("why"), edn.Keywords(why...)))
	}
	if len(c.dropped) > 0 {
		m.Key("options/dropped", edn.Keywords(c.dropped...))
	}
	if c.headroom > 0 {
		m.Key("tokens/headroom", edn.Int(c.headroom))
	}
	if c.form != chat.Plain {
		m.Key("format/mode", edn.K(string(c.form)))
	}
	if c.how != "" {
		m.Key("format/found", edn.K(c.how))
	}
	if how := c.by.value(); how.Len() > 0 {
		m.Key(countedBy, how)
	}
	if price := c.model.Price.Value(); !price.IsNil() {
		m.Key("price", price)
	}
	return m.Map()
}
