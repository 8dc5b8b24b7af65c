package act_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var (
	owner = session.Caller{Principal: "ann"}
	inS   = session.Ref{ID: "s"}
)

const inSession = `{:proto 1 :trace {:id "t"} :session/id "s" :task {:intent :text/respond} :input {:prompt "hello"}}`

// talk is a service with the session s of ann.
type talk struct {
	*act.Service
	t        testing.TB
	world    *dispatchtest.World
	sessions *session.Service
}

func newTalk(t testing.TB, rules session.Rules) talk { return newTalkIn(t, two(t), rules) }

func newTalkIn(t testing.TB, world *dispatchtest.World, rules session.Rules) talk {
	x := talk{t: t, world: world, sessions: session.New(&session.Memory{}, rules, nil, nil)}
	_, err := x.sessions.Open(context.Background(), owner, inS, edn.Nil())
	require.Nil(t, err)
	x.Service = service(t, x.world, func(c *act.Config) { c.Sessions = x.sessions })
	return x
}

func (x talk) put(vars string) {
	all := map[string]edn.Value{}
	for k, v := range edn.MustRead(vars).Entries() {
		name, _ := k.AsKeyword()
		all[name] = v
	}
	_, err := x.sessions.Put(context.Background(), owner, inS, all, 0)
	require.Nil(x.t, err)
}

// ask runs an act of ann, whose roles are given, and returns the response and the
// request that the capability got.
func (x talk) ask(request string, roles ...string) (resp, sent edn.Value, err *contract.Error) {
	before := len(x.world.Calls())
	resp, err = x.Do(context.Background(), act.Act{Request: edn.MustRead(request), Principal: "ann", PrincipalType: "user", Roles: roles})
	if calls := x.world.Calls(); len(calls) > before {
		sent = calls[before].Request
	}
	return resp, sent, err
}

func (x talk) turns() (out []string) {
	turns, _, err := x.sessions.Turns(context.Background(), owner, "s")
	require.Nil(x.t, err)
	for _, turn := range turns {
		out = append(out, turn.Role+" "+turn.Text)
	}
	return out
}

