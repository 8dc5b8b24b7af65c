//go:build linux

package confine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func number(s string) int { n, _ := strconv.Atoi(s); return n }

// threads creates n more operating system threads.
func threads(n int) {
	started := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			select {}
		}()
	}
	for range n {
		<-started
	}
}

// attempts are the actions that a confined process tries.
var attempts = map[string]func([]string) error{
	"nothing":          func([]string) error { return nil },
	"start-in-session": startInSession,
	"read":             func(a []string) error { _, err := os.ReadFile(a[0]); return err },
	"list":             func(a []string) error { _, err := os.ReadDir(a[0]); return err },
	"write":            func(a []string) error { return os.WriteFile(a[0], []byte("x"), 0o600) },
	"mkdir":            func(a []string) error { return os.Mkdir(a[0], 0o700) },
	"remove":           func(a []string) error { return os.Remove(a[0]) },
	"chmod":            func(a []string) error { return os.Chmod(a[0], 0o777) },
	// On every thread at once, to find an unrestricted one.
	"read-everywhere": func(a []string) error {
		results := make(chan error)
		for range 64 {
			go func() {
				runtime.LockOSThread()
				_, err := os.ReadFile(a[0])
				results <- err
			}()
		}
		var refused error
		for range 64 {
			err := <-results
			if err == nil {
				return nil
			}
			refused = err
		}
		return refused
	},
	"tcp": func(a []string) error {
		c, err := net.DialTimeout("tcp", a[0], 5*time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	},
	"listen": func(a []string) error {
		l, err := net.Listen("tcp", a[0])
		if err == nil {
			_ = l.Close()
		}
		return err
	},
	"listen-unbound": func([]string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		return unix.Listen(fd, 1)
	},
	"fast-open": func(a []string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte("x"), fastOpen, &unix.SockaddrInet4{Port: number(a[0]), Addr: [4]byte{127, 0, 0, 1}})
	},
	"mptcp": func(a []string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, protocolMPTCP)
		if err != nil {
			return err
		}
		return unix.Connect(fd, &unix.SockaddrInet4{Port: number(a[0]), Addr: [4]byte{127, 0, 0, 1}})
	},
	"socket": func(a []string) error {
		_, err := unix.Socket(number(a[0]), number(a[1]), number(a[2]))
		return err
	},
	"io-uring": func([]string) error {
		var params [120]byte
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
		return failed(errno)
	},
	"fork": func([]string) error {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return failed(errno)
	},
	"run": func(a []string) error {
		out, err := exec.Command(a[0], a[1:]...).CombinedOutput()
		if err != nil && len(out) > 0 {
			return fmt.Errorf("%w: %s", err, out)
		}
		return err
	},
	"exec": func(a []string) error { return syscall.Exec(a[0], a, nil) },
	"self": func([]string) error {
		out, err := exec.Command("/proc/self/exe", roleFlag+"nothing").CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) != "done" {
			return fmt.Errorf("it said %q", out)
		}
		return err
	},
	"exec-memory": func(a []string) error {
		fd, err := unix.MemfdCreate("x", 0)
		if err != nil {
			return err
		}
		text, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			return err
		}
		if _, err := unix.Write(fd, text); err != nil {
			return err
		}
		return syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), []string{"x", roleFlag + "nothing"}, nil)
	},
	"kill":   func(a []string) error { return syscall.Kill(number(a[0]), 0) },
	"ptrace": func(a []string) error { return syscall.PtraceAttach(number(a[0])) },
	"prlimit": func(a []string) error {
		return unix.Prlimit(number(a[0]), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}, nil)
	},
	"renice":  func(a []string) error { return unix.Setpriority(unix.PRIO_PROCESS, number(a[0]), 19) },
	"unshare": func([]string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"mount":   func(a []string) error { return unix.Mount("none", a[0], "tmpfs", 0, "") },
	"caps": func([]string) error {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		for _, line := range strings.Split(string(text), "\n") {
			if name, set, ok := strings.Cut(line, ":"); ok && (name == "CapEff" || name == "CapPrm") && strings.Trim(set, "\t 0") != "" {
				return errors.New(line)
			}
		}
		return nil
	},
	"abstract": func(a []string) error {
		c, err := net.Dial("unix", "@"+a[0])
		if err == nil {
			_ = c.Close()
		}
		return err
	},
	"memory": func(a []string) error {
		n := number(a[0]) << 20
		b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err == nil {
			b[n-1] = 1
		}
		return err
	},
	// Memory that is not private: a map of nothing, a device, a file in memory,
	// a segment of the whole user, a stack.
	"memory-shared": func(a []string) error {
		return mapped(-1, number(a[0])<<20, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	},
	"memory-stack": func(a []string) error {
		return mapped(-1, number(a[0])<<20, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_GROWSDOWN)
	},
	"memory-device": func(a []string) error {
		fd, err := unix.Open("/dev/zero", unix.O_RDWR, 0)
		if err != nil {
			return err
		}
		return mapped(fd, number(a[0])<<20, unix.MAP_SHARED)
	},
	"memory-file": func(a []string) error {
		fd, err := unix.MemfdCreate("x", noExecSeal)
		if err != nil {
			return err
		}
		if err := unix.Ftruncate(fd, int64(number(a[0]))<<20); err != nil {
			return err
		}
		return mapped(fd, number(a[0])<<20, unix.MAP_SHARED)
	},
	"memory-segment": func(a []string) error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, number(a[0])<<20, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	},
	"queue": func([]string) error {
		name, err := unix.BytePtrFromString("ferment-confine-" + strconv.Itoa(os.Getpid()))
		if err != nil {
			return err
		}
		_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), uintptr(unix.O_CREAT|unix.O_RDWR), 0o600, 0, 0, 0)
		if errno == 0 {
			_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
		}
		return failed(errno)
	},
	"chmod-open": func(a []string) error {
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		return f.Chmod(0o777)
	},
	"mark-open": func(a []string) error {
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		return unix.Fsetxattr(int(f.Fd()), "user.mark", []byte("x"), 0)
	},
	"sibling": func([]string) error {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD|unix.CLONE_PARENT), 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return failed(errno)
	},
	"limits": func([]string) error {
		for _, what := range []int{unix.RLIMIT_CORE, rlimitNice, rlimitRealtime} {
			var now unix.Rlimit
			if err := unix.Getrlimit(what, &now); err != nil {
				return err
			}
			fmt.Print(now.Cur, "/", now.Max, " ")
		}
		return nil
	},
	"fill": func(a []string) error {
		f, err := os.Create(a[0])
		if err != nil {
			return err
		}
		chunk := make([]byte, 1<<20)
		for range number(a[1]) {
			if _, err := f.Write(chunk); err != nil {
				return err
			}
		}
		return nil
	},
	"open-files": func(a []string) error {
		for range number(a[0]) {
			if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
				return err
			}
		}
		return nil
	},
	"descriptors": func([]string) error {
		var open []string
		for fd := 3; fd < 256; fd++ {
			if kind, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil && !strings.HasPrefix(kind, "anon_inode:") && !strings.HasPrefix(kind, "/sys/fs/cgroup/") { // the runtime's own
				open = append(open, kind)
			}
		}
		if len(open) > 0 {
			return errors.New(strings.Join(open, " "))
		}
		return nil
	},
	"tell": func(a []string) error {
		fmt.Println(strings.Join(append([]string{os.Args[0]}, a...), " "))
		fmt.Println(strings.Join(os.Environ(), " "))
		name, err := os.Readlink("/proc/self/exe")
		fmt.Println(name)
		return err
	},
}

// mapped maps memory and uses the end of it.
func mapped(fd, size, flags int) error {
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err == nil {
		b[size-1] = 1
	}
	return err
}

func failed(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
