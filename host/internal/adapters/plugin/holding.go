package plugin

import (
	"context"

	"github.com/fermenthq/ferment/sdk/contract"
)

// holding is a call that occupies a place at a plugin while it waits for a
// nested call through the host. It is stored in the context of the nested call.
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

// held returns ctx with the holding of c, for a nested call.
func (c *inFlight) held(ctx context.Context) context.Context { return holds(ctx, held(c.ctx)) }

// selfWait returns an error if a nested call would wait for its own ancestors:
// they occupy all places that it could take.
func (t target) selfWait(h *holding, capID string) *contract.Error {
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
		return contract.Errorf("runtime/overloaded",
			"deadlock: all %d calls that :%s may work on at once wait for this call", most, capID).
			WithHint("do not call :" + capID + " from inside its own call, or raise max_in_flight")
	}
	if most := t.unit.most(); most > 0 && sameUnit >= most {
		return contract.Errorf("runtime/overloaded",
			"deadlock: all %d calls that plugin %s may work on at once wait for this call", most, t.unit.name).
			WithHint("do not call plugin " + t.unit.name + " from inside its own calls, or raise max_in_flight")
	}
	return nil
}

// most returns the maximum number of concurrent calls; 0: unlimited.
func (l *limiter) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// most returns the maximum number of concurrent calls over all processes of the plugin; 0:
// unlimited.
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
