//go:build linux

package confine

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary is the trampoline and every program that the tests confine.
const roleFlag = "role:"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := strings.CutPrefix(os.Args[1], roleFlag); ok {
			os.Exit(play(role, os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// play makes one attempt and prints the result: "done", or the error. The role
// "apply" first restricts the process itself.
func play(role string, args []string) int {
	if role == "apply" {
		var p Policy
		if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
			fmt.Println("bad policy:", err)
			return 99
		}
		// Other threads must be restricted too, so create some.
		threads(8)
		if err := Apply(p); err != nil {
			fmt.Println("apply:", err)
			return 98
		}
		role, args = args[1], args[2:]
	}
	attempt, ok := attempts[role]
	if !ok {
		fmt.Println("unknown role", role)
		return 97
	}
	if err := attempt(args); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("done")
	return 0
}

// outcome is the result of a confined process.
type outcome struct {
	out   string
	code  int
	start error // of the trampoline
}

// confined runs a program through the trampoline.
func confined(t *testing.T, s Start) outcome {
	t.Helper()
	p, err := s.Prepare()
	if err != nil {
		return outcome{start: err}
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	proc, err := os.StartProcess(p.Path, p.Args, &os.ProcAttr{Env: []string{}, Files: append([]*os.File{nil, w, w}, p.Files...)})
	require.NoError(t, err)
	p.Close()
	_ = w.Close()
	o := outcome{start: p.Outcome(20 * time.Second)}
	p.Abandon()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	state, err := proc.Wait()
	require.NoError(t, err)
	o.out, o.code = strings.TrimSpace(string(text)), state.ExitCode()
	return o
}

// try runs a role under a policy, through the trampoline.
func try(t *testing.T, p Policy, role string, args ...string) outcome {
	t.Helper()
	self := executable(t)
	return confined(t, Start{Policy: p, Path: self, Argv: append([]string{self, roleFlag + role}, args...), Env: []string{"GORACE=atexit_sleep_ms=0"}})
}

func executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return self
}

// strict is a policy of level strict that may write a directory of its own.
func strict(t *testing.T) (Policy, string) {
	t.Helper()
	dir := t.TempDir()
	scratch := filepath.Join(dir, "scratch")
	require.NoError(t, os.Mkdir(scratch, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("the key"), 0o600))
	return Policy{Level: Strict, WritePaths: []string{scratch}}, dir
}

// needStrict fails if the kernel does not support level strict: a skipped test
// would count as proof.
func needStrict(t *testing.T) {
	t.Helper()
	s := Probe()
	require.Equal(t, Strict, s.Best(), "this machine cannot hold level strict (%+v), so this test proves nothing here", s)
}
