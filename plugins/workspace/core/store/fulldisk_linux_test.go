package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// fullDisk names the directory on which this process must mount a small disk.
const fullDisk = "WORKSPACE_TEST_FULL_DISK"

// onSmallDisk reports whether the test has a disk of 3 MiB of its own, at dir. If not, it runs the
// test again in a process that has one: in mount and user namespaces of its own.
func onSmallDisk(t *testing.T) (dir string, own bool) {
	if dir = os.Getenv(fullDisk); dir != "" {
		err := unix.Mount("small", dir, "tmpfs", 0, "size=3m")
		if errors.Is(err, fs.ErrPermission) {
			t.Skip("not run: the system permits no mounts in user namespaces")
		}
		require.NoError(t, err)
		return dir, true
	}
	dir = t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), fullDisk+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("not run: the system permits no user namespaces")
	}
	require.NoError(t, err, "%s", out)
	if strings.Contains(string(out), "--- SKIP: "+t.Name()) {
		t.Skip("not run: the system permits no mounts in user namespaces")
	}
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return "", false
}

// spare occupies what the disk has left but for some bytes.
func spare(t *testing.T, dir string, left int64) (remove func()) {
	t.Helper()
	var disk unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &disk))
	path := filepath.Join(dir, "spare")
	size := max(int64(disk.Bavail)*disk.Bsize-left, 0)
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
	return func() { require.NoError(t, os.Remove(path)) }
}

// WS-043, WS-047: on a full disk a transaction leaves no trace, whether the log or the index meets
// the end, alone and in a batch. Reads go on, and so do writes as soon as there is space.
func TestFullDisk(t *testing.T) {
	dir, own := onSmallDisk(t)
	if !own {
		return
	}
	data := DataDir(dir)
	require.NoError(t, Create(data, Identity{ID: "w1", Scheme: id.B3.String()}))
	s := open(t, data)
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	acknowledged, indexFull, logFull := map[string]bool{}, 0, 0
	try := func(text string) error {
		_, _, err := putFrame(t, s.Store, "a", "note", text)
		return err
	}
	var mu sync.Mutex
	note := func(text string, err error) {
		mu.Lock()
		defer mu.Unlock()
		acknowledged[text] = err == nil
		if err == nil {
			return
		}
		typed(t, err, "store/io")
		if isFull(err) {
			indexFull++
		} else {
			require.ErrorIs(t, err, unix.ENOSPC)
			logFull++
		}
	}
	for left := int64(0); left <= 120<<10; left += 4 << 10 {
		remove := spare(t, dir, left)
		for i := 0; ; i++ {
			text := fmt.Sprint(left, " ", i, strings.Repeat(" text", 200))
			err := try(text)
			note(text, err)
			if err != nil {
				break
			}
		}
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				text := fmt.Sprint(left, " batch ", i, strings.Repeat(" text", 200))
				note(text, try(text))
			})
		}
		all.Wait()
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error { return second(v.StateRoot(background)) }))
		remove()
		text := fmt.Sprint(left, " after")
		require.NoError(t, try(text), "there is space again")
		note(text, nil)
	}
	assert.Positive(t, indexFull)
	assert.Positive(t, logFull)
	check := func() {
		t.Helper()
		texts := map[string]bool{}
		for _, text := range allFrames(t, s.Store) {
			texts[text] = true
		}
		for text, want := range acknowledged {
			assert.Equal(t, want, texts[text], "%.20s", text)
		}
		require.Empty(t, validate(t, s.Store, Check{}).Errors)
	}
	check()
	require.NoError(t, s.Close())
	s = open(t, data)
	check()
}

// WS-044, WS-047: a store whose index lacks the end of the log can be read while the disk is full;
// the index is not removed for it. With space again, it is opened with what the log has.
func TestStaleIndexOnFullDisk(t *testing.T) {
	dir, own := onSmallDisk(t)
	if !own {
		return
	}
	data := DataDir(dir)
	require.NoError(t, Create(data, Identity{ID: "w1", Scheme: id.B3.String()}))
	s := open(t, data)
	one := grow(id.B3, map[string]string{"a": "1"})
	_, seq := putTree(t, s.Store, one)
	draft := log.Draft{Actor: "x", Time: 1}
	for i := range 3000 { // as if the process died before they were in the index
		draft.Records = append(draft.Records, log.Record{Kind: kindContent, Payload: fmt.Append(nil, i)})
	}
	require.NoError(t, second(s.log.Append(draft)))
	s.log.Fail(errors.New("dead")) // so that Close does not seal
	require.NoError(t, s.Close())

	remove := spare(t, dir, 64<<10) // less than the index needs, more than a reader
	_, err := Open(background, data, testOptions)
	typed(t, err, "store/io")
	assert.FileExists(t, filepath.Join(data, indexFile))
	f, err := Follow(background, data, testOptions)
	require.NoError(t, err)
	assert.Equal(t, ids(one), treeAt(t, f, Latest))
	require.NoError(t, f.Close())
	remove()
	s = open(t, data)
	require.Nil(t, s.Damage())
	_, next := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "2"}))
	assert.Equal(t, seq+2, next)
	require.Empty(t, validate(t, s.Store, Check{}).Errors)
}
