package conversationtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	sdksession "github.com/fermenthq/ferment/sdk/conversation/session"
	"github.com/fermenthq/ferment/sdk/conversation/session/storetest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Suite tests a store. open returns an empty store; reopen, which may be nil, closes a
// store and opens it again. sequences is the number of random sequences of operations.
func Suite(t *testing.T, sequences int, open func(*testing.T) conversation.Store,
	reopen func(*testing.T, conversation.Store) conversation.Store,
) {
	t.Run("model", func(t *testing.T) {
		store := open(t)
		for seed := range sequences {
			require.NoError(t, run(store, uint64(seed), fmt.Sprintf("m%d.", seed), 25))
		}
		swept, err := store.Sweep(context.Background())
		require.NoError(t, err)
		assert.Zero(t, swept, "each sequence has deleted what it made")
	})
	for name, test := range map[string]func(*testing.T, conversation.Store){
		"winner": oneOfManyCommits, "keys": sameKey, "drafts": drafts, "shared": shared, "whole": wholeChange, "owners": owners, "reopened": reopened,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
	t.Run("sessions", func(t *testing.T) { sessions(t, open, reopen) })
}

// sessions: the suite of the SDK holds for the conversations of a principal.
func sessions(t *testing.T, open func(*testing.T) conversation.Store,
	reopen func(*testing.T, conversation.Store) conversation.Store,
) {
	stores := map[sdksession.Store]conversation.Store{}
	of := func(store conversation.Store) sdksession.Store {
		s := conversation.New(store, nil, rules, nil).Of("ann")
		stores[s] = store
		return s
	}
	suite := storetest.Store{Open: func(t *testing.T) sdksession.Store { return of(open(t)) }}
	if reopen != nil {
		suite.Reopen = func(t *testing.T, s sdksession.Store) sdksession.Store { return of(reopen(t, stores[s])) }
	}
	storetest.Run(t, suite)
}

// A talker calls the intents of one conversation.
type talker struct {
	*conversation.Service
	t    testing.TB
	id   string
	keys int
}

func newTalker(t testing.TB, store conversation.Store, id string) *talker {
	x := &talker{Service: conversation.New(store, nil, rules, nil), t: t, id: id}
	x.must(x.call("open", ""))
	return x
}

func (x *talker) call(intent, input string, change ...func(*conversation.Call)) (edn.Value, *contract.Error) {
	x.keys++
	c := conversation.Call{
		Caller: Ann, Intent: "conversation/" + intent, Input: edn.MustRead(fmt.Sprintf(`{:conversation/id %q %s}`, x.id, input)),
		Run: "run_1", Path: edn.Vector(), Key: fmt.Sprintf("%s-%d-%p", x.id, x.keys, x), Ask: echo, Serves: func(string) bool { return false },
	}
	for _, f := range change {
		f(&c)
	}
	return x.Do(context.Background(), c)
}

func (x *talker) must(out edn.Value, err *contract.Error) edn.Value {
	x.t.Helper()
	require.Nil(x.t, err, "%v", err)
	return out
}

// said returns the texts of the path.
func (x *talker) said() string {
	var out []string
	for v := range x.must(x.call("get", "")).Key("messages").Elems() {
		out = append(out, textOf(v, "content"))
	}
	return strings.Join(out, "|")
}

// oneOfManyCommits: of several commits for one version exactly one succeeds, and the errors
// of the others contain the versions (CNV-020, CNV-031).
func oneOfManyCommits(t *testing.T, store conversation.Store) {
	x := newTalker(t, store, "c")
	x.must(x.call("append", `:messages [{:role :user :content "0"}]`)) // the base version 0 is any
	for version := 1; version < 7; version++ {
		var writers sync.WaitGroup
		errs := make([]*contract.Error, 8)
		for i := range errs {
			x := &talker{Service: conversation.New(store, nil, rules, nil), t: t, id: "c"} // as on another host
			writers.Go(func() {
				_, errs[i] = x.call("append", fmt.Sprintf(`:base-version %d :messages [{:role :user :content "%d"}]`, version, version))
			})
		}
		writers.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			require.ErrorIs(t, err, contract.OfType("conversation/conflict"))
			now, _ := err.Details.Key("current").AsInt()
			assert.Equal(t, int64(version+1), now)
		}
		assert.Equal(t, 1, won)
	}
	assert.Equal(t, "0|1|2|3|4|5|6", x.said())
}

// reopened: an answer is not committed to a later conversation with the id and the version of the
// one that was asked (CNV-021).
func reopened(t *testing.T, store conversation.Store) {
	x := newTalker(t, store, "c")
	x.must(x.call("send", `:text "old"`))
	_, err := x.call("send", `:text "more"`, func(c *conversation.Call) {
		c.Ask = func(ctx context.Context, r edn.Value, show func(edn.Value)) (edn.Value, *contract.Error) {
			other := &talker{Service: conversation.New(store, nil, rules, nil), t: t, id: "c"} // as on another host
			other.must(other.call("delete", ""))
			other.must(other.call("open", ""))
			other.must(other.call("send", `:text "fresh"`))
			return echo(ctx, r, show)
		}
	})
	require.ErrorIs(t, err, contract.OfType("conversation/conflict"))
	assert.Equal(t, "fresh|re: fresh", x.said())
}

