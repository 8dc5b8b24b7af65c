package conversationtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// SessionSuite tests a store of conversations together with a store of sessions whose turns
// are the paths of conversations (CNV-022). open returns empty stores.
func SessionSuite(t *testing.T, open func(*testing.T) (conversation.Store, session.Store)) {
	for name, test := range map[string]func(*testing.T, *sessionTalk){
		"path": sessionIsAPath, "forks": sessionWithForks, "frozen": frozenSession, "reserved": reservedIDs, "meanwhile": actMeanwhile,
		"changed turns": summaryOfChangedTurns, "summary": summaryOfThePath, "late": lateSummary,
	} {
		t.Run(name, func(t *testing.T) {
			conversations, sessions := open(t)
			s := session.New(sessions, session.Permissive(), nil, nil)
			of, err := s.Open(context.Background(), Ann, session.Ref{ID: "s"}, edn.Nil())
			require.Nil(t, err)
			x := &talker{Service: conversation.New(conversations, s, rules, nil), t: t, id: session.ConversationOf("s")}
			test(t, &sessionTalk{talker: x, sessions: s, store: conversations, of: of.Identity()})
		})
	}
}

// sessionTalk is a session s of ann and its conversation.
type sessionTalk struct {
	*talker
	sessions *session.Service
	store    conversation.Store
	of       session.Identity
}

// act adds the turns of an act.
func (x *sessionTalk) act(asked, answered string) {
	x.t.Helper()
	require.Nil(x.t, x.sessions.Append(context.Background(), x.of, []session.Turn{
		{Role: session.RoleUser, Text: asked, Run: "run_" + asked}, {Role: session.RoleAssistant, Text: answered, Run: "run_" + asked},
	}))
}

// turns returns the turns that the next act gets, as role letter and text.
func (x *sessionTalk) turns() (out string) {
	x.t.Helper()
	turns, _, err := x.sessions.Turns(context.Background(), Ann, x.of.ID)
	require.Nil(x.t, err)
	for _, turn := range turns {
		out += turn.Role[:1] + ":" + turn.Text + " "
	}
	return out
}

// sessionIsAPath: acts add their turns to the path, one version for each act, and later
// acts get the changes that are made to the path.
func sessionIsAPath(t *testing.T, x *sessionTalk) {
	_, err := x.call("open", "")
	require.ErrorIs(t, err, contract.OfType("conversation/not-found"), "the first act makes it")
	_, unknown := (&talker{Service: x.Service, t: t, id: "none"}).call("get", "")
	assert.NotEqual(t, unknown.Hint, err.Hint, "its hint says so")
	x.act("one", "1")
	x.act("two", "2")
	got := x.must(x.call("get", ""))
	assert.Equal(t, `"s"`, got.Key("session/id").String())
	assert.Equal(t, "2", got.Key("version").String())
	assert.Equal(t, "one|1|two|2", x.said())
	x.must(x.call("open", ""))

	x.must(x.call("send", `:text "three"`))
	assert.Equal(t, "u:one a:1 u:two a:2 u:three a:re: three ", x.turns())
	x.must(x.call("edit", fmt.Sprintf(`:turn/id %q :text "deux"`, textOf(nth(got.Key("turns"), 2), "turn/id"))))
	assert.Equal(t, "u:one a:1 u:deux ", x.turns())
	x.act("four", "4")
	assert.Equal(t, "one|1|deux|four|4", x.said())
	x.must(x.call("restore", `:version 2`))
	assert.Equal(t, "u:one a:1 u:two a:2 ", x.turns())
	x.must(x.call("append", `:messages [{:role :system :content "be brief"}]`))
	assert.Equal(t, "u:one a:1 u:two a:2 ", x.turns(), "acts get what users and assistants said")
}

func nth(list edn.Value, n int) (out edn.Value) {
	for v := range list.Elems() {
		if n == 0 {
			return v
		}
		n--
	}
	return edn.Nil()
}

