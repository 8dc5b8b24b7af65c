package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"lukechampine.com/blake3"
)

// quarantineName returns the name of a file in quarantine. It has a hash of the
// content, so that the file can be verified, and the same content is kept once.
func quarantineName(name string, sum []byte) string { return fmt.Sprintf("%s.%x", name, sum[:8]) }

// moveAway moves a file to the quarantine.
func moveAway(path, quarantine string) error {
	sum, err := hashFile(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(quarantine, 0o700); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(quarantine, quarantineName(filepath.Base(path), sum)))
}

// MoveAway moves a file to the quarantine directory and makes the move durable.
func MoveAway(path, quarantine string) error {
	if err := moveAway(path, quarantine); err != nil {
		return ioError("quarantine", path, err)
	}
	if err := errors.Join(SyncDir(quarantine), SyncDir(filepath.Dir(path))); err != nil {
		return ioError("quarantine", path, err)
	}
	return nil
}

func hashFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := blake3.New(32, nil)
	_, err = io.CopyBuffer(struct{ io.Writer }{h}, f, make([]byte, 1<<20))
	return h.Sum(nil), err
}

// Altered reports whether the content of a file in the quarantine differs from
// its content when it was moved there. The file name contains the hash of that
// content.
func Altered(path string) (bool, error) {
	sum, err := hashFile(path)
	if err != nil {
		return false, err
	}
	name := filepath.Base(path)
	end := strings.LastIndexByte(name, '.')
	return end < 0 || name != quarantineName(name[:end], sum), nil
}

// keepCopy writes a file into the quarantine.
func (l *Log) keepCopy(name string, data []byte) error {
	sum := blake3.Sum256(data)
	f, err := os.CreateTemp(l.o.Quarantine, ".torn")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, l.o.sync(f), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(l.o.Quarantine, quarantineName(name+".torn", sum[:])))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return l.o.syncDir(l.o.Quarantine)
}
