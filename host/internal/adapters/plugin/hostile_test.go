//go:build linux

package plugin

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// hostile is a plugin that answers its calls and attempts an attack in each of
// them.
type hostile struct{ *fake }

// Invoke implements wire.Service: it makes the attempt that the input names and
// answers with the result.
func (h hostile) Invoke(ctx context.Context, call wire.Call, out *wire.Emitter) (edn.Value, error) {
	input := call.Request.Key("input")
	name, ok := input.Key("try").AsString()
	if !ok {
		return h.fake.Invoke(ctx, call, out)
	}
	var args []string
	for v := range input.Key("args").Elems() {
		s, _ := v.AsString()
		args = append(args, s)
	}
	outcome := "done"
	if err := attacks[name](args); err != nil {
		outcome = "refused: " + err.Error()
	}
	return edn.MustMap(edn.K("result"), edn.MustMap(edn.K("type"), edn.K("value"), edn.K("out"), edn.MustMap(edn.K("outcome"), edn.Text(outcome)))), nil
}

// attacks are the attempts. Each returns nil only if it succeeded.
var attacks = map[string]func([]string) error{
	"read":   func(a []string) error { _, err := os.ReadFile(a[0]); return err },
	"write":  func(a []string) error { return os.WriteFile(a[0], []byte("taken over"), 0o600) },
	"chmod":  func(a []string) error { return os.Chmod(a[0], 0o777) },
	"unlink": func(a []string) error { return os.Remove(a[0]) },
	"tcp": func(a []string) error {
		c, err := net.DialTimeout("tcp", a[0], 5*time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	},
	"udp": func(a []string) error {
		c, err := net.Dial("udp", a[0])
		if err == nil {
			_, err = c.Write([]byte("the key"))
			_ = c.Close()
		}
		return err
	},
	"mptcp": func(a []string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 262)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		_, port, _ := net.SplitHostPort(a[0])
		n, _ := strconv.Atoi(port)
		return unix.Connect(fd, &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}})
	},
	"raw": func([]string) error {
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		return err
	},
	"packet": func([]string) error {
		_, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0x300)
		return err
	},
	"sleep": func([]string) error { return exec.Command("/bin/sleep", "0").Run() },
	"shell": func([]string) error { return exec.Command("/bin/sh", "-c", "true").Run() },
	"fork-bomb": func([]string) error {
		var refused error
		for range 1000 {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 && pid == 0 {
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			if errno == 0 {
				return nil
			}
			refused = errno
		}
		return refused
	},
	// With mutual TLS a stranger gets at most the first answer.
	"neighbour": func(a []string) error {
		c, err := net.DialTimeout("unix", a[0], 5*time.Second)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
		if _, err := secure.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			return err
		}
		_, err = secure.Read(make([]byte, 64))
		return err
	},
	"abstract": func(a []string) error {
		c, err := net.Dial("unix", "@"+a[0])
		if err == nil {
			_ = c.Close()
		}
		return err
	},
	"ptrace": func(a []string) error { return syscall.PtraceAttach(atoi(a[0])) },
	"kill":   func(a []string) error { return syscall.Kill(atoi(a[0]), syscall.SIGKILL) },
	"peek": func(a []string) error {
		buf := make([]byte, 8)
		local := []unix.Iovec{{Base: &buf[0]}}
		local[0].SetLen(len(buf))
		_, err := unix.ProcessVMReadv(atoi(a[0]), local, []unix.RemoteIovec{{Base: 0x400000, Len: len(buf)}}, 0)
		return err
	},
	"starve": func(a []string) error {
		return unix.Prlimit(atoi(a[0]), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil)
	},
	"fill-memory": func([]string) error {
		var taken [][]byte
		defer func() {
			for _, b := range taken {
				_ = unix.Munmap(b)
			}
		}()
		for range 64 {
			b, err := unix.Mmap(-1, 0, 64<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				return err
			}
			taken = append(taken, b)
			for at := 0; at < len(b); at += 4096 {
				b[at] = 1
			}
		}
		return nil
	},
	"fill-disk": func(a []string) error {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(dir, "big"))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
		chunk := make([]byte, 1<<20)
		for range atoi(a[0]) {
			if _, err := f.Write(chunk); err != nil {
				return err
			}
		}
		return nil
	},
	"descriptors": func([]string) error {
		var open []int
		defer func() {
			for _, fd := range open {
				_ = unix.Close(fd)
			}
		}()
		for range 5000 {
			fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			open = append(open, fd)
		}
		return nil
	},
	// Signal 0 only checks the permission.
	"signal-thread": func(a []string) error { return unix.Tgkill(atoi(a[0]), atoi(a[0]), 0) },
	"signal-handle": func(a []string) error {
		fd, err := unix.PidfdOpen(atoi(a[0]), 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		return unix.PidfdSendSignal(fd, 0, nil, 0)
	},
	"take-descriptor": func(a []string) error {
		fd, err := unix.PidfdOpen(atoi(a[0]), 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		_, err = unix.PidfdGetfd(fd, 1, 0)
		return err
	},
	"list": func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"link": func(a []string) error { return os.Link(a[0], filepath.Join(a[1], "link")) },
	"move": func(a []string) error { return os.Rename(a[0], filepath.Join(a[1], "moved")) },
	"read-through-link": func(a []string) error {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		link := filepath.Join(dir, "to-key")
		if err := os.Symlink(a[0], link); err != nil {
			return err
		}
		_, err = os.ReadFile(link)
		_ = os.Remove(link)
		return err
	},
	"truncate": func(a []string) error { return unix.Truncate(a[0], 0) },
	"memory-program": func([]string) error {
		fd, err := unix.MemfdCreate("x", 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	},
	"raise-limit": func([]string) error {
		return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 19, Max: 1 << 19})
	},
	"realtime": func([]string) error {
		return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	},
	"type-ahead": func([]string) error {
		letter := byte('x')
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&letter)))
		return errnoError(errno)
	},
	"chroot": func(a []string) error { return unix.Chroot(a[0]) },
	"socket": func(a []string) error {
		fd, err := unix.Socket(atoi(a[0]), atoi(a[1]), atoi(a[2]))
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	},
	// Calls that are rejected whatever their arguments are.
	"call": func(a []string) error {
		_, _, errno := unix.Syscall6(uintptr(atoi(a[0])), ^uintptr(0), 0, 0, 0, 0, 0)
		return errnoError(errno)
	},
	"namespace": func([]string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"mount":     func(a []string) error { return unix.Mount("none", a[0], "tmpfs", 0, "") },
}

