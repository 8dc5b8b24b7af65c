package launch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listener is a listening TCP socket.
type Listener struct {
	Addr netip.Addr
	// PIDs are the processes that hold the socket, as far as this process may
	// see them, and Sessions their sessions.
	PIDs, Sessions []int
}

// Listeners returns the listening sockets on a port in this network namespace;
// empty on systems that do not report them.
func Listeners(port uint16) []Listener {
	found := map[string]*Listener{} // by inode
	var order []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		for inode, addr := range listening(table, port) {
			found[inode] = &Listener{Addr: addr}
			order = append(order, inode)
		}
	}
	if len(order) == 0 {
		return nil
	}
	owners(found)
	slices.Sort(order)
	all := make([]Listener, len(order))
	for i, inode := range order {
		all[i] = *found[inode]
	}
	return all
}

// tcpListen is the state of a listening socket in the tables of the kernel.
const tcpListen = "0A"

// listening returns the listening sockets on a port: inode to address.
func listening(table string, port uint16) map[string]netip.Addr {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	all := map[string]netip.Addr{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != tcpListen {
			continue
		}
		host, at, ok := strings.Cut(fields[1], ":")
		n, err := strconv.ParseUint(at, 16, 16)
		if !ok || err != nil || uint16(n) != port {
			continue
		}
		if addr, ok := tableAddr(host); ok {
			all[fields[9]] = addr
		}
	}
	return all
}

// tableAddr parses an address in the kernel's form: words in host byte order.
func tableAddr(text string) (netip.Addr, bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		return netip.Addr{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return addr.Unmap(), ok
}

// owners finds the processes that hold the sockets. Processes of other users,
// and those hidden from this process, are not found.
func owners(sockets map[string]*Listener) {
	dirs, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			target, err := os.Readlink(filepath.Join(dir, e.Name()))
			if err != nil {
				continue
			}
			inode, ok := bytes.CutPrefix([]byte(target), []byte("socket:["))
			if !ok {
				continue
			}
			l := sockets[string(bytes.TrimSuffix(inode, []byte("]")))]
			if l == nil || slices.Contains(l.PIDs, pid) {
				continue
			}
			l.PIDs = append(l.PIDs, pid)
			if s, ok := statOf(pid); ok && !slices.Contains(l.Sessions, s.session) {
				l.Sessions = append(l.Sessions, s.session)
			}
		}
	}
}

// KilledForMemory returns the number of processes that the kernel killed since
// boot because memory ran out. ok is false if the system does not report it.
func KilledForMemory() (n uint64, ok bool) {
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" {
			n, err := strconv.ParseUint(value, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
