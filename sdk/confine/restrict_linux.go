package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// Apply restricts the calling process, all of its threads, and every process
// that it starts from now on; nothing takes it back. A second call narrows
// further. After an error the process may be restricted in part and should end.
func Apply(p Policy) error {
	return restrict(p, Probe(), nil, nil)
}

// restrict applies the layers. pass lets one execution through.
func restrict(p Policy, s Support, more *extra, pass *cookie) error {
	if err := p.ready(s); err != nil {
		return err
	}
	rank := min(p.Level.Rank(), s.Best().Rank())
	if p.BestEffort && p.Level == Strict {
		rank = Strict.Rank() // each layer by itself, as far as it goes
	}
	if rank < Limits.Rank() {
		return nil
	}
	if err := setLimits(p.Limits, s); err != nil {
		return err
	}
	if err := giveUpPrivileges(); err != nil {
		return err
	}
	if rank == Strict.Rank() {
		if s.LandlockABI > 0 {
			if err := restrictFiles(p, s, more); err != nil {
				return err
			}
		}
		if err := dropCapabilities(0); err != nil {
			return err
		}
		if s.Seccomp {
			if err := installFilter(systemCalls(p, pass)); err != nil {
				return err
			}
		}
	} else if err := dropCapabilities(^uint64(1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_SYS_ADMIN)); err != nil {
		return err // with these a process is not held to its limits
	}
	// The last of all: what came before may have needed memory.
	return setLimit(unix.RLIMIT_DATA, p.Limits.Memory)
}

// noCore is the size of a core file that is not made: they would hold secrets.
// With 0 the kernel makes none either, but hands the memory to a program for
// core files all the same if the machine has one.
const noCore = 1

// The numbers of limits that are the same on all architectures here.
const (
	rlimitNice     = 13
	rlimitRealtime = 14
)

// setLimits sets all limits but that of memory. Nothing may go before the other
// processes of the machine.
func setLimits(l ResourceLimits, s Support) error {
	if unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: noCore, Max: noCore}) != nil {
		// It is at 0 already, and only root may raise it.
		if err := lower(unix.RLIMIT_CORE, 0); err != nil {
			return err
		}
	}
	for _, what := range []int{rlimitNice, rlimitRealtime} {
		if err := lower(what, 0); err != nil {
			return err
		}
	}
	for what, value := range map[int]uint64{
		unix.RLIMIT_CPU: l.CPUTime, unix.RLIMIT_NOFILE: l.OpenFiles, unix.RLIMIT_NPROC: l.Processes, unix.RLIMIT_FSIZE: l.FileSize,
	} {
		if what == unix.RLIMIT_NPROC && !s.Processes {
			continue
		}
		if err := setLimit(what, value); err != nil {
			return err
		}
	}
	return nil
}

// setLimit sets a limit for good; 0 leaves it as it is. A lower limit that
// holds already is kept.
func setLimit(what int, value uint64) error {
	if value == 0 {
		return nil
	}
	return lower(what, value)
}

// lower sets a limit, which may be 0.
func lower(what int, value uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(what, &now); err != nil {
		return &Error{Layer: LayerLimits, Err: err}
	}
	value = min(value, now.Max)
	if err := unix.Setrlimit(what, &unix.Rlimit{Cur: value, Max: value}); err != nil {
		return &Error{Layer: LayerLimits, Err: err}
	}
	return nil
}

// giveUpPrivileges makes sure, for all threads, that no program gives new ones.
func giveUpPrivileges() error {
	if _, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return &Error{Layer: LayerPrivileges, Err: errno}
	}
	return nil
}

// dropCapabilities takes every capability from all threads but those in keep.
// Without new privileges nothing gives them back, not even to root.
func dropCapabilities(keep uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return &Error{Layer: LayerCapabilities, Err: err}
	}
	for i := range have {
		mask := uint32(keep >> (32 * i))
		have[i].Effective &= mask
		have[i].Permitted &= mask
		have[i].Inheritable &= mask
	}
	pinned := new(runtime.Pinner)
	pinned.Pin(&header)
	pinned.Pin(&have)
	defer pinned.Unpin()
	if _, _, errno := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&have[0])), 0); errno != 0 {
		return &Error{Layer: LayerCapabilities, Err: errno}
	}
	return nil
}

