package plugin

import (
	"context"

	"github.com/fermenthq/ferment/sdk/contract"
)

// holding is a call that has its place at a plugin and waits for another one,
// which its plugin asked of the host. It travels with the context of that one.
type holding struct {
	unit  *unit
	limit *limiter
	up    *holding
}

type holdingKey struct{}

func held(ctx context.Context) *holding {
	h, _ := ctx.Value(holdingKey{}).(*holding)
	return h
}

func holds(ctx context.Context, h *holding) context.Context {
	return context.WithValue(ctx, holdingKey{}, h)
}

// held is ctx for what is asked on behalf of the call.
func (c *inFlight) held(ctx context.Context) context.Context { return holds(ctx, held(c.ctx)) }

// circle refuses a call that would wait for itself: all places are taken by
// those that wait for it.
func (t target) circle(h *holding, capID string) *contract.Error {
	own, sameUnit := 0, 0
	for ; h != nil; h = h.up {
		if h.limit == t.limit {
			own++
		}
		if h.unit == t.unit {
			sameUnit++
		}
	}
	if own == 0 && sameUnit == 0 {
		return nil
	}
	if most := t.limit.most(); most > 0 && own >= most {
		return contract.Errorf("runtime/overloaded", "the call would wait for itself: all calls that :%s takes at once (%d) wait for this one", capID, most)
	}
	if most := t.unit.most(); most > 0 && sameUnit >= most {
		return contract.Errorf("runtime/overloaded", "the call would wait for itself: all calls that plugin %s takes at once (%d) wait for this one", t.unit.name, most)
	}
	return nil
}

// most is how many calls pass at once, 0 for any number.
func (l *limiter) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// most is how many calls all processes of the plugin take at once, 0 for any
// number.
func (u *unit) most() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.current
	most := 0
	for _, s := range e.ready {
		if s.limit == 0 {
			return 0
		}
		most = max(most, s.limit)
	}
	return most * max(e.settings().Instances.Max, len(e.ready))
}
