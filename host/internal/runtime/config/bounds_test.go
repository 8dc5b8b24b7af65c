package config_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
)

// HCL-010: each row gives one clear error within a second and no panic.
func TestBadInput(t *testing.T) {
	repeat := strings.Repeat
	mib := 500 << 10 // below the limit of a file
	rows := []struct {
		name, text string
		typ        string
		at         string // "line:column" of the first excess, if it is fixed
	}{
		{"brackets", "x = " + repeat("[", mib), "config/limit", ""},
		{"parentheses", "x = " + repeat("(", mib), "config/limit", ""},
		{"bangs", "x = " + repeat("!", mib), "config/limit", ""},
		{"interpolations", "x = " + repeat(`"${`, mib/3), "config/limit", ""},
		{"open blocks", repeat("a {\n", mib/4), "config/limit", ""},
		{"directives", `x = "` + repeat("%{ if true }", 65), "config/limit", "1:765"},
		{"bracket 65", "x = " + repeat("[", 65) + repeat("]", 65), "config/limit", "1:69"},
		{"run of unary operators", "x = " + repeat("!", 16) + "true", "config/limit", "1:20"},
		{"minus run", "x = " + repeat("- ", 16) + "1", "config/limit", "1:35"},
		{"conditionals", "x = " + repeat("a?b:", 64) + "c", "config/limit", "1:258"},
		{"operators", "x = 1" + repeat("+1", 1024), "config/limit", "1:2052"},
		{"index steps", "x = a" + repeat("[0]", 1024), "config/limit", "1:3075"},
		{"dots", "x = a" + repeat(".b", 1024), "config/limit", "1:2052"},
		{"tokens", "x = [" + repeat("1,", 100_000) + "]", "config/limit", ""},
		{"long number", "ferment {\n  seed = " + repeat("1", 41) + "\n}", "config/range", "2:10"},
		{"large exponent", "ferment {\n  seed = 1e309\n}", "config/range", "2:10"},
		{"huge exponent", "ferment {\n  seed = 1e99999999999999999999\n}", "config/range", "2:10"},
		{"division by zero", "ferment {\n  seed = 1/0\n}", "config/range", "2:12"},
		{"invalid UTF-8", "ferment {\n  mode = \"\xff\"\n}", "config/syntax", "2:11"},
		{"NUL", "ferment {\n\x00}", "config/syntax", "2:1"},
		{"heredoc without end", "ferment {\n  mode = <<EOT\nabc", "config/syntax", ""},
		{"template without end", "ferment {\n  mode = \"${", "config/syntax", ""},
		{"two attributes on one line", "ferment { mode = \"lazy\", seed = 1 }", "config/syntax", "1:24"},
		{"block twice", "ferment {}\n\nferment {}\n", "config/duplicate", "3:1"},
		{"attribute twice", "ferment {\n  seed = 1\n  seed = 2\n}", "config/duplicate", "3:3"},
		{"label in upper case", `check "Short" {}`, "config/syntax", "1:7"},
		{"blank label", `check "a b" {}`, "config/syntax", "1:7"},
		{"label too long", `check "` + repeat("a", 65) + `" {}`, "config/syntax", "1:7"},
		{"unqualified label", `intent "move" {}`, "config/syntax", "1:8"},
		{"reserved namespace", `intent "ferment/x" {}`, "config/syntax", "1:8"},
		{"no label", `intent {}`, "config/syntax", ""},
		{"two labels", `intent "a/b" "c" {}`, "config/syntax", "1:14"},
		{"ring of locals", "locals {\n  a = local.b\n  b = local.a\n}", "config/cycle", "2:3"},
		{"local of itself", "locals {\n  a = local.a\n}", "config/cycle", "2:3"},
		{"locals that double", "locals {\n  a0 = \"" + repeat("x", 1000) + "\"\n" + doubling(30) + "}", "config/limit", ""},
		{"env without value", "locals {\n  a = env(\"NOPE\")\n}\n\nferment {\n  seed = local.a\n}", "config/env-missing", "2:7"},
		{"file outside the root", "locals {\n  a = file(\"../x\")\n}\n\nferment {\n  mode = local.a\n}", "config/include", "2:7"},
		{"file is a directory", "locals {\n  a = file(\"bin\")\n}\n\nferment {\n  mode = local.a\n}", "config/include", "2:7"},
		{"text over 64 KiB", "check \"a\" {\n  builtin = \"" + repeat("x", 65<<10) + "\"\n}", "config/limit", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			start := time.Now()
			c, ds := configtest.Load(t, row.text)
			assert.Less(t, time.Since(start), 10*time.Second, "a fraction of a second; the margin is for a busy machine")
			require.NotEmpty(t, configtest.Types(ds))
			assert.Equal(t, row.typ, configtest.Types(ds)[0], "%s", diag.NewReport(ds, 0, 1, 5).Text(false))
			assert.Nil(t, c.Generation)
			if row.at != "" {
				d := ds[0]
				assert.Equal(t, row.at, fmt.Sprintf("%d:%d", d.Range.Start.Line, d.Range.Start.Column))
				assert.Len(t, configtest.Types(ds), 1, "%s", diag.NewReport(ds, 0, 1, 5).Text(false))
			}
		})
	}
}

// doubling defines locals, each twice as large as the previous one.
func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  a%d = \"${local.a%d}${local.a%d}\"\n", i+1, i, i)
	}
	return b.String()
}

