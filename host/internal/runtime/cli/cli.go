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

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Env is the environment of a command.
type Env struct {
	Args           []string // without the name of the program
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Version        string
	Getenv         func(string) (string, bool)
	Dir            string // the working directory
}

// Main executes a command and returns its exit code. An interrupt cancels the command; a second one
// ends the process immediately.
func Main(env Env) int {
	var in interrupts
	ctx, stop := in.interruptible(context.Background())
	c := &command{env: env, ctx: ctx, interrupts: &in, release: sync.OnceFunc(stop)}
	defer c.release()
	root := c.root()
	args := longFlags(root, env.Args)
	root.SetArgs(args)
	c.format = askedForm(args)
	err := root.ExecuteContext(ctx)
	return c.exit(ctx, cmp.Or(err, c.astray))
}

// errInterrupted is the cause in the context of an interrupted command.
var errInterrupted = errors.New("interrupted")

// interrupts handles the signals that end a command. It is safe for concurrent use.
type interrupts struct {
	mu     sync.Mutex
	cancel func() // called instead of canceling the command; nil: none
}

// instead makes the next interrupt call cancel instead of canceling the command, until done is
// called.
func (i *interrupts) instead(cancel func()) (done func()) {
	set := func(f func()) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.cancel = f
	}
	set(cancel)
	return func() { set(nil) }
}

// handled reports whether a signal was for a part of the command, which is then canceled.
func (i *interrupts) handled(s os.Signal) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cancel == nil || s != os.Interrupt {
		return false
	}
	i.cancel()
	i.cancel = nil
	return true
}

