package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// The test binary is the plugin and its reaper, like the shipped one.
func TestMain(m *testing.M) {
	sdktest.Main(m, newPlugin())
}

// suiteDir returns a module of the suite package's test data.
func suiteDir(t testing.TB, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("internal", "suite", "testdata", name))
	require.NoError(t, err)
	return dir
}

// fix fixes the failing test of the module mixed.
const fix = `diff --git a/sum_test.go b/sum_test.go
--- a/sum_test.go
+++ b/sum_test.go
@@ -15,6 +15,6 @@ func TestSum(t *testing.T) {
 func TestWrong(t *testing.T) {
 	t.Log("the words before")
-	if Sum(1, 1) != 3 {
+	if Sum(1, 1) != 2 {
 		t.Error("one and one is not three")
 	}
 }
`

// call calls a capability and asserts that the answer fits its schema.
func call(t testing.TB, p *sdktest.Plugin, capability, intent, input string) edn.Value {
	t.Helper()
	return callWith(t, p, sdktest.Call{Capability: capability, Intent: intent, Input: edn.MustRead(input)})
}

func callWith(t testing.TB, p *sdktest.Plugin, c sdktest.Call) edn.Value {
	t.Helper()
	response, err := p.Do(context.Background(), c)
	require.NoError(t, err)
	out := response.Key("result").Key("out")
	s, ok := registry().Lookup("res/" + map[string]string{
		"code/test": "code.test", "code/apply-patch": "code.apply-patch", "code/patch-verdict": "code.patch-verdict",
	}[c.Intent])
	require.True(t, ok)
	require.Empty(t, schema.Findings(s.Validate(out)).String()[1:len(schema.Findings(s.Validate(out)).String())-1], out.String())
	return out
}

func input(dir string, rest string) string {
	return `{:dir ` + edn.Text(dir).String() + ` ` + rest + `}`
}

// plugins.md 7.0, :code/test.
func TestCodeTest(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	mixed := suiteDir(t, "mixed")

	out := call(t, p, "code/testrunner", "code/test", input(mixed, ""))
	assert.Equal(t, "[false 4 1 1 false false 1]", edn.Vector(out.Key("tests/pass?"), out.Key("passed"), out.Key("failed"), out.Key("skipped"),
		out.Key("build-failed?"), out.Key("timed-out?"), out.Key("exit")).String())
	assert.Equal(t, `["go" "test" "-json" "./..."]`, out.Key("command").String())
	found := false
	for test := range out.Key("tests").Elems() {
		if name, _ := test.Key("name").AsString(); name == "TestWrong" {
			found = true
			assert.Equal(t, "example.test/mixed :fail", mustText(test.Key("package"))+" "+test.Key("status").String())
			assert.Contains(t, mustText(test.Key("output")), "one and one")
		}
	}
	assert.True(t, found)

	out = call(t, p, "code/testrunner", "code/test", input(mixed, `:command ["go" "test" "-json" "./..."] :packages ["./sub/"] :format :go-json :timeout-ms 60000 :memory "2GiB"`))
	assert.Equal(t, "true", out.Key("tests/pass?").String(), out.String())
	assert.Equal(t, "1", out.Key("passed").String())

	out = call(t, p, "code/testrunner", "code/test", input(mixed, `:packages ["./sub"] :format :exit-code :command ["go" "vet"]`))
	assert.Equal(t, "true", out.Key("tests/pass?").String(), out.String())
	assert.Equal(t, "go vet ./sub", mustText(mustAt(out, "tests", 0).Key("name")))

	out = call(t, p, "code/testrunner", "code/test", input(mixed, `:command ["sh" "-c" "sleep 60"] :timeout-ms 300`))
	assert.Equal(t, "[false true]", edn.Vector(out.Key("tests/pass?"), out.Key("timed-out?")).String())

	out = call(t, p, "code/testrunner", "code/test", input(suiteDir(t, "empty"), ""))
	assert.Equal(t, `[false "no test ran"]`, edn.Vector(out.Key("tests/pass?"), out.Key("reason")).String())
}

func mustText(v edn.Value) string { s, _ := v.AsString(); return s }

func mustAt(v edn.Value, key string, i int) edn.Value { e, _ := v.Key(key).Nth(i); return e }

