package plugin

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/edn"
)

// noConfig stands for the configuration of a plugin that is described without
// one.
const noConfig = "none"

// errNoFile is something that has a name and no bytes to hash or execute.
var errNoFile = errors.New("not a regular file")

const hashBuffer = 256 << 10

// hasher hashes files and remembers what it found as long as a file has the
// same identity, size and times. It is safe for many goroutines.
type hasher struct {
	mu   sync.Mutex
	seen map[string]hashed
}

type hashed struct {
	info fs.FileInfo
	hash string
}

func newHasher() *hasher { return &hasher{seen: map[string]hashed{}} }

// file is the hash of a file's bytes, as "b3:" and 64 hexadecimal digits.
func (h *hasher) file(path string) (string, error) {
	f, err := openFile(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	hash, _, err := h.opened(f, path)
	return hash, err
}

// openFile opens a regular file. What it is is looked at before, since opening a
// pipe waits for its other end, and opening a device may do something.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, errNoFile)
	}
	return os.Open(path)
}

// opened is the hash of an open file, and what it was when it was hashed.
func (h *hasher) opened(f *os.File, path string) (string, fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, fmt.Errorf("%s: %w", path, errNoFile)
	}
	h.mu.Lock()
	known, ok := h.seen[path]
	h.mu.Unlock()
	if ok && unchanged(known.info, info) {
		return known.hash, info, nil
	}
	hash, err := sum(f)
	if err != nil {
		return "", nil, fmt.Errorf("hash %s: %w", path, err)
	}
	if settled(info) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen[path] = hashed{info: info, hash: hash}
	}
	return hash, info, nil
}

// tick is longer than two changes of a file may lie apart and still show the same
// time: clocks of file systems are coarse.
const tick = 2 * time.Second

// settled tells whether a further change of a file would show in its times. Of
// one that was changed just now it might not.
func settled(info fs.FileInfo) bool {
	changed := info.ModTime()
	if at := changeTime(info); at != 0 {
		changed = time.Unix(0, at)
	}
	return time.Since(changed) > tick
}

// sum hashes what is left of a file.
func sum(f *os.File) (string, error) {
	sum := blake3.New(32, nil)
	// The hash works on many pieces at once if it gets them: three times as fast
	// as with the buffer that io.Copy would take.
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, make([]byte, hashBuffer)); err != nil {
		return "", err
	}
	return "b3:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// unchanged tells whether two looks at files saw the same file with the same
// content. The time of the last change is one that a program cannot set.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && changeTime(a) == changeTime(b)
}

// HashProgram is the hash of a program and of the files that it interprets, by
// which descriptions, answers and lock files name it. For a program alone it is
// the hash of its bytes, which other tools can check.
func HashProgram(program string, files []string) (string, error) {
	return newHasher().program(program, files)
}

// program is HashProgram with a memory.
func (h *hasher) program(path string, files []string) (string, error) {
	program, err := h.file(path)
	if err != nil {
		return "", err
	}
	return h.combined(program, files)
}

// combined is the hash of a program whose own is known, and its files.
func (h *hasher) combined(program string, files []string) (string, error) {
	if len(files) == 0 {
		return program, nil
	}
	parts := []edn.Value{edn.Text(program)}
	for _, path := range files {
		hash, err := h.file(path)
		if err != nil {
			return "", err
		}
		parts = append(parts, edn.Text(hash))
	}
	return edn.Hash(edn.Vector(parts...)), nil
}

// config is the hash of a finished configuration, its secrets nil, and of the
// files that it names. A file that is missing counts as missing: what the
// plugin makes of that is its business.
func (h *hasher) config(config edn.Value, files []string) (string, error) {
	if config.IsNil() {
		return noConfig, nil
	}
	if len(files) == 0 {
		return edn.Hash(config), nil
	}
	var contents edn.MapBuilder
	for _, path := range files {
		hash, err := h.file(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			contents.Set(edn.Text(path), edn.Nil())
		case err != nil:
			if info, serr := os.Stat(path); serr == nil && info.IsDir() {
				continue // a directory is a place, not content
			}
			return "", err
		default:
			contents.Set(edn.Text(path), edn.Text(hash))
		}
	}
	return edn.Hash(edn.Vector(config, contents.Map())), nil
}
