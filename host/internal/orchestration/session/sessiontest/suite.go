package sessiontest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var ann = session.Caller{Principal: "ann"}

// Suite tests a store. open returns an empty one.
func Suite(t *testing.T, open func(t *testing.T) session.Store) {
	t.Run("model", func(t *testing.T) {
		store := open(t)
		rapid.Check(t, func(t *rapid.T) { runModel(t, store) })
	})
	for name, test := range map[string]func(*testing.T, session.Store){
		"life":     life,
		"writers":  writers,
		"lifetime": lifetime,
		"turns":    turns,
		"reused":   reusedID,
		"notes":    notes,
		"pages":    pages,
		"access":   access,
		"all":      allOrNothing,
		"hot":      hot,
		"summary":  summary,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// life: the effect of each operation on the fields of a session (SES-001, SES-002).
func life(t *testing.T, store session.Store) {
	ctx, clock := context.Background(), &Clock{At: Start}
	s := session.New(store, session.Permissive(), nil, clock.Now)
	made, err := s.Open(ctx, ann, session.Ref{}, edn.MustRead(`{:summary "first" :meta {:a 1}}`))
	require.Nil(t, err)
	assert.Regexp(t, "^s-[0-9A-HJKMNP-TV-Z]{26}$", made.ID)
	ref := session.Ref{ID: made.ID}
	type step struct {
		do     func(context.Context, session.Caller, session.Ref, edn.Value) (session.Session, *contract.Error)
		notes  string
		want   string
		update bool
	}
	for i, st := range []step{
		{s.Freeze, `{:summary "second" :snapshot [1]}`, `{:summary "second" :meta {:a 1} :snapshot [1]}`, true},
		{s.Freeze, `nil`, `{:summary "second" :meta {:a 1} :snapshot [1]}`, false},
		{s.Thaw, `{:facts #{:x}}`, `{:summary "second" :meta {:a 1} :snapshot [1] :facts #{:x}}`, true},
		{s.Open, `nil`, `{:summary "second" :meta {:a 1} :snapshot [1] :facts #{:x}}`, false},
		{s.Freeze, `nil`, `{:summary "second" :meta {:a 1} :snapshot [1] :facts #{:x}}`, true},
		{s.Open, `nil`, `{:summary "second" :meta {:a 1} :snapshot [1] :facts #{:x}}`, true},
	} {
		before, err := s.Get(ctx, ann, made.ID)
		require.Nil(t, err)
		clock.At = clock.At.Add(time.Minute)
		_, err = st.do(ctx, ann, ref, edn.MustRead(st.notes))
		require.Nil(t, err)
		after, _, failure := store.Session(ctx, made.ID)
		require.NoError(t, failure)
		assert.Equal(t, edn.MustRead(st.want).String(), after.Notes.String(), i)
		if !st.update {
			assert.Equal(t, before.Version, after.Version, i)
			continue
		}
		assert.Equal(t, before.Version+1, after.Version, i)
		assert.Equal(t, clock.At, after.Updated, i)
		at := after.ThawedAt
		if after.Frozen {
			at = after.FrozenAt
		}
		assert.Equal(t, clock.At, at, i)
	}
	deleted, err := s.Delete(ctx, ann, ref)
	require.Nil(t, err)
	assert.Equal(t, made.ID, deleted.ID)
	for name, do := range map[string]func() *contract.Error{
		"get":    func() *contract.Error { _, err := s.Get(ctx, ann, made.ID); return err },
		"thaw":   func() *contract.Error { _, err := s.Thaw(ctx, ann, ref, edn.Nil()); return err },
		"freeze": func() *contract.Error { _, err := s.Freeze(ctx, ann, ref, edn.Nil()); return err },
		"delete": func() *contract.Error { _, err := s.Delete(ctx, ann, ref); return err },
		"vars":   func() *contract.Error { _, _, err := s.Vars(ctx, ann, ref, nil); return err },
		"drop":   func() *contract.Error { _, _, err := s.Drop(ctx, ann, ref, nil); return err },
		"turns":  func() *contract.Error { _, _, err := s.Turns(ctx, ann, made.ID); return err },
	} {
		assert.Equal(t, ":session/not-found", typeOf(do()), name)
	}
	for _, id := range []string{"a b", strings.Repeat("x", 129), "ü", "a/b", "a\n"} {
		_, err := s.Open(ctx, ann, session.Ref{ID: id}, edn.Nil())
		assert.Equal(t, ":session/invalid-id", typeOf(err), id)
		_, err = s.Get(ctx, ann, id)
		assert.Equal(t, ":session/invalid-id", typeOf(err), id)
	}
	_, err = s.Open(ctx, ann, session.Ref{ID: strings.Repeat("x", 128)}, edn.Nil())
	assert.Nil(t, err)
}

// writers: 16 concurrent writers that retry after a conflict lose no update (SES-004).
func writers(t *testing.T, store session.Store) {
	const each = 10
	ctx, ref := context.Background(), session.Ref{ID: "s"}
	s := session.New(store, session.Permissive(), nil, (&Clock{At: Start}).Now)
	_, err := s.Open(ctx, ann, ref, edn.Nil())
	require.Nil(t, err)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for done := 0; done < each; {
				of, vars, err := s.Vars(ctx, ann, ref, []string{"a/sum"})
				if !assert.Nil(t, err) {
					return
				}
				sum := int64(0)
				if len(vars) > 0 {
					sum, _ = vars[0].Value.AsInt()
				}
				_, err = s.Put(ctx, ann, session.Ref{ID: "s", Version: of.Version}, map[string]edn.Value{"a/sum": edn.Int(sum + 1)}, 0)
				switch typeOf(err) {
				case "":
					done++
				case ":session/version-conflict":
					current, _ := err.Details.Key("session/version").AsInt()
					assert.Greater(t, current, of.Version)
				default:
					assert.Nil(t, err)
					return
				}
			}
		})
	}
	all.Wait()
	of, vars, err := s.Vars(ctx, ann, ref, nil)
	require.Nil(t, err)
	require.Len(t, vars, 1)
	assert.Equal(t, edn.Int(16*each).String(), vars[0].Value.String())
	assert.Equal(t, int64(16*each+1), of.Version)
}

