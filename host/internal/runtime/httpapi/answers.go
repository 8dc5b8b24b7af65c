package httpapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Answers stores the responses to admin actions by idempotency key (HTTP-008). Keys and prints are
// hashes: of the caller with its key, and of the action. Its methods are safe for concurrent use.
type Answers interface {
	// Begin records that an action begins under a key and returns nil. If the key is already
	// stored, it returns the stored entry and changes nothing.
	Begin(ctx context.Context, key, print string) (*KnownAnswer, error)
	// End stores the response to an action that has begun. Forget deletes its key, so that it can
	// begin again.
	End(ctx context.Context, key string, status int, body edn.Value) error
	Forget(ctx context.Context, key string) error
}

// KnownAnswer is the stored entry of an idempotency key.
type KnownAnswer struct {
	Print  string // hash of the action
	Status int    // HTTP status; 0: the action has begun, its outcome is unknown
	Body   edn.Value
}

// actionKey returns the hash of the idempotency key of an action; empty if the request has none.
// The error is idempotency/invalid-key.
func (x *exchange) actionKey(t *actionTable, a *Action, body edn.Value) (string, *contract.Error) {
	key, err := x.sentKey()
	switch {
	case err != nil || key == "":
		return "", err
	case t != x.api.actions:
		return "", contract.Errorf("idempotency/invalid-key", "actions on sessions take no idempotency key").
			WithHint("send the request without the key; :session/version protects against a repeated write")
	case body.HasKey("password"):
		return "", contract.Errorf("idempotency/invalid-key", "an action with a password takes no idempotency key: the password would have to be kept").
			WithHint("send the request without the key; it can be repeated")
	}
	return edn.Hash(edn.Vector(edn.Text(x.who.Name), edn.K(a.Operation()), edn.Text(key))), nil
}

// maxKeptAnswer is the maximum size of a stored answer as EDN in bytes. An action with a larger
// answer is executed again by a repeated request.
const maxKeptAnswer = 256 << 10

// keepLimit is the time limit for storing an answer.
const keepLimit = 10 * time.Second

// keyUse is the outcome of an action with an idempotency key.
type keyUse uint8

const (
	keyRefused  keyUse = iota // the action was not executed
	keyExecuted               // the action was executed
	keyReplayed               // the response is that of an earlier request
)

// failureIn returns the error in the body of a response; nil if there is none.
func failureIn(body edn.Value) *contract.Error {
	if e := body.Key("error"); !e.IsNil() {
		return contract.ErrorFromValue(e, contract.SourceHost)
	}
	return nil
}

// once executes an action, unless one was executed with its key: then it returns that response. If
// an action with the same key is in progress, once waits for it. An action continues when its
// caller disconnects; the caller can get the response with the key later.
func (x *exchange) once(
	answers Answers, a *Action, key string, body edn.Value, execute func(context.Context) reply,
) (r reply, use keyUse) {
	ctx := x.r.Context()
	release, err := x.api.executing.hold(ctx, key)
	if err != nil {
		return formAdmin.failure(err), keyRefused
	}
	defer release()
	print := edn.Hash(body.AssocKey("action", edn.K(a.Operation())))
	known, fault := answers.Begin(ctx, key, print)
	switch {
	case fault != nil:
		return formAdmin.failure(unkept(fault)), keyRefused
	case known == nil:
	case known.Print != print:
		return formAdmin.failure(contract.Errorf("idempotency/mismatch", "the idempotency key belongs to another request of %s", a.Operation()).
			WithHint("use a new key for a new request")), keyRefused
	case known.Status == 0:
		return formAdmin.failure(contract.Errorf("effects/outcome-unknown",
			"%s with this idempotency key has begun and has no answer: its daemon ended before, or another host of the database executes it", a.Operation()).
			WithHint("check whether it took effect; if not, and if no host executes it, " +
				"send it again with another key")), keyRefused
	default:
		x.replayed()
		return reply{status: known.Status, body: known.Body, err: failureIn(known.Body)}, keyReplayed
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(x.api.working, stop)()
	r = execute(working)
	if r.err != nil && working.Err() != nil {
		return r, keyExecuted // it was cut off, and it is not known what it has done
	}
	kept := r.body
	if a.Secret != "" && r.err == nil {
		kept = kept.AssocKey("result", kept.Key("result").Dissoc(edn.K(a.Secret)))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	if r.err != nil && (r.err.Retryable || r.err.Type == "canceled") || len(kept.String()) > maxKeptAnswer {
		fault = answers.Forget(ctx, key)
	} else {
		fault = answers.End(ctx, key, r.status, kept)
	}
	if fault != nil {
		return formAdmin.failure(unkept(fault)), keyExecuted
	}
	return r, keyExecuted
}

func unkept(fault error) *contract.Error {
	return contract.Errorf("journal/unavailable", "the idempotency key cannot be recorded: %w", fault)
}

// executing holds the keys of the actions in progress. The zero value is ready to use.
type executing struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when the action has ended
}

// hold waits until no action in progress has the key, and then takes it until release is called.
func (e *executing) hold(ctx context.Context, key string) (release func(), err *contract.Error) {
	for {
		e.mu.Lock()
		busy := e.held[key]
		if busy == nil {
			break
		}
		e.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, contract.Errorf("canceled", "the caller closed the request while it waited for another one with its idempotency key")
		}
	}
	defer e.mu.Unlock()
	if e.held == nil {
		e.held = map[string]chan struct{}{}
	}
	done := make(chan struct{})
	e.held[key] = done
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.held, key)
		close(done)
	}, nil
}

// maxAnswers is the maximum number of entries in a MemoryAnswers.
const maxAnswers = 1024

// MemoryAnswers keeps the latest maxAnswers entries in memory. The zero value is empty and ready to
// use. It is safe for concurrent use.
type MemoryAnswers struct {
	mu    sync.Mutex
	byKey map[string]KnownAnswer
	order []string // keys, oldest first
}

var _ Answers = (*MemoryAnswers)(nil)

// Begin implements Answers.
func (m *MemoryAnswers) Begin(_ context.Context, key, print string) (*KnownAnswer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.byKey[key]; ok {
		return &known, nil
	}
	if m.byKey == nil {
		m.byKey = map[string]KnownAnswer{}
	}
	m.byKey[key], m.order = KnownAnswer{Print: print}, append(m.order, key)
	for len(m.order) > maxAnswers {
		delete(m.byKey, m.order[0])
		m.order = m.order[1:]
	}
	return nil, nil
}

// End implements Answers.
func (m *MemoryAnswers) End(_ context.Context, key string, status int, body edn.Value) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.byKey[key]; ok {
		known.Status, known.Body = status, body
		m.byKey[key] = known
	}
	return nil
}

// Forget implements Answers.
func (m *MemoryAnswers) Forget(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
	m.order = slices.DeleteFunc(m.order, func(k string) bool { return k == key })
	return nil
}
