package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup [PATH]",
		Short: "write a backup of the data directory while the daemon runs, or verify one",
		Long: "backup writes a consistent copy of the data directory, without stopping anything: the journal with its\n" +
			"values, sessions, conversations, users, tokens and budgets, the key of secrets, calibrations, prices and\n" +
			"installed plugins. PATH is a new directory, or a new file if it ends in .tar; by default it is a new directory in\n" +
			"backups, below the data directory. A file MANIFEST in it has the hash of every file. The backup holds requests and\n" +
			"answers in full. The configuration is not in it, and neither is a PostgreSQL database, which the tools of its\n" +
			"server dump.\n" +
			"Exit codes: 0 the backup is complete, 3 it could not be written, 6 PATH exists already or another is being written.",
		Example: "  ferment admin backup\n  ferment admin backup monday.tar",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("backup")
			if len(args) > 0 {
				if c.remote != nil {
					return usagef("admin backup PATH: with --server expected no path: the daemon writes the backup on its machine")
				}
				action = action.AssocKey("path", edn.Text(c.absolute(args[0])))
			}
			return c.onDatabase(cmd.Context(), action, func(v edn.Value) string {
				if n := number(v.Key("journal/damaged")); n > 0 {
					c.warn("the journal has %s, which the backup has, too: \"ferment runs verify\" lists them",
						diag.Counted(n, "damaged place"))
				}
				return fmt.Sprintf("%s: %s in %s, %s%s\n", plain(v.Key("backup")), byteSize(v.Key("bytes")),
					diag.Counted(number(v.Key("files")), "file"), journalText(v.Key("journal")), noteText(v))
			})
		},
	}
	cmd.AddCommand(c.verifyBackupCommand())
	return cmd
}

func (c *command) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.env.Dir, path)
}

// journalText describes what a backup contains of the journal.
func journalText(v edn.Value) string {
	text := diag.Counted(number(v.Key("runs")), "run")
	if open := number(v.Key("open")); open > 0 {
		text += fmt.Sprintf(", %d of them open", open)
	}
	return text
}

// noteText describes what an operator has to do in addition.
func noteText(v edn.Value) string {
	database := v.Key("database")
	if note, ok := database.Key("note").AsString(); ok && note != "" {
		return "\n" + plain(database.Key("name")) + " is not in it: " + note
	}
	return ""
}

// byteSize returns a number of bytes as text.
func byteSize(v edn.Value) string {
	n, _ := v.AsInt()
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return diag.Counted(int(n), "byte")
}

func (c *command) verifyBackupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify PATH",
		Short: "read a backup back and compare everything in it",
		Long: "verify compares every file of a backup with its hash, and in its journal every page, record, value and\n" +
			"session. It changes nothing and needs no daemon. An archive is unpacked beside its place meanwhile.\n" +
			"Exit codes: 0 the backup is what was written, 1 it is not or its journal is damaged.",
		Example: "  ferment admin backup verify monday.tar\n  ferment admin backup verify monday.tar --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := daemon.VerifyBackup(cmd.Context(), c.absolute(args[0]))
			if err != nil {
				return err
			}
			if c.format != formatText {
				err = c.value(c.env.Stdout, v)
			} else {
				_, err = io.WriteString(c.env.Stdout, verifiedText(v))
			}
			if err == nil && v.Key("findings").Len() > 0 {
				err = quietError{exit.Code(contract.Errorf("backup/invalid", "the backup differs"))}
			}
			return err
		},
	}
}

func verifiedText(v edn.Value) string {
	var b strings.Builder
	within := true // the journal alone, see backup.Within
	for f := range v.Key("findings").Elems() {
		where := "journal: "
		if path, ok := f.Key("path").AsString(); ok {
			where, within = path+": ", false
		}
		b.WriteString(diag.WrapLabeled(where, plain(f.Key("message"))) + "\n")
	}
	state := "verified"
	switch {
	case b.Len() > 0 && within:
		state = "it is what was written, but its journal was damaged before; use an earlier backup, " +
			"or restore it with --damaged and repair the journal"
	case b.Len() > 0:
		state = "it is not what was written; use another backup"
	}
	fmt.Fprintf(&b, "%s: written %s ago by version %s, %s in %s, %s: %s\n", plain(v.Key("backup")), since(v.Key("at")), plain(v.Key("program")),
		byteSize(v.Key("bytes")), diag.Counted(number(v.Key("files")), "file"), journalText(v.Key("journal")), state)
	return b.String()
}

