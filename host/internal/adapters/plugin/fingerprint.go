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

// noConfig is used in place of the hash of the configuration if a plugin is described without one.
const noConfig = "none"

// errNoFile is the error for a path that is not a regular file.
var errNoFile = errors.New("not a regular file")

const hashBuffer = 256 << 10

// hasher hashes files and caches each hash while the identity, size and times of the file are
// unchanged. It is safe for concurrent use.
type hasher struct {
	mu   sync.Mutex
	seen map[string]hashed
}

type hashed struct {
	info fs.FileInfo
	hash string
}

func newHasher() *hasher { return &hasher{seen: map[string]hashed{}} }

// file returns the hash of a file's bytes, as "b3:" and 64 hexadecimal digits.
func (h *hasher) file(path string) (string, error) {
	f, err := openFile(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	hash, _, err := h.opened(f, path)
	return hash, err
}

// openFile opens a regular file. It checks the type before, because opening a
// pipe blocks until its other end is opened, and opening a device may have
// effects.
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

// opened returns the hash of an open file and its info at that time.
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

// tick is longer than the coarsest resolution of file times: two changes with a shorter distance
// may have the same time.
const tick = 2 * time.Second

// settled reports whether a further change of the file would change its times.
func settled(info fs.FileInfo) bool {
	changed := info.ModTime()
	if at := changeTime(info); at != 0 {
		changed = time.Unix(0, at)
	}
	return time.Since(changed) > tick
}

// sum hashes a file from its current offset on.
func sum(f *os.File) (string, error) {
	sum := blake3.New(32, nil)
	// blake3 hashes large pieces in parallel, which is three times as fast as with the buffer of
	// io.Copy.
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, make([]byte, hashBuffer)); err != nil {
		return "", err
	}
	return "b3:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// unchanged reports whether a and b describe the same file with the same content. It relies on the
// change time, which programs cannot set.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && changeTime(a) == changeTime(b)
}

// HashProgram returns the hash of a program and of the files that it
// interprets, which identifies them in descriptions, answers and lock files.
// For a program alone it is the hash of its bytes, which other tools can check.
func HashProgram(program string, files []string) (string, error) {
	return newHasher().program(program, files)
}

// program is HashProgram with a cache.
func (h *hasher) program(path string, files []string) (string, error) {
	program, err := h.file(path)
	if err != nil {
		return "", err
	}
	return h.combined(program, files)
}

// combined returns the hash of a program, given its own hash, and its files.
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

// config returns the hash of a complete configuration, with nil for secrets, and of the files that
// it names. A missing file counts as content nil; the plugin decides how to handle it.
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
				continue // a directory has no content to hash
			}
			return "", err
		default:
			contents.Set(edn.Text(path), edn.Text(hash))
		}
	}
	return edn.Hash(edn.Vector(config, contents.Map())), nil
}
