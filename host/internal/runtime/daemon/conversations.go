package daemon

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// keepTalk creates the services of sessions and conversations with their stores.
func (h *Host) keepTalk(sessions session.Store, conversations conversation.Store, loaded *setup.Loaded) {
	h.sessions = session.New(sessions, loaded.Session.Rules, h.tellPlugins, nil)
	h.conversations = conversation.New(conversations, h.sessions, conversationRules(loaded), nil)
}

// conversationRules returns the rules of conversations, which are those of the turns of sessions
// (CNV-028).
func conversationRules(loaded *setup.Loaded) conversation.Rules {
	r := loaded.Session.Rules
	return conversation.Rules{Window: r.Window, SummaryChars: r.SummaryChars}
}

// asker is the plugin name under which the host calls models for a conversation.
const asker = "ferment"

// converse executes a call to a conversation capability of the host. Requests within the call have
// the same bounds as those of a plugin, and the effects that the node permits.
func (x executor) converse(ctx context.Context, call dispatch.Call) (dispatch.Answer, error) {
	ctx, release := wire.UntilStopped(ctx, call.Stop, func() *contract.Error {
		return contract.Errorf("canceled", "the answer is no longer needed")
	})
	defer release()
	who, denied := x.talker(call)
	if denied != nil {
		return dispatch.Answer{}, denied
	}
	n := 0
	intent, _ := call.Request.Key("task").Key("intent").AsKeyword()
	out, err := x.host.conversations.Do(ctx, conversation.Call{
		Caller:  who,
		Intent:  intent,
		Input:   call.Request.Key("input"),
		Session: call.Session,
		Run:     call.Run,
		Path:    call.Path,
		Key:     call.EffectKey,
		Again:   call.Attempt > 1,
		Serves: func(intent string) bool {
			_, known := x.registry.Intent(intent)
			return known && len(x.registry.Candidates(intent)) > 0
		},
		Ask: func(ctx context.Context, request edn.Value, show func(edn.Value)) (edn.Value, *contract.Error) {
			n++
			return x.ask(ctx, call, n, request, show)
		},
		Show:  call.OnDelta,
		Event: call.OnProgress,
	})
	if err != nil {
		return dispatch.Answer{}, err
	}
	return dispatch.Answer{Response: contract.ValueResult(out).AssocKey("trace", call.Trace)}, nil
}

// talker returns the caller of a call in the form in which conversations check their owner. The
// error is policy/blocked for a call on the account of another principal, which replays a run and
// may not use the conversations of others.
func (x executor) talker(call dispatch.Call) (session.Caller, *contract.Error) {
	who := session.Caller{
		Principal: call.Principal,
		Any:       x.access.Denied(policy.AnySession, call.Caller) == nil,
	}
	for of := range call.Caller.Each() {
		if of.Narrow == nil || of.Narrow.Session == "" {
			continue
		}
		if who.Only != "" && who.Only != of.Narrow.Session {
			return who, contract.Errorf("policy/blocked", "the callers are limited to different sessions: %s and %s",
				who.Only, of.Narrow.Session)
		}
		who.Only = of.Narrow.Session
	}
	for _, also := range call.Caller.Also {
		if also.Same || also.Name == call.Principal {
			continue
		}
		if err := x.access.Denied(policy.AnySession, also); err != nil {
			return who, err
		}
	}
	return who, nil
}

// resolved returns the call of an agent with the messages of the conversation that its input refers
// to. Earlier turns that do not fit and have no summary are left out, because making a summary is
// an act of its own. Other calls are returned unchanged.
func (x executor) resolved(ctx context.Context, call dispatch.Call) (dispatch.Call, error) {
	if intent, _ := call.Request.Key("task").Key("intent").AsKeyword(); intent != conversation.AgentIntent {
		return call, nil
	}
	if call.Behalf.Conversation != "" { // the host has set the conversation
		return call, nil
	}
	call.Request = call.Request.AssocKey("input", call.Request.Key("input").Dissoc(edn.K("agent/parent")))
	who, denied := x.talker(call)
	if denied != nil {
		return call, denied
	}
	input, err := x.host.conversations.Resolve(ctx, conversation.Call{
		Caller: who,
		Input:  call.Request.Key("input"),
		Serves: func(string) bool { return false },
	})
	if err != nil {
		return call, err
	}
	call.Request = call.Request.AssocKey("input", input)
	call.Behalf = behalfOf(call, input)
	return call, nil
}

// behalfOf returns the conversation and turn that the input of an agent names, for requests within
// the call.
func behalfOf(call dispatch.Call, input edn.Value) dispatch.Behalf {
	out := dispatch.Behalf{Principal: call.Principal, Unkept: call.Shadow || call.Behalf.Unkept}
	out.Conversation, _ = input.Key("conversation/id").AsString()
	out.Turn, _ = input.Key("turn/id").AsString()
	return out
}

// ask executes the n-th request within a call. show, if not nil, receives the streamed pieces.
func (x executor) ask(ctx context.Context, call dispatch.Call, n int, request edn.Value, show func(edn.Value)) (edn.Value, *contract.Error) {
	granted := contract.Handles(call.Request.Key("input"))
	call.Effects, call.Scope = call.Allowed, call.AllowedScope
	emit := func(piece edn.Value) error {
		if show != nil {
			show(piece)
		}
		return nil
	}
	request = request.AssocKey("proto", edn.Int(contract.Proto))
	if show != nil {
		request = request.AssocKey("stream?", edn.Bool(true))
	}
	response, err := hostCalls{x.host}.invoke(ctx, plugin.HostCall{
		Plugin: asker, Parent: call, N: n, Granted: granted, Request: request, Emit: emit,
	}, behalfOf(call, request.Key("input")))
	if err != nil {
		return edn.Nil(), contract.AsError(err)
	}
	if failure := response.Key("error"); !failure.IsNil() {
		return edn.Nil(), contract.ErrorFromValue(failure, contract.SourceHost)
	}
	return response, nil
}
