//go:build linux

package confine

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// target is a resource outside that confined processes try to reach.
type target struct {
	port     string
	abstract string
	pid      string
}

func newTarget(t *testing.T) target {
	t.Helper()
	accept := func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	name := "confine-" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(t.TempDir()) + filepath.Base(filepath.Dir(t.TempDir()))
	abstract, err := net.Listen("unix", "@"+name)
	require.NoError(t, err)
	go accept(tcp)
	go accept(abstract)
	sleeper := exec.Command("/bin/sleep", "600")
	require.NoError(t, sleeper.Start())
	t.Cleanup(func() {
		_ = tcp.Close()
		_ = abstract.Close()
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	_, port, err := net.SplitHostPort(tcp.Addr().String())
	require.NoError(t, err)
	return target{port: port, abstract: name, pid: strconv.Itoa(sleeper.Process.Pid)}
}

// ISO-001, ISO-002, ISO-006: the kernel rejects what a policy does not permit;
// without a policy the same attempts succeed, so the policy causes the
// rejections.
func TestStrictRefuses(t *testing.T) {
	needStrict(t)
	p, dir := strict(t)
	to := newTarget(t)
	number := strconv.Itoa
	for name, c := range map[string]struct {
		role   string
		args   []string
		reason string
		fails  bool // also without a policy on this machine
	}{
		"read a key":             {"read", []string{filepath.Join(dir, "secret")}, "permission denied", false},
		"list outside":           {"list", []string{dir}, "permission denied", false},
		"read on all threads":    {"read-everywhere", []string{filepath.Join(dir, "secret")}, "permission denied", false},
		"write outside":          {"write", []string{filepath.Join(dir, "new")}, "permission denied", false},
		"overwrite outside":      {"write", []string{filepath.Join(dir, "other")}, "permission denied", false},
		"make a directory":       {"mkdir", []string{filepath.Join(dir, "sub")}, "permission denied", false},
		"remove outside":         {"remove", []string{filepath.Join(dir, "prey")}, "permission denied", false},
		"chmod outside":          {"chmod", []string{filepath.Join(dir, "other")}, "not permitted", false},
		"TCP":                    {"tcp", []string{"127.0.0.1:" + to.port}, "not permitted", false},
		"listen":                 {"listen", []string{"127.0.0.1:0"}, "not permitted", false},
		"UDP socket":             {"socket", []string{number(unix.AF_INET), number(unix.SOCK_DGRAM), "0"}, "not permitted", false},
		"UDP socket, version 6":  {"socket", []string{number(unix.AF_INET6), number(unix.SOCK_DGRAM), "0"}, "not permitted", false},
		"raw socket":             {"socket", []string{number(unix.AF_INET), number(unix.SOCK_RAW), number(unix.IPPROTO_ICMP)}, "not permitted", os.Getuid() != 0},
		"packet socket":          {"socket", []string{number(unix.AF_PACKET), number(unix.SOCK_RAW), "768"}, "not permitted", os.Getuid() != 0},
		"socket to the machine":  {"socket", []string{number(unix.AF_VSOCK), number(unix.SOCK_STREAM), "0"}, "not permitted", true},
		"multipath TCP":          {"mptcp", []string{to.port}, "not permitted", true},
		"io_uring":               {"io-uring", nil, "function not implemented", true},
		"fork":                   {"fork", nil, "not permitted", false},
		"shell":                  {"run", []string{"/bin/sh", "-c", "true"}, "not permitted", false},
		"shell in place":         {"exec", []string{"/bin/sh", "-c", "echo done"}, "not permitted", false},
		"itself":                 {"self", nil, "not permitted", false},
		"program in memory":      {"exec-memory", nil, "not permitted", false},
		"signal":                 {"kill", []string{to.pid}, "not permitted", false},
		"trace":                  {"ptrace", []string{to.pid}, "not permitted", true},
		"limits of others":       {"prlimit", []string{to.pid}, "not permitted", false},
		"priority of others":     {"renice", []string{to.pid}, "not permitted", false},
		"other namespaces":       {"unshare", nil, "not permitted", true},
		"mount":                  {"mount", []string{dir}, "not permitted", true},
		"abstract socket":        {"abstract", []string{to.abstract}, "not permitted", false},
		"environment of another": {"read", []string{"/proc/" + to.pid + "/environ"}, "permission denied", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"other", "prey"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("untouched"), 0o600))
			}
			o := try(t, p, c.role, c.args...)
			require.NoError(t, o.start)
			assert.NotZero(t, o.code, "it succeeded: %s", o.out)
			assert.Contains(t, o.out, c.reason)
			text, err := os.ReadFile(filepath.Join(dir, "other"))
			require.NoError(t, err)
			assert.Equal(t, "untouched", string(text))
			if !c.fails {
				free := try(t, Policy{Level: None}, c.role, c.args...)
				require.NoError(t, free.start)
				assert.Equal(t, "done", free.out, "unconfined it should succeed")
				_ = os.Remove(filepath.Join(dir, "new"))
				_ = os.Remove(filepath.Join(dir, "sub"))
			}
		})
	}
}

