package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// AttachEnv names the file into which a plugin that was started by hand, for
// example under a debugger, writes where a host finds it.
const AttachEnv = "FERMENT_ATTACH"

// AttachRecord says where a plugin waits that nobody starts.
type AttachRecord struct {
	// Plugin and Version are the plugin's own, PID its process.
	Plugin, Version string
	PID             int
	// Socket is where it waits: each connection is one life of the plugin, as a
	// process of its own would be. It lies in a directory that only its owner
	// may enter.
	Socket string
	// Nonce is another one for each start, so that two starts of one program
	// are told apart.
	Nonce string
}

// attachVersion is the form of a record.
const attachVersion = 1

// Write puts the record into a file that only its owner may read. It replaces
// the file in one step.
func (r AttachRecord) Write(path string) error {
	text := edn.MustMap(
		edn.K("attach/v"), edn.Int(attachVersion), edn.K("plugin"), edn.Text(r.Plugin), edn.K("version"), edn.Text(r.Version),
		edn.K("pid"), edn.Int(int64(r.PID)), edn.K("socket"), edn.Text(r.Socket), edn.K("nonce"), edn.Text(r.Nonce),
	).Canonical()
	f, err := os.CreateTemp(filepath.Dir(path), ".attach-") // mode 0600
	if err != nil {
		return fmt.Errorf("write attach record: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write attach record: %w", err)
	}
	return nil
}

// ReadAttachRecord reads a record. A file that others may read or write, or
// that is missing or no record of this version, is refused as :input/invalid
// with what to do; one whose plugin is gone is :runtime/not-ready.
func ReadAttachRecord(path string) (AttachRecord, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return AttachRecord{}, contract.Errorf("input/invalid", "attach record %s: there is no such file", path).
			WithHint("start the plugin with " + AttachEnv + "=" + path)
	case err != nil:
		return AttachRecord{}, fmt.Errorf("read attach record: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return AttachRecord{}, contract.Errorf("input/invalid", "attach record %s: it is not a file of its owner alone (mode %s)", path, info.Mode()).
			WithHint("let the plugin write it: " + AttachEnv + "=" + path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return AttachRecord{}, fmt.Errorf("read attach record: %w", err)
	}
	v, err := edn.Read(text, edn.WithLimits(edn.Config))
	if err != nil {
		return AttachRecord{}, contract.Errorf("input/invalid", "attach record %s: %w", path, err)
	}
	var r AttachRecord
	r.Plugin, _ = v.Key("plugin").AsString()
	r.Version, _ = v.Key("version").AsString()
	r.Socket, _ = v.Key("socket").AsString()
	r.Nonce, _ = v.Key("nonce").AsString()
	pid, _ := v.Key("pid").AsInt()
	r.PID = int(pid)
	if n, _ := v.Key("attach/v").AsInt(); n != attachVersion || r.Plugin == "" || r.Socket == "" || r.Nonce == "" {
		return AttachRecord{}, contract.Errorf("input/invalid", "attach record %s: expected a map with :attach/v %d, :plugin, :socket and :nonce", path, attachVersion)
	}
	if _, err := os.Stat(r.Socket); errors.Is(err, fs.ErrNotExist) {
		return AttachRecord{}, contract.Errorf("runtime/not-ready", "attach record %s: plugin %s (process %d) does not wait any more", path, r.Plugin, r.PID).
			WithHint("start it again with " + AttachEnv + "=" + path)
	}
	return r, nil
}
