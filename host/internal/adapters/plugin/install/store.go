package install

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of an installation. MaxEntries and MaxDepth are the numbers of entries and of nested
// directories in an archive.
const (
	MaxArchive = 512 << 20 // bytes of an archive, or of a program without one
	MaxTotal   = 1 << 30   // bytes of all files in an archive
	MaxEntries = 10_000
	MaxDepth   = 32
	MaxPath    = 1024 // bytes of a name in an archive
)

var (
	nameForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]{0,63}$`)
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
	referenceOf = regexp.MustCompile(`^store:([^@]*)@(.*)$`)
)

// Store is a list of directories. The first one receives installations; all are searched.
type Store struct{ dirs []string }

// Open returns the store in these directories, which need not exist. Empty names are ignored.
func Open(dirs ...string) Store {
	return Store{dirs: slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == "" })}
}

// Dirs returns the store directories of a host: the one below its data directory, and that of the
// user. env looks up environment variables.
func Dirs(dataDir string, env func(string) (string, bool)) []string {
	var dirs []string
	if dataDir != "" {
		dirs = append(dirs, filepath.Join(dataDir, "plugins", "store"))
	}
	base, _ := env("XDG_DATA_HOME")
	if home, ok := env("HOME"); base == "" && ok && home != "" {
		base = filepath.Join(home, ".local", "share")
	}
	if filepath.IsAbs(base) {
		dirs = append(dirs, filepath.Join(base, "ferment", "plugins", "store"))
	}
	return dirs
}

// ParseReference parses store:NAME@VERSION. ok reports whether the text has the prefix store:;
// without it, err is nil. A malformed reference is input/invalid.
func ParseReference(text string) (name, version string, ok bool, err error) {
	if !strings.HasPrefix(text, "store:") {
		return "", "", false, nil
	}
	m := referenceOf.FindStringSubmatch(text)
	if m == nil || !nameForm.MatchString(m[1]) || !versionForm.MatchString(m[2]) {
		return "", "", true, contract.Errorf("input/invalid",
			"%q is not a reference to an installed program: expected store:NAME@VERSION, such as store:greeter@1.0.0", text)
	}
	return m[1], m[2], true, nil
}

// Installed is a program in a store.
type Installed struct {
	Name, Version string
	Hash          string // hash of the program
	Program       string // absolute path of the program
	Known         bool   // it was already installed
}

// record is the content of the file for a name and a version.
type record struct {
	tree    string // hash of the tree, "b3:.."
	program string // path below the tree, with slashes
	hash    string
}

func (r record) value() edn.Value {
	return edn.MustMap(edn.K("store/v"), edn.Int(1), edn.K("tree"), edn.Text(r.tree), edn.K("program"),
		edn.Text(r.program), edn.K("hash"), edn.Text(r.hash))
}

func treeDir(dir, tree string) string {
	return filepath.Join(dir, "b3", strings.TrimPrefix(tree, "b3:"))
}

func recordPath(dir, name, version string) string { return filepath.Join(dir, "names", name, version) }

var hashForm = regexp.MustCompile(`^b3:[0-9a-f]{64}$`)

func readRecord(path string) (record, error) {
	f, err := os.Open(path)
	if err != nil {
		return record{}, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return record{}, err
	}
	v, err := edn.Read(text)
	if err != nil {
		return record{}, fmt.Errorf(
			"the record %s of an installed plugin is damaged: %w; remove the file and install the plugin again", path, err)
	}
	var r record
	r.tree, _ = v.Key("tree").AsString()
	r.program, _ = v.Key("program").AsString()
	r.hash, _ = v.Key("hash").AsString()
	if !hashForm.MatchString(r.tree) || !hashForm.MatchString(r.hash) || !filepath.IsLocal(filepath.FromSlash(r.program)) {
		return record{}, fmt.Errorf(
			"the record %s of an installed plugin is damaged: it has no valid :tree, :program and :hash; "+
				"remove the file and install the plugin again", path)
	}
	return r, nil
}

// Resolve returns the program with a name and version. The error is not-found if it is not
// installed. Its content is not verified; the lock file does that.
func (s Store) Resolve(name, version string) (Installed, error) {
	for _, dir := range s.dirs {
		r, err := readRecord(recordPath(dir, name, version))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Installed{}, err
		}
		return Installed{
			Name:    name,
			Version: version,
			Hash:    r.hash,
			Program: filepath.Join(treeDir(dir, r.tree), filepath.FromSlash(r.program)),
			Known:   true,
		}, nil
	}
	e := contract.Errorf("not-found", "no program %s@%s is installed", name, version)
	if versions := s.versions(name); len(versions) > 0 {
		return Installed{}, e.WithHint("use one of the installed versions: " + strings.Join(versions, ", "))
	}
	return Installed{}, e.WithHint("\"ferment plugin install PATH\" installs it")
}

func (s Store) versions(name string) []string {
	var out []string
	for _, dir := range s.dirs {
		entries, _ := os.ReadDir(filepath.Join(dir, "names", name))
		for _, e := range entries {
			if versionForm.MatchString(e.Name()) && !slices.Contains(out, e.Name()) {
				out = append(out, e.Name())
			}
		}
	}
	slices.Sort(out)
	return out
}

// Source is a program to install.
type Source struct {
	Path string // path of a program, or of an archive with one
	// Program is the path of the program in an archive; empty: the only executable file.
	Program string
	// Identify returns the name and version of the program. It is called once, before anything is
	// installed, with the path of the unpacked program.
	Identify func(ctx context.Context, program string) (name, version string, err error)
}

// Add installs a program in the first directory of the store. If the same program is already
// installed under the name and version, it returns that installation. The error is import/conflict
// if they are installed with other content, input/invalid if one of them or the archive is not
// valid, not-found if the archive lacks Source.Program, and invalid-request if the store has no
// directory.
func (s Store) Add(ctx context.Context, src Source) (Installed, error) {
	if len(s.dirs) == 0 {
		return Installed{}, contract.Errorf("invalid-request",
			"no directory to install plugins in: expected a configuration or the environment variable HOME")
	}
	dir := s.dirs[0]
	trees := filepath.Join(dir, "b3")
	if err := os.MkdirAll(trees, 0o700); err != nil {
		return Installed{}, fmt.Errorf("make the store: %w", err)
	}
	stage, release, err := newStage(trees)
	if err != nil {
		return Installed{}, fmt.Errorf("make the store: %w", err)
	}
	defer release()
	defer removeTree(stage)
	files, err := unpack(ctx, src.Path, stage)
	if err != nil {
		return Installed{}, err
	}
	program, err := choose(files, src.Program)
	if err != nil {
		return Installed{}, err
	}
	if err := os.Chmod(filepath.Join(stage, filepath.FromSlash(program)), 0o500); err != nil {
		return Installed{}, err
	}
	name, version, err := src.Identify(ctx, filepath.Join(stage, filepath.FromSlash(program)))
	if err != nil {
		return Installed{}, err
	}
	if !nameForm.MatchString(name) || !versionForm.MatchString(version) {
		return Installed{}, contract.Errorf("input/invalid",
			"a program cannot be installed as %q version %q: expected a name of a-z 0-9 . _ + - and "+
				"a version of letters, digits and . _ + -, each at most 64 characters, both beginning with a letter or digit",
			name, version).
			WithHint("set its name with --name and its version with --version")
	}
	r, err := seal(stage, files, program)
	if err != nil {
		return Installed{}, err
	}
	return s.publish(dir, stage, name, version, r)
}

// publish moves a sealed tree to its final place, and then writes the record of its name.
func (s Store) publish(dir, stage, name, version string, r record) (Installed, error) {
	out := Installed{
		Name:    name,
		Version: version,
		Hash:    r.hash,
		Program: filepath.Join(treeDir(dir, r.tree), filepath.FromSlash(r.program)),
	}
	path := recordPath(dir, name, version)
	switch before, err := readRecord(path); {
	case err == nil && before == r:
		out.Known = true
	case err == nil:
		return Installed{}, contract.Errorf("import/conflict",
			"%s@%s is installed with another content: expected %s, found %s", name, version, before.tree, r.tree).
			WithHint("give the new program another version")
	case !errors.Is(err, fs.ErrNotExist):
		return Installed{}, err
	}
	if err := place(stage, treeDir(dir, r.tree), r); err != nil {
		return Installed{}, fmt.Errorf("install %s@%s: %w", name, version, err)
	}
	if out.Known {
		return out, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Installed{}, fmt.Errorf("install %s@%s: %w", name, version, err)
	}
	t, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)),
		renameio.WithStaticPermissions(0o400))
	if err != nil {
		return Installed{}, fmt.Errorf("install %s@%s: %w", name, version, err)
	}
	defer func() { _ = t.Cleanup() }()
	if _, err = t.Write(append(r.value().Canonical(), '\n')); err == nil {
		err = t.CloseAtomicallyReplace()
	}
	if err != nil {
		return Installed{}, fmt.Errorf("install %s@%s: %w", name, version, err)
	}
	return out, nil
}

// place moves a sealed tree to its final place. An existing tree is kept, unless its content has
// changed; then it is replaced.
func place(stage, at string, r record) error {
	err := os.Rename(stage, at)
	if err == nil {
		return nil
	}
	there, herr := hashTree(at)
	switch {
	case errors.Is(herr, fs.ErrNotExist):
		return err
	case herr == nil && there == r.tree:
		return nil
	}
	broken := stage + ".broken"
	if err := os.Rename(at, broken); err != nil {
		return err
	}
	defer removeTree(broken)
	return os.Rename(stage, at)
}

// hashTree returns the hash of a sealed tree from its current content.
func hashTree(dir string) (string, error) {
	var parts []part
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		hash, err := hashFile(path)
		if err != nil {
			return err
		}
		parts = append(parts, part{filepath.ToSlash(name), info.Mode().Perm()&0o100 != 0, hash})
		return nil
	})
	return nameOf(parts), err
}

// part is one file of a tree; nameOf combines the parts to the hash of the tree.
type part struct {
	path       string
	executable bool
	hash       string
}

func nameOf(parts []part) string {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.path, b.path) })
	values := make([]edn.Value, len(parts))
	for i, p := range parts {
		values[i] = edn.Vector(edn.Text(p.path), edn.Bool(p.executable), edn.Text(p.hash))
	}
	return edn.Hash(edn.Vector(values...))
}

// choose returns the path of the program among the files of an archive. The error is not-found for
// a wanted file that does not exist.
func choose(files []file, wanted string) (string, error) {
	var can, all []string
	for _, f := range files {
		all = append(all, f.path)
		if f.executable {
			can = append(can, f.path)
		}
	}
	switch {
	case wanted != "" && slices.Contains(all, wanted):
		return wanted, nil
	case wanted != "":
		e := contract.Errorf("not-found", "the archive has no file %q", wanted)
		return "", e.DidYouMean(contract.Nearest(wanted, all))
	case len(files) == 1:
		return files[0].path, nil
	case len(can) == 1:
		return can[0], nil
	case len(can) == 0:
		return "", contract.Errorf("input/invalid", "the archive contains no executable file").
			WithHint("name the program in the archive with --program")
	}
	return "", contract.Errorf("input/invalid", "the archive has %d programs: %s", len(can),
		strings.Join(can[:min(len(can), 8)], ", ")).WithHint("name the one that is the plugin with --program")
}

// seal hashes a tree and makes its files read-only.
func seal(stage string, files []file, program string) (record, error) {
	r := record{program: program}
	var parts []part
	for _, f := range files {
		path := filepath.Join(stage, filepath.FromSlash(f.path))
		hash, err := hashFile(path)
		if err != nil {
			return record{}, err
		}
		mode := fs.FileMode(0o400)
		if f.executable || f.path == program {
			mode = 0o500
		}
		if err := os.Chmod(path, mode); err != nil {
			return record{}, err
		}
		if f.path == program {
			r.hash = hash
		}
		parts = append(parts, part{f.path, mode == 0o500, hash})
	}
	r.tree = nameOf(parts)
	err := filepath.WalkDir(stage, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o500)
		}
		return err
	})
	return r, err
}

// hashFile syncs a file and returns the hash of its content.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum := blake3.New(32, nil)
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	return "b3:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// removeTree deletes a tree, even if it is sealed. Errors are ignored.
func removeTree(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
