package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Env is what surrounds a command.
type Env struct {
	Args           []string // without the name of the program
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Version        string
	Getenv         func(string) (string, bool)
	Dir            string // the working directory
}

// Main runs one command and returns its exit code. An interrupt cancels what
// the command does; a second one ends the process at once.
func Main(env Env) int {
	ctx, stop := interruptible(context.Background())
	c := &command{env: env, ctx: ctx, release: sync.OnceFunc(stop)}
	defer c.release()
	root := c.root()
	args := longFlags(root, env.Args)
	root.SetArgs(args)
	c.format = askedForm(args)
	err := root.ExecuteContext(ctx)
	return c.exit(ctx, cmp.Or(err, c.astray))
}

// errInterrupted is why the context of an interrupted command ended.
var errInterrupted = errors.New("interrupted")

func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(contract.ExitInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// command is the state that the verbs share.
type command struct {
	env      Env
	ctx      context.Context // of the whole command
	release  func()          // ends ctx, and leaves signals to others
	config   string
	profile  string
	server   string
	format   format
	verbose  bool
	lockfile daemon.Lockfile
	attached map[string]string // --attach
	astray   error             // why a help that was asked for is of no verb
	verb     string            // with the names of its parents, once it is known
}

// quietError ends a command whose problem has been printed already.
type quietError struct{ code int }

func (e quietError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// usageError is a wrong command line.
type usageError struct {
	err     error
	verb    string
	nearest string // what may have been meant; may be empty
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return usageError{err: fmt.Errorf(format, args...)}
}

func (c *command) root() *cobra.Command {
	var version bool
	forms := &asked{format: &c.format}
	root := &cobra.Command{
		Use:   "ferment",
		Short: "run plans on plugins, and take only answers that pass their gates",
		Long: "ferment reads ferment.hcl, starts the plugins that it names, and evaluates EDN plans on them:\n" +
			"calls are bound late, judged by gates, retried, and moved to the next candidate when one fails.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			c.verb = cmd.CommandPath()
			if err := forms.one(); err != nil {
				return err
			}
			if err := c.knownServer(); err != nil {
				return err
			}
			return c.knownProfile()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return c.printVersion()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the versions of the host and of its contracts")
	root.SetIn(c.env.Stdin)
	root.SetOut(c.env.Stdout)
	root.SetErr(c.env.Stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&c.config, "config", "", "configuration, a file or a directory (default: ferment.hcl, then config/, in the working directory)")
	flags.StringVar(&c.profile, "profile", "", "profile: "+strings.Join(config.Profiles(), ", ")+" (default: FERMENT_PROFILE, then the configuration)")
	flags.StringVar(&c.server, "server", "", "URL of a daemon elsewhere; not part of this build")
	flags.VarP(outputFlag{forms}, "output", "o", "form of the output: text, json or edn")
	flags.VarPF(formatFlag{forms, formatJSON}, "json", "", "short for --output json").NoOptDefVal = "true"
	flags.VarPF(formatFlag{forms, formatEDN}, "edn", "", "short for --output edn").NoOptDefVal = "true"
	flags.BoolVar(&c.verbose, "verbose", false, "tell more of an error: its class and source, and the policy of the call")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var wrong *pflag.InvalidValueError
		if errors.As(err, &wrong) && expected[wrong.GetFlag().Value.Type()] != "" {
			err = fmt.Errorf("--%s %s: expected %s", wrong.GetFlag().Name, wrong.GetValue(), expected[wrong.GetFlag().Value.Type()])
		}
		return usageError{err: err, verb: cmd.CommandPath(), nearest: nearestFlag(cmd, err)}
	})
	root.AddCommand(
		c.initCommand(), c.serveCommand(), c.statusCommand(), c.adminCommand(), c.devCommand(),
		c.runCommand(), c.actCommand(), c.checkCommand(), c.graphCommand(), c.validateCommand(), c.fmtCommand(), c.diffCommand(), c.configCommand(), c.explainCommand(), c.promptCommand(), c.protocolCommand(),
		c.pluginCommand(), c.modelCommand(), c.judgeCommand(), c.conformCommand(), c.completionCommand(), c.doctorCommand(), c.versionCommand(),
	)
	c.completions(root)
	root.SetHelpCommand(helpCommand())
	wantVerbs(root)
	wrapArgs(root)
	c.helpOfVerbs(root)
	return fitHelp(root)
}

// expected says what the flags of a type take. The other types have errors of
// their own.
var expected = map[string]string{
	"bool":           "true or false",
	"duration":       "a time with a unit, such as 30s",
	"float64":        "a number",
	"int":            "a whole number",
	"stringToString": "NAME=FILE",
	"uint":           "a whole number that is not negative",
	"uint64":         "a whole number that is not negative",
}

// helpCommand prints the help of a verb, and refuses words that are none.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB]...",
		Short: "print the help of a verb",
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) == 0 {
				verb.InitDefaultHelpFlag()
				return verb.Help()
			}
			return usageError{
				err:     fmt.Errorf("%s has no verb %q", verb.CommandPath(), rest[0]),
				verb:    verb.CommandPath(),
				nearest: nearestVerb(verb, rest),
			}
		},
	}
}

