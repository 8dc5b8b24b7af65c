package config

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/config/pricelist"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Store holds the settings of the journal.
type Store struct {
	// File is the absolute path of the SQLite database; empty: SQLite is not used.
	File string
	// DSN is the secret with the connection string of the PostgreSQL database; nil: PostgreSQL is
	// not used. Lease is the time without a transaction of this host after which another host takes
	// over its runs.
	DSN     *expression.Secret
	Lease   time.Duration
	Sync    bool  // commits survive a power failure
	MinFree int64 // bytes of free space that new acts require
	// AutoMigrate migrates the schema of File to the version of this program when a daemon starts.
	AutoMigrate bool
	// AllowNetworkFS permits a File on a network file system.
	AllowNetworkFS bool
	// Age is the age at which finished runs are removed; 0: unlimited. For runs that were not
	// completed, FailedAge applies if it is longer. Size is the maximum size of all runs in bytes;
	// 0: unlimited.
	Age, FailedAge time.Duration
	Size           int64
	// KeyWindow is the minimum time for which runs with an idempotency key are kept.
	KeyWindow time.Duration
}

// Lasts reports whether the journal survives a restart of the host. Otherwise runs are kept in
// memory.
func (s Store) Lasts() bool { return s.File != "" || s.DSN != nil }

// StoreDSN reads the connection string of the store. Store.DSN must not be nil. The error means
// that the secret cannot be read.
func (c *Config) StoreDSN() (string, error) {
	text, err := c.Store.DSN.Read(c.lookup)
	if err != nil {
		return "", contract.Errorf("config/secret-missing", "store.dsn: %w", err)
	}
	return text, nil
}

// storeSecret reports a connection string of the store that does not exist.
func (l *loader) storeSecret(r *plugins.Reader) {
	if l.config.Store.DSN != nil {
		at := l.Root.Block("store").Attrs["dsn"].At
		r.SecretThere(decode.SecretAt{Secret: *l.config.Store.DSN, At: at, Needed: true}, "store.dsn", []string{"store", "dsn"})
	}
}

func (l *loader) store() {
	s := l.Root.Block("store")
	retain := s.Block("retain")
	st := Store{
		Sync:           s.Text("sync") != language.SyncOff,
		AutoMigrate:    s.Flag("auto_migrate"),
		AllowNetworkFS: s.Flag("allow_network_fs"),
		MinFree:        int64(s.Integer("min_free")),
		Age:            retain.Duration("age"),
		FailedAge:      retain.Duration("failed_age"),
		Size:           int64(retain.Integer("size")),
		KeyWindow:      retain.Duration("key_window"),
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
	l.ownFiles(s, name)
	switch driver := s.Text("driver"); {
	case driver == language.StoreSQLite:
		st.File = filepath.Join(l.config.Host.DataDir, name)
	case driver != language.StorePostgres:
	case s.Attrs["dsn"].Secret != nil:
		st.DSN, st.Lease = s.Attrs["dsn"].Secret, s.Duration("lease")
	case !s.Unread("dsn"):
		l.report.Add(diag.Diagnostic{
			Type:     "config/missing",
			Message:  `store.driver = "postgres" requires store.dsn`,
			Range:    s.Attrs["driver"].At,
			Path:     []string{"store", "dsn"},
			Expected: edn.Text("the place of a connection string"),
			Hint:     `write dsn = secret("env:FERMENT_DSN") with postgres://user@host/database in that variable`,
		})
	}
	l.config.Store = st
}

// The names that the daemon itself uses: in data_dir, and in the directory of the database.
var (
	dataNames = []string{"FORMAT", "HOST", "LOCK", "backups", "calibration", "plugins", "run", "run/admin.token",
		"secrets.key", "tmp", "work", pricelist.File}
	databaseNames = []string{"JOURNAL", "blobs", "reserve"}
)

// ownFiles reports store.path and http.admin_socket where they name a file of the daemon itself in data_dir, or the
// socket one of the database.
func (l *loader) ownFiles(s *decode.Section, database string) {
	if ownFile(database) {
		l.ownFile(s, "path", "a path below data_dir that the daemon does not use, such as ferment.db")
	}
	socket, err := filepath.Rel(l.config.Host.DataDir, l.config.HTTP.AdminSocket)
	rest, beside := strings.CutPrefix(strings.ToLower(socket), strings.ToLower(database))
	if err == nil && (ownFile(socket) || beside && (rest == "" || rest[0] == '-' || rest[0] == '.')) {
		l.ownFile(l.Root.Block("http"), "admin_socket", "a path that the daemon does not use for another file")
	}
}

func (l *loader) ownFile(s *decode.Section, key, expected string) {
	l.report.Add(diag.Diagnostic{
		Type:     "config/range",
		Message:  "the daemon keeps a file of its own at this path",
		Range:    s.Attrs[key].At,
		Path:     s.PathOf(key),
		Expected: edn.Text(expected),
		Found:    edn.Text(s.Text(key)),
		Hint:     "choose another name, or remove the line for the default",
	})
}

// ownFile reports whether a path below data_dir is that of a file or directory of the daemon. Letter case is
// ignored, as some file systems ignore it.
func ownFile(name string) bool {
	is := func(of string) func(string) bool { return func(own string) bool { return strings.EqualFold(own, of) } }
	return slices.ContainsFunc(dataNames, is(name)) || slices.ContainsFunc(databaseNames, is(filepath.Base(name)))
}
