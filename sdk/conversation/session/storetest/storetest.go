package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/conversation/session"
)

// Store is an implementation to test.
type Store struct {
	// Open returns an empty store.
	Open func(t *testing.T) session.Store
	// Reopen closes the store and opens it again with what is stored. It is nil
	// for a store that lasts as long as the process.
	Reopen func(t *testing.T, s session.Store) session.Store
}

// Run tests the store against each point of [session.Store]. The changes that it
// commits begin and end at a change of roles, and no conversation has more than a
// few hundred messages.
func Run(t *testing.T, store Store) {
	for name, test := range map[string]func(*testing.T, *suite){
		"NewConversationIsEmpty":  newConversationIsEmpty,
		"MessagesComeBackWhole":   messagesComeBackWhole,
		"ChangesAreThoseOfASlice": changesAreThoseOfASlice,
		"OldVersionConflicts":     oldVersionConflicts,
		"OneOfManyCommitsWins":    oneOfManyCommitsWins,
		"FailuresChangeNothing":   failuresChangeNothing,
		"LoadedIsNotShared":       loadedIsNotShared,
		"SessionsLoseNothing":     sessionsLoseNothing,
	} {
		t.Run(name, func(t *testing.T) { test(t, &suite{Store: store, store: store.Open(t)}) })
	}
}

type suite struct {
	Store
	store session.Store
}

// reopen opens the store again, if it can be.
func (s *suite) reopen(t *testing.T) {
	if s.Reopen != nil {
		s.store = s.Reopen(t, s.store)
	}
}

func (s *suite) load(t *testing.T, id string) session.Snapshot {
	t.Helper()
	got, err := s.store.Load(t.Context(), id)
	if err != nil {
		t.Fatalf("Load %s: %v", id, err)
	}
	return got
}

func (s *suite) commit(t *testing.T, id string, base session.Version, c session.Change) session.Version {
	t.Helper()
	v, err := s.store.Commit(t.Context(), id, base, c)
	if err != nil {
		t.Fatalf("Commit %s %+v: %v", id, c, err)
	}
	if v <= base {
		t.Fatalf("Commit on version %d returned %d", base, v)
	}
	return v
}

// holds tests that a conversation in the store has the version and the messages,
// also after the store was opened again.
func (s *suite) holds(t *testing.T, id string, version session.Version, want []conversation.Message) {
	t.Helper()
	for range 2 {
		got := s.load(t, id)
		if got.Version != version {
			t.Fatalf("version of %s is %d, want %d", id, got.Version, version)
		}
		conversationtest.Equal(t, got.Messages, want)
		s.reopen(t)
	}
}

func appended(n int, messages ...conversation.Message) session.Change {
	return session.Change{From: n, To: n, Messages: messages}
}

func newConversationIsEmpty(t *testing.T, s *suite) {
	s.holds(t, "c-01", 0, nil)
	v := s.commit(t, "c-01", 0, appended(0, conversation.User("a")))
	s.holds(t, "c-01", v, []conversation.Message{conversation.User("a")})
	s.holds(t, "c-02", 0, nil)
}

