package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Names in a data directory.
const (
	identityFile  = "workspace.edn"
	logDir        = "log"
	indexFile     = "index.db"
	cacheFile     = "stat.cache"
	sealFile      = "seal"
	lockFile      = "LOCK"
	quarantineDir = "quarantine"
)

// format is the version of the data directory.
const format = 1

// Identity is the content of workspace.edn.
type Identity struct {
	ID     string `edn:"workspace/id"`
	Scheme string `edn:"scheme"`
	Format int    `edn:"format"`
}

// DataDir returns the default data directory of a workspace, which is inside
// it. DataParent, its parent, is not part of the tree.
func DataDir(root string) string { return filepath.Join(root, DataParent, "workspace") }

// DataParent is the directory in a workspace that holds its data directory.
const DataParent = ".ferment"

// Create makes a data directory. If dir has a workspace, the error is workspace/exists, and
// store/unsafe if it is a default one and contains or is reached by a symbolic link.
func Create(dir string, who Identity) error {
	who.Format = format
	have, err := Exists(dir)
	if err != nil {
		return err
	}
	if have {
		return contract.Errorf("workspace/exists", "the directory already has a workspace").WithOp("store", dir)
	}
	v, err := edn.Encode(who)
	if err != nil {
		return contract.Errorf("runtime/internal", "encode the identity of the workspace: %w", err)
	}
	at, err := openDir(dir, true)
	if err != nil {
		return asOpenError(dir, err)
	}
	defer func() { _ = at.Close() }()
	if err := fill(at, append(v.Canonical(), '\n')); err != nil {
		return contract.Errorf("store/io", "%w", err).WithOp("store: create", dir)
	}
	if err := errors.Join(log.SyncDir(dir), log.SyncDir(filepath.Dir(dir))); err != nil {
		return contract.Errorf("store/io", "%w", err).WithOp("store: create", dir)
	}
	return nil
}

// fill makes the files of a new store in its data directory.
func fill(at *os.Root, identity []byte) error {
	for _, name := range []string{logDir, quarantineDir} {
		if err := at.MkdirAll(name, 0o700); err != nil {
			return err
		}
	}
	if err := at.RemoveAll(damageMark); err != nil { // of a store that was there before
		return err
	}
	lock, err := at.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := lock.Close(); err != nil {
		return err
	}
	return writeFile(at, identityFile, identity, 0o600) // the last step: without this file it is no workspace
}

// Exists reports whether a directory is a data directory, including one that
// lost its file workspace.edn, so that a new store never hides the content of
// its log. The error is store/unsafe for a default one that contains or is reached by a
// symbolic link.
func Exists(dir string) (bool, error) {
	at, err := openDir(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, asOpenError(dir, err)
	}
	_ = at.Close()
	return exists(filepath.Join(dir, identityFile)) || hasLog(dir), nil
}

// hasLog reports whether the log directory of a data directory contains a file.
func hasLog(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, logDir))
	return err == nil && len(entries) > 0
}

// ignoreAll writes a .gitignore file that excludes everything in a directory, unless the directory
// has such a file.
func ignoreAll(dir *os.Root) error {
	const name = ".gitignore"
	if _, err := dir.Lstat(name); err == nil {
		return nil
	}
	return writeFile(dir, name, []byte("*\n"), 0o644)
}

func touch(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// readIdentity returns the identity of a data directory and the bytes of its
// file.
func readIdentity(dir string) (who Identity, scheme id.Scheme, text []byte, err error) {
	text, err = os.ReadFile(filepath.Join(dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) && hasLog(dir) {
		return who, scheme, nil, corrupt(identityFile, "the file is missing, but the log contains its text").
			WithHint("`ferment workspace repair` restores it")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return who, scheme, nil, contract.Errorf("workspace/not-found", "the directory has no file %s", identityFile).
			WithOp("store", dir)
	}
	if err != nil {
		return who, scheme, nil, contract.Errorf("store/io", "%w", err).WithOp("store", dir)
	}
	who, scheme, err = parseIdentity(text)
	return who, scheme, text, err
}

// parseIdentity reads the text of workspace.edn.
func parseIdentity(text []byte) (who Identity, scheme id.Scheme, err error) {
	v, err := edn.Read(text)
	if err == nil {
		err = edn.Decode(v, &who)
	}
	if err == nil && who.Format > format {
		return who, scheme, contract.Errorf("store/version", "the store has format %d, this version supports up to %d",
			who.Format, format).WithOp("store", identityFile)
	}
	if err == nil {
		scheme, err = id.ParseScheme(who.Scheme)
	}
	if err != nil {
		return who, scheme, corrupt(identityFile, "%w", err)
	}
	return who, scheme, nil
}

// lostIdentity returns the text of a damaged workspace.edn from the first record of the log, which
// contains it after its hash. The error is store/corrupt if the log does not contain it.
func lostIdentity(dir string) (text []byte, err error) {
	for _, alg := range []id.Alg{id.BLAKE3, id.SHA256} {
		_, err = log.Salvage(filepath.Join(dir, logDir), alg, func(t *log.Transaction) error {
			if len(t.Records) == 0 || t.Records[0].Kind != kindWorkspace || len(t.Records[0].Payload) < id.ChainSize {
				return errReached
			}
			text = t.Records[0].Payload[id.ChainSize:]
			return errReached
		})
		if text != nil {
			return text, nil
		}
	}
	if err == nil || errors.Is(err, errReached) {
		err = corrupt(identityFile, "the file is damaged, and the log does not contain its text")
	}
	return nil, err
}

// corrupt returns an error about a damaged file.
func corrupt(file, reason string, args ...any) *contract.Error {
	return contract.Errorf("store/corrupt", reason, args...).WithOp("store", file).WithDetail("file", edn.Text(file))
}
