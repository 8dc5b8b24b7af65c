package conversation

import (
	"context"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxWaiting is the maximum number of operations that wait for one conversation (CNV-027).
const maxWaiting = 8

// lines holds a queue for each conversation in use, so that its write operations run one
// after the other, in the order of their arrival.
type lines struct {
	mu   sync.Mutex
	byID map[string]*line
}

type line struct {
	holder  holder
	waiting []*place
}

// holder identifies the call that currently has a conversation, by its run and the path of
// its node.
type holder struct {
	run  string
	path edn.Value
}

type place struct {
	of   holder
	turn chan struct{} // closed when the call gets the conversation
}

// around reports whether the call inner was made within the call h.
func (h holder) around(inner holder) bool {
	if h.run == "" || h.run != inner.run || inner.path.Len() <= h.path.Len() {
		return false
	}
	outer := slices.Collect(h.path.Elems())
	for i, part := range slices.Collect(inner.path.Elems())[:len(outer)] {
		if !edn.Equal(part, outer[i]) {
			return false
		}
	}
	return true
}

// enter waits until the call h has the conversation; leave passes the conversation to the
// next call. The error is conversation/conflict if an enclosing call has the conversation,
// which would deadlock, runtime/overloaded if too many calls wait, or the cause of ctx.
func (x *lines) enter(ctx context.Context, id string, h holder) (leave func(), err *contract.Error) {
	x.mu.Lock()
	l := x.byID[id]
	switch {
	case l == nil:
		if x.byID == nil {
			x.byID = map[string]*line{}
		}
		x.byID[id] = &line{holder: h}
		x.mu.Unlock()
		return func() { x.leave(id) }, nil
	case l.holder.around(h):
		x.mu.Unlock()
		return nil, contract.Errorf("conversation/conflict", "conversation %s is in use by the call that encloses this one", id).
			WithRetryable(false).WithHint("return the messages from the agent, which are committed together")
	case len(l.waiting) >= maxWaiting:
		x.mu.Unlock()
		return nil, contract.Errorf("runtime/overloaded", "%d operations wait for conversation %s, the limit is %d",
			len(l.waiting), id, maxWaiting).WithHint("send again when earlier operations on the conversation have ended")
	}
	p := &place{h, make(chan struct{})}
	l.waiting = append(l.waiting, p)
	x.mu.Unlock()
	select {
	case <-p.turn:
		return func() { x.leave(id) }, nil
	case <-ctx.Done():
	}
	x.mu.Lock()
	i := slices.Index(l.waiting, p)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	x.mu.Unlock()
	if i < 0 { // it got the conversation meanwhile
		x.leave(id)
	}
	return nil, contract.AsError(context.Cause(ctx))
}

// leave passes the conversation to the next call.
func (x *lines) leave(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.byID[id]
	if len(l.waiting) == 0 {
		delete(x.byID, id)
		return
	}
	next := l.waiting[0]
	l.waiting, l.holder = l.waiting[1:], next.of
	close(next.turn)
}