func errnoError(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

// outside are resources that a plugin must not reach: files, listeners,
// processes.
type outside struct {
	dir, key, token, tcp, udp, abstract string
	datagrams                           chan string
	connected                           chan string
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{dir: t.TempDir(), datagrams: make(chan string, 16), connected: make(chan string, 16)}
	o.key, o.token = filepath.Join(o.dir, "id_ed25519"), filepath.Join(o.dir, "admin.token")
	for _, path := range []string{o.key, o.token} {
		require.NoError(t, os.WriteFile(path, []byte("CANARY-"+filepath.Base(path)), 0o600))
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	o.abstract = fmt.Sprintf("ferment-hostile-%d-%d", os.Getpid(), time.Now().UnixNano())
	abstract, err := net.Listen("unix", "@"+o.abstract)
	require.NoError(t, err)
	for _, l := range []net.Listener{tcp, abstract} {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				o.connected <- l.Addr().String()
				_ = c.Close()
			}
		}()
	}
	go func() {
		buf := make([]byte, 64)
		for {
			n, _, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			o.datagrams <- string(buf[:n])
		}
	}()
	t.Cleanup(func() { _ = tcp.Close(); _ = udp.Close(); _ = abstract.Close() })
	o.tcp, o.udp = tcp.Addr().String(), udp.LocalAddr().String()
	return o
}

