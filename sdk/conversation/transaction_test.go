package conversation_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	. "github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/internal/messagegen"
)

// CNV-005: any sequence of operations does the same as on a plain slice.
func TestTransactionIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lost []*LostError
		tx := Begin(func(e *LostError) { lost = append(lost, e) })
		var want []Message
		ended := false
		add := func(messages []Message, do func()) {
			if ended {
				assert.Panics(t, do)
			} else {
				want = append(want, messages...)
				do()
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				conversationtest.Equal(t, tx.Pending(), want)
				assert.Equal(t, len(want), tx.Len())
				assert.Equal(t, ended, tx.Finalized())
			},
			"Add": func(t *rapid.T) {
				m := messagegen.Message().Draw(t, "message")
				add([]Message{m}, func() { tx.Add(m) })
			},
			"Extend": func(t *rapid.T) {
				all := messagegen.Messages().Draw(t, "messages")
				add(all, func() { tx.Extend(all...); clear(all) })
			},
			"Commit": func(t *rapid.T) {
				got, err := tx.Commit()
				if ended {
					assert.ErrorIs(t, err, ErrFinalized)
					assert.Empty(t, got)
					return
				}
				require.NoError(t, err)
				conversationtest.Equal(t, got, want)
				want, ended = nil, true
			},
			"Rollback": func(*rapid.T) { tx.Rollback(); want, ended = nil, true },
			"Close": func(t *rapid.T) {
				before := len(lost)
				err := tx.Close()
				if len(want) == 0 {
					assert.NoError(t, err)
					assert.Len(t, lost, before)
				} else {
					require.Len(t, lost, before+1)
					assert.Equal(t, error(lost[before]), err)
					assert.Equal(t, len(want), lost[before].Messages)
				}
				want, ended = nil, true
			},
		})
	})
}

// CNV-005: the panic of a late Add says what it is.
func TestAddAfterTheEnd(t *testing.T) {
	tx := Begin(nil)
	tx.Rollback()
	defer func() {
		var late *FinalizedError
		err, _ := recover().(error)
		require.ErrorAs(t, err, &late)
		assert.ErrorIs(t, err, ErrFinalized)
		assert.Equal(t, 2, late.Messages)
	}()
	tx.Extend(User("a"), User("b"))
}

// CNV-006: Close reports what would be lost, once, with its number and the place
// of Begin; on every path on which nothing is lost it is silent.
func TestCloseReportsLostMessages(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*Transaction)
		lost int
	}{
		"open":              {func(tx *Transaction) { tx.Extend(User("a"), User("b")) }, 2},
		"empty":             {func(*Transaction) {}, 0},
		"committed":         {func(tx *Transaction) { tx.Add(User("a")); _, _ = tx.Commit() }, 0},
		"rolled back":       {func(tx *Transaction) { tx.Add(User("a")); tx.Rollback() }, 0},
		"closed":            {func(tx *Transaction) { tx.Add(User("a")); _ = tx.Close() }, 1},
		"closed and ended":  {func(tx *Transaction) { tx.Add(User("a")); _ = tx.Close(); tx.Rollback() }, 1},
		"ended twice":       {func(tx *Transaction) { tx.Add(User("a")); tx.Rollback(); _, _ = tx.Commit() }, 0},
		"panic of a tool":   {func(tx *Transaction) { tx.Add(User("a")); panic("tool") }, 1},
		"read by a context": {func(tx *Transaction) { tx.Add(User("a")); TransactionContext(Of(), tx).Len() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var lost []*LostError
			func() {
				defer func() { _ = recover() }()
				tx := Begin(func(e *LostError) { lost = append(lost, e) })
				defer func() { _ = tx.Close() }()
				c.do(tx)
			}()
			forcedCollection(t)
			if c.lost == 0 {
				assert.Empty(t, lost)
				return
			}
			require.Len(t, lost, 1, "one report")
			assert.Equal(t, c.lost, lost[0].Messages)
			assert.Regexp(t, `transaction_test\.go:\d+$`, lost[0].Begun)
			assert.Contains(t, lost[0].Error(), lost[0].Begun)
		})
	}
}

