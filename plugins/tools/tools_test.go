//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/plugins/tools/internal/task"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// The test binary is the plugin, its worker, its reaper and its trampoline,
// like the shipped one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == worker.Arg {
		os.Exit(worker.Main(os.Stdin, os.Stdout, task.Hold))
	}
	sdktest.Main(m, shipped())
}

func shipped() sdk.Plugin {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return newPlugin(self)
}

// call makes a call under the scope of one effect.
func call(t *testing.T, p *sdktest.Plugin, tool, scope, input string) (edn.Value, *contract.Error) {
	t.Helper()
	is, ok := effects.ToolNamed(tool)
	require.True(t, ok)
	var scopes edn.Value
	if scope != "" {
		scopes = edn.MustMap(edn.K(is.Effect), edn.MustRead(scope))
	}
	response, err := p.Do(t.Context(), sdktest.Call{Capability: is.ID, Input: edn.MustRead(input), Context: wire.CallContext{Effects: []string{is.Effect}, Scope: scopes, EffectKey: "b3:0"}})
	if err != nil {
		return edn.Nil(), contract.AsError(err)
	}
	return response.Key("result").Key("out"), nil
}

func reason(err *contract.Error) string {
	if err == nil {
		return ""
	}
	r, _ := err.Details.Key("reason").AsKeyword()
	return err.Type + " " + r
}

// FX-010: files are written and read by confined workers.
func TestFilesThroughWorkers(t *testing.T) {
	p := sdktest.Serve(t, shipped(), sdktest.WithConfig(edn.MustRead(`{:enforcement :strict}`)))
	root := t.TempDir()
	scope := `{:enabled true :roots ["` + root + `"] :allow ["out"] :max-bytes 1000 :mkdirs true :append false}`
	out, err := call(t, p, "fs/write", scope, `{:path "out/deep/a.md" :content "hello" :mkdirs? true}`)
	require.Nil(t, err)
	assert.Equal(t, `{:append? false :bytes 5 :effect :fs/write :hash/after "b3:ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f" :path "out/deep/a.md" :root "`+root+`" :tool/id :fs/write-file :wrote? true}`, out.String())
	for _, mode := range []os.FileMode{0o600, 0o666, 0o755} { // ISO-001: a worker may not change modes, and need not
		require.NoError(t, os.Chmod(root+"/out/deep/a.md", mode))
		_, err = call(t, p, "fs/write", scope, `{:path "out/deep/a.md" :content "hello"}`)
		require.Nil(t, err)
		info, serr := os.Stat(root + "/out/deep/a.md")
		require.NoError(t, serr)
		assert.Equal(t, mode, info.Mode())
	}
	scope = `{:enabled true :roots ["` + root + `"] :allow ["out"] :max-bytes 1000}`
	out, err = call(t, p, "fs/read", scope, `{:path "out/deep/a.md"}`)
	require.Nil(t, err)
	assert.Equal(t, `"hello"`, out.Key("content").String())
	out, err = call(t, p, "fs/list", scope, `{:path "out"}`)
	require.Nil(t, err)
	assert.Equal(t, `[{:name "deep" :type :directory}]`, out.Key("entries").String())
	_, err = call(t, p, "fs/read", "", `{:path "out/deep/a.md"}`)
	assert.Equal(t, "effects/scope-denied disabled", reason(err), "a call without a scope is refused")
	_, err = call(t, p, "fs/read", scope, `{:path "other"}`)
	assert.Equal(t, "effects/scope-denied path-not-allowed", reason(err))
}

