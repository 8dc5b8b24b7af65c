package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// databaseAction executes an action on the database, in the daemon or, if none runs, on the files.
func (c *command) databaseAction(ctx context.Context, action edn.Value) (v edn.Value, err error) {
	there, err := c.reach(ctx)
	switch {
	case err != nil:
		return edn.Nil(), err
	case there != nil:
		return there.Admin(ctx, action)
	}
	cfg := c.configured(ctx)
	if cfg.Host.DataDir == "" {
		return edn.Nil(), c.noDaemon(ctx)
	}
	database, err := daemon.OpenDatabase(ctx, cfg, c.env.Version)
	if err != nil {
		return edn.Nil(), err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	v, failure := httpapi.DoOnDatabase(ctx, database, action)
	if failure != nil {
		return edn.Nil(), failure
	}
	return v, nil
}

func (c *command) gcCommand() *cobra.Command {
	var dry, yes bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "remove now what store.retain does not keep",
		Long: "gc removes finished runs that are older than store.retain says, then the oldest until the rest fits, with\n" +
			"their values, and files that no run names. Pinned and open runs stay, and so do the summaries of removed runs. A\n" +
			"daemon does the same every ten minutes.",
		Example: "  ferment admin gc --dry-run\n  ferment admin gc --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			action := actionOf("gc")
			if !yes || dry {
				plan, err := c.databaseAction(cmd.Context(), action.AssocKey("dry-run?", edn.Bool(true)))
				if err != nil {
					return err
				}
				if dry {
					return c.done(plan, removalText(plan, "would be removed")+"\nnothing was done (dry run)")
				}
				if err := c.confirm(removalText(plan, "are removed"), "--yes"); err != nil {
					return err
				}
			}
			return c.onDatabase(cmd.Context(), action, func(v edn.Value) string { return removalText(v, "removed") + "\n" })
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print what would be removed")
	cmd.Flags().BoolVar(&yes, "yes", false, yesUsage)
	return cmd
}

func removalText(v edn.Value, verb string) string {
	return fmt.Sprintf("%s with %s, and %s with %s that no run names: %s", diag.Counted(number(v.Key("runs")), "run"), byteSize(v.Key("bytes")),
		diag.Counted(number(v.Key("files")), "file"), byteSize(v.Key("file-bytes")), verb)
}

func (c *command) databaseStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "db-status",
		Short:   "show the database of the journal: schema, sizes, runs",
		Example: "  ferment admin db-status\n  ferment admin db-status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.onDatabase(cmd.Context(), actionOf("db-status"), databaseText)
		},
	}
}

func databaseText(v edn.Value) string {
	var b strings.Builder
	fmt.Fprintf(&b, "database: %s (%s)\n", plain(v.Key("database")), plain(v.Key("driver")))
	fmt.Fprintf(&b, "schema:   version %s, this program knows up to %s\n", v.Key("schema"), v.Key("schema/known"))
	if !v.HasKey("size") {
		b.WriteString("use:      this program cannot use that version; \"ferment admin migrate\" brings an older one up\n")
		return b.String()
	}
	fmt.Fprintf(&b, "size:     %s, %s of it free", byteSize(v.Key("size")), byteSize(v.Key("size/free")))
	if n := number(v.Key("files")); n > 0 {
		fmt.Fprintf(&b, ", and %s with %s", diag.Counted(n, "file"), byteSize(v.Key("file-bytes")))
	}
	fmt.Fprintf(&b, "\nruns:     %s, %s open, %s suspended, %s with %s\n", v.Key("runs"), v.Key("runs/open"), v.Key("runs/suspended"),
		diag.Counted(number(v.Key("records")), "record"), byteSize(v.Key("bytes")))
	if !v.Key("writable?").Truthy() {
		b.WriteString("write:    no new runs are accepted: the disk has too little space, or failed\n")
	}
	return b.String()
}
