package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// options returns the load options of all commands.
func (c *command) options() setup.Options {
	return setup.Options{
		Config:   c.config,
		Profile:  c.profile,
		Dir:      c.env.Dir,
		Version:  c.env.Version,
		Env:      c.env.Getenv,
		Lockfile: c.lockfile,
		Attached: c.attached,
	}
}

// load returns the configuration. An invalid one is printed and ends the command.
func (c *command) load(ctx context.Context, o setup.Options) (*setup.Loaded, error) {
	return c.usable(setup.Load(ctx, o))
}

// usable returns a configuration without errors.
func (c *command) usable(loaded *setup.Loaded, err error) (*setup.Loaded, error) {
	if err != nil {
		return nil, err
	}
	if loaded.Generation == nil {
		return nil, c.invalidConfig(&setup.InvalidConfigError{Config: loaded.Config})
	}
	return loaded, nil
}

// knownProfile returns an error for an unknown --profile before anything is read.
func (c *command) knownProfile() error {
	names := language.Profiles()
	if c.profile == "" || slices.Contains(names, c.profile) {
		return nil
	}
	if near := contract.Nearest(c.profile, names); near != "" {
		return usagef("unknown profile %q: did you mean %s?", c.profile, near)
	}
	return usagef("unknown profile %q: expected %s", c.profile, strings.Join(names, ", "))
}

// invalidConfig prints the diagnostics of a configuration.
func (c *command) invalidConfig(e *setup.InvalidConfigError) error {
	if err := c.diagnostics(c.env.Stderr, e.Config.Report(diag.DefaultMaxShown)); err != nil {
		return err
	}
	if e.Config.Unreadable() {
		return quietError{exit.Environment}
	}
	return quietError{exit.Negative}
}

func (c *command) diagnostics(w io.Writer, r diag.Report) error {
	var text string
	switch c.format {
	case formatJSON:
		b, err := r.JSON()
		if err != nil {
			return err
		}
		text = string(b)
	case formatEDN:
		text = r.Value().String()
	default:
		text = r.Text(c.color(w))
	}
	_, err := fmt.Fprintln(w, trimNewline(text))
	return err
}

// color reports whether text for people may have colors.
func (c *command) color(w io.Writer) bool {
	if v, set := c.env.Getenv("NO_COLOR"); set && v != "" {
		return false
	}
	if name, _ := c.env.Getenv("TERM"); name == "dumb" {
		return false
	}
	return display.Terminal(w)
}

func trimNewline(s string) string {
	for len(s) > 0 && s[len(s)-1] == '\n' {
		s = s[:len(s)-1]
	}
	return s
}