// A suite that is cut by the deadline of its call is a failed result, not an
// error.
func TestDeadlineOfTheCall(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	c := sdktest.Call{Capability: "code/testrunner", Intent: "code/test", Input: edn.MustRead(input(suiteDir(t, "green"), `:command ["sleep" "60"]`))}
	c.Context = wire.CallContext{Deadline: time.Now().Add(2 * time.Second)}
	out := callWith(t, p, c)
	assert.Equal(t, "[false true]", edn.Vector(out.Key("tests/pass?"), out.Key("timed-out?")).String())

	c.Context = wire.CallContext{Deadline: time.Now().Add(50 * time.Millisecond)}
	_, err := p.Do(context.Background(), c)
	assert.ErrorIs(t, err, contract.OfType("timeout/hard"), "a call without time is no verdict")
}

// GATE-009: as a check, the capability gets the request's input with the judged
// answer; the tests run on the patched tree, not on the original.
func TestPatchedSuite(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	before := treeOf(t, suiteDir(t, "mixed"))
	merged := input(suiteDir(t, "mixed"), `:task "make it pass" :lang :go :patch `+edn.Text(fix).String()+` :tests [] :text "done" :check/request {} :check/result {}`)
	out := call(t, p, "code/testrunner", "code/test", merged)
	assert.Equal(t, "[true true 5 0]", edn.Vector(out.Key("tests/pass?"), out.Key("patch/applies?"), out.Key("passed"), out.Key("failed")).String(), out.String())
	assert.False(t, out.HasKey("applies?"), "a check reads :applies? before :tests/pass?")
	assert.Equal(t, before, treeOf(t, suiteDir(t, "mixed")), "the directory of the request is never written to")
	assert.Empty(t, scratchOf(t, p), "nothing is left of a test run")

	out = call(t, p, "code/testrunner", "code/test", input(suiteDir(t, "green"), `:patch `+edn.Text(fix).String()))
	assert.Equal(t, "[false false]", edn.Vector(out.Key("tests/pass?"), out.Key("patch/applies?")).String())
	assert.Contains(t, mustText(out.Key("reason")), "sum_test.go: the file does not exist")
}

