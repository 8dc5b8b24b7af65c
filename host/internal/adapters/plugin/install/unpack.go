package install

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
)

// file is one unpacked file.
type file struct {
	path       string // relative to the tree, with slashes
	executable bool
}

// unpacking is the state of one unpack.
type unpacking struct {
	ctx   context.Context
	root  *os.Root
	left  int64 // number of bytes that may still be written
	files []file
	seen  map[string]bool
	count int
}

func refuse(format string, args ...any) error {
	return contract.Errorf("input/invalid", format, args...)
}

// alone is the file name of a program that was not in an archive. A fixed name makes the hash of
// the tree independent of the original name.
const alone = "plugin"

// unpack copies a program, or the files of an archive, into an empty directory.
func unpack(ctx context.Context, source, dir string) ([]file, error) {
	// Checked before Open, which would block on a pipe without a writer.
	if info, err := os.Stat(source); err == nil && !info.Mode().IsRegular() {
		return nil, refuse("%s is not a regular file", source)
	}
	f, err := os.Open(source)
	if err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("install: %w", err)
	case !info.Mode().IsRegular():
		return nil, refuse("%s is not a regular file", source)
	case info.Size() > MaxArchive:
		return nil, refuse("%s has %d bytes, over the limit of %d", source, info.Size(), int64(MaxArchive))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	defer func() { _ = root.Close() }()
	u := &unpacking{ctx: ctx, root: root, left: MaxTotal, seen: map[string]bool{}}
	start := make([]byte, 4)
	n, _ := f.ReadAt(start, 0)
	switch start = start[:n]; {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		err = u.tarGz(f)
	case bytes.HasPrefix(start, []byte("PK\x03\x04")), bytes.HasPrefix(start, []byte("PK\x05\x06")):
		err = u.zip(f, info.Size())
	case n == 0:
		return nil, refuse("%s is empty", source)
	default:
		err = u.take(alone, true, f)
	}
	if err != nil {
		return nil, fmt.Errorf("install %s: %w", source, err)
	}
	if len(u.files) == 0 {
		return nil, refuse("%s holds no file", source)
	}
	return u.files, nil
}

func (u *unpacking) tarGz(f io.Reader) error {
	zr, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return refuse("the archive is damaged: %s", err)
	}
	// Headers count too, because a decompression bomb may consist of headers only.
	bounded := &io.LimitedReader{R: zr, N: MaxTotal + MaxEntries*1024}
	tr := tar.NewReader(bounded)
	for {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && bounded.N == 0:
			return tooMuch()
		case err != nil:
			return refuse("the archive is damaged: %s", err)
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = u.take(h.Name, fs.FileMode(h.Mode)&0o111 != 0, tr)
		case tar.TypeDir:
			err = u.directory(h.Name)
		case tar.TypeXGlobalHeader:
		default:
			err = refuse("%q in the archive is neither a file nor a directory: links and devices are not installed",
				clip(h.Name))
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacking) zip(f *os.File, size int64) error {
	if err := directorySize(f, size); err != nil {
		return err
	}
	zr, err := zip.NewReader(f, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names are checked below
		return refuse("the archive is damaged: %s", err)
	}
	if len(zr.File) > MaxEntries {
		return refuse("the archive has more than %d entries", MaxEntries)
	}
	for _, entry := range zr.File {
		if err := u.zipEntry(entry); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacking) zipEntry(entry *zip.File) error {
	switch mode := entry.Mode(); {
	case mode.IsDir():
		return u.directory(entry.Name)
	case !mode.IsRegular():
		return refuse("%q in the archive is neither a file nor a directory: links and devices are not installed",
			clip(entry.Name))
	default:
		r, err := entry.Open()
		if err != nil {
			return refuse("the archive is damaged at %q: %s", clip(entry.Name), err)
		}
		defer func() { _ = r.Close() }()
		return u.take(entry.Name, mode&0o111 != 0, r)
	}
}

// maxDirectory is the maximum size of the central directory at the end of a zip archive, which the
// library reads at once.
const maxDirectory = 4 << 20

// directorySize checks the size of the central directory.
func directorySize(f io.ReaderAt, size int64) error {
	const record = 22
	tail := make([]byte, min(size, record+1<<16))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || len(tail)-at < record {
		return refuse("the archive is damaged: it has no end")
	}
	length, offset := int64(binary.LittleEndian.Uint32(tail[at+12:])), int64(binary.LittleEndian.Uint32(tail[at+16:]))
	if length > maxDirectory || size-offset > maxDirectory+record+1<<16 {
		return refuse("the list of entries of the archive is over the limit of %d bytes", maxDirectory)
	}
	return nil
}

// name checks a name in an archive and returns its clean form.
func name(raw string) (string, error) {
	clean := path.Clean(strings.TrimSuffix(raw, "/"))
	switch {
	case raw == "" || len(raw) > MaxPath || !utf8.ValidString(raw) || strings.ContainsAny(raw, "\x00\\:"):
		return "", refuse("%q is not a valid name of an archive entry", clip(raw))
	case path.IsAbs(raw) || !filepath.IsLocal(filepath.FromSlash(clean)) || strings.Contains("/"+raw+"/", "/../"):
		return "", refuse("%q leads out of the archive", clip(raw))
	case strings.Count(clean, "/") >= MaxDepth:
		return "", refuse("%q nests deeper than %d directories", clip(raw), MaxDepth)
	}
	return clean, nil
}

func (u *unpacking) enter(raw string) (string, error) {
	if err := u.ctx.Err(); err != nil {
		return "", err
	}
	if u.count++; u.count > MaxEntries {
		return "", refuse("the archive has more than %d entries", MaxEntries)
	}
	return name(raw)
}

func (u *unpacking) directory(raw string) error {
	if strings.Trim(raw, "./") == "" && !strings.Contains(raw, "..") {
		return nil // the root
	}
	clean, err := u.enter(raw)
	if err != nil {
		return err
	}
	return u.mkdir(clean)
}

func (u *unpacking) mkdir(dir string) error {
	at := ""
	for step := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, step)
		if err := u.root.Mkdir(at, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// take writes one file of the archive.
func (u *unpacking) take(raw string, executable bool, r io.Reader) error {
	clean, err := u.enter(raw)
	if err != nil {
		return err
	}
	if u.seen[clean] {
		return refuse("%q is twice in the archive", clip(raw))
	}
	u.seen[clean] = true
	if dir := path.Dir(clean); dir != "." {
		if err := u.mkdir(dir); err != nil {
			return err
		}
	}
	out, err := u.root.OpenFile(clean, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return refuse("%q is twice in the archive", clip(raw))
	}
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(&canceled{u.ctx, r}, u.left+1))
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if u.left -= n; err == nil && u.left < 0 {
		err = tooMuch()
	}
	var disk *fs.PathError
	if err != nil && !errors.As(err, &disk) && contract.AsError(err).Type == "runtime/internal" && u.ctx.Err() == nil {
		err = refuse("the archive is damaged at %q: %s", clip(raw), err)
	}
	u.files = append(u.files, file{clean, executable})
	return err
}

func tooMuch() error { return refuse("the archive holds more than %d bytes", int64(MaxTotal)) }

// canceled is a reader that fails when its context has ended.
type canceled struct {
	ctx context.Context
	r   io.Reader
}

func (c *canceled) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
