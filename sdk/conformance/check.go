package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// SuiteVersion names the set of checks. Within one version a check never
// becomes stricter.
const SuiteVersion = "1.6"

// Check is one thing that a plugin must do.
type Check struct {
	// ID never changes: profile, subject, what is checked.
	ID string
	// Requirements are the ids of the requirements that the check tests.
	Requirements []string
	// Text says in one sentence what a plugin must do.
	Text string
	// Process marks a check that kills, stops or measures a process: it needs
	// a target that starts one.
	Process bool

	run func(ctx context.Context, b *bench) error
}

// Profile is the set that the check belongs to, such as "core".
func (c Check) Profile() string { return profileOf(c.ID) }

// Checks gives every check of every profile in the order in which they run.
func Checks() []Check {
	return slices.Concat(
		startChecks(), describeChecks(), configureChecks(), settingChecks(), healthChecks(), invokeChecks(), payloadChecks(),
		malformedChecks(), burnChecks(), pressureChecks(), boundChecks(), faultChecks(), drainChecks(), endingChecks(),
		modelChecks(), judgeChecks(), checkerChecks(), solverChecks(), toolChecks(), agentChecks(),
		streamingChecks(), hostCallChecks(), muxChecks(), swapChecks(),
	)
}

// ChecksOf gives the checks of some profiles. A name that is no profile gives
// none.
func ChecksOf(profiles ...string) []Check {
	return slices.DeleteFunc(Checks(), func(c Check) bool { return !slices.Contains(profiles, c.Profile()) })
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
	// Blocked is the check that says why this one was not made; empty if it was.
	Blocked string
	// Evidence is what the plugin logged last, if the check did not pass.
	Evidence []string
}

// finding is a failure with what should have been.
type finding struct{ expected, observed string }

func (f *finding) Error() string { return f.observed }

// want is the error of a check that saw something else than it must.
func want(expected, observed string, args ...any) error {
	return &finding{expected: expected, observed: fmt.Sprintf(observed, args...)}
}

// untestable is the error of a check that lacks what it needs to be made.
func untestable(need string, args ...any) error {
	return &finding{expected: "what the check needs to be made", observed: "not testable: " + fmt.Sprintf(need, args...)}
}

// fault is a failure of the harness.
type fault struct{ err error }

func (f *fault) Error() string { return f.err.Error() }
