package daemon

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
)

// Journal is the opened journal of a data directory that no daemon serves.
type Journal struct {
	history.Runs
	dir *dataDir // locked; nil if there is no store
}

// OpenJournal locks a data directory that no daemon serves, and opens its journal. If there is no
// journal, the result has no runs; with create, an empty journal is created instead. The caller
// must close the result.
func OpenJournal(ctx context.Context, cfg *config.Config, create bool) (*Journal, error) {
	if !cfg.Store.Lasts() {
		return &Journal{}, nil
	}
	if !create && noJournal(cfg) {
		return &Journal{Runs: history.Runs{Missing: cfg.Store.File}}, nil
	}
	dir, err := lockDataDir(ctx, cfg.Host.DataDir)
	if err != nil {
		return nil, err
	}
	options, err := storeOptions(cfg)
	var opened *store.Store
	if err == nil {
		options.NoMigrate = true // only a daemon migrates
		opened, err = store.Open(ctx, options)
	}
	if err != nil {
		dir.close()
		return nil, history.Failure(err)
	}
	return &Journal{Runs: history.Runs{Store: opened, Content: journal.Content(cfg.Telemetry.Content)}, dir: dir}, nil
}

// Close closes the journal and unlocks the data directory.
func (j *Journal) Close() error {
	if j.dir == nil {
		return nil
	}
	defer j.dir.close()
	return j.Store.Close()
}
