package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// entry is a file of a package. Its text is in a file, or here.
type entry struct {
	name string // with slashes, relative to the root
	mode fs.FileMode
	from string // file; empty: text
	text []byte
}

func (e *entry) read() ([]byte, error) {
	if e.from == "" {
		return e.text, nil
	}
	return os.ReadFile(e.from)
}

// tree are the files of a package.
type tree []entry

// staged returns the files below a folder, each under the name that place gives it;
// empty: it is left out.
func staged(dir string, place func(name string) string) (t tree, err error) {
	err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		if name := place(filepath.ToSlash(rel)); name != "" {
			t = append(t, entry{name: name, mode: mode, from: at})
		}
		return nil
	})
	return t, err
}

// tarball writes the files with their folders, sorted, as a compressed archive. Everything
// in it belongs to root and has one time.
func (t tree) tarball(to io.Writer, prefix string, at time.Time, level int) error {
	zip, err := gzip.NewWriterLevel(to, level)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zip)
	slices.SortFunc(t, func(a, b entry) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	made := map[string]bool{}
	var folder func(dir string) error
	folder = func(dir string) error {
		if made[dir] || dir == "." || dir == "/" {
			return nil
		}
		made[dir] = true
		if err := folder(path.Dir(dir)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix + dir + "/", Mode: 0o755, ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatGNU})
	}
	for _, e := range t {
		text, err := e.read()
		if err != nil {
			return err
		}
		if err := folder(path.Dir(e.name)); err != nil {
			return err
		}
		head := tar.Header{
			Typeflag: tar.TypeReg,
			Name:     prefix + e.name,
			Mode:     int64(e.mode),
			Size:     int64(len(text)),
			ModTime:  at,
			Uname:    "root",
			Gname:    "root",
			Format:   tar.FormatGNU,
		}
		if err := w.WriteHeader(&head); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// archive writes the package that runs where it is unpacked.
func (r *release) archive(to, name string) error {
	t, err := staged(r.stage, func(name string) string { return name })
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.tarball(&b, name+"/", r.at, r.level); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}
