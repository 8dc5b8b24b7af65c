package logfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func lineText(lines [][]byte) string {
	words := make([]string, len(lines))
	for i, l := range lines {
		words[i] = string(l)
	}
	return strings.Join(words, " ")
}

// SUP-009: the last lines, over all rotated files.
func TestReaderLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log", "plugin.log")
	_, err := OpenReader(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	l, err := Open(path, 12, 3)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	for n := range 9 {
		_, err := fmt.Fprintf(l, "l%d\n", n)
		require.NoError(t, err)
	}
	for n, want := range map[int]string{0: "", 1: "l8", 4: "l5 l6 l7 l8", 100: "l0 l1 l2 l3 l4 l5 l6 l7 l8", -1: "l0 l1 l2 l3 l4 l5 l6 l7 l8"} {
		r, err := OpenReader(path)
		require.NoError(t, err)
		lines, err := r.Last(n)
		require.NoError(t, err)
		assert.Equal(t, want, lineText(lines), n)
		require.NoError(t, r.Close())
	}
}

// SUP-009: a follower of a log gets every line once and in order, also across
// several rotations between two reads.
func TestReaderFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin.log")
	l, err := Open(path, 200, 2)
	require.NoError(t, err)
	_, err = l.Write([]byte("first\n"))
	require.NoError(t, err)
	r, err := OpenReader(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	next := func() string {
		t.Helper()
		line, err := r.Next(ctx)
		require.NoError(t, err)
		return string(line)
	}
	require.Equal(t, "first", next())
	for round := range 20 {
		for n := range 30 { // 300 bytes: one rotation and a half
			_, err := fmt.Fprintf(l, "%02d-%06d\n", round, n)
			require.NoError(t, err)
		}
		for n := range 30 {
			require.Equal(t, fmt.Sprintf("%02d-%06d", round, n), next())
		}
	}
	// An incomplete line is not returned.
	_, err = l.Write([]byte("half"))
	require.NoError(t, err)
	got := make(chan string, 1)
	go func() {
		line, err := r.Next(ctx)
		assert.NoError(t, err)
		got <- string(line)
	}()
	_, err = l.Write([]byte(" and half\n"))
	require.NoError(t, err)
	assert.Equal(t, "half and half", <-got)
	require.NoError(t, l.Close())

	gone := errors.New("nobody reads any more")
	over, end := context.WithCancelCause(context.Background())
	end(gone)
	_, err = r.Next(over)
	require.ErrorIs(t, err, gone)
}

// A log that was removed is followed when it is created again.
func TestReaderNewLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin.log")
	require.NoError(t, os.WriteFile(path, []byte("old\n"), 0o600))
	r, err := OpenReader(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	lines, err := r.Last(5)
	require.NoError(t, err)
	assert.Equal(t, "old", lineText(lines))
	require.NoError(t, os.Remove(path))
	more, err := r.fill()
	require.NoError(t, err)
	assert.False(t, more)
	require.NoError(t, os.WriteFile(path, []byte("new\n"), 0o600))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	line, err := r.Next(ctx)
	require.NoError(t, err)
	assert.Equal(t, "new", string(line))
}
