package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// SuiteVersion is the version of the set of checks. Within one version a check
// never becomes stricter.
const SuiteVersion = "1.10"

// Check is one test of a plugin.
type Check struct {
	// ID never changes: profile, subject, detail.
	ID string
	// Requirements are the ids of the requirements that the check tests.
	Requirements []string
	// Text states in one sentence what the plugin must do.
	Text string
	// Process marks a check that kills, stops or measures a process: it needs a
	// target that starts processes.
	Process bool

	// last marks a check that judges what every instance of the run did.
	last bool
	run  func(ctx context.Context, b *bench) error
}

// Profile is the profile of the check, such as "core".
func (c Check) Profile() string { return profileOf(c.ID) }

// Checks returns the checks of all profiles in the order in which they run.
func Checks() []Check {
	return slices.Concat(
		startChecks(), describeChecks(), configureChecks(), settingChecks(), healthChecks(), invokeChecks(), payloadChecks(),
		malformedChecks(), burnChecks(), pressureChecks(), boundChecks(), faultChecks(), drainChecks(), endingChecks(),
		modelChecks(), judgeChecks(), checkerChecks(), solverChecks(), toolChecks(), agentChecks(),
		streamingChecks(), hostCallChecks(), muxChecks(), swapChecks(), outputChecks(),
	)
}

// ChecksOf returns the checks of some profiles. Unknown names are ignored.
func ChecksOf(profiles ...string) []Check {
	return slices.DeleteFunc(Checks(), func(c Check) bool { return !slices.Contains(profiles, c.Profile()) })
}

// Status is the status of a check.
type Status string

// The statuses of a check.
const (
	// Pass: the plugin meets the requirement.
	Pass Status = "pass"
	// Fail means that the plugin does not meet the requirement, or that the
	// check could not be made.
	Fail Status = "fail"
	// Fault: the harness or the machine failed; there is no verdict.
	Fault Status = "fault"
)

// Result is the result of one check.
type Result struct {
	Check    Check
	Status   Status
	Took     time.Duration
	Expected string // empty on a pass
	Observed string // empty on a pass
	// Blocked is the id of the failed check that prevented this one; else
	// empty.
	Blocked string
	// Note says which part of a passed check could not be made, and what it needs; else empty.
	Note string
	// Evidence are the last log lines of the plugin, if the check did not pass.
	Evidence []string
}

// finding is a failure with the expected behaviour.
type finding struct{ expected, observed string }

func (f *finding) Error() string { return f.observed }

// want is the error of a check that observed something unexpected.
func want(expected, observed string, args ...any) error {
	return &finding{expected: expected, observed: fmt.Sprintf(observed, args...)}
}

// untestable is the error of a check that cannot be made.
func untestable(need string, args ...any) error {
	return &finding{expected: "what the check needs to be made", observed: "not testable: " + fmt.Sprintf(need, args...)}
}

// fault is a failure of the harness.
type fault struct{ err error }

func (f *fault) Error() string { return f.err.Error() }