// AUTH-004: an act is rejected unless it is of the session of its credential, also if the
// run of its idempotency key exists.
func TestConfinedToItsSession(t *testing.T) {
	x := newTalk(t, session.Restrictive())
	x.world.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:text "hi"}`)})
	for id, refused := range map[string]bool{"": true, `:session/id "other"`: true, `:session/id "s"`: false} {
		_, err := x.Do(t.Context(), act.Act{
			Request:       edn.MustRead(ask + id + "}"),
			Principal:     "ann",
			PrincipalType: "user",
			Narrow:        &policy.Narrowing{Session: "s"},
		})
		if refused {
			require.NotNil(t, err, id)
			assert.Equal(t, "auth/forbidden", err.Type, id)
		} else {
			require.Nil(t, err, id)
		}
	}
	assert.Len(t, x.world.Calls(), 1)
}

// SES-014: the shipped bindings fill what a request leaves out, in the form that
// they want, and nothing else.
func TestDefaultBindings(t *testing.T) {
	x := newTalk(t, session.Permissive())
	x.put(`{:session/language "pl" :session/style :brief :session/context-summary "  so far  " :session/other 1}`)
	resp, sent, err := x.ask(inSession)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, `{:language :pl :style :brief}`, sent.Key("constraints").String())
	assert.Equal(t, `"s"`, sent.Key("session/id").String(), "the plugin knows whose server answers")
	assert.Equal(t, "s", x.world.Calls()[0].Session, "and the supervisor which process is pinned")
	assert.Equal(t, `{:summary "so far"}`, sent.Key("context").String())
	assert.False(t, resp.HasKey("session/warnings"))
	_, sent, err = x.ask(strings.TrimSuffix(inSession, "}") + ` :constraints {:language :en} :context {:summary "mine"}}`)
	require.Nil(t, err)
	assert.Equal(t, `{:language :en :style :brief}`, sent.Key("constraints").String())
	assert.Equal(t, `"mine"`, sent.Key("context").Key("summary").String())
}

// SES-014: a binding that is denied or ill-typed is left out alone, and the
// response says so.
func TestBindingsThatAreLeftOut(t *testing.T) {
	rules := session.Permissive()
	rules.Policy.ByOperation = map[string]session.Access{session.OpDefaults: {Read: []string{"session"}}}
	rules.Bindings = append(rules.Bindings,
		session.Binding{Var: "secret/x", Target: []string{"context", "x"}, Coerce: "identity"},
		session.Binding{Var: "session/limit", Target: []string{"constraints", "max-chars"}, Coerce: "identity"},
		session.Binding{Var: "session/odd", Target: []string{"no-such-part", "x"}, Coerce: "identity"})
	x := newTalk(t, rules)
	x.put(`{:session/language 3 :session/style :brief :secret/x 1 :session/limit "many" :session/odd 1}`)
	resp, sent, err := x.ask(inSession)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, `{:style :brief}`, sent.Key("constraints").String())
	got := map[string]string{}
	for w := range resp.Key("session/warnings").Elems() {
		got[w.Key("var").String()] = w.Key("reason").String() + " " + w.Key("target").String()
	}
	assert.Equal(t, map[string]string{
		":session/language": ":ill-typed [:constraints :language]",
		":secret/x":         ":policy-read-forbidden [:context :x]",
		":session/limit":    ":ill-typed [:constraints :max-chars]",
		":session/odd":      ":ill-typed [:no-such-part :x]",
	}, got)
}

// SES-014: a required binding that cannot be bound is the error of the act.
func TestRequiredBinding(t *testing.T) {
	for typ, b := range map[string]session.Binding{
		"session.vars/policy-read-forbidden": {Var: "secret/x", Target: []string{"context", "x"}, Coerce: "identity", Required: true},
		"invalid-request":                    {Var: "session/n", Target: []string{"constraints", "language"}, Coerce: "keyword", Required: true},
	} {
		rules := session.Permissive()
		rules.Policy.ByOperation = map[string]session.Access{session.OpDefaults: {Read: []string{"session"}}}
		rules.Bindings = []session.Binding{b}
		x := newTalk(t, rules)
		_, _, err := x.ask(inSession)
		require.Nil(t, err, "a variable that is not set is not bound")
		x.put(`{:secret/x 1 :session/n 3}`)
		_, _, err = x.ask(inSession)
		assert.ErrorIs(t, err, contract.OfType(typ))
		given := strings.TrimSuffix(inSession, "}") + ` :constraints {:language :en} :context {:x 2}}`
		resp, sent, err := x.ask(given)
		require.Nil(t, err, "the target is not nil")
		assert.False(t, resp.HasKey("session/warnings"))
		assert.Equal(t, ":en", sent.Key("constraints").Key("language").String())
	}
}

// RUN-002: the input is validated after the session has filled it, so bindings can provide its
// required keys. SES-014: one that is ill-typed there is left out, and what is then missing is
// an error.
func TestBindingsOfRequiredKeys(t *testing.T) {
	const given = `{:proto 1 :trace {:id "t"} :session/id "s" :task {:intent :text/respond} :input {:prompt "hello"%s}}`
	for _, row := range []struct{ name, vars, more, sent, reason string }{
		{"both", `{:session/token "T" :session/account 7}`, "", `{:account 7 :prompt "hello" :token "T"}`, ""},
		{"one is given", `{:session/token "T"}`, " :account 8", `{:account 8 :prompt "hello" :token "T"}`, ""},
		{"one is not set", `{:session/token "T"}`, "", "", ":input/schema-invalid"},
		{"one is ill-typed", `{:session/token 3 :session/account 7}`, "", "", ":input/schema-invalid"},
		{"a given one is ill-typed", `{:session/token "T"}`, ` :account "x"`, "", ":input/schema-invalid"},
		{"optional and ill-typed", `{:session/token "T" :session/account 7 :session/note 3}`, "",
			`{:account 7 :prompt "hello" :token "T"}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			rules := session.Permissive()
			for _, key := range []string{"token", "account", "note"} {
				rules.Bindings = append(rules.Bindings,
					session.Binding{Var: "session/" + key, Target: []string{"input", key}, Coerce: "identity"})
			}
			x := newTalkIn(t, dispatchtest.New(t, dispatchtest.Spec{
				Caps:    []string{dispatchtest.Cap("a/one", "")},
				Intents: []registry.Intent{{ID: "text/respond", In: "req/account", Out: "res/any"}},
				Schemas: map[string]string{"req/account": `[:map {:closed true} [:prompt :string] [:token :string] [:account :int]
				  [:note {:optional true} :string] [:system {:optional true} :string]]`},
			}), rules)
			x.world.On("a/one", value(`{:text "hi"}`))
			x.put(row.vars)
			_, sent, err := x.ask(fmt.Sprintf(given, row.more))
			if row.reason != "" {
				require.NotNil(t, err)
				assert.Equal(t, row.reason, err.Details.Key("reason").String())
				assert.Empty(t, x.world.Calls())
				return
			}
			require.Nil(t, err, "%v", err)
			assert.Equal(t, row.sent, sent.Key("input").String())
		})
	}
}

