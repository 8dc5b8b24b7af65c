package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Arg is the argument that makes the binary a worker; see Main.
const Arg = "internal-worker"

// Held is a worker that is confined and waits for its call.
type Held interface {
	// Do executes the call.
	Do(ctx context.Context, call edn.Value) (edn.Value, *contract.Error)
	// Close releases what was opened before the process was confined.
	Close()
}

// Hold opens the files and connections of a call and confines the process to
// the rules. An error that is not a *contract.Error means that the rules are
// malformed.
type Hold func(rules edn.Value) (Held, error)

// Main runs the worker and returns the exit status.
//
// It reads its task in two steps: first the rules, by which the kernel confines
// it, then, confined, the call itself.
func Main(in io.Reader, out io.Writer, hold Hold) int {
	closeInherited()
	wholeModes()
	v, err := receive(in)
	if errors.Is(err, io.EOF) {
		return 0 // prestarted and not needed
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "read the rules of the worker:", err)
		return 2
	}
	answer := edn.Nil()
	var failed *contract.Error
	held, err := hold(v)
	switch {
	case err == nil:
		v, err := receive(in)
		if err != nil {
			held.Close()
			_, _ = fmt.Fprintln(os.Stderr, "read the call of the worker:", err)
			return 2
		}
		go func() { // no more input follows: its end means that the parent has gone
			_, _ = io.Copy(io.Discard, in)
			os.Exit(3)
		}()
		answer, failed = held.Do(context.Background(), v)
		held.Close()
	case errors.As(err, &failed):
	default:
		_, _ = fmt.Fprintln(os.Stderr, "apply the rules of the worker:", err)
		return 2
	}
	reply := edn.MustMap(edn.K("out"), answer)
	if failed != nil {
		reply = edn.MustMap(edn.K("error"), failed.Value())
	}
	if err := send(out, reply); err != nil {
		return 2
	}
	return 0
}

// Confine applies p at confine.Strict to this process. If strict is false,
// parts of p that the machine cannot enforce are skipped instead of returned as
// an error.
func Confine(t effects.Tool, p confine.Policy, strict bool) *contract.Error {
	p.Level, p.BestEffort = confine.Strict, !strict
	if err := confine.Apply(p); err != nil {
		return Unheld(t, err)
	}
	return nil
}

// Unheld returns the error of a call that the kernel cannot confine to its
// scope.
func Unheld(t effects.Tool, err error) *contract.Error {
	e := contract.Errorf("effects/not-enforceable", ":%s: the call cannot be confined to its scope: %w", t.ID, err)
	var fault *confine.Error
	if errors.As(err, &fault) {
		e = e.WithDetail("layer", edn.Text(string(fault.Layer)))
	}
	return e
}
