package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// secretKeyFile is the file with the key of the hashes that replace secrets in the journal.
const secretKeyFile = "secrets.key"

const secretKeyBytes = 32

// secretKey returns the key of a data directory. It is created once: with another key, equal
// secrets would have other hashes (JRN-022). The error is that of the file system, or a
// *DirectoryError for a file that other users can read or that is not a key.
func secretKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, secretKeyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, secretKeyBytes)
		_, _ = rand.Read(key) // never fails
		err = replaceFile(path, hex.EncodeToString(key)+"\n")
		return key, err
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, &DirectoryError{
			Dir:     dir,
			Problem: fmt.Sprintf("has a %s that others can read (mode %04o, expected 0600)", secretKeyFile, mode),
			Fix:     "chmod 600 " + path,
			code:    ExitPermission,
		}
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != secretKeyBytes {
		return nil, &DirectoryError{
			Dir:     dir,
			Problem: fmt.Sprintf("has a %s that is not a key of %d bytes in hexadecimal digits", secretKeyFile, secretKeyBytes),
			Fix:     "restore it from a backup; without one move it away: secrets in later records then have other hashes",
			code:    ExitConfig,
		}
	}
	return key, nil
}
