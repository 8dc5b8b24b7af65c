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

// AttachEnv names the file to which a plugin that was started by hand, for
// example under a debugger, writes its AttachRecord.
const AttachEnv = "FERMENT_ATTACH"

// AttachRecord is the address of a plugin that was started by hand.
type AttachRecord struct {
	// Plugin and Version identify the plugin, PID its process.
	Plugin, Version string
	PID             int
	// Socket is the path of its socket. Each connection is served as if it were
	// a separate process. Only the owner may enter the directory of the socket.
	Socket string
	// Nonce differs for each start of the program.
	Nonce string
}

// attachVersion is the version of the record format.
const attachVersion = 1

// Write writes the record atomically to a file that only its owner may read.
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

// ReadAttachRecord reads a record. It returns :input/invalid if the file is
// missing, is accessible to other users or is not a record of this version,
// :runtime/not-ready if the socket of the process no longer exists, and an error
// of the file system, without a type, if the file cannot be read.
func ReadAttachRecord(path string) (AttachRecord, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return AttachRecord{}, contract.Errorf("input/invalid", "attach record %s: the file does not exist", path).
			WithHint("start the plugin with " + AttachEnv + "=" + path)
	case err != nil:
		return AttachRecord{}, fmt.Errorf("read attach record: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return AttachRecord{},
			contract.Errorf("input/invalid",
				"attach record %s: expected a file with access for its owner only, found mode %s", path,
				info.Mode()).
				WithHint("let the plugin write it: " + AttachEnv + "=" + path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return AttachRecord{}, fmt.Errorf("read attach record: %w", err)
	}
	v, err := edn.Read(text, edn.WithLimits(edn.Config))
	if err != nil {
		return AttachRecord{}, contract.Errorf("input/invalid", "read attach record %s: %w", path, err).
			WithHint("let the plugin write it: " + AttachEnv + "=" + path)
	}
	var r AttachRecord
	r.Plugin, _ = v.Key("plugin").AsString()
	r.Version, _ = v.Key("version").AsString()
	r.Socket, _ = v.Key("socket").AsString()
	r.Nonce, _ = v.Key("nonce").AsString()
	pid, _ := v.Key("pid").AsInt()
	r.PID = int(pid)
	if n, _ := v.Key("attach/v").AsInt(); n != attachVersion || r.Plugin == "" || r.Socket == "" || r.Nonce == "" {
		return AttachRecord{},
			contract.Errorf("input/invalid",
				"attach record %s: expected a map with :attach/v %d, :plugin, :socket and :nonce, found :attach/v %s, "+
					":plugin %q and :socket %q", path, attachVersion, v.Key("attach/v"), r.Plugin, r.Socket).
				WithHint("let the plugin write it: " + AttachEnv + "=" + path)
	}
	if _, err := os.Stat(r.Socket); errors.Is(err, fs.ErrNotExist) {
		return AttachRecord{},
			contract.Errorf("runtime/not-ready", "attach record %s: the socket of plugin %s (process %d) does not exist",
				path, r.Plugin, r.PID).WithHint("start the plugin again with " + AttachEnv + "=" + path)
	}
	return r, nil
}
