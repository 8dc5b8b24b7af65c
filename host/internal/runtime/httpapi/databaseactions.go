package httpapi

import (
	"context"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Database performs maintenance of the database of the journal (OPS-007, OPS-008). Its methods are
// safe for concurrent use.
type Database interface {
	// Backup writes a backup of the data directory and returns its manifest. An empty target
	// selects a new path below the data directory.
	Backup(ctx context.Context, target string) (edn.Value, *contract.Error)
	// Collect removes the runs and files that retention does not keep; with dryRun it only returns
	// what it would remove.
	Collect(ctx context.Context, dryRun bool) (edn.Value, *contract.Error)
	// DatabaseStatus returns the version of the schema, the sizes and the number of runs.
	DatabaseStatus(ctx context.Context) (edn.Value, *contract.Error)
	// Migrate migrates the schema to another version. With DryRun it changes nothing. A host that
	// uses the database rejects a call without DryRun with admin/conflict.
	Migrate(ctx context.Context, m Migration) (edn.Value, *contract.Error)
}

// Migration is a change of the schema of the database.
type Migration struct {
	To         int  // version; negative: the latest, or with Back the previous one
	Back       bool // To must be lower than the current version
	AcceptLoss bool // permits deleting data that the lower version cannot store
	DryRun     bool
}

// databaseActions returns the actions on the database.
func databaseActions() []Action {
	on := func(
		do func(context.Context, Database, edn.Value) (edn.Value, *contract.Error),
	) func(context.Context, Control, edn.Value) (edn.Value, *contract.Error) {
		return func(ctx context.Context, c Control, in edn.Value) (edn.Value, *contract.Error) {
			return do(ctx, c.Database(), in)
		}
	}
	return []Action{
		{Name: "backup", Doc: "write a backup of the data directory; the response is sent at the end",
			Input: `[:path {:optional true :doc "absolute path of a new directory, or of a new file that ends in .tar; default: below the data directory"} [:string {:min 1 :max 4096}]]`,
			do: on(func(ctx context.Context, d Database, in edn.Value) (edn.Value, *contract.Error) {
				return d.Backup(ctx, text(in, "path"))
			})},
		{Name: "gc", Frees: true, Doc: "remove the runs that store.retain does not keep, with their values, and files that no value names",
			Input: `[:dry-run? {:optional true} :boolean]`,
			do: on(func(ctx context.Context, d Database, in edn.Value) (edn.Value, *contract.Error) {
				return d.Collect(ctx, in.Key("dry-run?").Truthy())
			})},
		{Name: "db-status", Reads: true, Doc: "the database of the journal: version of its schema, sizes, runs",
			do: on(func(ctx context.Context, d Database, _ edn.Value) (edn.Value, *contract.Error) {
				return d.DatabaseStatus(ctx)
			})},
		{Name: "migrate-db", Doc: "bring the schema to the version of this program; a daemon that uses the database only answers a dry run",
			Input: `[:to {:optional true :doc "version; default: the latest"} [:int {:min 0 :max 10000}]] [:accept-loss? {:optional true :doc "delete what a lower version cannot store"} :boolean] [:dry-run? {:optional true} :boolean]`,
			do: on(func(ctx context.Context, d Database, in edn.Value) (edn.Value, *contract.Error) {
				return d.Migrate(ctx, migrationOf(in, false))
			})},
		{Name: "rollback-db", Doc: "bring the schema to an earlier version; a daemon that uses the database only answers a dry run",
			Input: `[:to {:optional true :doc "version; default: the one before"} [:int {:min 0 :max 10000}]] [:accept-loss? {:optional true :doc "delete what the lower version cannot store"} :boolean] [:dry-run? {:optional true} :boolean]`,
			do: on(func(ctx context.Context, d Database, in edn.Value) (edn.Value, *contract.Error) {
				return d.Migrate(ctx, migrationOf(in, true))
			})},
	}
}

func migrationOf(in edn.Value, back bool) Migration {
	return Migration{
		To:         int(intOr(in, "to", -1)),
		Back:       back,
		AcceptLoss: in.Key("accept-loss?").Truthy(),
		DryRun:     in.Key("dry-run?").Truthy(),
	}
}

// databaseOnly is a Control for database actions; only its method Database may be called.
type databaseOnly struct {
	Control
	database Database
}

// Database implements Control.
func (d databaseOnly) Database() Database { return d.database }

// DoOnDatabase executes an action on the database without a daemon, in the same way as POST
// /v1/admin.
func DoOnDatabase(ctx context.Context, database Database, action edn.Value) (edn.Value, *contract.Error) {
	return doAlone(ctx, databaseActions(), databaseOnly{database: database}, action)
}

// doAlone executes an action of a table without a daemon. The input is validated as in POST
// /v1/admin.
func doAlone(ctx context.Context, rows []Action, c Control, action edn.Value) (edn.Value, *contract.Error) {
	a, err := newActionTable("admin", rows).find(action)
	if err != nil {
		return edn.Nil(), err
	}
	if found := a.schema.Validate(action); len(found) > 0 {
		return edn.Nil(), a.wrongInput(found)
	}
	return a.do(ctx, c, action)
}
