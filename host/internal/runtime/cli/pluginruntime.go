package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/scaffold"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) pluginRuntimeCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "runtime [DIR]",
		Short: "update the runtime of a plugin in Python or for Node",
		Long: "runtime replaces the files in the folder ferment of the project DIR, which \"ferment plugin new\" created, by those\n" +
			"of this program and lists the files that changed; edits in them are lost. It writes nothing outside of that\n" +
			"folder. DIR is the working directory by default. Add a file that is new to the project to files of its plugin\n" +
			"block. With --check nothing is written, and the exit code is 1 if a file is missing or\n" +
			"differs.",
		Example: "  ferment plugin runtime examples/plugins/readability\n" +
			"  ferment plugin runtime examples/plugins/readability --check",
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return c.updateRuntime(c.path(dir), check)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; exit with 1 if a file is missing or differs")
	return cmd
}

func (c *command) updateRuntime(dir string, check bool) error {
	changes, err := scaffold.Outdated(dir)
	if err == nil && !check && len(changes) > 0 {
		err = scaffold.Update(dir, changes)
	}
	if err != nil {
		if _, typed := err.(*contract.Error); typed {
			return err
		}
		return &fileError{err: fmt.Errorf("plugin runtime: %w", err)}
	}
	if err := c.runtimeChanges(dir, check, changes); err != nil || !check || len(changes) == 0 {
		return err
	}
	return quietError{exit.Negative}
}

// runtimeChanges prints the files of a runtime that were written or, with
// check, must be written.
func (c *command) runtimeChanges(dir string, check bool, changes []scaffold.Change) error {
	if c.format != formatText {
		all := make([]edn.Value, len(changes))
		for i, change := range changes {
			all[i] = edn.MustMap(edn.K("file"), edn.Text(change.Path), edn.K("missing?"), edn.Bool(change.Missing))
		}
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("dir"), edn.Text(dir),
			edn.K("changes"), edn.Vector(all...),
			edn.K("written?"), edn.Bool(!check && len(all) > 0),
		))
	}
	state := map[bool]string{true: "added", false: "replaced"}
	if check {
		state = map[bool]string{true: "missing", false: "differs"}
	}
	var b strings.Builder
	for _, change := range changes {
		fmt.Fprintf(&b, "%s: %s\n", c.relative(filepath.Join(dir, change.Path)), state[change.Missing])
	}
	if len(changes) == 0 {
		fmt.Fprintf(&b, "%s is up to date\n", c.relative(filepath.Join(dir, scaffold.RuntimeDir)))
	}
	_, err := fmt.Fprint(c.env.Stdout, b.String())
	return err
}
