package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Options configure Run. The zero value runs every check of the profiles that
// the plugin must pass.
type Options struct {
	// Profiles replaces the profiles that follow from the description. A
	// profile that does not apply to the plugin fails.
	Profiles []string
	// Config is the configuration of the plugin; nil: {}. A text that the schema of the plugin marks
	// as a secret is sent as a host does: nil in its place, and the text in Secrets.
	Config edn.Value
	// Secrets is a map from the path of a secret, a vector, to its text. RunCheck expects all of
	// them here.
	Secrets edn.Value
	// Samples are inputs that the plugin answers with a value, by the id of a
	// capability or by the name of an intent; the intent takes precedence.
	// Without a sample the input is generated from the schema.
	Samples map[string]edn.Value
	// Slow is a capability and an input for which it works for a second or more
	// unless it is cancelled. Without it, the checks that need a call in flight are
	// made on calls that may end too early, and their results have a note.
	Slow *Sample
	// Answers are the answers of the host to calls of the plugin, by intent.
	Answers map[string]edn.Value
	// Scope is the scope that calls receive, by effect; nil if not stated.
	Scope edn.Value
	// Only restricts the run to matching ids; nil: all.
	Only *regexp.Regexp
	// Seed makes the choices of a run repeatable; 0 picks one.
	Seed uint64
	// Host answers calls of the plugin; nil: one per instance, with Answers.
	Host wire.Host
	// Process runs the checks that need a separate process, if the target has
	// none; nil: those checks fail.
	Process Target
	// Command is the command line of the run, for the report.
	Command CommandLine
	// OnStart and OnResult, if set, are called when a check begins and ends.
	OnStart  func(Check)
	OnResult func(Result)

	// Patience multiplies the time limits for the plugin and for the run; 0 is 1.
	Patience float64

	limit time.Duration // of the run; 0: runLimit
}

// Sample is an input for a capability.
type Sample struct {
	Capability string
	Input      edn.Value
}

// checkLimit bounds one check, so that a hanging plugin costs a known time.
const checkLimit = 30 * time.Second

// runLimit bounds a run of all checks: with a plugin whose calls take long, but end, most
// checks use much of their limits. No check begins later.
const runLimit = 10 * time.Minute

// long scales a duration by Patience.
func (o Options) long(d time.Duration) time.Duration {
	return time.Duration(float64(d) * max(1, o.Patience))
}

// spend scales by Patience a duration that a slow plugin uses up, unlike a limit
// that few plugins reach. Hence it scales less.
func (o Options) spend(d time.Duration) time.Duration {
	return time.Duration(float64(d) * min(max(1, o.Patience), 3))
}

// Run runs the checks in sequence. When ctx ends, the remaining checks are not
// run and have the status Fault. When the run has taken 10 minutes, times Patience, the
// remaining checks are not run and fail.
func Run(ctx context.Context, target Target, opts Options) Report {
	if opts.Seed == 0 {
		opts.Seed = rand.Uint64()
	}
	began := time.Now()
	report := Report{
		Suite: SuiteVersion, Protocol: wire.Protocol, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Seed: opts.Seed, Began: began,
	}
	session := Open(ctx, target, opts)
	defer session.Close()
	report.Command = opts.Command.without(session.secrets)
	report.Plugin, report.Version, report.Profiles = session.Plugin().Name, session.Plugin().Version, session.Profiles()
	limit := opts.long(cmp.Or(opts.limit, runLimit))
	var over *Result // of the first check for which no time was left
	for _, check := range session.Checks() {
		if opts.OnStart != nil {
			opts.OnStart(check)
		}
		var result Result
		if time.Since(began) < limit || ctx.Err() != nil {
			result = session.Take(ctx, check)
		} else {
			result = overtime(check, over, limit)
			over = cmp.Or(over, &result)
		}
		report.Results = append(report.Results, result)
		if opts.OnResult != nil {
			opts.OnResult(result)
		}
	}
	report.Took = time.Since(began)
	return report
}

// overtime is the result of a check for which no time was left. The first one says why and
// blocks the others.
func overtime(check Check, first *Result, limit time.Duration) Result {
	r := Result{Check: check, Status: Fail, Expected: fmt.Sprintf("a run of at most %s", limit)}
	if first != nil {
		reason := &blocked{by: first.Check.ID, late: true}
		r.Blocked, r.Observed = reason.by, reason.Error()
		return r
	}
	r.Observed = "not run: no time is left, as calls of the plugin take long; give samples that it answers sooner, " +
		"or select checks with --run"
	return r
}

// RunCheck runs one check by itself.
func RunCheck(ctx context.Context, target Target, check Check, opts Options) Result {
	result, _ := take(ctx, target, check, opts, checkLimit, func(*bench) {})
	return result
}

// take runs a check within a limit; know prepares the bench. used reports whether
// the check called an instance that earlier checks had called.
func take(
	ctx context.Context, target Target, check Check, opts Options, limit time.Duration, know func(*bench),
) (result Result, used bool) {
	limit = opts.long(limit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	if errors.Is(ctx.Err(), context.Canceled) {
		return Result{Check: check, Status: Fault, Expected: check.Text, Observed: "the run was cancelled"}, false
	}
	if check.Process && !startsProcesses(target) {
		if opts.Process == nil {
			return Result{
				Check: check, Status: Fail, Expected: "a plugin in a process of its own",
				Observed: "not testable: the plugin runs in this process; a test calls sdktest.Main in its TestMain",
			}, false
		}
		target = opts.Process
	}
	b := newBench(target, opts)
	b.limit, b.check = limit, check.ID
	know(b)
	if check.Process {
		b.loan = nil
	}
	err := b.guard(func() error { return check.run(ctx, b) })
	b.cleanUp()
	return b.result(ctx, check, err, time.Since(began)), b.used
}

// result converts the error of a check into a result.
func (b *bench) result(ctx context.Context, check Check, err error, took time.Duration) Result {
	out := Result{Check: check, Status: Pass, Took: took}
	if err == nil {
		out.Note = b.note
		return out
	}
	out.Status = Fail
	out.Expected, out.Observed = check.Text, err.Error()
	out.Evidence = b.logTail()
	var f *finding
	var broken *fault
	var met *blocked
	switch {
	case errors.As(err, &met):
		out.Blocked, out.Evidence = met.by, nil
	case errors.As(err, &broken):
		out.Status = Fault
	case b.hanging.met != nil && ctx.Err() == nil:
		out.Blocked, out.Observed, out.Evidence = b.hanging.met.by, b.hanging.met.Error(), nil
	case errors.Is(ctx.Err(), context.Canceled):
		out.Status, out.Observed = Fault, "the run was cancelled"
	case errors.As(err, &f):
		out.Expected = f.expected
	case ctx.Err() != nil:
		out.Observed = fmt.Sprintf("the check was not over after %s (%v)", b.limit, err)
	}
	return out
}

// guard recovers a panic of a check.
func (b *bench) guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 4096)
			stack = stack[:runtime.Stack(stack, false)]
			err = &fault{fmt.Errorf("the check panicked: %v\n%s", p, strings.TrimSpace(string(stack)))}
		}
	}()
	return do()
}
