package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

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

// Create makes a data directory. If dir has a workspace, the error is
// workspace/exists.
func Create(dir string, who Identity) error {
	who.Format = format
	if Exists(dir) {
		return contract.Errorf("workspace/exists", "the directory already has a workspace").WithOp("store", dir)
	}
	v, err := edn.Encode(who)
	if err != nil {
		return contract.Errorf("runtime/internal", "encode the identity of the workspace: %w", err)
	}
	if err = os.MkdirAll(filepath.Join(dir, logDir), 0o700); err == nil {
		err = os.MkdirAll(filepath.Join(dir, quarantineDir), 0o700)
	}
	if err == nil && filepath.Base(filepath.Dir(dir)) == DataParent {
		err = ignoreAll(filepath.Dir(dir))
	}
	if err == nil { // of a store that was there before
		err = os.RemoveAll(filepath.Join(dir, damageMark))
	}
	if err == nil {
		err = touch(filepath.Join(dir, lockFile))
	}
	if err == nil { // the last step: a directory without this file is no workspace
		err = renameio.WriteFile(filepath.Join(dir, identityFile), append(v.Canonical(), '\n'), 0o600)
	}
	if err == nil {
		err = errors.Join(log.SyncDir(dir), log.SyncDir(filepath.Dir(dir)))
	}
	if err != nil {
		return contract.Errorf("store/io", "%w", err).WithOp("store: create", dir)
	}
	return nil
}

// Exists reports whether a directory is a data directory, including one that
// lost its file workspace.edn, so that a new store never hides the content of
// its log.
func Exists(dir string) bool { return exists(filepath.Join(dir, identityFile)) || hasLog(dir) }

// hasLog reports whether the log directory of a data directory contains a file.
func hasLog(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, logDir))
	return err == nil && len(entries) > 0
}

// ignoreAll writes a .gitignore file that excludes everything in a directory, unless the directory
// has such a file.
func ignoreAll(dir string) error {
	path := filepath.Join(dir, ".gitignore")
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return renameio.WriteFile(path, []byte("*\n"), 0o644)
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
