package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/conversation/session"
	"github.com/fermenthq/ferment/sdk/internal/messagegen"
)

var (
	errModel = errors.New("the model failed")
	errDisk  = errors.New("the disk is full")
)

func open(t require.TestingT, store session.Store) *session.Session {
	sess, err := session.Open(context.Background(), store, "c-01")
	require.NoError(t, err)
	return sess
}

// stored returns what the store has of the conversation.
func stored(t require.TestingT, store session.Store) []conversation.Message {
	s, err := store.Load(context.Background(), "c-01")
	require.NoError(t, err)
	return s.Messages
}

// history is a session of two messages.
func history(t require.TestingT, store session.Store) (*session.Session, []conversation.Message) {
	messages := []conversation.Message{conversation.User("Hello"), conversation.Assistant("Hi")}
	sess := open(t, store)
	tx := sess.Begin()
	defer tx.Rollback()
	tx.Extend(messages...)
	_, err := sess.Commit(context.Background(), tx)
	require.NoError(t, err)
	return sess, messages
}

// failing is a store whose next commits fail, before or after they are stored.
type failing struct {
	session.Memory
	before, after int
}

func (f *failing) Commit(
	ctx context.Context, id string, base session.Version, c session.Change,
) (session.Version, error) {
	if f.before > 0 {
		f.before--
		return 0, errDisk
	}
	v, err := f.Memory.Commit(ctx, id, base, c)
	if f.after > 0 {
		f.after--
		return 0, errDisk
	}
	return v, err
}

// CNV-020: any sequence of operations of two sessions on one store does the same
// as on plain slices with a version each, and contexts show what they showed.
func TestSessionsAreSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := new(session.Memory)
		type state struct { // of a session
			sess *session.Session
			tx   *session.Transaction // nil: none
			view []conversation.Message
			base session.Version // of the transaction
			seen []conversation.Message
			at   session.Version
			adds []conversation.Message
		}
		states := []*state{{sess: open(t, store)}, {sess: open(t, store)}}
		var current []conversation.Message
		var version session.Version
		type shown struct {
			c    conversation.Context
			want []conversation.Message
		}
		var contexts []shown
		either := func(t *rapid.T) *state { return states[rapid.IntRange(0, 1).Draw(t, "session")] }
		attempt := func(s *state, base session.Version, err error) bool {
			if base == version {
				require.NoError(t, err)
				return true
			}
			var conflict *session.ConflictError
			require.ErrorAs(t, err, &conflict)
			assert.Equal(t, session.ConflictError{ID: "c-01", Base: base, Current: version}, *conflict)
			return false
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for _, s := range states {
					assert.Equal(t, s.at, s.sess.Version())
					conversationtest.Context(t, s.sess.Context(), s.seen)
				}
				for _, s := range contexts {
					conversationtest.Equal(t, slices.Collect(s.c.All()), s.want)
				}
				conversationtest.Equal(t, stored(t, store), current)
			},
			"begin and add": func(t *rapid.T) {
				s := either(t)
				if s.tx == nil {
					s.tx, s.view, s.base = s.sess.Begin(), s.seen, s.at
				}
				m := conversation.User(messagegen.Text().Draw(t, "text"))
				s.tx.Add(m)
				s.adds = append(slices.Clip(s.adds), m)
				contexts = append(contexts,
					shown{s.sess.With(s.tx), slices.Concat(s.view, s.adds)}, shown{s.sess.Context(), s.seen})
			},
			"commit": func(t *rapid.T) {
				s := either(t)
				if s.tx == nil {
					t.Skip("no transaction")
				}
				v, err := s.sess.Commit(t.Context(), s.tx)
				if !attempt(s, s.base, err) {
					assert.False(t, s.tx.Finalized())
					conversationtest.Equal(t, s.tx.Pending(), s.adds)
					return
				}
				current, version = slices.Concat(current, s.adds), v
				s.seen, s.at = current, v
				s.tx, s.adds = nil, nil
			},
			"roll back": func(t *rapid.T) {
				if s := either(t); s.tx != nil {
					s.tx.Rollback()
					s.tx, s.adds = nil, nil
				}
			},
			"reload": func(t *rapid.T) {
				s := either(t)
				require.NoError(t, s.sess.Reload(t.Context()))
				s.seen, s.at = current, version
			},
			"truncate": func(t *rapid.T) {
				s := either(t)
				n := rapid.IntRange(0, len(s.seen)).Draw(t, "n")
				err := s.sess.Truncate(t.Context(), n)
				if n == len(s.seen) {
					require.NoError(t, err)
					return
				}
				if attempt(s, s.at, err) {
					current, version = slices.Clone(current[:n]), version+1
					s.seen, s.at = current, version
				}
			},
		})
		for _, s := range states {
			if s.tx != nil {
				s.tx.Rollback()
			}
		}
	})
}