func (c *command) restoreCommand() *cobra.Command {
	var yes bool
	var how daemon.Restoration
	cmd := &cobra.Command{
		Use:   "restore PATH",
		Short: "fill an empty data directory from a backup while no daemon runs",
		Long: "restore verifies a backup and copies it into the data directory of the configuration, which must be empty.\n" +
			"Runs that were open are suspended, because the host that wrote the backup may still execute them, and no\n" +
			"effect must happen twice: \"ferment runs resume\" or \"cancel\" decides about each. With --resume they go on at the\n" +
			"next start; use it only if that host is gone. Users keep their passwords, and tokens stay valid unless they are\n" +
			"revoked. A restore that is interrupted leaves a directory that no daemon takes; run it again. With PostgreSQL,\n" +
			"runs and tokens are those of the database: --resume and --revoke-tokens are refused.\n" +
			"A backup whose journal was damaged before is restored with --damaged only; \"ferment admin journal-repair\"\n" +
			"then repairs what it can.\n" +
			"Exit codes: 0 restored, 1 the backup is not what was written or is damaged, 6 the directory is not empty or a daemon runs.",
		Example: "  ferment admin restore monday.tar --dry-run\n  ferment admin restore monday.tar --revoke-tokens --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := c.unserved(cmd.Context(), "restore")
			if err != nil {
				return err
			}
			how.Path = c.absolute(args[0])
			if !yes && !how.DryRun {
				plan := how
				plan.DryRun = true
				v, err := daemon.RestoreBackup(cmd.Context(), cfg, plan)
				if err == nil {
					err = c.confirm(restoreText(v, how), "--yes")
				}
				if err != nil {
					return err
				}
			}
			v, err := daemon.RestoreBackup(cmd.Context(), cfg, how)
			if err != nil {
				return err
			}
			if how.DryRun {
				return c.done(v, restoreText(v, how)+"\nnothing was done (dry run)")
			}
			return c.done(v, restoredText(v))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&how.Resume, "resume", false, "let open runs go on at the next start; only if the host that wrote the backup is gone")
	flags.BoolVar(&how.RevokeTokens, "revoke-tokens", false, "delete all API tokens")
	flags.BoolVar(&how.Damaged, "damaged", false, "also restore a journal that was damaged before it was backed up")
	flags.BoolVar(&how.DryRun, "dry-run", false, "only verify the backup and print what would be done")
	flags.BoolVar(&yes, "yes", false, yesUsage)
	return cmd
}

// restoreText describes what a restore will do.
func restoreText(v edn.Value, how daemon.Restoration) string {
	fate := "open runs come back suspended"
	if how.Resume {
		fate = "open runs go on at the next start"
	}
	tokens := "tokens stay valid"
	if how.RevokeTokens {
		tokens = "all tokens are revoked"
	}
	if driver, _ := v.Key("database").Key("driver").AsString(); driver == language.StorePostgres {
		fate, tokens = "open runs are those of the database and go on", "tokens are those of the database"
	}
	return fmt.Sprintf("%s, written %s ago, is restored into %s: %s, %s; %s; %s", plain(v.Key("backup")), since(v.Key("at")),
		plain(v.Key("data-dir")), byteSize(v.Key("bytes")), journalText(v.Key("journal")), fate, tokens)
}

func restoredText(v edn.Value) string {
	text := fmt.Sprintf("%s: restored %s, %s", plain(v.Key("data-dir")), byteSize(v.Key("bytes")), diag.Counted(number(v.Key("journal").Key("runs")), "run"))
	if n := number(v.Key("runs/suspended")); n > 0 {
		text += fmt.Sprintf("; %s suspended, see \"ferment runs list --status suspended\"", diag.Counted(n, "run"))
	}
	if n := number(v.Key("tokens/revoked")); n > 0 {
		text += fmt.Sprintf("; %s revoked", diag.Counted(n, "token"))
	}
	return text + noteText(v)
}

// onDatabase executes an action on the database, in the daemon or, if none runs, on the files, and
// prints the result.
func (c *command) onDatabase(ctx context.Context, action edn.Value, text func(edn.Value) string) (err error) {
	v, err := c.databaseAction(ctx, action)
	if err != nil {
		return err
	}
	if c.format != formatText {
		return c.value(c.env.Stdout, v)
	}
	_, err = io.WriteString(c.env.Stdout, text(v))
	return err
}