// lifetime: a variable is visible up to the instant at which it expires; reads,
// writes and the upkeep agree on that (SES-012).
func lifetime(t *testing.T, store session.Store) {
	ctx, clock, ref := context.Background(), &Clock{At: Start}, session.Ref{ID: "s"}
	rules := session.Permissive()
	s := session.New(store, rules, nil, clock.Now)
	_, err := s.Open(ctx, ann, ref, edn.Nil())
	require.Nil(t, err)
	_, err = s.Put(ctx, ann, ref, map[string]edn.Value{"a/short": edn.Int(1)}, time.Second)
	require.Nil(t, err)
	_, err = s.Put(ctx, ann, ref, map[string]edn.Value{"a/most": edn.Int(1)}, 365*24*time.Hour)
	require.Nil(t, err)
	_, err = s.Put(ctx, ann, ref, map[string]edn.Value{"a/ever": edn.Int(1)}, 0)
	require.Nil(t, err)
	visible := func() (keys []string) {
		_, vars, err := s.Vars(ctx, ann, ref, nil)
		require.Nil(t, err)
		for _, v := range vars {
			keys = append(keys, v.Key)
		}
		return keys
	}
	clock.At = Start.Add(time.Second - time.Millisecond)
	assert.Equal(t, []string{"a/ever", "a/most", "a/short"}, visible())
	clock.At = Start.Add(time.Second)
	assert.Equal(t, []string{"a/ever", "a/most"}, visible())
	stored, failure := store.Vars(ctx, "s")
	require.NoError(t, failure)
	assert.Len(t, stored, 3, "reading deletes nothing")
	n, err := s.Upkeep(ctx)
	require.Nil(t, err)
	assert.Equal(t, 1, n)
	clock.At = Start.Add(rules.Classes[session.ClassDurable].MaxTTL)
	assert.Equal(t, []string{"a/ever"}, visible())
	_, err = s.Put(ctx, ann, ref, map[string]edn.Value{"a/new": edn.Int(1)}, 0)
	require.Nil(t, err)
	stored, failure = store.Vars(ctx, "s")
	require.NoError(t, failure)
	assert.Len(t, stored, 2, "a write deletes what has expired")
}

