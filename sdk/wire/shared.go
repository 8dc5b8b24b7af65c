package wire

import (
	"context"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// shared is the stream of calls of one plugin process. It is opened at the
// first call that may use it, and reopened after a loss.
type shared struct {
	capability pluginv1.CapabilityClient
	hide       hider

	mu      sync.Mutex
	limit   int
	allowed bool
	opening bool
	closed  bool
	lane    *lane
}

// allow records that both sides support streams of calls.
func (s *shared) allow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = true
}

func (s *shared) limitTo(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
}

func (s *shared) mostMessage() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

// invoke makes a call on the stream. made is false if the call was not started
// there and nothing of it was sent.
func (s *shared) invoke(
	ctx context.Context, stop <-chan struct{}, op string, deadline time.Time, req *pluginv1.InvokeRequest, on func(Event),
) (answer edn.Value, made bool, err error) {
	l := s.open(ctx)
	if l == nil {
		return edn.Nil(), false, nil
	}
	if ended := endOf(ctx, op); ended != nil {
		return edn.Nil(), true, ended
	}
	text, err := roomyRequest(req)
	if err != nil {
		return edn.Nil(), true, err
	}
	call, ok := l.begin(text)
	if !ok {
		return edn.Nil(), false, nil
	}
	ctx, release := until(ctx, deadline)
	defer release()
	in := inbound{op: op, from: contract.SourcePlugin, on: on, hide: s.hide}
	answer, err = call.await(ctx, stop, &in)
	return answer, true, err
}

// open returns the stream, nil if this call cannot use one.
func (s *shared) open(ctx context.Context) *lane {
	s.mu.Lock()
	if !s.allowed || s.closed || s.opening {
		s.mu.Unlock()
		return nil
	}
	if s.lane != nil {
		ended, violated := s.lane.over()
		if !ended {
			l := s.lane
			s.mu.Unlock()
			return l
		}
		s.lane, s.allowed = nil, !violated
		if violated { // the plugin violated the protocol: make separate calls
			s.mu.Unlock()
			return nil
		}
	}
	s.opening = true
	limit := s.limit
	s.mu.Unlock()
	l, err := openLane(ctx, s.capability, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening = false
	if err != nil {
		return nil // the call on a stream of its own reports the reason
	}
	if s.closed {
		l.cancel()
		return nil
	}
	s.lane = l
	return l
}

// close ends the stream and fails the calls on it.
func (s *shared) close() {
	s.mu.Lock()
	l := s.lane
	s.closed, s.lane = true, nil
	s.mu.Unlock()
	if l != nil {
		l.cancel()
		<-l.done
	}
}