// helpOfVerbs rejects a request for help on a verb that its group does not have.
func (c *command) helpOfVerbs(root *cobra.Command) {
	print := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && cmd.Args != nil && len(words) > 0 {
			if verb, _, err := cmd.Find(words); err == nil && verb != cmd { // the flag stood before the verb
				verb.InitDefaultHelpFlag()
				print(verb, nil)
				return
			}
			if c.astray = cmd.Args(cmd, words); c.astray != nil {
				return
			}
		}
		print(cmd, args)
	})
}

// fitHelp makes the help of a command, and of those below it, as wide as a table
// at most. A paragraph with a longer line is broken anew; lines that begin with a
// blank are examples and stay.
func fitHelp(cmd *cobra.Command) *cobra.Command {
	if !cmd.HasParent() {
		flags := fmt.Sprintf("FlagUsagesWrapped %d ", tableWidth)
		cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), "FlagUsages ", flags))
	}
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, p := range paragraphs {
		tooLong := func(line string) bool { return len([]rune(line)) > tableWidth }
		if slices.ContainsFunc(strings.Split(p, "\n"), tooLong) && !strings.Contains("\n"+p, "\n ") {
			var out strings.Builder
			wrap(&out, strings.Join(strings.Fields(p), " "), 0, 0)
			paragraphs[i] = strings.TrimSuffix(out.String(), "\n")
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, sub := range cmd.Commands() {
		fitHelp(sub)
	}
	return cmd
}

// nearestFlag returns the flag of a command most like one that it does not have.
func nearestFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if name := contract.Nearest(unknown.GetSpecifiedName(), names); name != "" {
		return "--" + name
	}
	return ""
}

// nearestVerb returns the verb below cmd most like the first argument, where
// only a verb can stand.
func nearestVerb(cmd *cobra.Command, args []string) string {
	if len(args) == 0 || !cmd.HasAvailableSubCommands() {
		return ""
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
			// The name itself, one level below, is nearer than any other here.
			for _, below := range sub.Commands() {
				if below.IsAvailableCommand() && below.Name() == args[0] {
					return below.CommandPath()
				}
			}
		}
	}
	if name := contract.Nearest(args[0], names); name != "" {
		return cmd.CommandPath() + " " + name
	}
	return ""
}

// wantVerbs makes each command that does nothing itself ask for one below it.
func wantVerbs(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		wantVerbs(sub)
	}
	if cmd.Runnable() || !cmd.HasAvailableSubCommands() {
		return
	}
	var verbs []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			verbs = append(verbs, sub.Name())
		}
	}
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		last := len(verbs) - 1
		return usagef("%s needs a verb: %s", name, strings.TrimPrefix(strings.Join(verbs[:last], ", ")+" or "+verbs[last], " or "))
	}
}

