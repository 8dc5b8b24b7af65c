package plugin

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/sdk/edn"
)

// HashProgram is like the function [HashProgram], but reads program only if the metadata of its file
// has changed since it was hashed; files are always read. Use it only while a configuration is
// loaded: a program is hashed again before it starts (see approve).
func (d *Describer) HashProgram(program string, files []string) (string, error) {
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	hash, ok := d.cachedHash(program, info)
	if !ok {
		if hash, err = d.hash.file(program); err != nil {
			return "", err
		}
		d.cacheHash(program, info, hash)
	}
	return d.hash.combined(hash, files)
}

// identity returns a value that changes with every change of a file's content. ok is false if the
// system cannot detect changes or the file was changed only just now.
func identity(path string, info fs.FileInfo) (id edn.Value, ok bool) {
	changed := changeTime(info)
	if !info.Mode().IsRegular() || changed == 0 || !settled(info) {
		return edn.Nil(), false
	}
	return edn.Vector(edn.Text(path), inodeOf(info), edn.Int(info.Size()), edn.Int(info.ModTime().UnixNano()),
		edn.Int(changed)), true
}

// hashEntry returns the path of the cache entry for a file; empty if there is no file cache.
func (d *Describer) hashEntry(path string) string {
	if d.dir == "" || d.fresh {
		return ""
	}
	return filepath.Join(d.dir, "hash-"+edn.Hash(edn.Text(path))[len("b3:"):])
}

func (d *Describer) cachedHash(path string, info fs.FileInfo) (string, bool) {
	name := d.hashEntry(path)
	if name == "" {
		return "", false
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", false
	}
	entry, err := edn.Read(text, edn.WithLimits(edn.Stored))
	if err != nil {
		return "", false
	}
	id, ok := identity(path, info)
	if !ok || !edn.Equal(entry.Key("file"), id) {
		return "", false
	}
	return entry.Key("hash").AsString()
}

// cacheHash stores the hash of a file unless the file has changed since info was read, which must
// have been before it was hashed.
func (d *Describer) cacheHash(path string, info fs.FileInfo, hash string) {
	name := d.hashEntry(path)
	now, err := os.Stat(path)
	if name == "" || err != nil || !unchanged(info, now) || os.MkdirAll(d.dir, 0o700) != nil {
		return
	}
	if id, ok := identity(path, now); ok {
		entry := edn.MustMap(edn.K("file"), id, edn.K("hash"), edn.Text(hash))
		_ = replaceFile(name, append(entry.Canonical(), '\n')) // after an error the next host reads the program
	}
}
