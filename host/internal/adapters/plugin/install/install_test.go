package install

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/host/internal/adapters/dirlock"
	"github.com/fermenthq/ferment/sdk/contract"
)

func as(name, version string) func(context.Context, string) (string, string, error) {
	return func(context.Context, string) (string, string, error) { return name, version, nil }
}

func put(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// entry of an archive under test.
type entry struct {
	name, text string
	mode       int64
	kind       byte // of tar; 0 is a file
	link       string
}

func tarGz(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.text)), Typeflag: e.kind, Linkname: e.link, Format: tar.FormatPAX}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		} else {
			h.Size = 0
		}
		require.NoError(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := io.WriteString(w, e.text)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

func zipped(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		mode := fs.FileMode(e.mode)
		if e.kind == tar.TypeSymlink {
			mode |= fs.ModeSymlink
		}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		require.NoError(t, err)
		_, err = io.WriteString(f, e.text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// LOCK-003: an installed program is stored under the hash of its content, is
// read-only, and is found by name and version.
func TestInstall(t *testing.T) {
	tree := []entry{{name: "./", kind: tar.TypeDir, mode: 0o755}, {name: "./greeter", text: "program", mode: 0o755}, {name: "share/words.txt", text: "words", mode: 0o644}}
	sources := map[string]string{
		"program": put(t, "greeter", []byte("program")),
		"tar.gz":  put(t, "a.tar.gz", tarGz(t, tree...)),
		"zip":     put(t, "a.zip", zipped(t, tree[1:]...)),
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := Open(dir)
			_, err := s.Resolve("greeter", "1.0.0")
			require.ErrorIs(t, err, contract.OfType("not-found"))
			got, err := s.Add(context.Background(), Source{Path: source, Identify: as("greeter", "1.0.0")})
			require.NoError(t, err)
			assert.False(t, got.Known)
			found, err := s.Resolve("greeter", "1.0.0")
			require.NoError(t, err)
			assert.Equal(t, got.Program, found.Program)
			text, err := os.ReadFile(found.Program)
			require.NoError(t, err)
			assert.Equal(t, "program", string(text))
			info, err := os.Stat(found.Program)
			require.NoError(t, err)
			assert.Equal(t, fs.FileMode(0o500), info.Mode().Perm())
			info, err = os.Stat(filepath.Dir(found.Program))
			require.NoError(t, err)
			assert.Equal(t, fs.FileMode(0o500), info.Mode().Perm())
			again, err := s.Add(context.Background(), Source{Path: source, Identify: as("greeter", "1.0.0")})
			require.NoError(t, err)
			assert.True(t, again.Known)
			assert.Equal(t, got.Program, again.Program)
			left, err := filepath.Glob(filepath.Join(dir, "b3", ".new*"))
			require.NoError(t, err)
			assert.Empty(t, left)
			t.Cleanup(func() { removeTree(dir) })
		})
	}
}

// LOCK-003: the remains of a killed installation are removed by the next one;
// those of a running one stay.
func TestInterruptedInstall(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { removeTree(dir) })
	trees := filepath.Join(dir, "b3")
	made := func(name string, age time.Duration) string {
		path := filepath.Join(trees, stageName+name)
		require.NoError(t, os.MkdirAll(filepath.Join(path, "bin"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path, "bin", "p"), []byte("half"), 0o400))
		require.NoError(t, os.Chmod(filepath.Join(path, "bin"), 0o500))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, at, at))
		return path
	}
	dead, busy, young := made("dead", time.Hour), made("busy", time.Hour), made("young", 0)
	release, ok := dirlock.Try(busy)
	require.True(t, ok)
	defer release()
	_, err := Open(dir).Add(context.Background(), Source{Path: put(t, "p", []byte("one")), Identify: as("p", "1.0.0")})
	require.NoError(t, err)
	assert.NoDirExists(t, dead)
	assert.DirExists(t, busy)
	assert.DirExists(t, young)
}

