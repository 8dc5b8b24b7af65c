package suite

import (
	"fmt"
	"time"
)

// Status is the outcome of one test.
type Status string

// The outcomes of a test. A test that did not end has failed.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Test is the result of one test.
type Test struct {
	Name    string
	Package string
	Status  Status
	Took    time.Duration
	// Output is kept for failed tests, shortened in the middle.
	Output string
}

// Result is the result of a run of a suite.
type Result struct {
	// OK is true if at least one test passed and none failed.
	OK bool
	// Reason is the reason why a result is not OK.
	Reason string
	// Tests are in the order in which they began. Above maxTests, passed ones
	// are omitted first; Omitted counts them.
	Tests   []Test
	Omitted int

	Passed, Failed, Skipped int

	BuildFailed bool
	TimedOut    bool
	// Exit is the status of the command, -1 if a signal ended it; Ended
	// describes it.
	Exit  int
	Ended string
	// Output is the end of the output outside the tests.
	Output string
	Took   time.Duration
}

// add puts a test into the result and counts it.
func (r *Result) add(t Test) {
	r.Tests = append(r.Tests, t)
	switch t.Status {
	case Pass:
		r.Passed++
	case Skip:
		r.Skipped++
	default:
		r.Failed++
	}
}

// maxTests is the maximum number of tests in a result.
const maxTests = 5000

// judge sets OK and Reason. All other fields must be set before. memory says that the output
// mentions a lack of memory.
func (r *Result) judge(limit time.Duration, memory bool) {
	none := r.Passed+r.Failed == 0
	switch {
	case r.TimedOut:
		r.Reason = fmt.Sprintf("the tests did not end within %s", limit)
	case r.BuildFailed:
		r.Reason = "the build failed"
	case r.Failed > 0:
		r.Reason = fmt.Sprintf("%s failed", plural(r.Failed, "test"))
	case r.Exit != 0:
		r.Reason = "the command ended with " + r.Ended
	case none && r.Skipped > 0:
		r.Reason = fmt.Sprintf("no test ran: %s skipped", plural(r.Skipped, "test"))
	case none:
		r.Reason = "no test ran"
	default:
		r.OK = true
		return
	}
	if memory && !r.TimedOut {
		r.Reason += ": out of memory"
	}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// limit drops tests beyond maxTests, passed and skipped ones first.
func (r *Result) limit() {
	excess := len(r.Tests) - maxTests
	if excess <= 0 {
		return
	}
	kept := r.Tests[:0]
	for _, t := range r.Tests {
		if excess > 0 && t.Status != Fail {
			excess--
			r.Omitted++
			continue
		}
		kept = append(kept, t)
	}
	if len(kept) > maxTests {
		r.Omitted += len(kept) - maxTests
		kept = kept[:maxTests]
	}
	r.Tests = kept
}