func (i *interrupts) interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			select {
			case s := <-signals:
				if !i.handled(s) {
					cancel(errInterrupted)
				}
			case <-done:
				return
			}
		}
		select {
		case <-signals:
			os.Exit(exit.Interrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// command is the state that all commands share.
type command struct {
	env        Env
	ctx        context.Context // of the whole command
	release    func()          // cancels ctx and stops handling signals
	interrupts *interrupts
	config     string
	profile    string
	server     string
	// remote is the daemon of --server. Its token is in tokenFile or the environment.
	remote    *client.Client
	tokenFile string
	format    format
	forms     *asked // formats in the command line
	verbose   bool
	lockfile  setup.Lockfile
	attached  map[string]string // --attach
	astray    error             // error of a help request for an unknown command
	verb      string            // full name of the command; empty until it is known

	reading  sync.Mutex
	hostOnly *config.Config // the configuration without its plugins; nil until it is read
}

// quietError ends a command whose error was already printed.
type quietError struct{ code int }

func (e quietError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// usageError is an error of the command line.
type usageError struct {
	err     error
	verb    string
	nearest string // suggestion; may be empty
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return usageError{err: fmt.Errorf(format, args...)}
}

func (c *command) root() *cobra.Command {
	var version bool
	c.forms = &asked{format: &c.format}
	root := &cobra.Command{
		Use:   "ferment",
		Short: "run plans on plugins, and accept only answers that pass their gates",
		Long: "ferment reads ferment.hcl, starts its plugins, and evaluates EDN plans on them: calls are bound late,\n" +
			"judged by gates, retried, and moved to the next candidate when one fails.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			c.verb = cmd.CommandPath()
			if err := c.forms.one(); err != nil {
				return err
			}
			if err := c.chooseServer(cmd); err != nil {
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
	flags.StringVar(&c.config, "config", "",
		"configuration, a file or a directory (default: ferment.hcl, then config/, in the working directory)")
	flags.StringVar(&c.profile, "profile", "",
		"profile: "+strings.Join(language.Profiles(), ", ")+" (default: FERMENT_PROFILE, then the configuration)")
	flags.StringVar(&c.server, "server", "",
		"URL of a daemon elsewhere, for commands about runs, sessions and users; its token is in FERMENT_TOKEN")
	flags.StringVar(&c.tokenFile, "token-file", "", "file with the token for --server, which only its owner can read")
	flags.VarP(outputFlag{c.forms}, "output", "o", "output format: text, json or edn")
	flags.VarPF(formatFlag{c.forms, formatJSON}, "json", "", "short for --output json").NoOptDefVal = "true"
	flags.VarPF(formatFlag{c.forms, formatEDN}, "edn", "", "short for --output edn").NoOptDefVal = "true"
	flags.BoolVar(&c.verbose, "verbose", false,
		"print more: the id of a run, and the class, the source and the policy of an error")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var wrong *pflag.InvalidValueError
		if errors.As(err, &wrong) && expected[wrong.GetFlag().Value.Type()] != "" {
			err = fmt.Errorf("--%s %s: expected %s", wrong.GetFlag().Name, wrong.GetValue(),
				expected[wrong.GetFlag().Value.Type()])
		}
		return usageError{err: err, verb: cmd.CommandPath(), nearest: nearestFlag(cmd, err)}
	})
	root.AddCommand(
		c.initCommand(), c.serveCommand(), c.statusCommand(), c.adminCommand(), c.devCommand(),
		c.runCommand(), c.actCommand(), c.chatCommand(), c.batchCommand(), c.runsCommand(), c.dispatchCommand(), c.sessionCommand(), c.userCommand(), c.roleCommand(), c.tokenCommand(), c.checkCommand(),
		c.graphCommand(), c.validateCommand(), c.fmtCommand(),
		c.diffCommand(), c.configCommand(), c.explainCommand(), c.promptCommand(), c.protocolCommand(),
		c.pluginCommand(), c.modelCommand(), c.judgeCommand(), c.conformCommand(), c.completionCommand(), c.manualCommand(),
		c.doctorCommand(), c.versionCommand(),
	)
	root.AddCommand(c.workspaceCommands()...)
	if len(c.env.Args) > 0 && strings.HasPrefix(c.env.Args[0], cobra.ShellCompRequestCmd) {
		c.completions(root) // only a shell asks for them
	}
	root.SetHelpCommand(helpCommand())
	wantVerbs(root)
	wrapArgs(root)
	c.helpOfVerbs(root)
	return fitHelp(root)
}

// expected describes the values of a flag type. Other types have their own errors.
var expected = map[string]string{
	"bool":           "true or false",
	"duration":       "a time with a unit of ms, s, m, h or d and without a sign, such as 30s",
	"float64":        "a number",
	"int":            "a whole number",
	"stringToString": "NAME=VALUE",
	"uint":           "a whole number that is not negative",
	"uint64":         "a whole number that is not negative",
}

// helpCommand prints the help of a command, and rejects unknown commands.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "print the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) == 0 {
				verb.InitDefaultHelpFlag()
				return verb.Help()
			}
			return usageError{
				err:     fmt.Errorf("%s has no command %q", verb.CommandPath(), rest[0]),
				verb:    verb.CommandPath(),
				nearest: nearestVerb(verb, rest),
			}
		},
	}
}

