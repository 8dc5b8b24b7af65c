package history

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ReplayFile replays the run of an export file strictly from its records (JRN-050, JRN-053). load
// returns the configuration for the descriptions of plugins in the file, by plugin name. No daemon,
// store or plugin is needed. Errors: import/invalid, those of load and Replay, and of the temporary
// files.
func ReplayFile(
	ctx context.Context, file []byte, load func(recorded map[string]edn.Value) (*setup.Loaded, error),
) (_ edn.Value, err error) {
	recorded, err := store.Exported(bytes.NewReader(file))
	if err != nil {
		return edn.Nil(), err
	}
	loaded, err := load(recorded)
	if err != nil {
		return edn.Nil(), err
	}
	dir, err := os.MkdirTemp("", "ferment-replay")
	if err != nil {
		return edn.Nil(), fmt.Errorf("replay: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "ferment.db"), NoSync: true, AllowNetworkFS: true})
	if err != nil {
		return edn.Nil(), Failure(err)
	}
	defer func() { _ = s.Close() }()
	run, err := s.Import(ctx, bytes.NewReader(file))
	if err != nil {
		return edn.Nil(), Failure(err)
	}
	v, failure := (&Runs{Store: s, Loaded: loaded}).Replay(ctx, httpapi.ReplayQuery{Run: run})
	if failure != nil {
		return edn.Nil(), failure
	}
	return v, nil
}