// wrapArgs makes wrong arguments usage errors that know their verb.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				text := err.Error()
				switch {
				case strings.HasPrefix(text, "unknown command ") && !cmd.HasSubCommands():
					err = fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
				case strings.HasPrefix(text, "accepts "), strings.HasPrefix(text, "requires "):
					err = fmt.Errorf("expected %s, got %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"), config.Counted(len(args), "argument"))
				}
				return usageError{err: err, verb: cmd.CommandPath(), nearest: nearestVerb(cmd, args)}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// longFlags lets a long flag stand with one dash, as Go programs have it.
func longFlags(root *cobra.Command, args []string) []string {
	known := map[string]bool{}
	var collect func(*cobra.Command)
	collect = func(cmd *cobra.Command) {
		for _, name := range flagNames(cmd) {
			known[name] = true
		}
		for _, sub := range cmd.Commands() {
			collect(sub)
		}
	}
	collect(root)
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = arg
		if arg == "--" {
			copy(out[i:], args[i:])
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && len(name) > 1 && known[name] {
			out[i] = "-" + arg
		}
	}
	return out
}

// exit prints what is left to say about an error and gives the exit code.
func (c *command) exit(ctx context.Context, err error) int {
	var quiet quietError
	var usage usageError
	switch {
	case err == nil:
		return contract.ExitDone
	case errors.As(err, &quiet):
		return quiet.code
	case errors.Is(context.Cause(ctx), errInterrupted):
		c.problem(contract.Errorf("canceled", "interrupted"))
		return contract.ExitInterrupted
	case errors.As(err, &usage):
		verb := cmp.Or(usage.verb, c.verb, "ferment")
		message := err.Error()
		if typed, ok := usage.err.(*contract.Error); ok {
			message = typed.Message // without a type of its own
		}
		e := contract.Errorf("invalid-request", "%s", message).WithHint(fmt.Sprintf("%q shows how it is used", verb+" --help"))
		c.problem(e.DidYouMean(usage.nearest))
		if verb == "ferment serve" {
			return daemon.ExitUsage
		}
		return contract.ExitUsage
	}
	var file *fileError
	if errors.As(err, &file) {
		c.problem(contract.Errorf("invalid-request", "%s", err).WithHint(environmentHint(err)))
		return contract.ExitEnvironment
	}
	var environment *daemon.EnvironmentError
	if errors.As(err, &environment) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		e := contract.AsError(err)
		if e.Type == "runtime/internal" { // it is around the host, not in it
			e = contract.Errorf("runtime/start-failed", "%s", err)
		}
		c.problem(e.WithHint(environmentHint(err)))
		return contract.ExitEnvironment
	}
	if e := contract.AsError(err); e.Type == "runtime/internal" && environmentHint(err) == diskHint {
		err = e.WithHint(diskHint) // what it had to say went nowhere
	}
	c.problem(err)
	return contract.AsError(err).ExitCode()
}

// diskHint is the next step for a disk that takes or gives nothing.
const diskHint = "\"df\" shows whether the disk is full or read-only; the log of the kernel shows whether it is broken"

// environmentHint is the next step for what is missing around the host.
func environmentHint(err error) string {
	var path *os.PathError
	var file *fileError
	var told interface{ Next() string }
	switch {
	case errors.As(err, &told):
		return told.Next()
	case errors.Is(err, os.ErrNotExist) && errors.As(err, &file) && file.written:
		return "name a file in a directory that exists and can be written"
	case errors.Is(err, os.ErrNotExist):
		return "name a file that exists"
	case errors.Is(err, os.ErrPermission) && errors.As(err, &path) && path.Op == "mkdir":
		return "make " + filepath.Dir(path.Path) + " writable for this user, or name another directory in ferment.data_dir"
	case errors.Is(err, os.ErrPermission):
		return "check the owner and the mode of what is named"
	case errors.Is(err, syscall.EISDIR):
		return "name a file, not a directory"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EIO):
		return diskHint
	case errors.As(err, &file):
		return "name a file that can be read"
	}
	return "\"ferment validate\" and \"ferment plugin list\" show what the configuration names"
}

// terminal tells whether a stream of the command is one.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
