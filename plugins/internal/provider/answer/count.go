package answer

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/counting"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/failure"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
	"github.com/fermenthq/ferment/plugins/internal/provider/question"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Count is the intent that counts the tokens of a request without sending it to the model. Of is
// the key of the request's context that names the intent for which its input is meant.
const (
	Count = "model/count"
	Of    = "count/of"
)

// smallWindow is a context window that every server has: shorter requests are
// not counted if no window is configured.
const smallWindow = 2048

// weigh returns an error, before anything is spent, if the request exceeds the context window of
// the model. It counts tokens only if the length of the request leaves a doubt. An estimate may be
// off by a factor of two: it rejects only a request above twice the window, or one with more words
// than the window has tokens.
func (c *call) weigh(ctx context.Context) *contract.Error {
	most := pricing.Most(c.request)
	window := c.model.Context
	if window == 0 && most > smallWindow {
		window = cmp.Or(c.loadedWindow(ctx, false), c.model.Traits.Window)
	}
	if window == 0 || most <= window {
		return nil
	}
	n, way := c.countOnce(ctx, true)
	least := pricing.Least(c.request)
	switch {
	case way != pricing.Estimate && n <= window, way == pricing.Estimate && least <= window && n <= 2*window:
		return nil
	case way == pricing.Estimate:
		n = max(n, least)
	}
	return c.fail(failure.ContextExceeded, "the request has %d tokens, the context window of the model has %d", n,
		window).
		WithDetail("tokens-in", edn.Int(n)).
		WithDetail("context-tokens", edn.Int(window)).
		WithDetail(countedBy, edn.K(string(way)))
}

// readInPart returns an error if the server has read only a part of the request: a server with a
// shorter context window may cut a request silently. A low token count alone is not a proof, since
// some servers do not count cached tokens. The proof is a window that is too short or, if the
// window is unknown, a count that a cut leaves (see cutTo). A low count without a proof is recorded
// in the metadata. Requests with images are not checked, because their number of tokens is unknown.
func (c *call) readInPart(ctx context.Context) *contract.Error {
	read := c.answer.Usage.In
	if read <= 0 || c.request.Images() > 0 {
		return nil
	}
	least := pricing.Least(c.request)
	low := least > smallWindow && 2*(read+c.answer.Usage.Cached) < least // some servers count cached tokens apart
	window, _ := c.model.Learned.Window(c.provider.Client.Clock().Now())
	if !low && !cutTo(read, window) {
		return nil
	}
	n, way := c.countOnce(ctx, false)
	window = c.loadedWindow(ctx, true) // it may have been loaded for this request
	if window == 0 {
		c.doubted = low && !cutTo(read, 0)
		if !low || c.doubted {
			return nil
		}
	} else if least <= window && (n <= window || !cutTo(read, window)) {
		return nil
	}
	n = max(n, least)
	e := c.fail(failure.ContextExceeded, "the request has %d tokens, the server read %d of them", n, read).
		WithDetail("tokens-in", edn.Int(n)).
		WithDetail("tokens-read", edn.Int(read)).
		WithDetail(countedBy, edn.K(string(way)))
	if window > 0 {
		e = e.WithDetail("context-tokens", edn.Int(window))
	}
	return e
}

// cutTo reports whether n is the number of tokens to which Ollama cuts a prompt above the window:
// the window itself or, in later versions, the first 4 tokens and half of the others (2,050 of
// 4,096; ollama, log line "truncating input prompt", 2026-11-28). If window is 0, unknown, it tries
// powers of two.
func cutTo(n, window int64) bool {
	const kept = 4
	if window > 0 {
		return n == window || n == kept+(window-kept)/2
	}
	for window = smallWindow; window <= 1<<20; window *= 2 {
		if cutTo(n, window) {
			return true
		}
	}
	return false
}

// loadedWindow returns the context window of the loaded model in tokens, as its server reports it;
// 0 if the server does not report it or not in time. It asks the server only if the known window is
// stale or again is set.
func (c *call) loadedWindow(ctx context.Context, again bool) int64 {
	m, client := c.model, c.provider.Client
	window, stale := m.Learned.Window(client.Clock().Now())
	if !stale && !again || m.Preset.WindowPath == "" {
		return window
	}
	ctx, cancel := transport.Within(ctx, client.Clock(), counting.Limit)
	defer cancel()
	x := client.GetBeside(m.Preset.WindowPath)
	defer x.Close()
	if body, ok := x.Whole(ctx); ok {
		if stated, ok := dialect.ReadWindow(m.wire(), body); ok {
			window = stated
		}
	}
	m.Learned.reads(window, client.Clock().Now())
	return window
}

// countedBy is the key that names how tokens were counted.
const countedBy = "tokens/counted-by"