// HCL-010: input at the limits is accepted.
func TestWithinBounds(t *testing.T) {
	repeat := strings.Repeat
	for name, expr := range map[string]string{
		"brackets":     repeat("[", 63) + repeat("]", 63),
		"unary":        repeat("!", 15) + "true",
		"conditionals": repeat("true?1:", 63) + "2",
		"operators":    "1" + repeat("+1", 1023),
		"digits":       repeat("1", 40),
		"exponent":     "1e308",
		"lists":        "[" + repeat("1+1,", 2000) + "]",
		"templates":    `"` + repeat("${1}", 500) + `"`,
		"directives":   `"` + repeat("%{ if true }", 60) + "x" + repeat("%{ endif }", 60) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			_, ds := configtest.Load(t, "locals {\n  a = "+expr+"\n}\n\n"+configtest.ChessWith("  config {\n    extra {\n      x = local.a\n    }\n  }"))
			assert.Empty(t, configtest.Types(ds), "%s", diag.NewReport(ds, 0, 1, 5).Text(false))
		})
	}
}

// HCL-010: paths that are not regular files, and files above the size limit.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, unix.Mkfifo(at("pipe.hcl"), 0o600))
	require.NoError(t, os.Symlink(at("nowhere"), at("dangling.hcl")))
	large, err := os.Create(at("large.hcl"))
	require.NoError(t, err)
	require.NoError(t, large.Truncate(10<<20))
	require.NoError(t, large.Close())
	require.NoError(t, os.WriteFile(at("over.hcl"), []byte(strings.Repeat("# comment\n", 53_000)), 0o600))
	for _, row := range []struct {
		path, typ  string
		unreadable bool
	}{
		{"missing.hcl", "config/include", true},
		{"pipe.hcl", "config/include", true},
		{"dangling.hcl", "config/include", true},
		{"/dev/zero", "config/include", true},
		{".", "config/include", true}, // holds no configuration
		{"large.hcl", "config/limit", false},
		{"over.hcl", "config/limit", false},
	} {
		t.Run(row.path, func(t *testing.T) {
			path := row.path
			if !filepath.IsAbs(path) {
				path = at(path)
			}
			start := time.Now()
			c, ds := config.Load(context.Background(), path, config.Options{})
			assert.Less(t, time.Since(start), 10*time.Second)
			require.Equal(t, []string{row.typ}, configtest.Types(ds))
			assert.Equal(t, row.unreadable, c.Unreadable())
			assert.NotContains(t, ds[0].Text(), dir, "no absolute path is printed")
		})
	}
}

// HCL-010: 10,000 blocks of one kind are within the limits of a file and are
// checked within the time limit.
func TestManyBlocks(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, "capability \"a/c%d\" {}\n", i)
	}
	start := time.Now()
	_, ds := configtest.Load(t, b.String())
	assert.Less(t, time.Since(start), 20*time.Second)
	assert.Contains(t, configtest.Types(ds), "config/missing")
}

// HCL-010: a file that is used 100 times is read once; the total limit is 16 MiB.
func TestFileInputs(t *testing.T) {
	path := configtest.Write(t, "locals {\n  a = file(\"big.txt\")\n  b = [for i in range(100) : length(file(\"big.txt\"))]\n}\n\n"+
		configtest.ChessWith("  config {\n    extra {\n      a = length(local.a)\n      b = local.b\n    }\n  }"))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "big.txt"), []byte(strings.Repeat("x", 1000)), 0o600))
	c, ds := config.Load(context.Background(), path, config.Options{Describer: configtest.Describer{"chess": configtest.Chess()}, Env: configtest.NoEnv})
	assert.Empty(t, configtest.Types(ds), "%s", diag.NewReport(ds, 0, 1, 5).Text(false))
	require.Len(t, c.Inputs, 1)
	assert.Equal(t, "big.txt", c.Inputs[0].Name)

	root := filepath.Dir(path)
	in := expression.NewInputs(root, configtest.NoEnv)
	for i := range 17 {
		name := fmt.Sprintf("f%d", i)
		require.NoError(t, os.WriteFile(filepath.Join(root, name), make([]byte, 1<<20), 0o600))
		_, err := in.File(root, name)
		if i < 16 {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "16MiB")
		}
	}
}

// HCL-012: a byte order mark and CRLF are read, and positions are those of the
// file on disk.
func TestLineEnds(t *testing.T) {
	_, ds := configtest.Load(t, "\xef\xbb\xbfferment {\r\n  mode = \"lazy\"\r\n  sed = 1\r\n}\r\n")
	require.Len(t, ds, 1)
	r := ds[0].Range
	assert.Equal(t, diag.Position{Line: 3, Column: 3, Byte: 3 + 11 + 17 + 2}, r.Start)
}

// HCL-032: columns count code points, tabs are printed unchanged.
func TestColumns(t *testing.T) {
	_, ds := configtest.Load(t, "ferment {\n\tmode = \"żółw\" + x\n}\n")
	require.NotEmpty(t, ds)
	d := ds[0]
	assert.Equal(t, "2:18", fmt.Sprintf("%d:%d", d.Range.Start.Line, d.Range.Start.Column))
	assert.Contains(t, d.Text(), "      2 | \tmode = \"żółw\" + x\n        | \t                ^\n")
}
