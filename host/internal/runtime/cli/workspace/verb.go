package workspace

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/sdk/edn"
)

// verb is one row of the table: a command that calls one intent.
type verb struct {
	words  string // of the command, such as "workspace scan"
	intent string // empty: the words with a slash
	use    string // the arguments
	short  string
	long   string
	// examples are the lines of the help after "ferment WORDS".
	examples []string

	takes [2]int // minimum and maximum number of arguments
	args  func(in *invocation, input edn.Value, args []string) (edn.Value, error)
	flags []flag
	fixed edn.Value // keys that the verb always sends; nil: none
	// finish completes the input after all flags are in it.
	finish func(in *invocation, input edn.Value) (edn.Value, error)

	// agent is the built-in agent whose role has the needed capability; empty: the intent needs the
	// permission of an administrator.
	agent string
	// writes is set if the verb may write the store although its agent is the reader.
	writes bool
	// calls is set if the intent may call others, with the effects of --effects.
	calls     bool
	reads     bool     // it has the flag --as-of
	forms     []string // more output formats
	dryRun    string   // key for a dry run; its value is dry
	dry       bool     // value of that key in a dry run
	asks      bool     // it asks before it acts
	streams   bool     // it prints the values of the stream
	takesLong bool     // it may need much time

	text func(p *page, out edn.Value)
	// negative reports whether a result is a negative one (exit code 1).
	negative func(in *invocation, out edn.Value) bool
	// perform replaces the default: calling the intent and printing its result.
	perform func(in *invocation) error
}

func (v *verb) name() string {
	if v.intent != "" {
		return v.intent
	}
	return strings.Replace(v.words, " ", "/", 1)
}

// takesNode reports whether the first argument is a node or a path of the workspace.
func (v *verb) takesNode() bool {
	use := strings.TrimPrefix(v.use, "[")
	return strings.HasPrefix(use, "NODE") || use == "PATH"
}

// common has the flags of all verbs.
type common struct {
	workspace string
	agent     string
	asOf      uint64
	out       string
	progress  string
	quiet     bool
	timeout   time.Duration
	local     bool
	yes       bool
	dryRun    bool
	effects   []string
}

// progressForms are the values of --progress.
var progressForms = []string{progressBar, progressPlain, progressJSON, progressNone}

// command returns the command of a verb.
func (v *verb) command(sh *Shell) *cobra.Command {
	var c common
	words := strings.Fields(v.words)
	cmd := &cobra.Command{
		Use:   strings.TrimSpace(words[len(words)-1] + " " + v.use),
		Short: v.short,
		Long:  v.long,
		Args:  cobra.RangeArgs(v.takes[0], v.takes[1]),
	}
	if v.takes[1] < 0 {
		cmd.Args = cobra.MinimumNArgs(v.takes[0])
	}
	if v.long == "" {
		cmd.Long = strings.ToUpper(v.short[:1]) + v.short[1:] + "."
	}
	var examples []string
	for _, e := range v.examples {
		examples = append(examples, strings.TrimRight("  ferment "+v.words+" "+e, " "))
	}
	cmd.Example = strings.Join(examples, "\n")
	given := register(cmd, v.flags)
	v.registerCommon(cmd, &c)
	v.complete(cmd, sh, &c)
	form := func() string { return "" }
	if len(v.forms) > 0 {
		form = sh.Forms(cmd, v.forms...)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := &invocation{Shell: sh, verb: v, common: &c, given: given, form: form(), cmd: cmd, ctx: cmd.Context()}
		return in.run(args)
	}
	return cmd
}