// LOCK-003: a changed program in the store is repaired by installing it again.
func TestDamagedInstall(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { removeTree(dir) })
	source := Source{Path: put(t, "a.tar.gz", tarGz(t, entry{name: "bin/p", text: "one", mode: 0o755}, entry{name: "words", text: "w", mode: 0o644})), Identify: as("p", "1.0.0")}
	first, err := Open(dir).Add(context.Background(), source)
	require.NoError(t, err)
	for name, damage := range map[string]func(tree string){
		"changed": func(string) { require.NoError(t, os.WriteFile(first.Program, []byte("two"), 0o500)) },
		"missing": func(string) { require.NoError(t, os.Remove(first.Program)) },
		"more":    func(tree string) { require.NoError(t, os.WriteFile(filepath.Join(tree, "more"), nil, 0o400)) },
		"linked":  func(tree string) { require.NoError(t, os.Symlink("words", filepath.Join(tree, "link"))) },
	} {
		t.Run(name, func(t *testing.T) {
			tree := filepath.Dir(filepath.Dir(first.Program))
			for _, d := range []string{tree, filepath.Dir(first.Program)} {
				require.NoError(t, os.Chmod(d, 0o700))
			}
			require.NoError(t, os.Chmod(first.Program, 0o700))
			damage(tree)
			again, err := Open(dir).Add(context.Background(), source)
			require.NoError(t, err)
			assert.Equal(t, first.Program, again.Program)
			text, err := os.ReadFile(again.Program)
			require.NoError(t, err)
			assert.Equal(t, "one", string(text))
			entries, err := os.ReadDir(tree)
			require.NoError(t, err)
			assert.Len(t, entries, 2)
			left, err := filepath.Glob(filepath.Join(dir, "b3", ".*"))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

// LOCK-003: a path that is not a regular file is rejected, without blocking on
// a pipe.
func TestInstallOfNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o700))
	for _, path := range []string{pipe, t.TempDir(), "/dev/null"} {
		_, err := Open(t.TempDir()).Add(context.Background(), Source{Path: path, Identify: as("p", "1.0.0")})
		require.ErrorIs(t, err, contract.OfType("input/invalid"), path)
	}
}

// A version identifies one content forever, and errors name the nearest match.
func TestInstallConflicts(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { removeTree(dir) })
	s := Open(dir, t.TempDir())
	_, err := s.Add(context.Background(), Source{Path: put(t, "p", []byte("one")), Identify: as("p", "1.0.0")})
	require.NoError(t, err)
	_, err = s.Add(context.Background(), Source{Path: put(t, "p", []byte("two")), Identify: as("p", "1.0.0")})
	require.ErrorIs(t, err, contract.OfType("import/conflict"))
	_, err = s.Add(context.Background(), Source{Path: put(t, "p", []byte("two")), Identify: as("p", "1.1.0")})
	require.NoError(t, err)
	_, err = s.Resolve("p", "2.0.0")
	assert.Contains(t, contract.AsError(err).Hint, "1.0.0, 1.1.0")
	got, err := s.Resolve("p", "1.0.0")
	require.NoError(t, err)
	text, err := os.ReadFile(got.Program)
	require.NoError(t, err)
	assert.Equal(t, "one", string(text))
}

// LOCK-003: untrusted archives change nothing outside of their directory, and
// nothing at all if they are rejected.
func TestHostileArchives(t *testing.T) {
	program := entry{name: "p", text: "x", mode: 0o755}
	many := make([]entry, MaxEntries+1)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("f%d", i), mode: 0o644}
	}
	bomb := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "p", Mode: 0o755, Size: MaxTotal + 1, Typeflag: tar.TypeReg}))
		zero := make([]byte, 1<<20)
		for range MaxTotal >> 20 {
			_, err := w.Write(zero)
			require.NoError(t, err)
		}
		_, err := w.Write(zero[:1])
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, z.Close())
		return b.Bytes()
	}
	whole := tarGz(t, program)
	tests := map[string]struct {
		archive []byte
		says    string
	}{
		"parent in tar":     {tarGz(t, program, entry{name: "../evil", text: "x"}), "leads out"},
		"parent inside tar": {tarGz(t, program, entry{name: "a/../../evil", text: "x"}), "leads out"},
		"hidden parent":     {tarGz(t, program, entry{name: "a/../b", text: "x"}), "leads out"},
		"absolute in tar":   {tarGz(t, program, entry{name: "/tmp/evil", text: "x"}), "leads out"},
		"parent in zip":     {zipped(t, program, entry{name: "../evil", text: "x"}), "leads out"},
		"absolute in zip":   {zipped(t, program, entry{name: "/tmp/evil", text: "x"}), "leads out"},
		"backslash in zip":  {zipped(t, program, entry{name: `..\evil`, text: "x"}), "not a valid name"},
		"drive in zip":      {zipped(t, program, entry{name: "C:evil", text: "x"}), "not a valid name"},
		"symlink in tar":    {tarGz(t, entry{name: "l", kind: tar.TypeSymlink, link: "/etc"}, entry{name: "l/passwd", text: "x"}), "links and devices"},
		"hard link in tar":  {tarGz(t, program, entry{name: "l", kind: tar.TypeLink, link: "/etc/passwd"}), "links and devices"},
		"device in tar":     {tarGz(t, program, entry{name: "d", kind: tar.TypeChar}), "links and devices"},
		"pipe in tar":       {tarGz(t, program, entry{name: "d", kind: tar.TypeFifo}), "links and devices"},
		"symlink in zip":    {zipped(t, program, entry{name: "l", text: "/etc/passwd", kind: tar.TypeSymlink, mode: 0o777}), "links and devices"},
		"twice":             {tarGz(t, program, program), "twice"},
		"file as directory": {tarGz(t, program, entry{name: "p/q", text: "x"}), ""},
		"deep":              {tarGz(t, program, entry{name: strings.Repeat("d/", MaxDepth) + "f", text: "x"}), "nests deeper"},
		"long name":         {tarGz(t, program, entry{name: strings.Repeat("n", MaxPath+1), text: "x"}), "not a valid name"},
		"many in tar":       {tarGz(t, many...), "entries"},
		"many in zip":       {zipped(t, many...), "entries"},
		"bomb":              {bomb(), "more than 1073741824 bytes"},
		"cut tar":           {whole[:len(whole)/2], "damaged"},
		"cut zip":           {zipped(t, program)[:40], "damaged"},
		"empty archive":     {tarGz(t), "no file"},
		"nothing to run":    {tarGz(t, entry{name: "a", mode: 0o644}, entry{name: "b", mode: 0o644}), "no executable file"},
		"two programs":      {tarGz(t, program, entry{name: "q", mode: 0o755}), "2 programs: p, q"},
		"empty file":        {nil, "is empty"},
		"garbage in gzip":   {[]byte("\x1f\x8bgarbage"), "damaged"},
		"zip without end":   {[]byte("PK\x03\x04" + strings.Repeat("x", 100)), "no end"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "store")
			_, err := Open(dir).Add(context.Background(), Source{Path: put(t, "a", tt.archive), Identify: as("p", "1")})
			require.Error(t, err)
			assert.Contains(t, err.Error(), tt.says)
			var left []string
			require.NoError(t, filepath.WalkDir(parent, func(path string, d fs.DirEntry, err error) error {
				if !d.IsDir() {
					left = append(left, path)
				}
				return err
			}))
			assert.Empty(t, left, "nothing is left")
		})
	}
}

