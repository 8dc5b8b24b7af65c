package daemon

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RepairJournal repairs a damaged journal in a data directory that no daemon serves. With dryRun it
// only returns what it would do. A journal in PostgreSQL is rejected with db/not-configured.
func RepairJournal(ctx context.Context, cfg *config.Config, dryRun bool) (_ edn.Value, err error) {
	if cfg.Store.DSN != nil {
		return edn.Nil(), contract.Errorf("db/not-configured", "only a journal in SQLite can be repaired, and this one is in PostgreSQL").
			WithHint("\"ferment runs verify\" finds damage; restore a backup of the server")
	}
	j := &history.Runs{Missing: cfg.Store.File}
	if j.Missing == "" || noJournal(cfg) {
		_, missing := j.Kept()
		return edn.Nil(), missing
	}
	dir, err := lockDataDir(ctx, cfg.Host.DataDir)
	if err != nil {
		return edn.Nil(), err
	}
	defer dir.close()
	var r *store.Repaired
	options, err := storeOptions(cfg)
	if err == nil {
		r, err = store.Repair(ctx, options, dryRun)
	}
	if err != nil {
		return edn.Nil(), history.Failure(err)
	}
	var b edn.MapBuilder
	b.Key("damaged?", edn.Bool(!r.Sound()))
	b.Key("dry-run?", edn.Bool(dryRun))
	b.Key("journal", edn.Text(cfg.Store.File))
	b.Key("runs", edn.Int(int64(r.Runs)))
	damaged := make([]edn.Value, len(r.Damaged))
	for i, run := range r.Damaged {
		damaged[i] = repairedValue(run)
	}
	b.Key("damaged", edn.Vector(damaged...))
	if !r.Sound() {
		for key, n := range r.Sessions.Value().Entries() {
			name, _ := key.AsKeyword()
			b.Key(name, n)
		}
	}
	if d := r.Sessions.Damage; d != nil {
		b.Key("sessions/damage", history.DamageValue(d))
	}
	if d := r.HostDamage; d != nil {
		b.Key("host/damage", history.DamageValue(d))
	}
	for key, text := range map[string]string{"file": r.File, "kept": r.Kept} {
		if text != "" {
			b.Key(key, edn.Text(text))
		}
	}
	for key, n := range map[string]int{"records/unnamed": r.Unnamed, "runs/missing": r.Missing, "host/cut": r.HostCut} {
		if n > 0 {
			b.Key(key, edn.Int(int64(n)))
		}
	}
	return b.Map(), nil
}

// repairedValue returns the result for one repaired run as EDN.
func repairedValue(r store.RepairedRun) edn.Value {
	lost := make([]edn.Value, len(r.Lost))
	for i, hash := range r.Lost {
		lost[i] = edn.Text(hash)
	}
	return edn.MustMap(
		edn.K("run"), edn.Text(r.Run),
		edn.K("status"), journal.Keyword(r.State),
		edn.K("halted?"), edn.Bool(r.Halted),
		edn.K("damage"), history.DamageValue(r.Damage),
		edn.K("records/kept"), edn.Int(int64(r.Records)),
		edn.K("records/cut"), edn.Int(int64(r.Cut)),
		edn.K("values/lost"), edn.Vector(lost...),
	)
}
