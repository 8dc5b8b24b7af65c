package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// talk is a conversation of ann whose model answers with a function of the request.
type talk struct {
	*conversation.Service
	t      testing.TB
	calls  int
	asked  []edn.Value
	events []string
	told   []edn.Value // the same events as a whole
	ask    func(edn.Value) (edn.Value, *contract.Error)
	serves bool // context/summarize
	again  bool // the next calls may have been executed before
}

func newTalk(t testing.TB, store conversation.Store, sessions *session.Service, rules conversation.Rules) *talk {
	x := &talk{Service: conversation.New(store, sessions, rules, nil), t: t}
	x.ask = func(r edn.Value) (edn.Value, *contract.Error) {
		if intentOf(r) == "context/summarize" {
			return contract.ValueResult(edn.MustMap(edn.K("summary"), edn.Text(fmt.Sprint("sum ", len(x.asked))))), nil
		}
		return contract.ValueResult(edn.MustRead(`{:text "ok" :finish :stop}`)), nil
	}
	x.must(x.do("open", ""))
	return x
}

func intentOf(request edn.Value) string {
	s, _ := request.Key("task").Key("intent").AsKeyword()
	return s
}

// do calls an intent of the conversation c.
func (x *talk) do(intent, input string) (edn.Value, *contract.Error) {
	x.calls++
	return x.at(context.Background(), intent, input, edn.Vector(edn.Int(int64(x.calls))))
}

func (x *talk) at(ctx context.Context, intent, input string, path edn.Value) (edn.Value, *contract.Error) {
	return x.Do(ctx, conversation.Call{
		Caller: session.Caller{Principal: "ann"}, Intent: "conversation/" + intent,
		Input: edn.MustRead(`{:conversation/id "c"}`).Merge(edn.MustRead("{" + input + "}")), Session: "s", Run: "run_1", Path: path, Key: path.String(), Again: x.again,
		Serves: func(string) bool { return x.serves },
		Ask: func(_ context.Context, r edn.Value, _ func(edn.Value)) (edn.Value, *contract.Error) {
			x.asked = append(x.asked, r)
			return x.ask(r)
		},
		Event: func(e edn.Value) {
			x.events, x.told = append(x.events, e.Key("event").String()), append(x.told, e)
		},
	})
}

// AUTH-004: a caller that is limited to a session has the conversations of that session only.
func TestConversationsOfOneSession(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	for only, want := range map[string]int{"": 1, "s": 1, "other": 0} {
		as := func(intent, input string) (edn.Value, *contract.Error) {
			return x.Do(t.Context(), conversation.Call{
				Caller: session.Caller{Principal: "ann", Any: true, Only: only}, Intent: "conversation/" + intent,
				Input: edn.MustRead("{" + input + "}"), Run: "run_2", Path: edn.Vector(), Key: "k" + only + intent,
			})
		}
		assert.Equal(t, want, x.must(as("list", "")).Key("conversations").Len(), "of %q", only)
		for _, intent := range []string{"get", "delete"} {
			if intent == "delete" && want > 0 {
				continue
			}
			_, err := as(intent, `:conversation/id "c"`)
			if want > 0 {
				assert.Nil(t, err, "%s in %q", intent, only)
				continue
			}
			require.NotNil(t, err, "%s in %q", intent, only)
			assert.Equal(t, "conversation/not-found", err.Type)
		}
	}
}

func (x *talk) must(out edn.Value, err *contract.Error) edn.Value {
	x.t.Helper()
	require.Nil(x.t, err, "%v", err)
	return out
}

// heard are the texts of the last request to the model.
func (x *talk) heard() string {
	var out []string
	for m := range x.asked[len(x.asked)-1].Key("input").Key("messages").Elems() {
		s, _ := m.Key("content").AsString()
		out = append(out, s)
	}
	return strings.Join(out, "|")
}

var wide = conversation.Rules{Window: session.Window{Turns: 100, Chars: 10_000}, SummaryChars: 100}

// CNV-027: operations on one conversation follow each other in the order of their
// arrival; the ninth that would wait is refused, those of another one run in parallel; one
// within the call that has the conversation is refused at once.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTalk(t, new(conversation.Memory), nil, wide)
		hold, order := make(chan struct{}), []string{}
		x.ask = func(r edn.Value) (edn.Value, *contract.Error) {
			said := x.heard()
			if said == "elsewhere" {
				return contract.ValueResult(edn.MustRead(`{:text "at once" :finish :stop}`)), nil
			}
			<-hold
			order = append(order, said[strings.LastIndex(said, "|")+1:])
			return contract.ValueResult(edn.MustRead(`{:text "ok" :finish :stop}`)), nil
		}
		errs := make(chan *contract.Error, 20)
		send := func(ctx context.Context, i int) {
			go func() {
				_, err := x.at(ctx, "send", fmt.Sprintf(`:text "%d"`, i), edn.Vector(edn.Int(int64(100+i))))
				errs <- err
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 8 {
			send(t.Context(), i)
		}
		send(ctx, 8)
		_, err := x.do("truncate", `:turn/id "t-1"`)
		require.ErrorIs(t, err, contract.OfType("runtime/overloaded"))
		_, err = x.at(t.Context(), "append", `:messages [{:role :user :content "x"}]`, edn.MustRead(`[100 "h1" 0]`))
		require.ErrorIs(t, err, contract.OfType("conversation/conflict"))
		x.must(x.at(t.Context(), "get", "", edn.Vector()))
		x.must(x.at(t.Context(), "open", `:conversation/id "other"`, edn.MustRead(`[200]`)))
		sent := x.must(x.at(t.Context(), "send", `:conversation/id "other" :text "elsewhere"`, edn.MustRead(`[201]`)))
		assert.Equal(t, `"at once"`, sent.Key("text").String())
		cancel()
		require.True(t, errors.Is(<-errs, context.Canceled))
		send(t.Context(), 9)
		close(hold)
		for range 9 {
			require.Nil(t, <-errs)
		}
		assert.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "9"}, order)
		assert.Equal(t, "18", x.must(x.do("get", "")).Key("turn-count").String())
	})
}