// helpOfVerbs makes a help request for an unknown subcommand an error.
func (c *command) helpOfVerbs(root *cobra.Command) {
	print := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && cmd.Args != nil && len(words) > 0 {
			if verb, _, err := cmd.Find(words); err == nil && verb != cmd { // the flag precedes the command
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

// fitHelp wraps the help of a command and its subcommands to the width of tables. Paragraphs with a
// line that starts with a blank are examples and are not changed.
func fitHelp(cmd *cobra.Command) *cobra.Command {
	if !cmd.HasParent() {
		flags := fmt.Sprintf("FlagUsagesWrapped %d ", diag.Columns)
		cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), "FlagUsages ", flags))
	}
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, p := range paragraphs {
		tooLong := func(line string) bool { return len([]rune(line)) > diag.Columns }
		if slices.ContainsFunc(strings.Split(p, "\n"), tooLong) && !strings.Contains("\n"+p, "\n ") {
			paragraphs[i] = diag.Wrap(strings.Join(strings.Fields(p), " "), 0, 0)
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, sub := range cmd.Commands() {
		fitHelp(sub)
	}
	return cmd
}

// nearestFlag returns the flag of a command that is most similar to an unknown one.
func nearestFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	if root := cmd.Root(); root.Flags().Lookup(unknown.GetSpecifiedName()) != nil { // such as --version
		return root.Name() + " --" + unknown.GetSpecifiedName()
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

// nearestVerb returns the subcommand of cmd that is most similar to the first argument, if that can
// only be a subcommand.
func nearestVerb(cmd *cobra.Command, args []string) string {
	if len(args) == 0 || !cmd.HasAvailableSubCommands() {
		return ""
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
			// The same name one level below is the best suggestion.
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

// wantVerbs makes command groups report a missing subcommand.
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
		return usagef("%s needs a command: %s", name,
			strings.TrimPrefix(strings.Join(verbs[:last], ", ")+" or "+verbs[last], " or "))
	}
}

// wrapArgs changes argument errors to usage errors with the name of the command.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				text := err.Error()
				switch {
				case strings.HasPrefix(text, "unknown command ") && !cmd.HasSubCommands():
					err = fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
				case strings.HasPrefix(text, "accepts "), strings.HasPrefix(text, "requires "):
					err = fmt.Errorf("expected %s, got %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"),
						diag.Counted(len(args), "argument"))
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

// longFlags accepts long flags with one dash, as in Go programs.
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

// exit prints the error, if it was not printed, and returns the exit code.
func (c *command) exit(ctx context.Context, err error) int {
	var quiet quietError
	var usage usageError
	switch {
	case err == nil:
		return exit.Done
	case errors.As(err, &quiet):
		return quiet.code
	case errors.Is(err, errInterrupted), errors.Is(context.Cause(ctx), errInterrupted):
		c.problem(contract.Errorf("canceled", "interrupted"))
		return exit.Interrupted
	case errors.As(err, &usage):
		verb := cmp.Or(usage.verb, c.verb, "ferment")
		message := err.Error()
		if typed, ok := usage.err.(*contract.Error); ok {
			message = typed.Message // without the type
		}
		e := contract.Errorf("invalid-request", "%s", message).
			WithHint(fmt.Sprintf("%q shows its usage", verb+" --help"))
		c.problem(e.DidYouMean(usage.nearest))
		if verb == "ferment serve" {
			return daemon.ExitUsage
		}
		return exit.Usage
	}
	var file *fileError
	if errors.As(err, &file) {
		c.problem(contract.Errorf("invalid-request", "%s", err).WithHint(environmentHint(err)))
		return exit.Environment
	}
	var directory *daemon.DirectoryError
	if errors.As(err, &directory) {
		c.problem(contract.Errorf("invalid-request", "%s", err).WithHint(directory.Fix))
		return exit.Environment
	}
	var environment *setup.EnvironmentError
	if errors.As(err, &environment) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		e := contract.AsError(err)
		if e.Type == "runtime/internal" { // the environment failed, not the host
			e = contract.Errorf("runtime/start-failed", "%s", err)
		}
		c.problem(e.WithHint(environmentHint(err)))
		return exit.Environment
	}
	if e := contract.AsError(err); e.Type == "runtime/internal" && environmentHint(err) == diskHint {
		err = e.WithHint(diskHint) // the original output was lost
	}
	c.problem(err)
	return exit.Code(contract.AsError(err))
}

// diskHint is the hint for a disk that cannot be read or written.
const diskHint = "\"df\" shows whether the disk is full or read-only; the log of the kernel shows whether it is broken"

// environmentHint returns the hint for an error of the environment.
func environmentHint(err error) string {
	var path *os.PathError
	var file *fileError
	var told interface{ Next() string }
	switch {
	case errors.As(err, &told):
		return told.Next()
	case (errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && errors.As(err, &file) && file.written:
		return "name a file in a directory that exists and can be written"
	case errors.Is(err, os.ErrNotExist) && errors.As(err, &path) && path.Op == "mkdir":
		return "name a directory whose parent exists and can be written"
	case errors.Is(err, os.ErrNotExist):
		return "name a file that exists"
	case errors.Is(err, os.ErrPermission) && errors.As(err, &path) && path.Op == "mkdir":
		return "make " + filepath.Dir(path.Path) +
			" writable for this user, or name another directory in ferment.data_dir"
	case errors.Is(err, os.ErrPermission):
		return "check the owner and the mode of the file"
	case errors.Is(err, syscall.EISDIR):
		return "name a file, not a directory"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT),
		errors.Is(err, syscall.EIO):
		return diskHint
	case errors.As(err, &file):
		return "name a file that can be read"
	}
	return "\"ferment validate\" and \"ferment plugin list\" show the configured programs"
}
