package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// repairHint is the next step for a damaged journal.
const repairHint = "\"ferment admin journal-repair --dry-run\" shows what can be kept; without --dry-run it asks and repairs the journal"

func (c *command) repairCommand() *cobra.Command {
	var dry, yes bool
	cmd := &cobra.Command{
		Use:   "journal-repair",
		Short: "make a damaged journal usable again while no daemon runs",
		Long: "journal-repair compares all runs with their hashes and checks the pages of the database. If there is damage,\n" +
			"it writes a new database: each run up to its first damaged record, each value that has its hash, and the\n" +
			"sessions, variables and turns that can be read. It says how many it kept and, as far as it is known, lost. A run\n" +
			"that lost records is suspended, because it is not known what else it did: \"ferment runs resume\" or \"cancel\"\n" +
			"decides. An open run that lost values fails. The damaged files and the records that were cut off are kept in\n" +
			"a directory beside the database.\n" +
			"Exit codes: 0 the journal has no damage or was repaired, 3 it is damaged (--dry-run), 6 a daemon runs.",
		Example: "  ferment admin journal-repair --dry-run\n  ferment admin journal-repair --yes --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.unserved(cmd.Context(), "repair the journal")
			if err != nil {
				return err
			}
			result, err := daemon.RepairJournal(cmd.Context(), cfg, dry || !yes)
			if err == nil && !dry && !yes {
				if !result.Key("damaged?").Truthy() {
					result = result.Dissoc(edn.K("dry-run?"))
				} else if err = c.confirm(repairText(result), "--yes"); err == nil {
					result, err = daemon.RepairJournal(cmd.Context(), cfg, false)
				}
			}
			if err != nil {
				return err
			}
			text, damaged := repairText(result), result.Key("damaged?").Truthy()
			if dry && damaged {
				text += "\nnothing was done (dry run)"
			}
			err = c.done(result, text)
			if err == nil && dry && damaged {
				err = quietError{exit.Code(contract.Errorf("journal/damaged", "damage was found"))}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print what the repair would do")
	cmd.Flags().BoolVar(&yes, "yes", false, yesUsage)
	return cmd
}

// unserved returns the configuration for an operation on a data directory without a daemon; an
// error if a daemon has it.
func (c *command) unserved(ctx context.Context, what string) (*config.Config, error) {
	cfg := c.configured(ctx)
	if cfg.Host.DataDir == "" {
		return nil, c.noDaemon(ctx)
	}
	client, err := c.reach(ctx)
	if err == nil && client != nil {
		err = contract.Errorf("admin/conflict", "%s: a daemon serves the data directory %s", what, cfg.Host.DataDir).
			WithHint("stop it with \"ferment admin drain\"")
	}
	return cfg, err
}

// repairText returns the result of a repair, or of its dry run, as text for people.
func repairText(v edn.Value) string {
	runs := diag.Counted(number(v.Key("runs")), "run")
	if !v.Key("damaged?").Truthy() {
		return runs + " verified, none damaged"
	}
	var b strings.Builder
	if v.HasKey("file") {
		b.WriteString(diag.WrapLabeled("damaged pages: ", strings.Join(strings.Fields(plain(v.Key("file"))), " ")) + "\n")
	}
	for _, line := range []struct{ key, name, text string }{
		{"runs/missing", "run", "of which nothing was found"},
		{"records/unnamed", "record", "of runs that are not known"},
	} {
		if n := number(v.Key(line.key)); n > 0 {
			fmt.Fprintf(&b, "%s %s\n", diag.Counted(n, line.name), line.text)
		}
	}
	for r := range v.Key("damaged").Elems() {
		fmt.Fprintf(&b, "%s: %s kept, %s cut, %s lost, %s\n", plain(r.Key("run")), diag.Counted(number(r.Key("records/kept")), "record"),
			r.Key("records/cut"), diag.Counted(r.Key("values/lost").Len(), "value"), plain(r.Key("status")))
		b.WriteString(diag.WrapLabeled("  first damage: ", plain(r.Key("damage").Key("what"))) + "\n")
	}
	if v.HasKey("sessions/damage") {
		b.WriteString(diag.WrapLabeled("sessions: first damage: ", plain(v.Key("sessions/damage").Key("what"))) + "\n")
	}
	if parts := salvagedText(v); parts != "" {
		b.WriteString(diag.WrapLabeled("sessions: ", parts) + "\n")
	}
	end := fmt.Sprintf("repaired: the journal has %s; the damaged files and what was cut off are in %s", runs, plain(v.Key("kept")))
	if v.Key("dry-run?").Truthy() {
		end = fmt.Sprintf("the repaired journal would have %s", runs)
	}
	b.WriteString(diag.Wrap(end, 0, 2))
	return b.String()
}

// salvagedText returns how many sessions, variables and turns a repair kept and lost; empty if
// there were none.
func salvagedText(v edn.Value) string {
	var parts []string
	total := 0
	for _, row := range []struct{ key, name string }{{"sessions", "session"}, {"variables", "variable"}, {"turns", "turn"}} {
		kept, lost := number(v.Key(row.key+"/kept")), number(v.Key(row.key+"/lost"))
		total += kept + lost
		parts = append(parts, fmt.Sprintf("%s kept, %d lost", diag.Counted(kept, row.name), lost))
	}
	if total == 0 {
		return ""
	}
	return strings.Join(parts, "; ")
}