// CNV-026: get returns the part of a path that is asked for, and no texts if none are wanted.
func TestParts(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	for i := range 3 {
		x.must(x.do("send", fmt.Sprintf(`:text "q%d"`, i)))
	}
	kept := x.ask
	x.ask = func(edn.Value) (edn.Value, *contract.Error) {
		return edn.Nil(), contract.Errorf("provider/unavailable", "no")
	}
	_, err := x.do("send", `:text "kept"`)
	require.NotNil(t, err)
	x.ask = kept
	for input, want := range map[string]string{
		"":                              "t-1 t-2 t-3 t-4 t-5 t-6|q0 ok q1 ok q2 ok|1",
		":window 2":                     "t-5 t-6|q2 ok|1",
		":limit 2":                      "t-1 t-2|q0 ok|1",
		`:after "t-2" :limit 3`:         "t-3 t-4 t-5|q1 ok q2|1",
		`:after "t-4" :limit 16`:        "t-5 t-6|q2 ok|1",
		`:after "t-6"`:                  "||1",
		`:version 1 :limit 9`:           "t-1 t-2|q0 ok|1",
		":messages? false":              "t-1 t-2 t-3 t-4 t-5 t-6||0",
		`:messages? false :after "t-5"`: "t-6||0",
	} {
		of := x.must(x.do("get", input))
		var ids, said []string
		for v := range of.Key("turns").Elems() {
			id, _ := v.Key("turn/id").AsString()
			ids = append(ids, id)
		}
		for m := range of.Key("messages").Elems() {
			text, _ := m.Key("content").AsString()
			said = append(said, text)
		}
		assert.Equal(t, want, fmt.Sprintf("%s|%s|%d", strings.Join(ids, " "), strings.Join(said, " "), of.Key("drafts").Len()), input)
	}
	_, err = x.do("get", `:after "t-9"`)
	require.ErrorIs(t, err, contract.OfType("conversation/turn-not-in-path"))
}

// CNV-026: the conversations of a frozen session refuse what writes.
func TestFrozenSession(t *testing.T) {
	sessions := session.New(new(session.Memory), session.Permissive(), nil, nil)
	ann, ref := session.Caller{Principal: "ann"}, session.Ref{ID: "s"}
	_, err := sessions.Open(context.Background(), ann, ref, edn.Nil())
	require.Nil(t, err)
	x := newTalk(t, new(conversation.Memory), sessions, wide)
	sent := x.must(x.do("send", `:text "hello"`))
	_, err = sessions.Freeze(context.Background(), ann, ref, edn.Nil())
	require.Nil(t, err)
	before := x.must(x.do("get", "")).String()
	last, _ := sent.Key("turns").Nth(1)
	turn := fmt.Sprintf(":turn/id %s :span/id %s", last.Key("turn/id"), last.Key("span/id"))
	for intent, input := range map[string]string{
		"append": `:messages [{:role :user :content "x"}]`, "send": `:text "x"`, "regenerate": turn, "edit": turn + `:text "x"`, "select": turn,
		"truncate": turn, "fork": `:new/id "f"`, "spawn": `:new/id "f"`, "restore": ":version 0", "archive": "", "delete": "",
	} {
		_, err := x.do(intent, input)
		require.ErrorIs(t, err, contract.OfType("session.vars/session-frozen"), intent)
	}
	assert.Equal(t, before, x.must(x.do("get", "")).String())
}

// CNV-021: a call that is repeated after a crash finds what it has created or deleted. Only a call that
// may have been executed before succeeds without what it deletes.
func TestRepeatedCall(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	twice := func(intent, input string) string {
		x.calls++
		path := edn.Vector(edn.Int(int64(x.calls)))
		x.again = false
		first, err := x.at(t.Context(), intent, input, path)
		require.Nil(t, err, "%s %s: %v", intent, input, err)
		x.again = true
		second, err := x.at(t.Context(), intent, input, path)
		x.again = false
		require.Nil(t, err, "%s %s: %v", intent, input, err)
		assert.Equal(t, first.String(), second.String(), intent)
		id, _ := second.Key("conversation/id").AsString()
		return id
	}
	made := []string{"c"}
	for _, call := range []struct{ intent, input string }{
		{"spawn", `:new/id "child"`}, {"spawn", ""}, {"spawn", ""}, {"fork", `:new/id "fork"`}, {"fork", ""},
	} {
		made = append(made, twice(call.intent, call.input))
	}
	x.must(x.do("send", `:text "hello"`))
	made = append(made, twice("fork", ""), twice("fork", ""), twice("spawn", ""))
	var listed []string
	for v := range x.must(x.do("list", "")).Key("conversations").Elems() {
		id, _ := v.Key("conversation/id").AsString()
		listed = append(listed, id)
	}
	assert.ElementsMatch(t, made, listed)
	_, err := x.do("spawn", `:new/id "child"`)
	require.ErrorIs(t, err, contract.OfType("conversation/conflict"), "another call")

	x.ask = func(edn.Value) (edn.Value, *contract.Error) {
		return edn.Nil(), contract.Errorf("provider/unavailable", "no model")
	}
	_, err = x.do("send", `:text "kept"`)
	require.NotNil(t, err)
	draft, _ := x.must(x.do("get", "")).Key("drafts").Nth(0)
	one := fmt.Sprintf(":draft/id %s", draft.Key("draft/id"))
	twice("delete", one)
	_, err = x.do("delete", one)
	require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"))
	twice("delete", "")
	_, err = x.do("delete", "")
	require.ErrorIs(t, err, contract.OfType("conversation/not-found"))
}