// turns: appended turns thaw the session, and the window cuts between turns (SES-002, SES-016).
func turns(t *testing.T, store session.Store) {
	ctx, clock := context.Background(), &Clock{At: Start}
	s := session.New(store, session.Permissive(), nil, clock.Now)
	_, err := s.Open(ctx, ann, session.Ref{ID: "s"}, edn.Nil())
	require.Nil(t, err)
	_, err = s.Freeze(ctx, ann, session.Ref{ID: "s"}, edn.Nil())
	require.Nil(t, err)
	for i := range 20 {
		role := []string{session.RoleUser, session.RoleAssistant}[i%2]
		require.Nil(t, s.Append(ctx, session.Identity{ID: "s"}, []session.Turn{{Role: role, Text: fmt.Sprint(i), Run: "run_1", At: clock.At}}))
	}
	of, err := s.Get(ctx, ann, "s")
	require.Nil(t, err)
	assert.False(t, of.Frozen)
	assert.Equal(t, int64(22), of.Version)
	kept, cut, err := s.Turns(ctx, ann, "s")
	require.Nil(t, err)
	assert.True(t, cut)
	require.Len(t, kept, 16)
	assert.Equal(t, session.Turn{N: 5, Role: session.RoleUser, Text: "4", Run: "run_1", At: clock.At}, kept[0])
	require.Nil(t, s.Append(ctx, session.Identity{ID: "gone"}, kept), "of a session that was deleted")
	_, err = s.Get(ctx, ann, "gone")
	assert.Equal(t, ":session/not-found", typeOf(err))
}

// reusedID: turns and a summary that were meant for a deleted session do not reach
// another one with its id, of the same owner or not (SES-021, SES-031).
func reusedID(t *testing.T, store session.Store) {
	ctx, clock := context.Background(), &Clock{At: Start}
	rules := session.Permissive()
	rules.Window = session.Window{Turns: 2, Chars: 100}
	s := session.New(store, rules, nil, clock.Now)
	said := []session.Turn{
		{Role: session.RoleUser, Text: "secret", Run: "run_1", At: Start},
		{Role: session.RoleAssistant, Text: "answer", Run: "run_1", At: Start},
	}
	reopen := func(who session.Caller, as session.Caller, later time.Duration) session.Session {
		_, err := s.Delete(ctx, who, session.Ref{ID: "s"})
		require.Nil(t, err)
		clock.At = clock.At.Add(later)
		of, err := s.Open(ctx, as, session.Ref{ID: "s"}, edn.Nil())
		require.Nil(t, err)
		return of
	}
	bob := session.Caller{Principal: "bob"}
	first, err := s.Open(ctx, ann, session.Ref{ID: "s"}, edn.Nil())
	require.Nil(t, err)
	require.Nil(t, s.Append(ctx, first.Identity(), said))
	for _, next := range []struct {
		was, is session.Caller
		later   time.Duration
	}{{ann, bob, 0}, {bob, bob, time.Millisecond}, {bob, ann, time.Hour}} {
		before := reopen(next.was, next.is, next.later)
		require.Nil(t, s.Append(ctx, first.Identity(), said))
		after, failed := s.Get(ctx, next.is, "s")
		require.Nil(t, failed)
		assert.Equal(t, before.Version, after.Version, next)
		turns, _, failed := s.Turns(ctx, next.is, "s")
		require.Nil(t, failed)
		assert.Empty(t, turns, next)
		first = before
	}

	release := s.Use("s")
	require.Nil(t, s.Append(ctx, first.Identity(), append(said, said...)))
	release()
	_, err = s.Summarize(ctx, func(context.Context, session.Session, string, int) (string, *contract.Error) {
		reopen(ann, bob, time.Millisecond)
		return "what ann said", nil
	})
	require.Nil(t, err)
	of, err := s.Get(ctx, bob, "s")
	require.Nil(t, err)
	assert.True(t, of.Notes.Key("summary").IsNil())
}

