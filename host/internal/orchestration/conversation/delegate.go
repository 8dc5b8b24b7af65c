package conversation

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Delegation is a task that one agent gives to another. The answer is stored in a
// conversation of its own, spawned from the conversation of the first agent (CNV-014).
type Delegation struct {
	// Owner is the principal for whom the first agent runs, Session the session of its run.
	Owner, Session string
	// Conversation and Turn are the conversation and the turn that the first agent answers.
	Conversation, Turn string
	// Run and Path are the run and the path of the node that delegates. A repeated request
	// with the same Input at the same place is the same delegation.
	Run  string
	Path edn.Value
	// Agent is the capability that delegates, Input the input of the agent that is called.
	Agent string
	Input edn.Value
}

// Delegated is the conversation of a delegation.
type Delegated struct {
	ID    string
	Depth int // number of spawned conversations on the way to this one, itself included
	key   string
	by    Call
}

// Delegate creates the conversation of a delegation, with the task as its first turn, or returns
// the existing one of the same delegation. The conversation is archived, so that lists omit it. The
// errors are those of :conversation/spawn, such as conversation/too-large for a depth above 3.
func (s *Service) Delegate(ctx context.Context, d Delegation) (out Delegated, err *contract.Error) {
	task, err := messagesOf(d.Input)
	if err != nil {
		return out, err
	}
	hash := edn.Hash(edn.Vector(edn.Text(d.Run), d.Path, edn.Text(d.Conversation), edn.Text(d.Agent), d.Input))
	out.key = "delegate-" + hash[strings.IndexByte(hash, ':')+1:]
	out.ID = "c-" + strings.TrimPrefix(out.key, "delegate-")[:32]
	in := edn.MustMap(edn.K(keyID), edn.Text(d.Conversation), edn.K(keyNew), edn.Text(out.ID))
	if turns.ParseTurn(d.Turn) != 0 {
		in = in.AssocKey(keyTurn, edn.Text(d.Turn))
	}
	// The conversation and turn of the first agent were checked when it was called.
	out.by = Call{
		Caller:  session.Caller{Principal: d.Owner, Any: true},
		Intent:  "conversation/spawn",
		Input:   in,
		Session: d.Session,
		Run:     d.Run,
		Path:    d.Path,
		Key:     out.key,
		task:    task,
	}
	if _, err = s.spawn(ctx, &out.by); err != nil {
		return out, err
	}
	return out, failed("read conversation "+out.ID, s.store.Read(ctx, out.ID, func(r Reader) error {
		of, found := r.Conversation()
		if !found {
			return notFound(out.ID)
		}
		out.Depth = of.From.Depth
		return nil
	}))
}

// Return commits the messages of the answer of the called agent to the conversation of the
// delegation. It returns the response for the first agent, whose :out also has the text of the last
// message and the id of the conversation. Repeating it commits nothing new. The error is
// schema/invalid if the answer is not a map, or one of :conversation/append.
func (s *Service) Return(ctx context.Context, d Delegated, response edn.Value) (edn.Value, *contract.Error) {
	out := response.Key("result").Key("out")
	if !out.IsMap() {
		return edn.Nil(), contract.Errorf("schema/invalid",
			"the answer of the called agent: expected a map, got %s", out.Kind()).WithSource(contract.SourcePlugin)
	}
	var said []conversation.Message
	if out.Key("messages").Len() > 0 {
		var err *contract.Error
		by := d.by
		by.Key, by.Intent = d.key+"-result", "conversation/append"
		if said, err = by.agentMessages(response); err != nil {
			return edn.Nil(), err
		}
		_, err = s.change(ctx, &by, d.ID, anyVersion, func(st state) (commit, *contract.Error) {
			do := turns.Append(st.Turns, said)
			return commit{Change: do}, follows(st, do)
		})
		if err != nil {
			return edn.Nil(), err
		}
	}
	out = out.AssocKey("text", edn.Text(resultOf(slices.Values(said)))).AssocKey(keyID, edn.Text(d.ID))
	return response.AssocKey("result", response.Key("result").AssocKey("out", out)), nil
}

// resultOf returns the last non-empty text of an assistant, noResult if there is none.
func resultOf(messages iter.Seq[conversation.Message]) string {
	said := noResult
	for m := range messages {
		if m.Role() == conversation.RoleAssistant && m.Text() != "" {
			said = m.Text()
		}
	}
	return said
}