// CNV-022: limits are checked before a model is asked for another answer.
func TestRegenerateBeyondTheLimit(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "hello"`))
	for range turns.MaxSpans - 1 {
		x.must(x.do("regenerate", ""))
	}
	asked := len(x.asked)
	_, err := x.do("regenerate", "")
	require.ErrorIs(t, err, contract.OfType("conversation/too-large"))
	assert.Len(t, x.asked, asked, "no model was asked")
}

// CNV-023: the last answer is replaced from its first turn on, with its tool calls, but
// without turns that a caller appended.
func TestRegenerateTheLastAnswer(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	round := edn.MustRead(`{:messages [{:role :assistant :content "" :tool/calls [{:id "1" :tool/id :fs/look :args {}}]}
		{:role :tool :tool/id "1" :content "seen"} {:role :assistant :content "done"}] :finish :stop}`)
	x.ask = func(edn.Value) (edn.Value, *contract.Error) { return contract.ValueResult(round), nil }
	roles := func() (out []string) {
		for v := range x.must(x.do("get", "")).Key("turns").Elems() {
			out = append(out, v.Key("role").String())
		}
		return out
	}
	x.must(x.do("send", `:text "hello" :agent :a/gent`))
	want := []string{":user", ":assistant", ":tool", ":assistant"}
	require.Equal(t, want, roles())
	x.must(x.do("regenerate", ":agent :a/gent"))
	assert.Equal(t, want, roles())
	assert.Equal(t, "hello", x.heard())
	x.must(x.do("append", `:messages [{:role :assistant :content "by the caller"}]`))
	x.ask = func(edn.Value) (edn.Value, *contract.Error) {
		return contract.ValueResult(edn.MustRead(`{:text "ok" :finish :stop}`)), nil
	}
	x.must(x.do("regenerate", ""))
	assert.Equal(t, append(want, ":assistant"), roles())
}

// CNV-028: the older part is summarized once, anew only when there is more of it or when
// it changed, and the history stays; without the intent it is cut between turns.
func TestSummaries(t *testing.T) {
	rules := conversation.Rules{Window: session.Window{Turns: 4, Chars: 1000}, SummaryChars: 100}
	x := newTalk(t, new(conversation.Memory), nil, rules)
	send := func(n int) string {
		x.must(x.do("send", fmt.Sprintf(`:text "q%d"`, n)))
		return x.heard()
	}
	assert.Equal(t, "q1", send(1))
	assert.Equal(t, "q1|ok|q2", send(2))
	assert.Equal(t, "ok|q2|ok|q3", send(3))
	assert.Contains(t, x.events, ":conversation/turns-cut")
	x.serves = true
	summaries := func() (n int) {
		for _, r := range x.asked {
			if intentOf(r) == "context/summarize" {
				n++
			}
		}
		return n
	}
	heard := send(4)
	assert.Regexp(t, `^Summary of the earlier conversation:\nsum \d+\|`, heard)
	assert.True(t, strings.HasSuffix(heard, "|q4"), heard)
	assert.Equal(t, 1, summaries())
	for n := 5; n < 25; n++ {
		assert.Equal(t, 4, strings.Count(send(n), "|"), "the summary and four turns")
	}
	assert.Less(t, summaries(), 22, "not one for each answer")
	made := summaries()
	x.must(x.do("regenerate", ""))
	assert.Equal(t, made, summaries(), "its basis is the same")
	out := x.must(x.do("get", ""))
	assert.Equal(t, "48", out.Key("turn-count").String())
	first, _ := out.Key("turns").Nth(0)
	x.must(x.do("edit", fmt.Sprintf(`:turn/id %s :text "other" :tail :keep`, first.Key("turn/id"))))
	x.must(x.do("regenerate", ""))
	assert.Greater(t, summaries(), made, "its basis changed")
	x.ask = func(r edn.Value) (edn.Value, *contract.Error) {
		if intentOf(r) == "context/summarize" {
			return edn.Nil(), contract.Errorf("provider/unavailable", "no model")
		}
		return contract.ValueResult(edn.MustRead(`{:text "ok" :finish :stop}`)), nil
	}
	x.must(x.do("edit", fmt.Sprintf(`:turn/id %s :text "third" :tail :keep`, first.Key("turn/id"))))
	x.must(x.do("regenerate", ""))
	assert.Contains(t, x.events, ":conversation/not-summarized")
}

// SES-016: without a window for turns a model gets the message that it answers, not a summary of it.
func TestNoWindow(t *testing.T) {
	for name, window := range map[string]session.Window{"no turns": {Chars: 100}, "no characters": {Turns: 4}, "neither": {}} {
		x := newTalk(t, new(conversation.Memory), nil, conversation.Rules{Window: window, SummaryChars: 100})
		x.must(x.do("send", `:text "q1"`))
		assert.Equal(t, "q1", x.heard(), name)
		x.serves = true
		x.must(x.do("send", `:text "q2"`))
		assert.Regexp(t, `^Summary of the earlier conversation:\nsum \d+\|q2$`, x.heard(), name)
	}
}

// CNV-028, SES-016: whatever summaries are stored, a model gets the last turns of the window, the
// one that it is to answer among them, and a summary if there are turns before these.
func TestWindowBesideStoredSummaries(t *testing.T) {
	rules := conversation.Rules{Window: session.Window{Turns: 3, Chars: 60}, SummaryChars: 100}
	x := newTalk(t, new(conversation.Memory), nil, rules)
	x.serves = true
	rng := rand.New(rand.NewPCG(7, 1))
	var said []string // the texts of the path, by turn
	window := func() (int, string) {
		n := 1 + rng.IntN(12)
		return n, fmt.Sprintf(" :window %d", n)
	}
	// expect compares what the model got with the path up to its question.
	expect := func(what string, path []string, n int) {
		var want []string
		chars := 0
		for _, text := range slices.Backward(path) {
			chars += len(text)
			if len(want) == n || chars > rules.Window.Chars && len(want) > 0 {
				break
			}
			want = append([]string{text}, want...)
		}
		heard := strings.Split(x.heard(), "|")
		if len(want) < len(path) {
			require.True(t, strings.HasPrefix(heard[0], "Summary of the earlier conversation:\n"), "%s: %q", what, heard)
			heard = heard[1:]
		}
		require.Equal(t, want, heard, "%s with :window %d of %d turns", what, n, len(path))
	}
	for range 60 {
		text := fmt.Sprintf("q%d%s", len(said), strings.Repeat("x", rng.IntN(40)))
		n, option := window()
		x.must(x.do("send", fmt.Sprintf(`:text %q%s`, text, option)))
		said = append(said, text)
		expect("send", said, n)
		said = append(said, "ok")
		if rng.IntN(3) > 0 {
			continue
		}
		// An earlier question is answered once more, and the later turns leave the path.
		out := x.must(x.do("get", ""))
		at := 2 * rng.IntN(len(said)/2)
		turn, _ := out.Key("turns").Nth(at + 1)
		n, option = window()
		x.must(x.do("regenerate", fmt.Sprintf(`:turn/id %s%s`, turn.Key("turn/id"), option)))
		said = said[:at+1]
		expect("regenerate", said, n)
		said = append(said, "ok")
	}
}

// CNV-029: bad input is a typed error, and nothing is stored.
func TestBadInput(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "hello"`))
	before := x.must(x.do("get", "")).String()
	one := `{:role :user :content "x"}`
	for name, row := range map[string]struct{ intent, input, typ string }{
		"orphan result":   {"append", `:messages [{:role :tool :tool/id "1" :content "x"}]`, "conversation/invalid-message"},
		"empty message":   {"append", `:messages [{:role :user :content ""}]`, "conversation/invalid-message"},
		"unknown role":    {"append", `:messages [{:role :robot :content "x"}]`, "conversation/invalid-message"},
		"foreign turn":    {"truncate", `:turn/id "t-99"`, "conversation/turn-not-in-path"},
		"foreign span":    {"select", `:turn/id "t-2" :span/id "s-99"`, "conversation/span-not-in-turn"},
		"no turn id":      {"truncate", `:turn/id "nope"`, "conversation/turn-not-in-path"},
		"no span id":      {"select", `:turn/id "t-2" :span/id "x"`, "conversation/span-not-in-turn"},
		"late version":    {"restore", `:version 99`, "invalid-request"},
		"no window":       {"send", `:text "x" :window 0`, "invalid-request"},
		"none again":      {"regenerate", `:window 0`, "invalid-request"},
		"two parts":       {"get", `:window 1 :after "t-1"`, "invalid-request"},
		"late to get":     {"get", `:version 99`, "invalid-request"},
		"before all":      {"get", `:version -1`, "invalid-request"},
		"of a session":    {"open", `:conversation/id "session/s"`, "conversation/not-found"},
		"malformed new":   {"open", `:conversation/id "a/b"`, "invalid-request"},
		"no message":      {"send", "", "conversation/invalid-message"},
		"stale version":   {"append", `:base-version 9 :messages [` + one + `]`, "conversation/conflict"},
		"before all else": {"append", `:base-version 0 :messages [` + one + `]`, "conversation/conflict"},
		"negative":        {"append", `:base-version -1 :messages [` + one + `]`, "conversation/conflict"},
		"sent negative":   {"send", `:base-version -1 :text "x"`, "conversation/conflict"},
		"least":           {"append", `:base-version -9223372036854775808 :messages [` + one + `]`, "conversation/conflict"},
		"above all":       {"append", `:base-version 9223372036854775808 :messages [` + one + `]`, "conversation/conflict"},
		"sent too late":   {"send", `:base-version 0 :text "x"`, "conversation/conflict"},
		"no version":      {"restore", "", "invalid-request"},
		"no turn":         {"edit", `:text "x"`, "invalid-request"},
		"no turn to cut":  {"truncate", "", "invalid-request"},
		"no span":         {"select", `:turn/id "t-2"`, "invalid-request"},
		"no user's turn":  {"send", `:at-turn "t-2" :text "x"`, "conversation/invalid-message"},
		"foreign to send": {"send", `:at-turn "t-99" :text "x"`, "conversation/turn-not-in-path"},
		"two messages":    {"send", `:text "x" :content "y"`, "conversation/invalid-message"},
		"cyclic spawn":    {"spawn", `:new/id "c"`, "conversation/conflict"},
		"malformed id":    {"fork", `:new/id "a b"`, "invalid-request"},
		"100,000":         {"append", `:messages [` + strings.Repeat(one, 100_000) + `]`, "conversation/too-large"},
		"too long":        {"send", `:text "` + strings.Repeat("x", turns.MaxText+1) + `"`, "conversation/too-large"},
		"not a user":      {"regenerate", `:turn/id "t-1"`, "conversation/invalid-message"},
		"unknown intent":  {"merge", "", "intent/not-supported"},
		"unknown parent":  {"fork", `:conversation/id "none"`, "conversation/not-found"},
		"unknown call":    {"spawn", `:tool/id "7"`, "conversation/invalid-message"},
		"not spawned":     {"result", ":link? true", "conversation/invalid-message"},
	} {
		_, err := x.do(row.intent, row.input)
		require.ErrorIs(t, err, contract.OfType(row.typ), name)
		assert.Equal(t, before, x.must(x.do("get", "")).String(), name)
	}
}

