package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// migrateCommand changes the schema of the journal (OPS-007).
func (c *command) migrateCommand() *cobra.Command {
	var yes bool
	m := httpapi.Migration{To: -1}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "bring the database of the journal to the schema of this program",
		Long: "migrate brings the database of the journal to the version of its schema that this program needs, while no\n" +
			"daemon runs. A daemon does so itself with a file, and with PostgreSQL only if the database is empty: other\n" +
			"hosts may use it. With --to it goes to a lower version, for an older program, and deletes what that\n" +
			"version cannot store.\n" +
			"Exit codes: 0 the schema has the version, 6 a daemon runs or data would be lost.",
		Example: "  ferment admin migrate --dry-run\n  ferment admin migrate --to 2 --accept-loss --yes",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.migrate(cmd.Context(), "migrate-db", m, yes) },
	}
	cmd.Flags().IntVar(&m.To, "to", m.To, "version of the schema (default: the latest)")
	cmd.Flags().BoolVar(&m.AcceptLoss, "accept-loss", false, "delete what a lower version cannot store")
	cmd.Flags().BoolVar(&m.DryRun, "dry-run", false, "only print what would be done")
	cmd.Flags().BoolVar(&yes, "yes", false, yesUsage)
	return cmd
}

// rollbackCommand reverts migrations (OPS-007).
func (c *command) rollbackCommand() *cobra.Command {
	var yes bool
	m := httpapi.Migration{To: -1, Back: true}
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "bring the database of the journal to the schema of an older program",
		Long: "rollback takes the latest migrations of the database back, while no daemon runs: by default one, with --to\n" +
			"all above a version. It deletes what the older schema cannot store, which --accept-loss must allow; write a\n" +
			"backup first.\n" +
			"Exit codes: 0 the schema has the version, 6 a daemon runs or data would be lost.",
		Example: "  ferment admin rollback --dry-run\n  ferment admin rollback --to 2 --accept-loss --yes",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.migrate(cmd.Context(), "rollback-db", m, yes) },
	}
	cmd.Flags().IntVar(&m.To, "to", m.To, "version of the schema (default: the one before)")
	cmd.Flags().BoolVar(&m.AcceptLoss, "accept-loss", false, "delete what the older schema cannot store")
	cmd.Flags().BoolVar(&m.DryRun, "dry-run", false, "only print what would be done")
	cmd.Flags().BoolVar(&yes, "yes", false, yesUsage)
	return cmd
}

// migrate executes a migration and prints its result. Unless yes is set, it asks before it deletes
// data.
func (c *command) migrate(ctx context.Context, action string, m httpapi.Migration, yes bool) error {
	if m.AcceptLoss && !m.DryRun && !yes {
		plan := m
		plan.DryRun = true
		v, err := c.migration(ctx, action, plan)
		if err == nil {
			err = c.confirm(migrationText(v), "--yes")
		}
		if err != nil {
			return err
		}
	}
	v, err := c.migration(ctx, action, m)
	if err != nil {
		return err
	}
	return c.done(v, migrationText(v))
}

// migration executes a migration on the files, or in the daemon, which permits only dry runs.
func (c *command) migration(ctx context.Context, action string, m httpapi.Migration) (edn.Value, error) {
	there, err := c.reach(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	if there != nil {
		order := actionOf(action, edn.K("accept-loss?"), edn.Bool(m.AcceptLoss), edn.K("dry-run?"), edn.Bool(m.DryRun))
		if m.To >= 0 {
			order = order.AssocKey("to", edn.Int(int64(m.To)))
		}
		return there.Admin(ctx, order)
	}
	cfg := c.configured(ctx)
	if cfg.Host.DataDir == "" {
		return edn.Nil(), c.noDaemon(ctx)
	}
	return daemon.MigrateDatabase(ctx, cfg, m)
}

func migrationText(v edn.Value) string {
	from, to, done := number(v.Key("from")), number(v.Key("to")), "was brought"
	if v.Key("dry-run?").Truthy() {
		done = "would be brought"
	}
	switch steps := strings.Join(plains(v.Key("steps")), ", "); {
	case from == to:
		return fmt.Sprintf("%s: the schema has version %d", plain(v.Key("database")), to)
	case v.Key("refused?").Truthy():
		return fmt.Sprintf("%s: to bring the schema from version %d to %d would be refused without --accept-loss, because version %d has "+
			"no place for data of version %d; taken back: %s", plain(v.Key("database")), from, to, to, from, steps)
	case from > to:
		return fmt.Sprintf("%s: the schema %s from version %d to %d; taken back: %s", plain(v.Key("database")), done, from, to, steps)
	default:
		return fmt.Sprintf("%s: the schema %s from version %d to %d: %s", plain(v.Key("database")), done, from, to, steps)
	}
}
