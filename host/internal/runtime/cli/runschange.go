package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) runsExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export RUN [FILE]",
		Short: "write a finished run with its values to a file",
		Long: "export writes the records and values of a finished run as lines of EDN, to a file that only its owner can\n" +
			"read, or to standard output. Secrets are not in it; requests and answers are, and for administrators what the\n" +
			"plugins say that they provide, which runs replay FILE needs.",
		Example: "  ferment runs export last last.edn\n  ferment runs export last > last.edn",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onRuns(cmd.Context(), false, func(d runsDesk) error {
				if len(args) == 1 {
					_, _, err := c.exportTo(cmd.Context(), d, args[0], c.env.Stdout)
					return err
				}
				return c.exportFile(cmd.Context(), d, args[0], args[1])
			})
		},
	}
}

// exportedPlugins returns the lines of an export file that describe the plugins, as far as their
// capabilities are known without a daemon.
func (c *command) exportedPlugins(ctx context.Context) (string, error) {
	o := c.options()
	o.Lockfile, o.NoStart = setup.LockfileShown, true
	loaded, err := setup.Load(ctx, o)
	if err == nil && loaded.Generation == nil {
		err = &setup.InvalidConfigError{Config: loaded.Config}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		c.warn("the file does not say what the plugins provide: %s", err)
		return "", nil
	}
	c.warnUnknown(loaded.Unasked())
	return store.ExportedPlugins(loaded.Descriptions()), nil
}

// warnUnknown prints the plugins that an export file does not describe.
func (c *command) warnUnknown(names []string) {
	if len(names) > 0 {
		c.warn("the file does not say what plugin %s provides, which is not known: \"ferment validate --describe\" starts "+
			"it to find out",
			strings.Join(names, ", "))
	}
}

func (c *command) exportFile(ctx context.Context, d runsDesk, run, name string) error {
	f, err := c.createOut(name, renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer f.Close()
	run, size, err := c.exportTo(ctx, d, run, f)
	if err != nil {
		return err
	}
	if err := f.Commit(); err != nil {
		return err
	}
	if f.pending == nil { // the file may be standard output, and has the run alone
		return nil
	}
	return c.done(edn.MustMap(edn.K("run"), edn.Text(run), edn.K("file"), edn.Text(c.path(name)), edn.K("bytes"),
		edn.Int(int64(size))), fmt.Sprintf("%s: written to %s, %d bytes", run, name, size))
}

// exportTo writes the file of a run in parts. The first part determines the run.
func (c *command) exportTo(ctx context.Context, d runsDesk, run string, to io.Writer) (id string, size int, err error) {
	for {
		part, err := d.do(ctx, actionOf("runs-export", edn.K("run"), edn.Text(run), edn.K("offset"), edn.Int(int64(size))))
		if err != nil {
			return run, size, err
		}
		run = plain(part.Key("run"))
		text := plain(part.Key("text"))
		if _, err := io.WriteString(to, text); err != nil {
			return run, size, err
		}
		size += len(text)
		if part.HasKey("next") {
			continue
		}
		plugins := plain(part.Key("plugins").Key("text"))
		switch {
		case !d.there:
			if plugins, err = c.exportedPlugins(ctx); err != nil {
				return run, size, err
			}
		case part.HasKey("plugins"):
			var unknown []string
			for name := range part.Key("plugins").Key("unknown").Elems() {
				unknown = append(unknown, plain(name))
			}
			c.warnUnknown(unknown)
		default:
			c.warn("the file does not say what the plugins provide: only administrators may know that")
		}
		_, err = io.WriteString(to, plugins)
		return run, size + len(plugins), err
	}
}

func (c *command) runsImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "store an exported run, read-only",
		Long: "import verifies the records and values of an exported file and stores them as a finished run. A file that was\n" +
			"changed, or a run that is already recorded, is rejected as a whole.",
		Example: "  ferment runs import elsewhere.edn",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := filepath.Abs(c.path(args[0]))
			if err == nil {
				var f *os.File
				if f, err = os.Open(file); err == nil {
					err = f.Close()
				}
			}
			if err != nil {
				return &fileError{err: fmt.Errorf("read %s: %w", args[0], cause(err))}
			}
			return c.onRuns(cmd.Context(), true, func(d runsDesk) error {
				result, err := d.do(cmd.Context(), actionOf("runs-import", edn.K("file"), edn.Text(file)))
				if err != nil {
					return err
				}
				return c.done(result, plain(result.Key("run"))+": imported")
			})
		},
	}
}