// FX-001, process rules: each row is one refusal, or the output of the program.
func TestPrograms(t *testing.T) {
	p := sdktest.Serve(t, shipped(), sdktest.WithConfig(edn.MustRead(`{:enforcement :strict}`)))
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "key"), []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte("\x00no program"), 0o700))
	scope := `{:enabled true :allow-commands ["/bin/sh" "/bin/cat" "/bin/ls" "/bin/no-such-program" "` + broken + `"] :allow-cwd ["` + dir + `"] :env-pass ["GREETING"] :timeout-ms 20000 :max-timeout-ms 30000 :max-output 1000 :processes 8 :memory 268435456}`
	for _, row := range []struct{ input, want string }{
		{`{:command ["/bin/sh" "-c" "echo hi; echo no >&2; exit 3"]}`, `3 "hi\n" "no\n" false`},
		{`{:command ["cat"] :stdin "from in"}`, `0 "from in" "" false`},
		{`{:command ["sh" "-c" "echo $GREETING$HOME"] :env {"GREETING" "hello"}}`, `0 "hello\n" "" false`},
		{`{:command ["sh" "-c" "echo x > made && cat made"]}`, `0 "x\n" "" false`},
		{`{:command ["sh" "-c" "echo 1 yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; while :; do :; done"] :timeout-ms 300}`, "timeout/hard "},
		{`{:command ["sh" "-c" "i=0; while [ $i -lt 500 ]; do echo yyy; i=$((i+1)); done"]}`, `0 "` + strings.Repeat(`yyy\n`, 250) + `" "" true`},
		{`{:command ["/bin/ls"] :cwd "` + dir + `/out"}`, "effects/scope-denied cwd-not-allowed"},
		{`{:command ["/bin/ls"] :cwd "` + dir + `/none"}`, "effects/scope-denied cwd-not-allowed"},
		{`{:command ["sh" "-c" "exit 4"] :fail-on-nonzero? true}`, "effects/process-failed "},
		{`{:command ["/bin/no-such-program"]}`, "effects/runtime-missing "},
		{`{:command ["` + broken + `"]}`, "effects/process-failed "},
	} {
		out, err := call(t, p, "process/run", scope, row.input)
		switch {
		case err != nil:
			assert.Equal(t, row.want, reason(err), "%s: %v", row.input, err)
		default:
			assert.Equal(t, row.want, out.Key("exit").String()+" "+out.Key("stdout").String()+" "+out.Key("stderr").String()+" "+out.Key("truncated?").String(), row.input)
		}
	}
	out, err := call(t, p, "process/run", scope, `{:command ["sh" "-c" "cat `+outside+`/key; cat /etc/shadow; ls /root; echo x > `+outside+`/new; /bin/cp key b"]}`)
	require.Nil(t, err)
	assert.NotContains(t, out.Key("stdout").String(), "secret", "the kernel holds a program to its directory")
	entries, rerr := os.ReadDir(outside)
	require.NoError(t, rerr)
	assert.Len(t, entries, 1)
	assert.Contains(t, out.Key("stderr").String(), "ermission denied")
}

// Excess output is cut, not stored; a program that keeps running gets SIGTERM,
// then is killed with its children.
func TestProgramsThatMisbehave(t *testing.T) {
	p := sdktest.Serve(t, shipped())
	dir := t.TempDir()
	scope := `{:enabled true :allow-commands ["/bin/sh" "/bin/sleep"] :allow-cwd ["` + dir + `"] :env-pass [] :timeout-ms 20000 :max-output 1000 :processes 12}`
	out, err := call(t, p, "process/run", scope, `{:command ["sh" "-c" "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done"]}`)
	require.Nil(t, err)
	text, _ := out.Key("stdout").AsString()
	assert.Len(t, text, 1000)
	assert.Equal(t, "true", out.Key("truncated?").String())

	begin := time.Now()
	_, err = call(t, p, "process/run", scope, `{:command ["sh" "-c" "trap '' TERM; echo $$ > pid; sleep 300 & echo $! > child; while :; do sleep 1; done"] :timeout-ms 500}`)
	require.NotNil(t, err)
	assert.Equal(t, "timeout/hard", err.Type)
	assert.Equal(t, ":unknown", err.Details.Key("effect/state").String())
	assert.Greater(t, time.Since(begin), 2*time.Second, "it was asked first")
	for _, name := range []string{"pid", "child"} {
		assert.Eventually(t, func() bool { return !alive(t, filepath.Join(dir, name)) }, 20*time.Second, 20*time.Millisecond, name)
	}

	// FX-001: no child can escape into its own session, where it would be
	// neither counted nor killed.
	away := `{:enabled true :allow-commands ["/bin/sh" "/usr/bin/setsid" "/bin/sleep"] :allow-cwd ["` + dir + `"] :env-pass []}`
	out, err = call(t, p, "process/run", away, `{:command ["sh" "-c" "/usr/bin/setsid /bin/sh -c 'echo $$ > away; exec /bin/sleep 300' > /dev/null 2> why & wait; cat why; /bin/sleep 300 > /dev/null 2>&1 & echo $! > stays"]}`)
	require.Nil(t, err)
	assert.NoFileExists(t, filepath.Join(dir, "away"), out.String())
	assert.FileExists(t, filepath.Join(dir, "stays"))
	assert.Eventually(t, func() bool { return !alive(t, filepath.Join(dir, "stays")) }, 20*time.Second, 20*time.Millisecond)

	_, err = call(t, p, "process/run", scope, `{:command ["sh" "-c" "i=0; while [ $i -lt 40 ]; do sleep 30 & i=$((i+1)); done; wait"]}`)
	require.NotNil(t, err, "more processes than allowed")
	assert.Contains(t, []string{"effects/process-failed processes", "effects/outcome-unknown "}, reason(err))
}

func alive(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(state), ") Z ")
}

// A canceled call leaves no worker behind, and the file unchanged.
func TestCanceledCall(t *testing.T) {
	p := sdktest.Serve(t, shipped())
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	scope := edn.MustMap(edn.K("process/run"), edn.MustRead(`{:enabled true :allow-commands ["/bin/sleep"] :allow-cwd ["`+dir+`"] :env-pass []}`))
	_, err := p.Do(ctx, sdktest.Call{Capability: "process/run", Input: edn.MustRead(`{:command ["sleep" "300"]}`), Context: wire.CallContext{Scope: scope}})
	require.Error(t, err)
}
