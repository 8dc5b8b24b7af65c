//go:build slow

package cli_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSteady: equal inputs give equal bytes, without times and without paths
// of this machine (HCL-038).
func TestSteady(t *testing.T) {
	t.Parallel()
	w := shop(t)
	w.mustLock() // caches the descriptions of the plugins
	for _, args := range []string{
		"validate", "validate --config broken.hcl", "plugin list", "plugin inspect mine", "explain text/render", "explain mine/strict", "check wrong.edn",
		"fmt --diff ugly.hcl", "fmt --check syntax.hcl", "fmt absent.hcl", "run absent.edn",
	} {
		for _, form := range []string{"text", "json", "edn"} {
			first := w.run(append(split(args), "-o", form)...)
			again := w.run(append(split(args), "-o", form)...)
			assert.Equal(t, first, again, args)
			for _, place := range []string{w.dir, built.root} {
				assert.NotContains(t, first.stdout+first.stderr, place, "%s -o %s", args, form)
			}
		}
	}
}
