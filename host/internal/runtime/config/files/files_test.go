package files_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
)

func fileNames(c *config.Config) []string {
	var out []string
	for _, s := range c.Files {
		out = append(out, s.Name)
	}
	return out
}

func seedOf(n int) string { return fmt.Sprintf("ferment {\n  seed = %d\n}\n", n) }

// HCL-005: the order of the directories, bytewise within each, and the files of each
// profile.
func TestLoadOrder(t *testing.T) {
	files := map[string]string{
		"ferment.hcl": "", "common/b.hcl": "", "common/B.hcl": "", "common/a.hcl.json": "{}", "common/a.hcl": "", "common/readme.md": "#", "common/.#a.hcl": "-> nobody@here",
		"common/sub/x.hcl": "", "other/x.hcl": "", "common/prod/p.hcl": "", "local/l.hcl": "", "local/prod/lp.hcl": "",
		"common/dev/d.hcl": "", "local/dev/ld.hcl": "", "common/test-live/t.hcl": "",
	}
	dir := configtest.Lay(t, files)
	always := []string{"ferment.hcl", "common/B.hcl", "common/a.hcl", "common/a.hcl.json", "common/b.hcl", "common/prod/p.hcl", "local/l.hcl", "local/prod/lp.hcl"}
	for profile, more := range map[string][]string{"prod": nil, "dev": {"common/dev/d.hcl", "local/dev/ld.hcl"}, "admin": nil, "test": nil, "test-live": {"common/test-live/t.hcl"}} {
		t.Run(profile, func(t *testing.T) {
			c, ds := configtest.LoadDir(t, dir, config.Options{Profile: profile})
			require.Empty(t, configtest.Types(ds))
			assert.Equal(t, append(append([]string{}, always...), more...), fileNames(c))
			assert.Equal(t, profile, c.Profile)
		})
	}
}

// HCL-005, HCL-014: later files override earlier ones, and a file that is reached
// twice is loaded at its first place.
func TestLaterWins(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"common/a.hcl": seedOf(1), "common/prod/b.hcl": seedOf(2), "local/c.hcl": seedOf(3), "local/dev/d.hcl": seedOf(4)})
	for profile, want := range map[string]int64{"prod": 3, "dev": 4} {
		c, ds := configtest.LoadDir(t, dir, config.Options{Profile: profile})
		require.Empty(t, ds)
		assert.Equal(t, want, c.Host.Seed)
	}
	dir = configtest.Lay(t, map[string]string{"common/a.hcl": seedOf(1), "common/b.hcl": seedOf(2), "local/a.hcl": "-> ../common/a.hcl"})
	c, ds := configtest.LoadDir(t, dir, config.Options{})
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, []string{"common/a.hcl", "common/b.hcl"}, fileNames(c))
	assert.Equal(t, int64(2), c.Host.Seed)
}

// HCL-013: ferment.profile is allowed in files that do not depend on the profile,
// and rejected in others.
func TestProfileOfADirectory(t *testing.T) {
	profile := "ferment {\n  profile = \"dev\"\n}\n"
	c, ds := configtest.LoadDir(t, configtest.Lay(t, map[string]string{"common/a.hcl": profile, "common/dev/b.hcl": seedOf(7)}), config.Options{})
	require.Empty(t, ds)
	assert.Equal(t, "dev", c.Profile)
	assert.Equal(t, int64(7), c.Host.Seed)

	c, ds = configtest.LoadDir(t, configtest.Lay(t, map[string]string{"ferment.hcl": "ferment {\n  profile = env(\"STAGE\")\n}\n", "common/a.env": "STAGE=test\n", "local/test/b.hcl": seedOf(8)}), config.Options{})
	require.Empty(t, ds)
	assert.Equal(t, "test", c.Profile)
	assert.Equal(t, int64(8), c.Host.Seed)

	for _, place := range []string{"local/a.hcl", "common/prod/a.hcl", "local/prod/a.hcl"} {
		_, ds := configtest.LoadDir(t, configtest.Lay(t, map[string]string{"ferment.hcl": "", place: profile}), config.Options{})
		require.Equal(t, []string{"config/include"}, configtest.Types(ds), place)
		assert.Equal(t, place+":2:3", ds[0].Range.String())
	}
	_, ds = configtest.LoadDir(t, filepath.Join(configtest.Lay(t, map[string]string{"ferment.hcl": "include \"x/*.hcl\" {}\n", "x/a.hcl": profile}), "ferment.hcl"), config.Options{})
	assert.Equal(t, []string{"config/include"}, configtest.Types(ds), "a file that is included does not decide either")
}