// countOnce returns the number of tokens of the call's request and the counting method. It counts
// at the first call only; ask permits a request to the server.
func (c *call) countOnce(ctx context.Context, ask bool) (int64, pricing.Way) {
	if c.countedIn.way == "" {
		c.countedIn.n, c.countedIn.way = c.model.Counting.Request(ctx, c.model.at(c.provider), c.request, ask)
	}
	return c.countedIn.n, c.countedIn.way
}

// settle computes the usage of the call: the provider's figures, replaced by
// counted ones where they are missing or implausible. No request is made to
// verify stated figures.
func (c *call) settle(ctx context.Context) {
	ratio := &c.model.Counting.Ratio
	guessed := c.request.Images() > 0 && c.answer.Usage.In > 0
	estimated := pricing.Counted{
		In:  ratio.Apply(pricing.EstimateRequest(c.request)),
		Out: ratio.Apply(pricing.EstimateAnswer(c.answer)),
	}
	if guessed { // the tokens of an image are known only to the provider
		estimated.In = c.answer.Usage.In
	}
	best := estimated
	in, out := pricing.Doubts(c.answer.Usage, estimated, c.cut)
	if in {
		best.In, c.by.in = c.countOnce(ctx, c.answer.Usage.In < 0)
	}
	if out {
		best.Out, c.by.out = c.model.Counting.Answer(ctx, c.model.at(c.provider), c.answer, c.cut || c.answer.Usage.Out < 0)
	}
	c.spent = pricing.Settle(c.answer.Usage, best, c.cut)
	if c.spent.Mark == pricing.Exact {
		c.by.in, c.by.out = "", "" // the provider's figures are plausible
		if !guessed {
			ratio.Learn(c.spent.In, pricing.EstimateRequest(c.request))
		}
	}
}

// ways are the counting methods of figures that were missing or doubted; empty
// for stated figures.
type ways struct{ in, out pricing.Way }

func (w ways) value() edn.Value {
	var b edn.MapBuilder
	b.OptKeyword("in", string(w.in))
	b.OptKeyword("out", string(w.out))
	return b.Map()
}

// countQuestion counts the tokens of a request without sending it to the model. The intent of the
// request is in its context under the key Of.
func (p *Provider) countQuestion(
	ctx context.Context, m *Model, request edn.Value, to Sink,
) (edn.Value, *contract.Error) {
	c, err := p.unsent(m, request)
	if err != nil {
		return edn.Nil(), err
	}
	begun := p.Client.Clock().Now()
	n, way := m.Counting.Request(ctx, m.at(p), c.request, true)
	return p.counted(m, n, way, p.Client.Clock().Now().Sub(begun), to)
}

// Guess estimates the number of tokens of a Count request without a call to the server. It returns
// the whole response envelope, like Answer.
func (p *Provider) Guess(m *Model, request edn.Value, to Sink) (edn.Value, *contract.Error) {
	c, err := p.unsent(m, request)
	if err != nil {
		return edn.Nil(), err
	}
	return p.counted(m, m.Counting.Ratio.Apply(pricing.EstimateRequest(c.request)), pricing.Estimate, 0, to)
}

// unsent returns a call whose request is encoded but not sent.
func (p *Provider) unsent(m *Model, request edn.Value) (*call, *contract.Error) {
	intent := question.Word(request.Key("context").Key(Of))
	if intent == "" || intent == Count {
		intent = question.Chat
	}
	q, err := question.Read(intent, request, m.Options)
	if err != nil {
		return nil, err
	}
	c := &call{provider: p, model: m, question: q, answer: chat.NewAnswer()}
	if _, err := c.encode(); err != nil {
		return nil, err
	}
	return c, nil
}

// counted returns the response to a count: as data, and as a sentence that is also streamed to to.
// The response has no usage, because counting costs nothing.
func (p *Provider) counted(
	m *Model, n int64, way pricing.Way, took time.Duration, to Sink,
) (edn.Value, *contract.Error) {
	by := map[pricing.Way]string{
		pricing.Endpoint: "the server", pricing.Local: "the table of the model", pricing.Estimate: "length",
	}[way]
	text := fmt.Sprintf("%d tokens, counted by %s", n, by)
	if to.Text(text) != nil {
		return edn.Nil(), p.Report.Error(failure.Canceled, failure.Known{}, "the caller canceled the call")
	}
	mode := "deterministic"
	if way == pricing.Endpoint {
		mode = "live"
	}
	var out edn.MapBuilder
	out.Key("text", edn.Text(text))
	out.Key("tokens-in", edn.Int(n))
	out.Key(countedBy, edn.K(string(way)))
	if window := cmp.Or(m.Context, m.Traits.Window); window > 0 {
		out.Key("context-tokens", edn.Int(window))
	}
	return respond(out.Map(), nil, m.usage(mode, took, pricing.Tokens{Mark: pricing.Exact}), m.meta()), nil
}
