package answer

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
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

// Count is the intent that says how many tokens a request would take, without
// making it. Of is the key of its context that names the intent of that request.
const (
	Count = "model/count"
	Of    = "count/of"
)

// CountLimit is how long counting may take in one way. What is not counted by
// then is counted in the next one.
const CountLimit = 250 * time.Millisecond

// loadLimit is how long a table may take that is used for the first time.
const loadLimit = time.Second

// countAgain is how long an endpoint is left alone that did not count.
const countAgain = time.Minute

// Counting is how the tokens of one model are counted. It is safe for concurrent
// use.
type Counting struct {
	// Endpoint says that the server is asked. Table, if there is one, is asked
	// where that does not count; the estimate always does.
	Endpoint bool
	Table    pricing.Table
	// Ratio is what was learned about the estimate.
	Ratio pricing.Ratio

	mu    sync.Mutex
	after time.Time // until then the server is not asked
}

// asks tells whether the server is asked now.
func (k *Counting) asks(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Endpoint && !now.Before(k.after)
}

func (k *Counting) rest(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.after = now.Add(countAgain)
}

// count counts the tokens of a question. It always comes to something. The server is asked only if ask says so.
func (p *Provider) count(ctx context.Context, m *Model, r *chat.Request, ask bool) (int64, pricing.Way) {
	if ask && (m.Preset.CountField == "" || r.Images() == 0) && m.Counting.asks(p.Client.Clock().Now()) {
		if body, around, err := dialect.EncodeCount(m.Preset, r); err == nil {
			if n, ok := p.askCount(ctx, m, body); ok {
				return n + around, pricing.Endpoint
			}
		}
	}
	texts, around := pricing.Texts(r)
	if r.Images() > 0 { // which no table of texts knows
		return m.Counting.Ratio.Apply(pricing.EstimateRequest(r)), pricing.Estimate
	}
	if n, ok := m.Counting.byTable(ctx, p.Client.Clock(), texts); ok {
		return n + around, pricing.Local
	}
	return m.Counting.Ratio.Apply(pricing.EstimateRequest(r)), pricing.Estimate
}

// countAnswer counts the tokens of what has arrived.
func (p *Provider) countAnswer(ctx context.Context, m *Model, a *chat.Answer, ask bool) (int64, pricing.Way) {
	texts := pricing.AnswerTexts(a)
	if ask && m.Preset.CountField != "" && m.Counting.asks(p.Client.Clock().Now()) {
		if body, err := dialect.EncodeCountText(m.Preset, m.wire(), strings.Join(texts, "\n")); err == nil {
			if n, ok := p.askCount(ctx, m, body); ok {
				return n, pricing.Endpoint
			}
		}
	}
	if n, ok := m.Counting.byTable(ctx, p.Client.Clock(), texts); ok {
		return n, pricing.Local
	}
	return m.Counting.Ratio.Apply(pricing.EstimateAnswer(a)), pricing.Estimate
}