// CNV-020: Execute reads committed and pending messages and appends its own; it
// commits nothing.
func TestExecute(t *testing.T) {
	store := new(session.Memory)
	sess, before := history(t, store)
	tx := sess.Begin()
	defer tx.Rollback()
	tx.Add(conversation.User("And you?"))
	var read []conversation.Message
	model := conversationtest.Model(func(c conversation.Context, _ conversation.Options) (conversation.Message, error) {
		read = slices.Collect(c.All())
		return conversation.Assistant("Fine."), nil
	})
	out, err := sess.Execute(t.Context(), tx, agent.Simple(), model)
	require.NoError(t, err)
	conversationtest.Equal(t, read, append(before, conversation.User("And you?")))
	conversationtest.Equal(t, out, []conversation.Message{conversation.Assistant("Fine.")})
	assert.Equal(t, []string{"And you?", "Fine."}, said(tx.Pending()))
	conversationtest.Equal(t, stored(t, store), before)
	v, err := tx.Commit(t.Context())
	require.NoError(t, err)
	assert.Equal(t, v, sess.Version())
	conversationtest.Equal(t, stored(t, store), slices.Collect(sess.Context().All()))
	assert.Len(t, stored(t, store), 4)
}

// CNV-020, CNV-031: Send commits the message and the answer together, or nothing.
// A failure in the middle loses neither what is stored nor what was said.
func TestSend(t *testing.T) {
	store := new(failing)
	sess, before := history(t, store)
	halfway := agent.Pipeline(agent.Simple(), agent.Simple())
	answers := 0
	broken := conversationtest.Model(func(conversation.Context, conversation.Options) (conversation.Message, error) {
		if answers++; answers > 1 {
			return conversation.Message{}, errModel
		}
		return conversation.Assistant("first"), nil
	})
	out, err := sess.Send(t.Context(), conversation.User("x"), halfway, broken)
	assert.ErrorIs(t, err, errModel)
	conversationtest.Equal(t, out, []conversation.Message{conversation.Assistant("first")})
	conversationtest.Equal(t, stored(t, store), before)

	store.before = 1
	out, err = sess.Send(t.Context(), conversation.User("x"), agent.Simple(), conversationtest.Says("y"))
	assert.ErrorIs(t, err, errDisk)
	conversationtest.Equal(t, out, []conversation.Message{conversation.Assistant("y")})
	conversationtest.Equal(t, stored(t, store), before)
	conversationtest.Equal(t, slices.Collect(sess.Context().All()), before)

	out, err = sess.Send(t.Context(), conversation.User("x"), agent.Simple(), conversationtest.Says("y"))
	require.NoError(t, err)
	conversationtest.Equal(t, out, []conversation.Message{conversation.Assistant("y")})
	conversationtest.Equal(t, stored(t, store), append(before, conversation.User("x"), conversation.Assistant("y")))
}

// CNV-029: the model, which may cost money, is not called on a message that cannot be committed.
func TestNothingIsSentThatCannotBeCommitted(t *testing.T) {
	for name, message := range map[string]conversation.Message{"empty": conversation.User(""), "zero": {}} {
		t.Run(name, func(t *testing.T) {
			store, calls := new(failing), 0
			sess, before := history(t, store)
			model := conversationtest.Model(func(conversation.Context, conversation.Options) (conversation.Message, error) {
				calls++
				return conversation.Assistant("y"), nil
			})
			var invalid *conversation.InvalidError
			_, err := sess.Send(t.Context(), message, agent.Simple(), model)
			require.ErrorAs(t, err, &invalid)
			stream, tx := sess.SendStream(t.Context(), message, agent.Simple(), model)
			defer tx.Rollback()
			_, err = conversation.Fold(stream, func(conversation.Delta) bool { return true })
			require.ErrorAs(t, err, &invalid)
			assert.Zero(t, calls)
			conversationtest.Equal(t, stored(t, store), before)
		})
	}
}