// plugins.md 7.0, :code/apply-patch: the copy exists until the run ends.
func TestApplyPatch(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	out := callWith(t, p, sdktest.Call{
		Capability: "code/patcher", Intent: "code/apply-patch", Input: edn.MustRead(input(suiteDir(t, "mixed"), ":patch "+edn.Text(fix).String())),
		Context: wire.CallContext{Run: "r-1"},
	})
	file, _ := out.Key("files").Nth(0)
	content := mustText(file.Key("content"))
	assert.Equal(t, `[true {:added 1 :path "sum_test.go" :removed 1 :status :modified}]`, edn.Vector(out.Key("applies?"), file.Dissoc(edn.K("content"))).String())
	dir := mustText(out.Key("dir"))
	text, err := os.ReadFile(filepath.Join(dir, "sum_test.go"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "Sum(1, 1) != 2")
	assert.Equal(t, string(text), content, "the answer holds what outlives the copy")

	require.NoError(t, p.Client().EndRun(context.Background(), "r-1"))
	require.Eventually(t, func() bool { _, err := os.Stat(dir); return errors.Is(err, os.ErrNotExist) }, 30*time.Second, 10*time.Millisecond)

	out = call(t, p, "code/patcher", "code/apply-patch", input(suiteDir(t, "mixed"), `:patch "--- a/sum.go\n+++ b/sum.go\n@@ -1 +1 @@\n-package other\n+package more\n"`))
	assert.Equal(t, `{:applies? false :file "sum.go" :hunk 1 :reason "line 1 is \"// Package mixed has tests that pass, fail and are skipped.\\n\", the patch expects \"package other\\n\""}`, out.String())
	assert.Empty(t, scratchOf(t, p))
}

// plugins.md 7.0, :code/patch-verdict.
func TestPatchVerdict(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	verdict := func(dir, patch string) edn.Value {
		return call(t, p, "code/testrunner", "code/patch-verdict", input(dir, ":patch "+edn.Text(patch).String()))
	}
	out := verdict(suiteDir(t, "mixed"), fix)
	assert.Equal(t, "[true true true 5]", edn.Vector(out.Key("accepted?"), out.Key("applies?"), out.Key("tests/pass?"), out.Key("passed")).String())
	assert.DirExists(t, mustText(out.Key("dir")))

	breaking := "--- a/sum.go\n+++ b/sum.go\n@@ -5 +5 @@\n-func Sum(a, b int) int { return a + b }\n+func Sum(a, b int) int { return a - b }\n"
	out = verdict(suiteDir(t, "mixed"), breaking)
	assert.Equal(t, "[false true false]", edn.Vector(out.Key("accepted?"), out.Key("applies?"), out.Key("tests/pass?")).String())
	assert.Contains(t, mustText(out.Key("reason")), "failed")

	out = verdict(suiteDir(t, "green"), fix)
	assert.Equal(t, `[false false false "the file does not exist" "sum_test.go"]`,
		edn.Vector(out.Key("accepted?"), out.Key("applies?"), out.Key("tests/pass?"), out.Key("reason"), out.Key("file")).String())
}

// Each row is one typed error that names the field.
func TestMalformedInput(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	green, bare := suiteDir(t, "green"), t.TempDir()
	file := filepath.Join(bare, "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	with := func(rest string) string { return input(green, rest) }
	for _, c := range []struct{ intent, input, field string }{
		{"code/test", `{}`, "dir"},
		{"code/test", `{:dir ""}`, "dir"},
		{"code/test", `{:dir 7}`, "dir"},
		{"code/test", `{:dir "relative/dir"}`, "dir"},
		{"code/test", `{:dir "/does/not/exist"}`, "dir"},
		{"code/test", input(file, ""), "dir"},
		{"code/test", `{:dir "/a\u0000b"}`, "dir"},
		{"code/test", input(bare, ""), "command"},
		{"code/test", with(`:command []`), "command"},
		{"code/test", with(`:command "go test"`), "command"},
		{"code/test", with(`:command ["go" 7]`), "command"},
		{"code/test", with(`:command [""]`), "command"},
		{"code/test", with(`:command ["no-such-program"]`), "command"},
		{"code/test", with(`:command ["./green_test.go"]`), "command"},
		{"code/test", with(`:command ["go" "a\u0000b"]`), "command"},
		{"code/test", with(`:format :exit-code`), "command"},
		{"code/test", with(`:format :junit`), "command"},
		{"code/test", with(`:format :tap`), "command"},
		{"code/test", with(`:format :xml`), "format"},
		{"code/test", with(`:format "go-json"`), "format"},
		{"code/test", with(`:packages "./..."`), "packages"},
		{"code/test", with(`:packages ["-exec=/bin/sh"]`), "packages"},
		{"code/test", with(`:packages [" "]`), "packages"},
		{"code/test", with(`:timeout-ms 0`), "timeout-ms"},
		{"code/test", with(`:timeout-ms 3600001`), "timeout-ms"},
		{"code/test", with(`:timeout-ms 1.5`), "timeout-ms"},
		{"code/test", with(`:memory "lots"`), "memory"},
		{"code/test", with(`:memory "1KiB"`), "memory"},
		{"code/test", with(`:memory -1`), "memory"},
		{"code/test", with(`:memory "99999999999GiB"`), "memory"},
		{"code/test", with(`:patch ""`), "patch"},
		{"code/test", with(`:patch {:text "x"}`), "patch"},
		{"code/test", with(`:strip -1`), "strip"},
		{"code/test", with(`:strip "1"`), "strip"},
		{"code/apply-patch", with(``), "patch"},
		{"code/apply-patch", with(`:patch "  "`), "patch"},
		{"code/apply-patch", with(`:patch 7`), "patch"},
		{"code/apply-patch", `{:patch "x"}`, "dir"},
		{"code/apply-patch", `{:dir "relative" :patch "x"}`, "dir"},
		{"code/apply-patch", with(`:patch "x" :strip 11`), "strip"},
		{"code/patch-verdict", with(``), "patch"},
		{"code/patch-verdict", `{:patch "x"}`, "dir"},
		{"code/patch-verdict", with(`:patch "x" :format :xml`), "format"},
	} {
		capability := "code/testrunner"
		if c.intent == "code/apply-patch" {
			capability = "code/patcher"
		}
		_, err := p.Do(context.Background(), sdktest.Call{Capability: capability, Intent: c.intent, Input: edn.MustRead(c.input)})
		e := contract.AsError(err)
		if assert.NotNil(t, e, c.input) {
			assert.Equal(t, "input/invalid", e.Type, "%s: %v", c.input, e)
			assert.Contains(t, e.Message, c.field, c.input)
			assert.Equal(t, "[:"+c.field, e.Details.Key("path").String()[:len(c.field)+2], "%s: %s", c.input, e.Details)
			if c.field == "format" {
				assert.Contains(t, e.Hint, ":go-json, :junit, :tap, :exit-code")
			}
		}
	}
	assert.Empty(t, scratchOf(t, p))
}

// An invalid patch is an answer about the patch, not an error.
func TestMalformedPatch(t *testing.T) {
	p := sdktest.Serve(t, newPlugin())
	for patch, reason := range map[string]string{
		"I would change line 3.":                          "names no file",
		"--- a/x\n+++ b/x\n":                              "no hunk",
		"--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+a\n":  "leaves the tree",
		"--- a/go.mod\n+++ b/go.mod\n@@ -9 +9 @@\n-a\n+b": "fewer lines",
	} {
		out := call(t, p, "code/patcher", "code/apply-patch", input(suiteDir(t, "green"), ":patch "+edn.Text(patch).String()))
		assert.Equal(t, "false", out.Key("applies?").String())
		assert.Contains(t, mustText(out.Key("reason")), reason)
	}
}

func TestTreeTooLarge(t *testing.T) {
	p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(map[string]any{"max-files": 1}))
	_, err := p.Invoke("code/patcher", edn.MustRead(input(suiteDir(t, "mixed"), ":patch "+edn.Text(fix).String())))
	e := contract.AsError(err)
	require.NotNil(t, e)
	assert.Equal(t, "input/invalid", e.Type)
	assert.Contains(t, e.Message, "dir: ")
	assert.Contains(t, e.Message, "more than 1 files")
}

// The configuration is applied to the tests.
func TestConfiguration(t *testing.T) {
	t.Setenv("TESTRUNNER_PASSED", "yes")
	t.Setenv("TESTRUNNER_HIDDEN", "no")
	p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(edn.MustRead(`{:timeout 300 :env {"SET" "here"} :pass-env ["TESTRUNNER_PASSED"]}`)))
	out := call(t, p, "code/testrunner", "code/test", input(suiteDir(t, "green"), `:command ["sh" "-c" "echo $SET $TESTRUNNER_PASSED $TESTRUNNER_HIDDEN; sleep 60"]`))
	assert.Equal(t, "true", out.Key("timed-out?").String())
	assert.Equal(t, "here yes\n", mustText(out.Key("output")))
}