// ISO-004, ISO-006: all attacks of a hostile plugin fail, and neither the host
// nor another plugin is harmed. That it cannot read the admin token is the part
// of AUTH-030 that keeps it off the admin socket.
func TestHostilePlugin(t *testing.T) {
	require.Equal(t, confine.Strict, confine.Probe().Best(),
		"this machine cannot hold level strict (%+v): the proof that hostile plugins are held cannot be made here", confine.Probe())
	o := newOutside(t)
	bad, good := as("hostile"), as("good")
	bad.Name, good.Name = "bad", "good"
	bad.Isolation.Limits.Memory, bad.Isolation.Limits.FileSize = 1<<30, 4<<20
	b := run(t, bad, good)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, id := range []string{"bad/echo", "good/echo"} {
		require.NoError(t, b.client.Await(ctx, id), b.steps())
	}
	pids := map[string]string{}
	for _, s := range b.Status() {
		pids[s.Plugin] = strconv.Itoa(s.PID)
		require.NotNil(t, s.Confinement)
		assert.Equal(t, confine.Strict, s.Confinement.Level)
		assert.Equal(t, "kernel", s.Confinement.Enforcement)
	}
	host := strconv.Itoa(os.Getpid())
	var sockets []string
	found, err := filepath.Glob(filepath.Join(b.runtime.Path(), "*", "*", "*"))
	require.NoError(t, err)
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			sockets = append(sockets, path)
		}
	}
	require.NotEmpty(t, sockets, "the sockets of the plugins lie in the runtime directory: %v", found)
	var limits unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limits))

	attempts := []struct {
		what, try string
		args      []string
		reason    string // part of the refusal
	}{
		{"read a key file", "read", []string{o.key}, "permission denied"},
		{"read the admin token", "read", []string{o.token}, "permission denied"},
		{"read the account file", "read", []string{"/etc/passwd"}, "permission denied"},
		{"read the environment of the host", "read", []string{"/proc/" + host + "/environ"}, "permission denied"},
		{"read the memory of the host by file", "read", []string{"/proc/" + host + "/mem"}, "permission denied"},
		{"read the log of a neighbour", "read", []string{LogPath(b.dataDir, "good")}, "permission denied"},
		{"write outside its scratch directory", "write", []string{filepath.Join(o.dir, "new")}, "permission denied"},
		{"write over a key file", "write", []string{o.key}, "permission denied"},
		{"write into the data directory", "write", []string{filepath.Join(b.dataDir, "new")}, "permission denied"},
		{"open a key file to everybody", "chmod", []string{o.key}, "not permitted"},
		{"remove a key file", "unlink", []string{o.key}, "permission denied"},
		{"connect by TCP", "tcp", []string{o.tcp}, "not permitted"},
		{"send by UDP", "udp", []string{o.udp}, "not permitted"},
		{"connect by multipath TCP", "mptcp", []string{o.tcp}, "not permitted"},
		{"open a raw socket", "raw", nil, "not permitted"},
		{"open a packet socket", "packet", nil, "not permitted"},
		{"reach an abstract socket", "abstract", []string{o.abstract}, "not permitted"},
		{"run a shell", "shell", nil, "not permitted"},
		{"fork without end", "fork-bomb", nil, "not permitted"},
		{"trace the host", "ptrace", []string{host}, "not permitted"},
		{"read the memory of the host", "peek", []string{host}, "not permitted"},
		{"kill the host", "kill", []string{host}, "not permitted"},
		{"kill a neighbour", "kill", []string{pids["good"]}, "not permitted"},
		{"take the descriptors of the host", "starve", []string{host}, "not permitted"},
		{"fill the memory", "fill-memory", nil, "cannot allocate memory"},
		{"fill the disk", "fill-disk", []string{"64"}, "file too large"},
		{"open files without end", "descriptors", nil, "too many open files"},
		{"get a user namespace", "namespace", nil, "not permitted"},
		{"mount over a directory", "mount", []string{o.dir}, "not permitted"},
		{"signal a thread of the host", "signal-thread", []string{host}, "not permitted"},
		{"signal the host by a handle", "signal-handle", []string{host}, "not permitted"},
		{"take a descriptor of the host", "take-descriptor", []string{host}, "not permitted"},
		{"take a descriptor of a neighbour", "take-descriptor", []string{pids["good"]}, "not permitted"},
		{"trace a neighbour", "ptrace", []string{pids["good"]}, "not permitted"},
		{"read the memory of a neighbour", "peek", []string{pids["good"]}, "not permitted"},
		{"list the descriptors of the host", "list", []string{"/proc/" + host + "/fd"}, "permission denied"},
		{"read the arguments of the host", "read", []string{"/proc/" + host + "/cmdline"}, "permission denied"},
		{"read the key through the root of the host", "read", []string{"/proc/" + host + "/root" + o.key}, "permission denied"},
		{"list the directory of keys", "list", []string{o.dir}, "permission denied"},
		{"give a key another name", "link", []string{o.key, o.dir}, "permission denied"},
		{"move a key", "move", []string{o.key, o.dir}, "permission denied"},
		{"read a key through a link of its own", "read-through-link", []string{o.key}, "permission denied"},
		{"empty a key file", "truncate", []string{o.key}, "permission denied"},
		{"make a program in memory", "memory-program", nil, ""}, // rejected with and without a memory limit
		{"raise its own limit", "raise-limit", nil, "not permitted"},
		{"become a process of real time", "realtime", nil, "not permitted"},
		{"type for the terminal", "type-ahead", nil, ""},
		{"read the memory of the machine", "read", []string{"/dev/mem"}, ""},
		{"read the log of the kernel", "read", []string{"/dev/kmsg"}, "permission denied"},
		{"another root", "chroot", []string{o.dir}, "not permitted"},
		{"open a netlink socket", "socket", []string{strconv.Itoa(unix.AF_NETLINK), strconv.Itoa(unix.SOCK_RAW), "0"}, "not permitted"},
		{"open a socket to the machine outside", "socket", []string{strconv.Itoa(unix.AF_VSOCK), strconv.Itoa(unix.SOCK_STREAM), "0"}, "not permitted"},
		{"open a crypto socket", "socket", []string{strconv.Itoa(unix.AF_ALG), strconv.Itoa(unix.SOCK_SEQPACKET), "0"}, "not permitted"},
	}
	for name, number := range map[string]int{
		"bpf": unix.SYS_BPF, "userfaultfd": unix.SYS_USERFAULTFD, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "keyctl": unix.SYS_KEYCTL,
		"setns": unix.SYS_SETNS, "shmget": unix.SYS_SHMGET, "mq_open": unix.SYS_MQ_OPEN, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
		"pivot_root": unix.SYS_PIVOT_ROOT, "execveat": unix.SYS_EXECVEAT, "fsetxattr": unix.SYS_FSETXATTR,
	} {
		attempts = append(attempts, struct {
			what, try string
			args      []string
			reason    string
		}{"call " + name, "call", []string{strconv.Itoa(number)}, "not permitted"})
	}
	for _, socket := range sockets {
		attempts = append(attempts, struct {
			what, try string
			args      []string
			reason    string
		}{"talk over socket " + strings.TrimPrefix(socket, b.runtime.Path()+"/"), "neighbour", []string{socket}, ""})
	}

	var table strings.Builder
	for _, a := range attempts {
		args := make([]edn.Value, len(a.args))
		for i, arg := range a.args {
			args[i] = edn.Text(arg)
		}
		input := edn.MustMap(edn.K("try"), edn.Text(a.try), edn.K("args"), edn.Vector(args...))
		answer, err := b.client.Invoke(ctx, call("bad/echo", input.String()))
		require.NoError(t, err, a.what)
		outcome, _ := out(answer).Key("outcome").AsString()
		fmt.Fprintf(&table, "%-40s %s\n", a.what, outcome)
		if assert.True(t, strings.HasPrefix(outcome, "refused: "), "%s: %s", a.what, outcome) {
			assert.Contains(t, outcome, a.reason, a.what)
			assert.NotContains(t, outcome, "CANARY", a.what)
		}
	}
	t.Log("\n" + table.String())

	// Nothing outside has changed.
	assert.Empty(t, o.connected)
	assert.Empty(t, o.datagrams)
	for _, path := range []string{o.key, o.token} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, "CANARY-"+filepath.Base(path), string(text))
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode())
	}
	var now unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &now))
	assert.Equal(t, limits, now)
	answer, err := b.client.Invoke(ctx, call("good/echo", `{:text "still here"}`))
	require.NoError(t, err)
	assert.Equal(t, `{:text "still here"}`, out(answer).String())
	for _, s := range b.Status() {
		assert.Equal(t, Ready, s.State, s.Plugin)
		assert.Equal(t, 1, s.Generation, "%s was started again", s.Plugin)
		assert.Equal(t, pids[s.Plugin], strconv.Itoa(s.PID))
	}
}

