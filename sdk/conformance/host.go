package conformance

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Host is a host for tests: it keeps state in memory, answers calls of the
// plugin with the functions set for their intents, and records the calls.
// Without a function for it, capability/describe has an answer for every
// reference. The zero value is ready to use. It is safe for concurrent use.
type Host struct {
	mu      sync.Mutex
	stored  map[string]wire.Stored
	answers map[string]wire.Answerer
	others  wire.Answerer
	calls   []wire.Call

	stateRequests int
	stateError    error
}

var _ wire.Host = (*Host)(nil)

var placeholder = regexp.MustCompile(`\{\{[a-z][a-z0-9/-]*(\.[a-z][a-z0-9/-]*)*\}\}`)

// Answer sets the answer to host calls for intent.
func (h *Host) Answer(intent string, answer wire.Answerer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answers == nil {
		h.answers = map[string]wire.Answerer{}
	}
	h.answers[intent] = answer
}

// answerOthers sets the answer to host calls for intents without Answer.
func (h *Host) answerOthers(answer wire.Answerer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.others = answer
}

// failState makes every request of state fail with err.
func (h *Host) failState(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stateError = err
}

// AnswerValue makes the host answer intent with out. In a text of out, {{a.b}}
// is replaced by the text at the keyword path a, b of the request, such as
// {{input.verdict.code}}; without a text there it stays.
func (h *Host) AnswerValue(intent string, out edn.Value) {
	h.Answer(intent, func(_ context.Context, call wire.Call, _ *wire.Emitter) (edn.Value, error) {
		filled, err := out.Walk(nil, func(v edn.Value) edn.Value {
			text, ok := v.AsString()
			if !ok {
				return v
			}
			return edn.Text(placeholder.ReplaceAllStringFunc(text, func(found string) string {
				at := call.Request
				for key := range strings.SplitSeq(found[2:len(found)-2], ".") {
					at = at.Key(key)
				}
				if said, ok := at.AsString(); ok {
					return said
				}
				return found
			}))
		})
		if err != nil {
			return edn.Nil(), err
		}
		return edn.MustMap(edn.K("result"), edn.MustMap(edn.K("type"), edn.K("value"), edn.K("out"), filled)), nil
	})
}

// Calls returns the calls that the plugin made, in order.
func (h *Host) Calls() []wire.Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// Invoke implements wire.Host.
func (h *Host) Invoke(ctx context.Context, call wire.Call, out *wire.Emitter) (edn.Value, error) {
	intent, _ := call.Request.Key("task").Key("intent").AsKeyword()
	h.mu.Lock()
	h.calls = append(h.calls, call)
	answer := h.answers[intent]
	if answer == nil && intent == contract.DescribeIntent {
		answer = describeAny
	}
	if answer == nil {
		answer = h.others
	}
	h.mu.Unlock()
	if answer == nil {
		return edn.Nil(), contract.Errorf("unsupported/intent", "the test host has no answer for %s", intent)
	}
	return answer(ctx, call, out)
}

// describeAny answers capability/describe: every intent, and every capability under
// an intent of the same name, takes and returns any map.
func describeAny(_ context.Context, call wire.Call, _ *wire.Emitter) (edn.Value, error) {
	var all []edn.Value
	i := int64(0)
	for ref := range call.Request.Key("input").Key("refs").Elems() {
		intent := ref
		if id, ok := contract.HandleOf(ref); ok {
			intent = edn.K(id)
		}
		all = append(all, edn.MustMap(
			edn.K("index"), edn.Int(i), edn.K("intent"), intent, edn.K("cap/kind"), edn.K("tool"),
			edn.K("in-schema"), edn.K("map"), edn.K("out-schema"), edn.K("map"),
			edn.K("effects"), edn.Keywords("none"),
		))
		i++
	}
	return contract.ValueResult(edn.MustMap(edn.K("callables"), edn.Vector(all...))), nil
}

// State implements wire.Host.
func (h *Host) State(_ context.Context, change wire.StateChange) (wire.Stored, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stateRequests++
	if h.stateError != nil {
		return wire.Stored{}, h.stateError
	}
	now := h.stored[change.Key]
	if change.Op == wire.StateGet {
		return now, nil
	}
	if change.IfVersion != nil && *change.IfVersion != now.Version {
		now.Conflict = true
		return now, nil
	}
	if change.Op == wire.StateDelete {
		delete(h.stored, change.Key)
		return wire.Stored{}, nil
	}
	if h.stored == nil {
		h.stored = map[string]wire.Stored{}
	}
	now = wire.Stored{Value: change.Value, Version: now.Version + 1}
	h.stored[change.Key] = now
	return now, nil
}