func (v *verb) registerCommon(cmd *cobra.Command, c *common) {
	f := cmd.Flags()
	f.StringVar(&c.workspace, "workspace", "",
		"root of the workspace (default: the nearest directory above with a store, else this one)")
	if v.agent != "" {
		f.StringVar(&c.agent, "agent", "",
			"agent that acts (default: FERMENT_AGENT, then the setting default_agent, then "+v.agent+")")
	}
	if v.reads {
		f.Uint64Var(&c.asOf, "as-of", 0, "read the state as it was after this transaction")
	}
	f.StringVar(&c.out, "out", "", "write the output to this file")
	progress := &setting{flag: flag{name: "progress", kind: kindText, words: progressForms}}
	f.Var(progress, "progress", "progress on standard error: "+oneOf(progressForms)+" (default: bar on a terminal, else plain)")
	_ = cmd.RegisterFlagCompletionFunc("progress", cobra.FixedCompletions(progressForms, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&c.quiet, "quiet", false, "print neither progress nor warnings")
	f.Var(span{&c.timeout}, "timeout", "time limit of the command, such as 30s")
	f.BoolVar(&c.local, "local", false, "work in this process, even if a daemon serves the data directory")
	if v.calls {
		f.StringSliceVar(&c.effects, "effects", nil, "effects that the intents it calls may have, such as net/http")
	}
	if v.asks {
		f.BoolVar(&c.yes, "yes", false, "do not ask for confirmation")
	}
	if v.dryRun != "" {
		f.BoolVar(&c.dryRun, "dry-run", false, "only print what would be done")
	}
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if len(progress.given) > 0 {
			c.progress = progress.given[0]
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// Commands returns the groups workspace and context.
func Commands(sh *Shell) []*cobra.Command {
	groups := map[string]*cobra.Command{}
	var top []*cobra.Command
	for _, g := range groupsOfVerbs {
		cmd := &cobra.Command{Use: last(g.words), Short: g.short, Long: g.long}
		groups[g.words] = cmd
		if parent := groups[butLast(g.words)]; parent != nil {
			parent.AddCommand(cmd)
		} else {
			top = append(top, cmd)
		}
	}
	for i := range verbs {
		groups[butLast(verbs[i].words)].AddCommand(verbs[i].command(sh))
	}
	return top
}

func last(words string) string { return words[strings.LastIndexByte(words, ' ')+1:] }

func butLast(words string) string {
	return strings.TrimSuffix(strings.TrimSuffix(words, last(words)), " ")
}

// invocation is one execution of a verb.
type invocation struct {
	*Shell
	*verb
	*common
	given map[string]*setting
	form  string // one of verb.forms; empty: another one
	cmd   *cobra.Command
	ctx   context.Context

	at        place
	arguments []string
	input     edn.Value
	parts     []parts // sent before the first call
}

// usagef returns an error of the command line.
func (in *invocation) usagef(format string, args ...any) error {
	return in.Usage(fmt.Errorf(format, args...))
}

// run builds the input and performs the verb.
func (in *invocation) run(args []string) error {
	in.at, in.arguments = locate(in.Dir, in.workspace), args
	if in.workspace == "" && !in.at.stored() {
		if err := in.askRoot(); err != nil {
			return err
		}
	}
	defer in.closeParts()
	if err := in.build(args); err != nil {
		return err
	}
	if in.perform != nil {
		return in.perform(in)
	}
	if in.asks && (!in.yes || in.common.dryRun) {
		return in.askFirst()
	}
	return in.once()
}

// build creates the input of the intent from arguments and flags.
func (in *invocation) build(args []string) error {
	input := edn.MustMap(edn.K("workspace"), edn.Text(in.at.root))
	if in.fixed.IsMap() {
		input = input.Merge(in.fixed)
	}
	var err error
	if in.args != nil {
		if input, err = in.args(in, input, args); err != nil {
			return in.asUsage(err)
		}
	}
	for _, f := range in.verb.flags {
		s := in.given[f.name]
		if f.key == "" || len(s.given) == 0 {
			continue
		}
		v, err := s.value(in.at)
		if err != nil {
			return in.usagef("--%s %s: %w", f.name, s.given[0], err)
		}
		input = put(input, f.key, v)
	}
	if in.reads && in.cmd.Flags().Changed("as-of") {
		if in.asOf > math.MaxInt64 {
			return in.usagef("--as-of %d: %w", in.asOf, errNumber)
		}
		input = input.AssocKey("as-of", edn.Int(int64(in.asOf)))
	}
	if in.verb.dryRun != "" && in.common.dryRun {
		input = input.AssocKey(in.verb.dryRun, edn.Bool(in.dry))
	}
	if in.finish != nil {
		if input, err = in.finish(in, input); err != nil {
			return in.asUsage(err)
		}
	}
	in.input = in.withAgent(input)
	return nil
}

// asUsage marks errors of the command line; those of files are unchanged.
func (in *invocation) asUsage(err error) error {
	var file fileFailure
	if ok := asFile(err, &file); ok {
		return file.err
	}
	return in.Usage(err)
}

// withAgent adds the agent of the command line or of FERMENT_AGENT, otherwise the built-in one,
// which is used if the settings have none either.
func (in *invocation) withAgent(input edn.Value) edn.Value {
	agent := in.common.agent
	if agent == "" && in.verb.agent != "" {
		agent, _ = in.Getenv("FERMENT_AGENT")
	}
	switch {
	case agent != "":
		return input.AssocKey("agent/id", edn.Text(agent))
	case in.verb.agent != "" && !input.HasKey("agent/fallback"):
		return input.AssocKey("agent/fallback", edn.Text(in.verb.agent))
	}
	return input
}

// set reports whether a flag was given.
func (in *invocation) set(name string) bool { return len(in.given[name].given) > 0 }

// first returns the text of a flag.
func (in *invocation) first(name string) string {
	if !in.set(name) {
		return ""
	}
	return in.given[name].given[0]
}