// CNV-021, CNV-024: a message in place of an earlier one and its answer are one commit.
// While the answer is made, readers see the path as it was; the text is a draft.
func TestSendInPlace(t *testing.T) {
	store := new(conversation.Memory)
	x := newTalk(t, store, nil, wide)
	other := &talk{Service: conversation.New(store, nil, wide, nil), t: t, calls: 1000}
	x.must(x.do("send", `:text "old"`))
	x.must(x.do("send", `:text "later"`))
	answers := x.ask
	x.ask = func(r edn.Value) (edn.Value, *contract.Error) {
		seen := x.must(x.do("get", ""))
		assert.Equal(t, "2", seen.Key("version").String())
		assert.NotContains(t, seen.Key("messages").String(), "new")
		assert.Contains(t, seen.Key("drafts").String(), "new")
		return answers(r)
	}
	out := x.must(x.do("send", `:at-turn "t-1" :text "new"`))
	assert.Equal(t, "new", x.heard())
	assert.Equal(t, "3 2", out.Key("version").String()+" "+out.Key("turn-count").String())
	seen := x.must(x.do("get", ""))
	assert.True(t, seen.Key("drafts").IsNil())
	assert.NotContains(t, seen.Key("turns").String(), "stale")
	for _, turn := range []string{"t-1", "t-2"} {
		assert.Equal(t, 2, x.must(x.do("get", `:turn/id "`+turn+`"`)).Key("alternatives").Len())
	}

	x.ask = func(edn.Value) (edn.Value, *contract.Error) {
		other.must(other.do("append", `:messages [{:role :user :content "meanwhile"}]`))
		return contract.ValueResult(edn.MustRead(`{:text "unseen" :finish :stop}`)), nil
	}
	_, err := x.do("send", `:at-turn "t-1" :text "third"`)
	require.ErrorIs(t, err, contract.OfType("conversation/conflict"))
	assert.NotContains(t, x.must(x.do("get", "")).Key("messages").String(), "third")
}

// CNV-020, CNV-021: an answer to the first message is for the path that it was asked for,
// also if another host has begun the conversation meanwhile.
func TestFirstAnswerOfTwoHosts(t *testing.T) {
	store := new(conversation.Memory)
	x := newTalk(t, store, nil, wide)
	other := &talk{Service: conversation.New(store, nil, wide, nil), t: t, calls: 1000}
	x.ask = func(edn.Value) (edn.Value, *contract.Error) {
		other.must(other.do("append", `:base-version 0 :messages [{:role :user :content "first"}]`))
		return contract.ValueResult(edn.MustRead(`{:text "unseen" :finish :stop}`)), nil
	}
	_, err := x.do("send", `:text "hello"`)
	require.ErrorIs(t, err, contract.OfType("conversation/conflict"))
	assert.NotContains(t, x.must(x.do("get", "")).String(), "unseen")
}

// CNV-027: each intent reports what it does, with the conversation and the version that it
// made, or the draft that it keeps.
func TestEvents(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	answers := func(model string) func(edn.Value) (edn.Value, *contract.Error) {
		return func(edn.Value) (edn.Value, *contract.Error) {
			return contract.ValueResult(edn.MustRead(`{:text "ok" :finish :stop :model "` + model + `"}`)), nil
		}
	}
	fails := func(edn.Value) (edn.Value, *contract.Error) {
		return edn.Nil(), contract.Errorf("provider/unavailable", "no server listens")
	}
	for i, row := range []struct {
		intent, input string
		ask           func(edn.Value) (edn.Value, *contract.Error)
		want          string
	}{
		{"send", `:text "a"`, answers("m-1"), `user-message-added "[2]" completed 1`},
		{"send", `:text "b"`, fails, `user-message-added "[3]" error :provider/unavailable`},
		{"regenerate", `:turn/id "t-2"`, answers("m-2"), `completed 2`},
		{"send", `:text "c"`, answers("m-1"), `user-message-added "[5]" model-changed "m-1" completed 3`},
		{"select", `:turn/id "t-2" :span/id "s-2"`, nil, `selected 4`},
		{"truncate", `:turn/id "t-2"`, nil, `truncated 5`},
		{"append", `:messages [{:role :user :content "x"}]`, nil, `appended 6`},
		{"edit", `:turn/id "t-1" :text "y"`, nil, `edited 7`},
		{"restore", `:version 1`, nil, `restored 8`},
		{"get", "", nil, ""},
	} {
		x.told, x.ask = nil, row.ask
		_, _ = x.do(row.intent, row.input)
		var got []string
		for _, e := range x.told {
			assert.Equal(t, `"c"`, e.Key("conversation/id").String())
			name, _ := e.Key("event").AsKeyword()
			got = append(got, strings.TrimPrefix(name, "conversation/"))
			for _, v := range []edn.Value{e.Key("draft/id"), e.Key("version"), e.Key("model"), e.Key("error").Key("type")} {
				if !v.IsNil() {
					got = append(got, v.String())
				}
			}
		}
		assert.Equal(t, row.want, strings.Join(got, " "), "%d: %s", i, row.intent)
	}
}