// notes: the total size of the notes of a session is limited; a write that does not change them is
// accepted (SES-001).
func notes(t *testing.T, store session.Store) {
	ctx := context.Background()
	s := session.New(store, session.Permissive(), nil, (&Clock{At: Start}).Now)
	note := func(n int) edn.Value { return edn.MustMap(edn.K("summary"), edn.Text(strings.Repeat("x", n))) }
	_, err := s.Open(ctx, ann, session.Ref{ID: "s"}, note(128<<10))
	assert.Equal(t, ":session/notes-too-large", typeOf(err))
	_, err = s.Get(ctx, ann, "s")
	assert.Equal(t, ":session/not-found", typeOf(err), "nothing was made")
	of, err := s.Open(ctx, ann, session.Ref{ID: "s"}, note(100<<10))
	require.Nil(t, err)
	_, err = s.Thaw(ctx, ann, session.Ref{ID: "s"}, edn.MustMap(edn.K("meta"), note(50<<10)))
	assert.Equal(t, ":session/notes-too-large", typeOf(err), "together")
	require.NotNil(t, err)
	limit, _ := err.Details.Key("limit").AsInt()
	found, _ := err.Details.Key("found").AsInt()
	assert.Less(t, limit, found)
	_, err = s.Freeze(ctx, ann, session.Ref{ID: "s"}, edn.Nil())
	require.Nil(t, err)
	assert.False(t, of.Brief().HasKey("session/summary"))
	assert.True(t, of.Value().HasKey("session/summary"))
}

// pages: a list has pages in the order of ids, with only the sessions of the caller (SES-021).
func pages(t *testing.T, store session.Store) {
	ctx := context.Background()
	s := session.New(store, session.Permissive(), nil, (&Clock{At: Start}).Now)
	for i := range 5 {
		_, err := s.Open(ctx, session.Caller{Principal: []string{"ann", "bob"}[i%2]}, session.Ref{ID: fmt.Sprint("s", i)}, edn.Nil())
		require.Nil(t, err)
	}
	walk := func(who session.Caller) (ids []string) {
		for after := ""; ; {
			page, next, err := s.List(ctx, who, after, 2)
			require.Nil(t, err)
			for _, one := range page {
				ids = append(ids, one.ID)
			}
			if after = next; next == "" {
				return ids
			}
		}
	}
	assert.Equal(t, []string{"s0", "s2", "s4"}, walk(ann))
	assert.Equal(t, []string{"s0", "s1", "s2", "s3", "s4"}, walk(session.Caller{Principal: "root", Any: true}))
	_, err := s.Open(ctx, ann, session.Ref{ID: "s1"}, edn.Nil())
	assert.Equal(t, ":session/not-found", typeOf(err), "an id of another principal")
	require.NotNil(t, err)
	assert.Contains(t, err.Hint, "another id", "the caller wants to create one")
	_, err = s.Get(ctx, ann, "s1")
	require.NotNil(t, err)
	assert.NotContains(t, err.Hint, "another id")
}

// access: a read changes only the access time, which is written later (SES-002).
func access(t *testing.T, store session.Store) {
	ctx, clock := context.Background(), &Clock{At: Start}
	s := session.New(store, session.Permissive(), nil, clock.Now)
	made, err := s.Open(ctx, ann, session.Ref{ID: "s"}, edn.Nil())
	require.Nil(t, err)
	clock.At = Start.Add(time.Hour)
	read, err := s.Get(ctx, ann, "s")
	require.Nil(t, err)
	assert.Equal(t, clock.At, read.Accessed)
	stored, _, failure := store.Session(ctx, "s")
	require.NoError(t, failure)
	assert.Equal(t, made, stored)
	_, err = s.Upkeep(ctx)
	require.Nil(t, err)
	stored, _, failure = store.Session(ctx, "s")
	require.NoError(t, failure)
	made.Accessed = clock.At
	assert.Equal(t, made, stored)
}

// allOrNothing: a change that fails writes nothing; with a canceled context the error is
// session/store-unavailable (SES-021).
func allOrNothing(t *testing.T, store session.Store) {
	ctx := context.Background()
	s := session.New(store, session.Permissive(), nil, (&Clock{At: Start}).Now)
	_, err := s.Open(ctx, ann, session.Ref{ID: "s"}, edn.Nil())
	require.Nil(t, err)
	_, err = s.Put(ctx, ann, session.Ref{ID: "s"}, map[string]edn.Value{"a/x": edn.Int(1), "bad key": edn.Int(2)}, 0)
	assert.Equal(t, ":session.vars/invalid-key", typeOf(err))
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Put(canceled, ann, session.Ref{ID: "s"}, map[string]edn.Value{"a/x": edn.Int(1)}, 0)
	assert.Equal(t, ":session/store-unavailable", typeOf(err))
	of, vars, err := s.Vars(ctx, ann, session.Ref{ID: "s"}, nil)
	require.Nil(t, err)
	assert.Empty(t, vars)
	assert.Equal(t, int64(1), of.Version)
}