// CNV-020: the failure of a store leaves the transaction open, and the same
// commit succeeds later. One that was stored all the same is a conflict, not a
// second copy.
func TestCommitAgain(t *testing.T) {
	store := new(failing)
	sess, before := history(t, store)
	tx := sess.Begin()
	defer tx.Rollback()
	tx.Add(conversation.User("x"))
	store.before = 2
	for range 2 {
		_, err := sess.Commit(t.Context(), tx)
		require.ErrorIs(t, err, errDisk)
		assert.Equal(t, 1, tx.Len())
	}
	_, err := sess.Commit(t.Context(), tx)
	require.NoError(t, err)
	_, err = sess.Commit(t.Context(), tx)
	assert.ErrorIs(t, err, conversation.ErrFinalized)

	again := sess.Begin()
	defer again.Rollback()
	again.Add(conversation.User("y"))
	store.after = 1
	_, err = sess.Commit(t.Context(), again)
	require.ErrorIs(t, err, errDisk)
	_, err = sess.Commit(t.Context(), again)
	assert.ErrorIs(t, err, session.ErrConflict)
	require.NoError(t, sess.Reload(t.Context()))
	want := append(before, conversation.User("x"), conversation.User("y"))
	conversationtest.Equal(t, slices.Collect(sess.Context().All()), want)
}

// CNV-020: of concurrent commits on one version exactly one wins; the others
// learn both versions and still have their messages.
func TestConcurrentCommits(t *testing.T) {
	store := new(session.Memory)
	sess, before := history(t, store)
	base := sess.Version()
	const n = 8
	transactions := make([]*session.Transaction, n)
	errs := make([]error, n)
	for i := range n {
		transactions[i] = sess.Begin()
		defer transactions[i].Rollback()
		transactions[i].Add(conversation.User(fmt.Sprint(i)))
	}
	var all sync.WaitGroup
	for i, tx := range transactions {
		all.Go(func() {
			_ = sess.Context().Len()
			_, errs[i] = sess.Commit(t.Context(), tx)
		})
	}
	all.Wait()
	winner := slices.Index(errs, nil)
	require.GreaterOrEqual(t, winner, 0)
	for i, err := range errs {
		if i == winner {
			continue
		}
		var conflict *session.ConflictError
		require.ErrorAs(t, err, &conflict)
		assert.Equal(t, base, conflict.Base)
		assert.Equal(t, base+1, conflict.Current)
		assert.Equal(t, 1, transactions[i].Len())
	}
	conversationtest.Equal(t, stored(t, store), append(before, conversation.User(fmt.Sprint(winner))))
	conversationtest.Equal(t, slices.Collect(sess.Context().All()), stored(t, store))
}

// CNV-020: a stream commits at its end and at no other time. Left or broken, it
// has stored nothing, and its transaction has what is complete.
func TestSendStream(t *testing.T) {
	twice := agent.Pipeline(agent.Simple(), agent.Simple())
	texts := conversationtest.Says("first answer", "second answer", "third answer")
	user := conversation.User("x")
	store := new(failing)
	sess, before := history(t, store)

	stream, tx := sess.SendStream(t.Context(), user, twice, texts)
	for d, err := range stream {
		require.NoError(t, err)
		conversationtest.Equal(t, stored(t, store), before)
		if d.Kind == conversation.DeltaMessage {
			break
		}
	}
	assert.Equal(t, []string{"x", "second answer"}, said(tx.Pending()))
	tx.Rollback()
	assert.ErrorIs(t, drain(t, stream), conversation.ErrFinalized)

	store.before = 1
	stream, unstored := sess.SendStream(t.Context(), user, twice, texts)
	defer unstored.Rollback()
	last := drain(t, stream)
	assert.ErrorIs(t, last, errDisk)
	assert.Equal(t, []string{"x", "second answer", "third answer"}, said(unstored.Pending()))
	conversationtest.Equal(t, stored(t, store), before)
	_, err := sess.Commit(t.Context(), unstored)
	require.NoError(t, err)
	assert.Equal(t, []string{"Hello", "Hi", "x", "second answer", "third answer"}, said(stored(t, store)))

	stream, whole := sess.SendStream(t.Context(), user, twice, texts)
	defer whole.Rollback()
	assert.NoError(t, drain(t, stream))
	assert.True(t, whole.Finalized())
	assert.Len(t, stored(t, store), 8)
}

