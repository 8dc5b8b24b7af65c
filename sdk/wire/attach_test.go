package wire

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

// SDK-006: only its owner can access the record; an unusable record gives an
// error with the reason.
func TestAttachRecord(t *testing.T) {
	dir := t.TempDir()
	path, socket := filepath.Join(dir, "r"), filepath.Join(dir, "s")
	want := AttachRecord{Plugin: "p", Version: "1", PID: 7, Socket: socket, Nonce: "n"}
	require.NoError(t, os.WriteFile(path, []byte("what was there before"), 0o644))
	require.NoError(t, want.Write(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = ReadAttachRecord(path)
	require.ErrorIs(t, err, contract.OfType("runtime/not-ready"), "its socket is gone")
	require.NoError(t, os.WriteFile(socket, nil, 0o600))
	got, err := ReadAttachRecord(path)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 2)

	for name, text := range map[string]string{"text": "{", "another form": "{:attach/v 2}", "no socket": `{:attach/v 1 :plugin "p" :nonce "n"}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadAttachRecord(path)
		require.ErrorIs(t, err, contract.OfType("input/invalid"), name)
	}
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = ReadAttachRecord(path)
	require.ErrorContains(t, err, "its owner only")
	_, err = ReadAttachRecord(filepath.Join(dir, "missing"))
	require.ErrorContains(t, err, "the file does not exist")
	require.Error(t, want.Write(filepath.Join(dir, "no", "such")))
}