// ISO-005: a secret reaches the plugin by Configure only: it is not in the
// environment or arguments of the process, in its log or in the output of the
// host.
func TestSecretsTravelByConfigure(t *testing.T) {
	const canary = "CANARY-5f2a91c7-secret"
	s := as("good")
	s.Config = edn.MustRead(`{:mood "print-secret" :key nil}`)
	s.Secrets = edn.MustMap(edn.Vector(edn.K("key")), edn.Text(canary))
	b := run(t, s).ready()
	b.line(t, "the key is")
	pid := strconv.Itoa(b.pid())
	for _, file := range []string{"environ", "cmdline"} {
		text, err := os.ReadFile("/proc/" + pid + "/" + file)
		require.NoError(t, err)
		require.NotEmpty(t, text)
		assert.NotContains(t, string(text), canary, file)
	}
	_, err := b.ask(context.Background(), `{:do "exit" :code 5}`)
	require.Error(t, err)
	b.to(t, Backoff, 1)
	var seen strings.Builder
	fmt.Fprintf(&seen, "%v\n%+v\n", err, b.Status())
	b.journal.mu.Lock()
	for _, tr := range b.transitions {
		fmt.Fprintf(&seen, "%+v %v\n", tr, tr.Err)
		if tr.Report != nil {
			fmt.Fprintf(&seen, "%+v\n", *tr.Report)
		}
	}
	for _, l := range b.lines {
		fmt.Fprintf(&seen, "%+v\n", l)
	}
	b.journal.mu.Unlock()
	text, rerr := os.ReadFile(LogPath(b.dataDir, "p"))
	require.NoError(t, rerr)
	seen.Write(text)
	assert.NotContains(t, seen.String(), canary)
	files := 0
	for _, dir := range []string{b.dataDir, b.runtime.Path()} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // a process may remove its files
			}
			files++
			text, err := os.ReadFile(path)
			if err == nil {
				assert.NotContains(t, string(text), canary, path)
			}
			return nil
		}))
	}
	assert.Positive(t, files)
}