// SES-014: a variable is not checked against a target that the request sets, so it
// causes no warning.
func TestUnusedBinding(t *testing.T) {
	x := newTalk(t, session.Permissive())
	x.put(`{:session/language 3}`)
	resp, _, err := x.ask(strings.TrimSuffix(inSession, "}") + ` :constraints {:language :en}}`)
	require.Nil(t, err)
	assert.False(t, resp.HasKey("session/warnings"))
}

// SES-015: the system prompt of a session needs the operation that a caller needs
// to send one.
func TestSystemPromptOfASession(t *testing.T) {
	x := newTalk(t, session.Permissive())
	x.put(`{:session/system-prompt "be rude"}`)
	resp, sent, err := x.ask(inSession, "role/user")
	require.Nil(t, err)
	assert.False(t, sent.Key("input").HasKey("system"))
	assert.Contains(t, resp.Key("session/warnings").String(), ":reason :not-permitted")
	resp, sent, err = x.ask(inSession, "role/operator")
	require.Nil(t, err)
	assert.Equal(t, `"be rude"`, sent.Key("input").Key("system").String())
	assert.False(t, resp.HasKey("session/warnings"))
}

// SES-016, SES-031: what was said in a session is context of the next act, and only
// an accepted answer becomes a turn; a frozen session opens with it.
func TestTurnsOfASession(t *testing.T) {
	ctx, x := context.Background(), newTalk(t, session.Permissive())
	_, err := x.sessions.Freeze(ctx, owner, inS, edn.MustRead(`{:summary "we met"}`))
	require.Nil(t, err)
	x.world.On("a/one", value(`{:text "one"}`), value(`{:text "two"}`), dispatchtest.Step{Err: contract.Errorf("provider/refused", "no")})
	x.world.On("a/two", dispatchtest.Step{Err: contract.Errorf("provider/refused", "no")})
	_, sent, err := x.ask(inSession)
	require.Nil(t, err)
	assert.Equal(t, `{:summary "we met"}`, sent.Key("context").String())
	of, err := x.sessions.Get(ctx, owner, "s")
	require.Nil(t, err)
	assert.False(t, of.Frozen)
	_, sent, err = x.ask(strings.Replace(inSession, "hello", "again", 1))
	require.Nil(t, err)
	assert.Equal(t, `[{:role :user :text "hello"} {:role :assistant :text "one"}]`, sent.Key("context").Key("turns").String())
	_, _, err = x.ask(inSession)
	require.NotNil(t, err)
	assert.Equal(t, []string{"user hello", "assistant one", "user again", "assistant two"}, x.turns())
}

// SES-031, RTE-002: an act of an intent with a plan template is a turn like that of any
// intent; a plan of the caller is none.
func TestTurnsOfAnActWithATemplate(t *testing.T) {
	x := newTalkIn(t, dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{dispatchtest.Cap("a/one", "")},
		Intents: []registry.Intent{
			{ID: "text/respond", In: "req/any", Out: "res/any"},
			{ID: "text/explain", In: "req/any", Out: "res/any", Plan: edn.MustRead(`{:nodes [
			  {:op :call :intent :text/respond :input {:slot/id :input} :as :x} {:op :emit :input {:slot/path [:x]}}]}`)},
		},
	}), session.Permissive())
	x.world.On("a/one", value(`{:text "because"}`), value(`{:text "because"}`))
	_, _, err := x.ask(strings.Replace(inSession, "text/respond", "text/explain", 1))
	require.Nil(t, err, "%v", err)
	require.Equal(t, []string{"user hello", "assistant because"}, x.turns())
	_, _, err = x.ask(`{:proto 1 :trace {:id "t"} :session/id "s" :task {:intent :plan/run} :input {:plan {:nodes [
	  {:op :call :intent :text/respond :input {} :as :x} {:op :emit :input :x}]}}}`)
	require.Nil(t, err, "%v", err)
	assert.Len(t, x.turns(), 2)
}

