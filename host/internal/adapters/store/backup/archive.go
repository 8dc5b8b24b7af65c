package backup

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// pack writes the folder of a backup into a tar archive, the manifest first.
func pack(ctx context.Context, dir, to string, m *Manifest) (err error) {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := tar.NewWriter(out)
	add := func(name string, mode fs.FileMode) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		in, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		head := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(mode), ModTime: m.At, Format: tar.FormatPAX}
		if err := w.WriteHeader(&head); err != nil {
			return err
		}
		_, err = io.Copy(w, in)
		return err
	}
	if err := add(manifestName, 0o600); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := add(path.Join(dataName, f.Path), modeOf(f.Runs)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Sync()
}

// unpack writes the files of an archive into an empty folder. It does not verify them: that is done
// with the hashes of the manifest.
func unpack(ctx context.Context, archive, dir string) error {
	in, err := os.Open(archive)
	if err != nil {
		return invalid("open %s: %w", archive, err)
	}
	defer func() { _ = in.Close() }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	a := counted{from: in, name: archive, size: info.Size()}
	for r, end := tar.NewReader(&a), int64(0); ; end = a.blocks() {
		head, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return cmp.Or(ctx.Err(), a.ends(end+2*blockSize))
		case errors.Is(err, io.ErrUnexpectedEOF):
			return a.truncated("the rest of the header of an entry")
		case err != nil:
			return invalid("%s is not an archive of a backup: %w", archive, err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		name := filepath.FromSlash(head.Name)
		if head.Typeflag != tar.TypeReg || !filepath.IsLocal(name) {
			return invalid("%s has an entry %.200q that is not a file of a backup", archive, head.Name)
		}
		err = writeTo(root, name, 0o600, r)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return a.truncated(fmt.Sprintf("all %d bytes of its entry %.200q", head.Size, head.Name))
		case errors.Is(err, fs.ErrExist):
			return invalid("%s has the entry %.200q twice", archive, head.Name)
		case err != nil:
			return err
		}
	}
}

// blockSize is the block size of a tar archive. Two empty blocks mark its end.
const blockSize = 512

// counted is a reader of an archive that counts the bytes read.
type counted struct {
	from io.Reader
	name string
	size int64
	read int64
}

// Read implements io.Reader.
func (a *counted) Read(p []byte) (int, error) {
	n, err := a.from.Read(p)
	a.read += int64(n)
	return n, err
}

// blocks returns the offset of the end of the last block that was read, in part or in whole.
func (a *counted) blocks() int64 { return (a.read + blockSize - 1) / blockSize * blockSize }

// ends returns an error unless the size of the archive is at bytes. A tar reader accepts an archive
// that lacks the empty blocks at its end, and one with data after them.
func (a *counted) ends(at int64) error {
	switch {
	case a.size < at:
		return a.truncated("two empty blocks at its end")
	case a.size > at:
		return invalid("%s: expected the end of the archive after %d bytes, found %d more", a.name, at, a.size-at)
	}
	return nil
}

func (a *counted) truncated(expected string) error {
	return invalid("%s is truncated: expected %s, found the end of the file after %d bytes", a.name, expected, a.size).
		WithHint("copy the archive anew, or use another backup")
}

// writeTo writes a new file below root. The folders above it are created.
func writeTo(root *os.Root, name string, mode fs.FileMode, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}