// ISO-005: a secret that a plugin puts into a failure, in whatever form, does
// not reach logs, errors, health or transitions.
func TestSecretsInWhatAPluginSays(t *testing.T) {
	t.Parallel()
	const canary = `CANARY "5f2a" 91c7\x`
	inBase64 := base64.RawStdEncoding.EncodeToString([]byte("me:" + canary))
	for mood, row := range map[string]struct {
		to   State
		says string // where the secret was
	}{
		"log-secret":            {Ready, "bad key [secret]"},
		"find-secret":           {Quarantined, `\"[secret]\" is too short`},
		"fail-with-secret":      {Backoff, "the server refused [secret]"},
		"fail-where-it-is-cut":  {Backoff, `:sent {"[secret]"`},
		"print-where-it-is-cut": {Ready, "xx [secret]"},
		"health-of-secret":      {Degraded, "401 for Basic bWU6[secret]"},
	} {
		t.Run(mood, func(t *testing.T) {
			s := as("good")
			s.Config = edn.MustMap(edn.K("mood"), edn.Text(mood), edn.K("key"), edn.Nil())
			s.Secrets = edn.MustMap(edn.Vector(edn.K("key")), edn.Text(canary))
			b := run(t, s)
			b.to(t, row.to, 1)
			if row.to == Ready {
				b.line(t, "bad key")
			}
			seen := b.known(t)
			assert.Contains(t, seen, row.says)
			for _, form := range []string{canary, "5f2a", inBase64[4:20], "Q0FOQVJZ"} {
				assert.NotContains(t, seen, form)
			}
		})
	}
}

// known returns everything that the host reported about the plugins.
func (b *bench) known(t *testing.T) string {
	t.Helper()
	var seen strings.Builder
	say := func(err *contract.Error) {
		if err != nil {
			fmt.Fprintln(&seen, err.Message, err.Hint, err.Value().String())
		}
	}
	for _, s := range b.Status() {
		fmt.Fprintf(&seen, "%+v\n", s)
		say(s.Err)
	}
	b.journal.mu.Lock()
	defer b.journal.mu.Unlock()
	for _, tr := range b.transitions {
		fmt.Fprintf(&seen, "%+v\n", tr)
		say(contract.AsError(tr.Err))
		if tr.Report != nil {
			fmt.Fprintf(&seen, "%+v\n", *tr.Report)
		}
	}
	for _, l := range b.lines {
		fmt.Fprintf(&seen, "%+v\n", l)
	}
	text, err := os.ReadFile(LogPath(b.dataDir, "p"))
	require.NoError(t, err)
	seen.Write(text)
	return seen.String()
}

