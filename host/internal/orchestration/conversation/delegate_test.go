package conversation_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// delegation is one of an agent that answers a turn of the conversation c.
func delegation(turn, task string) conversation.Delegation {
	return conversation.Delegation{
		Owner: "ann", Conversation: "c", Turn: turn, Run: "run_1", Path: edn.MustRead(`[0 "h3"]`), Agent: "agent/top",
		Input: edn.MustRead(`{:model :model/chat :messages [{:role :user :content "` + task + `"}]}`),
	}
}

// answering is the response of an agent with messages.
func answering(messages string) edn.Value {
	return contract.ValueResult(edn.MustRead(`{:agent/stop :done :messages `+messages+`}`)).
		AssocKey("invoke/meta", edn.MustRead(`{:cap/id :agent/scout}`))
}

// of calls an intent of another conversation.
func (x *talk) of(id, intent string) edn.Value {
	x.t.Helper()
	return x.must(x.do(intent, `:archived? true :conversation/id "`+id+`"`))
}

// CNV-014, CNV-025: the task of an agent and the answer of the other one are the turns of
// a conversation that is spawned from that of the first. A delegation that is repeated at
// any point, with the same task, has the same conversation, and is kept once.
func TestDelegate(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "go"`))
	for range 2 {
		child, err := x.Delegate(t.Context(), delegation("t-1", "Look."))
		require.Nil(t, err, "%v", err)
		assert.Equal(t, 1, child.Depth)
		for range 2 {
			response, err := x.Return(t.Context(), child, answering(`[{:role :assistant :tool/calls [{:id "1" :tool/id :x/y :args {}}]}
				{:role :tool :tool/id "1" :content "r"} {:role :assistant :content "Found it."} {:role :assistant :tool/calls [{:id "2" :tool/id :x/y :args {}}]}]`))
			require.Nil(t, err, "%v", err)
			out := response.Key("result").Key("out")
			assert.Equal(t, `"Found it."`, out.Key("text").String())
			assert.Equal(t, edn.Text(child.ID).String(), out.Key("conversation/id").String())
		}
		got := x.of(child.ID, "get")
		assert.Equal(t, `{:conversation/id "c" :relation :spawned-from :turn/id "t-1"}`, got.Key("from").String())
		assert.Equal(t, "2", got.Key("version").String())
		assert.Equal(t, `"ann" true`, got.Key("owner").String()+" "+got.Key("archived?").String())
		assert.Equal(t, 5, got.Key("messages").Len())
		last, _ := got.Key("messages").Nth(3)
		assert.Equal(t, `{:agent/id "agent/scout" :run "run_1"}`, last.Key("attribution").String())
	}
	assert.Equal(t, 2, x.must(x.do("list", ":archived? true")).Key("conversations").Len())
	assert.Equal(t, 1, x.must(x.do("list", "")).Key("conversations").Len(), "conversations of agents are archived")

	other, err := x.Delegate(t.Context(), delegation("t-1", "Look again."))
	require.Nil(t, err, "%v", err)
	response, err := x.Return(t.Context(), other, answering(`[]`))
	require.Nil(t, err, "%v", err)
	assert.Equal(t, `"(no result)"`, response.Key("result").Key("out").Key("text").String())
	assert.Equal(t, "1", x.of(other.ID, "get").Key("version").String(), "the task stays")
}

// CNV-014: an agent answers another one with a map.
func TestReturnRefusesAnAnswerThatIsNotAMap(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "go"`))
	child, err := x.Delegate(t.Context(), delegation("t-1", "Look."))
	require.Nil(t, err, "%v", err)
	for _, out := range []string{`"found"`, `[1]`, `nil`} {
		_, err := x.Return(t.Context(), child, contract.ValueResult(edn.MustRead(out)))
		require.ErrorIs(t, err, contract.OfType("schema/invalid"), out)
	}
	assert.Equal(t, "1", x.of(child.ID, "get").Key("version").String(), "nothing is added")
}

// CNV-014, CNV-029: agents call agents to a depth of 3; a delegation without a task, from
// a turn that is not there, or in a frozen session leaves nothing behind.
func TestDelegateRefuses(t *testing.T) {
	sessions := session.New(new(session.Memory), session.Rules{}, nil, nil)
	x := newTalk(t, new(conversation.Memory), sessions, wide)
	d := delegation("t-0", "Look.")
	for depth := 1; depth <= 3; depth++ { // as many as may wait for one
		child, err := x.Delegate(t.Context(), d)
		require.Nil(t, err, "%v", err)
		assert.Equal(t, depth, child.Depth)
		d.Conversation, d.Turn = child.ID, "t-0"
	}
	_, err := x.Delegate(t.Context(), d)
	require.ErrorIs(t, err, contract.OfType("conversation/too-large"))
	fork, ok := x.of(d.Conversation, "fork").Key("conversation/id").AsString()
	require.True(t, ok)
	d.Conversation = fork
	_, err = x.Delegate(t.Context(), d)
	require.ErrorIs(t, err, contract.OfType("conversation/too-large"), "a fork is as deep as its origin")
	for want, change := range map[string]func(*conversation.Delegation){
		"conversation/turn-not-in-path": func(d *conversation.Delegation) { d.Turn = "t-99" },
		"conversation/not-found":        func(d *conversation.Delegation) { d.Conversation = "none" },
		"conversation/invalid-message":  func(d *conversation.Delegation) { d.Input = edn.MustRead(`{:messages []}`) },
	} {
		d := delegation("t-0", "Look elsewhere.")
		change(&d)
		_, err := x.Delegate(t.Context(), d)
		require.ErrorIs(t, err, contract.OfType(want))
	}
	assert.Equal(t, 5, x.must(x.do("list", ":archived? true")).Key("conversations").Len())
}

// CNV-013, CNV-014: an agent runs for a place that its caller may use: the conversation is
// the caller's, and the turn is on its path.
func TestResolveChecksThePlace(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "go"`))
	x.must(x.do("send", `:text "on"`))
	resolve := func(principal, input string) (edn.Value, *contract.Error) {
		return x.Resolve(context.Background(), conversation.Call{
			Caller: session.Caller{Principal: principal}, Input: edn.MustRead("{" + input + "}"), Serves: func(string) bool { return false },
		})
	}
	const own = `:messages [{:role :user :content "hello"}] `
	for input, want := range map[string]string{
		own: own,
		own + `:conversation/id "c" :turn/id "t-2"`:      own + `:conversation/id "c" :turn/id "t-2"`,
		own + `:conversation/id "c"`:                     own + `:conversation/id "c" :turn/id "t-4"`,
		own + `:conversation/id "c" :turn/id "t-0"`:      own + `:conversation/id "c" :turn/id "t-4"`,
		`:conversation/id "c" :window 1 :turn/id "t-99"`: `:conversation/id "c" :window 1 :turn/id "t-4" :messages [{:role :assistant :content "ok"}]`,
	} {
		got := x.must(resolve("ann", input))
		assert.True(t, edn.Equal(edn.MustRead("{"+want+"}"), got), "%s: %s", input, got)
	}
	_, err := resolve("ann", own+`:conversation/id "c" :turn/id "t-99"`)
	require.ErrorIs(t, err, contract.OfType("conversation/turn-not-in-path"))
	for _, input := range []string{own + `:conversation/id "c" :turn/id "t-2"`, `:conversation/id "c"`} {
		_, err = resolve("ben", input)
		require.ErrorIs(t, err, contract.OfType("conversation/not-found"), "a conversation of another principal")
	}
}