func (c *command) validateCommand() *cobra.Command {
	var strict, describe, noStart bool
	var maxErrors uint
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "check the configuration and report every error at once",
		Long: "validate reads the configuration and everything that it refers to. A plugin without a cached description for\n" +
			"this configuration is started once to be described, if its program is in the lock file; no plugin is\n" +
			"configured or called.",
		Example: "  ferment validate\n  ferment validate --config site/ferment.hcl --strict\n  ferment validate --no-start --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := c.options()
			o.NoStart, o.OnlyLocked, o.Advise = noStart, !describe, true
			loaded, err := setup.Load(cmd.Context(), o)
			if err != nil {
				return err
			}
			report := loaded.Report(int(min(maxErrors, diag.MaxKept)))
			if c.format != formatText || len(report.Shown) > 0 {
				if err := c.diagnostics(c.env.Stdout, report); err != nil {
					return err
				}
			}
			switch {
			case loaded.Unreadable():
				return quietError{exit.Environment}
			case !report.Valid(), strict && report.Warnings > 0:
				return quietError{exit.Negative}
			case c.format == formatText:
				_, err = fmt.Fprintln(c.env.Stdout, loaded.Summary())
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 for warnings too")
	cmd.Flags().BoolVar(&describe, "describe", false,
		"also start programs that are not in the lock file, to describe them")
	c.registerLockfile(cmd)
	cmd.Flags().BoolVar(&noStart, "no-start", false,
		"start no plugin; those without a cached description stay unchecked")
	cmd.Flags().UintVar(&maxErrors, "max-errors", diag.DefaultMaxShown, "maximum number of diagnostics, 0 for all")
	return cmd
}

func (c *command) fmtCommand() *cobra.Command {
	var check, diff bool
	cmd := &cobra.Command{
		Use:   "fmt [FILE|DIRECTORY ...]",
		Short: "format configuration files",
		Long: "fmt rewrites files in the canonical format, native syntax and JSON, and prints the names of those that\n" +
			"changed; \"-\" formats standard input. In a directory it formats ferment.hcl and the files in common and local,\n" +
			"also those of other profiles. The value of a file never changes.",
		Example: "  ferment fmt\n  ferment fmt --check --diff ferment.hcl\n  ferment fmt - < draft.hcl",
		RunE: func(_ *cobra.Command, args []string) error {
			names, err := c.formatted(args)
			if err != nil {
				return err
			}
			differs := false
			for _, name := range names {
				changed, err := c.formatOne(name, check, diff)
				if err != nil {
					return err
				}
				differs = differs || changed
			}
			if check && differs {
				return quietError{exit.Negative}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; exit with 1 if a file would change")
	cmd.Flags().BoolVar(&diff, "diff", false, "print the differences instead of the names")
	return cmd
}

// formatted returns the files to format, in the form of messages.
func (c *command) formatted(args []string) ([]string, error) {
	if len(args) == 0 && c.config != "" {
		args = []string{c.config}
	} else if len(args) == 0 {
		args = []string{c.relative(c.configuration())}
	}
	var names []string
	for _, name := range args {
		info, err := os.Stat(c.path(name))
		if name == "-" || err != nil || !info.IsDir() {
			names = append(names, name) // reading it reports the error
			continue
		}
		files, err := files.List(c.path(name))
		if err != nil {
			return nil, &fileError{err: err}
		}
		for _, file := range files {
			rel, err := filepath.Rel(c.path(name), file)
			if err != nil {
				return nil, &fileError{err: err}
			}
			names = append(names, filepath.Join(name, rel))
		}
	}
	return names, nil
}

func (c *command) formatOne(name string, check, diff bool) (bool, error) {
	var f view.Formatted
	var err error
	if name == "-" {
		var text []byte
		if text, err = c.readText(name); err == nil {
			f = view.Format("-", text)
		}
	} else {
		if f, err = view.FormatFileAs(name, c.path(name)); err != nil {
			err = &fileError{err: err}
		}
	}
	if err != nil {
		return false, err
	}
	if f.Diagnostics.HasErrors() {
		if err := c.diagnostics(c.env.Stderr, f.Report()); err != nil {
			return false, err
		}
		return false, quietError{exit.Negative}
	}
	writes := f.Changed() && !check && !diff && name != "-"
	if writes {
		if err := f.Write(); err != nil {
			return false, err
		}
	}
	switch {
	case c.format != formatText:
		err = c.formatValue(f, diff)
	case diff:
		_, err = io.WriteString(c.env.Stdout, f.Diff())
	case name == "-" && !check:
		_, err = c.env.Stdout.Write(f.After)
	case f.Changed():
		_, err = fmt.Fprintln(c.env.Stdout, name)
	}
	return f.Changed(), err
}

// formatValue returns the result for one file as data.
func (c *command) formatValue(f view.Formatted, diff bool) error {
	var b edn.MapBuilder
	b.Key("file", edn.Text(f.Name))
	b.Key("changed?", edn.Bool(f.Changed()))
	if diff {
		b.Key("diff", edn.Text(f.Diff()))
	}
	if f.Path == "" {
		b.Key("text", edn.Text(string(f.After)))
	}
	return c.value(c.env.Stdout, b.Map())
}
