package files

import (
	"encoding/base64"
	"io"
	"os"
	"sort"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// MaxEncoded is the maximum length of the text in an answer, in bytes.
const MaxEncoded = 8 << 20

// MaxEntries is the maximum number of entries of one listing.
const MaxEntries = 10_000

// Read returns the content of a file as text, or as base64 if the caller
// requests it.
func (b *Base) Read(p effects.Place, input edn.Value, s *effects.Scope) (edn.Value, *contract.Error) {
	f, st, refused := b.regular()
	if refused != nil {
		return edn.Nil(), refused
	}
	defer func() { _ = f.Close() }()
	data, err := b.whole(f, st.Size, s.MaxBytes.Or(MaxEncoded))
	if err != nil {
		return edn.Nil(), err
	}
	m := b.out(p)
	m.Key("bytes", edn.Int(int64(len(data))))
	m.Key("hash", edn.Text(hashOf(data)))
	if name, _ := input.Key("encoding").AsKeyword(); name == "base64" {
		if base64.StdEncoding.EncodedLen(len(data)) > MaxEncoded {
			return edn.Nil(), effects.Denied("max-bytes", b.tool, "%q has %d bytes in base64, the limit is %d",
				b.shown, base64.StdEncoding.EncodedLen(len(data)), MaxEncoded)
		}
		m.Key("encoding", edn.K("base64"))
		m.Key("content", edn.Text(base64.StdEncoding.EncodeToString(data)))
		return m.Map(), nil
	}
	if !utf8.Valid(data) {
		return edn.Nil(), effects.InvalidInput("content/not-text", b.tool,
			"%q is not UTF-8 text; request :encoding :base64", b.shown)
	}
	m.Key("content", edn.Text(string(data)))
	return m.Map(), nil
}

// whole reads a file up to a limit; a file that is or grows longer is rejected.
func (b *Base) whole(f *os.File, size, limit int64) ([]byte, *contract.Error) {
	limit = min(limit, MaxEncoded)
	if size <= limit {
		data, err := io.ReadAll(io.LimitReader(f, limit+1))
		if err != nil {
			return nil, b.explain("read", err)
		}
		if int64(len(data)) <= limit {
			return data, nil
		}
		size = int64(len(data))
	}
	return nil, effects.Denied("max-bytes", b.tool, "%q has %d bytes, the limit is %d", b.shown, size, limit)
}

// List returns the entries of a directory, sorted by name.
func (b *Base) List(p effects.Place) (edn.Value, *contract.Error) {
	fd, err := open(b.fd, b.rest, unix.O_RDONLY|unix.O_DIRECTORY, 0, b.links())
	if err == unix.ENOTDIR {
		return edn.Nil(), effects.InvalidInput("path/not-directory", b.tool, "%q is not a directory", b.shown)
	}
	if err != nil {
		return edn.Nil(), b.explain("list", err)
	}
	dir := os.NewFile(uintptr(fd), b.shown)
	defer func() { _ = dir.Close() }()
	if pseudo(fd) {
		return edn.Nil(), effects.Denied("not-regular", b.tool, "%q is in a file system of the kernel, not on a disk",
			b.shown)
	}
	names, err := dir.Readdirnames(MaxEntries + 1)
	if err != nil && err != io.EOF {
		return edn.Nil(), b.explain("list", err)
	}
	sort.Strings(names)
	truncated := len(names) > MaxEntries
	entries := make([]edn.Value, 0, min(len(names), MaxEntries))
	unnamed := int64(0)
	for _, name := range names[:min(len(names), MaxEntries)] {
		e, ok := entry(fd, name)
		if !ok {
			unnamed++
			continue
		}
		entries = append(entries, e)
	}
	m := b.out(p)
	m.Key("entries", edn.Vector(entries...))
	m.Key("truncated?", edn.Bool(truncated))
	if unnamed > 0 {
		m.Key("unnamed", edn.Int(unnamed)) // names that are not UTF-8
	}
	return m.Map(), nil
}

func entry(dir int, name string) (edn.Value, bool) {
	text, err := edn.String(name)
	var st unix.Stat_t
	if err != nil || unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return edn.Nil(), false
	}
	kind := "other"
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		kind = "file"
	case unix.S_IFDIR:
		kind = "directory"
	case unix.S_IFLNK:
		kind = "link"
	}
	var m edn.MapBuilder
	m.Key("name", text)
	m.Key("type", edn.K(kind))
	if kind == "file" {
		m.Key("bytes", edn.Int(st.Size))
	}
	return m.Map(), true
}
