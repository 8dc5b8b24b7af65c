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
// that it starts from now on, irrevocably. A second call restricts further.
// After an error the process may be restricted in part and should end.
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
		rank = Strict.Rank() // each layer as far as it is supported
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
		return err // with these capabilities a process can exceed its limits
	}
	// Last, because the other layers may need memory.
	return setLimit(unix.RLIMIT_DATA, p.Limits.Memory)
}

// noCore is the core file size, too small for a core file, which would contain
// secrets. With 0 the kernel still pipes the memory to a core handler, if the
// machine has one.
const noCore = 1

// Limit numbers that are the same on all architectures here.
const (
	rlimitNice     = 13
	rlimitRealtime = 14
)

// setLimits sets all limits except memory. It also forbids raised priorities.
func setLimits(l ResourceLimits, s Support) error {
	if unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: noCore, Max: noCore}) != nil {
		// The limit is 0 already, and only root may raise it.
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
		unix.RLIMIT_CPU:    l.CPUTime,
		unix.RLIMIT_NOFILE: l.OpenFiles,
		unix.RLIMIT_NPROC:  l.Processes,
		unix.RLIMIT_FSIZE:  l.FileSize,
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

// setLimit sets a limit permanently; 0 leaves it unchanged. A lower limit that
// is set already is kept.
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

// giveUpPrivileges sets no-new-privileges for all threads.
func giveUpPrivileges() error {
	if _, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return &Error{Layer: LayerPrivileges, Err: errno}
	}
	return nil
}

// dropCapabilities drops all capabilities except keep from all threads. With
// no-new-privileges nothing restores them, not even for root.
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
	if _, _, errno := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&have[0])),
		0); errno != 0 {
		return &Error{Layer: LayerCapabilities, Err: errno}
	}
	return nil
}

// Landlock rights. A rule on a file may contain only rights for files.
const (
	readFile  = llsys.AccessFSReadFile
	readDir   = readFile | llsys.AccessFSReadDir
	writeFile = readFile | llsys.AccessFSWriteFile | llsys.AccessFSTruncate
	writeDir  = readDir | writeFile | llsys.AccessFSRemoveDir | llsys.AccessFSRemoveFile | llsys.AccessFSMakeDir | llsys.AccessFSMakeReg |
		llsys.AccessFSMakeSock | llsys.AccessFSMakeFifo | llsys.AccessFSMakeSym | llsys.AccessFSRefer | llsys.AccessFSResolveUnix
	execute = llsys.AccessFSExecute
)

// revision returns the configuration that handles everything in a revision of
// Landlock.
func revision(abi int) landlock.Config {
	all := []landlock.Config{
		landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6,
		landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11,
	}
	return all[min(abi, len(all))-1]
}

// restrictFiles applies Landlock: files, ports, signals and sockets, as far as
// the kernel supports them.
func restrictFiles(p Policy, s Support, more *extra) error {
	config := revision(s.LandlockABI)
	r := rules{handled: config.HandledAccessFS}
	if more == nil {
		more = &extra{}
	}
	read, exec := slices.Concat(basics(), p.ReadPaths, more.read), slices.Concat(p.ExecPaths, more.exec)
	if len(p.ExecPaths) > 0 {
		needs, err := programs(p.ExecPaths)
		if err != nil {
			return err
		}
		read, exec = append(read, needs.read...), append(exec, needs.exec...)
	}
	if !p.offline() {
		read = append(read, networkPaths()...)
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

// programs returns what the programs in paths need besides themselves:
// interpreters, loaders, libraries.
func programs(paths []string) (extra, error) {
	need := extra{read: append(systemPaths(), "/etc/passwd", "/etc/group"), exec: loaders()}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			continue // the rule for it returns the error
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

// loaders returns the dynamic loaders of the system.
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
