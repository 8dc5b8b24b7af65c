package cli

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) runsReplayCommand() *cobra.Command {
	var mode string
	var swap map[string]string
	var effects []string
	cmd := &cobra.Command{
		Use:   "replay RUN|FILE",
		Short: "execute a finished run once more from its records, and compare",
		Long: "replay executes a run with the attempts, answers and verdicts that are recorded, and compares the values of\n" +
			"all nodes and the result. No plugin is called and nothing is recorded. A difference, such as a call that has\n" +
			"no record, ends with the place of the first node that differs. A gate that the run did not have is evaluated\n" +
			"if the host checks it by itself. One whose condition was changed has its recorded verdict; --mode fill\n" +
			"evaluates it again.\n\n" +
			"FILE is one that runs export wrote; its name has a separator or a dot. Its run is replayed under the\n" +
			"configuration found here, without a daemon and without the plugins: what they provide is in the file. So an\n" +
			"exported run is a test of a configuration.\n\n" +
			"With --mode fill the daemon makes a new run under its configuration. An attempt with a recorded request has\n" +
			"the recorded end and costs nothing; checks of the host run again; every other call is made, without effects\n" +
			"that --effects does not name. --swap A=B calls capability B in place of A, and with that --mode fill. The\n" +
			"new run is compared with the recorded one as by runs diff.\n" +
			"Exit codes: 0 equal, 1 --mode fill found differences.",
		Example: "  ferment runs replay last\n  ferment runs replay last --json\n  ferment runs replay ./last.edn\n" +
			"  ferment runs replay last --mode fill",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ofFile := strings.ContainsAny(args[0], string(filepath.Separator)+".") // no id of a run has one
			action := actionOf("runs-replay", edn.K("run"), edn.Text(args[0]))
			if (len(swap) > 0 || len(effects) > 0) && !cmd.Flags().Changed("mode") {
				mode = journal.ReplayFill
			}
			switch {
			case ofFile && c.remote != nil:
				return usagef("%s is a file of this machine: omit --server", args[0])
			case mode == strictReplay && len(swap)+len(effects) > 0:
				return usagef("--swap and --effects need --mode fill: a strict replay makes no calls")
			case mode == strictReplay && ofFile:
				return c.replayFile(cmd.Context(), args[0])
			case mode == strictReplay:
				return c.onRuns(cmd.Context(), false, func(d runsDesk) error { return c.replayStrictly(cmd.Context(), d, action) })
			case mode != journal.ReplayFill:
				return usagef("--mode %s: expected strict or fill", mode)
			case ofFile:
				return usagef("--mode fill makes a new run, of one that is recorded: \"ferment runs import %s\" records it", args[0])
			}
			if err := readEffects(effects); err != nil {
				return err
			}
			action, err := filling(action, swap, effects)
			if err != nil {
				return err
			}
			return c.onRuns(cmd.Context(), false, func(d runsDesk) error { return c.replayAndFill(cmd.Context(), d, action) })
		},
	}
	cmd.Flags().StringVar(&mode, "mode", strictReplay, "strict calls nothing; fill makes the calls that are not recorded, in a new run")
	cmd.Flags().StringToStringVar(&swap, "swap", nil, "capability, and one that is called in its place, as A=B; may be repeated")
	cmd.Flags().StringSliceVar(&effects, "effects", nil, "effects that calls may have besides reading, such as fs/write")
	_ = cmd.RegisterFlagCompletionFunc("mode", fixed([]string{strictReplay, journal.ReplayFill}).always())
	return cmd
}

const strictReplay = "strict"

// filling adds the settings of a replay that makes calls to its action.
func filling(action edn.Value, swap map[string]string, effects []string) (edn.Value, error) {
	named := func(flag, name string) (edn.Value, error) {
		v, err := edn.Keyword(strings.TrimPrefix(name, ":"))
		if err != nil {
			return v, usagef("--%s %s: expected a name", flag, name)
		}
		return v, nil
	}
	action = action.AssocKey("mode", edn.K(journal.ReplayFill))
	swaps := edn.MustMap()
	for from, to := range swap {
		old, err := named("swap", from)
		if err != nil {
			return action, err
		}
		other, err := named("swap", to)
		if err != nil {
			return action, err
		}
		swaps = swaps.Assoc(old, other)
	}
	if swaps.Len() > 0 {
		action = action.AssocKey("swap", swaps)
	}
	var allowed []edn.Value
	for _, effect := range effects {
		v, err := named("effects", effect)
		if err != nil {
			return action, err
		}
		allowed = append(allowed, v)
	}
	if len(allowed) > 0 {
		action = action.AssocKey("effects", edn.SetOf(allowed...))
	}
	return action, nil
}

// replayFile replays the run of an exported file.
func (c *command) replayFile(ctx context.Context, name string) error {
	file, err := c.readFile(name, math.MaxInt-1)
	if err != nil {
		return err
	}
	var unknown []string
	v, err := history.ReplayFile(ctx, file, func(recorded map[string]edn.Value) (*setup.Loaded, error) {
		loaded, err := c.usable(setup.LoadRecorded(ctx, c.options(), recorded))
		if err == nil {
			unknown = loaded.Unasked()
		}
		return loaded, err
	})
	if err != nil {
		return unlessUnknown(err, unknown, "the file does not say what plugin %s provides: export the run again where the plugins are")
	}
	return c.replayed(v)
}

// unlessUnknown adds a hint to the error of a strict replay that may differ only because the
// capabilities of plugins are unknown. The hint names the first one.
func unlessUnknown(err error, plugins []string, hint string) error {
	e := contract.AsError(err)
	of := []string{"cap", "plan", "replay", "unsupported"}
	if len(plugins) == 0 || !slices.Contains(of, contract.Namespace(e.Type)) || e.Type == "replay/values-purged" {
		return err
	}
	return e.WithHint(fmt.Sprintf(hint, plugins[0]))
}

func (c *command) replayStrictly(ctx context.Context, d runsDesk, action edn.Value) error {
	var unasked []string
	if !d.there {
		o := c.options()
		o.Lockfile, o.NoStart = setup.LockfileShown, true
		loaded, err := c.load(ctx, o)
		if err != nil {
			return err
		}
		d.under(loaded)
		unasked = loaded.Unasked()
	}
	v, err := d.do(ctx, action)
	if err != nil {
		return unlessUnknown(err, unasked,
			"it is not known what plugin %s provides: \"ferment validate --describe\" asks it")
	}
	return c.replayed(v)
}

func (c *command) replayed(v edn.Value) error {
	return c.done(v, fmt.Sprintf("%s: replayed, equal: %s records\n  result %s", plain(v.Key("run")), v.Key("records"),
		plain(v.Key("hash"))))
}

func (c *command) replayAndFill(ctx context.Context, d runsDesk, action edn.Value) error {
	v, err := d.do(ctx, action)
	if err != nil {
		return err
	}
	if c.format != formatText {
		if err := c.value(c.env.Stdout, v); err != nil {
			return err
		}
		return unlessEqual(v.Key("diff"))
	}
	_, err = fmt.Fprintf(c.env.Stdout, "%s: replay of %s, %s\n  %s recorded, %s made\n\n", plain(v.Key("run")), plain(v.Key("replay/of")),
		written(v.Key("status")), diag.Counted(number(v.Key("recorded")), "attempt"), v.Key("made"))
	if err != nil {
		return err
	}
	return c.compared(v.Key("diff"))
}