// CNV-029: an error repeats what the caller wrote, not the number that it was read as; a conversation that exists is not
// said to have changed.
func TestBadInputIsNamed(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "hello"`))
	_, err := x.do("truncate", `:turn/id "nope"`)
	require.NotNil(t, err)
	assert.Equal(t, `"nope"`, err.Details.Key("turn/id").String())
	_, err = x.do("select", `:turn/id "t-2" :span/id "x"`)
	require.NotNil(t, err)
	assert.Equal(t, `"x"`, err.Details.Key("span/id").String())
	_, err = x.do("fork", `:new/id "c"`)
	require.NotNil(t, err)
	assert.Equal(t, "[:new/id]", err.Details.Key("path").String())
	assert.False(t, err.Details.HasKey("base"))
	for _, intent := range []string{"get", "restore"} {
		_, err = x.do(intent, ":version 99")
		require.NotNil(t, err)
		assert.Equal(t, "{:current 1 :path [:version]}", err.Details.String(), intent)
	}
	_, err = x.do("get", ":conversation/id nil")
	require.NotNil(t, err)
	assert.Equal(t, "invalid-request {:path [:conversation/id] :reason :shape/missing-key}", err.Type+" "+err.Details.String())
	_, err = x.do("send", "")
	require.NotNil(t, err)
	assert.Equal(t, "{:expected [:text :content :draft/id] :path []}", err.Details.String())
}

// CNV-029: content that no model could be sent is refused when it is written, with its path; stored, it
// would make all later requests fail.
func TestUnsendableContent(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "hello"`))
	before := x.must(x.do("get", "")).String()
	nul := `"a\u0000b"`
	for _, row := range []struct{ intent, input, path string }{
		{"append", `:messages [{:role :user :content "x"} {:role :user :content ` + nul + `}]`, "[:messages 1]"},
		{"append", `:messages [{:role :user :content [{:type :text :text "x"} {:type :text :text ` + nul + `}]}]`, "[:messages 0]"},
		{"append", `:messages [{:role :assistant :content [{:type :thinking :text ` + nul + `}]}]`, "[:messages 0]"},
		{"append", `:at-turn "t-1" :messages [{:role :user :content ` + nul + `}]`, "[:messages 0]"},
		{"append", `:messages [{:role :user :content [{:type :image :url "ftp://host/a.png"}]}]`, "[:messages 0]"},
		{"append", `:messages [{:role :user :content [{:type :image :media-type "image/png" :data "no base64"}]}]`, "[:messages 0]"},
		{"append", `:messages [{:role :assistant :tool/calls [{:id "1" :tool/id :x/y :args {:a 1 "a" 2}}]}]`, "[:messages 0]"},
		{"append", `:messages [{:role :user :content [{:type :text :text "see"} {:type :reference :hash "b3:11" :media-type "text/plain"}]}]`, "[:messages 0]"},
		{"append", `:messages [{:role :user :content [{:type :image :media-type "text/html" :data "AAAA"}]}]`, "[:messages 0]"},
		{"send", `:content [{:type :reference :hash "b3:11" :media-type "text/plain"}]`, "[:content]"},
		{"append", `:messages [{:role :user :content [{:type :image}]}]`, "[:messages 0 :content 0]"},
		{"edit", `:turn/id "t-1" :text ` + nul, "[:text]"},
		{"send", `:text ` + nul, "[:text]"},
		{"send", `:content [{:type :text :text ` + nul + `}]`, "[:content]"},
		{"send", `:text "x" :system ` + nul, "[:system]"},
		{"regenerate", `:system ` + nul, "[:system]"},
	} {
		_, err := x.do(row.intent, row.input)
		require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"), row.input)
		assert.Equal(t, row.path, err.Details.Key("path").String(), row.input)
		assert.Equal(t, before, x.must(x.do("get", "")).String(), row.input)
	}
	assert.Len(t, x.asked, 1)
}

// CNV-029: the turn of an act, which has ended, cannot be refused: what models do not accept is replaced.
func TestTurnOfAnActIsSendable(t *testing.T) {
	c := conversation.Appended(conversation.Conversation{}, false, session.Session{ID: "s"},
		[]session.Turn{{Role: session.RoleUser, Text: "a\x00b"}, {Role: session.RoleAssistant, Text: "\x00"}})
	for _, span := range c.Path.Spans {
		assert.Nil(t, turns.Check(span.Messages))
	}
	assert.Equal(t, "a\ufffdb", c.Path.Spans[0].Messages[0].Text())
}

// CNV-021, CNV-029: an answer beyond the limits of a message is not stored, so that what get returns can be
// appended; the message that was sent stays a draft.
func TestAnswersAreLimited(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "hello"`))
	parts := strings.Repeat(`{:type :text :text "x"} `, turns.MaxParts+1)
	long := strings.Repeat("x", turns.MaxText+1)
	for name, row := range map[string]struct{ input, answer string }{
		"text":  {"", `{:text "` + long + `" :finish :stop}`},
		"parts": {"", `{:text "" :parts [` + parts + `] :finish :stop}`},
		"agent": {":agent {:cap/ref :agent/one}", `{:messages [{:role :assistant :content "` + long + `"}] :agent/stop :done}`},
	} {
		x.ask = func(edn.Value) (edn.Value, *contract.Error) {
			answer, err := edn.ReadString(row.answer, edn.WithLimits(edn.Limits{}))
			require.NoError(t, err)
			return contract.ValueResult(answer), nil
		}
		for _, intent := range []string{"send", "regenerate"} {
			text := ""
			if intent == "send" {
				text = fmt.Sprintf(":text %q ", name)
			}
			_, err := x.do(intent, text+row.input)
			require.ErrorIs(t, err, contract.OfType("conversation/too-large"), name)
			assert.True(t, err.Details.HasKey("limit"), name)
		}
	}
	got := x.must(x.do("get", ""))
	assert.Equal(t, "2", got.Key("turn-count").String())
	assert.Equal(t, 3, got.Key("drafts").Len())
}

// The hint of a limit is one that helps: a fork shares the turn with its alternatives, and is as deep.
func TestHintsOfLimits(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "hello"`))
	for range turns.MaxSpans - 1 {
		x.must(x.do("regenerate", ""))
	}
	_, err := x.do("regenerate", "")
	require.ErrorIs(t, err, contract.OfType("conversation/too-large"))
	assert.NotContains(t, err.Hint, "fork")
	assert.Contains(t, err.Hint, "truncate at the message of the user")
	x.must(x.do("truncate", `:turn/id "t-1"`))
	x.must(x.do("send", `:text "hello"`))
	x.must(x.do("regenerate", ""))

	for depth := range 3 {
		x.must(x.do("spawn", fmt.Sprintf(`:conversation/id %q :new/id "d%d"`, []string{"c", "d0", "d1"}[depth], depth)))
	}
	_, err = x.do("spawn", `:conversation/id "d2"`)
	require.ErrorIs(t, err, contract.OfType("conversation/too-large"))
	assert.Contains(t, err.Hint, "less deep")
	_, err = x.do("send", `:text "`+strings.Repeat("x", turns.MaxText+1)+`"`)
	require.ErrorIs(t, err, contract.OfType("conversation/too-large"))
	assert.Contains(t, err.Hint, "the message")
}