// everyPart returns messages of every role with every kind of part.
func everyPart(t *testing.T) []conversation.Message {
	var out []conversation.Message
	add := func(role conversation.Role, parts ...conversation.Part) {
		t.Helper()
		m, err := conversation.New(role, parts...)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	image := conversation.Image{MediaType: "image/png", Data: "iVBORw0KGgo="}
	text := conversation.Text{Text: "quote \" backslash \\ ż \u0007 \x7f 日本 😀\n", Field: "commentary", Cache: true}
	add(conversation.RoleSystem, text, conversation.Text{Text: "b"})
	add(conversation.RoleUser, text, image, conversation.Image{URL: "https://example.org/a.png", Cache: true},
		conversation.Reference{Hash: "b3:00ff", MediaType: "text/plain"})
	add(conversation.RoleAssistant, conversation.Reasoning{Text: "hm", Signature: "s", Field: "thinking", Model: "m"},
		text, conversation.Call{ID: "t1", Tool: "fs/read", Args: `{:path "a.go"}`},
		conversation.Reasoning{Data: "opaque", Model: "m"}, conversation.Text{Text: "then"},
		conversation.Call{ID: "t2", Tool: "clock", Args: `{}`})
	add(conversation.RoleTool, conversation.Result{CallID: "t1"}, text, image)
	add(conversation.RoleTool, conversation.Result{CallID: "t2", Failed: true}, conversation.Text{Text: "Error: no clock"})
	out = append(out, conversation.Assistant("done").WithAttribution(conversation.Attribution{
		Agent: "docs-writer", Capability: "llm/voice", Model: "vendor-model-name", Run: "r-1", Finish: "length",
	}), conversation.User("thanks"), conversation.Assistant("you are welcome"))
	return out
}

func messagesComeBackWhole(t *testing.T, s *suite) {
	all := everyPart(t)
	v := s.commit(t, "c-01", 0, appended(0, all...))
	s.holds(t, "c-01", v, all)
	for i, m := range all { // one by one, after calls that are there already
		v = s.commit(t, "c-01", v, appended(len(all)+i, m))
	}
	s.holds(t, "c-01", v, append(all, all...))
}

// changesAreThoseOfASlice commits random changes and does the same to slices.
func changesAreThoseOfASlice(t *testing.T, s *suite) {
	random := rand.New(rand.NewPCG(1, 2))
	type model struct {
		version  session.Version
		messages []conversation.Message
	}
	want := map[string]*model{"c-01": {}, "c-02": {}, "c-03": {}}
	ids := []string{"c-01", "c-02", "c-03"}
	for i := range 120 {
		id := ids[random.IntN(len(ids))]
		m := want[id]
		// Each turn is a question and an answer, so that even places are between
		// turns and odd ones between the two.
		from := random.IntN(len(m.messages) + 1)
		to := from + random.IntN(len(m.messages)-from+1)
		if random.IntN(2) == 0 {
			from, to = len(m.messages), len(m.messages)
		}
		from, to = from&^1, to&^1
		c := session.Change{From: from, To: to}
		for range random.IntN(3) {
			c.Messages = append(c.Messages,
				conversation.User(fmt.Sprint("question ", i)), conversation.Assistant(fmt.Sprint("answer ", i)))
		}
		if from == to && len(c.Messages) == 0 {
			continue
		}
		m.version = s.commit(t, id, m.version, c)
		m.messages = slices.Concat(m.messages[:from], c.Messages, m.messages[to:])
		if i%20 == 0 {
			s.reopen(t)
		}
		got := s.load(t, id)
		conversationtest.Equal(t, got.Messages, m.messages)
	}
	for id, m := range want {
		s.holds(t, id, m.version, m.messages)
	}
}

func oldVersionConflicts(t *testing.T, s *suite) {
	a, b := conversation.User("a"), conversation.Assistant("b")
	v1 := s.commit(t, "c-01", 0, appended(0, a))
	v2 := s.commit(t, "c-01", v1, appended(1, b))
	for _, base := range []session.Version{0, v1, v2 + 1} {
		for _, c := range []session.Change{
			appended(2, a), {From: 0, To: 2}, {From: 0, To: 2, Messages: []conversation.Message{a}},
		} {
			_, err := s.store.Commit(t.Context(), "c-01", base, c)
			var conflict *session.ConflictError
			if !errors.As(err, &conflict) || !errors.Is(err, session.ErrConflict) {
				t.Fatalf("Commit on version %d of %d: %v, want a conflict", base, v2, err)
			}
			if conflict.Base != base || conflict.Current != v2 || conflict.ID != "c-01" {
				t.Fatalf("the conflict is %+v, want versions %d and %d", *conflict, base, v2)
			}
		}
	}
	s.holds(t, "c-01", v2, []conversation.Message{a, b})
}

func oneOfManyCommitsWins(t *testing.T, s *suite) {
	var want []conversation.Message
	version := session.Version(0)
	for round := range 8 {
		type outcome struct {
			version session.Version
			message conversation.Message
			err     error
		}
		outcomes := make([]outcome, 6)
		var writers sync.WaitGroup
		for i := range outcomes {
			writers.Go(func() {
				m := conversation.User(fmt.Sprint("round ", round, " writer ", i))
				v, err := s.store.Commit(t.Context(), "c-01", version, appended(len(want), m))
				outcomes[i] = outcome{v, m, err}
			})
		}
		writers.Wait()
		winners := 0
		for _, o := range outcomes {
			switch {
			case o.err == nil:
				winners++
				version, want = o.version, append(want, o.message)
			case !errors.Is(o.err, session.ErrConflict):
				t.Fatalf("a losing commit failed with %v, want a conflict", o.err)
			}
		}
		if winners != 1 {
			t.Fatalf("%d commits on one version succeeded", winners)
		}
	}
	s.holds(t, "c-01", version, want)
}

func failuresChangeNothing(t *testing.T, s *suite) {
	all := []conversation.Message{conversation.User("a"), conversation.Assistant("b")}
	v := s.commit(t, "c-01", 0, appended(0, all...))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.store.Load(ctx, "c-01"); !errors.Is(err, context.Canceled) {
		t.Fatalf("a canceled Load returned %v", err)
	}
	if _, err := s.store.Commit(ctx, "c-01", v, appended(2, all...)); !errors.Is(err, context.Canceled) {
		t.Fatalf("a canceled Commit returned %v", err)
	}
	for _, c := range []session.Change{
		appended(3, all...), {From: -1, To: 0}, {From: 0, To: 3}, {From: 2, To: 0}, {From: 1 << 40, To: 1 << 41},
	} {
		if _, err := s.store.Commit(t.Context(), "c-01", v, c); err == nil {
			t.Fatalf("the change %+v of %d messages was committed", c, len(all))
		}
	}
	s.holds(t, "c-01", v, all)
}

func loadedIsNotShared(t *testing.T, s *suite) {
	a, b := conversation.User("a"), conversation.Assistant("b")
	given := []conversation.Message{a, b}
	v := s.commit(t, "c-01", 0, appended(0, given...))
	clear(given)
	first := s.load(t, "c-01")
	s.commit(t, "c-01", v, session.Change{From: 0, To: 2, Messages: []conversation.Message{conversation.User("c")}})
	conversationtest.Equal(t, first.Messages, []conversation.Message{a, b})
	second := s.load(t, "c-01")
	s.commit(t, "c-01", second.Version, appended(1, conversation.Assistant("e")))
	_ = append(second.Messages, conversation.User("d"))
	conversationtest.Equal(t, s.load(t, "c-01").Messages, []conversation.Message{
		conversation.User("c"), conversation.Assistant("e"),
	})
}

// sessionsLoseNothing has several sessions of one conversation, as on several
// hosts, send until each has sent all of its messages.
func sessionsLoseNothing(t *testing.T, s *suite) {
	const writers, each = 4, 6
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			if err := send(t, s.store, w, each); err != nil {
				t.Errorf("session %d: %v", w, err)
			}
		})
	}
	done.Wait()
	last := map[int]int{}
	for _, m := range s.load(t, "c-01").Messages {
		var w, n int
		if _, err := fmt.Sscanf(m.Text(), "%d %d", &w, &n); err != nil || last[w] != n {
			t.Fatalf("%q comes after %d messages of its session", m.Text(), last[w])
		}
		last[w]++
	}
	for w := range writers {
		if last[w] != each {
			t.Errorf("session %d stored %d messages of %d", w, last[w], each)
		}
	}
}

func send(t *testing.T, store session.Store, writer, n int) error {
	sess, err := session.Open(t.Context(), store, "c-01")
	for i := 0; err == nil && i < n; {
		tx := sess.Begin()
		tx.Add(conversation.User(fmt.Sprint(writer, " ", i)))
		_, err = sess.Commit(t.Context(), tx)
		pending := tx.Len()
		tx.Rollback()
		switch {
		case err == nil:
			i++
		case pending != 1:
			err = errors.New("a conflict lost the message")
		case errors.Is(err, session.ErrConflict):
			err = sess.Reload(t.Context())
		}
	}
	return err
}
