package config_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lying describes a plugin with invalid metadata.
func lying() contract.Description {
	d := configtest.Chess()
	d.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:map [:a-b :int] [:a_b :int]]}`)
	return d
}

// old describes a plugin with a deprecated entry and a deprecated capability.
func old() contract.Description {
	d := configtest.Chess()
	d.Capabilities[0].Stability = "deprecated"
	d.ConfigSchema = edn.MustRead(`{:config/v 1 :config/schema [:map {:closed true} [:depth {:default 6} :int] [:level {:optional true :deprecated "depth"} :int]]}`)
	return d
}

// HCL-034, HCL-044: every type of diagnostic as text, JSON and EDN.
func TestDiagnosticTypes(t *testing.T) {
	covered := map[string]bool{}
	files, err := filepath.Glob("testdata/diag/*.hcl")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".hcl")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			c, ds := config.Load(context.Background(), configtest.Write(t, string(raw)), config.Options{Env: configtest.NoEnv, HostVersion: "0.1.0",
				Describer: configtest.Describer{"chess": configtest.Chess(), "stockfish": configtest.Chess(), "liar": lying(), "old": old()}})
			for _, d := range ds {
				covered[d.Type] = true
			}
			r := c.Report(diag.DefaultMaxShown)
			configtest.Golden(t, "testdata/diag/"+name+".txt", []byte(r.Text(false)))
			out, err := r.JSON()
			require.NoError(t, err)
			configtest.Golden(t, "testdata/diag/"+name+".json", out)
			configtest.Golden(t, "testdata/diag/"+name+".edn", append(edn.WritePretty(r.Value(), edn.PrettyOptions{Width: 120}), '\n'))
			back, err := edn.ReadString(r.Value().String())
			require.NoError(t, err)
			assert.True(t, edn.Equal(r.Value(), back))
		})
	}
	for _, typ := range strings.Fields("syntax unknown-name missing duplicate type range dangling-reference cycle include env-missing secret-missing limit reserved overridden plugin-schema plugin-unknown unused deprecated") {
		assert.True(t, covered["config/"+typ], "no golden file shows config/%s", typ)
		_, known := contract.Lookup("config/" + typ)
		assert.True(t, known, "config/%s is not in the catalogue", typ)
	}
	assert.True(t, covered["capability/invalid-metadata"])
}

// HCL-002: unknown names at the top level and in the ferment block. The known names
// change with every build, so there is no golden file.
func TestUnknownTopLevel(t *testing.T) {
	_, ds := configtest.Load(t, "feremnt {}\n\nferment {\n  max_dpeth = 3\n}\n")
	require.Equal(t, []string{"config/unknown-name", "config/unknown-name"}, configtest.Types(ds))
	ferment, _ := language.Specification().Block("ferment")
	assert.Equal(t, "did you mean \"ferment\"?", ds[0].Hint)
	assert.True(t, edn.Equal(diag.Words(language.Specification().Names("")), ds[0].Expected))
	assert.Equal(t, "did you mean \"max_depth\"?", ds[1].Hint)
	assert.True(t, edn.Equal(diag.Words(ferment.Names("ferment")), ds[1].Expected))
}

// HCL-033: 100 diagnostics are shown, 20 per file; 1,000 are kept, the rest is
// counted.
func TestReportLimits(t *testing.T) {
	var b strings.Builder
	for range 1500 {
		b.WriteString("nope {}\n")
	}
	c, ds := configtest.Load(t, b.String())
	assert.Len(t, ds, diag.MaxKept)
	r := c.Report(diag.DefaultMaxShown)
	assert.Equal(t, 1500, r.Errors)
	assert.Len(t, r.Shown, diag.MaxShownPerFile)
	assert.Equal(t, 1480, r.Omitted)
	assert.Contains(t, r.Text(false), "1500 errors, 0 warnings in 1 file (1480 not shown; a load keeps the first 1000)")
	assert.Len(t, c.Report(0).Shown, diag.MaxKept)
	assert.Equal(t, 500, c.Report(0).Omitted)
}

// HCL-032: the consequences of one cause are folded.
func TestFolding(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		b.WriteString("check \"c" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "\" {\n  builtin = local.nope\n}\n")
	}
	_, ds := configtest.Load(t, b.String())
	var dangling []diag.Diagnostic
	for _, d := range ds {
		if d.Type == "config/dangling-reference" {
			dangling = append(dangling, d)
		}
	}
	require.Len(t, dangling, 1)
	assert.Equal(t, 39, dangling[0].More)
	assert.Contains(t, dangling[0].Text(), "and 39 more places")
}

// HCL-032: long lines are shortened around the caret, control characters are escaped,
// and the valid part of a file with a syntax error is checked.
func TestExcerpts(t *testing.T) {
	_, ds := configtest.Load(t, "ferment {\n  mode = \""+strings.Repeat("x", 200)+"\" # "+strings.Repeat("y", 200)+"\n}\n")
	require.Len(t, ds, 1)
	text := ds[0].Text()
	for _, line := range strings.Split(text, "\n")[:4] {
		assert.LessOrEqual(t, len(line), 10+2*3+160)
	}
	assert.Contains(t, text, "...")

	_, ds = configtest.Load(t, "ferment {\n  mode = \"a\x1b[31mb\"\n}\n")
	require.NotEmpty(t, ds)
	assert.NotContains(t, ds[0].Text(), "\x1b")
	assert.Contains(t, ds[0].Text(), `\u001b`)

	_, ds = configtest.Load(t, "ferment {\n  sed = 1\n}\n\ncheck \"a\" {\n  builtin = \n}\n\ndispatch \"d\" {\n  deadline = 5\n}\n")
	assert.Subset(t, configtest.Types(ds), []string{"config/unknown-name", "config/syntax", "config/type"})
}

// Two loads of one file have identical output (HCL-038).
func TestDeterministic(t *testing.T) {
	raw, err := os.ReadFile("testdata/diag/type.hcl")
	require.NoError(t, err)
	var first []byte
	for range 20 {
		c, _ := configtest.Load(t, string(raw))
		out, err := c.Report(0).JSON()
		require.NoError(t, err)
		if first == nil {
			first = append(out, c.Hash...)
		}
		assert.Equal(t, string(first), string(append(out, c.Hash...)))
	}
}

// CLI-001: color changes only the severity.
func TestColor(t *testing.T) {
	c, _ := configtest.Load(t, "nope {}\n")
	plain, colored := c.Report(0).Text(false), c.Report(0).Text(true)
	assert.NotEqual(t, plain, colored)
	assert.Equal(t, plain, strings.NewReplacer("\x1b[1;31m", "", "\x1b[0m", "").Replace(colored))
}
