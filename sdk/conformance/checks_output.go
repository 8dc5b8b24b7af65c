package conformance

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/wire"
)

// outputChecks run after all others, because they judge every instance of the run.
func outputChecks() []Check {
	return []Check{
		{ID: "core/start/stdout", Requirements: []string{"START-005"}, Process: true, last: true,
			Text: "standard output carries the handshake line and nothing else, from the start of the process to its end",
			run:  alone(startStdout)},
	}
}

// output is what the instances of a session printed to standard output after the
// handshake: the first of it, with the check that made the instance print.
type output struct {
	mu          sync.Mutex
	check, head string
	bytes       int
}

// printer is an instance whose standard output is read.
type printer interface{ Printed() (head string, n int) }

// add records what a stopped instance printed.
func (o *output) add(in Instance, check string) {
	p, ok := in.(printer)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if head, n := p.Printed(); n > 0 && o.bytes == 0 {
		o.check, o.head, o.bytes = check, head, n
	}
}

// empty fails if an instance printed something.
func (o *output) empty() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes == 0 {
		return nil
	}
	where := ""
	if o.check != "" {
		where = " during " + o.check
	}
	return want("nothing but the handshake line on standard output", "%d bytes more%s, beginning with %q",
		o.bytes, where, o.head)
}

// printPatience bounds the calls with derived inputs of a slow plugin.
const printPatience = 2 * time.Second

// startStdout leads an instance through its life, since this check may be the only one of
// the run.
func startStdout(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	for _, q := range b.questions(d) {
		if _, err := b.ask(ctx, in, q); err != nil && typedError(err) != nil {
			return typedError(err)
		}
	}
	b.everyInput(d, 2*wire.MaxLine, b.opts.spend(printPatience), func(q question) {
		_, _ = b.ask(ctx, in, q) // other checks test how a call ends
	})
	c, input := b.long(d)
	_, _ = b.cancelCalls(ctx, in, question{capability: c, intent: firstIntent(c), input: input}, cancelBatch)
	_ = in.Client().EndRun(ctx, callContext(c).Run)
	_, _ = in.Client().Configure(ctx, b.setup(""), nil) // a refusal
	p, err := processOf(in)
	if err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGINT); err != nil {
		return &fault{fmt.Errorf("interrupt the process: %w", err)}
	}
	_, _ = b.drain(ctx, in, b.call) // one that SIGINT has ended fails core/fault/interrupt
	in.Stop()                       // reads what is left in the pipes
	b.output.add(in, b.check)
	return b.output.empty()
}
