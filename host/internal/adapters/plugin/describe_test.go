//go:build linux

package plugin

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// describer returns a describer with its cache in dir.
func describer(t *testing.T, b *bench, dir string) *Describer {
	t.Helper()
	return NewDescriber(dir, b.runtime, nil, wire.HostInfo{Version: "test"})
}

// opened counts how often a file was opened since the first call: a process
// that is only described cannot write, but it can read.
func opened(t *testing.T, path string) func() int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_CLOSE_NOWRITE) // equal consecutive events are merged
	require.NoError(t, err)
	total := 0
	return func() int {
		var events [64 * unix.SizeofInotifyEvent]byte
		n, err := unix.Read(fd, events[:])
		if err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			return total
		}
		for at := 0; at < n; at += unix.SizeofInotifyEvent { // without a name, since a file is watched
			if binary.NativeEndian.Uint32(events[at+4:])&unix.IN_OPEN != 0 {
				total++
			}
		}
		return total
	}
}

// HCL-037: one start for the first answers, none for cached ones.
func TestDescribeCache(t *testing.T) {
	t.Parallel()
	b := prepare(t, nil)
	dir, trace := filepath.Join(t.TempDir(), "describe"), filepath.Join(t.TempDir(), "starts")
	require.NoError(t, os.WriteFile(trace, nil, 0o600))
	starts := opened(t, trace)
	s := as("counted", trace)
	config := edn.MustRead(`{:places 3}`)

	q := describer(t, b, dir).Ask(s)
	assert.False(t, q.Known(edn.Nil(), nil))
	plain, err := q.Describe(context.Background(), edn.Nil(), nil)
	require.NoError(t, err)
	full, err := q.Describe(context.Background(), config, nil)
	require.NoError(t, err)
	q.Close()
	q.Close()
	assert.Equal(t, 1, starts(), "one process for both questions")
	assert.Equal(t, "fake", plain.Name)
	argued := func(config string) string {
		return edn.Hash(edn.Vector(edn.Text(config), edn.Text(""), edn.Text("role:counted"), edn.Text(trace)))
	}
	assert.Equal(t, argued(noConfig), plain.Config)
	assert.False(t, plain.Cached)
	assert.Equal(t, "{:max-in-flight 3}", full.Limits.String())
	assert.Equal(t, argued(edn.Hash(config)), full.Config)
	require.Len(t, full.Capabilities, 1)
	assert.Equal(t, "t/echo", full.Capabilities[0].ID)

	entries, err := filepath.Glob(filepath.Join(dir, "*.edn"))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	digits := strings.TrimPrefix(full.Binary, "b3:")
	path := filepath.Join(dir, digits+"-"+strings.TrimPrefix(full.Config, "b3:")+".edn")
	assert.FileExists(t, path)
	assert.FileExists(t, filepath.Join(dir, digits+"-"+strings.TrimPrefix(plain.Config, "b3:")+".edn"))

	// Another host process reads it from the file.
	q = describer(t, b, dir).Ask(s)
	assert.True(t, q.Known(config, nil))
	assert.False(t, q.Known(edn.MustRead(`{:places 4}`), nil))
	known, err := q.Describe(context.Background(), config, nil)
	require.NoError(t, err)
	assert.True(t, known.Cached)
	assert.True(t, edn.Equal(full.Value, known.Value))
	assert.Equal(t, full.Encoding, known.Encoding)
	q.Close()
	assert.Equal(t, 1, starts())

	// A modified entry is ignored.
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, bad := range map[string]string{
		"changed":   strings.Replace(string(good), `"1.0.0"`, `"6.6.6"`, 1),
		"cut":       string(good[:len(good)/2]),
		"empty":     "",
		"elsewhere": strings.Replace(string(good), full.Binary, "b3:"+strings.Repeat("0", 64), 1),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, string(good), bad)
			require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
			before := starts()
			q := describer(t, b, dir).Ask(s)
			defer q.Close()
			again, err := q.Describe(context.Background(), config, nil)
			require.NoError(t, err)
			assert.Equal(t, "1.0.0", again.Version)
			assert.False(t, again.Cached)
			assert.Equal(t, before+1, starts())
			healed, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(good), string(healed))
		})
	}
}

// HCL-037: other arguments are another cache key, and so are the same arguments
// in another directory; without arguments and configuration the key is the
// program alone.
func TestDescribeCacheKnowsArguments(t *testing.T) {
	t.Parallel()
	b := prepare(t, nil)
	dir := filepath.Join(t.TempDir(), "describe")
	for _, how := range []string{"asked", "from the cache"} {
		d := describer(t, b, dir)
		for role, id := range map[string]string{"good": "t/echo", "tools": "t/other"} {
			q := d.Ask(as(role))
			got, err := q.Describe(context.Background(), edn.Nil(), nil)
			q.Close()
			require.NoError(t, err)
			require.Len(t, got.Capabilities, 1)
			assert.Equal(t, id, got.Capabilities[0].ID)
			assert.Equal(t, how == "from the cache", got.Cached)
		}
	}
	d := describer(t, b, dir)
	here := as("good")
	there := here
	there.Workdir = t.TempDir()
	assert.True(t, d.Ask(here).Known(edn.Nil(), nil))
	assert.False(t, d.Ask(there).Known(edn.Nil(), nil))
	swapped := here
	swapped.Command = []string{here.Command[0], "x", here.Command[1]}
	assert.False(t, d.Ask(swapped).Known(edn.Nil(), nil))
	alone := here
	alone.Command = here.Command[:1]
	_, key, err := d.key(alone, edn.Nil(), nil)
	require.NoError(t, err)
	assert.Equal(t, noConfig, key)
}