// CNV-006: a transaction that is garbage before it ended gives the same report,
// and one that ended gives none.
func TestCollectionReportsLostMessages(t *testing.T) {
	lost := make(chan *LostError, 10)
	var context Context
	forget := func(end func(*Transaction)) {
		tx := Begin(func(e *LostError) { lost <- e })
		tx.Extend(User("a"), User("b"), User("c"))
		context = TransactionContext(Of(), tx)
		end(tx)
	}
	for _, end := range []func(*Transaction){
		(*Transaction).Rollback,
		func(tx *Transaction) { _, _ = tx.Commit() },
		func(*Transaction) {},
	} {
		forget(end)
	}
	select {
	case e := <-lost:
		assert.Equal(t, 3, e.Messages)
		assert.Regexp(t, `transaction_test\.go:\d+$`, e.Begun)
	case <-collections(t):
		t.Fatal("no report after many collections")
	}
	forcedCollection(t)
	assert.Empty(t, lost, "one report")
	assert.Equal(t, 3, context.Len(), "what a context shows is not lost with the transaction")
}

// CNV-006: the place of a report is that of Begin.
func TestReportNamesItsPlace(t *testing.T) {
	_, _, line, _ := runtime.Caller(0)
	tx := Begin(func(*LostError) {})
	tx.Add(User("a"))
	var lost *LostError
	require.ErrorAs(t, tx.Close(), &lost)
	assert.True(t, strings.HasSuffix(lost.Begun, fmt.Sprintf("transaction_test.go:%d", line+1)), lost.Begun)
	assert.Contains(t, (&FinalizedError{Messages: 2}).Error(), "2 messages")
}

// CNV-006: the default reports to the standard logger.
func TestLostMessagesAreLogged(t *testing.T) {
	logged := captureLog(t)
	tx := Begin(nil)
	tx.Add(User("a"))
	var lost *LostError
	require.ErrorAs(t, tx.Close(), &lost)
	assert.Contains(t, logged.String(), lost.Error())
	assert.Equal(t, 1, strings.Count(logged.String(), "\n"))
}

// forcedCollection collects garbage until what was garbage before has been
// cleaned up.
func forcedCollection(t *testing.T) {
	t.Helper()
	var cleaned atomic.Bool
	func() {
		marker := new([16]byte)
		runtime.AddCleanup(marker, func(c *atomic.Bool) { c.Store(true) }, &cleaned)
	}()
	for done := collections(t); !cleaned.Load(); {
		select {
		case <-done:
			t.Fatal("the collector does not run cleanups")
		default:
			runtime.GC()
			runtime.Gosched()
		}
	}
}

// collections collects garbage and closes the channel when there is no more hope
// that a cleanup runs.
func collections(t *testing.T) <-chan struct{} {
	done := make(chan struct{})
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		defer close(done)
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	return done
}

// CNV-004: the context of a transaction is the committed messages, then the
// pending ones, as they are at that moment.
func TestTransactionContext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		committed, pending := messagegen.Messages().Draw(t, "committed"), messagegen.Messages().Draw(t, "pending")
		tx := Begin(func(*LostError) {})
		tx.Extend(pending...)
		c := TransactionContext(Of(committed...), tx)
		want := append(append([]Message{}, committed...), pending...)
		tx.Add(User("later"))
		conversationtest.Context(t, c, want)
		later := TransactionContext(Of(committed...), tx)
		got, err := tx.Commit()
		require.NoError(t, err)
		clear(got)
		conversationtest.Context(t, c, want)
		conversationtest.Context(t, later, append(want, User("later")))
		conversationtest.Context(t, TransactionContext(Of(committed...), tx), committed)
	})
}

// Without pending messages the context is the committed one itself.
func TestTransactionContextOfNothing(t *testing.T) {
	tx := Begin(func(*LostError) {})
	defer tx.Rollback()
	tx.Add(User("x"))
	c := TransactionContext(Of(), tx)
	assert.Same(t, c, TransactionContext(c, Begin(nil)))
}

// CNV-003: a context shows what it was made of and nothing that happens later.
func TestOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := messagegen.Messages().Draw(t, "messages")
		c := Of(messages...)
		want := append([]Message{}, messages...)
		clear(messages)
		conversationtest.Context(t, c, want)
	})
}
