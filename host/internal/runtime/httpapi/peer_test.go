package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/edn"
)

// User ids that own nothing on this machine.
const (
	nobody   = 65534
	somebody = 65533
)

// Environment variables that turn a process of this test into a peer.
const (
	peerServes = "FERMENT_TEST_PEER_SERVES" // it listens and prints the path of its admin socket
	peerAsks   = "FERMENT_TEST_PEER_ASKS"   // the path of an admin socket: it sends an act and prints the outcome
	peerToken  = "FERMENT_TEST_PEER_TOKEN"
	peerWaits  = "FERMENT_TEST_PEER_WAITS" // it asks after the end of its standard input
)

// TestPeerProcess is the main function of the processes that
// TestPeerOfAnotherUser starts. It asserts nothing by itself.
func TestPeerProcess(t *testing.T) {
	if os.Getenv(peerServes) != "" {
		w := newWorld(t)
		w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
		open(t, w.socket, 0o666)
		fmt.Println("peer:", w.socket)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes the pipe
	}
	if path := os.Getenv(peerAsks); path != "" {
		if os.Getenv(peerWaits) != "" {
			_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has marked this process
		}
		fmt.Println("peer:", asked(path, os.Getenv(peerToken)))
	}
}

// asked returns the outcome of an act over an admin socket.
func asked(path, token string) string {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	body := jsonAct("t/any", "{}")
	_, _ = fmt.Fprintf(conn, "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", token, len(body), body)
	a, err := read(conn)
	if err != nil {
		return err.Error()
	}
	v, err := edn.ReadJSON(a.body)
	if err != nil {
		return err.Error()
	}
	typ, _ := v.Key("error").Key("type").AsString()
	return strings.TrimSpace(fmt.Sprint(a.status, " ", typ))
}

// open makes a file reachable for other users through its directory.
func open(t testing.TB, path string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
	require.NoError(t, os.Chmod(path, mode))
}

// another returns a process of this test under another user id. Its program
// and its scratch directory are in dir.
func another(t testing.TB, dir string, uid uint32, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "peer"), "-test.run=^TestPeerProcess$")
	cmd.Dir = dir
	cmd.Env = append(env, "TMPDIR="+filepath.Join(dir, "tmp"), "HOME="+dir, "PATH="+os.Getenv("PATH"))
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	return cmd
}

// said reads one line of a peer.
func said(t testing.TB, r io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "peer: "); ok {
			return text
		}
	}
	require.Fail(t, "the peer ended without its line")
	return ""
}

// AUTH-030: a process of another user cannot use the admin socket: the file
// mode prevents it, and where that was changed the peer check does, with any
// token. Root and the user of the daemon need only the token. Starting a
// process of another user needs root; TestIdentifyOperator covers the rule
// without it.
func TestPeerOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		return
	}
	dir, err := os.MkdirTemp("", "fer")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "peer"), program, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o700))
	open(t, filepath.Join(dir, "tmp"), os.ModeSticky|0o777)
	ask := func(uid uint32, path, token string) string {
		cmd := another(t, dir, uid, peerAsks+"="+path, peerToken+"="+token)
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		return said(t, strings.NewReader(string(out)))
	}

	// A daemon of root.
	w := newWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	open(t, w.socket, 0o600) // the mode of its directory must not be what stops the peer
	assert.Contains(t, ask(nobody, w.socket, token), syscall.EACCES.Error())
	open(t, w.socket, 0o666)
	assert.Equal(t, "403 auth/forbidden", ask(nobody, w.socket, token))
	assert.Equal(t, "403 auth/forbidden", ask(nobody, w.socket, "wrong"))
	assert.Empty(t, w.exec.Calls())
	assert.Equal(t, "200", ask(0, w.socket, token))
	assert.Equal(t, "401 auth/unauthorized", ask(0, w.socket, "wrong"))

	// A daemon of a user.
	daemon := another(t, dir, nobody, peerServes+"=1")
	in, err := daemon.StdinPipe()
	require.NoError(t, err)
	out, err := daemon.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, daemon.Start())
	socket := said(t, out)
	for uid, want := range map[uint32]string{nobody: "200", 0: "200", somebody: "403 auth/forbidden"} {
		assert.Equal(t, want, ask(uid, socket, token), "user %d", uid)
	}
	for _, uid := range []uint32{nobody, 0} {
		assert.Equal(t, "401 auth/unauthorized", ask(uid, socket, "wrong"), "user %d", uid)
	}
	require.NoError(t, in.Close())
	_, _ = io.Copy(io.Discard, out)
	assert.NoError(t, daemon.Wait())
}

// FX-012, AUTH-030: a process that carries the mark of a plugin cannot use the admin socket,
// whatever files it can read.
func TestPeerOfAPlugin(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // there are no marks
	}
	w := newWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	ask := func(marked bool) string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPeerProcess$")
		cmd.Env = append(os.Environ(), peerAsks+"="+w.socket, peerToken+"="+token, peerWaits+"=1")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		if marked {
			require.NotZero(t, confine.MarkRunning(cmd.Process.Pid))
		}
		require.NoError(t, in.Close())
		got := said(t, out)
		_, _ = io.Copy(io.Discard, out)
		require.NoError(t, cmd.Wait())
		return got
	}
	assert.Equal(t, "200", ask(false))
	assert.Equal(t, "403 auth/forbidden", ask(true))
	assert.Len(t, w.exec.Calls(), 1)
}
