package counting

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/pricing"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
)

// Limit is the timeout of one counting method. When it expires, the next method
// counts.
const Limit = 250 * time.Millisecond

// loadLimit is the timeout for the first use of a table.
const loadLimit = time.Second

// countAgain is the pause after an endpoint failed to count.
const countAgain = time.Minute

// Server is the model server that a Counting can use for counting.
type Server struct {
	Client *transport.Client
	Preset dialect.Preset
	Model  string // its name in requests
}

// Counting counts the tokens of one model. It is safe for concurrent use.
type Counting struct {
	// Endpoint makes the server count first. Table, if not nil, counts if the
	// server does not; otherwise the tokens are estimated.
	Endpoint bool
	Table    pricing.Table
	// Ratio corrects the estimate.
	Ratio pricing.Ratio

	mu    sync.Mutex
	after time.Time // the server is not asked before
}

// asks reports whether the server is asked now.
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

// Request counts the tokens of a request: by the server if ask is true and it
// can count, else by the table, else by an estimate. It returns the method.
func (k *Counting) Request(ctx context.Context, on Server, r *chat.Request, ask bool) (int64, pricing.Way) {
	if ask && (on.Preset.CountField == "" || r.Images() == 0) && k.asks(on.Client.Clock().Now()) {
		if body, around, err := dialect.EncodeCount(on.Preset, r); err == nil {
			if n, ok := k.askCount(ctx, on, body); ok {
				return n + around, pricing.Endpoint
			}
		}
	}
	texts, around := pricing.Texts(r)
	if r.Images() > 0 { // no text table counts images
		return k.Ratio.Apply(pricing.EstimateRequest(r)), pricing.Estimate
	}
	if n, ok := k.byTable(ctx, on.Client.Clock(), texts); ok {
		return n + around, pricing.Local
	}
	return k.Ratio.Apply(pricing.EstimateRequest(r)), pricing.Estimate
}

// Answer counts the tokens of an answer that were received so far: by the server if ask is true and
// its endpoint counts plain texts, else by the table, else by an estimate. It returns the method.
func (k *Counting) Answer(ctx context.Context, on Server, a *chat.Answer, ask bool) (int64, pricing.Way) {
	texts := pricing.AnswerTexts(a)
	if ask && on.Preset.CountField != "" && k.asks(on.Client.Clock().Now()) {
		if body, err := dialect.EncodeCountText(on.Preset, on.Model, strings.Join(texts, "\n")); err == nil {
			if n, ok := k.askCount(ctx, on, body); ok {
				return n, pricing.Endpoint
			}
		}
	}
	if n, ok := k.byTable(ctx, on.Client.Clock(), texts); ok {
		return n, pricing.Local
	}
	return k.Ratio.Apply(pricing.EstimateAnswer(a)), pricing.Estimate
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
	ctx, cancel := transport.Within(ctx, clock, Limit)
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

// askCount asks the server to count. After an error or a timeout it is not
// asked again for countAgain, so that calls do not wait for it each time.
func (k *Counting) askCount(ctx context.Context, on Server, body []byte) (int64, bool) {
	ctx, cancel := transport.Within(ctx, on.Client.Clock(), Limit)
	defer cancel()
	post := on.Client.Post
	if on.Preset.CountField != "" {
		post = on.Client.PostBeside
	}
	x := post(on.Preset.CountPath, body)
	defer x.Close()
	text, ok := x.Whole(ctx)
	n, counted := dialect.ReadCount(text)
	if ok && counted {
		return n, true
	}
	if ctx.Err() == nil || context.Cause(ctx) == context.DeadlineExceeded { // the caller has not canceled
		k.rest(on.Client.Clock().Now())
	}
	return 0, false
}
