package sdktest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Conform runs every conformance check of the profiles of p, each as a subtest
// named by its id. Most checks run p in this process; those that need a
// separate process use the one of Start, so TestMain must call Main. Under the
// race detector the time limits are five times as long, unless the options set
// them.
func Conform(t *testing.T, p sdk.Plugin, opts ...conformance.Options) {
	t.Helper()
	var o conformance.Options
	if len(opts) > 0 {
		o = opts[0]
	}
	if o.Process == nil && isPlugin() {
		o.Process = Self(t)
	}
	conform(t, conformance.InProcess(p), o)
}

// ConformSelf is Conform with every check on the process of Start.
func ConformSelf(t *testing.T, opts ...conformance.Options) {
	t.Helper()
	var o conformance.Options
	if len(opts) > 0 {
		o = opts[0]
	}
	conform(t, Self(t), o)
}

func conform(t *testing.T, target conformance.Target, o conformance.Options) {
	t.Helper()
	if o.Patience == 0 {
		o.Patience = slowdown
	}
	session := conformance.Open(t.Context(), target, o)
	t.Cleanup(session.Close)
	checks := session.Checks()
	for _, check := range checks {
		t.Run(check.ID, func(t *testing.T) {
			result := session.Take(t.Context(), check)
			if result.Status != conformance.Pass {
				t.Error(explain(result, t.Name()))
			}
			if result.Note != "" {
				t.Log(result.Note)
			}
		})
	}
	if len(checks) == 0 {
		t.Errorf("no check was made: profiles %v, only %v", session.Profiles(), o.Only)
	}
}

// explain returns the text of "ferment conform" about a check that did not
// pass.
func explain(r conformance.Result, test string) string {
	if r.Blocked != "" {
		return r.Observed
	}
	return fmt.Sprintf("%s %s\n%s\nagain: go test -run '%s'", r.Status, r.Check.ID,
		strings.TrimSpace(conformance.Report{}.Explain(r)), test)
}

// Samples reads a samples file of "ferment conform", so that a plugin's tests
// and the command use the same inputs.
func Samples(t testing.TB, path string) conformance.Options {
	t.Helper()
	var o conformance.Options
	if err := o.ReadSamples(Value(t, path)); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return o
}

// Value reads a file with one EDN value.
func Value(t testing.TB, path string) edn.Value {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v, err := edn.Read(text, edn.WithSource(path))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