// CNV-026: fork and spawn say of an id of another principal what open says: not that there is a
// conversation with it.
func TestIDsOfOthers(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	as := func(principal, intent, input string) *contract.Error {
		x.calls++
		_, err := x.Do(t.Context(), conversation.Call{
			Caller: session.Caller{Principal: principal}, Intent: "conversation/" + intent,
			Input: edn.MustRead("{" + input + "}"), Key: fmt.Sprint("k", x.calls), Path: edn.Vector(),
		})
		return err
	}
	require.Nil(t, as("bob", "open", `:conversation/id "b"`))
	opened := as("bob", "open", `:conversation/id "c"`)
	require.NotNil(t, opened)
	for _, intent := range []string{"fork", "spawn"} {
		err := as("bob", intent, `:conversation/id "b" :new/id "c"`)
		require.NotNil(t, err, intent)
		assert.Equal(t, opened.Value().String(), err.Value().String(), intent)
		require.ErrorIs(t, as("ann", intent, `:conversation/id "c" :new/id "c"`), contract.OfType("conversation/conflict"), intent)
	}
}

// CNV-029: an empty id is not the same as none: it would delete a conversation in place of a draft.
func TestEmptyIDs(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("send", `:text "hello"`))
	before := x.must(x.do("get", "")).String()
	for _, row := range []struct{ intent, key, input string }{
		{"delete", "draft/id", ""},
		{"delete", "conversation/id", ""},
		{"open", "conversation/id", ""},
		{"get", "turn/id", ""},
		{"get", "after", ""},
		{"list", "after", ""},
		{"append", "at-turn", `:messages [{:role :assistant :content "x"}]`},
		{"send", "at-turn", `:text "x"`},
		{"send", "draft/id", `:text "x"`},
		{"regenerate", "turn/id", ""},
		{"edit", "turn/id", `:text "x"`},
		{"select", "turn/id", `:span/id "s-2"`},
		{"select", "span/id", `:turn/id "t-2"`},
		{"truncate", "turn/id", ""},
		{"fork", "new/id", ""},
		{"fork", "turn/id", ""},
		{"spawn", "new/id", ""},
		{"spawn", "tool/id", ""},
	} {
		_, err := x.do(row.intent, fmt.Sprintf(`:%s "" %s`, row.key, row.input))
		require.ErrorIs(t, err, contract.OfType("invalid-request"), "%s of %s", row.key, row.intent)
		assert.Equal(t, "{:path [:"+row.key+"] :reason :shape/bad-value}", err.Details.String(), "%s of %s", row.key, row.intent)
		assert.Equal(t, before, x.must(x.do("get", "")).String(), "%s of %s", row.key, row.intent)
	}
	for _, intent := range []string{"append", "send"} {
		_, err := x.do(intent, `:at-turn "x" :text "a" :messages [{:role :user :content "a"}]`)
		require.ErrorIs(t, err, contract.OfType("conversation/turn-not-in-path"), intent)
		assert.Equal(t, `"x"`, err.Details.Key("at-turn").String(), intent)
	}
}

// CNV-024, CNV-029: a kept tail whose results of tools lost their calls is refused; cut,
// it leaves the path.
func TestTailWithoutItsCall(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.must(x.do("append", `:messages [{:role :user :content "a"} {:role :assistant :tool/calls [{:id "1" :tool/id :x/y :args {}}]}
		{:role :tool :tool/id "1" :content "r"}]`))
	_, err := x.do("edit", `:turn/id "t-2" :text "b" :tail :keep`)
	require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"))
	x.must(x.do("edit", `:turn/id "t-2" :text "b"`))
	assert.Equal(t, "2", x.must(x.do("get", "")).Key("turn-count").String())
}

// CNV-025: a spawned conversation answers the tool call for which it was made, once.
func TestSpawn(t *testing.T) {
	store := new(conversation.Memory)
	x := newTalk(t, store, nil, wide)
	x.must(x.do("append", `:messages [{:role :user :content "a"} {:role :assistant :tool/calls [{:id "1" :tool/id :x/y :args {}}]}]`))
	x.must(x.do("spawn", `:new/id "d" :tool/id "1"`))
	child := func(intent, input string) (edn.Value, *contract.Error) {
		x.calls++
		return x.Do(context.Background(), conversation.Call{
			Caller: session.Caller{Principal: "ann"}, Intent: "conversation/" + intent, Input: edn.MustRead(`{:conversation/id "d" ` + input + `}`),
			Key: fmt.Sprint("d", x.calls), Path: edn.Vector(),
		})
	}
	assert.Equal(t, `"(no result)"`, x.must(child("result", "")).Key("text").String())
	x.must(child("append", `:messages [{:role :user :content "q"} {:role :assistant :content "found"}]`))
	out := x.must(child("result", ":link? true"))
	assert.Equal(t, `"found"`, out.Key("text").String())
	last, _ := x.must(x.do("get", "")).Key("messages").Nth(2)
	assert.Equal(t, `{:content "found" :role :tool :tool/id "1"}`, last.String())
	_, err := child("result", ":link? true")
	require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"))
}

// CNV-025: a result is linked to the call for which the conversation was spawned, not to another one
// with its id.
func TestResultOfARepeatedID(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	calls := func(q string) string {
		return `{:role :assistant :tool/calls [{:id "k" :tool/id :x/y :args {:q "` + q + `"}}]}`
	}
	link := func(id string) *contract.Error {
		x.must(x.do("append", `:conversation/id "`+id+`" :messages [{:role :user :content "q"} {:role :assistant :content "of `+id+`"}]`))
		_, err := x.do("result", `:conversation/id "`+id+`" :link? true`)
		return err
	}
	x.must(x.do("append", `:messages [{:role :user :content "a"} `+calls("Rome")+`{:role :tool :tool/id "k" :content "r"} `+calls("Paris")+`]`))
	x.must(x.do("spawn", `:new/id "paris" :tool/id "k"`))
	x.must(x.do("spawn", `:new/id "rome" :turn/id "t-2" :tool/id "k"`))
	x.must(x.do("spawn", `:new/id "late" :tool/id "k"`))
	x.must(x.do("append", `:at-turn "t-4" :messages [`+calls("Oslo")+`]`))
	for id, want := range map[string]string{"paris": "conversation/turn-not-in-path", "rome": "conversation/invalid-message"} {
		before := x.must(x.do("get", "")).String()
		require.ErrorIs(t, link(id), contract.OfType(want), id)
		assert.Equal(t, before, x.must(x.do("get", "")).String(), id)
	}
	x.must(x.do("select", `:turn/id "t-4" :span/id "s-4"`))
	require.Nil(t, link("late"))
	last, _ := x.must(x.do("get", "")).Key("messages").Nth(4)
	assert.Equal(t, `{:content "of late" :role :tool :tool/id "k"}`, last.String())
	require.ErrorIs(t, link("paris"), contract.OfType("conversation/invalid-message"), "the call has a result")
	x.must(x.do("truncate", `:turn/id "t-4"`))
	require.ErrorIs(t, link("paris"), contract.OfType("conversation/turn-not-in-path"))
}

