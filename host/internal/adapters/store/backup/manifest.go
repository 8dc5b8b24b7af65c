package backup

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"time"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// version is the version of the backup format.
const version = 1

const (
	manifestName = "MANIFEST"
	dataName     = "data"
)

// Manifest describes the content of a backup.
type Manifest struct {
	Version  int       `edn:"ferment/backup"`
	At       time.Time `edn:"at"`
	Program  string    `edn:"program"` // version of the program
	Format   int       `edn:"format"`  // format version of the data directory
	Database Database  `edn:"database"`
	Journal  Journal   `edn:"journal"`
	Files    []File    `edn:"-"`
}

// Database describes the database of the journal. A backup contains an SQLite database, but not a
// PostgreSQL database.
type Database struct {
	Driver string `edn:"driver"`         // "sqlite" or "postgres"
	Name   string `edn:"name"`           // path of the file, or name of the database on the server
	Schema int    `edn:"schema"`         // version of the schema
	Note   string `edn:"note,omitempty"` // a step that the operator has to do; empty: none
}

// Journal is the position of the journal in the backup.
type Journal struct {
	Runs      int    `edn:"runs"`
	Open      int    `edn:"open"`
	Suspended int    `edn:"suspended"`
	Records   int64  `edn:"records"`
	Last      string `edn:"last"` // id of the newest run
}

// File is one file of a backup. Path is relative to the data directory, with slashes. Runs is set
// if the file is executable.
type File struct {
	Path  string `edn:"path"`
	Bytes int64  `edn:"bytes"`
	Hash  string `edn:"hash"`
	Runs  bool   `edn:"executable?,omitempty"`
}

// Bytes returns the sum of the sizes of all files.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// Value returns the manifest as an EDN map with the number of files and the sum of their sizes in
// place of the list.
func (m *Manifest) Value() edn.Value {
	v, err := edn.Encode(m)
	if err != nil {
		return edn.Nil() // does not occur with these types
	}
	return v.AssocKey("files", edn.Int(int64(len(m.Files)))).AssocKey("bytes", edn.Int(m.Bytes()))
}

// end is the last line of a manifest. Hash is the hash of all bytes before it.
type end struct {
	Files int    `edn:"files"`
	Hash  string `edn:"hash"`
}

func newHash() hash.Hash { return blake3.New(32, nil) }

func sumOf(h hash.Hash) string { return "b3:" + hex.EncodeToString(h.Sum(nil)) }

// write writes the manifest, one map per line.
func (m *Manifest) write(to io.Writer) error {
	sum := newHash()
	out := bufio.NewWriter(io.MultiWriter(to, sum))
	line := func(x any) error {
		v, err := edn.Encode(x)
		if err == nil {
			_, err = out.Write(append(v.Canonical(), '\n'))
		}
		return err
	}
	err := line(m)
	for _, f := range m.Files {
		if err == nil {
			err = line(f)
		}
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = line(end{Files: len(m.Files), Hash: sumOf(sum)})
	}
	if err == nil {
		err = out.Flush()
	}
	return err
}

// invalid returns a backup/invalid error for a backup that differs from what Create wrote.
func invalid(format string, args ...any) *contract.Error {
	return contract.Errorf("backup/invalid", "backup: "+format, args...)
}

// maxLine is the maximum size of a line of a manifest in bytes.
const maxLine = 64 << 10

// readManifest reads a manifest and verifies its hash. name is the name of the file in errors.
func readManifest(from io.Reader, name string) (*Manifest, error) {
	sum, m := newHash(), &Manifest{}
	in := bufio.NewScanner(from)
	in.Buffer(nil, maxLine)
	closed := false
	for n := 1; in.Scan(); n++ {
		if closed {
			return nil, invalid("%s: line %d follows its end", name, n)
		}
		v, err := edn.Read(in.Bytes())
		if err != nil {
			return nil, invalid("%s: line %d: %w", name, n, err)
		}
		switch {
		case n == 1:
			err = m.header(v)
		case v.HasKey("path"):
			err = m.file(v)
		default:
			var last end
			if err = edn.Decode(v, &last); err == nil && (last.Files != len(m.Files) || last.Hash != sumOf(sum)) {
				err = fmt.Errorf("it does not have the hash of the lines before it")
			}
			closed = true
		}
		if err != nil {
			return nil, invalid("%s: line %d: %w", name, n, err)
		}
		_, _ = sum.Write(append(bytes.Clone(in.Bytes()), '\n'))
	}
	if err := in.Err(); err != nil {
		return nil, invalid("%s: %w", name, err)
	}
	if !closed {
		return nil, invalid("%s: it has no end", name)
	}
	return m, nil
}

func (m *Manifest) header(v edn.Value) error {
	if err := edn.Decode(v, m); err != nil {
		return err
	}
	if m.Version != version {
		return fmt.Errorf("its form is %d, this program knows %d", m.Version, version)
	}
	return nil
}

func (m *Manifest) file(v edn.Value) error {
	var f File
	if err := edn.Decode(v, &f); err != nil {
		return err
	}
	if !filepath.IsLocal(filepath.FromSlash(f.Path)) || f.Bytes < 0 {
		return fmt.Errorf("%.200q is not a path below the data directory", f.Path)
	}
	m.Files = append(m.Files, f)
	return nil
}
