package confine

import (
	"math"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in the data that a filter sees (struct seccomp_data). An argument is
// 64 bits wide; both supported architectures store the lower half first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

const (
	// x32Bit marks the calls of a second, 32 bits wide interface of amd64.
	x32Bit = 0x40000000

	protocolMPTCP     = 262
	typeMask          = 0xf // of a socket; the rest are flags
	fastOpen          = 0x20000000
	noExecSeal        = 0x8 // MFD_NOEXEC_SEAL
	setFileAttributes = 469 // the call file_setattr, which the library does not know yet
	namespaceBits     = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
)

// cookie makes one execution possible under a filter that refuses all: the
// filter knows the addresses of its arguments, which nobody else can.
type cookie struct{ argv, envp uint64 }

// filter collects the instructions of a system call filter.
type filter struct{ code []unix.SockFilter }

func (f *filter) emit(code uint16, jt, jf uint8, k uint32) {
	f.code = append(f.code, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (f *filter) load(offset uint32) { f.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

func (f *filter) allow() { f.emit(unix.BPF_RET|unix.BPF_K, 0, 0, unix.SECCOMP_RET_ALLOW) }

func (f *filter) refuse(errno unix.Errno) {
	f.emit(unix.BPF_RET|unix.BPF_K, 0, 0, unix.SECCOMP_RET_ERRNO|uint32(errno))
}

// equal runs body if the accumulator holds k.
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

// distance is how far a jump at a place has to go to get here. No block of
// these filters comes near the limit.
func (f *filter) distance(at int) uint8 {
	n := len(f.code) - at - 1
	if n > math.MaxUint8 {
		panic("confine: a block of the filter is too long")
	}
	return uint8(n)
}

// on emits body for one system call. The body has to end in a return on every
// path.
func (f *filter) on(number int, body func()) {
	f.load(offNumber)
	f.equal(uint32(number), body)
}

// low and high load the halves of an argument.
func (f *filter) low(arg int)  { f.load(uint32(offArgs + 8*arg)) }
func (f *filter) high(arg int) { f.load(uint32(offArgs + 8*arg + 4)) }

// systemCalls is the filter of a policy. With a cookie the one execution that
// carries it passes, whatever the policy says of others.
func systemCalls(p Policy, pass *cookie) []unix.SockFilter {
	f := &filter{}
	f.load(offArch)
	f.equal(auditArch, func() { f.emit(unix.BPF_JMP|unix.BPF_JA, 0, 0, 1) })
	f.refuse(unix.ENOSYS) // another interface of the kernel would need a filter of its own
	if runtime.GOARCH == "amd64" {
		f.load(offNumber)
		f.any(x32Bit, func() { f.refuse(unix.ENOSYS) })
	}
	// io_uring opens and connects without system calls that a filter could see.
	for _, number := range []int{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
		f.on(number, func() { f.refuse(unix.ENOSYS) })
	}
	// Doors into the kernel that no plugin has a use for, and other namespaces,
	// in which a process may get capabilities again.
	for _, number := range []int{
		unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_SYSLOG, unix.SYS_FANOTIFY_INIT, unix.SYS_OPEN_BY_HANDLE_AT,
	} {
		f.on(number, func() { f.refuse(unix.EPERM) })
	}
	// Memory, queues and semaphores that all processes of a user share: no rule
	// of Landlock guards them, and they outlive whoever made them.
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

// memory refuses what a limit of memory does not count: it counts private
// writable memory only, and no stacks.
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

// ioprioProcess is one process to the call that sets priorities of input and
// output; its other words are a group and all processes of a user.
const ioprioProcess = 1

// others keeps away from other processes of the same user: Landlock does not
// guard their limits and priorities. Calls about oneself pass.
func (f *filter) others() {
	self := func(number, arg int) {
		f.on(number, func() {
			f.low(arg)
			f.equal(0, func() { f.allow() })
			f.refuse(unix.EPERM)
		})
	}
	// The number 0 also stands for one's own group and one's own user, which are
	// many processes.
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

// marked keeps the mark of the process: it refuses to set the limit that holds
// it. limits is the argument with the new limits, a null pointer in a call that
// only asks.
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

// files refuses what Landlock does not look at: changing what is not the content
// of a file, also of one that is open for reading, and programs that lie in
// memory.
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
	defer f.modes() // of new files; those of others are refused before
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

// hidden refuses what shows more of files than Landlock lets a process read: the
// names of what is made and removed in a directory, and extended attributes of a
// file by its path. Programs of others, such as tests, may need the former.
func (f *filter) hidden(p Policy) {
	if len(p.ExecPaths) == 0 {
		for _, number := range watchCalls {
			f.on(number, func() { f.refuse(unix.EPERM) })
		}
	}
	for _, number := range []int{
		unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_GETXATTRAT, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_LISTXATTRAT,
	} {
		f.on(number, func() { f.refuse(unix.EOPNOTSUPP) }) // as of a file system without them
	}
}

// modeCall is a system call that sets the mode of a file.
type modeCall struct {
	number, mode int
	flags        int // the argument that tells whether a file is made; 0: there is none
}

// makesFile are the flags with which a call that opens a file makes one, and so
// has a mode.
const makesFile = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// modes refuses to make programs that run as the user or as the group of this
// process, whoever starts them. A new file of openat2 passes: its mode lies in
// memory, out of sight, and the call is the safe way to open files below a
// directory.
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

// processes refuses new processes and programs if the policy has none.
func (f *filter) processes(p Policy, pass *cookie) {
	// Its flags lie in memory, out of sight; libraries go on with clone.
	f.on(unix.SYS_CLONE3, func() { f.refuse(unix.ENOSYS) })
	f.on(unix.SYS_CLONE, func() {
		f.low(0)
		// A child of the parent is one that the host would have to bury.
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

// sockets lets only those families and protocols through that the policy uses.
func (f *filter) sockets(p Policy) {
	f.on(unix.SYS_SOCKET, func() {
		f.low(0)
		f.equal(unix.AF_UNIX, func() { f.allow() })
		if !p.offline() {
			f.equal(unix.AF_NETLINK, func() {
				f.low(2)
				f.equal(unix.NETLINK_ROUTE, func() { f.allow() }) // addresses, for looking up names
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
	// A layer on a connection may make another kind of socket of it, on which the
	// rules for ports do not look.
	f.on(unix.SYS_SETSOCKOPT, func() {
		f.low(1)
		f.equal(unix.IPPROTO_TCP, func() {
			f.low(2)
			f.equal(unix.TCP_ULP, func() { f.refuse(unix.ENOPROTOOPT) })
		})
		f.allow()
	})
	// Data that goes with the first packet connects without the call that is
	// held to ports.
	for _, send := range []struct{ number, flags int }{{unix.SYS_SENDTO, 3}, {unix.SYS_SENDMSG, 2}, {unix.SYS_SENDMMSG, 3}} {
		f.on(send.number, func() {
			f.low(send.flags)
			f.any(fastOpen, func() { f.refuse(unix.EOPNOTSUPP) })
			f.allow()
		})
	}
}

// internet is the part for internet sockets: plain TCP, and UDP if names have to
// be looked up.
func (f *filter) internet(p Policy) {
	f.low(2)
	f.equal(protocolMPTCP, func() { f.refuse(unix.EPROTONOSUPPORT) }) // libraries go on with plain TCP
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

// installFilter puts the filter on all threads. New privileges must have been
// given up.
func installFilter(code []unix.SockFilter) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return &Error{Layer: LayerCalls, Err: errno}
	}
	return nil
}
