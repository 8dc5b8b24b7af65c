package config

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Store holds the settings of the journal.
type Store struct {
	// File is the absolute path of the database; empty: runs are kept in memory.
	File    string
	Sync    bool  // commits survive a power failure
	MinFree int64 // bytes of free space that new acts require
	// Age and FailedAge are those of finished runs that are removed, Size is the
	// size of all runs in bytes.
	Age, FailedAge time.Duration
	Size           int64
	// KeyWindow is how long runs with an idempotency key are kept at least.
	KeyWindow time.Duration
}

func (l *loader) store() {
	s := l.Root.Block("store")
	retain := s.Block("retain")
	st := Store{
		Sync:      s.Text("sync") != language.SyncOff,
		MinFree:   int64(s.Integer("min_free")),
		Age:       retain.Duration("age"),
		FailedAge: retain.Duration("failed_age"),
		Size:      int64(retain.Integer("size")),
		KeyWindow: retain.Duration("key_window"),
	}
	if st.FailedAge == 0 {
		st.FailedAge = st.Age
	}
	if !st.Sync && l.config.Profile != language.ProfileTest {
		l.report.Add(diag.Diagnostic{
			Type:     "config/range",
			Message:  `store.sync = "off" is for profile test only: a power failure would lose accepted runs`,
			Range:    s.Attrs["sync"].At,
			Path:     []string{"store", "sync"},
			Expected: edn.Text(language.SyncFull),
			Found:    edn.Text(language.SyncOff),
			Hint:     `write sync = "full", or leave it out`,
		})
	}
	name := filepath.Clean(s.Text("path"))
	if filepath.IsAbs(name) || name == "." || name == ".." || strings.HasPrefix(name, "../") {
		l.report.Add(diag.Diagnostic{
			Type:     "config/range",
			Message:  "the database of the store lies in data_dir",
			Range:    s.Attrs["path"].At,
			Path:     []string{"store", "path"},
			Expected: edn.Text("a path below data_dir, such as ferment.db"),
			Found:    edn.Text(s.Text("path")),
			Hint:     "move the data directory with ferment.data_dir",
		})
	}
	if s.Text("driver") == language.StoreSQLite {
		st.File = filepath.Join(l.config.Host.DataDir, name)
	}
	l.config.Store = st
}