// SES-031: the turns of an act whose session was deleted under way do not reach
// another session with its id, whether the act runs through or is resumed; nor do
// those of a record that names the id alone.
func TestTurnsOfADeletedSession(t *testing.T) {
	ctx, x := context.Background(), newTalk(t, session.Permissive())
	bob := session.Caller{Principal: "bob"}
	x.world.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step {
		_, err := x.sessions.Delete(ctx, owner, inS)
		require.Nil(t, err)
		_, err = x.sessions.Open(ctx, bob, inS, edn.Nil())
		require.Nil(t, err)
		return value(`{:text "private"}`)
	})
	run, err := x.Start(ctx, act.Act{Request: edn.MustRead(inSession), Principal: "ann", PrincipalType: "user"})
	require.Nil(t, err)
	_, err = run.Wait()
	require.Nil(t, err, "the run is kept")
	turns := func() []session.Turn {
		said, _, err := x.sessions.Turns(ctx, bob, "s")
		require.Nil(t, err)
		return said
	}
	assert.Empty(t, turns())

	first := run.Records()[:1]
	accepted := first[0].Body.(*journal.RunAccepted)
	assert.Equal(t, "ann", accepted.SessionOwner)
	older := *accepted
	older.SessionOwner, older.SessionCreated = "", time.Time{}
	w := two(t)
	w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step { return value(`{:text "private"}`) })
	for name, body := range map[string]*journal.RunAccepted{"now": accepted, "older": &older} {
		records := slices.Clone(first)
		records[0].Body = body
		all, err := resumed(t, w, records, crashed, func(c *act.Config) { c.Sessions = x.sessions })
		require.Nil(t, err, name)
		end := all[len(all)-1].Body.(*journal.RunFinished)
		assert.Equal(t, session.Identity{ID: "s", Owner: "ann", Created: body.SessionCreated}, act.SessionOf(end), name)
		assert.Empty(t, turns(), name)
	}
}

// SES-016: turns beyond the window are left out, and the response says so.
func TestTurnsBeyondTheWindow(t *testing.T) {
	rules := session.Permissive()
	rules.Window = session.Window{Turns: 2, Chars: 100}
	x := newTalk(t, rules)
	for range 2 {
		x.world.On("a/one", value(`{:text "ok"}`))
		_, _, err := x.ask(inSession)
		require.Nil(t, err)
	}
	x.world.On("a/one", value(`{:text "ok"}`))
	resp, sent, err := x.ask(inSession)
	require.Nil(t, err)
	assert.Equal(t, 2, sent.Key("context").Key("turns").Len())
	assert.Equal(t, `[{:reason :turns-cut :target [:context :turns]}]`, resp.Key("session/warnings").String())
}

// brokenStore fails to read.
type brokenStore struct{ session.Memory }

func (*brokenStore) Session(context.Context, string) (session.Session, bool, error) {
	return session.Session{}, false, context.DeadlineExceeded
}

// SES-021: an act without its session is not run: the session of another principal,
// an unknown one, a store that fails, and a host without sessions are errors.
func TestActsWithoutTheirSession(t *testing.T) {
	x := newTalk(t, session.Permissive())
	for name, row := range map[string]struct {
		sessions  *session.Service
		principal string
		typ       string
	}{
		"another": {x.sessions, "bob", "session/not-found"},
		"unknown": {session.New(&session.Memory{}, session.Permissive(), nil, nil), "ann", "session/not-found"},
		"broken":  {session.New(&brokenStore{}, session.Permissive(), nil, nil), "ann", "session/store-unavailable"},
		"none":    {nil, "ann", "session/not-found"},
	} {
		s := service(t, x.world, func(c *act.Config) { c.Sessions = row.sessions })
		_, err := s.Do(context.Background(), act.Act{Request: edn.MustRead(inSession), Principal: row.principal, PrincipalType: "user"})
		assert.ErrorIs(t, err, contract.OfType(row.typ), name)
	}
	assert.Empty(t, x.world.Calls())
}