func (k *Counting) byTable(ctx context.Context, clock transport.Clock, texts []string) (int64, bool) {
	if k.Table == nil {
		return 0, false
	}
	loading, loaded := transport.Within(ctx, clock, loadLimit)
	ok := k.Table.Load(loading)
	loaded()
	if !ok {
		return 0, false
	}
	ctx, cancel := transport.Within(ctx, clock, CountLimit)
	defer cancel()
	var sum int64
	for _, text := range texts {
		n, ok := k.Table.Count(ctx, text)
		if !ok {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// askCount has the server count. One that does not, or not in time, is not asked
// again for a while, so that nobody waits for it call by call.
func (p *Provider) askCount(ctx context.Context, m *Model, body []byte) (int64, bool) {
	ctx, cancel := transport.Within(ctx, p.Client.Clock(), CountLimit)
	defer cancel()
	post := p.Client.Post
	if m.Preset.CountField != "" {
		post = p.Client.PostBeside
	}
	x := post(m.Preset.CountPath, body)
	defer x.Close()
	text, ok := whole(ctx, x)
	n, counted := dialect.ReadCount(text)
	if ok && counted {
		return n, true
	}
	if ctx.Err() == nil || context.Cause(ctx) == context.DeadlineExceeded { // and nobody went away
		m.Counting.rest(p.Client.Clock().Now())
	}
	return 0, false
}

// whole is the body of an exchange that went well.
func whole(ctx context.Context, x *transport.Exchange) ([]byte, bool) {
	head, fault := x.Head(ctx)
	if fault != nil || head.Status != http.StatusOK {
		return nil, false
	}
	body, fault := x.All(ctx)
	return body, fault == nil
}

// smallWindow is a window that every server has: shorter requests are not weighed
// where none is configured.
const smallWindow = 2048

// weigh refuses, before anything is spent, a question that the model cannot read.
// It is counted only if its length leaves a doubt. An estimate may be wrong by a
// factor of two, and refuses only what is longer than that.
func (c *call) weigh(ctx context.Context) *contract.Error {
	most := pricing.Most(c.request)
	window := c.model.Context
	if window == 0 && most > smallWindow {
		window = c.loadedWindow(ctx)
	}
	if window == 0 || most <= window {
		return nil
	}
	n, way := c.countOnce(ctx, true)
	if n <= window || way == pricing.Estimate && n <= 2*window {
		return nil
	}
	return c.fail(failure.ContextExceeded, "the request has %d tokens, the model reads %d", n, window).
		WithDetail("tokens-in", edn.Int(n)).WithDetail("context-tokens", edn.Int(window)).WithDetail(countedBy, edn.K(string(way)))
}

// loadedWindow is how many tokens the loaded model reads, as its server says; 0
// where it does not, or not in time.
func (c *call) loadedWindow(ctx context.Context) int64 {
	m, client := c.model, c.provider.Client
	window, stale := m.Learned.Window(client.Clock().Now())
	if !stale || m.Preset.WindowPath == "" {
		return window
	}
	ctx, cancel := transport.Within(ctx, client.Clock(), CountLimit)
	defer cancel()
	x := client.GetBeside(m.Preset.WindowPath)
	defer x.Close()
	if body, ok := whole(ctx, x); ok {
		window = dialect.ReadWindow(m.wire(), body)
	}
	m.Learned.reads(window, client.Clock().Now())
	return window
}

// countedBy is the key that says how tokens were counted.
const countedBy = "tokens/counted-by"

// countOnce counts the question of a call, once.
func (c *call) countOnce(ctx context.Context, ask bool) (int64, pricing.Way) {
	if c.countedIn.way == "" {
		c.countedIn.n, c.countedIn.way = c.provider.count(ctx, c.model, c.request, ask)
	}
	return c.countedIn.n, c.countedIn.way
}

// settle works out what the call took: as the provider stated it, and as it is
// counted here where that says nothing or cannot be. Nobody is asked whether what
// he stated is right.
func (c *call) settle(ctx context.Context) {
	ratio := &c.model.Counting.Ratio
	guessed := c.request.Images() > 0 && c.answer.Usage.In >= 0
	estimated := pricing.Counted{In: ratio.Apply(pricing.EstimateRequest(c.request)), Out: ratio.Apply(pricing.EstimateAnswer(c.answer))}
	if guessed { // an image takes what the provider says
		estimated.In = c.answer.Usage.In
	}
	best := estimated
	in, out := pricing.Doubts(c.answer.Usage, estimated, c.cut)
	if in {
		best.In, c.by.in = c.countOnce(ctx, c.answer.Usage.In < 0)
	}
	if out {
		best.Out, c.by.out = c.provider.countAnswer(ctx, c.model, c.answer, c.cut || c.answer.Usage.Out < 0)
	}
	c.spent = pricing.Settle(c.answer.Usage, best, c.cut)
	if c.spent.Mark == pricing.Exact {
		c.by.in, c.by.out = "", "" // the provider was right
		if !guessed {
			ratio.Learn(c.spent.In, pricing.EstimateRequest(c.request))
		}
	}
}

// ways are how the figures of a call were counted that nobody stated, or that
// were doubted; empty for those that were taken as they were.
type ways struct{ in, out pricing.Way }

func (w ways) value() edn.Value {
	var b edn.MapBuilder
	if w.in != "" {
		b.Key("in", edn.K(string(w.in)))
	}
	if w.out != "" {
		b.Key("out", edn.K(string(w.out)))
	}
	return b.Map()
}

// countQuestion answers how many tokens a request would take. The request is the
// one that would be made, but for its intent, which stands in its context.
func (p *Provider) countQuestion(ctx context.Context, m *Model, request edn.Value, to Sink) (edn.Value, *contract.Error) {
	c, err := p.unsent(m, request)
	if err != nil {
		return edn.Nil(), err
	}
	begun := p.Client.Clock().Now()
	n, way := p.count(ctx, m, c.request, true)
	return p.counted(m, n, way, p.Client.Clock().Now().Sub(begun), to)
}

// Guess answers the same without asking anybody.
func (p *Provider) Guess(m *Model, request edn.Value, to Sink) (edn.Value, *contract.Error) {
	c, err := p.unsent(m, request)
	if err != nil {
		return edn.Nil(), err
	}
	return p.counted(m, m.Counting.Ratio.Apply(pricing.EstimateRequest(c.request)), pricing.Estimate, 0, to)
}

// unsent is a call whose request is written and stays here.
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

// counted is the response to a question for a count: for programs, and as a
// sentence, which is streamed as everything is that a model says. Counting takes
// no tokens.
func (p *Provider) counted(m *Model, n int64, way pricing.Way, took time.Duration, to Sink) (edn.Value, *contract.Error) {
	by := map[pricing.Way]string{pricing.Endpoint: "the server", pricing.Local: "the table of the model", pricing.Estimate: "length"}[way]
	text := fmt.Sprintf("%d tokens, counted by %s", n, by)
	if to.Text(text) != nil {
		return edn.Nil(), p.Report.Error(failure.Canceled, failure.Known{}, "the caller went away")
	}
	mode := "deterministic"
	if way == pricing.Endpoint {
		mode = "live"
	}
	var out, u, result, response, meta edn.MapBuilder
	out.Key("text", edn.Text(text))
	out.Key("tokens-in", edn.Int(n))
	out.Key(countedBy, edn.K(string(way)))
	if m.Context > 0 {
		out.Key("context-tokens", edn.Int(m.Context))
	}
	u.Key("mode", edn.K(mode))
	u.Key("latency-ms", edn.Int(took.Milliseconds()))
	u.Key("tokens-in", edn.Int(0))
	u.Key("tokens-out", edn.Int(0))
	u.Key("tokens-mark", edn.K(string(pricing.Exact)))
	m.cost(&u, pricing.Tokens{Mark: pricing.Exact})
	result.Key("type", edn.K("value"))
	result.Key("out", out.Map())
	result.Key("usage", u.Map())
	meta.Key("model", edn.Text(m.Name))
	meta.Key("finish", edn.K(string(chat.Stop)))
	response.Key("result", result.Map())
	response.Key("invoke/meta", meta.Map())
	return response.Map(), nil
}