// CNV-020, CNV-031: a stream that is cut within a message commits nothing, also
// of an agent that takes the cut for its end.
func TestSendStreamThatIsCut(t *testing.T) {
	store := new(session.Memory)
	sess, before := history(t, store)
	for name, c := range map[string]struct {
		deltas []conversation.Delta
		err    error
		want   error
	}{
		"cut":    {[]conversation.Delta{{Kind: conversation.DeltaText, Text: "Hel"}}, nil, io.ErrUnexpectedEOF},
		"failed": {[]conversation.Delta{{Kind: conversation.DeltaText, Text: "Hel"}}, errModel, errModel},
	} {
		stream, tx := sess.SendStream(t.Context(), conversation.User("x"), scripted{c.deltas, c.err}, nil)
		assert.ErrorIs(t, drain(t, stream), c.want, name)
		assert.Equal(t, []string{"x"}, said(tx.Pending()), name)
		tx.Rollback()
		conversationtest.Equal(t, stored(t, store), before)
	}
}

// scripted is an agent whose stream is given.
type scripted struct {
	deltas []conversation.Delta
	err    error
}

func (s scripted) Execute(context.Context, conversation.Context, conversation.Model) ([]conversation.Message, error) {
	return nil, s.err
}

func (s scripted) ExecuteStream(
	context.Context, conversation.Context, conversation.Model,
) conversation.Stream {
	return func(yield func(conversation.Delta, error) bool) {
		for _, d := range s.deltas {
			if !yield(d, nil) {
				return
			}
		}
		if s.err != nil {
			yield(conversation.Delta{}, s.err)
		}
	}
}

func said(messages []conversation.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Text())
	}
	return out
}

// drain reads a stream to its end and returns its error.
func drain(t *testing.T, stream conversation.Stream) (last error) {
	for _, err := range stream {
		require.NoError(t, last, "nothing follows an error")
		last = err
	}
	return last
}

// CNV-029 for what a session can tell: an empty message and an orphan result are
// refused, and nothing changes.
func TestCommitRejects(t *testing.T) {
	store := new(session.Memory)
	sess, before := history(t, store)
	call, err := conversation.New(conversation.RoleAssistant, conversation.Call{ID: "t1", Tool: "clock", Args: "{}"})
	require.NoError(t, err)
	result := conversation.ToolResult("t1", "noon")
	for name, c := range map[string]struct {
		messages []conversation.Message
		valid    bool
	}{
		"zero message":       {[]conversation.Message{{}}, false},
		"empty text":         {[]conversation.Message{conversation.User("a"), conversation.User("")}, false},
		"orphan":             {[]conversation.Message{result}, false},
		"result before call": {[]conversation.Message{result, call}, false},
		"result of another":  {[]conversation.Message{call, conversation.ToolResult("t2", "noon")}, false},
		"call and result":    {[]conversation.Message{call, result}, true},
	} {
		pending, err := commit(t, sess, c.messages...)
		if c.valid {
			require.NoError(t, err)
			require.NoError(t, sess.Truncate(t.Context(), len(before)))
			continue
		}
		var invalid *conversation.InvalidError
		require.ErrorAs(t, err, &invalid, name)
		assert.Equal(t, -1, invalid.Part, "%s: the message as a whole", name)
		assert.Equal(t, len(c.messages), pending, name)
		conversationtest.Equal(t, stored(t, store), before)
	}
	_, err = commit(t, sess, call)
	require.NoError(t, err)
	_, err = commit(t, sess, result)
	assert.NoError(t, err, "the call is committed")
}

// commit commits the messages and returns how many are pending after that.
func commit(t *testing.T, sess *session.Session, messages ...conversation.Message) (pending int, err error) {
	tx := sess.Begin()
	defer tx.Rollback()
	tx.Extend(messages...)
	_, err = sess.Commit(t.Context(), tx)
	return tx.Len(), err
}

