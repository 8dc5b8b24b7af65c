package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counting writes a configuration with a plugin that counts its calls in a file, and
// returns the file.
func (w *world) counting(t *testing.T, kept string) (file string) {
	t.Helper()
	file = filepath.Join(w.dir, "out", "effects")
	w.write("ferment.hcl", testProfile+kept+fmt.Sprintf(`plugin "counter" {
  command = [%q, %q]
  config {
    file = %q
  }
  isolation {
    write_paths = ["out"]
  }
}
effects {
  scope "fs/write" {
    enabled = true
    roots   = ["out"]
    allow   = ["."]
  }
  rule "fs/write" {
    any = ["any"]
  }
}
`, built.helper, roleCounter, file)+strings.Join([]string{
		fmt.Sprintf(anyIntent, "count/free"), fmt.Sprintf(anyEffect, "count/keyed"), fmt.Sprintf(anyEffect, "count/once"),
	}, ""))
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "out"), 0o755))
	w.mustLock()
	return file
}

const anyEffect = "intent %q {\n  in      = \"req/any\"\n  out     = \"res/any\"\n  effects = [\"fs/write\"]\n}\n"

// effects returns the lines of the file of counting.
func (w *world) effects(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(text)
}