// hot: sessions that are not used are frozen, the least recently used ones first, those with a run
// never; the model servers that plugins run for frozen sessions are stopped (SES-020).
func hot(t *testing.T, store session.Store) {
	const note = `{:meta {:kept 1}}`
	ctx, clock := context.Background(), &Clock{At: Start}
	rules := session.Permissive()
	rules.MaxHot, rules.IdleTTL = 2, time.Minute
	var told []string
	s := session.New(store, rules, func(_ context.Context, id, intent string) (int, *contract.Error) {
		told = append(told, intent+" "+id)
		return 1, nil
	}, clock.Now)
	tick := func(by time.Duration) { clock.At = clock.At.Add(by) }
	cool := func(want ...session.Cooled) {
		t.Helper()
		told = nil
		got, err := s.Cool(ctx)
		require.Nil(t, err)
		assert.Equal(t, want, got)
		var quits []string
		for _, c := range want {
			quits = append(quits, "model/quit "+c.ID)
			after, err := s.Get(ctx, ann, c.ID)
			require.Nil(t, err)
			assert.True(t, after.Frozen)
			assert.Equal(t, c.By, after.FrozenBy)
			assert.Equal(t, clock.At, after.FrozenAt)
			assert.Equal(t, note, after.Notes.String())
		}
		assert.Equal(t, quits, told)
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		_, err := s.Open(ctx, ann, session.Ref{ID: id}, edn.MustRead(note))
		require.Nil(t, err)
		_, err = s.Put(ctx, ann, session.Ref{ID: id}, map[string]edn.Value{"session/x": edn.K(id)}, 0)
		require.Nil(t, err)
		tick(time.Second)
	}
	require.Len(t, s.Hot(), 1, "signaled")
	bare, failure := store.Hot(ctx)
	require.NoError(t, failure)
	require.Len(t, bare, 4)
	hot, warm, counted := s.Count(ctx)
	require.Nil(t, counted)
	assert.Equal(t, []int{4, 0}, []int{hot, warm})
	assert.Zero(t, bare[0].Notes.Len())
	_, err := s.Get(ctx, ann, "a")
	require.Nil(t, err)
	release := s.Use("b")
	cool(session.Cooled{ID: "c", By: session.ByHotLimit}, session.Cooled{ID: "d", By: session.ByHotLimit})
	cool()
	tick(time.Minute - 1)
	cool()
	tick(1)
	cool(session.Cooled{ID: "a", By: session.ByIdleTTL})
	before := clock.At
	release()
	tick(time.Minute - 1)
	cool()
	tick(1)
	cool(session.Cooled{ID: "b", By: session.ByIdleTTL})
	_, failure = s.Upkeep(ctx)
	require.Nil(t, failure)
	_, vars, err := s.Vars(ctx, ann, session.Ref{ID: "b"}, nil)
	require.Nil(t, err)
	require.Len(t, vars, 1, "nothing is lost")
	assert.True(t, vars[0].Value.Equal(edn.K("b")))
	stored, _, problem := store.Session(ctx, "b")
	require.NoError(t, problem)
	assert.False(t, stored.Accessed.Before(before), "the release of the run was its last use")

	told = nil
	again, err := s.Thaw(ctx, ann, session.Ref{ID: "b"}, edn.Nil())
	require.Nil(t, err)
	assert.False(t, again.Frozen)
	_, n, err := s.ThawWorkers(ctx, ann, "b")
	require.Nil(t, err)
	assert.Equal(t, 1, n)
	_, _, err = s.FreezeWorkers(ctx, ann, "b")
	require.Nil(t, err)
	_, err = s.Freeze(ctx, ann, session.Ref{ID: "b"}, edn.Nil())
	require.Nil(t, err)
	_, err = s.Delete(ctx, ann, session.Ref{ID: "b"})
	require.Nil(t, err)
	_, _, err = s.FreezeWorkers(ctx, session.Caller{Principal: "bob"}, "a")
	assert.Equal(t, ":session/not-found", typeOf(err))
	assert.Equal(t, []string{"model/thaw b", "model/freeze b", "model/quit b", "model/quit b"}, told)
}

