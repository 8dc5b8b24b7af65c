package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
)

// Every function that opens the store of a workspace refuses a link in it, and says where.
func TestLinksAreRefused(t *testing.T) {
	for _, name := range []string{"..", ".", lockFile, identityFile, indexFile, logDir, quarantineDir, sealFile, cacheFile} {
		t.Run(name, func(t *testing.T) {
			dir := create(t, id.B3)
			require.NoError(t, open(t, dir).Close())
			at := filepath.Join(dir, name)
			away := filepath.Join(t.TempDir(), "away")
			if err := os.Rename(at, away); err != nil {
				require.ErrorIs(t, err, os.ErrNotExist)
			}
			require.NoError(t, os.Symlink(away, at))
			_, openErr := Open(background, dir, testOptions)
			_, followErr := Follow(background, dir, testOptions)
			_, verifyErr := Verify(background, dir, Check{})
			_, repairErr := Repair(background, dir, testOptions, true)
			createErr := Create(dir, Identity{ID: "w2", Scheme: id.B3.String()})
			_, existsErr := Exists(dir)
			for _, err := range []error{openErr, followErr, verifyErr, repairErr, createErr, existsErr} {
				typed(t, err, "store/unsafe")
				assert.ErrorContains(t, err, at)
			}
		})
	}
}

// A directory that an operator chose may be reached by a link.
func TestLinkToDataDirectory(t *testing.T) {
	real, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(real, link))
	dir := filepath.Join(link, "store")
	require.NoError(t, Create(dir, Identity{ID: "w1", Scheme: id.B3.String()}))
	s, err := Open(background, dir, testOptions)
	require.NoError(t, err)
	put(t, s, "text")
	require.NoError(t, s.Close())
}
