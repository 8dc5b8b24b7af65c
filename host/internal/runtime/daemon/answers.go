package daemon

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Answers implements httpapi.Control. With a store, the answers are kept for
// store.retain.key_window, like the idempotency keys of acts; without one they are in memory.
func (c control) Answers() httpapi.Answers {
	if c.store == nil {
		return &c.answers
	}
	_, l := c.now()
	return keptAnswers{c.store, l.Store.KeyWindow}
}

// keptAnswers implements httpapi.Answers with a store.
type keptAnswers struct {
	store  *store.Store
	window time.Duration
}

// Begin implements httpapi.Answers.
func (k keptAnswers) Begin(ctx context.Context, key, print string) (*httpapi.KnownAnswer, error) {
	now := time.Now()
	known, err := k.store.BeginAnswer(ctx, key, print, now, now.Add(-k.window))
	if known == nil || err != nil {
		return nil, err
	}
	return &httpapi.KnownAnswer{Print: known.Print, Status: known.Status, Body: known.Body}, nil
}

// End implements httpapi.Answers.
func (k keptAnswers) End(ctx context.Context, key string, status int, body edn.Value) error {
	return k.store.EndAnswer(ctx, key, status, body)
}

// Forget implements httpapi.Answers.
func (k keptAnswers) Forget(ctx context.Context, key string) error {
	return k.store.ForgetAnswer(ctx, key)
}
