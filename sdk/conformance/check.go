package conformance

import (
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

// SuiteVersion names the set of checks. Within one version a check never
// becomes stricter.
const SuiteVersion = "1.0"

// Check is one thing that a plugin must do.
type Check struct {
	// ID never changes: profile, subject, what is checked.
	ID string
	// Profile is the set that the check belongs to, such as "core".
	Profile string
	// Requirements are the ids of the rules that the check tests.
	Requirements []string
	// Text says in one sentence what a plugin must do.
	Text string

	run func(ctx context.Context, b *bench) error
}

// Checks gives every check in the order in which they run.
func Checks() []Check {
	var all []Check
	all = append(all, describeChecks()...)
	all = append(all, configureChecks()...)
	all = append(all, healthChecks()...)
	all = append(all, invokeChecks()...)
	all = append(all, malformedChecks()...)
	all = append(all, endingChecks()...)
	return all
}

// Status is what became of a check.
type Status string

// The statuses of a check.
const (
	// Pass: the plugin does what it must.
	Pass Status = "pass"
	// Fail: it does not, or it could not be shown that it does.
	Fail Status = "fail"
	// Fault: the harness or the machine failed; nothing is known.
	Fault Status = "fault"
)

// Result is the outcome of one check.
type Result struct {
	Check    Check
	Status   Status
	Took     time.Duration
	Expected string // empty on a pass
	Observed string // empty on a pass
	// Evidence is what the plugin logged last, if the check did not pass.
	Evidence []string

	plugin, version string // as described, if the check came so far
}

// Report is the outcome of a run.
type Report struct {
	Suite    string
	Protocol int
	Platform string
	Seed     uint64
	Plugin   string // as described, empty if unknown
	Version  string
	Results  []Result
}

// Failed counts the results that are no pass.
func (r Report) Failed() int {
	n := 0
	for _, res := range r.Results {
		if res.Status != Pass {
			n++
		}
	}
	return n
}

// Options change what Run does. The zero value runs every check.
type Options struct {
	// Config is the configuration of the plugin, secrets as nil; nil for {}.
	Config edn.Value
	// Secrets is a map from the path of a secret to its text.
	Secrets edn.Value
	// Samples are inputs that a capability can answer: id to input. A
	// capability without one is called with an input made up from its schema.
	Samples map[string]edn.Value
	// Slow is a capability and an input for which it works for a second or
	// more if nobody stops it. Without it, cancelling is checked on calls that
	// may be over by then.
	Slow *Sample
	// Only restricts the run to ids that match; nil for all.
	Only *regexp.Regexp
	// Seed makes the choices of a run repeatable; 0 picks one.
	Seed uint64
	// Host answers what the plugin asks; nil for an empty one per check.
	Host wire.Host
	// OnResult, if set, sees each result when it is there.
	OnResult func(Result)

	patience *patience // nil for the default
}

// Sample is an input for a capability.
type Sample struct {
	Capability string
	Input      edn.Value
}

// checkLimit bounds one check, so that a plugin that hangs costs a known time.
const checkLimit = 30 * time.Second

// Run takes the checks one after the other. ctx cancels the rest of the run;
// checks that were not taken are faults.
func Run(ctx context.Context, target Target, opts Options) Report {
	if opts.Seed == 0 {
		opts.Seed = rand.Uint64()
	}
	report := Report{Suite: SuiteVersion, Protocol: wire.Protocol, Platform: runtime.GOOS + "/" + runtime.GOARCH, Seed: opts.Seed}
	for _, check := range Checks() {
		if opts.Only != nil && !opts.Only.MatchString(check.ID) {
			continue
		}
		result := RunCheck(ctx, target, check, opts)
		if report.Plugin == "" && result.plugin != "" {
			report.Plugin, report.Version = result.plugin, result.version
		}
		report.Results = append(report.Results, result)
		if opts.OnResult != nil {
			opts.OnResult(result)
		}
	}
	return report
}

// RunCheck takes one check.
func RunCheck(ctx context.Context, target Target, check Check, opts Options) Result {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	b := &bench{target: target, opts: opts, patience: defaultPatience}
	if opts.patience != nil {
		b.patience = *opts.patience
	}
	began := time.Now()
	err := b.guard(func() error { return check.run(ctx, b) })
	b.cleanUp()
	out := Result{Check: check, Status: Pass, Took: time.Since(began), plugin: b.name, version: b.version}
	if err == nil {
		return out
	}
	out.Status = Fail
	out.Expected, out.Observed = check.Text, err.Error()
	out.Evidence = b.logTail()
	var f *finding
	var broken *fault
	switch {
	case errors.As(err, &f):
		out.Expected, out.Observed = f.expected, f.observed
	case errors.As(err, &broken):
		out.Status = Fault
	case ctx.Err() != nil:
		out.Observed = fmt.Sprintf("the check was not over after %s (%v)", checkLimit, err)
	}
	return out
}

// finding is a failure with what should have been.
type finding struct{ expected, observed string }

func (f *finding) Error() string { return f.observed }

// want is the error of a check that saw something else than it must.
func want(expected, observed string, args ...any) error {
	return &finding{expected: expected, observed: fmt.Sprintf(observed, args...)}
}

// fault is a failure of the harness.
type fault struct{ err error }

func (f *fault) Error() string { return f.err.Error() }

// guard keeps a panic of a check from ending the run.
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
