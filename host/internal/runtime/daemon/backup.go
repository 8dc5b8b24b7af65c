package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/adapters/store/backup"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Backup implements httpapi.Database. Only one backup can be written at a time; a second one gets
// admin/conflict.
func (d *Database) Backup(ctx context.Context, target string) (edn.Value, *contract.Error) {
	if d.missing != nil {
		return edn.Nil(), d.missing
	}
	target, err := backupTarget(d.cfg.Host.DataDir, target, time.Now())
	if err != nil {
		return edn.Nil(), err
	}
	if !d.writing.TryLock() {
		return edn.Nil(), contract.Errorf("admin/conflict", "backup: another backup of this data directory is being written").
			WithHint("wait for its end")
	}
	defer d.writing.Unlock()
	m, failed := backup.Create(ctx, backup.Source{
		Dir:      d.cfg.Host.DataDir,
		Format:   dataFormat,
		Database: d.cfg.Store.File,
		Store:    d.store,
		Program:  d.program,
		Now:      time.Now,
	}, target)
	if failed != nil {
		return edn.Nil(), history.Failure(failed)
	}
	v := m.Value().AssocKey("backup", edn.Text(target))
	if d.damaged > 0 {
		v = v.AssocKey("journal/damaged", edn.Int(d.damaged))
	}
	return v, nil
}

// backupTarget returns the path of a new backup: target, or a new folder in the folder for backups
// of the data directory dir. A target elsewhere in the data directory is rejected.
func backupTarget(dir, target string, now time.Time) (string, *contract.Error) {
	if target == "" {
		return filepath.Join(dir, backup.Folder, now.UTC().Format("20060102T150405.000Z")), nil
	}
	if !filepath.IsAbs(target) {
		return "", contract.Errorf("invalid-request", "backup: %q is not an absolute path", target).
			WithHint("write an absolute path: the daemon does not know the working directory of the client")
	}
	target = filepath.Clean(target)
	parent, real := realPath(filepath.Dir(target)), realPath(dir)
	if below(parent, real) && !below(parent, filepath.Join(real, backup.Folder)) {
		return "", contract.Errorf("invalid-request", "backup: %s is inside the data directory, and would be part of the next backup", target).
			WithHint("name a path outside, or below " + filepath.Join(dir, backup.Folder))
	}
	return target, nil
}

// realPath resolves the symbolic links in the part of a path that exists; the rest is created later.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(realPath(parent), filepath.Base(path))
}