func TestSessionRejects(t *testing.T) {
	store := new(session.Memory)
	sess, before := history(t, store)
	other := open(t, store)
	tx := other.Begin()
	tx.Add(conversation.User("x"))
	_, err := sess.Commit(t.Context(), tx)
	assert.ErrorIs(t, err, session.ErrForeign)
	assert.Equal(t, 1, tx.Len())
	tx.Rollback()
	_, err = other.Commit(t.Context(), tx)
	assert.ErrorIs(t, err, conversation.ErrFinalized)
	for _, n := range []int{-1, 3} {
		var wrong *session.RangeError
		assert.ErrorAs(t, sess.Truncate(t.Context(), n), &wrong)
	}
	empty, version := sess.Begin(), sess.Version()
	defer empty.Rollback()
	v, err := sess.Commit(t.Context(), empty)
	assert.NoError(t, err)
	assert.Equal(t, version, v, "nothing to commit is no commit")
	assert.Equal(t, version, sess.Version())
	assert.True(t, empty.Finalized())
	require.NoError(t, sess.Clear(t.Context()))
	assert.Empty(t, stored(t, store))
	assert.Zero(t, sess.Context().Len())
	conversationtest.Equal(t, before, []conversation.Message{conversation.User("Hello"), conversation.Assistant("Hi")})

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sess, err = session.Open(ctx, store, "c-01")
	assert.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, sess)
}

// reloading is a store on which the session is loaded again during a commit.
type reloading struct {
	session.Memory
	sess *session.Session
}

func (r *reloading) Commit(
	ctx context.Context, id string, base session.Version, c session.Change,
) (session.Version, error) {
	v, err := r.Memory.Commit(ctx, id, base, c)
	return v, errors.Join(err, r.sess.Reload(ctx))
}

// CNV-020: a commit that another goroutine has loaded already is not added twice.
func TestReloadDuringCommit(t *testing.T) {
	store := new(reloading)
	store.sess = open(t, store)
	for range 2 {
		_, err := store.sess.Send(t.Context(), conversation.User("x"), agent.Simple(), conversationtest.Says("y"))
		require.NoError(t, err)
		conversationtest.Equal(t, slices.Collect(store.sess.Context().All()), stored(t, store))
	}
	assert.Equal(t, []string{"x", "y", "x", "y"}, said(stored(t, store)))
	tx := store.sess.Begin()
	defer func() { _ = tx.Close() }()
	tx.Add(conversation.User("z"))
	v, err := store.sess.Commit(t.Context(), tx)
	require.NoError(t, err)
	assert.Equal(t, session.Version(3), v, "the version of its own commit")
}

// CNV-020: the errors name the conversation and both versions, or the range.
func TestErrorsSayWhere(t *testing.T) {
	conflict := &session.ConflictError{ID: "c-01", Base: 7, Current: 9}
	outside := &session.RangeError{From: 3, To: 5, Len: 4}
	for err, parts := range map[error][]string{conflict: {"c-01", "7", "9"}, outside: {"3", "5", "4"}} {
		for _, part := range parts {
			assert.ErrorContains(t, err, part)
		}
	}
}

// CNV-020, CNV-006: a Send that fails rolls back and reports nothing.
func TestFailedSendIsNotLost(t *testing.T) {
	lost := make(chan *conversation.LostError, 10)
	sess, err := session.Open(t.Context(), new(session.Memory), "c-01",
		session.OnLost(func(e *conversation.LostError) { lost <- e }))
	require.NoError(t, err)
	fails := scripted{err: errModel}
	for range 3 {
		_, err := sess.Send(t.Context(), conversation.User("x"), fails, nil)
		assert.ErrorIs(t, err, errModel)
	}
	cleaned := make(chan struct{})
	func() { runtime.AddCleanup(new([16]byte), func(c chan struct{}) { close(c) }, cleaned) }()
	for done := false; !done; {
		runtime.GC()
		select {
		case <-cleaned:
			done = true
		default:
		}
	}
	assert.Empty(t, lost)
}

// CNV-006: the report of a session names the place where its user began.
func TestSessionReportsLostMessages(t *testing.T) {
	var lost []*conversation.LostError
	sess, err := session.Open(t.Context(), new(session.Memory), "c-01",
		session.OnLost(func(e *conversation.LostError) { lost = append(lost, e) }))
	require.NoError(t, err)
	tx := sess.Begin()
	tx.Add(conversation.User("x"))
	assert.Error(t, tx.Close())
	_, tx = sess.SendStream(t.Context(), conversation.User("x"), agent.Simple(), conversationtest.Says("y"))
	assert.Error(t, tx.Close())
	require.Len(t, lost, 2)
	for _, e := range lost {
		assert.Regexp(t, `session_test\.go:\d+$`, e.Begun)
	}
	assert.NotEqual(t, lost[0].Begun, lost[1].Begun)
}
