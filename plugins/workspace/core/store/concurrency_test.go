package store

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// WS-050: Close lets a running transaction finish, and abandons one that does not
// end within the grace period.
func TestCloseAbandonsTransactions(t *testing.T) {
	dir := create(t, id.B3)
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, err := Open(background, dir, Options{Now: func() int64 { return 1 }, Unsynced: true})
			require.NoError(t, err)
			began, running := time.Now(), make(chan struct{})
			var result error
			var call sync.WaitGroup
			call.Go(func() {
				_, result = s.Update(background, "x", func(tx *Tx) error {
					close(running)
					if ends {
						time.Sleep(closeGrace / 2)
					} else {
						<-tx.Context().Done()
					}
					_, err := tx.PutContent([]byte("text"))
					return err
				})
			})
			<-running
			require.NoError(t, s.Close())
			call.Wait()
			if ends {
				require.NoError(t, result)
				assert.Equal(t, closeGrace/2, time.Since(began))
			} else {
				require.ErrorIs(t, result, contract.OfType("store/io"))
				assert.Equal(t, closeGrace, time.Since(began))
			}
		})
	}
	s := open(t, dir)
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		_, err := v.Content(background, id.B3.Bytes([]byte("text")))
		assert.Equal(t, uint64(2), v.Seq())
		return err
	}))
}

// WS-043, WS-046, WS-252: concurrent writers share fsyncs; each reader sees one
// state, in which the head is a frame of the node and the state root is that of
// its number. TestReadersDoNotWait has that none waits for a writer.
func TestWritersAndReaders(t *testing.T) {
	var syncs atomic.Int64
	dir := create(t, id.B3)
	s := open(t, dir, func(o *Options) {
		o.Faults.Before = func(op string) error {
			if op == log.OpSync {
				syncs.Add(1)
			}
			return nil
		}
	})
	each := proof.Size(t, "writes of 16 writers", 8, 1000)
	putTree(t, s.Store, grow(id.B3, map[string]string{"f": "0"}))
	var state, roots sync.Map // by seq
	var calls sync.WaitGroup
	for n := range 16 {
		calls.Go(func() {
			for i := range each {
				text := fmt.Sprint(n, i)
				seq, err := s.Update(background, "w", func(tx *Tx) error {
					if _, err := tx.PutTree(grow(id.B3, map[string]string{"f": text, "d/" + fmt.Sprint(n): text})); err != nil {
						return err
					}
					for _, path := range []string{"f", "d/" + fmt.Sprint(n)} { // one that all write, and its own
						_, err := tx.PutFrame(NewFrame{Path: path, Type: "note", Agent: "writer", Origin: Authored, Text: []byte(text)})
						if err != nil {
							return err
						}
					}
					return nil
				})
				if assert.NoError(t, err) {
					state.Store(seq, text)
				}
			}
		})
	}
	for range 64 {
		calls.Go(func() {
			for range min(each/2, 100) {
				assert.NoError(t, s.View(background, Latest, func(v *Snapshot) error { return readTwice(t, v, &roots) }))
			}
		})
	}
	calls.Wait()
	frames := allFrames(t, s.Store)
	assert.Len(t, frames, 2*16*each, "no write is lost")
	state.Range(func(seq, text any) bool {
		at := treeAt(t, s.Store, seq.(uint64))
		f := id.B3.Node("f", id.File, id.B3.Bytes([]byte(text.(string))))
		return assert.Contains(t, at["f"], f.String(), "the state at %d is the one written there", seq)
	})
	roots.Range(func(seq, root any) bool {
		return assert.Equal(t, root, stateRoot(t, s.Store, seq.(uint64)), "at %d", seq)
	})
	assert.Less(t, syncs.Load(), int64(16*each), "writers share fsyncs")
}

// readTwice reads tree, head and state root of a snapshot twice, between which
// others write.
func readTwice(t *testing.T, v *Snapshot, roots *sync.Map) error {
	var trees [2]map[string]string
	for i := range trees {
		tr, err := v.Tree(background)
		if err != nil {
			return err
		}
		trees[i] = ids(tr)
		root, err := v.StateRoot(background)
		if err != nil {
			return err
		}
		known, _ := roots.LoadOrStore(v.Seq(), root)
		assert.Equal(t, known, root)
	}
	assert.Equal(t, trees[0], trees[1])
	h, err := v.Head(background, "f", "note")
	if contract.AsError(err) != nil && contract.AsError(err).Type == "frame/no-head" {
		return nil
	}
	if err != nil {
		return err
	}
	page, err := framesAt(v, "f", Filter{Limit: MaxPage})
	if err != nil {
		return err
	}
	assert.True(t, slices.ContainsFunc(page.Frames, func(f *Frame) bool { return f.ID == h.Frame.ID }), "the head is one of the frames")
	return nil
}

// WS-046: a reader does not wait for a transaction that is running, at any step of its
// commit.
func TestReadersDoNotWait(t *testing.T) {
	for _, step := range []string{log.OpWrite, log.OpSync, opIndex} {
		var armed atomic.Bool
		stopped, release := make(chan struct{}), make(chan struct{})
		s := open(t, create(t, id.B3), func(o *Options) {
			o.Faults.Before = func(op string) error {
				if op == step && armed.CompareAndSwap(true, false) {
					close(stopped)
					<-release
				}
				return nil
			}
		})
		_, seq := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
		armed.Store(true)
		var writer sync.WaitGroup
		writer.Go(func() {
			_, err := s.Update(background, "w", func(tx *Tx) error {
				return second(tx.PutTree(grow(id.B3, map[string]string{"a": "2"})))
			})
			assert.NoError(t, err)
		})
		<-stopped // the reads below end before the writer goes on
		assert.NotNil(t, treeAt(t, s.Store, seq), step)
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			assert.Equal(t, seq, v.Seq(), step)
			_, err := v.StateRoot(background)
			return err
		}))
		close(release)
		writer.Wait()
		require.NoError(t, s.Close())
	}
	s := open(t, create(t, id.B3))
	_, seq := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	update(t, s.Store, func(tx *Tx) error {
		if _, err := tx.PutTree(grow(id.B3, map[string]string{"a": "2"})); err != nil {
			return err
		}
		return s.View(background, Latest, func(v *Snapshot) error {
			assert.Equal(t, seq, v.Seq())
			_, err := v.StateRoot(background)
			return err
		})
	})
}

// WS-046: a second process is rejected; calls beyond the queue are too.
func TestLockAndQueue(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	_, err := Open(background, dir, Options{})
	typed(t, err, "store/locked")
	begun, release := make(chan struct{}), make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := s.Update(background, "", func(*Tx) error { close(begun); <-release; return nil })
		assert.NoError(t, err)
	})
	<-begun
	for range maxQueue {
		calls.Go(func() {
			_, err := s.Update(background, "", func(*Tx) error { return nil })
			assert.NoError(t, err)
		})
	}
	for len(s.queue) < maxQueue { // until all of them wait
		runtime.Gosched()
	}
	_, err = s.Update(background, "", func(*Tx) error { return nil })
	typed(t, err, "runtime/overloaded")
	close(release)
	calls.Wait()
	require.NoError(t, s.Close())
	_, err = s.Update(background, "", nil)
	typed(t, err, "store/io")
	typed(t, s.View(background, Latest, nil), "store/io")
	open(t, dir)
}