// below reports whether path is folder or below it.
func below(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// VerifyBackup verifies a backup and returns its manifest with all findings. Findings are not an
// error.
func VerifyBackup(ctx context.Context, path string) (_ edn.Value, err error) {
	b, err := backup.Open(ctx, path)
	if err != nil {
		return edn.Nil(), history.Failure(err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	found, err := b.Verify(ctx)
	if err != nil {
		return edn.Nil(), history.Failure(err)
	}
	v := b.Manifest.Value().AssocKey("backup", edn.Text(path))
	return v.AssocKey("findings", findingsOf(found)), nil
}

func findingsOf(found []backup.Finding) edn.Value {
	out := make([]edn.Value, len(found))
	for i, f := range found {
		var b edn.MapBuilder
		b.OptText("path", f.Path)
		b.Key("message", edn.Text(f.What))
		out[i] = b.Map()
	}
	return edn.Vector(out...)
}

// Restoration configures the restore of a backup.
type Restoration struct {
	Path string
	// Resume lets open runs continue at the next start. Otherwise they are suspended, because the
	// host from which the backup was made may still execute them.
	Resume bool
	// RevokeTokens deletes all API tokens.
	RevokeTokens bool
	// Damaged also restores a backup whose journal was damaged when the backup was made. A file
	// that differs from the manifest is still rejected.
	Damaged bool
	DryRun  bool
}

// restoring is the content of FORMAT while a restore fills a data directory.
const restoring = "restoring"

// RestoreBackup restores a backup into the data directory of a configuration, which must be empty.
// It verifies the backup first. A daemon rejects a data directory whose restore was interrupted;
// repeat the restore.
func RestoreBackup(ctx context.Context, cfg *config.Config, how Restoration) (_ edn.Value, err error) {
	b, err := backup.Open(ctx, how.Path)
	if err != nil {
		return edn.Nil(), history.Failure(err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := restorable(ctx, b, cfg, how); err != nil {
		return edn.Nil(), err
	}
	r := restore{cfg: cfg, how: how, from: b}
	if err := r.empty(); err != nil {
		return edn.Nil(), err
	}
	if !how.DryRun {
		if err := r.fill(ctx); err != nil {
			var environment *setup.EnvironmentError
			if errors.As(err, &environment) {
				return edn.Nil(), err
			}
			return edn.Nil(), history.Failure(err)
		}
	}
	v := b.Manifest.Value()
	for key, value := range map[string]edn.Value{
		"backup":         edn.Text(how.Path),
		"data-dir":       edn.Text(cfg.Host.DataDir),
		"dry-run?":       edn.Bool(how.DryRun),
		"runs/suspended": edn.Int(int64(r.suspended)),
		"tokens/revoked": edn.Int(int64(r.revoked)),
	} {
		v = v.AssocKey(key, value)
	}
	return v, nil
}

// restorable verifies a backup and checks that it fits the configuration and the options.
func restorable(ctx context.Context, b *backup.Backup, cfg *config.Config, how Restoration) error {
	found, err := b.Verify(ctx)
	if err != nil {
		return history.Failure(err)
	}
	switch within := backup.Within(found); {
	case len(found) == 0 || within && how.Damaged:
	case within:
		return contract.Errorf("backup/invalid", "restore: the journal in the backup %s was damaged before it was backed up: %s",
			how.Path, diag.Counted(len(found), "difference")).
			WithDetail("findings", findingsOf(found)).
			WithHint(`use an earlier backup; --damaged restores this one, and "ferment admin journal-repair" then repairs it`)
	default:
		return contract.Errorf("backup/invalid", "restore: the backup %s is not what was written: %s",
			how.Path, diag.Counted(len(found), "difference")).
			WithDetail("findings", findingsOf(found))
	}
	m, driver := b.Manifest, driverOf(cfg)
	switch {
	case m.Format > dataFormat:
		return contract.Errorf("backup/invalid", "restore: the backup has format %d, and this build knows formats up to %d", m.Format, dataFormat).
			WithHint("use the build that wrote it or a later one")
	case m.Database.Driver != driver:
		return contract.Errorf("backup/invalid", "restore: the backup is of store.driver %q, and the configuration has %q", m.Database.Driver, driver).
			WithHint("restore it with the configuration of the host that wrote it")
	case driver == language.StorePostgres && (how.RevokeTokens || how.Resume):
		return contract.Errorf("invalid-request", "restore: tokens and runs are in the PostgreSQL database, which "+
			"the backup does not have: "+
			"this command can neither revoke nor resume them").
			WithHint("leave --revoke-tokens and --resume out; \"ferment token revoke\" deletes tokens while the daemon runs")
	}
	return nil
}

// restore is a restore in progress.
type restore struct {
	cfg                *config.Config
	how                Restoration
	from               *backup.Backup
	suspended, revoked int
}

// empty returns an error unless the data directory does not exist, or is private and either empty
// or the result of an interrupted restore.
func (r *restore) empty() error {
	dir := r.cfg.Host.DataDir
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = checkPrivate(dir)
	}
	if err != nil {
		return &setup.EnvironmentError{Op: "restore", Err: err}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "FORMAT")); err == nil && string(text) == restoring+"\n" {
		return nil
	}
	for _, e := range entries {
		if e.Name() != "LOCK" {
			return contract.Errorf("admin/conflict", "restore: the data directory %s is not empty: it has %s", dir, e.Name()).
				WithHint("name an empty directory in ferment.data_dir, or move this one away")
		}
	}
	return nil
}

// fill restores under the lock of the data directory. If it fails, it deletes what it has written.
func (r *restore) fill(ctx context.Context) (err error) {
	dir := r.cfg.Host.DataDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &setup.EnvironmentError{Op: "restore", Err: err}
	}
	if err := checkPrivate(dir); err != nil {
		return &setup.EnvironmentError{Op: "restore", Err: err}
	}
	d := &dataDir{path: dir}
	if err := d.await(ctx, func(*LockedError) bool { return true }); err != nil {
		return &setup.EnvironmentError{Op: "restore", Err: err}
	}
	defer d.close()
	if err := r.empty(); err != nil { // another process may have filled it
		return err
	}
	if err := clearDir(dir); err != nil {
		return &setup.EnvironmentError{Op: "restore", Err: err}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, clearDir(dir))
		}
	}()
	if err := d.writeFormat(restoring); err != nil {
		return err
	}
	if err := r.from.Restore(ctx, dir, r.cfg.Store.File); err != nil {
		return &setup.EnvironmentError{Op: "restore " + r.how.Path, Err: err}
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	return d.writeFormat(itoa(r.from.Manifest.Format))
}

// clearDir deletes the content of a data directory, except its lock file.
func clearDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "LOCK" {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle suspends the open runs and revokes tokens, as the options require.
func (r *restore) settle(ctx context.Context) (err error) {
	if r.from.Manifest.Database.Driver != language.StoreSQLite {
		return nil // they are in the dump of the server
	}
	options, err := storeOptions(r.cfg)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if !r.how.Resume {
		if r.suspended, err = s.SuspendOpen(ctx, "run/restored"); err != nil {
			return err
		}
	}
	if r.how.RevokeTokens {
		r.revoked, err = revokeTokens(ctx, s)
	}
	return err
}

// revokeTokens deletes all API tokens and returns their number.
func revokeTokens(ctx context.Context, s *store.Store) (n int, err error) {
	err = s.Identity().Update(ctx, func(a identity.Accounts) (c identity.Change, _ error) {
		for _, t := range a.Tokens {
			c.DropToken = append(c.DropToken, t.ID)
		}
		n = len(a.Tokens)
		return c, nil
	})
	return n, err
}

// driverOf returns the value of store.driver of a configuration.
func driverOf(cfg *config.Config) string {
	switch {
	case cfg.Store.DSN != nil:
		return language.StorePostgres
	case cfg.Store.File != "":
		return language.StoreSQLite
	}
	return language.StoreMemory
}