// The results of Identify are checked too, and a program in an archive can be
// selected.
func TestInstallNames(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { removeTree(dir) })
	two := put(t, "a.tgz", tarGz(t, entry{name: "bin/p", text: "p", mode: 0o755}, entry{name: "bin/q", text: "q", mode: 0o755}))
	got, err := Open(dir).Add(context.Background(), Source{Path: two, Program: "bin/q", Identify: as("q", "1")})
	require.NoError(t, err)
	assert.Equal(t, "q", filepath.Base(got.Program))
	_, err = Open(dir).Add(context.Background(), Source{Path: two, Program: "bin/r", Identify: as("q", "1")})
	require.ErrorIs(t, err, contract.OfType("not-found"))
	for _, bad := range [][2]string{{"", "1"}, {"../p", "1"}, {"P", "1"}, {"p", ""}, {"p", "../1"}, {"p", "1 0"}} {
		_, err = Open(dir).Add(context.Background(), Source{Path: put(t, "p", []byte("x")), Identify: as(bad[0], bad[1])})
		assert.ErrorIs(t, err, contract.OfType("input/invalid"), bad)
	}
	_, err = Open().Add(context.Background(), Source{Path: two, Identify: as("q", "1")})
	assert.Error(t, err)
	_, err = Open(dir).Add(context.Background(), Source{Path: dir, Identify: as("q", "1")})
	assert.ErrorContains(t, err, "not a regular file")
}

func TestReferences(t *testing.T) {
	name, version, ok, err := ParseReference("store:greeter@1.0.0-rc.1+x")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, []string{"greeter", "1.0.0-rc.1+x"}, []string{name, version})
	_, _, ok, err = ParseReference("bin/greeter")
	require.NoError(t, err)
	assert.False(t, ok)
	for _, bad := range []string{"store:", "store:a", "store:a@", "store:@1", "store:../a@1", "store:a@../1", "store:A@1", "store:a@1@2"} {
		_, _, ok, err = ParseReference(bad)
		assert.True(t, ok, bad)
		assert.ErrorIs(t, err, contract.OfType("input/invalid"), bad)
	}
	env := func(m map[string]string) func(string) (string, bool) {
		return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
	}
	assert.Equal(t, []string{"/d/plugins/store", "/h/.local/share/ferment/plugins/store"}, Dirs("/d", env(map[string]string{"HOME": "/h"})))
	assert.Equal(t, []string{"/x/ferment/plugins/store"}, Dirs("", env(map[string]string{"HOME": "/h", "XDG_DATA_HOME": "/x"})))
	assert.Empty(t, Dirs("", env(nil)))
}

// Any bytes are installed or rejected; nothing is written outside of the store.
func FuzzArchive(f *testing.F) {
	f.Add(tarGz(f, entry{name: "p", text: "x", mode: 0o755}))
	f.Add(zipped(f, entry{name: "p", text: "x", mode: 0o755}))
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		if len(archive) > 4096 {
			return
		}
		dir, err := os.MkdirTemp("", "fer-install-")
		require.NoError(t, err)
		defer removeTree(dir)
		source := filepath.Join(dir, "archive")
		require.NoError(t, os.WriteFile(source, archive, 0o600))
		store := filepath.Join(dir, "store")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		_, err = Open(store).Add(ctx, Source{Path: source, Identify: as("p", "1")})
		entries, _ := os.ReadDir(dir)
		require.LessOrEqual(t, len(entries), 2)
		if err == nil {
			_, err = Open(store).Resolve("p", "1")
			require.NoError(t, err)
		}
	})
}
