package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// lockfileFlag is the flag --lockfile of commands that start plugins.
type lockfileFlag struct{ into *setup.Lockfile }

func (f lockfileFlag) String() string {
	if f.into == nil {
		return ""
	}
	return string(*f.into)
}

func (f lockfileFlag) Set(s string) error {
	if s != string(setup.LockfileReadonly) {
		return fmt.Errorf("unknown lock file mode %q: expected readonly", s)
	}
	*f.into = setup.LockfileReadonly
	return nil
}

func (f lockfileFlag) Type() string { return "readonly" }

// registerLockfile adds --lockfile to a command.
func (c *command) registerLockfile(cmd *cobra.Command) {
	cmd.Flags().Var(lockfileFlag{&c.lockfile}, "lockfile",
		"readonly: fail if a plugin does not match the lock file exactly")
}

func (c *command) lockCommand() *cobra.Command {
	var wish setup.LockWish
	var platform string
	cmd := &cobra.Command{
		Use:   "lock [--check] | lock --platform=OS/ARCH [PLUGIN=]FILE ...",
		Short: "record which programs may run, and what they may do",
		Long: "lock describes every plugin of the configuration and writes the lock file: the hash of its program, its\n" +
			"needs, and the effects of its capabilities. If a plugin requests more than its entry has, the file is not\n" +
			"written until the plugin is approved. With --platform it adds the hash of a program for another platform to\n" +
			"existing entries, and starts nothing.",
		Example: "  ferment plugin lock\n  ferment plugin lock --check\n  ferment plugin lock --platform=linux/arm64 dist/arm64/chess",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case platform == "" && len(args) > 0:
				return fmt.Errorf("lock takes files only with --platform, got %s", strings.Join(args, " "))
			case platform != "" && len(args) == 0:
				return errors.New("--platform needs the program for that platform")
			case platform != "" && wish.Check:
				return errors.New("--check and --platform exclude each other")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if platform != "" {
				out, err := setup.LockPlatform(cmd.Context(), c.options(), platform, c.targets(args))
				return c.locked(out, wish, err)
			}
			out, err := setup.Lock(cmd.Context(), c.options(), wish)
			return c.locked(out, wish, err)
		},
	}
	cmd.Flags().BoolVar(&wish.Check, "check", false, "write nothing; exit with 1 if the file would change")
	cmd.Flags().StringVar(&platform, "platform", "", "add the hashes of programs for this platform, such as linux/arm64")
	return cmd
}

// targets parses arguments of the form [PLUGIN=]FILE.
func (c *command) targets(args []string) []setup.Target {
	out := make([]setup.Target, len(args))
	for i, arg := range args {
		plugin, file, ok := strings.Cut(arg, "=")
		if !ok || strings.ContainsAny(plugin, `/\`) {
			plugin, file = "", arg
		}
		out[i] = setup.Target{Plugin: plugin, File: c.path(file)}
	}
	return out
}

func (c *command) approveCommand() *cobra.Command {
	var local bool
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "approve the present program of a plugin, with everything it requests",
		Long: "approve describes one plugin, prints the differences from its entry in the lock file, and writes the entry.\n" +
			"This accepts new effects and needs. A daemon that serves the data directory does it itself and reloads its\n" +
			"configuration, so that it runs the approved plugin.",
		Example: "  ferment plugin approve chess",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wish := setup.LockWish{Approve: args[0]}
			there, done, err := c.ask(cmd.Context(), local,
				actionOf("plugin-approve", edn.K("plugin"), edn.Text(args[0])))
			switch {
			case err != nil && done:
				return c.notApproved(err, wish)
			case done:
				return c.lockReport(there, wish)
			}
			out, err := setup.Lock(cmd.Context(), c.options(), wish)
			return c.locked(out, wish, err)
		},
	}
	localFlag(cmd, &local)
	return cmd
}

// notApproved prints what a daemon approved before its reload was rejected.
func (c *command) notApproved(err error, wish setup.LockWish) error {
	e := contract.AsError(err)
	approved := e.Details.Key("approved")
	if c.format != formatText || approved.IsNil() {
		return c.notReloaded(err)
	}
	if err := c.lockReport(approved, wish); err != nil {
		return err
	}
	if _, ok := e.Details.Key("text").AsString(); ok {
		return c.notReloaded(err)
	}
	return err
}

// locked prints the outcome for the lock file.
func (c *command) locked(out *setup.LockOutcome, wish setup.LockWish, err error) error {
	var invalid *setup.InvalidConfigError
	switch {
	case errors.As(err, &invalid):
		return c.invalidConfig(invalid)
	case err != nil:
		return err
	}
	if err := c.lockReport(out.Value(), wish); err != nil {
		return err
	}
	refused := out.Refused()
	for _, r := range refused {
		for _, d := range r.Differences {
			if d.Command() != "ferment plugin lock" {
				c.problem(d.Err())
			}
		}
	}
	if len(refused) > 0 || wish.Check && out.Changed {
		return quietError{exit.Negative}
	}
	return nil
}

// lockReport prints an outcome of this process or of a daemon.
func (c *command) lockReport(out edn.Value, wish setup.LockWish) error {
	if c.format != formatText {
		return c.value(c.env.Stdout, out)
	}
	var b strings.Builder
	changed, refused := 0, false
	for p := range out.Key("plugins").Elems() {
		change := plain(p.Key("change"))
		if change == "unchanged" && wish.Approve == "" {
			continue
		}
		switch change {
		case "kept", "skipped", "unchanged":
		case "refused":
			refused = true
		default:
			changed++
		}
		fmt.Fprintf(&b, "%s: %s", strings.TrimSpace(plain(p.Key("plugin"))+" "+plain(p.Key("version"))), change)
		if note, ok := p.Key("note").AsString(); ok {
			fmt.Fprintf(&b, " (%s)", note)
		}
		b.WriteByte('\n')
		for d := range p.Key("differences").Elems() {
			fmt.Fprintf(&b, "  %s: %s -> %s\n", plain(d.Key("what")), plain(d.Key("expected")), plain(d.Key("found")))
		}
	}
	name, written := plain(out.Key("lock-file")), out.Key("changed?").Truthy()
	switch {
	case refused:
		fmt.Fprintf(&b, "%s was not written\n", name)
	case wish.Check && written:
		fmt.Fprintf(&b, "%s is out of date; \"ferment plugin lock\" writes it\n", name)
	case written:
		fmt.Fprintf(&b, "%s written: %s changed\n", name, diag.Counted(changed, "plugin"))
	default:
		fmt.Fprintf(&b, "%s is up to date\n", name)
	}
	if reload := out.Key("reload"); !reload.IsNil() {
		b.WriteString(reloadText(reload))
	}
	_, err := fmt.Fprint(c.env.Stdout, b.String())
	return err
}