// RUN-020, JRN-050: the identity of a request does not depend on the state of its
// session; the recorded request has what the session filled.
func TestSessionInTheRecord(t *testing.T) {
	x := newTalk(t, session.Permissive())
	first := x.accepted()
	x.put(`{:session/language :pl}`)
	second := x.accepted()
	assert.Equal(t, first.Fingerprint.Hash(), second.Fingerprint.Hash())
	assert.NotEqual(t, first.Request.Hash(), second.Request.Hash())
	assert.Equal(t, ":pl", second.Request.Value().Key("constraints").Key("language").String())
	assert.Equal(t, "s", second.SessionID)
	assert.Equal(t, first.SessionVersion+1, second.SessionVersion)
}

// accepted returns the first record of an act without turns.
func (x talk) accepted() *journal.RunAccepted {
	x.world.On("a/one", value(`{:n 1}`))
	run, err := x.Start(context.Background(), act.Act{Request: edn.MustRead(inSession), Principal: "ann", PrincipalType: "user"})
	require.Nil(x.t, err)
	_, _ = run.Wait()
	return run.Records()[0].Body.(*journal.RunAccepted)
}

// The turns in a record are those that the session gets.
func TestSessionTurnsOfARecord(t *testing.T) {
	end := &journal.RunFinished{SessionID: "s", SessionTurns: journal.RefTo(edn.MustRead(`[{:role :user :text "a"}]`))}
	at := time.Unix(7, 0)
	assert.Equal(t, []session.Turn{{Role: session.RoleUser, Text: "a", Run: "run_1", At: at}}, act.SessionTurns("run_1", at, end))
	assert.Empty(t, act.SessionTurns("run_1", at, &journal.RunFinished{}))

	end.Status, end.Response, end.Totals = journal.StatusCompleted, end.SessionTurns, edn.MustRead(`{:operations {} :attempts {}}`)
	for _, of := range []session.Identity{{ID: "s"}, {ID: "s", Owner: "ann", Created: at.UTC()}} {
		end.SessionOwner, end.SessionCreated = of.Owner, of.Created
		read := decoded(t, []journal.Record{{Run: "run_1", Seq: 1, At: at, Epoch: 1, Body: end}})
		assert.Equal(t, of, act.SessionOf(read[0].Body.(*journal.RunFinished)), "also without the keys that older records lack")
	}
}

// CNV-022, SES-031: a call of conversation/* that has changed the conversation of its session
// adds no turns besides. One in another conversation does, and so does an act of another intent
// whose input names the conversation of its session.
func TestTurnsOfAnActInTheConversationOfItsSession(t *testing.T) {
	for _, row := range []struct {
		intent, conversation string
		kept                 bool
	}{
		{"conversation/send", "session/s", false},
		{"conversation/send", "c", true},
		{"text/respond", "session/s", true},
	} {
		x := newTalkIn(t, dispatchtest.New(t, dispatchtest.Spec{
			Caps:    []string{strings.Replace(dispatchtest.Cap("a/one", ""), "#{", "#{:conversation/send ", 1)},
			Intents: []registry.Intent{{ID: "conversation/send", In: "req/any", Out: "res/any"}},
		}), session.Permissive())
		x.world.On("a/one", value(`{:text "so"}`))
		_, _, err := x.ask(fmt.Sprintf(`{:proto 1 :trace {:id "t"} :session/id "s" :task {:intent :%s} :input {:text "why" :conversation/id %q}}`,
			row.intent, row.conversation))
		require.Nil(t, err, "%v", err)
		var want []string
		if row.kept {
			want = []string{"user why", "assistant so"}
		}
		assert.Equal(t, want, x.turns(), "%s in %s", row.intent, row.conversation)
	}
}

// withSession gives a service the session s of its own user.
func withSession(t testing.TB) func(*act.Config) {
	sessions := session.New(&session.Memory{}, session.Permissive(), nil, nil)
	_, err := sessions.Open(context.Background(), session.Caller{Principal: "local"}, inS, edn.Nil())
	require.Nil(t, err)
	return func(c *act.Config) { c.Sessions = sessions }
}