func TestMissingGoIsTheHostsFault(t *testing.T) {
	p := sdktest.Serve(t, newPlugin(), sdktest.WithConfig(edn.MustRead(`{:env {"PATH" "/nonexistent"}}`)))
	_, err := p.Do(context.Background(), sdktest.Call{Capability: "code/testrunner", Intent: "code/test", Input: edn.MustRead(input(suiteDir(t, "green"), ""))})
	assert.ErrorIs(t, err, contract.OfType("effects/runtime-missing"))
}

func TestSettingsAreChecked(t *testing.T) {
	err := checkSettings(settings{Env: map[string]string{"A=B": "x"}, PassEnv: []string{"", "FINE"}})
	assert.ErrorContains(t, err, "not the name of a variable")
	assert.NoError(t, checkSettings(defaults))
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{`"2GiB"`: 2 << 30, `"512 MiB"`: 512 << 20, `"1GB"`: 1e9, `"1024B"`: 1024, `"77"`: 77, "99": 99} {
		got, ok := sizeOf(edn.MustRead(text))
		assert.True(t, ok, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{`"GiB"`, `"-1GiB"`, `"1.5GiB"`, `""`, `:a`, `"99999999999999999999"`} {
		_, ok := sizeOf(edn.MustRead(text))
		assert.False(t, ok, text)
	}
}

// RUN-008: the schema marks the directory, so that the host resolves it.
func TestDirIsMarkedAsPath(t *testing.T) {
	r := registry()
	for _, name := range []string{"req/code.test", "req/code.apply-patch", "req/code.patch-verdict"} {
		s, ok := r.Lookup(name)
		require.True(t, ok)
		got := s.Replace(edn.MustRead(`{:dir "here" :patch "p"}`), schema.IsPath, func([]edn.Value, edn.Value) edn.Value { return edn.Text("/there") })
		assert.Equal(t, `{:dir "/there" :patch "p"}`, got.String())
	}
}

func treeOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[path] = string(text)
		return err
	}))
	return out
}

// scratchOf lists the remaining entries in the scratch space of a plugin.
func scratchOf(t testing.TB, p *sdktest.Plugin) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(p.Root(), "scratch", "run-*", "t*"))
	require.NoError(t, err)
	return left
}
