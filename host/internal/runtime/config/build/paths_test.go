package build_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// HCL-002: a missing path in an enabled scope is a warning at its item. An existing
// path, or one in a disabled scope, is not.
func TestPathsThatAreNotThere(t *testing.T) {
	for text, want := range map[string]string{
		`effects {
  scope "fs/read" {
    enabled = true
    roots   = ["/usr", "gone"]
    allow   = ["."]
  }
}`: `4:24 effects.scope.fs/read.roots`,
		`effects {
  scope "process/run" {
    enabled        = true
    allow_commands = ["/bin/sh", "/gone/tool"]
    allow_cwd      = ["/usr"]
  }
}`: `4:34 effects.scope.process/run.allow_commands`,
		`effects {
  scope "fs/read" {
    roots = ["gone"]
    allow = ["."]
  }
}`: ``,
	} {
		_, ds := configtest.Load(t, text)
		require.False(t, ds.HasErrors(), "%s: %v", text, ds)
		var got []string
		for _, d := range ds {
			if d.Type == "config/dangling-reference" {
				assert.Equal(t, diag.SeverityWarning, d.Severity)
				place, _ := strings.CutPrefix(d.Range.String(), "ferment.hcl:")
				got = append(got, place+" "+strings.Join(d.Path, "."))
			}
		}
		if want == "" {
			assert.Empty(t, got, text)
			continue
		}
		require.Len(t, got, 1, text)
		assert.Contains(t, got[0], want, text)
	}
}
