package sdk

import (
	"context"
	"errors"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// errDrained is the cause of calls canceled at the deadline of a drain.
var errDrained = contract.Errorf("runtime/not-ready", "the call did not end before the deadline of the drain")

// Invoke implements wire.Service.
func (s *Service) Invoke(ctx context.Context, c wire.Call, out *wire.Emitter) (_ edn.Value, err error) {
	set := s.setup.Load()
	if set == nil {
		return edn.Nil(), contract.Errorf("runtime/not-ready", "invoke: the plugin is not configured")
	}
	if !c.Request.IsMap() {
		return edn.Nil(), contract.Errorf("runtime/protocol",
			"invoke: the request is not an envelope: expected a map, got %s", c.Request.Kind()).
			WithHint("send a map with :task and :input")
	}
	task := c.Request.Key("task")
	k := &call{
		ctx:      c.Context,
		encoding: c.Encoding,
		request:  c.Request,
		intent:   word(task.Key("intent")),
		capID:    word(task.Key("cap/id")),
		stream:   &Stream{out: out},
	}
	capability, err := set.find(k)
	if err != nil {
		return edn.Nil(), err
	}
	k.mode = capability.mode
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pass, refused := s.gate.enter(&capability.slot, cancel)
	switch refused {
	case refuseClosed:
		return edn.Nil(), contract.Errorf("runtime/not-ready", "invoke %s: the plugin is draining", k.capID).
			WithDetail("reason", edn.K("draining"))
	case refuseFull:
		return edn.Nil(), contract.Errorf("runtime/overloaded", "invoke %s: the limit of calls in flight is reached",
			k.capID).
			WithHint("try again when a call of the plugin has ended")
	}
	defer s.gate.leave(pass)
	defer s.recovered("invoke "+k.capID, &err)
	response, err := capability.handle((&scope{plugin: s, setup: set, call: k}).in(ctx), k)
	if err != nil {
		return k.failure(failureOf(ctx, k.capID, err))
	}
	return response, nil
}

// find returns the capability that the request names, or the only one that
// serves its intent.
func (set *setup) find(k *call) (*served, error) {
	if k.capID != "" {
		if c := set.capabilities[k.capID]; c != nil {
			return c, nil
		}
		return nil, contract.Errorf("cap/not-found", "invoke: this plugin has no capability %s", k.capID).
			WithSource(contract.SourcePlugin)
	}
	var found *served
	for id, c := range set.capabilities {
		if !c.serves(k.intent) {
			continue
		}
		if found != nil {
			return nil, contract.Errorf("runtime/protocol",
				"invoke: several capabilities serve %s and the request names none", k.intent).
				WithHint("name the capability in :cap/id of the :task")
		}
		found, k.capID = c, id
	}
	if found == nil {
		return nil, contract.Errorf("unsupported/intent", "invoke: this plugin has no capability for %s", k.intent).
			WithHint("`ferment plugin inspect` lists the intents of the plugin")
	}
	return found, nil
}

func (c *served) serves(intent string) bool {
	if len(c.meta.Intents) == 0 {
		return true
	}
	for _, name := range c.meta.Intents {
		if name == intent {
			return true
		}
	}
	return false
}

// failureOf returns the error of a function with an error type. If the context of
// the call has ended for a typed cause, that cause replaces an untyped error.
func failureOf(ctx context.Context, capID string, err error) error {
	if ctx.Err() != nil && !isTyped(err) {
		if cause := context.Cause(ctx); isTyped(cause) {
			return cause
		}
	}
	if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		// A context of the author ended, not the context of the call.
		var e *contract.Error
		if !errors.As(err, &e) {
			return contract.Errorf("runtime/invoke-failed", "%s: a context of the capability ended: %s", capID, err)
		}
	}
	return typed(err, "runtime/invoke-failed", capID)
}

func isTyped(err error) bool {
	e := contract.AsError(err)
	return e != nil && e.Type != "runtime/internal" && e.Type != "canceled" && e.Type != "timeout/hard"
}
