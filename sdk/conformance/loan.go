package conformance

import (
	"context"

	"github.com/fermenthq/ferment/sdk/contract"
)

// loan is an instance that checks of one session share if all they do is make
// calls: to start a plugin takes longer than most of these checks. A check that
// fails on an instance that was used before is taken again on a fresh one, so no
// failure is due to another check.
type loan struct {
	keeper *bench // started it; nil without an instance
	in     Instance
	plugin contract.Description
}

// end stops the instance.
func (l *loan) end() {
	if l.keeper != nil {
		l.keeper.cleanUp()
	}
	*l = loan{}
}

// lent is ready, but other checks may have called the instance before. The check
// must leave it as it was: configured, connected, and without calls.
func (b *bench) lent(ctx context.Context) (Instance, contract.Description, error) {
	if b.loan == nil {
		return b.ready(ctx)
	}
	if in := b.loan.in; in != nil && !isClosed(in.Done()) {
		b.used = true
		b.borrowed = in
		return in, b.loan.plugin, nil
	}
	b.loan.end()
	keeper := newBench(b.target, b.opts)
	keeper.patience, keeper.obstacle, keeper.described = b.patience, b.obstacle, b.described
	in, d, err := keeper.ready(ctx)
	if err != nil {
		b.said = append(b.said, keeper.logTail()...)
		keeper.cleanUp()
		return nil, d, err
	}
	*b.loan = loan{keeper: keeper, in: in, plugin: d}
	b.borrowed = in
	return in, d, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
