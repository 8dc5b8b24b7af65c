//go:build linux

package files

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// try does the worker's steps without the confinement, so that path resolution
// alone causes the refusals.
func try(name string, input edn.Value, scope effects.Scope) (edn.Value, *contract.Error) {
	tool, _ := effects.ToolNamed(name)
	place, err := tool.Place(input, &scope)
	if err != nil {
		return edn.Nil(), err
	}
	b, err := Open(tool, place, name == "fs/write-file" && input.Key("mkdirs?").Truthy())
	if err != nil {
		return edn.Nil(), err
	}
	defer b.Close()
	switch name {
	case "fs/list":
		return b.List(place)
	case "fs/write-file":
		return b.Write(place, input, &scope, "key")
	}
	return b.Read(place, input, &scope)
}

func scopeOf(t testing.TB, root string, allow ...string) effects.Scope {
	t.Helper()
	return effects.Scope{
		Enabled: effects.Flag{V: true, Set: true}, Roots: effects.List[string]{V: []string{root}, Set: true},
		Allow: effects.List[string]{V: allow, Set: true}, MaxBytes: effects.Bound{N: 64, Set: true}, Append: effects.Flag{V: true, Set: true},
	}
}

// world is a root with entries that an attacker could create.
func world(t testing.TB) (root, outside string) {
	t.Helper()
	top := t.TempDir()
	root, outside = filepath.Join(top, "root"), filepath.Join(top, "outside")
	for _, dir := range []string{root + "/in/sub", root + "/other", outside} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	for name, text := range map[string]string{"in/a": "hello", "in/sub/b": "below", "other/s": "secret", "in/big": strings.Repeat("x", 65), "in/bin": "\xff\xfe"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(outside+"/key", []byte("secret"), 0o600))
	for name, to := range map[string]string{"in/good": "sub/b", "in/out": outside + "/key", "in/up": "../../outside/key", "in/side": "../other/s", "in/dir": outside, "in/self": "self", "in/proc": "/proc/self/environ"} {
		require.NoError(t, os.Symlink(to, filepath.Join(root, name)))
	}
	require.NoError(t, os.Link(outside+"/key", root+"/in/hard"))
	require.NoError(t, syscall.Mkfifo(root+"/in/fifo", 0o644))
	return root, outside
}

// Each row is one refusal with its reason, or a result.
func TestHostileFiles(t *testing.T) {
	root, outside := world(t)
	for _, row := range []struct{ tool, input, want string }{
		{"fs/read-file", `{:path "in/a"}`, `"hello"`},
		{"fs/read-file", `{:path "in/good"}`, `"below"`}, // a link that stays below its prefix
		{"fs/read-file", `{:path "in/out"}`, "path-outside-root"},
		{"fs/read-file", `{:path "in/up"}`, "path-outside-root"},
		{"fs/read-file", `{:path "in/side"}`, "path-outside-root"},
		{"fs/read-file", `{:path "in/dir/key"}`, "path-outside-root"},
		{"fs/read-file", `{:path "in/proc"}`, "path-outside-root"},
		{"fs/read-file", `{:path "in/self"}`, "symlink"},
		{"fs/read-file", `{:path "in/hard"}`, "not-regular"},
		{"fs/read-file", `{:path "in/fifo"}`, "not-regular"},
		{"fs/read-file", `{:path "in/sub"}`, "not-regular"},
		{"fs/read-file", `{:path "in/a/b"}`, "not-regular"},
		{"fs/read-file", `{:path "in/none"}`, "path/not-found"},
		{"fs/read-file", `{:path "in/big"}`, "max-bytes"},
		{"fs/read-file", `{:path "in/bin"}`, "content/not-text"},
		{"fs/read-file", `{:path "in/bin" :encoding :base64}`, `"//4="`},
		{"fs/read-file", "{:path \"in/e\u0301\"}", "path/not-normal"},
		{"fs/read-file", `{:path "in/` + strings.Repeat("n", 300) + `"}`, "path/invalid"},
		{"fs/list", `{:path "in/dir"}`, "path-outside-root"},
		{"fs/list", `{:path "in/a"}`, "path/not-directory"},
		{"fs/list", `{:path "in/sub"}`, `[{:bytes 5 :name "b" :type :file}]`},
		{"fs/write-file", `{:path "in/out" :content "x"}`, "symlink"},
		{"fs/write-file", `{:path "in/good" :content "x"}`, "symlink"},
		{"fs/write-file", `{:path "in/dir/new" :content "x"}`, "path-outside-root"},
		{"fs/write-file", `{:path "in/fifo" :content "x"}`, "not-regular"},
		{"fs/write-file", `{:path "in/sub" :content "x"}`, "not-regular"},
		{"fs/write-file", `{:path "in/hard" :content "x" :append? true}`, "not-regular"},
		{"fs/write-file", `{:path "in/new/x" :content "x"}`, "path/not-found"},
		{"fs/write-file", `{:path "in/new/deep/x" :content "x" :mkdirs? true}`, "true"},
		{"fs/write-file", `{:path "in/x" :content "` + strings.Repeat("y", 65) + `"}`, "max-bytes"},
		{"fs/write-file", `{:path "in/x" :content "=" :encoding :base64}`, "content/invalid"},
		{"fs/write-file", `{:path "in/a" :content " you" :append? true}`, "true"},
		{"fs/write-file", `{:path "in/hard" :content "mine"}`, "true"},
	} {
		out, err := try(row.tool, edn.MustRead(row.input), scopeOf(t, root, "in"))
		got := ""
		if err != nil {
			got, _ = err.Details.Key("reason").AsKeyword()
		} else {
			for _, key := range []string{"content", "entries", "wrote?"} {
				if v := out.Key(key); !v.IsNil() {
					got = v.String()
				}
			}
		}
		assert.Equal(t, row.want, got, "%s %s: %v", row.tool, row.input, err)
	}
	_, refused := try("fs/write-file", edn.MustRead(`{:path "in/absent/x" :content "x"}`), scopeOf(t, root, "in"))
	require.NotNil(t, refused)
	assert.Contains(t, refused.Message, `"in/absent"`, "what is missing is the directory")
	assert.Contains(t, refused.Hint, ":mkdirs?")
	key, err := os.ReadFile(outside + "/key")
	require.NoError(t, err)
	assert.Equal(t, "secret", string(key), "the other name of a hard link keeps its content")
	text, err := os.ReadFile(root + "/in/a")
	require.NoError(t, err)
	assert.Equal(t, "hello you", string(text))
	left, err := filepath.Glob(root + "/in/.ferment-*")
	require.NoError(t, err)
	assert.Empty(t, left, "no half-made file stays")
}

