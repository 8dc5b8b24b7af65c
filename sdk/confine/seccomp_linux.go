package confine

import (
	"math"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. An argument has 64 bits; both supported
// architectures store the lower half first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

const (
	// x32Bit marks the calls of the x32 interface of amd64.
	x32Bit = 0x40000000

	protocolMPTCP     = 262
	typeMask          = 0xf // of a socket type; the other bits are flags
	fastOpen          = 0x20000000
	noExecSeal        = 0x8 // MFD_NOEXEC_SEAL
	setFileAttributes = 469 // the call file_setattr, which is not in the library yet
	namespaceBits     = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
)

// cookie permits one execution under a filter that rejects all others: the
// filter compares the addresses of its arguments, which are unpredictable.
type cookie struct{ argv, envp uint64 }

// filter collects the instructions of a seccomp filter.
type filter struct{ code []unix.SockFilter }

func (f *filter) emit(code uint16, jt, jf uint8, k uint32) {
	f.code = append(f.code, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (f *filter) load(offset uint32) { f.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

func (f *filter) allow() { f.emit(unix.BPF_RET|unix.BPF_K, 0, 0, unix.SECCOMP_RET_ALLOW) }

func (f *filter) refuse(errno unix.Errno) {
	f.emit(unix.BPF_RET|unix.BPF_K, 0, 0, unix.SECCOMP_RET_ERRNO|uint32(errno))
}

// equal runs body if the accumulator equals k.
func (f *filter) equal(k uint32, body func()) {
	at := len(f.code)
	f.emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 0, k)
	body()
	f.code[at].Jf = f.distance(at)
}

// any runs body if the accumulator has one of the bits.
func (f *filter) any(bits uint32, body func()) {
	at := len(f.code)
	f.emit(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 0, bits)
	body()
	f.code[at].Jf = f.distance(at)
}

// distance is the length of a jump from at to the end of the code. It panics
// beyond the limit, which no block of these filters reaches.
func (f *filter) distance(at int) uint8 {
	n := len(f.code) - at - 1
	if n > math.MaxUint8 {
		panic("confine: a block of the filter is too long")
	}
	return uint8(n)
}

// on emits body for one system call. Every path of body must return.
func (f *filter) on(number int, body func()) {
	f.load(offNumber)
	f.equal(uint32(number), body)
}

// low and high load the halves of an argument.
func (f *filter) low(arg int)  { f.load(uint32(offArgs + 8*arg)) }
func (f *filter) high(arg int) { f.load(uint32(offArgs + 8*arg + 4)) }

// systemCalls returns the filter of a policy. With a cookie the execution that
// matches it passes, even if the policy permits no others.
func systemCalls(p Policy, pass *cookie) []unix.SockFilter {
	f := &filter{}
	f.load(offArch)
	f.equal(auditArch, func() { f.emit(unix.BPF_JMP|unix.BPF_JA, 0, 0, 1) })
	f.refuse(unix.ENOSYS) // another syscall interface would need its own filter
	if runtime.GOARCH == "amd64" {
		f.load(offNumber)
		f.any(x32Bit, func() { f.refuse(unix.ENOSYS) })
	}
	// io_uring opens and connects without system calls that a filter sees.
	for _, number := range []int{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
		f.on(number, func() { f.refuse(unix.ENOSYS) })
	}
	// System calls that plugins do not need, and other namespaces, in which a
	// process may regain capabilities.
	for _, number := range []int{
		unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_SYSLOG, unix.SYS_FANOTIFY_INIT, unix.SYS_OPEN_BY_HANDLE_AT,
	} {
		f.on(number, func() { f.refuse(unix.EPERM) })
	}
	// Memory, queues and semaphores shared by all processes of a user: Landlock
	// does not cover them, and they outlive their creator.
	for _, number := range sharedCalls {
		f.on(number, func() { f.refuse(unix.EPERM) })
	}
	f.memory(p)
	f.files(p)
	f.others()
	f.processes(p, pass)
	f.sockets(p)
	f.allow()
	return f.code
}

// memory rejects what a memory limit does not count: it counts only private
// writable memory, without stacks.
func (f *filter) memory(p Policy) {
	if p.Limits.Memory == 0 {
		return
	}
	f.on(mapCall, func() {
		f.low(3)
		f.any(unix.MAP_GROWSDOWN, func() { f.refuse(unix.ENOMEM) })
		f.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		f.equal(unix.MAP_SHARED|unix.MAP_ANONYMOUS, func() { f.refuse(unix.ENOMEM) })
		f.allow()
	})
	for _, number := range memoryCalls {
		f.on(number, func() { f.refuse(unix.ENOMEM) })
	}
}

// ioprioProcess selects one process in ioprio_set; the other values select a
// group or all processes of a user.
const ioprioProcess = 1

// others rejects changes of other processes of the same user: Landlock does not
// protect their limits and priorities. Calls about the caller itself pass.
func (f *filter) others() {
	self := func(number, arg int) {
		f.on(number, func() {
			f.low(arg)
			f.equal(0, func() { f.allow() })
			f.refuse(unix.EPERM)
		})
	}
	// 0 also stands for the own group and the own user, which are many
	// processes.
	alone := func(number int, process uint32) {
		f.on(number, func() {
			f.low(0)
			f.equal(process, func() {
				f.low(1)
				f.equal(0, func() { f.allow() })
			})
			f.refuse(unix.EPERM)
		})
	}
	f.on(unix.SYS_PRLIMIT64, func() {
		f.low(0)
		f.equal(0, func() { f.marked(2) })
		f.refuse(unix.EPERM)
	})
	f.on(unix.SYS_SETRLIMIT, func() { f.marked(1) })
	alone(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS)
	alone(unix.SYS_IOPRIO_SET, ioprioProcess)
	self(unix.SYS_SCHED_SETPARAM, 0)
	self(unix.SYS_SCHED_SETSCHEDULER, 0)
	self(unix.SYS_SCHED_SETATTR, 0)
	self(unix.SYS_SCHED_SETAFFINITY, 0)
}

// marked rejects changes of the limit that holds the mark of the process.
// limits is the argument with the new limits, null in a call that only reads.
func (f *filter) marked(limits int) {
	f.low(limits - 1) // which limit
	f.equal(rlimitMark, func() {
		f.low(limits)
		f.any(math.MaxUint32, func() { f.refuse(unix.EPERM) })
		f.high(limits)
		f.any(math.MaxUint32, func() { f.refuse(unix.EPERM) })
	})
	f.allow()
}

// files rejects what Landlock does not cover: changes of file attributes, also
// by a descriptor open for reading, and programs in memory.
func (f *filter) files(p Policy) {
	f.on(unix.SYS_MEMFD_CREATE, func() {
		f.low(1)
		f.any(noExecSeal, func() { f.allow() })
		f.refuse(unix.EPERM)
	})
	f.hidden(p)
	if p.Attributes {
		f.modes()
		return
	}
	defer f.modes() // of new files; those of existing files are rejected before
	for _, number := range append(slices.Clone(attributeCalls), setFileAttributes) {
		f.on(number, func() { f.refuse(unix.EPERM) })
	}
	if p.OpenAttributes {
		return
	}
	for _, number := range []int{unix.SYS_FCHMOD, unix.SYS_FCHOWN, unix.SYS_FSETXATTR, unix.SYS_FREMOVEXATTR} {
		f.on(number, func() { f.refuse(unix.EPERM) })
	}
	f.on(unix.SYS_IOCTL, func() {
		f.low(1)
		for _, request := range []uint32{unix.FS_IOC_SETFLAGS, ioctlSetAttributes} {
			f.equal(request, func() { f.refuse(unix.EPERM) })
		}
		f.allow()
	})
}

// hidden rejects what reveals more of files than Landlock permits to read:
// names created and removed in a directory, and extended attributes by path.
// Other programs, such as tests, may need the former.
func (f *filter) hidden(p Policy) {
	if !p.Watch && len(p.ExecPaths) == 0 {
		for _, number := range watchCalls {
			f.on(number, func() { f.refuse(unix.EPERM) })
		}
	}
	for _, number := range []int{
		unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_GETXATTRAT, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_LISTXATTRAT,
	} {
		f.on(number, func() { f.refuse(unix.EOPNOTSUPP) }) // as on a file system without them
	}
}

// modeCall is a system call that sets the mode of a file.
type modeCall struct {
	number, mode int
	flags        int // index of the open flags; 0: no such argument
}

// makesFile are the flags with which an open call creates a file, so that its
// mode is used.
const makesFile = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// modes rejects setuid and setgid modes, with which anyone could run a program
// as the user or group of this process. A new file of openat2 passes: its mode
// is in memory that the filter cannot see, and the call is the safe way to open
// files below a directory.
func (f *filter) modes() {
	for _, c := range modeCalls {
		f.on(c.number, func() {
			if c.flags == 0 {
				f.low(c.mode)
				f.any(unix.S_ISUID|unix.S_ISGID, func() { f.refuse(unix.EPERM) })
				f.allow()
			}
			f.low(c.flags)
			f.any(makesFile, func() {
				f.low(c.mode)
				f.any(unix.S_ISUID|unix.S_ISGID, func() { f.refuse(unix.EPERM) })
			})
			f.allow()
		})
	}
}

// ioctlSetAttributes is FS_IOC_FSSETXATTR.
const ioctlSetAttributes = 0x401c5820

// processes rejects new processes and programs unless the policy permits them.
func (f *filter) processes(p Policy, pass *cookie) {
	// The filter cannot see its flags in memory; libraries fall back to clone.
	f.on(unix.SYS_CLONE3, func() { f.refuse(unix.ENOSYS) })
	f.on(unix.SYS_CLONE, func() {
		f.low(0)
		// CLONE_PARENT would create a child of the host, which would have to reap it.
		f.any(namespaceBits|unix.CLONE_PARENT, func() { f.refuse(unix.EPERM) })
		if !p.runs() {
			f.any(unix.CLONE_THREAD, func() { f.allow() })
			f.refuse(unix.EPERM)
		}
		f.allow()
	})
	if p.KeepSession {
		f.on(unix.SYS_SETSID, func() { f.refuse(unix.EPERM) })
	}
	if p.runs() {
		return
	}
	for _, number := range forkCalls {
		f.on(number, func() { f.refuse(unix.EPERM) })
	}
	f.on(unix.SYS_EXECVE, func() { f.refuse(unix.EPERM) })
	f.on(unix.SYS_EXECVEAT, func() {
		if pass != nil {
			f.low(2)
			f.equal(uint32(pass.argv), func() {
				f.high(2)
				f.equal(uint32(pass.argv>>32), func() {
					f.low(3)
					f.equal(uint32(pass.envp), func() {
						f.high(3)
						f.equal(uint32(pass.envp>>32), func() { f.allow() })
					})
				})
			})
		}
		f.refuse(unix.EPERM)
	})
}

// sockets permits only the families and protocols that the policy needs.
func (f *filter) sockets(p Policy) {
	f.on(unix.SYS_SOCKET, func() {
		f.low(0)
		f.equal(unix.AF_UNIX, func() { f.allow() })
		if !p.offline() {
			f.equal(unix.AF_NETLINK, func() {
				f.low(2)
				f.equal(unix.NETLINK_ROUTE, func() { f.allow() }) // addresses, for name resolution
				f.refuse(unix.EPERM)
			})
			for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
				f.equal(family, func() { f.internet(p) })
			}
		}
		f.refuse(unix.EPERM)
	})
	if p.offline() {
		return
	}
	// An upper layer protocol may turn a connection into another kind of
	// socket, which the port rules do not cover.
	f.on(unix.SYS_SETSOCKOPT, func() {
		f.low(1)
		f.equal(unix.IPPROTO_TCP, func() {
			f.low(2)
			f.equal(unix.TCP_ULP, func() { f.refuse(unix.ENOPROTOOPT) })
		})
		f.allow()
	})
	// Data sent with the first packet connects without the call that the port
	// rules cover.
	for _, send := range []struct{ number, flags int }{{unix.SYS_SENDTO, 3}, {unix.SYS_SENDMSG, 2},
		{unix.SYS_SENDMMSG, 3}} {
		f.on(send.number, func() {
			f.low(send.flags)
			f.any(fastOpen, func() { f.refuse(unix.EOPNOTSUPP) })
			f.allow()
		})
	}
}

// internet covers internet sockets: plain TCP, and UDP if names must be
// resolved.
func (f *filter) internet(p Policy) {
	f.low(2)
	f.equal(protocolMPTCP, func() { f.refuse(unix.EPROTONOSUPPORT) }) // libraries fall back to plain TCP
	kinds := []struct{ kind, protocol uint32 }{{unix.SOCK_STREAM, unix.IPPROTO_TCP}}
	if p.Network == Ports {
		kinds = append(kinds, struct{ kind, protocol uint32 }{unix.SOCK_DGRAM, unix.IPPROTO_UDP})
	}
	for _, k := range kinds {
		f.low(1)
		f.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, typeMask)
		f.equal(k.kind, func() {
			f.low(2)
			f.equal(0, func() { f.allow() })
			f.equal(k.protocol, func() { f.allow() })
			f.refuse(unix.EPROTONOSUPPORT)
		})
	}
	f.refuse(unix.EPERM)
}

// installFilter installs the filter on all threads. It needs no-new-privileges.
func installFilter(code []unix.SockFilter) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return &Error{Layer: LayerCalls, Err: errno}
	}
	return nil
}