// Rights of Landlock. A rule on a file may hold only those that files know.
const (
	readFile  = llsys.AccessFSReadFile
	readDir   = readFile | llsys.AccessFSReadDir
	writeFile = readFile | llsys.AccessFSWriteFile | llsys.AccessFSTruncate
	writeDir  = readDir | writeFile | llsys.AccessFSRemoveDir | llsys.AccessFSRemoveFile | llsys.AccessFSMakeDir | llsys.AccessFSMakeReg |
		llsys.AccessFSMakeSock | llsys.AccessFSMakeFifo | llsys.AccessFSMakeSym | llsys.AccessFSRefer | llsys.AccessFSResolveUnix
	execute = llsys.AccessFSExecute
)

// revision is the configuration that handles all that a revision of Landlock
// knows.
func revision(abi int) landlock.Config {
	all := []landlock.Config{
		landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6,
		landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11,
	}
	return all[min(abi, len(all))-1]
}

// restrictFiles applies Landlock: files, ports, signals and sockets, as far as
// the kernel knows them.
func restrictFiles(p Policy, s Support, more *extra) error {
	config := revision(s.LandlockABI)
	r := rules{handled: config.HandledAccessFS}
	if more == nil {
		more = &extra{}
	}
	read, exec := slices.Concat(Basics(), p.ReadPaths, more.read), slices.Concat(p.ExecPaths, more.exec)
	if len(p.ExecPaths) > 0 {
		needs, err := programs(p.ExecPaths)
		if err != nil {
			return err
		}
		read, exec = append(read, needs.read...), append(exec, needs.exec...)
	}
	if !p.offline() {
		read = append(read, NetworkPaths()...)
	}
	for _, group := range []struct {
		paths     []string
		file, dir landlock.AccessFSSet
		mustExist bool
	}{
		{paths: read, file: readFile, dir: readDir},
		{paths: p.ListPaths, dir: llsys.AccessFSReadDir},
		{paths: exec, file: readFile | execute, dir: readDir | execute},
		{paths: p.WritePaths, file: writeFile, dir: writeDir, mustExist: true},
		{paths: devices(p), file: writeFile},
	} {
		for _, path := range group.paths {
			if err := r.add(path, group.file, group.dir, group.mustExist); err != nil {
				return err
			}
		}
	}
	if s.LandlockABI >= abiTCP {
		for _, port := range p.ConnectPorts {
			r.list = append(r.list, landlock.ConnectTCP(port))
		}
		for _, port := range p.BindPorts {
			r.list = append(r.list, landlock.BindTCP(port))
		}
	}
	if s.UDP() && p.Network == Ports {
		r.list = append(r.list, landlock.BindUDP(0), landlock.ConnectSendUDP(53))
		for _, port := range p.ConnectPorts {
			r.list = append(r.list, landlock.ConnectSendUDP(port))
		}
	}
	if err := config.Restrict(r.list...); err != nil {
		return &Error{Layer: LayerFiles, Err: err}
	}
	return nil
}

// rules collects the rules of a ruleset.
type rules struct {
	handled landlock.AccessFSSet
	list    []landlock.Rule
}

func (r *rules) add(path string, file, dir landlock.AccessFSSet, mustExist bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !mustExist:
		return nil
	case err != nil:
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return &Error{Layer: LayerFiles, Path: path, Err: err}
	}
	rights := file
	if info.IsDir() {
		rights = dir
	}
	if rights &= r.handled; rights != 0 {
		r.list = append(r.list, landlock.PathAccess(rights, path).IgnoreIfMissing())
	}
	return nil
}

// programs gives what the programs in a list need besides themselves: their
// interpreters, the loader, the libraries.
func programs(paths []string) (extra, error) {
	need := extra{read: append(SystemPaths(), "/etc/passwd", "/etc/group"), exec: loaders()}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			continue // a rule for it says what is wrong, if anything is
		}
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() {
			if form, ferr := formOf(f, path); ferr == nil {
				need.add(form.extra)
			}
			need.read = append(need.read, homes(path)...)
		}
		_ = f.Close()
	}
	return need, nil
}

// loaders are the programs that the kernel starts in place of dynamic ones.
func loaders() []string {
	var found []string
	for _, pattern := range []string{"/lib64/ld-*.so*", "/lib/ld-*.so*", "/lib/*-linux-*/ld-*.so*"} {
		matches, err := filepath.Glob(pattern)
		if err == nil {
			found = append(found, matches...)
		}
	}
	return found
}