// ISO-001: what a policy permits works.
func TestStrictAllows(t *testing.T) {
	needStrict(t)
	p, dir := strict(t)
	to := newTarget(t)
	port, err := strconv.ParseUint(to.port, 10, 16)
	require.NoError(t, err)
	with := func(change func(*Policy)) Policy {
		q := p
		change(&q)
		return q
	}
	for name, c := range map[string]struct {
		policy Policy
		role   string
		args   []string
	}{
		"nothing":            {p, "nothing", nil},
		"no capabilities":    {p, "caps", nil},
		"no descriptors":     {p, "descriptors", nil},
		"write in scratch":   {p, "write", []string{filepath.Join(dir, "scratch", "x")}},
		"the null device":    {p, "write", []string{"/dev/null"}},
		"read a named file":  {with(func(p *Policy) { p.ReadPaths = []string{filepath.Join(dir, "secret")} }), "read", []string{filepath.Join(dir, "secret")}},
		"a missing file":     {with(func(p *Policy) { p.ReadPaths = []string{filepath.Join(dir, "absent")} }), "nothing", nil},
		"TCP to a port":      {with(func(p *Policy) { p.Network, p.ConnectPorts = Ports, []uint16{uint16(port)} }), "tcp", []string{"127.0.0.1:" + to.port}},
		"TCP on loopback":    {with(func(p *Policy) { p.Network, p.ConnectPorts = Loopback, []uint16{uint16(port)} }), "tcp", []string{"127.0.0.1:" + to.port}},
		"listen on any port": {with(func(p *Policy) { p.Network, p.BindPorts = Loopback, []uint16{0} }), "listen", []string{"127.0.0.1:0"}},
		"UDP for names":      {with(func(p *Policy) { p.Network = Ports }), "socket", []string{strconv.Itoa(unix.AF_INET), strconv.Itoa(unix.SOCK_DGRAM), "0"}},
		// Landlock has no rule for it, and a filter does not see the kind of
		// the socket: the documentation of the package states that it stays
		// open.
		"listen unbound": {with(func(p *Policy) { p.Network = Ports }), "listen-unbound", nil},
		"a program":      {with(func(p *Policy) { p.ExecPaths = []string{"/bin/sleep"} }), "run", []string{"/bin/sleep", "0"}},
		"itself":         {with(func(p *Policy) { p.SelfExec = true }), "self", nil},
		"modes":          {with(func(p *Policy) { p.Attributes = true }), "chmod", []string{filepath.Join(dir, "scratch")}},
	} {
		t.Run(name, func(t *testing.T) {
			o := try(t, c.policy, c.role, c.args...)
			require.NoError(t, o.start)
			assert.Equal(t, "done", o.out)
		})
	}
}