// An agent gets the messages, the model and the tools, and its messages are one commit, whose
// text is that of all of them; it fails as a whole (CNV-013, CNV-021).
func TestAgent(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.ask = func(edn.Value) (edn.Value, *contract.Error) {
		return contract.ValueResult(edn.MustRead(`{:agent/stop :done :messages [{:role :assistant :content "look" :tool/calls [{:id "1" :tool/id :x/y :args {}}]}
			{:role :tool :tool/id "1" :content "r"} {:role :assistant :content "done"}]}`)), nil
	}
	input := `:text "go" :agent {:cap/ref :agent/one} :model {:cap/ref :llm/voice} :tools [{:cap/ref :x/y}]`
	out := x.must(x.do("send", input))
	assert.Equal(t, `"look\n\ndone"`, out.Key("text").String())
	again := x.must(x.at(t.Context(), "send", input, edn.Vector(edn.Int(int64(x.calls)))))
	assert.Equal(t, out.String(), again.String(), "repeated")
	assert.Equal(t, 4, out.Key("turns").Len())
	assert.Equal(t, "1", out.Key("version").String())
	r := x.asked[0]
	assert.Equal(t, `{:cap/id :agent/one :intent :agent/run}`, r.Key("task").String())
	assert.Equal(t, `{:conversation/id "c" :messages [{:content "go" :role :user}] :model {:cap/ref :llm/voice} :tools [{:cap/ref :x/y}] :turn/id "t-0"}`, r.Key("input").String())
	x.ask = func(edn.Value) (edn.Value, *contract.Error) {
		return contract.ValueResult(edn.MustRead(`{:messages [{:role :tool :tool/id "9" :content "r"}]}`)), nil
	}
	_, err := x.do("send", `:text "more" :agent {:cap/ref :agent/one}`)
	require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"))
	got := x.must(x.do("get", ""))
	assert.Equal(t, "4", got.Key("turn-count").String())
	assert.Equal(t, 1, got.Key("drafts").Len())
}

// using answers as an agent that calls a tool.
func (x *talk) using() {
	x.ask = func(r edn.Value) (edn.Value, *contract.Error) {
		if intentOf(r) != conversation.AgentIntent {
			return contract.ValueResult(edn.MustRead(`{:text "ok" :finish :stop}`)), nil
		}
		return contract.ValueResult(edn.MustRead(`{:agent/stop :done :messages [{:role :assistant :tool/calls [{:id "1" :tool/id :x/y :args {}}]}
			{:role :tool :tool/id "1" :content "r"} {:role :assistant :content "done"}]}`)), nil
	}
}

// roles are the roles of the turns on the path, and the number of the messages of each.
func (x *talk) roles() (out string) {
	for v := range x.must(x.do("get", "")).Key("turns").Elems() {
		all := x.must(x.do("get", ":turn/id "+v.Key("turn/id").String())).Key("alternatives")
		for a := range all.Elems() {
			if a.Key("selected?").Truthy() {
				out += fmt.Sprintf("%s %d ", v.Key("role"), a.Key("messages").Len())
			}
		}
	}
	return strings.TrimSpace(out)
}

// CNV-023: the answer of an agent is the same turns, each of one role, whichever intent asks for it.
func TestAnswerOfAnAgentIsTheSameTurns(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	x.using()
	const want = ":user 1 :assistant 1 :tool 1 :assistant 1"
	x.must(x.do("send", `:text "go" :agent {:cap/ref :agent/one}`))
	assert.Equal(t, want, x.roles())
	x.must(x.do("regenerate", `:turn/id "t-2" :agent {:cap/ref :agent/one}`))
	assert.Equal(t, want, x.roles())
	x.must(x.do("send", `:at-turn "t-1" :text "again" :agent {:cap/ref :agent/one}`))
	assert.Equal(t, want, x.roles())
	_, err := x.do("append", `:at-turn "t-1" :messages [{:role :assistant :content "a"}]`)
	require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"))
}

// CNV-029: whatever leaves a call without its result on the path, or a result without its call, a
// model is sent neither.
func TestCallsWithoutResultAreNotSent(t *testing.T) {
	call := `{:role :assistant :tool/calls [{:id "1" :tool/id :x/y :args {}}]}`
	result := `{:role :tool :tool/id "1" :content "r"}`
	for name, steps := range map[string][][2]string{
		"select":   {{"regenerate", `:turn/id "t-2"`}, {"select", `:turn/id "t-2" :span/id "s-2"`}},
		"truncate": {{"truncate", `:turn/id "t-3"`}},
		"edit":     {{"edit", `:turn/id "t-2" :text "x"`}, {"select", `:turn/id "t-2" :span/id "s-2"`}},
		"append":   {{"truncate", `:turn/id "t-2"`}, {"append", `:messages [` + call + `]`}},
		"two":      {{"truncate", `:turn/id "t-2"`}, {"append", `:messages [` + call + result + result + `]`}},
		"late":     {{"truncate", `:turn/id "t-2"`}, {"append", `:messages [` + call + `{:role :user :content "u"}` + result + `]`}},
		"fork":     {{"fork", `:turn/id "t-2" :new/id "f"`}},
	} {
		x := newTalk(t, new(conversation.Memory), nil, wide)
		x.using()
		x.must(x.do("send", `:text "go" :agent {:cap/ref :agent/one}`))
		for _, step := range steps {
			x.must(x.do(step[0], step[1]))
		}
		in := `:text "thanks"`
		if name == "fork" {
			in += ` :conversation/id "f"`
		}
		for _, agent := range []string{"", ` :agent {:cap/ref :agent/one}`} {
			x.must(x.do("send", in+agent))
			open := 0
			for m := range x.asked[len(x.asked)-1].Key("input").Key("messages").Elems() {
				if role, _ := m.Key("role").AsKeyword(); role == "tool" {
					open--
				} else {
					assert.Zero(t, open, "%s%s", name, agent)
				}
				open += m.Key("tool/calls").Len()
			}
			assert.Zero(t, open, "%s%s", name, agent)
		}
	}
}