// HCL-021: an ungranted need prevents the start of the plugin, and the error
// contains the configuration to add. Without the need the plugin starts.
func TestUngrantedNeeds(t *testing.T) {
	t.Parallel()
	s := as("needy")
	b := run(t, s)
	b.to(t, Stopped, 1)
	st := b.Status()[0]
	require.NotNil(t, st.Err)
	assert.Equal(t, CauseIsolation, st.Cause)
	assert.Equal(t, "runtime/not-ready", st.Err.Type)
	assert.Contains(t, st.Err.Error(), "process/run")
	assert.Contains(t, st.Err.Hint, `exec = ["PROGRAM"]`)
	_, err := b.ask(context.Background(), `{}`)
	require.ErrorContains(t, err, "runtime/not-ready")
	require.ErrorContains(t, err, "process/run")

	t.Run("granted", func(t *testing.T) {
		s := as("needy")
		s.Isolation.Programs, s.Isolation.Exec = true, []string{"/bin/sleep"}
		b := run(t, s).ready()
		assert.Equal(t, "refused", outcome(t, b, "shell"))
		assert.Equal(t, "done", outcome(t, b, "sleep"))
		assert.Contains(t, weaknesses(b.Status()[0].Confinement), "attributes-open")
	})
	t.Run("narrowed", func(t *testing.T) {
		s := as("needy")
		s.Needs = []string{}
		b := run(t, s).ready()
		assert.Equal(t, "refused", outcome(t, b, "sleep"))
	})
	t.Run("without confinement", func(t *testing.T) {
		s := as("needy")
		s.Needs, s.Isolation.Level = []string{}, confine.None
		b := run(t, s).ready()
		assert.Equal(t, "done", outcome(t, b, "shell"))
		assert.Equal(t, []string{"not-strict"}, weaknesses(b.Status()[0].Confinement))
	})
}

// ISO-003: a configured isolation that the machine cannot enforce fails closed,
// unless best_effort is set.
func TestWrittenIsolationFailsClosed(t *testing.T) {
	s := as("good")
	s.Isolation.Limits.Cores = 0.5
	b := run(t, s)
	b.to(t, Stopped, 1)
	st := b.Status()[0]
	require.NotNil(t, st.Err)
	assert.Equal(t, "runtime/not-ready", st.Err.Type)
	assert.Contains(t, st.Err.Error(), "cgroup")
	assert.Contains(t, st.Err.Hint, "best_effort")

	assert.Zero(t, st.PID)

	s.Isolation.BestEffort = true
	b = run(t, s).ready()
	assert.Contains(t, weaknesses(b.Status()[0].Confinement), "best-effort")
	assert.Equal(t, "warn", b.line(t, "best_effort").Level, "the log says what is left open")
}