// summary: turns that no longer fit become part of the summary, which acts get in
// their place; nothing is summarized twice, and a failure loses nothing (SES-016).
func summary(t *testing.T, store session.Store) {
	ctx, clock := context.Background(), &Clock{At: Start}
	rules := session.Permissive()
	rules.Window, rules.SummaryChars = session.Window{Turns: 4, Chars: 100}, 50
	s := session.New(store, rules, nil, clock.Now)
	_, err := s.Open(ctx, ann, session.Ref{ID: "s"}, edn.MustRead(`{:summary "before"}`))
	require.Nil(t, err)
	var texts []string
	broken := false
	by := func(_ context.Context, of session.Session, text string, chars int) (string, *contract.Error) {
		assert.Equal(t, []any{"s", "ann", 50}, []any{of.ID, of.Owner, chars})
		if broken {
			return "", contract.AsError(context.DeadlineExceeded)
		}
		texts = append(texts, text)
		return fmt.Sprint("summary ", len(texts)), nil
	}
	say := func(n int) {
		t.Helper()
		release := s.Use("s")
		require.Nil(t, s.Append(ctx, session.Identity{ID: "s"}, []session.Turn{
			{Role: session.RoleUser, Text: fmt.Sprint("question ", n), At: clock.At},
			{Role: session.RoleAssistant, Text: fmt.Sprint("answer ", n), At: clock.At},
		}))
		release()
	}
	check := func(cut bool, note string, want ...string) {
		t.Helper()
		turns, isCut, err := s.Turns(ctx, ann, "s")
		require.Nil(t, err)
		var got []string
		for _, turn := range turns {
			got = append(got, turn.Text)
		}
		assert.Equal(t, want, got)
		assert.Equal(t, cut, isCut)
		of, err := s.Get(ctx, ann, "s")
		require.Nil(t, err)
		assert.Equal(t, note, text(of.Notes.Key("summary")))
		assert.False(t, of.Value().HasKey("session/summarized-turns"))
	}
	summarize := func(want ...string) {
		t.Helper()
		ids, err := s.Summarize(ctx, by)
		assert.Equal(t, broken, err != nil)
		assert.Equal(t, want, ids)
	}
	say(1)
	say(2)
	summarize()
	check(false, "before", "question 1", "answer 1", "question 2", "answer 2")
	say(3)
	broken = true
	summarize()
	check(true, "before", "question 2", "answer 2", "question 3", "answer 3")
	_, err = s.Summarize(ctx, nil)
	require.Nil(t, err)
	broken = false
	summarize()
	say(4)
	summarize("s")
	check(false, "summary 1", "question 4", "answer 4")
	summarize()
	say(5)
	summarize()
	say(6)
	summarize("s")
	check(false, "summary 2", "question 6", "answer 6")
	assert.Equal(t, []string{
		"before\n\nuser: question 1\nassistant: answer 1\nuser: question 2\nassistant: answer 2\nuser: question 3\nassistant: answer 3\n",
		"summary 1\n\nuser: question 4\nassistant: answer 4\nuser: question 5\nassistant: answer 5\n",
	}, texts)

	say(7)
	say(8)
	_, err = s.Thaw(ctx, ann, session.Ref{ID: "s"}, edn.MustRead(`{:summary "mine"}`))
	require.Nil(t, err)
	racing := func(ctx context.Context, of session.Session, said string, _ int) (string, *contract.Error) {
		_, err := s.Thaw(ctx, ann, session.Ref{ID: "s"}, edn.MustRead(`{:summary "later"}`))
		require.Nil(t, err)
		assert.Contains(t, said, "mine")
		return "late", nil
	}
	_, err = s.Summarize(ctx, racing)
	require.Nil(t, err)
	check(true, "later", "question 7", "answer 7", "question 8", "answer 8")
}

func text(v edn.Value) string { s, _ := v.AsString(); return s }
