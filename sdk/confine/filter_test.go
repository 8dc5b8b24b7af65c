//go:build linux && (amd64 || arm64)

package confine

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// systemCall is the input of a filter.
type systemCall struct {
	number int
	args   [6]uint64
	arch   uint32 // 0: this machine
}

// verdict runs a filter as the kernel does. Some calls must not be made in a
// test, because they would affect all processes of the user.
func verdict(t *testing.T, code []unix.SockFilter, c systemCall) unix.Errno {
	t.Helper()
	data := make([]byte, 64)
	if c.arch == 0 {
		c.arch = auditArch
	}
	binary.LittleEndian.PutUint32(data[offNumber:], uint32(c.number))
	binary.LittleEndian.PutUint32(data[offArch:], c.arch)
	for i, a := range c.args {
		binary.LittleEndian.PutUint64(data[offArgs+8*i:], a)
	}
	var acc uint32
	for at := 0; at < len(code); at++ {
		i := code[at]
		jump := func(is bool) {
			if is {
				at += int(i.Jt)
			} else {
				at += int(i.Jf)
			}
		}
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[i.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= i.K
		case unix.BPF_JMP | unix.BPF_JA:
			at += int(i.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(acc == i.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(acc&i.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			if i.K == unix.SECCOMP_RET_ALLOW {
				return 0
			}
			require.Equal(t, uint32(unix.SECCOMP_RET_ERRNO), i.K&unix.SECCOMP_RET_ACTION_FULL)
			return unix.Errno(i.K & unix.SECCOMP_RET_DATA)
		default:
			require.Fail(t, "an instruction that no filter here has", "%#x", i.Code)
		}
	}
	require.Fail(t, "the filter has no end")
	return 0
}

// ISO-002, ISO-006: the verdicts for calls that affect more than the process
// itself, for calls of another interface, and for their harmless forms.
func TestFilter(t *testing.T) {
	t.Parallel()
	plain := Policy{Level: Strict}
	bounded := Policy{Level: Strict, Limits: ResourceLimits{Memory: 1 << 30}}
	marks := Policy{Level: Strict, Attributes: true}
	open := Policy{Level: Strict, OpenAttributes: true}
	runs := Policy{Level: Strict, ExecPaths: []string{"/bin/true"}}
	online := Policy{Level: Strict, Network: Ports, ConnectPorts: []uint16{443}}
	const shared, private = unix.MAP_SHARED | unix.MAP_ANONYMOUS, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	call := func(number int, args ...uint64) systemCall {
		c := systemCall{number: number}
		copy(c.args[:], args)
		return c
	}
	for name, row := range map[string]struct {
		policy Policy
		call   systemCall
		want   unix.Errno
	}{
		"priority of oneself":               {plain, call(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 19), 0},
		"priority of the group":             {plain, call(unix.SYS_SETPRIORITY, unix.PRIO_PGRP, 0, 19), unix.EPERM},
		"priority of the user":              {plain, call(unix.SYS_SETPRIORITY, unix.PRIO_USER, 0, 19), unix.EPERM},
		"priority of another":               {plain, call(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 7, 19), unix.EPERM},
		"disk priority of oneself":          {plain, call(unix.SYS_IOPRIO_SET, 1, 0, 0), 0},
		"disk priority of the user":         {plain, call(unix.SYS_IOPRIO_SET, 3, 0, 0), unix.EPERM},
		"limits of oneself":                 {plain, call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE), 0},
		"mark of oneself":                   {plain, call(unix.SYS_PRLIMIT64, 0, rlimitMark, 1), unix.EPERM},
		"mark of oneself, high address":     {plain, call(unix.SYS_PRLIMIT64, 0, rlimitMark, 1<<40), unix.EPERM},
		"reading the mark":                  {plain, call(unix.SYS_PRLIMIT64, 0, rlimitMark, 0, 1), 0},
		"mark by the older call":            {plain, call(unix.SYS_SETRLIMIT, rlimitMark, 1), unix.EPERM},
		"limits by the older call":          {plain, call(unix.SYS_SETRLIMIT, unix.RLIMIT_NOFILE, 1), 0},
		"limits of another":                 {plain, call(unix.SYS_PRLIMIT64, 7, unix.RLIMIT_NOFILE), unix.EPERM},
		"system call of 32 bits":            {plain, systemCall{number: 11, arch: unix.AUDIT_ARCH_I386}, unix.ENOSYS},
		"system call of 32 bits on arm":     {plain, systemCall{number: 11, arch: unix.AUDIT_ARCH_ARM}, unix.ENOSYS},
		"handle of a file":                  {plain, call(unix.SYS_OPEN_BY_HANDLE_AT), unix.EPERM},
		"log of the kernel":                 {plain, call(unix.SYS_SYSLOG, 3), unix.EPERM},
		"shared segment":                    {plain, call(unix.SYS_SHMGET), unix.EPERM},
		"shared segment of another":         {plain, call(unix.SYS_SHMAT, 0), unix.EPERM},
		"semaphores":                        {plain, call(unix.SYS_SEMGET), unix.EPERM},
		"messages":                          {plain, call(unix.SYS_MSGRCV), unix.EPERM},
		"queue":                             {plain, call(unix.SYS_MQ_OPEN), unix.EPERM},
		"mode of an open file":              {plain, call(unix.SYS_FCHMOD, 5, 0o777), unix.EPERM},
		"owner of an open file":             {plain, call(unix.SYS_FCHOWN, 5), unix.EPERM},
		"attribute of an open file":         {plain, call(unix.SYS_FSETXATTR, 5), unix.EPERM},
		"flags of an open file":             {plain, call(unix.SYS_IOCTL, 5, unix.FS_IOC_SETFLAGS), unix.EPERM},
		"flags of a file by path":           {plain, call(setFileAttributes), unix.EPERM},
		"names in a directory":              {plain, call(unix.SYS_INOTIFY_INIT1), unix.EPERM},
		"names, with programs":              {runs, call(unix.SYS_INOTIFY_INIT1), 0},
		"names, allowed":                    {Policy{Level: Strict, Watch: true}, call(unix.SYS_INOTIFY_INIT1), 0},
		"reading attributes by path":        {marks, call(unix.SYS_GETXATTR), unix.EOPNOTSUPP},
		"reading attributes of an open one": {plain, call(unix.SYS_FGETXATTR), 0},
		"mode, where asked":                 {marks, call(unix.SYS_FCHMODAT, 5, 1, 0o755), 0},
		"setuid, where asked":               {marks, call(unix.SYS_FCHMODAT, 5, 1, 0o4755), unix.EPERM},
		"setgid of an open file":            {open, call(unix.SYS_FCHMOD, 5, 0o2755), unix.EPERM},
		"setgid by the newer call":          {marks, call(unix.SYS_FCHMODAT2, 5, 1, 0o2755), unix.EPERM},
		"a new file":                        {plain, call(unix.SYS_OPENAT, 5, 1, unix.O_CREAT|unix.O_WRONLY, 0o755), 0},
		"a new setuid file":                 {plain, call(unix.SYS_OPENAT, 5, 1, unix.O_CREAT|unix.O_WRONLY, 0o4755), unix.EPERM},
		"a new setuid file without a name":  {plain, call(unix.SYS_OPENAT, 5, 1, unix.O_TMPFILE|unix.O_WRONLY, 0o4755), unix.EPERM},
		"opening with rubbish as mode":      {plain, call(unix.SYS_OPENAT, 5, 1, unix.O_DIRECTORY, 0o7777), 0},
		"a setuid node":                     {marks, call(unix.SYS_MKNODAT, 5, 1, unix.S_IFREG|0o4755), unix.EPERM},
		"size of a terminal":                {plain, call(unix.SYS_IOCTL, 1, unix.TIOCGWINSZ), 0},
		"mode of an open file, where asked": {marks, call(unix.SYS_FCHMOD, 5, 0o777), 0},
		"mode of an open file, where open":  {open, call(unix.SYS_FCHMOD, 5, 0o777), 0},
		"flags of an open file, where open": {open, call(unix.SYS_IOCTL, 5, unix.FS_IOC_SETFLAGS), 0},
		"mode by descriptor and path":       {open, call(unix.SYS_FCHMODAT2), unix.EPERM},
		"flags by path, where open":         {open, call(setFileAttributes), unix.EPERM},
		"shared memory without a limit":     {plain, call(unix.SYS_MMAP, 0, 1<<30, 3, shared), 0},
		"shared memory with a limit":        {bounded, call(unix.SYS_MMAP, 0, 1<<30, 3, shared), unix.ENOMEM},
		"private memory with a limit":       {bounded, call(unix.SYS_MMAP, 0, 1<<30, 3, private|unix.MAP_NORESERVE), 0},
		"a stack with a limit":              {bounded, call(unix.SYS_MMAP, 0, 1<<30, 3, private|unix.MAP_GROWSDOWN), unix.ENOMEM},
		"a shared file with a limit":        {bounded, call(unix.SYS_MMAP, 0, 1<<30, 3, unix.MAP_SHARED), 0},
		"a file in memory with a limit":     {bounded, call(unix.SYS_MEMFD_CREATE, 0, noExecSeal), unix.ENOMEM},
		"a file in memory":                  {plain, call(unix.SYS_MEMFD_CREATE, 0, noExecSeal), 0},
		"a child of the parent":             {runs, call(unix.SYS_CLONE, uint64(unix.SIGCHLD|unix.CLONE_PARENT)), unix.EPERM},
		"a child":                           {runs, call(unix.SYS_CLONE, uint64(unix.SIGCHLD)), 0},
		"a session":                         {runs, call(unix.SYS_SETSID), 0},
		"a session, where it is kept":       {Policy{Level: Strict, ExecPaths: []string{"/bin/true"}, KeepSession: true}, call(unix.SYS_SETSID), unix.EPERM},
		"a thread":                          {plain, call(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_THREAD|unix.CLONE_SIGHAND), 0},
		"another kind of TCP":               {online, call(unix.SYS_SETSOCKOPT, 5, unix.IPPROTO_TCP, unix.TCP_ULP), unix.ENOPROTOOPT},
		"no delay":                          {online, call(unix.SYS_SETSOCKOPT, 5, unix.IPPROTO_TCP, unix.TCP_NODELAY), 0},
		"virtual machine sockets":           {online, call(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM), unix.EPERM},
		"SMC":                               {online, call(unix.SYS_SOCKET, 43, unix.SOCK_STREAM), unix.EPERM},
		"SMC by protocol":                   {online, call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 256), unix.EPROTONOSUPPORT},
		"netlink of the audit":              {online, call(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), unix.EPERM},
		"ping":                              {online, call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP), unix.EPROTONOSUPPORT},
		"crypto sockets":                    {online, call(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET), unix.EPERM},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, verdict(t, systemCalls(row.policy, nil), row.call))
		})
	}
	if auditArch == unix.AUDIT_ARCH_X86_64 {
		assert.Equal(t, unix.ENOSYS, verdict(t, systemCalls(plain, nil), call(x32Bit|59)), "the second interface of this machine")
	}
}
