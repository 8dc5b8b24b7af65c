package conformance

import (
	"context"

	"github.com/fermenthq/ferment/sdk/contract"
)

// loan is an instance that the checks of one session share if they only make calls:
// starting a plugin takes longer than most of these checks. A check that fails on a
// used instance runs again on a fresh one, so no check fails because of another.
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

// lent is ready with an instance that earlier checks may have called. The check must
// leave it configured, connected, and without calls in flight.
func (b *bench) lent(ctx context.Context) (Instance, contract.Description, error) {
	if b.loan == nil {
		return b.ready(ctx)
	}
	if in := b.loan.in; in != nil {
		select {
		case <-in.Done():
		default:
			b.used, b.borrowed = true, in
			return in, b.loan.plugin, nil
		}
	}
	b.loan.end()
	keeper := newBench(b.target, b.opts)
	keeper.patience, keeper.obstacle, keeper.described, keeper.output = b.patience, b.obstacle, b.described, b.output
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

// pluginCheck is a check of an instance that was started and configured.
type pluginCheck func(ctx context.Context, b *bench, in Instance, d contract.Description) error

// shared runs a check on an instance that is lent.
func shared(check pluginCheck) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		in, d, err := b.lent(ctx)
		if err != nil {
			return err
		}
		return check(ctx, b, in, d)
	}
}

// alone runs a check on an instance of its own.
func alone(check pluginCheck) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		in, d, err := b.ready(ctx)
		if err != nil {
			return err
		}
		return check(ctx, b, in, d)
	}
}