// Files generated by the kernel are rejected, and other file systems are not
// entered.
func TestPseudoFilesAndMounts(t *testing.T) {
	for _, row := range [][3]string{
		{"/proc", "sys/kernel/hostname", "not-regular"}, {"/", "proc/version", "cross-mount"}, {"/dev", "zero", "not-regular"}, {"/", "dev/zero", "cross-mount"},
	} {
		_, err := try("fs/read-file", edn.MustMap(edn.K("path"), edn.Text(row[1])), scopeOf(t, row[0], "."))
		require.NotNil(t, err, "%v", row)
		reason, _ := err.Details.Key("reason").AsKeyword()
		assert.Equal(t, row[2], reason, "%v: %v", row, err)
	}
}

// JRN-041, JRN-042: an append whose directory cannot be synced may have been done, so it
// is not to be repeated; one that failed before was not done.
func TestAppendThatMayHaveBeenDone(t *testing.T) {
	root, _ := world(t)
	input := edn.MustRead(`{:path "in/a" :content " you" :append? true}`)
	defer func(before func(int) error) { syncDirectory = before }(syncDirectory)
	syncDirectory = func(int) error { return syscall.EIO }
	_, err := try("fs/write-file", input, scopeOf(t, root, "in"))
	require.NotNil(t, err)
	assert.Equal(t, "effects/runtime-failed", err.Type)
	assert.Equal(t, ":unknown", err.Details.Key("effect/state").String())
	text, failed := os.ReadFile(filepath.Join(root, "in/a"))
	require.NoError(t, failed)
	assert.Equal(t, "hello you", string(text))

	require.NoError(t, os.Mkdir(filepath.Join(root, "in", temporary("key")), 0o755)) // in the way
	_, err = try("fs/write-file", input, scopeOf(t, root, "in"))
	require.NotNil(t, err)
	assert.True(t, err.Details.Key("effect/state").IsNil(), "%v", err)
}

// While directories and files are swapped with links, nothing outside is read
// or written.
func TestRaceOfLinksAndRenames(t *testing.T) {
	root, outside := world(t)
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	for _, at := range [][2]string{{"in/sub", outside}, {"in/a", outside + "/key"}, {"in", root + "/other"}} {
		swaps.Go(func() {
			name, aside, link := filepath.Join(root, at[0]), filepath.Join(root, "aside-"+filepath.Base(at[0])), filepath.Join(root, "link-"+filepath.Base(at[0]))
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.Symlink(at[1], link)
				_ = os.Rename(name, aside)
				_ = os.Rename(link, name)
				_ = os.Remove(name)
				_ = os.Rename(aside, name)
			}
		})
	}
	scope := scopeOf(t, root, "in")
	escapes, fine := 0, 0
	for i := range proof.Size(t, "rounds of renames", 20_000, 100_000) {
		tool, input := "fs/read-file", `{:path "in/sub/b"}`
		switch i % 4 {
		case 1:
			tool, input = "fs/write-file", `{:path "in/sub/key" :content "below"}`
		case 2:
			input = `{:path "in/a"}`
		case 3:
			tool, input = "fs/write-file", `{:path "in/a" :content "below"}`
		}
		out, err := try(tool, edn.MustRead(input), scope)
		if err == nil {
			fine++
		}
		if out.Key("content").String() == `"secret"` {
			escapes++
		}
	}
	close(stop)
	swaps.Wait()
	assert.Zero(t, escapes)
	assert.NotZero(t, fine, "the race let nothing through at all: it proved nothing")
	for _, name := range []string{outside + "/key", root + "/other/s"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, "secret", string(text), name)
	}
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing was made outside")
}

// Concurrent writes with one effect key each replace the file; the hashes before
// and after form one chain.
func TestConcurrentWritesWithOneKey(t *testing.T) {
	t.Parallel()
	root, _ := world(t)
	scope := scopeOf(t, root, "in")
	const calls = 24
	outs := make([]edn.Value, calls)
	var wait sync.WaitGroup
	for i := range calls {
		wait.Go(func() {
			input := edn.MustMap(edn.K("path"), edn.Text("in/new"), edn.K("content"), edn.Text(strings.Repeat("x", i+1)))
			out, err := try("fs/write-file", input, scope)
			assert.Nil(t, err, "%v", err)
			outs[i] = out
		})
	}
	wait.Wait()
	follows := map[string]bool{}
	for _, out := range outs {
		before := out.Key("hash/before").String()
		assert.False(t, follows[before], "two calls replaced the same content")
		follows[before] = true
	}
}
