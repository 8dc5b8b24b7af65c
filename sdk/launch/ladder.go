package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Step is one step of stopping a process.
type Step struct {
	Name string
	// Limit is the maximum duration of the step, even if Do does not return.
	Limit time.Duration
	// Do asks the process to end. Its context ends with the limit; a Do that
	// ignores the context is abandoned.
	Do func(ctx context.Context) error
	// Await extends the step after Do has returned without an error, until the
	// process has ended or the limit is reached. Otherwise the next step begins
	// when Do returns.
	Await bool
	// Last steps run even when the context of Stop has ended.
	Last bool
}

// StepResult is the result of one step.
type StepResult struct {
	Name    string
	Took    time.Duration
	Err     error // of Do; a timeout if the limit was reached
	Exited  bool  // the process had ended at the end of the step
	Skipped bool  // the context had ended
}

// Stop runs the steps in order until done is closed, and returns their results.
// It takes at most the sum of the limits; if the process still runs then, the
// last result has Exited false. When ctx ends, the current step is canceled and
// only the steps marked Last follow.
func Stop(ctx context.Context, done <-chan struct{}, steps []Step) []StepResult {
	results := make([]StepResult, 0, len(steps))
	for _, step := range steps {
		if closed(done) {
			break
		}
		if ctx.Err() != nil && !step.Last {
			results = append(results, StepResult{Name: step.Name, Skipped: true})
			continue
		}
		results = append(results, take(ctx, done, step))
	}
	return results
}

// SignalStep returns the step that sends a signal to the process group and
// awaits the exit. SIGKILL is sent with Kill, even when the context of Stop has
// ended.
func (p *Process) SignalStep(name string, sig syscall.Signal, limit time.Duration) Step {
	last := sig == syscall.SIGKILL
	return Step{Name: name, Limit: limit, Await: true, Last: last, Do: func(context.Context) error {
		if last {
			return p.Kill()
		}
		if err := p.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return nil
	}}
}

func take(ctx context.Context, done <-chan struct{}, step Step) StepResult {
	begin := time.Now()
	if step.Last {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, step.Limit)
	defer cancel()
	result := StepResult{Name: step.Name}
	acted := make(chan error, 1)
	go func() { acted <- step.Do(ctx) }()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case err := <-acted:
			result.Err = err
			acted = nil
			waiting = step.Await && err == nil
		case <-ctx.Done():
			if acted != nil {
				result.Err = fmt.Errorf("%s: %w", step.Name, context.Cause(ctx))
			}
			waiting = false
		}
	}
	result.Took, result.Exited = time.Since(begin), closed(done)
	return result
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