// sameKey: a call that is repeated finds what it has committed (CNV-021).
func sameKey(t *testing.T, store conversation.Store) {
	x, asked := newTalker(t, store, "c"), 0
	key := func(c *conversation.Call) {
		c.Key = "b3:0"
		c.Ask = func(ctx context.Context, r edn.Value, show func(edn.Value)) (edn.Value, *contract.Error) {
			asked++
			return echo(ctx, r, show)
		}
	}
	first := x.must(x.call("send", `:text "hello"`, key))
	x.must(x.call("append", `:messages [{:role :user :content "later"}]`))
	again := x.must(x.call("send", `:text "hello"`, key))
	assert.Equal(t, first.String(), again.String())
	assert.Equal(t, 1, asked)
	assert.Equal(t, "hello|re: hello|later", x.said())
	for _, intent := range []string{"regenerate", "append"} {
		keyed := func(c *conversation.Call) { c.Key = "b3:" + intent }
		input := fmt.Sprintf(`:turn/id %q :messages [{:role :user :content "more"}]`, textOf(lastOf(first.Key("turns")), "turn/id"))
		once := x.must(x.call(intent, input, keyed))
		twice := x.must(x.call(intent, input, keyed))
		assert.Equal(t, once.String(), twice.String(), intent)
	}
	fork := func(c *conversation.Call) { c.Key = "b3:f" }
	assert.Equal(t, x.must(x.call("fork", `:new/id "f"`, fork)).String(), x.must(x.call("fork", `:new/id "f"`, fork)).String())
}

func lastOf(list edn.Value) (last edn.Value) {
	for v := range list.Elems() {
		last = v
	}
	return last
}

var errModel = contract.Errorf("provider/unavailable", "no model")

// drafts: a failure loses no text and commits no message without its answer; a draft can be
// sent, and is deleted when its text is committed (CNV-021).
func drafts(t *testing.T, store conversation.Store) {
	x := newTalker(t, store, "c")
	fail := func(c *conversation.Call) {
		c.Ask = func(context.Context, edn.Value, func(edn.Value)) (edn.Value, *contract.Error) {
			return edn.Nil(), errModel
		}
	}
	for _, said := range []string{"one", "two", "three"} {
		_, err := x.call("send", fmt.Sprintf(":text %q", said), fail)
		require.ErrorIs(t, err, contract.OfType("provider/unavailable"))
	}
	kept := func() (ids, texts []string) {
		out := x.must(x.call("get", ""))
		assert.Equal(t, "0", out.Key("turn-count").String())
		for v := range out.Key("drafts").Elems() {
			ids, texts = append(ids, textOf(v, "draft/id")), append(texts, textOf(v.Key("message"), "content"))
		}
		return ids, texts
	}
	ids, texts := kept()
	require.Equal(t, []string{"one", "two", "three"}, texts)
	_, err := x.call("send", fmt.Sprintf(":draft/id %q", ids[0]), fail)
	require.NotNil(t, err)
	x.must(x.call("send", fmt.Sprintf(":draft/id %q", ids[0])))
	x.must(x.call("send", `:text "two"`))
	assert.Equal(t, "one|re: one|two|re: two", x.said())
	left := x.must(x.call("get", "")).Key("drafts")
	assert.Equal(t, 1, left.Len(), "%s", left)
	_, err = x.call("send", `:draft/id "none"`)
	require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"))

	// A text in place of a draft: it replaces the draft at once, also if it fails too.
	third := textOf(lastOf(left), "draft/id")
	_, err = x.call("send", fmt.Sprintf(`:draft/id %q :text "four"`, third), fail)
	require.ErrorIs(t, err, contract.OfType("provider/unavailable"))
	left = x.must(x.call("get", "")).Key("drafts")
	require.Equal(t, 1, left.Len(), "%s", left)
	assert.Equal(t, "four", textOf(lastOf(left).Key("message"), "content"))
	x.must(x.call("send", fmt.Sprintf(`:draft/id %q :text "five"`, textOf(lastOf(left), "draft/id"))))
	assert.Equal(t, "one|re: one|two|re: two|five|re: five", x.said())
	assert.True(t, x.must(x.call("get", "")).Key("drafts").IsNil())

	// One is deleted; the conversation and the others stay.
	for _, text := range []string{"six", "seven"} {
		_, err = x.call("send", fmt.Sprintf(":text %q", text), fail)
		require.ErrorIs(t, err, contract.OfType("provider/unavailable"))
	}
	left = x.must(x.call("get", "")).Key("drafts")
	require.Equal(t, 2, left.Len(), "%s", left)
	seventh := textOf(lastOf(left), "draft/id")
	assert.Equal(t, seventh, textOf(x.must(x.call("delete", fmt.Sprintf(":draft/id %q", seventh))), "draft/id"))
	_, err = x.call("delete", fmt.Sprintf(":draft/id %q", seventh))
	require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"))
	left = x.must(x.call("get", "")).Key("drafts")
	require.Equal(t, 1, left.Len(), "%s", left)
	assert.Equal(t, "six", textOf(lastOf(left).Key("message"), "content"))
	assert.Equal(t, "one|re: one|two|re: two|five|re: five", x.said())
}

