//go:build linux

package task

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// The test binary is a disobedient worker.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "disobey" {
		os.Exit(disobey(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

func tasked(t interface{ Fatal(...any) }, tool, path, input string) *Task {
	is, _ := effects.ToolNamed(tool)
	scope, problems := effects.ParseScope(is.Effect, edn.MustRead(`{:enabled true :connections ["main"]}`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return &Task{
		Tool: is, Input: edn.MustRead(input), Scope: scope, Key: "b3:1", Strict: true,
		Connections: map[string]Connection{"main": {Driver: SQLite, Path: path}},
	}
}

type stop struct{}

func (stop) Fatal(what ...any) { panic(fmt.Sprint(what...)) }

// disobey holds a call of a tool, then ignores what it is for and tries
// everything else.
func disobey(tool, path string) int {
	sql := map[string]string{"db/query": "SELECT x FROM t ORDER BY x", "db/exec": "INSERT INTO t SELECT hex(randomblob(50)) FROM t"}[tool]
	parts, failed := tasked(stop{}, tool, path, fmt.Sprintf(`{:connection "main" :sql %q}`, sql)).Parts()
	if failed != nil {
		fmt.Println("its own call is not permitted:", failed)
		return 1
	}
	held, err := Hold(parts.Rules)
	if err != nil {
		fmt.Println("its own call cannot be held:", err)
		return 1
	}
	say := func(what string, err error) {
		if err == nil {
			fmt.Println(what, "worked")
		}
	}
	_, err = os.ReadFile(path)
	say("opening the database again", err)
	say("writing the database", os.WriteFile(path, nil, 0o600))
	say("removing the database", os.Remove(path))
	say("writing beside the database", os.WriteFile(path+".other", nil, 0o600))
	_, err = os.ReadDir(filepath.Dir(path))
	say("listing the directory", err)
	_, err = os.ReadFile(filepath.Join(filepath.Dir(path), "key"))
	say("reading beside the database", err)
	say("running a program", exec.Command("/bin/true").Run())
	conn, err := net.DialTimeout("tcp", os.Getenv("LISTENER"), time.Second)
	say("connecting", err)
	if err == nil {
		_ = conn.Close()
	}
	for fd := range 64 {
		if to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && fd > 2 {
			fmt.Println("open:", to)
		}
	}
	_, failed = held.Do(context.Background(), parts.Call)
	if failed != nil {
		fmt.Println("its own call failed:", failed)
	}
	held.Close()
	fmt.Println("done")
	return 0
}

// FX-003, FX-004: when the statements are read, the kernel holds the worker to
// the files that are open: those of the database, and no other. The call itself
// works, also if it has more to sort or to write than fits its cache.
func TestKernelHoldsAWorkerToItsDatabase(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, mode := range []string{"delete", "wal"} {
		for _, tool := range []string{"db/query", "db/exec"} {
			dir := t.TempDir()
			path := filepath.Join(dir, "main.db")
			prepare(t, path, mode)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("secret"), 0o600))
			cmd := exec.Command(self, "disobey", tool, path)
			cmd.Env = append(os.Environ(), "LISTENER="+l.Addr().String())
			text, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", text)
			other := regexp.MustCompile(`(?m)^open: (anon_inode:\[(eventpoll|eventfd)\]|/sys/fs/cgroup/.*|/dev/null|` + regexp.QuoteMeta(path) + `.*)\n`)
			assert.Equal(t, "done", strings.TrimSpace(other.ReplaceAllString(string(text), "")), "%s %s: %s", mode, tool, text)
		}
	}
}

// FX-003: a call that does not match the rules is rejected, and so are rules
// that are none.
func TestCallsThatDoNotMatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.db")
	prepare(t, path, "delete")
	task := tasked(t, "db/query", path, `{:connection "main" :sql "SELECT 1"}`)
	parts, failed := task.Parts()
	require.Nil(t, failed)
	is, _, _, err := taskFrom(parts.Rules)
	require.NoError(t, err)
	is.Scope.Connections.V = append(is.Scope.Connections.V, "other")
	failed = is.learn(edn.MustRead(`{:input {:connection "other" :sql "SELECT 1"}}`))
	require.NotNil(t, failed)
	assert.Equal(t, "runtime/internal", failed.Type)
	for _, rules := range []string{`{}`, `{:tool :db/query :scope {:roots 1}}`, `{:tool :db/query :scope {:enabled true}}`} {
		_, err := Hold(edn.MustRead(rules))
		var typed *contract.Error
		require.Error(t, err, rules)
		assert.NotErrorAs(t, err, &typed, rules)
	}
	_, err = Hold(parts.Rules.AssocKey("driver", edn.Text("oracle")))
	assert.Equal(t, "effects/runtime-missing", contract.AsError(err).Type)
}
