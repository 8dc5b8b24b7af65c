package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
)

// OPS-002: the setting that accepts a network file system reaches whatever opens the store.
func TestNetworkFileSystemIsAllowedBySetting(t *testing.T) {
	cfg := &config.Config{Store: config.Store{File: "/x/ferment.db"}}
	allowed := func() bool {
		o, err := storeOptions(cfg)
		require.NoError(t, err)
		return o.AllowNetworkFS
	}
	assert.False(t, allowed())
	cfg.Store.AllowNetworkFS = true
	assert.True(t, allowed())
	refused := history.Failure(fmt.Errorf("store: %w", &store.NetworkError{Path: "/x/ferment.db", FileSystem: "nfs4"}))
	assert.Equal(t, "journal/unavailable", refused.Type)
	assert.False(t, refused.Retryable)
	assert.Contains(t, refused.Hint, "allow_network_fs")
}

// OPS-002, as far as it concerns commands: the journal of a locked data directory
// is not opened.
func TestJournalOfLockedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "var")
	cfg := &config.Config{Host: config.Host{DataDir: dir}, Store: config.Store{File: filepath.Join(dir, "ferment.db"), MinFree: 1}}
	opened, err := OpenJournal(t.Context(), cfg, true)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, opened.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = OpenJournal(ctx, cfg, false)
	assert.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
}

func TestNoJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "var")
	absent, failed := OpenJournal(t.Context(), &config.Config{Host: config.Host{DataDir: dir}, Store: config.Store{File: filepath.Join(dir, "ferment.db")}}, false)
	require.NoError(t, failed)
	list, err := absent.List(t.Context(), httpapi.RunFilter{})
	require.Nil(t, err)
	assert.Zero(t, list.Key("runs").Len())
	verified, err := absent.Verify(t.Context(), "")
	require.Nil(t, err)
	assert.Equal(t, "0", verified.Key("runs").String())
	_, err = absent.Show(t.Context(), "last", httpapi.RunParts{})
	assert.Equal(t, "run/not-found", err.Type)
	assert.NoDirExists(t, dir)

	memory, failed := OpenJournal(t.Context(), &config.Config{Host: config.Host{DataDir: dir}}, false)
	require.NoError(t, failed)
	assert.NoError(t, memory.Close())
	_, err = memory.List(t.Context(), httpapi.RunFilter{})
	assert.Equal(t, "db/not-configured", err.Type)
}