// onRun returns a command for an action on one run.
func (c *command) onRun(verb, short, long, done string) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " RUN",
		Short:   short,
		Long:    long,
		Example: "  ferment runs " + verb + " last",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("runs-"+verb, edn.K("run"), edn.Text(args[0]))
			return c.orderRuns(cmd.Context(), action, func(v edn.Value, _ bool) error {
				return c.done(v, plain(v.Key("run"))+": "+done)
			})
		},
	}
}

func (c *command) runsPinCommand() *cobra.Command {
	return c.onRun("pin", "keep a run beyond store.retain",
		"pin exempts a run from removal by age and size until it is unpinned.",
		"pinned: it is kept whatever its age")
}

func (c *command) runsUnpinCommand() *cobra.Command {
	return c.onRun("unpin", "let a pinned run be removed again",
		"unpin reverses pin: the run is removed again by its age or by size, see store.retain.",
		"no longer pinned: store.retain sets how long it is kept")
}

func (c *command) runsPurgeCommand() *cobra.Command {
	var yes, dry bool
	cmd := &cobra.Command{
		Use:   "purge RUN",
		Short: "delete the requests and answers of a finished run from the disk",
		Long: "purge deletes the values of a run: its request, the inputs and answers of its attempts, its response, and\n" +
			"the turns that it added to a session. Records and hashes stay, so that the run can still be verified; so do\n" +
			"its summary, error messages, values that another run uses too, and the summary of the session. It cannot be\n" +
			"undone.",
		Example: "  ferment runs purge last --dry-run\n  ferment runs purge last --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onRuns(cmd.Context(), false, func(d runsDesk) error {
				action := actionOf("runs-purge", edn.K("run"), edn.Text(args[0]))
				if !yes || dry {
					plan, err := d.do(cmd.Context(), action.AssocKey("dry-run?", edn.Bool(true)))
					if err != nil {
						return err
					}
					if dry {
						return c.done(plan, purgeText(plan)+"\nnothing was done (dry run)")
					}
					if err := c.confirm(purgeText(plan), "--yes"); err != nil {
						return err
					}
					action = action.AssocKey("run", plan.Key("run")) // last may be another one now
				}
				result, err := d.do(cmd.Context(), action)
				if err != nil {
					return err
				}
				return c.done(result, plain(result.Key("run"))+": purged; its "+result.Key("records").String()+
					" records and their hashes are kept")
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, yesUsage)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print what purge would delete")
	return cmd
}

func purgeText(v edn.Value) string {
	return fmt.Sprintf("%s (%s, %s, accepted %s ago): its request, inputs, answers, response and turns\n"+
		"in a session are deleted; its %s records with their hashes are kept", plain(v.Key("run")), plain(v.Key("intent")), plain(v.Key("status")),
		since(v.Key("accepted-at")), v.Key("records"))
}

// yesUsage is the help text of the flag --yes.
const yesUsage = "do not ask for confirmation"

// confirm asks on the terminal whether to go on. Without a terminal it fails and
// names the flag that answers the question.
func (c *command) confirm(what, flag string) error {
	if !display.Terminal(c.env.Stdin) {
		return usagef("the command asks for confirmation, and standard input is not a terminal: add %s to confirm", flag)
	}
	c.printf("%s\ngo on? [y/N] ", what)
	line, err := c.typed(func() (string, error) { return bufio.NewReader(c.env.Stdin).ReadString('\n') })
	if err != nil && err != io.EOF {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		c.printf("nothing was done\n")
		return quietError{1}
	}
	return nil
}

// typed returns the result of read, which reads from the terminal. An interrupt ends it
// immediately, although read continues until the process ends.
func (c *command) typed(read func() (string, error)) (string, error) {
	type input struct {
		text string
		err  error
	}
	got := make(chan input, 1)
	go func() {
		text, err := read()
		got <- input{text, err}
	}()
	select {
	case in := <-got:
		return in.text, in.err
	case <-c.ctx.Done():
		c.printf("\r\n") // the terminal may be in raw mode
		return "", context.Cause(c.ctx)
	}
}