// ISO-002, ISO-006: a policy with a network or programs is restricted to these.
func TestStrictHoldsToWhatIsNamed(t *testing.T) {
	needStrict(t)
	p, _ := strict(t)
	to, other := newTarget(t), newTarget(t)
	port, err := strconv.ParseUint(to.port, 10, 16)
	require.NoError(t, err)
	online, local := p, p
	online.Network, online.ConnectPorts = Ports, []uint16{uint16(port)}
	local.Network, local.ConnectPorts = Loopback, []uint16{uint16(port)}
	runs, itself := p, p
	runs.ExecPaths = []string{"/bin/sleep"}
	itself.SelfExec = true
	number := strconv.Itoa
	for name, c := range map[string]struct {
		policy Policy
		role   string
		args   []string
	}{
		"another port":                  {online, "tcp", []string{"127.0.0.1:" + other.port}},
		"listening":                     {online, "listen", []string{"127.0.0.1:0"}},
		"another port by fast open":     {online, "fast-open", []string{other.port}},
		"another port by multipath TCP": {online, "mptcp", []string{other.port}},
		"the port by multipath TCP":     {online, "mptcp", []string{to.port}},
		"raw sockets":                   {online, "socket", []string{number(unix.AF_INET), number(unix.SOCK_RAW), number(unix.IPPROTO_ICMP)}},
		"packet sockets":                {online, "socket", []string{number(unix.AF_PACKET), number(unix.SOCK_RAW), "768"}},
		"SCTP":                          {online, "socket", []string{number(unix.AF_INET), number(unix.SOCK_STREAM), "132"}},
		"UDP on loopback":               {local, "socket", []string{number(unix.AF_INET), number(unix.SOCK_DGRAM), "0"}},
		"multipath TCP with programs":   {runs, "mptcp", []string{to.port}},
		"another program":               {runs, "run", []string{"/bin/sh", "-c", "true"}},
		"a program in memory":           {runs, "exec-memory", nil},
		"a shell besides itself":        {itself, "run", []string{"/bin/sh", "-c", "true"}},
		"namespaces with programs":      {runs, "unshare", nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := try(t, c.policy, c.role, c.args...)
			require.NoError(t, o.start)
			assert.NotZero(t, o.code, "it succeeded: %s", o.out)
		})
	}
}

