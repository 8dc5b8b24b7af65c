package program

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// place returns a directory with an executable bin/tool and a file plain.
func place(t *testing.T) (dir, tool string) {
	t.Helper()
	dir = t.TempDir()
	tool = filepath.Join(dir, "bin", "tool")
	require.NoError(t, os.Mkdir(filepath.Dir(tool), 0o755))
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o644))
	return dir, tool
}

func TestFind(t *testing.T) {
	dir, tool := place(t)
	env := []string{"PATH=/absent", "PATH=bin:" + dir + ":" + filepath.Dir(tool)}
	for name, row := range map[string]struct {
		missing bool
		want    string
	}{
		"tool":     {want: tool},
		"bin/tool": {want: tool},
		tool:       {want: tool},
		"plain":    {},
		"./plain":  {},
		"./bin":    {},
		"other":    {missing: true},
		"./other":  {missing: true},
	} {
		found, err := Find(name, dir, env)
		assert.Equal(t, row.want, found, name)
		if row.want != "" {
			require.NoError(t, err, name)
			continue
		}
		var why *fs.PathError
		require.ErrorAs(t, err, &why, name)
		assert.Equal(t, row.missing, os.IsNotExist(err), name)
	}
	_, err := Find("tool", dir, nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestLocate(t *testing.T) {
	dir, tool := place(t)
	t.Setenv("PATH", filepath.Dir(tool))
	found, err := Locate("tool")
	require.NoError(t, err)
	assert.Equal(t, tool, found)
	t.Chdir(dir)
	found, err = Locate("./bin/tool")
	require.NoError(t, err)
	assert.Equal(t, tool, found)
	found, err = Locate("sh")
	require.NoError(t, err, "it is in a usual directory")
	assert.True(t, filepath.IsAbs(found))
	_, err = Locate("no-such-program")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