// summaryOfThePath: acts get a summary as long as the path still contains the turns that it
// covers (SES-016, CNV-022).
func summaryOfThePath(t *testing.T, x *sessionTalk) {
	ctx := context.Background()
	summarized := func() {
		t.Helper()
		x.sessions.Use("s")()
		ids, err := x.sessions.Summarize(ctx, func(context.Context, session.Session, string, int) (string, *contract.Error) {
			return "sum", nil
		})
		require.Nil(t, err)
		require.Equal(t, []string{"s"}, ids)
	}
	check := func(name, summary, turns string, before int64) {
		t.Helper()
		assert.Equal(t, turns, x.turns(), name)
		of, err := x.sessions.Get(ctx, Ann, "s")
		require.Nil(t, err)
		assert.Equal(t, summary, of.Notes.Key("summary").String(), name)
		assert.Equal(t, summary == "nil", of.Version > before, "%s: the version counts the changes", name)
	}
	rules := session.Permissive()
	rules.Window, rules.SummaryChars = session.Window{Turns: 5, Chars: 1000}, 50
	x.sessions.Configure(rules)
	wide := rules
	wide.Window.Turns = 100
	for name, row := range map[string]struct {
		intent, input string
		turn          int
		summary, want string
	}{
		"an edit of what it covers":    {"edit", `:text "deux"`, 2, "nil", "u:one a:1 u:deux "},
		"an edit that keeps the rest":  {"edit", `:text "un" :tail :keep`, 0, "nil", "u:un a:1 u:two a:2 u:three a:3 "},
		"an edit of a later turn":      {"edit", `:text "trois"`, 4, `"sum"`, "u:trois "},
		"truncated before what it has": {"truncate", ``, 1, "nil", "u:one "},
		"truncated after it":           {"truncate", ``, 4, `"sum"`, ""},
		"restored":                     {"restore", `:version 1`, -1, "nil", "u:one a:1 "},
		"restored behind it":           {"restore", `:version 2`, -1, `"sum"`, ""},
		"an appended turn":             {"append", `:messages [{:role :user :content "and"}]`, -1, `"sum"`, "u:three a:3 u:and "},
		"deleted":                      {"delete", ``, -1, "nil", ""},
	} {
		x.act("one", "1")
		x.act("two", "2")
		x.act("three", "3")
		x.sessions.Configure(rules)
		summarized()
		x.sessions.Configure(wide)
		of, err := x.sessions.Get(ctx, Ann, "s")
		require.Nil(t, err)
		check(name, `"sum"`, "u:three a:3 ", of.Version)
		input := row.input
		if row.turn >= 0 {
			input += fmt.Sprintf(` :turn/id %q`, textOf(nth(x.must(x.call("get", "")).Key("turns"), row.turn), "turn/id"))
		}
		x.must(x.call(row.intent, input))
		check(name, row.summary, row.want, of.Version)
		if row.intent != "delete" {
			x.must(x.call("delete", ""))
		}
	}
}

// lateSummary: a summary whose turns were changed while it was made is not kept.
func lateSummary(t *testing.T, x *sessionTalk) {
	rules := session.Permissive()
	rules.Window, rules.SummaryChars = session.Window{Turns: 3, Chars: 1000}, 50
	x.sessions.Configure(rules)
	x.act("one", "1")
	x.act("two", "2")
	x.sessions.Use("s")()
	first := textOf(nth(x.must(x.call("get", "")).Key("turns"), 0), "turn/id")
	ids, err := x.sessions.Summarize(context.Background(), func(context.Context, session.Session, string, int) (string, *contract.Error) {
		x.must(x.call("edit", fmt.Sprintf(`:text "un" :turn/id %q`, first)))
		return "sum", nil
	})
	require.Nil(t, err)
	assert.Empty(t, ids)
	of, err := x.sessions.Get(context.Background(), Ann, "s")
	require.Nil(t, err)
	assert.False(t, of.Notes.HasKey("summary"))
	assert.Equal(t, "u:un ", x.turns())
}

// sessionWithForks: deleting a session deletes its turns, except those that a fork shares.
func sessionWithForks(t *testing.T, x *sessionTalk) {
	ctx := context.Background()
	x.act("one", "1")
	x.must(x.call("fork", `:new/id "f"`))
	x.must(x.call("spawn", `:new/id "child"`))
	x.act("two", "2")
	_, err := x.sessions.Delete(ctx, Ann, session.Ref{ID: "s"})
	require.Nil(t, err)
	_, err = x.call("get", "")
	require.ErrorIs(t, err, contract.OfType("conversation/not-found"))
	_, err = (&talker{Service: x.Service, t: t, id: "child"}).call("get", "")
	require.ErrorIs(t, err, contract.OfType("conversation/not-found"), "it goes with the turns that it belongs to")
	swept, failure := x.store.Sweep(ctx)
	require.NoError(t, failure)
	assert.Equal(t, int64(2), swept.Spans, "those that only the session had")
	assert.Equal(t, "one|1", (&talker{Service: x.Service, t: t, id: "f"}).said())

	of, err := x.sessions.Open(ctx, Ann, session.Ref{ID: "s"}, edn.Nil())
	require.Nil(t, err)
	x.of = of.Identity()
	assert.Empty(t, x.turns())
	x.act("three", "3")
	assert.Equal(t, "u:three a:3 ", x.turns())
	x.must(x.call("delete", ""))
	assert.Empty(t, x.turns(), "the session stays")
	x.act("four", "4")
	assert.Equal(t, "u:four a:4 ", x.turns())
}