// ISO-003, HCL-021: the effect of a level on machines of each kind. A
// configured level that cannot be enforced prevents the start; the default
// level is lowered, which is a weakness; with best_effort less is accepted,
// which is another. TestWrittenIsolationFailsClosed tests a refusal with a real
// plugin.
func TestLevelsOfMachines(t *testing.T) {
	able := confine.Support{
		System:      "linux",
		NoNewPrivs:  true,
		Seccomp:     true,
		Rlimits:     true,
		Processes:   true,
		LandlockABI: 7,
	}
	noLandlock, noFilter := able, able
	noLandlock.LandlockABI, noFilter.Seccomp = 0, false
	bare := confine.Support{System: "plan9"}
	for _, row := range []struct {
		name       string
		machine    confine.Support
		level      confine.Level // configured
		bestEffort bool
		want       confine.Level // empty: not started
		weak       string
	}{
		{name: "strict is held", machine: able, level: confine.Strict, want: confine.Strict},
		{name: "strict without Landlock", machine: noLandlock, level: confine.Strict},
		{name: "strict without a filter", machine: noFilter, level: confine.Strict},
		{name: "strict without Linux", machine: bare, level: confine.Strict},
		{name: "limits without Linux", machine: bare, level: confine.Limits},
		{name: "limits without Landlock", machine: noLandlock, level: confine.Limits, want: confine.Limits},
		{name: "none anywhere", machine: bare, level: confine.None, want: confine.None},
		{
			name: "accepted", machine: noLandlock, level: confine.Strict, bestEffort: true,
			want: confine.Limits, weak: "best-effort",
		},
		{
			name: "accepted without Linux", machine: bare, level: confine.Limits, bestEffort: true,
			want: confine.None, weak: "best-effort",
		},
		{name: "nothing to accept", machine: able, level: confine.Strict, bestEffort: true, want: confine.Strict},
		{name: "default", machine: able, want: confine.Strict},
		{name: "default without Landlock", machine: noLandlock, want: confine.Limits, weak: "stepped-down"},
		{name: "default without Linux", machine: bare, want: confine.None, weak: "stepped-down"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := as("good")
			s.Isolation.Level, s.Isolation.BestEffort = row.level, row.bestEffort
			c := s.confinement(contract.Description{}, row.machine)
			err := c.refusal()
			if row.want == "" {
				require.NotNil(t, err)
				assert.Equal(t, "runtime/not-ready", err.Type)
				return
			}
			require.Nil(t, err, "%v", err)
			assert.Equal(t, row.want, c.Level)
			for _, name := range []string{"best-effort", "stepped-down"} {
				assert.Equal(t, name == row.weak, slices.Contains(weaknesses(&c), name), name)
			}
		})
	}
}

func outcome(t *testing.T, b *bench, try string) string {
	t.Helper()
	v, _ := b.mustAsk(`{:try "` + try + `" :args []}`).Key("outcome").AsString()
	word, _, _ := strings.Cut(v, ":")
	return word
}

func weaknesses(c *Confinement) []string {
	if c == nil {
		return nil
	}
	names := make([]string, len(c.Weaknesses))
	for i, w := range c.Weaknesses {
		names[i] = w.Name
	}
	slices.Sort(names)
	return names
}

// needy is hostile and declares a need.
type needy struct {
	hostile
	needs string // entries of its description, as EDN
}

// Describe implements wire.Service.
func (n needy) Describe(ctx context.Context, config edn.Value, host wire.HostInfo) (wire.Description, error) {
	d, err := n.hostile.Describe(ctx, config, host)
	if err == nil {
		d.Value = d.Value.Merge(edn.MustRead("{" + n.needs + "}"))
	}
	return d, err
}

// Configure implements wire.Service.
func (n needy) Configure(ctx context.Context, setup wire.Setup, host *wire.Caller) (wire.Description, error) {
	d, err := n.hostile.Configure(ctx, setup, host)
	if err == nil {
		d.Value = d.Value.Merge(edn.MustRead("{" + n.needs + "}"))
	}
	return d, err
}

// ISO-002, FX-005: a granted network without ports gets the ports that the
// plugin declares; configured ports replace them.
func TestPortsOfANeed(t *testing.T) {
	t.Parallel()
	needed, other := newOutside(t), newOutside(t)
	port := func(o *outside) string { return o.tcp[strings.LastIndex(o.tcp, ":")+1:] }
	reach := func(b *bench, o *outside) string {
		v, _ := b.mustAsk(`{:try "tcp" :args ["` + o.tcp + `"]}`).Key("outcome").AsString()
		word, _, _ := strings.Cut(v, ":")
		return word
	}
	s := as("caller", port(needed))
	s.Isolation.Network = confine.Ports
	b := run(t, s).ready()
	assert.Equal(t, "done", reach(b, needed))
	assert.Equal(t, "refused", reach(b, other))
	held := b.Status()[0].Confinement
	assert.Equal(t, "port-only", held.Enforcement)
	assert.Equal(t, !confine.Probe().UDP(), held.UDPOpen())
	n, err := strconv.ParseUint(port(other), 10, 16)
	require.NoError(t, err)
	s.Isolation.Ports = []uint16{uint16(n)}
	b = run(t, s).ready()
	assert.Equal(t, "refused", reach(b, needed))
	assert.Equal(t, "done", reach(b, other))
}