// HCL-012: without a name, ferment.hcl and then the directory config.
func TestFind(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"config/common/a.hcl": seedOf(5)})
	c, ds := config.Load(context.Background(), "", config.Options{Dir: dir, Env: configtest.NoEnv})
	require.Empty(t, ds)
	assert.Equal(t, int64(5), c.Host.Seed)
	assert.Equal(t, filepath.Join(dir, "config"), c.Root)
	assert.Equal(t, filepath.Join(dir, "config", "var"), c.Host.DataDir, "defaults start at the root, not at the file that comes first")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "ferment.hcl"), []byte(seedOf(6)), 0o600))
	c, ds = config.Load(context.Background(), "", config.Options{Dir: dir, Env: configtest.NoEnv})
	require.Empty(t, ds)
	assert.Equal(t, int64(6), c.Host.Seed)
	assert.Equal(t, dir, c.Root)
}

// In a directory without a configuration, the error names that of a directory above.
func TestConfigurationAbove(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"ferment.hcl": seedOf(6), "a/b/x": ""})
	hint := func(name string) string {
		_, ds := config.Load(context.Background(), name, config.Options{Dir: filepath.Join(dir, "a", "b"), Env: configtest.NoEnv})
		require.Equal(t, []string{"config/include"}, configtest.Types(ds))
		return ds[0].Hint
	}
	above := filepath.Join(dir, "ferment.hcl")
	assert.Contains(t, hint(""), above)
	for _, other := range []string{"site.hcl", filepath.Join(dir, "none", "ferment.hcl")} {
		assert.NotContains(t, hint(other), above)
	}
}

// HCL-012: a relative path, including the program, is relative to its file;
// settings do not depend on the working directory.
func TestPathsOfOverlays(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{
		"bin/chess":       "program",
		"common/10.hcl":   "plugin \"chess\" {\n  command = [\"../bin/chess\", \"../x\"]\n  files   = [\"data.txt\"]\n}\n",
		"common/data.txt": "x", "local/there/y": "",
		"local/a.hcl": "plugin \"chess\" {\n  workdir = \"there\"\n}\n",
	})
	c, ds := configtest.LoadDir(t, dir, config.Options{})
	require.Empty(t, ds)
	p := c.Plugins[0]
	assert.Equal(t, []string{filepath.Join(dir, "bin/chess"), "../x"}, p.Command)
	assert.Equal(t, []string{filepath.Join(dir, "common/data.txt")}, p.Files)
	assert.Equal(t, filepath.Join(dir, "local/there"), p.Workdir)
	t.Chdir(filepath.Join(dir, "local"))
	other, ds := config.Load(context.Background(), "..", config.Options{Dir: filepath.Join(dir, "local"), Env: configtest.NoEnv, Describer: configtest.Describer{"chess": configtest.Chess()}})
	require.Empty(t, ds)
	assert.Equal(t, c.Hash, other.Hash)
	assert.Equal(t, p.Command, other.Plugins[0].Command)
}

// HCL-002: a report names files relative to the working directory.
func TestReportsNameFilesFromHere(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"site/common/a.hcl": "ferment {\n  sed = 1\n}\n", "site/common/b.hcl": seedOf(1), "site/common/c.hcl": seedOf(2), "deep/er/x": ""})
	for from, ahead := range map[string]string{".": "site/", "site": "", "deep/er": "../../site/"} {
		c, _ := config.Load(context.Background(), filepath.Join(dir, "site"), config.Options{Dir: filepath.Join(dir, from), Env: configtest.NoEnv})
		text := c.Report(0).Text(false)
		assert.Contains(t, text, "--> "+ahead+"common/a.hcl:2:3\n")
		assert.Contains(t, text, "--> "+ahead+"common/c.hcl:2:3\n")
		assert.Contains(t, text, "see: "+ahead+"common/b.hcl:2:3 is overridden\n")
		assert.NotContains(t, text, dir)
		_, err := os.Stat(filepath.Join(dir, from, ahead+"common/a.hcl"))
		require.NoError(t, err)
	}
}

