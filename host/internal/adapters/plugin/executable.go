package plugin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// executable is a program that was opened in order to start it. The hash is that of the opened
// file, even if the path later leads to another file.
type executable struct {
	file   *os.File
	path   string
	info   fs.FileInfo
	hash   string
	script bool // starts with #!, so the kernel opens it again by path
	// held are the open files of an interpreter, leased against writes until
	// close.
	held []*os.File
}

func (e *executable) close() {
	if e == nil {
		return
	}
	for _, f := range append(e.held, e.file) {
		_ = f.Close()
	}
}

// hold opens the files that the program interprets and leases them.
func (e *executable) hold(files []string) error {
	for _, path := range files {
		f, err := openFile(path)
		if err != nil {
			return err
		}
		e.held = append(e.held, f)
		if err := hold(f); err != nil {
			return err
		}
	}
	return nil
}

// open opens a program and hashes the opened file. With held, the program
// cannot be written from before the hash until the executable is closed, as far
// as [hold] is supported.
func (h *hasher) open(path string, held bool) (*executable, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	if held {
		if err := hold(f); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	e := &executable{file: f, path: path}
	if e.hash, e.info, err = h.opened(f, path); err == nil {
		var start [2]byte
		_, err = f.ReadAt(start[:], 0)
		e.script = string(start[:]) == "#!"
		if errors.Is(err, io.EOF) {
			err = nil // a file this short fails at the start
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return e, nil
}

// approve opens the program of a plugin and compares it, with the files that it interprets, with
// the hash in the lock file. The error is runtime/integrity if they differ. While the executable is
// open, leases protect the files from writes, as far as the system supports it.
func (d *Describer) approve(s Settings) (*executable, string, error) {
	exe, err := d.hash.open(s.Command[0], s.Approved != "")
	if err != nil {
		return nil, "", err
	}
	if s.Approved != "" {
		err = exe.hold(s.Files)
	}
	binary := ""
	if err == nil {
		binary, err = d.hash.combined(exe.hash, s.Files)
	}
	if err == nil && s.Approved != "" && binary != s.Approved {
		err = d.notApproved(s, binary, "it was changed after the lock file was read")
	}
	if err != nil {
		exe.close()
		return nil, "", err
	}
	return exe, binary, nil
}

// notApproved returns the error for a program whose hash found differs from the approved one. It
// names the first part that differs, if the hashes of the parts are known.
func (d *Describer) notApproved(s Settings, found, why string) *contract.Error {
	parts := append([]string{s.Command[0]}, s.Files...)
	for i, want := range s.ApprovedParts[:min(len(s.ApprovedParts), len(parts))] {
		if got, err := d.hash.file(parts[i]); err == nil && got != want {
			return notApproved(parts[i], want, got, why)
		}
	}
	return notApproved(s.Command[0], s.Approved, found, why)
}

// notApproved returns the error for a file whose hash differs from the approved one.
func notApproved(path, want, found, why string) *contract.Error {
	return contract.Errorf("runtime/integrity", "%s is not the file that was approved: expected %s, found %s: %s",
		path, want, found, why).
		WithDetail("path", edn.Text(path)).WithDetail("expected", edn.Text(want)).
		WithDetail("found", edn.Text(found)).
		WithHint("if the change is intended, approve it with \"ferment plugin lock\", then reload or restart the host")
}

// same compares the running process with the approved program. The process was started by path, so
// the file could have been replaced in between; an interpreter also reads its files by path.
func (d *Describer) same(s Settings, exe *executable, pid int) error {
	if s.Approved == "" {
		return nil
	}
	if !exe.script {
		running, ok, err := d.hash.running(exe, pid)
		if err != nil {
			return fmt.Errorf("hash the program of process %d: %w", pid, err)
		}
		if ok && running != exe.hash {
			return notApproved(s.Command[0], exe.hash, running, "the process runs another program")
		}
		if ok && len(s.Files) == 0 {
			return nil
		}
	}
	binary, err := d.hash.program(s.Command[0], s.Files)
	if err != nil {
		return fmt.Errorf("hash the program again after its start: %w", err)
	}
	if binary != s.Approved {
		return d.notApproved(s, binary, "it was changed while it was started")
	}
	return nil
}

// running returns the hash of the program of a process. ok is false if the system does not show it.
func (h *hasher) running(exe *executable, pid int) (hash string, ok bool, err error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return "", false, nil // another system, or a process that hides it
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", false, err
	}
	if settled(info) && unchanged(exe.info, info) {
		return exe.hash, true, nil
	}
	hash, err = sum(f)
	return hash, true, err
}
