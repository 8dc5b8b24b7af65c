package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
)

// migrateCommand changes the schema of the journal (OPS-007).
func (c *command) migrateCommand() *cobra.Command {
	var dry, loss bool
	to := -1
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "bring the database of the journal to the schema of this program",
		Long: "migrate brings the database of the journal to the version of its schema that this program needs, while no\n" +
			"daemon runs. A daemon does so itself with a file, and with PostgreSQL only if the database is empty: other\n" +
			"hosts may use it. A lower version, --to, is one for an older program; it deletes what that one has no\n" +
			"place for.\n" +
			"Exit codes: 0 the schema has the version, 6 a daemon runs or data would be lost.",
		Example: "  ferment admin migrate --dry-run\n  ferment admin migrate --to 2 --accept-loss",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.unserved(cmd.Context(), "migrate the journal")
			if err != nil {
				return err
			}
			v, err := daemon.MigrateJournal(cmd.Context(), cfg, to, loss, dry)
			if err != nil {
				return err
			}
			if c.format != formatText {
				return c.value(c.env.Stdout, v)
			}
			from, target, done := number(v.Key("from")), number(v.Key("to")), "was brought"
			if dry {
				done = "would be brought"
			}
			if from == target {
				_, err = fmt.Fprintf(c.env.Stdout, "%s: the schema has version %d\n", plain(v.Key("database")), target)
				return err
			}
			_, err = fmt.Fprintf(c.env.Stdout, "%s: the schema %s from version %d to %d\n", plain(v.Key("database")), done, from, target)
			return err
		},
	}
	cmd.Flags().IntVar(&to, "to", to, "version of the schema (default: the latest)")
	cmd.Flags().BoolVar(&loss, "accept-loss", false, "delete what a lower version has no place for")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print what would be done")
	return cmd
}