// ISO-002: limits are enforced at both levels that have them.
func TestLimits(t *testing.T) {
	p, dir := strict(t)
	p.Limits = ResourceLimits{Memory: 512 << 20, FileSize: 4 << 20, OpenFiles: 64}
	soft := Policy{Level: Limits, Limits: p.Limits}
	file := filepath.Join(dir, "scratch", "big")
	for _, policy := range []Policy{p, soft} {
		for name, c := range map[string]struct {
			role string
			args []string
			want string
		}{
			"memory":     {"memory", []string{"600"}, "cannot allocate memory"},
			"file size":  {"fill", []string{file, "8"}, "file too large"},
			"open files": {"open-files", []string{"100"}, "too many open files"},
		} {
			t.Run(string(policy.Level)+" "+name, func(t *testing.T) {
				o := try(t, policy, c.role, c.args...)
				require.NoError(t, o.start)
				assert.NotZero(t, o.code, o.out)
				assert.Contains(t, o.out, c.want)
				assert.Equal(t, "done", try(t, policy, c.role, append([]string{}, append(c.args[:len(c.args)-1:len(c.args)-1], "2")...)...).out, "within the limit")
			})
		}
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.LessOrEqual(t, info.Size(), int64(4<<20))
}

// ISO-002: a memory limit applies to memory of every kind.
func TestLimitOfMemory(t *testing.T) {
	needStrict(t)
	p, _ := strict(t)
	limited := p
	limited.Limits.Memory = 512 << 20
	for role, reason := range map[string]string{
		"memory-shared": "cannot allocate memory", "memory-stack": "cannot allocate memory", "memory-file": "cannot allocate memory",
		"memory-device": "permission denied", "memory-segment": "not permitted",
	} {
		t.Run(role, func(t *testing.T) {
			o := try(t, limited, role, "600")
			require.NoError(t, o.start)
			assert.Equal(t, 1, o.code, "it succeeded: %s", o.out)
			assert.Contains(t, o.out, reason)
			assert.Equal(t, "done", try(t, Policy{Level: None}, role, "600").out, "unconfined it should succeed")
			if role != "memory-segment" { // which outlives its process
				assert.Equal(t, "done", try(t, p, role, "600").out, "without a limit it should succeed")
			}
		})
	}
}

// ISO-001, ISO-002: readable files cannot be changed by other means either.
func TestReadingIsNoChange(t *testing.T) {
	needStrict(t)
	p, dir := strict(t)
	file := filepath.Join(dir, "secret")
	p.ReadPaths = []string{file}
	for _, role := range []string{"chmod-open", "mark-open"} {
		o := try(t, p, role, file)
		require.NoError(t, o.start)
		assert.Contains(t, o.out, "not permitted", role)
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	assert.Equal(t, "done", try(t, Policy{Level: None}, "chmod-open", file).out)
}

// ISO-002: nothing is shared with other processes of the user, and no child is
// created that another process must reap.
func TestNothingShared(t *testing.T) {
	needStrict(t)
	p, _ := strict(t)
	p.ExecPaths = []string{"/bin/sleep"}
	for role, reason := range map[string]string{"queue": "not permitted", "memory-segment": "not permitted", "sibling": "not permitted"} {
		o := try(t, p, role, "1")
		require.NoError(t, o.start)
		assert.Contains(t, o.out, reason, role)
	}
}

// ISO-002, ISO-005: with a core size of 0 the kernel would still pipe the
// memory of a crashed process to a core handler; with 1 it does not. Raised
// priorities are rejected.
func TestNoCoreAndNoPriority(t *testing.T) {
	p, _ := strict(t)
	for _, policy := range []Policy{p, {Level: Limits}} {
		o := try(t, policy, "limits")
		require.NoError(t, o.start)
		assert.Equal(t, "1/1 0/0 0/0 done", o.out)
	}
}

// FX-012: a program in "bin" of a home directory cannot read the "share" beside
// it, which holds the data of all programs of the user; a program that was
// installed as a whole can read its own.
func TestHomesOfPrograms(t *testing.T) {
	needStrict(t)
	p, dir := strict(t)
	text, err := os.ReadFile(executable(t))
	require.NoError(t, err)
	install := func(prefix string) (program, data string) {
		for _, sub := range []string{"bin", "lib", "share"} {
			require.NoError(t, os.MkdirAll(filepath.Join(prefix, sub), 0o755))
		}
		program, data = filepath.Join(prefix, "bin", "program"), filepath.Join(prefix, "share", "data")
		require.NoError(t, os.WriteFile(program, text, 0o755))
		for _, path := range []string{data, filepath.Join(prefix, "lib", "part")} {
			require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		}
		return program, data
	}
	read := func(program, path string) string {
		o := confined(t, Start{Policy: p, Path: program, Argv: []string{program, roleFlag + "read", path}, Env: []string{"GORACE=atexit_sleep_ms=0"}})
		require.NoError(t, o.start)
		return o.out
	}
	program, data := install(filepath.Join(dir, ".local"))
	assert.Contains(t, read(program, data), "permission denied")
	assert.Equal(t, "done", read(program, filepath.Join(dir, ".local", "lib", "part")))
	sealed := filepath.Join(dir, "sealed")
	program, data = install(sealed)
	require.NoError(t, os.Chmod(sealed, 0o555))
	t.Cleanup(func() { _ = os.Chmod(sealed, 0o755) })
	assert.Equal(t, "done", read(program, data))
}

// FX-004: a process that restricts itself is restricted on all of its threads.
func TestApply(t *testing.T) {
	needStrict(t)
	p, dir := strict(t)
	to := newTarget(t)
	text, err := json.Marshal(p)
	require.NoError(t, err)
	try := func(role string, args ...string) outcome {
		return try(t, Policy{Level: None}, "apply", append([]string{string(text), role}, args...)...)
	}
	for name, c := range map[string]struct {
		role string
		args []string
	}{
		"read":  {"read-everywhere", []string{filepath.Join(dir, "secret")}},
		"write": {"write", []string{filepath.Join(dir, "new")}},
		"shell": {"run", []string{"/bin/sh", "-c", "true"}},
		"tcp":   {"tcp", []string{"127.0.0.1:" + to.port}},
		"kill":  {"kill", []string{to.pid}},
	} {
		t.Run(name, func(t *testing.T) {
			o := try(c.role, c.args...)
			assert.Equal(t, 1, o.code, o.out)
			assert.Regexp(t, "not permitted|permission denied", o.out)
		})
	}
	assert.Equal(t, "done", try("write", filepath.Join(dir, "scratch", "x")).out)
	assert.Equal(t, "done", try("caps").out)
}

// A failure in the trampoline is one typed error of the start; contradictions
// of the policy and missing support are found before anything starts.
func TestStartFails(t *testing.T) {
	needStrict(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("not a program"), 0o755))
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("not a program"), 0o600))
	orphan := filepath.Join(dir, "orphan")
	require.NoError(t, os.WriteFile(orphan, []byte("#!/no/such/interpreter\n"), 0o755))
	lost := filepath.Join(dir, "lost")
	require.NoError(t, os.WriteFile(lost, []byte("#!/usr/bin/env no-such-program-here\n"), 0o755))
	self := executable(t)
	for name, c := range map[string]struct {
		path   string
		policy Policy
		layer  Layer
		says   string
	}{
		"no program":           {filepath.Join(dir, "absent"), Policy{Level: Strict}, LayerProgram, "no such file"},
		"no executable":        {text, Policy{Level: Strict}, LayerProgram, "exec format error"},
		"not executable":       {plain, Policy{Level: Strict}, LayerProgram, "permission denied"},
		"no interpreter":       {orphan, Policy{Level: Strict}, LayerProgram, "no such file"},
		"not in PATH":          {lost, Policy{Level: Strict}, LayerProgram, "not in PATH"},
		"nowhere to write":     {self, Policy{Level: Strict, WritePaths: []string{filepath.Join(dir, "absent")}}, LayerFiles, "absent"},
		"relative path":        {self, Policy{Level: Strict, ReadPaths: []string{"x"}}, LayerPolicy, "absolute"},
		"ports without net":    {self, Policy{Level: Strict, ConnectPorts: []uint16{1}}, LayerPolicy, "network is none"},
		"unknown level":        {self, Policy{Level: "iron"}, LayerPolicy, "iron"},
		"share of a processor": {self, Policy{Level: Limits, Limits: ResourceLimits{Cores: 1}}, LayerGroups, "cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			o := confined(t, Start{Policy: c.policy, Path: c.path, Argv: []string{c.path}})
			var typed *Error
			require.ErrorAs(t, o.start, &typed)
			assert.Equal(t, c.layer, typed.Layer)
			assert.ErrorContains(t, o.start, c.says)
			assert.Empty(t, o.out)
		})
	}
}

