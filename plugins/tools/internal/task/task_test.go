//go:build linux

package task

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// The test binary is the worker, and a disobedient worker.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == worker.Arg:
		os.Exit(worker.Main(os.Stdin, os.Stdout, Hold))
	case len(os.Args) == 4 && os.Args[1] == "disobey":
		os.Exit(disobey(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

// disobey confines itself for the call, then ignores the scope and tries
// everything else.
func disobey(root, outside string) int {
	tool, _ := effects.ToolNamed("fs/write-file")
	scope, _ := effects.ParseScope(tool.Effect, edn.MustRead(`{:enabled true :roots ["`+root+`"] :allow ["in"]}`))
	t := Task{Tool: tool, Scope: scope, Strict: true, Input: edn.MustRead(`{:path "in/a" :content "fine"}`)}
	if err := t.permit(); err != nil {
		fmt.Println("its own call is not permitted:", err)
		return 1
	}
	held, failed := t.hold()
	if failed == nil {
		_, failed = t.do(context.Background(), held)
	}
	if err := failed; err != nil {
		fmt.Println("its own call failed:", err)
		return 1
	}
	say := func(what string, err error) {
		if err == nil {
			fmt.Println(what, "worked")
		}
	}
	_, err := os.ReadFile(filepath.Join(outside, "key"))
	say("reading outside", err)
	_, err = os.ReadFile(filepath.Join(root, "other"))
	say("reading beside the prefix", err)
	say("writing outside", os.WriteFile(filepath.Join(outside, "new"), nil, 0o600))
	say("writing beside the prefix", os.WriteFile(filepath.Join(root, "new"), nil, 0o600))
	say("renaming out", os.Rename(filepath.Join(root, "in", "a"), filepath.Join(root, "a")))
	say("removing outside", os.Remove(filepath.Join(outside, "key")))
	say("running a program", exec.Command("/bin/true").Run())
	conn, err := net.DialTimeout("tcp", os.Getenv("LISTENER"), time.Second)
	say("connecting", err)
	if err == nil {
		_ = conn.Close()
	}
	_, err = net.ListenPacket("udp", "127.0.0.1:0")
	say("opening a datagram socket", err)
	fds, err := os.ReadDir("/proc/self/fd")
	say("listing its descriptors", err)
	_ = fds
	fmt.Println("done")
	return 0
}

// FX-003: the kernel stops a worker that ignores its scope.
func TestKernelHoldsAWorkerThatDisobeys(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "in"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "other"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "key"), nil, 0o644))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "disobey", root, outside)
	cmd.Env = append(os.Environ(), "LISTENER="+l.Addr().String())
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	assert.Equal(t, "done", strings.TrimSpace(strings.ReplaceAll(string(text), "listing its descriptors worked\n", "")), "%s", text)
	assert.FileExists(t, filepath.Join(root, "in", "a"))
}

// A worker that is killed at any moment of a write leaves the old file or the
// new one, never a part; the next call with its key cleans up after it.
func TestKillInEachStepOfAWrite(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	root := t.TempDir()
	tool, _ := effects.ToolNamed("fs/write-file")
	scope, problems := effects.ParseScope(tool.Effect, edn.MustRead(`{:enabled true :roots ["`+root+`"] :allow ["."]}`))
	require.Empty(t, problems)
	crew := worker.NewCrew(self, worker.Idle)
	defer crew.Close()
	write := func(ctx context.Context, content string) error {
		in := edn.MustMap(edn.K("path"), edn.Text("f"), edn.K("content"), edn.Text(content))
		parts, failed := (&Task{Tool: tool, Scope: scope, Strict: true, Input: in, Key: "b3:1"}).Parts()
		require.Nil(t, failed)
		_, err := crew.Run(ctx, parts)
		return err
	}
	long := func(c string) string { return strings.Repeat(c, 1<<20) }
	require.NoError(t, write(t.Context(), long("0")))
	last, killed := "0", 0
	for i := range 40 {
		next := string(rune('a' + i%26))
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*2*time.Millisecond)
		err := write(ctx, long(next))
		cancel()
		text, rerr := os.ReadFile(filepath.Join(root, "f"))
		require.NoError(t, rerr)
		switch got := string(text); {
		case got == long(next):
			last = next
		case got == long(last):
			require.Error(t, err, "a write that was answered is there")
		default:
			t.Fatalf("round %d: the file has %d bytes of neither", i, len(got))
		}
		if err != nil {
			killed++
			var e *contract.Error
			require.True(t, errors.As(err, &e))
			assert.Equal(t, ":unknown", e.Details.Key("effect/state").String())
		}
	}
	assert.NotZero(t, killed)
	require.NoError(t, write(t.Context(), "end"))
	left, err := filepath.Glob(filepath.Join(root, ".ferment-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// FX-002: a worker validates its input again and rejects a mismatch.
func TestInputIsLookedAtAgain(t *testing.T) {
	tool, ok := effects.ToolNamed("net/http-request")
	require.True(t, ok)
	scope, problems := effects.ParseScope(tool.Effect, edn.MustRead(`{:enabled true :hosts ["a.example.com"] :methods #{:GET} :schemes #{:https} :ports [443]}`))
	require.Empty(t, problems)
	task := Task{Tool: tool, Scope: scope, Input: edn.MustRead(`{:url 7}`)}
	_, failed := task.do(t.Context(), held{})
	require.NotNil(t, failed)
	assert.Equal(t, "effects/invalid-input", failed.Type, "%v", failed)
}