// A plugin starts faster with a cached description, and serves the same.
func TestSupervisorUsesCache(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	for round := range 2 {
		var d *Describer
		b := prepare(t, func(o *Options) {
			d = NewDescriber(cache, o.Runtime, nil, o.Host)
			o.Describer = d
		})
		b.begin(as("good"))
		b.ready()
		b.mustAsk(`{}`)
		got, ok := b.Described("p")
		require.True(t, ok)
		assert.Equal(t, round == 1, got.Cached)
	}
}

func TestDescribeFailures(t *testing.T) {
	t.Parallel()
	b := prepare(t, nil)
	for role, says := range map[string]string{"exit-3": "no licence", "silent": "no handshake within", "newer": "upgrade the host"} {
		s := as(role)
		s.StartTimeout = patience
		if role == "silent" {
			s.StartTimeout = time.Second
		}
		q := describer(t, b, "").Ask(s)
		_, err := q.Describe(context.Background(), edn.Nil(), nil)
		assert.Contains(t, typed(t, err).Error(), says)
		q.Close()
	}
	s := as("good")
	s.StartTimeout = 10 * time.Second // it must start within that
	q := describer(t, b, "").Ask(s)
	defer q.Close()
	_, err := q.Describe(context.Background(), edn.MustRead(`{:mood "hang-describe"}`), nil)
	assert.Contains(t, typed(t, err).Error(), "did not describe itself within 10s")
	_, err = q.Describe(context.Background(), edn.Nil(), nil)
	assert.NoError(t, err, "the next question is another")
	_, err = q.Describe(context.Background(), edn.MustRead(`{:mood "die-describe"}`), nil)
	require.ErrorIs(t, err, contract.OfType("runtime/start-failed"))
	assert.Contains(t, err.Error(), "exit status 4; last line: no licence for this")
	_, err = q.Describe(context.Background(), edn.Nil(), nil)
	assert.NoError(t, err, "another process answers the next question")

	s.Command[0] = filepath.Join(t.TempDir(), "absent")
	assert.False(t, describer(t, b, "").Ask(s).Known(edn.Nil(), nil))
	_, err = describer(t, b, "").Ask(s).Describe(context.Background(), edn.Nil(), nil)
	assert.ErrorIs(t, err, contract.OfType("runtime/start-failed"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// The hashes that identify a description.
func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	h := newHasher()
	program := write("interpreter", "x")
	plain, err := h.program(program, nil)
	require.NoError(t, err)
	sum := blake3.Sum256([]byte("x"))
	assert.Equal(t, "b3:"+hex.EncodeToString(sum[:]), plain, "the bytes alone, as any tool computes it")
	again, err := HashProgram(program, nil)
	require.NoError(t, err)
	assert.Equal(t, plain, again)

	files := []string{write("main.py", "print(1)")}
	script, err := h.program(program, files)
	require.NoError(t, err)
	assert.NotEqual(t, plain, script)
	write("main.py", "print(22)")
	changed, err := h.program(program, files)
	require.NoError(t, err)
	assert.NotEqual(t, script, changed)

	config := edn.MustRead(`{:script "s.edn" :key nil}`)
	none, err := h.config(edn.Nil(), nil)
	require.NoError(t, err)
	assert.Equal(t, "none", none)
	bare, err := h.config(config, nil)
	require.NoError(t, err)
	assert.Equal(t, edn.Hash(config), bare)
	file := filepath.Join(dir, "s.edn")
	missing, err := h.config(config, []string{file, dir})
	require.NoError(t, err)
	write("s.edn", "{}")
	there, err := h.config(config, []string{file, dir})
	require.NoError(t, err)
	write("s.edn", "{:a 1}")
	other, err := h.config(config, []string{file, dir})
	require.NoError(t, err)
	assert.Len(t, map[string]bool{bare: true, missing: true, there: true, other: true}, 4, "all differ")
}

// LOCK-001: the hash of a file is cached only if a further change would change
// its times: an immediate change may not.
func TestHashOfAFreshFile(t *testing.T) {
	h := newHasher()
	fresh := filepath.Join(t.TempDir(), "fresh")
	require.NoError(t, os.WriteFile(fresh, []byte("x"), 0o700))
	for _, path := range []string{fresh, "/bin/sh"} {
		_, err := h.file(path)
		require.NoError(t, err)
	}
	assert.NotContains(t, h.seen, fresh)
	assert.Contains(t, h.seen, "/bin/sh")
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o700))
	_, err := h.open(pipe, false) // must not block on the pipe
	assert.ErrorIs(t, err, errNoFile)
	_, err = HashProgram("/dev/null", nil)
	assert.ErrorIs(t, err, errNoFile)
}

// A program that finds its parts relative to its working directory, as an
// interpreted plugin does, also finds them when it is only described.
func TestDescribeInTheWorkingDirectory(t *testing.T) {
	b := prepare(t, nil)
	s := as("counted", "starts")
	s.Workdir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(s.Workdir, "starts"), nil, 0o600))
	starts := opened(t, filepath.Join(s.Workdir, "starts"))
	q := describer(t, b, "").Ask(s)
	defer q.Close()
	_, err := q.Describe(context.Background(), edn.Nil(), nil)
	require.NoError(t, err)
	assert.Equal(t, 1, starts())
}
