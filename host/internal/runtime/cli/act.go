package cli

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of the request parts in flags.
const (
	maxDeadline = 24 * time.Hour
	maxPriority = 9
)

var (
	validKey     = regexp.MustCompile(`^[!-~]{1,128}$`)
	validSession = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
)

func (c *command) actCommand() *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "act INTENT [INPUT] | act FILE | act -",
		Short: "call one intent, or send a complete request",
		Long: "act calls an intent with an EDN map as input, or sends a request envelope, EDN or JSON, from a file or standard input.\n" +
			"The answer is printed once it has passed its gates. Relative paths in the input are relative to the working directory.",
		Example: `  ferment act chess/best-move '{:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}'
  ferment act sat/solve '{:clauses [[1 2] [-1 2]]}' --edn
  ferment act context/summarize --input-file article.edn --bind max-sentences=2
  ferment act request.edn --json
  ferment act context/summarize --input-file article.edn --stream`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := c.actRequest(args, &f)
			if err != nil {
				return err
			}
			return c.perform(cmd.Context(), performance{request: request, flags: &f})
		},
	}
	f.register(cmd, "key of the input")
	c.registerAttach(cmd)
	c.registerLockfile(cmd)
	cmd.Flags().StringVar(&f.inputFile, "input-file", "", "EDN or JSON file with the input")
	return cmd
}

func (c *command) runCommand() *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "run PLAN.edn",
		Short: "evaluate a plan",
		Long: "run checks a plan, evaluates it on the plugins of ferment.hcl, and prints what it emits.\n" +
			"A plan in a file named .json is JSON. Relative paths of files that plugins read are relative to\n" +
			"the working directory; the :path of an fs tool is relative to a root of its scope.",
		Example: `  ferment run examples/plans/hello.edn --bind name='"Ada"'
  ferment run examples/plans/map.edn --edn --transcript
  ferment run examples/plans/parallel.edn --progress json --report`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, positions, err := c.readPlan(args[0])
			if err != nil {
				return err
			}
			bindings, err := bound(f.bind, source.Key("bindings"))
			if err != nil {
				return err
			}
			around, err := newSurroundings(cmd, bindings, f.effects)
			if err != nil {
				return err
			}
			f.isJSON = isJSONFile(args[0])
			var input edn.MapBuilder
			input.Key("plan", source)
			if bindings.IsMap() && bindings.Len() > 0 { // anything else is reported as a finding
				input.Key("bindings", bindings)
			}
			return c.perform(cmd.Context(), performance{
				request: envelope(act.PlanIntent, input.Map()), file: args[0], positions: positions, flags: &f,
				admit: func(loaded *setup.Loaded) error {
					return c.admitPlan(args[0], source, positions, around, loaded)
				},
			})
		},
	}
	f.register(cmd, "binding of the plan")
	c.registerAttach(cmd)
	c.registerLockfile(cmd)
	return cmd
}

// intentName matches an intent on the command line.
var intentName = regexp.MustCompile(`^:?[A-Za-z][\w.*+!?-]*/[\w.*+!?-]+$`)

// cancelLimit is the time limit for asking a daemon to cancel a run before the program ends.
const cancelLimit = 5 * time.Second

// host starts the plugins of the configuration that reach selects; all if it is nil.
func (c *command) host(
	ctx context.Context, w *watcher, admit func(*setup.Loaded) error, reach func(*setup.Loaded) map[string]bool,
) (*daemon.Host, error) {
	o := daemon.Options{Options: c.options()}
	o.Admit, o.Reach, o.Transitions, o.Notices, o.Asking = admit, reach, w.transition, w.notice, w.asking
	told := w.tellStarting()
	h, err := daemon.Start(ctx, o)
	told()
	var invalid *setup.InvalidConfigError
	if errors.As(err, &invalid) {
		return nil, c.invalidConfig(invalid)
	}
	return h, err
}

// path resolves a name relative to the working directory.
func (c *command) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.env.Dir, name)
}