// LOCK-001: the opened file is executed, wherever its path leads by then; a
// script is opened by path, and a change is detected afterwards.
func TestOpenedFileIsExecuted(t *testing.T) {
	needStrict(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	text, err := os.ReadFile(executable(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, text, 0o755))
	f, err := os.Open(program)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.NoError(t, SameProgram(program, f))
	require.NoError(t, os.WriteFile(program+".new", []byte("#!/bin/sh\necho swapped\n"), 0o755))
	require.NoError(t, os.Rename(program+".new", program))
	o := confined(t, Start{Policy: Policy{Level: Strict}, Path: program, File: f, Argv: []string{program, roleFlag + "tell", "me"}, Env: []string{"A=1", "GORACE=atexit_sleep_ms=0"}})
	require.NoError(t, o.start)
	assert.Equal(t, program+" me\nA=1 GORACE=atexit_sleep_ms=0\n"+program+" (deleted)\ndone", o.out)
	assert.Error(t, SameProgram(program, f))
}

// LOCK-004: scripts run under their interpreter, also one that env finds.
func TestScripts(t *testing.T) {
	needStrict(t)
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"shell": {"#!/bin/sh\necho \"$0 $1\"\n", " x"},
		"env":   {"#!/usr/bin/env sh\necho \"$0 $1\"\n", " x"},
		"flag":  {"#!/bin/sh -u\necho \"$0 $1\"\n", " x"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o755))
			o := confined(t, Start{Policy: Policy{Level: Strict}, Path: path, Argv: []string{path, "x"}, Env: []string{"PATH=/usr/bin:/bin"}})
			require.NoError(t, o.start)
			assert.Equal(t, path+c.want, o.out)
			assert.Zero(t, o.code)
		})
	}
}

// A trampoline without orders prints an error and does nothing.
func TestTrampolineByHand(t *testing.T) {
	cmd := exec.Command(executable(t), trampolineCommand)
	text, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 2, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(text), "internal command")
}