func (c *command) runsCancelCommand() *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "cancel a run in progress",
		Long: "cancel requests the end of a run that the daemon executes, and returns at once: no attempt is started any\n" +
			"more, and those under way are canceled. A finished run stays as it is.",
		Example: "  ferment runs cancel last --why 'wrong input'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("runs-cancel", edn.K("run"), edn.Text(args[0]))
			if why != "" {
				action = action.AssocKey("why", edn.Text(why))
			}
			v, err := c.order(cmd.Context(), action)
			if err != nil {
				return err
			}
			text := ": cancel requested"
			if !v.Key("cancel/accepted?").Truthy() {
				text = ": already " + plain(v.Key("status"))
			}
			return c.done(v, plain(v.Key("run"))+text)
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "reason, recorded with the run")
	return cmd
}

func (c *command) runsResumeCommand() *cobra.Command {
	var decide, values []string
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "continue a suspended run by decision, or a failed one",
		Long: "resume continues a run that is suspended because a call may have had its effect and must not be repeated\n" +
			"blindly, with a decision for each such call: retry calls again with the same effect key, skip-as-done takes\n" +
			"the value of --value for its answer, and fail lets its node fail. \"ferment runs show\" lists the calls. It\n" +
			"returns at once; the time of waiting does not count for the deadline of the run.\n\n" +
			"A run that failed with a retryable error needs no decision. Its failed nodes are executed again; those that\n" +
			"were committed keep their values. It has as much time as when it was accepted.",
		Example: "  ferment runs resume last\n" +
			"  ferment runs resume last --decide retry\n" +
			"  ferment runs resume last --decide pay=skip-as-done --value 'pay={:receipt 17}' --decide mail=fail",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			decisions, err := decisionsOf(decide, values)
			if err != nil {
				return err
			}
			action := actionOf("runs-resume", edn.K("run"), edn.Text(args[0]), edn.K("decisions"), edn.Vector(decisions...))
			v, err := c.order(cmd.Context(), action)
			if err != nil {
				return err
			}
			return c.done(v, plain(v.Key("run"))+": it goes on")
		},
	}
	cmd.Flags().StringArrayVar(&decide, "decide", nil, "[NODE=]retry, skip-as-done or fail; NODE is an id or a path")
	cmd.Flags().StringArrayVar(&values, "value", nil, "[NODE=]VALUE, the answer of a call that is done, as EDN")
	return cmd
}

// decisionsOf returns the decisions in --decide and --value.
func decisionsOf(decide, values []string) ([]edn.Value, error) {
	given := map[string]string{} // by node: the text of its value
	var nodes []string
	for _, text := range decide {
		node, _, named := strings.Cut(text, "=")
		switch {
		case !named:
			node = ""
		case strings.TrimSpace(node) == "":
			return nil, usagef("--decide %s: the node before = is empty; \"ferment runs show\" names the open calls", text)
		}
		if slices.Contains(nodes, node) {
			return nil, usagef("--decide %s: there are two decisions about one call", text)
		}
		nodes = append(nodes, node)
	}
	for _, text := range values {
		node, rest, named := strings.Cut(text, "=")
		if !named || !slices.Contains(nodes, node) {
			node, rest = "", text
		}
		if !slices.Contains(nodes, node) {
			return nil, usagef("--value %s: expected NODE=VALUE with the NODE of a --decide", text)
		}
		given[node] = rest
	}
	var out []edn.Value
	for i, text := range decide {
		choice := strings.TrimPrefix(strings.TrimPrefix(text, nodes[i]), "=")
		if !slices.Contains([]string{"retry", "skip-as-done", "fail"}, choice) {
			return nil, usagef("--decide %s: expected retry, skip-as-done or fail, with NODE= before it if several calls are open", text)
		}
		d := edn.MustMap(edn.K("decision"), edn.K(choice))
		if nodes[i] != "" {
			d = d.AssocKey("node", edn.Text(nodes[i]))
		}
		if text, ok := given[nodes[i]]; ok {
			v, err := edn.ReadString(text)
			if err != nil || v.IsNil() {
				return nil, usagef("--value %s: expected a value in EDN, such as {:receipt 17}", text)
			}
			d = d.AssocKey("value", v)
		}
		out = append(out, d)
	}
	return out, nil
}