// FX-005, HCL-021: what is not enforced, on machines of each kind. A plugin
// without needs and effects runs on all of them.
func TestUnheld(t *testing.T) {
	able := confine.Support{System: "linux", NoNewPrivs: true, Seccomp: true, Rlimits: true, Processes: true, LandlockABI: 7}
	with := func(change func(*confine.Support)) confine.Support { s := able; change(&s); return s }
	noLandlock := with(func(s *confine.Support) { s.LandlockABI = 0 })
	older := with(func(s *confine.Support) { s.LandlockABI = 3 })
	bare := confine.Support{System: "plan9"}
	for _, row := range []struct {
		name    string
		machine confine.Support
		needs   []string
		effects []string
		change  func(*Settings)
		what    []string
		says    string
	}{
		{name: "able", machine: able, needs: []string{"process/run", "net/connect"}, effects: []string{"fs/write"}},
		{name: "no Landlock", machine: noLandlock, needs: []string{"process/run"}, effects: []string{"fs/read"}, what: []string{"fs/read", "process/run"}, says: "the kernel has no Landlock"},
		{name: "no filter", machine: with(func(s *confine.Support) { s.Seccomp = false }), needs: []string{"fs/read"}, what: []string{"fs/read"}, says: "system calls cannot be filtered"},
		{name: "no Linux", machine: bare, effects: []string{"fs/write"}, what: []string{"fs/write"}, says: "plan9"},
		{name: "ports on an older kernel", machine: older, needs: []string{"net/connect"}, change: func(s *Settings) { s.Isolation.Network = confine.Ports }, what: []string{"net/connect"}, says: "which restricts ports"},
		{name: "files on an older kernel", machine: older, needs: []string{"fs/read"}},
		{name: "nothing to hold", machine: bare},
		{name: "narrowed away", machine: bare, needs: []string{"process/run"}, change: func(s *Settings) { s.Needs = []string{} }},
		{name: "less is accepted", machine: bare, needs: []string{"process/run"}, change: func(s *Settings) { s.Isolation.BestEffort = true }},
		{name: "a lower level", machine: able, needs: []string{"process/run"}, change: func(s *Settings) { s.Isolation.Level = confine.Limits }, what: []string{"process/run"}, says: "its isolation has level limits"},
		{name: "a lower level and nothing to hold", machine: able, change: func(s *Settings) { s.Isolation.Level = confine.None }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := as("good")
			if row.change != nil {
				row.change(&s)
			}
			got := s.unheld(contract.Description{Needs: row.needs}, row.effects, row.machine)
			assert.Equal(t, row.what, got.What)
			assert.Equal(t, len(row.what) > 0, got.Any())
			assert.Contains(t, got.Why, row.says)
		})
	}
}

// FX-005: such a plugin is not started.
func TestUnheldIsNotStarted(t *testing.T) {
	s := as("needy")
	s.Isolation.Programs, s.Isolation.Level = true, confine.None
	s.Isolation.Unheld = s.Unheld(contract.Description{Needs: []string{"process/run"}}, nil)
	b := run(t, s)
	b.to(t, Stopped, 1)
	st := b.Status()[0]
	require.NotNil(t, st.Err)
	assert.Equal(t, CauseIsolation, st.Cause)
	assert.Equal(t, "runtime/not-ready", st.Err.Type)
	assert.Contains(t, st.Err.Error(), "nothing would confine its use of process/run")
	assert.Contains(t, st.Err.Hint, "best_effort = true")
	assert.Zero(t, st.PID)
}

// ISO-004: if the address of a plugin is a symbolic link to a socket of another
// program, the host does not connect.
func TestSocketThatIsALink(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "fl")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(base) }()
	other, err := net.Listen("unix", filepath.Join(base, "other"))
	require.NoError(t, err)
	met := make(chan error, 1)
	go func() {
		_, err := other.Accept()
		met <- err
	}()
	cert := base64.RawStdEncoding.EncodeToString(testCertificate())
	s := as("linked", filepath.Join(base, "other"), "1|1|unix|%s|grpc|"+cert)
	s.Restart.Max = 0
	b := run(t, s)
	failed := b.to(t, Quarantined, 1)
	assert.ErrorIs(t, failed.Err, contract.OfType("runtime/start-failed"))
	require.NoError(t, other.Close())
	assert.ErrorIs(t, <-met, net.ErrClosed, "no peer connected")
}