// HCL-010: each unreadable configuration file gives one error.
func TestUnreadableFiles(t *testing.T) {
	for _, row := range []struct {
		name  string
		files map[string]string
		pipe  string
		typ   string
		says  string
	}{
		{name: "dangling symbolic link", files: map[string]string{"common/a.hcl": "-> nowhere"}, typ: "config/include", says: "common/a.hcl"},
		{name: "pipe", files: map[string]string{"common/b.hcl": ""}, pipe: "common/a.hcl", typ: "config/include", says: "not a regular file"},
		{name: "pipe with variables", files: map[string]string{"common/b.hcl": ""}, pipe: "common/a.env", typ: "config/include", says: "not a regular file"},
		{name: "device", files: map[string]string{"common/a.hcl": "-> /dev/zero"}, typ: "config/include", says: "not a regular file"},
		{name: "directory with the name of a file", files: map[string]string{"common/a.hcl/x": ""}, typ: "config/include", says: "is a directory"},
		{name: "file with the name of a directory", files: map[string]string{"ferment.hcl": "", "common": ""}, typ: "config/include", says: "directory \"common\" cannot be read"},
		{name: "ring of symbolic links", files: map[string]string{"common/a.hcl": "-> b.hcl", "common/b.hcl": "-> a.hcl"}, typ: "config/include", says: "symbolic links"},
		{name: "nothing", files: map[string]string{"x/a.hcl": ""}, typ: "config/include", says: "holds no configuration"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := configtest.Lay(t, row.files)
			if row.pipe != "" {
				require.NoError(t, unix.Mkfifo(filepath.Join(dir, row.pipe), 0o600))
			}
			c, ds := configtest.LoadDir(t, dir, config.Options{})
			require.NotEmpty(t, configtest.Types(ds))
			assert.Equal(t, row.typ, configtest.Types(ds)[0])
			assert.True(t, c.Unreadable())
			assert.Nil(t, c.Generation)
			text := c.Report(0).Text(false)
			assert.Contains(t, text, row.says)
			assert.NotContains(t, text, dir)
		})
	}
}

// HCL-012: a named configuration that cannot be read gives one error with the file that exists instead, and a hint.
func TestNamedConfiguration(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{
		"ferment.hcl": "", "site.conf": "", "site.json": "{}", "noend": "", "conf/x": "", "dir.hcl/x": "", "link.hcl": "-> nowhere",
	})
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe.hcl"), 0o600))
	for name, want := range map[string]struct{ found, nearest string }{
		"missing.hcl":        {"no such file", ""},
		"fermnt.hcl":         {"no such file", "ferment.hcl"},
		"absent/ferment.hcl": {`no directory "absent"`, ""},
		"cnf/ferment.hcl":    {`no directory "cnf"`, "conf"},
		"ferment.hcl/x.hcl":  {`"ferment.hcl" is a file`, ""},
		"dir.hcl":            {"holds no configuration", ""},
		"conf":               {"holds no configuration", ""},
		"link.hcl":           {`it leads to "nowhere"`, ""},
		"pipe.hcl":           {"not a regular file", ""},
		"site.conf":          {"neither in .hcl nor in .hcl.json", ""},
		"site.json":          {"neither in .hcl nor in .hcl.json", ""},
		"noend":              {"neither in .hcl nor in .hcl.json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, ds := configtest.LoadDir(t, filepath.Join(dir, name), config.Options{})
			require.Equal(t, []string{"config/include"}, configtest.Types(ds))
			assert.True(t, c.Unreadable())
			assert.Contains(t, ds[0].Message, want.found)
			assert.Equal(t, want.nearest, ds[0].Nearest)
			assert.NotEmpty(t, ds[0].Hint, ds[0].Text())
			require.NotNil(t, ds[0].Range)
		})
	}
}

// HCL-010: limits on the total number of bytes and files.
func TestTotals(t *testing.T) {
	files := map[string]string{}
	for i := range 5 {
		files[fmt.Sprintf("common/%d.hcl", i)] = strings.Repeat("# 450 KiB of comment\n", 450<<10/21)
	}
	_, ds := configtest.LoadDir(t, configtest.Lay(t, files), config.Options{})
	require.Equal(t, []string{"config/limit"}, configtest.Types(ds))
	assert.Contains(t, ds[0].Message, "2MiB")
	assert.Equal(t, "common/4.hcl", ds[0].Range.File)

	files = map[string]string{}
	for i := range syntax.MaxFiles + 3 {
		files[fmt.Sprintf("common/%04d.hcl", i)] = ""
	}
	c, ds := configtest.LoadDir(t, configtest.Lay(t, files), config.Options{})
	require.Equal(t, []string{"config/limit"}, configtest.Types(ds))
	assert.Equal(t, "common/1000.hcl", ds[0].Range.File)
	assert.Len(t, c.Files, syntax.MaxFiles)
}

// HCL-016: included files are loaded before the including file, sorted, each once.
func TestInclude(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{
		"ferment.hcl":     "include \"extra/*\" {}\n\ninclude \"none/*.hcl\" {\n  optional = true\n}\n\ninclude \"extra/a.hcl\" {}\n\n" + seedOf(1),
		"extra/b.hcl":     "include \"deep/c.hcl\" {}\n\nferment {\n  seed      = 2\n  max_nodes = 20\n}\n",
		"extra/a.hcl":     "ferment {\n  max_nodes = 10\n  mode      = \"lazy\"\n}\n",
		"extra/notes.txt": "not read", "extra/deep/c.hcl": "include \"../a.hcl\" {}\n\nferment {\n  max_depth = 3\n}\n", "extra/z.hcl.json": `{"ferment": {"max_parallel": 2}}`,
	})
	c, ds := configtest.LoadDir(t, filepath.Join(dir, "ferment.hcl"), config.Options{})
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, []string{"extra/a.hcl", "extra/deep/c.hcl", "extra/b.hcl", "extra/z.hcl.json", "ferment.hcl"}, fileNames(c))
	assert.Equal(t, []any{filepath.Join(dir, "var"), dir, 3, 20, 2, "lazy", int64(1)},
		[]any{c.Host.DataDir, c.Host.Root, c.Host.MaxDepth, c.Host.MaxNodes, c.Host.MaxParallel, c.Host.Mode, c.Host.Seed})
	require.Len(t, ds, 1)
	assert.Equal(t, "config/overridden", ds[0].Type)
	assert.Equal(t, []string{"ferment", "max_nodes"}, ds[0].Path)
}