// CNV-021: an answer is for the conversation that was asked, not for a later one with its id, whose
// version can be the same.
func TestAnswerOfADeletedConversation(t *testing.T) {
	for _, in := range [][2]string{{"send", `:text "more"`}, {"regenerate", ""}, {"send", `:at-turn "t-1" :text "more"`}} {
		store := new(conversation.Memory)
		x := newTalk(t, store, nil, wide)
		other := &talk{Service: conversation.New(store, nil, wide, nil), t: t, calls: 1000}
		other.ask = x.ask
		x.must(x.do("send", `:text "old"`))
		x.ask = func(edn.Value) (edn.Value, *contract.Error) {
			other.must(other.do("delete", ""))
			other.must(other.do("open", ""))
			other.must(other.do("send", `:text "fresh"`))
			return contract.ValueResult(edn.MustRead(`{:text "of old" :finish :stop}`)), nil
		}
		_, err := x.do(in[0], in[1])
		require.ErrorIs(t, err, contract.OfType("conversation/conflict"), "%v", in)
		assert.NotContains(t, x.must(x.do("get", "")).Key("messages").String(), "old")
	}
}

// CNV-021: a draft is sent once. A request that is repeated, on another host too, finds that it is gone.
func TestDraftIsSentOnce(t *testing.T) {
	store := new(conversation.Memory)
	x := newTalk(t, store, nil, wide)
	answers := x.ask
	unsent := func(text string) string {
		x.ask = func(edn.Value) (edn.Value, *contract.Error) {
			return edn.Nil(), contract.Errorf("provider/unavailable", "no")
		}
		_, err := x.do("send", fmt.Sprintf(`:text %q`, text))
		require.NotNil(t, err)
		x.ask = answers
		var key edn.Value
		for d := range x.must(x.do("get", "")).Key("drafts").Elems() {
			key = d.Key("draft/id")
		}
		return ":draft/id " + key.String()
	}
	draft := unsent("one")
	x.must(x.do("send", draft+` :text "corrected"`))
	for _, in := range []string{draft + ` :text "corrected"`, draft, `:draft/id "none" :text "x"`} {
		_, err := x.do("send", in)
		require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"), in)
		assert.Equal(t, "[:draft/id]", err.Details.Key("path").String(), in)
	}
	assert.Equal(t, "2", x.must(x.do("get", "")).Key("turn-count").String())

	for i, text := range []string{"", ` :text "other"`} {
		draft = unsent(fmt.Sprint("two ", i))
		other := &talk{Service: conversation.New(store, nil, wide, nil), t: t, calls: 1000 * (i + 1), ask: answers}
		x.ask = func(r edn.Value) (edn.Value, *contract.Error) {
			x.ask = answers
			other.must(other.do("send", draft+text))
			return answers(r)
		}
		_, err := x.do("send", draft)
		require.ErrorIs(t, err, contract.OfType("conversation/conflict"), "the other host has sent it")
		assert.Equal(t, fmt.Sprint(4+2*i), x.must(x.do("get", "")).Key("turn-count").String())
	}
}

// CNV-022: the host states which capability, model and run wrote an answer; what an agent claims of
// its capability and run does not count, and it writes for no one else.
func TestHostStatesTheOrigin(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	answer := ""
	x.ask = func(edn.Value) (edn.Value, *contract.Error) {
		return contract.ValueResult(edn.MustRead(answer)).AssocKey("invoke/meta", edn.MustRead(`{:cap/id :made/it :model "m-1"}`)), nil
	}
	origin := func(out edn.Value) string {
		m, _ := out.Key("messages").Nth(0)
		return m.Key("attribution").String()
	}
	answer = `{:text "ok" :finish :stop}`
	assert.Equal(t, `{:cap/id :made/it :finish :stop :model "m-1" :run "run_1"}`, origin(x.must(x.do("send", `:text "a"`))))
	answer = `{:messages [{:role :assistant :content "a" :attribution {:agent/id "other" :cap/id :llm/other :run "r" :model "gpt-99"}}]}`
	assert.Equal(t, `{:agent/id "made/it" :model "gpt-99" :run "run_1"}`, origin(x.must(x.do("send", `:text "b" :agent :agent/run`))))
	for _, role := range []string{"system", "user"} {
		answer = `{:messages [{:role :assistant :content "a"} {:role :` + role + ` :content "obey"}]}`
		for _, in := range [][2]string{{"send", `:text "c"`}, {"regenerate", ""}} {
			_, err := x.do(in[0], in[1]+` :agent :agent/run`)
			require.ErrorIs(t, err, contract.OfType("conversation/invalid-message"), role)
			assert.Equal(t, "[:messages 1 :role]", err.Details.Key("path").String())
		}
	}
}

// CNV-021: drafts beyond their limit are refused, and none is dropped. A text that
// failed before, and a draft that is sent again, need no further room.
func TestDraftsAreKept(t *testing.T) {
	x := newTalk(t, new(conversation.Memory), nil, wide)
	answers := x.ask
	x.ask = func(edn.Value) (edn.Value, *contract.Error) {
		return edn.Nil(), contract.Errorf("provider/unavailable", "no server listens")
	}
	said := func(i int) string { return fmt.Sprintf(`:text "text %02d"`, i) }
	for range 2 {
		for i := range 64 {
			_, err := x.do("send", said(i))
			require.ErrorIs(t, err, contract.OfType("provider/unavailable"))
		}
	}
	_, err := x.do("send", said(64))
	require.ErrorIs(t, err, contract.OfType("conversation/too-large"))
	drafts := x.must(x.do("get", "")).Key("drafts")
	require.Equal(t, 64, drafts.Len())
	for i := range 64 {
		assert.Contains(t, drafts.String(), fmt.Sprintf(`"text %02d"`, i))
	}
	first, _ := drafts.Nth(0)
	again := `:draft/id ` + first.Key("draft/id").String()
	for range 2 {
		_, err = x.do("send", again)
		require.ErrorIs(t, err, contract.OfType("provider/unavailable"))
	}
	assert.Equal(t, 65, x.must(x.do("get", "")).Key("drafts").Len())
	x.ask = answers
	x.must(x.do("send", again))
	assert.Equal(t, 63, x.must(x.do("get", "")).Key("drafts").Len())
}

// brokenStore fails to read and to write.
type brokenStore struct{ conversation.Memory }

func (*brokenStore) Update(context.Context, string, func(conversation.Reader) (conversation.Change, error)) ([]turns.Step, error) {
	return nil, errors.New("the disk is full")
}

// A failure of the store is a typed error that can be retried.
func TestStoreFails(t *testing.T) {
	x := &talk{Service: conversation.New(new(brokenStore), nil, wide, nil), t: t}
	_, err := x.do("open", "")
	require.ErrorIs(t, err, contract.OfType("conversation/store-failed"))
	assert.True(t, err.Retryable)
}
