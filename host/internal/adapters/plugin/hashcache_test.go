package plugin

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// The hash cache identifies programs while a configuration is loaded. Programs
// that are started or approved are hashed again.
func TestHashCache(t *testing.T) {
	program, err := exec.LookPath("go") // a file without recent changes
	require.NoError(t, err)
	program, err = filepath.EvalSymlinks(program)
	require.NoError(t, err)
	want, err := HashProgram(program, nil)
	require.NoError(t, err)
	dir := t.TempDir()
	describer := func() *Describer { return NewDescriber(dir, nil, nil, wire.HostInfo{}) }
	got, err := describer().HashProgram(program, nil)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	info, err := os.Stat(program)
	require.NoError(t, err)
	id, ok := identity(program, info)
	if !ok {
		return // without change times nothing is cached
	}
	entry := describer().hashEntry(program)
	forged := edn.MustMap(edn.K("file"), id, edn.K("hash"), edn.Text("b3:forged"))
	require.NoError(t, replaceFile(entry, forged.Canonical()))
	d := describer()
	got, err = d.HashProgram(program, nil)
	require.NoError(t, err)
	assert.Equal(t, "b3:forged", got, "the program is not read again")
	exe, binary, err := d.approve(Settings{Command: []string{program}})
	require.NoError(t, err)
	exe.close()
	assert.Equal(t, want, binary, "a start does not believe the cache")
	d = describer()
	d.Distrust()
	got, err = d.HashProgram(program, nil)
	require.NoError(t, err)
	assert.Equal(t, want, got)

	changed := filepath.Join(t.TempDir(), "changed")
	for _, text := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(changed, []byte(text), 0o700))
		want, err = HashProgram(changed, nil)
		require.NoError(t, err)
		got, err = describer().HashProgram(changed, nil)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	assert.NoFileExists(t, describer().hashEntry(changed), "a change right after this one might not show")
}