// shared: forks share turns and content but not later alternatives, survive the deletion of the original, and leave
// nothing behind (CNV-022, CNV-025).
func shared(t *testing.T, store conversation.Store) {
	x := newTalker(t, store, "c")
	first := x.must(x.call("send", `:text "hello"`))
	x.must(x.call("fork", `:new/id "f"`))
	f := &talker{Service: x.Service, t: t, id: "f"}
	f.must(f.call("regenerate", ""))
	f.must(f.call("send", `:text "hello"`))
	turn := fmt.Sprintf(":turn/id %q", textOf(lastOf(first.Key("turns")), "turn/id"))
	assert.Equal(t, 2, f.must(f.call("get", turn)).Key("alternatives").Len())
	assert.Equal(t, 1, x.must(x.call("get", turn)).Key("alternatives").Len(), "what is made in a fork is the fork's")
	assert.Equal(t, "hello|re: hello", x.said())
	x.must(x.call("delete", ""))
	swept, err := store.Sweep(context.Background())
	require.NoError(t, err)
	assert.Equal(t, conversation.Swept{}, swept, "the fork names all of it")
	assert.Equal(t, "hello|re: hello|hello|re: hello", f.said())
	f.must(f.call("delete", ""))
	swept, err = store.Sweep(context.Background())
	require.NoError(t, err)
	assert.Equal(t, int64(5), swept.Spans)
}

// wholeChange: a change whose decision fails stores nothing.
func wholeChange(t *testing.T, store conversation.Store) {
	x := newTalker(t, store, "c")
	x.must(x.call("send", `:text "hello"`))
	before := x.must(x.call("get", "")).String()
	refused := contract.Errorf("conversation/conflict", "no")
	_, err := store.Update(context.Background(), "c", func(conversation.Reader) (conversation.Change, error) {
		do := turns.Change{}
		return conversation.Change{Delete: true, Path: &do}, refused
	})
	require.True(t, errors.Is(err, contract.OfType("conversation/conflict")))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = store.Update(ctx, "c", func(conversation.Reader) (conversation.Change, error) { return conversation.Change{Delete: true}, nil })
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, before, x.must(x.call("get", "")).String())
}

// owners: the conversation of another principal is not found, except for those who may
// use any (CNV-026).
func owners(t *testing.T, store conversation.Store) {
	x := newTalker(t, store, "c")
	x.must(x.call("send", `:text "hello"`))
	as := func(caller session.Caller) func(*conversation.Call) {
		return func(c *conversation.Call) { c.Caller = caller }
	}
	bob := as(session.Caller{Principal: "bob"})
	for _, intent := range []string{
		"open", "get", "append", "send", "regenerate", "edit", "select", "truncate", "fork", "spawn", "result", "restore", "archive", "delete",
	} {
		_, err := x.call(intent,
			`:turn/id "t-1" :span/id "s-1" :version 1 :text "x" :messages [{:role :user :content "x"}]`, bob)
		require.ErrorIs(t, err, contract.OfType("conversation/not-found"), intent)
		assert.Equal(t, intent == "open", strings.Contains(contract.AsError(err).Hint, "another id"), "%s may create one", intent)
	}
	list := x.must(x.call("list", "", bob)).Key("conversations")
	assert.Equal(t, 0, list.Len())
	operator := as(session.Caller{Principal: "bob", Any: true})
	assert.Equal(t, 1, x.must(x.call("list", ":any? true", operator)).Key("conversations").Len())
	assert.Equal(t, "hello", textOf(firstOf(x.must(x.call("get", "", operator)).Key("messages")), "content"))
	// What either owner makes of a turn that their conversations share is hidden from the other.
	turn := fmt.Sprintf(":turn/id %q", textOf(firstOf(x.must(x.call("get", "")).Key("turns")), "turn/id"))
	x.must(x.call("fork", `:new/id "f"`, operator))
	f := &talker{Service: x.Service, t: t, id: "f"}
	edited := f.must(f.call("edit", turn+` :text "of bob"`, bob))
	x.must(x.call("edit", turn+` :text "of ann"`))
	for _, row := range []struct{ got, secret string }{
		{x.must(x.call("get", turn)).String(), "of bob"},
		{f.must(f.call("get", turn, bob)).String(), "of ann"},
	} {
		assert.NotContains(t, row.got, row.secret)
	}
	_, err := x.call("select", fmt.Sprintf("%s :span/id %q", turn, textOf(firstOf(edited.Key("turns")), "span/id")))
	require.ErrorIs(t, err, contract.OfType("conversation/span-not-in-turn"))
	x.must(x.call("archive", ""))
	assert.Equal(t, 0, x.must(x.call("list", "")).Key("conversations").Len())
	assert.Equal(t, 1, x.must(x.call("list", ":archived? true")).Key("conversations").Len())
}

func firstOf(list edn.Value) edn.Value {
	for v := range list.Elems() {
		return v
	}
	return edn.Nil()
}
