package sdktest

import (
	"strings"
	"testing"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/conformance"
)

// Conform takes every conformance check on p in this process, each as a
// subtest named by its id.
func Conform(t *testing.T, p sdk.Plugin, opts ...conformance.Options) {
	t.Helper()
	conform(t, conformance.InProcess(p), opts)
}

// ConformSelf is Conform on the process that Start starts.
func ConformSelf(t *testing.T, opts ...conformance.Options) {
	t.Helper()
	conform(t, Self(t), opts)
}

func conform(t *testing.T, target conformance.Target, opts []conformance.Options) {
	t.Helper()
	var o conformance.Options
	if len(opts) > 0 {
		o = opts[0]
	}
	_, profiles := conformance.Identify(t.Context(), target, o)
	taken := 0
	for _, check := range conformance.ChecksOf(profiles...) {
		if o.Only != nil && !o.Only.MatchString(check.ID) {
			continue
		}
		taken++
		t.Run(check.ID, func(t *testing.T) {
			result := conformance.RunCheck(t.Context(), target, check, o)
			if result.Status == conformance.Pass {
				return
			}
			t.Errorf("%s: %s (%s)\n  requirement: %s\n  expected: %s\n  observed: %s\n  log: %s",
				check.ID, result.Status, strings.Join(check.Requirements, " "), check.Text,
				result.Expected, result.Observed, strings.Join(result.Evidence, "\n       "))
		})
	}
	if taken == 0 {
		t.Errorf("no check was made: profiles %v, only %v", profiles, o.Only)
	}
}
