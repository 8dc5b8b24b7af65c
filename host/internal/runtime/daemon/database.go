package daemon

import (
	"context"
	"errors"
	"sync"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Database performs maintenance of the database of a data directory. Its methods are safe for
// concurrent use.
type Database struct {
	store   *store.Store
	cfg     *config.Config
	program string          // version of the program
	missing *contract.Error // returned by the methods if store is nil
	// schema is set if store is nil because this program cannot use the schema of the database.
	schema  *store.SchemaError
	writing *sync.Mutex // held while a backup is written
	dir     *dataDir    // the directory that OpenDatabase locked; nil within a daemon
	damaged int64       // number of damaged places that the daemon has found in the journal
}

var _ httpapi.Database = (*Database)(nil)

// Database implements httpapi.Control. Its result must not be closed.
func (c control) Database() httpapi.Database {
	_, l := c.now()
	_, missing := (&history.Runs{Store: c.store}).Kept()
	return &Database{store: c.store, cfg: l.Config, program: c.options.Version, missing: missing, writing: &c.writing,
		damaged: c.figures.commits.Damaged()}
}

// OpenDatabase locks a data directory that no daemon serves, and opens its database. If this
// program cannot use the schema of the database, the error is nil and only DatabaseStatus of the
// result works. The caller must close the result.
func OpenDatabase(ctx context.Context, cfg *config.Config, program string) (*Database, error) {
	j, err := OpenJournal(ctx, cfg, false)
	var schema *store.SchemaError
	if errors.As(err, &schema) { // DatabaseStatus reports the versions
		return &Database{cfg: cfg, program: program, missing: contract.AsError(err), schema: schema, writing: &sync.Mutex{}}, nil
	}
	if err != nil {
		return nil, err
	}
	_, missing := j.Kept()
	return &Database{store: j.Store, cfg: cfg, program: program, missing: missing, writing: &sync.Mutex{}, dir: j.dir}, nil
}

// Close closes the database and unlocks the data directory, if OpenDatabase opened them.
func (d *Database) Close() error {
	return (&Journal{Runs: history.Runs{Store: d.store}, dir: d.dir}).Close()
}

// Collect implements httpapi.Database.
func (d *Database) Collect(ctx context.Context, dryRun bool) (edn.Value, *contract.Error) {
	if d.missing != nil {
		return edn.Nil(), d.missing
	}
	remove := d.store.Retain
	if dryRun {
		remove = d.store.Removable
	}
	r, err := remove(ctx)
	if err != nil {
		return edn.Nil(), history.Failure(err)
	}
	return edn.MustMap(
		edn.K("runs"), edn.Int(int64(r.Runs)),
		edn.K("bytes"), edn.Int(r.Bytes),
		edn.K("files"), edn.Int(int64(r.Files)),
		edn.K("file-bytes"), edn.Int(r.FileBytes),
		edn.K("dry-run?"), edn.Bool(dryRun),
	), nil
}

// DatabaseStatus implements httpapi.Database.
func (d *Database) DatabaseStatus(ctx context.Context) (edn.Value, *contract.Error) {
	if d.schema != nil {
		driver := "sqlite"
		if d.cfg.Store.File == "" {
			driver = "postgres"
		}
		return edn.MustMap(
			edn.K("database"), edn.Text(d.schema.Path),
			edn.K("driver"), edn.K(driver),
			edn.K("schema"), edn.Int(int64(d.schema.Found)),
			edn.K("schema/known"), edn.Int(int64(d.schema.Known)),
			edn.K("writable?"), edn.Bool(false),
		), nil
	}
	if d.missing != nil {
		return edn.Nil(), d.missing
	}
	s, err := d.store.Status(ctx)
	if err != nil {
		return edn.Nil(), history.Failure(err)
	}
	var b edn.MapBuilder
	b.Key("database", edn.Text(s.Database))
	b.Key("driver", edn.K(s.Driver))
	b.Key("schema", edn.Int(int64(s.Schema)))
	b.Key("schema/known", edn.Int(int64(s.Known)))
	b.Key("runs", edn.Int(int64(s.Runs)))
	b.Key("runs/open", edn.Int(int64(s.Open)))
	b.Key("runs/suspended", edn.Int(int64(s.Suspended)))
	b.Key("records", edn.Int(s.Records))
	b.Key("bytes", edn.Int(s.Bytes))
	b.Key("size", edn.Int(s.Size))
	b.Key("size/free", edn.Int(s.Free))
	b.Key("files", edn.Int(int64(s.Files)))
	b.Key("file-bytes", edn.Int(s.FileBytes))
	b.OptText("last-run", s.Last)
	b.Key("writable?", edn.Bool(d.store.Err() == nil && !d.store.Full()))
	return b.Map(), nil
}

// Migrate implements httpapi.Database. The database is in use, so it only plans: without DryRun the
// error is admin/conflict.
func (d *Database) Migrate(ctx context.Context, m httpapi.Migration) (edn.Value, *contract.Error) {
	if d.missing != nil {
		return edn.Nil(), d.missing
	}
	if !m.DryRun {
		return edn.Nil(), contract.Errorf("admin/conflict", "migrate: a daemon uses the database %s", d.store.Name()).
			WithHint("stop it with \"ferment admin drain\", then run \"ferment admin migrate\" or \"ferment admin rollback\"")
	}
	now, err := d.store.Plan(ctx, -1)
	if err != nil {
		return edn.Nil(), history.Failure(err)
	}
	to, refused := target(m, now.From)
	if refused != nil {
		return edn.Nil(), refused
	}
	plan, err := d.store.Plan(ctx, to)
	return migrationValue(plan, m), history.Failure(err)
}

// target returns the target version of a migration from version from. The error for a rollback to a
// version that is not lower is invalid-request.
func target(m httpapi.Migration, from int) (int, *contract.Error) {
	to := m.To
	if m.Back && to < 0 {
		to = from - 1
	}
	if m.Back && (to < 0 || to >= from) {
		return 0, contract.Errorf("invalid-request", "roll back: the schema has version %d, expected a lower target version, got %d", from, max(to, 0)).
			WithHint("\"ferment admin db-status\" shows the version; \"ferment admin migrate\" goes up")
	}
	return to, nil
}

// MigrateDatabase migrates the database of a data directory that no daemon serves. With DryRun it
// only returns the plan. A migration that would lose data gets admin/conflict unless AcceptLoss is
// set.
func MigrateDatabase(ctx context.Context, cfg *config.Config, m httpapi.Migration) (edn.Value, error) {
	j := &history.Runs{Missing: cfg.Store.File}
	if !cfg.Store.Lasts() || noJournal(cfg) {
		_, missing := j.Kept()
		return edn.Nil(), missing
	}
	dir, err := lockDataDir(ctx, cfg.Host.DataDir)
	if err != nil {
		return edn.Nil(), err
	}
	defer dir.close()
	options, err := storeOptions(cfg)
	if err != nil {
		return edn.Nil(), history.Failure(err)
	}
	to := m.To
	if m.Back {
		now, err := store.Migrate(ctx, options, -1, false, true)
		if err != nil {
			return edn.Nil(), history.Failure(err)
		}
		var refused *contract.Error
		if to, refused = target(m, now.From); refused != nil {
			return edn.Nil(), refused
		}
	}
	done, err := store.Migrate(ctx, options, to, m.AcceptLoss, m.DryRun)
	var loss *store.LossError
	if errors.As(err, &loss) {
		return edn.Nil(), contract.Errorf("admin/conflict", "%s", loss.Error()).
			WithHint("write a backup with \"ferment admin backup\", then repeat the command with --accept-loss")
	}
	if err != nil {
		return edn.Nil(), history.Failure(err)
	}
	return migrationValue(done, m), nil
}

// migrationValue returns a migration that was executed or planned as EDN.
func migrationValue(m store.Migration, order httpapi.Migration) edn.Value {
	steps := make([]edn.Value, len(m.Steps))
	for i, name := range m.Steps {
		steps[i] = edn.Text(name)
	}
	return edn.MustMap(
		edn.K("database"), edn.Text(m.Database),
		edn.K("from"), edn.Int(int64(m.From)),
		edn.K("to"), edn.Int(int64(m.To)),
		edn.K("steps"), edn.Vector(steps...),
		edn.K("dry-run?"), edn.Bool(order.DryRun),
		edn.K("refused?"), edn.Bool(m.To < m.From && !order.AcceptLoss), // only a dry run returns with true
	)
}