// frozenSession: the conversation of a frozen session cannot be changed by operations; the
// turns of an act unfreeze the session.
func frozenSession(t *testing.T, x *sessionTalk) {
	x.act("one", "1")
	_, err := x.sessions.Freeze(context.Background(), Ann, session.Ref{ID: "s"}, edn.Nil())
	require.Nil(t, err)
	_, err = x.call("send", `:text "two"`)
	require.ErrorIs(t, err, contract.OfType("session.vars/session-frozen"))
	_, err = x.call("delete", "")
	require.ErrorIs(t, err, contract.OfType("session.vars/session-frozen"))
	x.act("two", "2")
	x.must(x.call("send", `:text "three"`))
	assert.Equal(t, "one|1|two|2|three|re: three", x.said())
}

// actMeanwhile: turns that an act adds while a model answers :conversation/send do not make
// the send fail; the answer is appended after them. Any other change makes it fail, and so
// do such turns before an answer that replaces a turn (CNV-021, CNV-031).
func actMeanwhile(t *testing.T, x *sessionTalk) {
	x.act("one", "1")
	during := func(do func()) func(*conversation.Call) {
		return func(c *conversation.Call) {
			c.Ask = func(ctx context.Context, r edn.Value, show func(edn.Value)) (edn.Value, *contract.Error) {
				do()
				return echo(ctx, r, show)
			}
		}
	}
	acts := func() {
		x.act("two", "2")
		x.act("three", "3")
	}
	x.must(x.call("send", `:text "four"`, during(acts)))
	assert.Equal(t, "one|1|two|2|three|3|four|re: four", x.said())

	_, err := x.call("regenerate", "", during(acts))
	require.ErrorIs(t, err, contract.OfType("conversation/conflict"))
	host := &talker{Service: conversation.New(x.store, nil, rules, nil), t: t, id: x.id} // another one
	before := x.said()
	_, err = x.call("send", `:text "five"`, during(func() {
		x.act("two", "2")
		host.must(host.call("append", `:messages [{:role :user :content "other"}]`))
	}))
	require.ErrorIs(t, err, contract.OfType("conversation/conflict"))
	assert.Equal(t, before+"|two|2|other", x.said())
}

// summaryOfChangedTurns: acts get the turns after the last one that the summary covers,
// also after an earlier turn was changed, and no turn after a changed one is lost
// (SES-016).
func summaryOfChangedTurns(t *testing.T, x *sessionTalk) {
	small := session.Permissive()
	small.Window, small.SummaryChars = session.Window{Turns: 4, Chars: 1000}, 50
	x.sessions.Configure(small)
	turn := func(i int) string {
		at, _ := x.must(x.call("get", "")).Key("turns").Nth(i)
		return at.Key("turn/id").String()
	}
	var summarized string
	summarize := func() {
		x.sessions.Use(x.of.ID)()
		ids, err := x.sessions.Summarize(context.Background(), func(_ context.Context, _ session.Session, text string, _ int) (string, *contract.Error) {
			summarized = text
			return "sum", nil
		})
		require.Nil(t, err)
		require.Len(t, ids, 1)
	}
	for _, said := range []string{"one", "two", "three"} {
		x.act(said, "re: "+said)
	}
	summarize()
	assert.Equal(t, "u:three a:re: three ", x.turns())
	x.must(x.call("edit", `:text "first" :tail :keep :turn/id `+turn(0)))
	assert.Equal(t, "u:two a:re: two u:three a:re: three ", x.turns(), "the summary retold what was edited, so it is gone")

	x.must(x.call("edit", `:text "third" :tail :keep :turn/id `+turn(4)))
	x.act("four", "re: four")
	x.act("five", "re: five")
	assert.Equal(t, "u:four a:re: four u:five a:re: five ", x.turns(), "the last turns that fit")
	x.must(x.call("edit", `:text "fourth" :tail :keep :turn/id `+turn(7)))
	summarize()
	left := x.turns()
	for _, text := range []string{"third", "re: three", "four", "fourth", "five", "re: five"} {
		assert.True(t, strings.Contains(summarized, ": "+text+"\n") || strings.Contains(left, ":"+text+" "), "%s is lost", text)
	}
	assert.NotEmpty(t, left)
}

// reservedIDs: a caller cannot create a conversation with the id of the conversation of a
// session.
func reservedIDs(t *testing.T, x *sessionTalk) {
	other := &talker{Service: x.Service, t: t, id: session.ConversationOf("later")}
	_, err := other.call("open", "")
	require.ErrorIs(t, err, contract.OfType("conversation/not-found"))
	x.act("one", "1")
	for _, intent := range []string{"fork", "spawn"} {
		_, err = x.call(intent, `:new/id "session/later"`)
		require.ErrorIs(t, err, contract.OfType("invalid-request"), intent)
	}
	bob := session.Caller{Principal: "bob"}
	_, err = x.call("get", "", func(c *conversation.Call) { c.Caller = bob })
	require.ErrorIs(t, err, contract.OfType("conversation/not-found"), "it belongs to the owner of the session")
}