// HCL-016: a pattern does not match the including file.
func TestIncludeOfOwnFolder(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"ferment.hcl": "include \"*.hcl\" {}\n", "a.hcl": seedOf(1)})
	c, ds := configtest.LoadDir(t, filepath.Join(dir, "ferment.hcl"), config.Options{})
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, []string{"a.hcl", "ferment.hcl"}, fileNames(c))
	assert.Equal(t, int64(1), c.Host.Seed)
}

// HCL-016, HCL-030: invalid includes.
func TestWrongInclude(t *testing.T) {
	chain := map[string]string{"ferment.hcl": "include \"1.hcl\" {}\n"}
	for i := 1; i < 12; i++ {
		chain[fmt.Sprintf("%d.hcl", i)] = fmt.Sprintf("include \"%d.hcl\" {}\n", i+1)
	}
	chain["12.hcl"] = ""
	inc := func(pattern string) string { return fmt.Sprintf("include %q {}\n", pattern) }
	for _, row := range []struct {
		name  string
		files map[string]string
		typ   string
		at    string
		says  string
	}{
		{"no match", map[string]string{"ferment.hcl": inc("x/*.hcl")}, "config/include", "ferment.hcl:1:1", "matches no file"},
		{"no file", map[string]string{"ferment.hcl": inc("x.hcl")}, "config/include", "ferment.hcl:1:1", "matches no file"},
		{"above the root", map[string]string{"ferment.hcl": inc("../x.hcl")}, "config/include", "ferment.hcl:1:1", "out of the root"},
		{"absolute", map[string]string{"ferment.hcl": inc("/etc/x.hcl")}, "config/include", "ferment.hcl:1:1", "out of the root"},
		{"symbolic link", map[string]string{"ferment.hcl": inc("x.hcl"), "x.hcl": "-> /dev/null"}, "config/include", "ferment.hcl:1:1", "symbolic link"},
		{"symbolic link of a directory", map[string]string{"ferment.hcl": inc("dev/*.hcl"), "dev": "-> ../../.."}, "config/include", "ferment.hcl:1:1", "matches no file"},
		{"dangling symbolic link", map[string]string{"ferment.hcl": inc("x.hcl"), "x.hcl": "-> y.hcl"}, "config/include", "x.hcl", "no such file"},
		{"another kind of file", map[string]string{"ferment.hcl": inc("x.txt"), "x.txt": ""}, "config/include", "ferment.hcl:1:1", "neither"},
		{"no pattern", map[string]string{"ferment.hcl": inc("[")}, "config/syntax", "ferment.hcl:1:1", "is not a valid pattern"},
		{"empty", map[string]string{"ferment.hcl": inc("")}, "config/syntax", "ferment.hcl:1:9", "label"},
		{"itself", map[string]string{"ferment.hcl": inc("ferment.hcl")}, "config/cycle", "ferment.hcl:1:1", "ferment.hcl -> ferment.hcl"},
		{"ring", map[string]string{"ferment.hcl": inc("a.hcl"), "a.hcl": inc("b.hcl"), "b.hcl": inc("a.hcl")}, "config/cycle", "b.hcl:1:1", "a.hcl -> b.hcl -> a.hcl"},
		{"too deep", chain, "config/limit", "8.hcl:1:1", "more than 8 deep"},
		{"computed", map[string]string{"ferment.hcl": "include \"x.hcl\" {\n  optional = env(\"X\", \"\") == \"\"\n}\n"}, "config/type", "ferment.hcl:2:14", "is not a literal"},
		{"twice", map[string]string{"ferment.hcl": inc("x.hcl") + "\n" + inc("x.hcl"), "x.hcl": ""}, "config/duplicate", "ferment.hcl:3:1", "twice"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, ds := configtest.LoadDir(t, filepath.Join(configtest.Lay(t, row.files), "ferment.hcl"), config.Options{})
			require.Equal(t, []string{row.typ}, configtest.Types(ds), diag.NewReport(ds, 0, 1, 0).Text(false))
			assert.Equal(t, row.at, ds[0].Range.String())
			assert.Contains(t, ds[0].Message, row.says)
		})
	}
}
