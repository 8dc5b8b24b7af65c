package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// callFlags are the flags of act and run.
type callFlags struct {
	bind       []string
	inputFile  string
	isJSON     bool // parts of the request were JSON
	deadline   time.Duration
	transcript bool
	debugPlan  bool
	report     bool
	progress   string
	local      bool
	stream     bool
	async      bool
	key        string
	noCache    bool
	session    string
	class      string
	priority   int
	effects    []string
	budget     string
	limits     edn.Value // parsed budget
}

func (f *callFlags) register(cmd *cobra.Command, bind string) {
	cmd.Flags().StringArrayVar(&f.bind, "bind", nil, bind+", as NAME=EDN; may be repeated, the last one wins")
	f.registerRequest(cmd)
	cmd.Flags().BoolVar(&f.transcript, "transcript", false,
		"report every attempt: on standard error as text, under :transcript as JSON and EDN")
	cmd.Flags().BoolVar(&f.debugPlan, "debug-plan", false, "add the plan and its candidates to the response")
	cmd.Flags().BoolVar(&f.report, "report", false,
		"print calls, answers, gates, failovers and costs of the run on standard error")
	cmd.Flags().BoolVar(&f.stream, "stream", false,
		"print the answer as it arrives: its text, or every event of the run as a line of JSON or EDN")
	cmd.Flags().BoolVar(&f.async, "async", false, "print the run as soon as the daemon has accepted it, and let it go on")
	cmd.Flags().StringVar(&f.key, "key", "", "idempotency key: the same command again gets the run that it has begun")
	cmd.Flags().BoolVar(&f.noCache, "no-cache", false, "have the request executed, also if the cache has an answer of an equal one")
	cmd.Flags().StringVar(&f.session, "session", "", "id of a session of the daemon, which fills what the request leaves out")
	localFlag(cmd, &f.local)
	cmd.Flags().StringVar(&f.progress, "progress", "auto",
		"live progress on standard error: auto, none, text, json or edn")
}

// Limits of what the flags put into a request.
const (
	maxDeadline = 24 * time.Hour
	maxPriority = 9
)

var (
	validKey     = regexp.MustCompile(`^[!-~]{1,128}$`)
	validSession = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
)

// registerRequest adds the flags that apply writes into a request.
func (f *callFlags) registerRequest(cmd *cobra.Command) {
	effectsFlag(cmd, &f.effects)
	cmd.Flags().StringVar(&f.budget, "budget", "",
		"budget of the run, as EDN such as '{:max-usd 0.05M :max-attempts 3}'")
	spanFlag(cmd.Flags(), &f.deadline, "deadline", 0, fmt.Sprintf("time limit of the whole run, such as 30s; without it %s",
		time.Duration(request.UsualDeadlineMS)*time.Millisecond))
	cmd.Flags().StringVar(&f.class, "class", "", "queue class of the run, such as batch")
	cmd.Flags().IntVar(&f.priority, "priority", 0, "priority within the class, -9 to 9")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("deadline") && f.deadline <= 0 {
			return usagef("--deadline %s: expected a time above zero, such as 30s", f.deadline)
		}
		if f.deadline > maxDeadline {
			return usagef("--deadline %s: expected at most %s", f.deadline, maxDeadline)
		}
		if f.priority < -maxPriority || f.priority > maxPriority {
			return usagef("--priority %d: expected -%d to %[2]d", f.priority, maxPriority)
		}
		if cmd.Flags().Changed("key") && !validKey.MatchString(f.key) {
			return usagef("--key %q: expected 1 to 128 visible ASCII characters", f.key)
		}
		if cmd.Flags().Changed("session") && !validSession.MatchString(f.session) {
			return usagef("--session %q: expected the id of a session, 1 to 128 of A-Z a-z 0-9 . _ : -", f.session)
		}
		if f.session != "" && f.local {
			return usagef("--session: only a daemon keeps sessions: omit --local, or the flag")
		}
		if f.class = strings.TrimPrefix(f.class, ":"); cmd.Flags().Changed("class") {
			if _, err := edn.Keyword(f.class); err != nil {
				return usagef("--class %q: expected the name of a queue class, such as batch", f.class)
			}
		}
		if f.async && (f.stream || f.local) {
			return usagef("--async: expected neither --stream nor --local with it")
		}
		err := readEffects(f.effects)
		if err == nil {
			f.limits, err = readBudget(f.budget)
		}
		return err
	}
}

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
			"A plan in a file named .json is JSON. Relative paths in inputs are relative to the working directory.",
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
				admit: func(loaded *daemon.Loaded) error {
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

// isPlan reports whether a value has the shape of a plan; any other value is
// rejected without findings about its nodes.
func isPlan(v edn.Value) bool {
	nodes := v.Key("nodes")
	if !v.IsMap() || !nodes.IsVector() && !nodes.IsList() {
		return false
	}
	for node := range nodes.Elems() {
		if !node.IsMap() {
			return false
		}
	}
	return true
}

// intentName matches an intent on the command line.
var intentName = regexp.MustCompile(`^:?[A-Za-z][\w.*+!?-]*/[\w.*+!?-]+$`)

// actRequest builds the request of act from its arguments.
func (c *command) actRequest(args []string, f *callFlags) (edn.Value, error) {
	if name := args[0]; name == "-" || !intentName.MatchString(name) || c.isFile(name) {
		if len(args) > 1 && name != "-" && !c.isFile(name) {
			return edn.Nil(), usagef("%q is not an intent: expected NS/NAME, such as chess/best-move", name)
		}
		if len(args) > 1 || f.inputFile != "" {
			return edn.Nil(), usagef("a request from a file has its own input")
		}
		return c.fileRequest(name, f)
	}
	input := edn.MustMap()
	if f.inputFile != "" {
		var err error
		if input, err = c.readValue(f.inputFile); err != nil {
			return edn.Nil(), err
		}
		f.isJSON = isJSONFile(f.inputFile)
	}
	if len(args) > 1 {
		given, isJSON, err := parseEither("INPUT", args[1])
		if err != nil {
			return edn.Nil(), err
		}
		f.isJSON = f.isJSON || isJSON
		if !given.IsMap() || !input.IsMap() {
			return edn.Nil(), usagef("the input of an act is a map, such as '{:fen \"...\"}', got %s",
				cutTo(given.String(), 60))
		}
		input = input.Merge(given)
	}
	input, err := bound(f.bind, input)
	if err != nil {
		return edn.Nil(), err
	}
	return envelope(strings.TrimPrefix(args[0], ":"), input), nil
}

func (c *command) isFile(name string) bool {
	info, err := os.Stat(c.path(name))
	return err == nil && info.Mode().IsRegular()
}

func (c *command) fileRequest(name string, f *callFlags) (edn.Value, error) {
	v, isJSON, err := c.readRequest(name)
	f.isJSON = isJSON
	if err != nil {
		return edn.Nil(), err
	}
	if v.Has(edn.K("nodes")) && !v.Has(edn.K("proto")) {
		return edn.Nil(), usageError{
			err:     fmt.Errorf("%s is a plan, and act sends a request", sourceName(name)),
			nearest: "ferment run " + name,
		}
	}
	if len(f.bind) == 0 || !v.IsMap() {
		return v, nil
	}
	input, err := bound(f.bind, v.Key("input"))
	if err != nil {
		return edn.Nil(), err
	}
	return v.AssocKey("input", input), nil
}

// envelope returns the request for an intent.
func envelope(intent string, input edn.Value) edn.Value {
	return edn.MustMap(
		edn.K("proto"), edn.Int(contract.Proto),
		edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("cli")),
		edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(intent)),
		edn.K("input"), input,
	)
}

// bound adds NAME=EDN pairs to a map.
func bound(pairs []string, into edn.Value) (edn.Value, error) {
	if into.IsNil() {
		into = edn.MustMap()
	}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return edn.Nil(), usagef("--bind %s: expected NAME=EDN", pair)
		}
		key, err := edn.Keyword(strings.TrimPrefix(name, ":"))
		if err != nil {
			return edn.Nil(), usagef("--bind %s: %q is not a name", pair, name)
		}
		v, err := parseTyped("--bind "+name, text)
		if err != nil {
			return edn.Nil(), err
		}
		if !into.IsMap() {
			return edn.Nil(), usagef("--bind %s: the input is not a map", pair)
		}
		into = into.Assoc(key, v)
	}
	return into, nil
}

// performance is one act to perform.
type performance struct {
	request   edn.Value
	file      string         // of the plan, if it has one
	positions *edn.Positions // of the plan's text, or nil
	flags     *callFlags
	admit     func(*daemon.Loaded) error // before any plugin is started; may be nil
	show      func(edn.Value) error      // prints a result in a format of its own; may be nil
	// recorded reports whether the journal of a daemon has the run.
	recorded bool
	// refused rewrites the rejection of a request that the command built
	// itself; may be nil.
	refused func(*contract.Error) *contract.Error
}

// why returns the error to report.
func (p performance) why(e *contract.Error) *contract.Error {
	if p.refused == nil || e == nil {
		return e
	}
	return p.refused(e)
}

// admitPlan rejects a plan with errors before any plugin is started, with all
// findings in the format of check.
func (c *command) admitPlan(
	name string, v edn.Value, positions *edn.Positions, around surroundings, loaded *daemon.Loaded,
) error {
	p, findings := readPlan(name, v, positions, around, loaded)
	if err := unknownBindings([]*plan.Plan{p}, around, planEnv(around, loaded)); err != nil {
		return err
	}
	return c.refusal(name, positions, findings)
}

// refusal returns the error for findings with errors, nil if there are none.
// In text format the findings are printed as check prints them, else they are
// in the error.
func (c *command) refusal(name string, positions *edn.Positions, findings []plan.Finding) error {
	err := plan.FindingsError(findings, contract.SourceRequest)
	if err == nil {
		return nil
	}
	if c.format != formatText {
		return err
	}
	if err := c.tell(c.env.Stderr, name, positions, findings); err != nil {
		return err
	}
	return quietError{exit.Code(err)}
}

// perform starts the plugins, runs one act, and prints the result.
func (c *command) perform(ctx context.Context, p performance) error {
	f := p.flags
	f.stream = f.stream || wantsStream(p.request)
	if f.stream && f.progress == "auto" {
		f.progress = "none" // progress lines would mix with the text
	}
	watcher, err := c.newWatcher(f.progress)
	if err != nil {
		return err
	}
	c.warnAttached()
	if !f.local && len(c.attached) == 0 {
		client, err := c.reachOrEnd(ctx)
		if err != nil {
			return err
		}
		if client != nil {
			p.recorded = c.configured(ctx).Store.Lasts()
			return c.performThere(ctx, client, p)
		}
	}
	if f.async {
		return c.nobodyServes(ctx)
	}
	if f.session != "" {
		err := c.nobodyServes(ctx)
		var absent *contract.Error
		if errors.As(err, &absent) {
			err = absent.WithHint("only a daemon keeps sessions: start one with \"ferment serve\", or omit --session")
		}
		return err
	}
	a := act.Act{Request: f.apply(p.request), Positions: p.positions, Dir: c.env.Dir, Watched: f.stream}
	if f.noCache {
		a.Cache = act.CacheRefresh
	}
	host, err := c.host(ctx, watcher, p.admit, func(loaded *daemon.Loaded) map[string]bool {
		if f.isJSON {
			a.Request = httpapi.FromJSON(a.Request, loaded.Generation.Registry)
		}
		return loaded.Reach(a)
	})
	var refused *contract.Error
	if errors.As(err, &refused) && refused.Type == "plan/invalid" {
		refused = p.why(refused)
		return c.answer(new(act.Service).Refusal(a, refused), refused, p, nil)
	}
	if err != nil {
		return err
	}
	// Close is bounded by the time limits of stopping plugins.
	defer host.Close()
	service := host.Service()
	run, refused := service.Start(context.WithoutCancel(ctx), a)
	if refused = p.why(refused); refused != nil {
		return c.answer(service.Refusal(a, refused), refused, p, nil)
	}
	stop := context.AfterFunc(ctx, func() {
		c.printf("canceling run %s\n", run.ID())
		run.Cancel("user", "interrupt")
	})
	var told *teller
	if f.stream {
		told = c.newTeller()
		c.follow(ctx, run, told, watcher)
	} else {
		watcher.follow(run)
	}
	response, failure := run.Wait()
	stop()
	host.Ended(context.WithoutCancel(ctx), run.ID())
	watcher.close()
	if f.report {
		c.report(run.Records(), response.Key("budget"))
	}
	err = c.conclude(p, response, failure, told)
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return quietError{exit.Interrupted}
	}
	return err
}

// follow prints a run while it goes on. A write error cancels it.
func (c *command) follow(ctx context.Context, run *act.Run, told *teller, w *watcher) {
	err := run.Watch(context.WithoutCancel(ctx), func(e journal.Event) error {
		w.tell(e)
		return told.local(e)
	})
	if err != nil {
		run.Cancel("user", err.Error())
	}
}

// cancelLimit is the time for asking a daemon to cancel a run before the program ends.
const cancelLimit = 5 * time.Second

// performThere has the daemon run the act. Canceling ctx cancels the run.
func (c *command) performThere(ctx context.Context, client *httpapi.Client, p performance) error {
	f := p.flags
	for flag, wanted := range map[string]bool{"--report": f.report, "--progress": f.progress != "auto" &&
		f.progress != "none"} {
		if wanted {
			return usagef("%s needs a run in this process, but a daemon would execute it: add --local, or omit the flag", flag)
		}
	}
	if source := p.request.Key("input").Key("plan"); p.positions != nil && !isPlan(source) {
		_, findings := plan.Parse(source, p.positions)
		refused := plan.FindingsError(findings, contract.SourceRequest)
		return c.conclude(p, new(act.Service).Refusal(act.Act{Request: f.apply(p.request)}, refused), refused, nil)
	}
	control := client
	if f.isJSON {
		client = client.InJSON() // the daemon has the schemas for its types
	}
	if f.noCache {
		client = client.Fresh()
	}
	var told *teller
	var response edn.Value
	var err error
	var run atomic.Value // the id, once the daemon has reported it
	if f.stream {
		told = c.newTeller()
		response, err = client.Stream(ctx, f.apply(p.request), c.env.Dir, func(event edn.Value) error {
			id, _ := event.Key("run").AsString()
			run.Store(id)
			return told.tell(event)
		})
	} else {
		response, err = client.Act(ctx, f.apply(p.request), c.env.Dir, func(id string) { run.Store(id) })
	}
	if err != nil {
		_ = told.endLine()
		id, known := run.Load().(string)
		switch {
		case !known:
		case errors.Is(context.Cause(ctx), errInterrupted) && f.key != "":
			c.printf("run %s goes on: \"ferment runs watch %[1]s\" follows it\n", id)
		case errors.Is(context.Cause(ctx), errInterrupted):
			c.printf("canceling run %s\n", id)
			if f.stream { // it would go on for a while without its reader
				c.cancelThere(ctx, control, id)
			}
		case p.recorded:
			return contract.AsError(err).WithHint(fmt.Sprintf(
				"\"ferment runs show %s\" shows the run, which the next start of the daemon resumes", id))
		}
		return err
	}
	if id, ok := response.Key("job/id").AsString(); ok {
		return c.done(response, fmt.Sprintf("%s: %s; \"ferment runs watch %[1]s\" follows it", id, plain(response.Key("job/status"))))
	}
	var failure *contract.Error
	if e := response.Key("error"); !e.IsNil() {
		failure = contract.ErrorFromValue(e, contract.SourceHost)
	}
	return c.conclude(p, response, failure, told)
}

// conclude prints the result of a run.
func (c *command) conclude(p performance, response edn.Value, failure *contract.Error, told *teller) error {
	if p.show != nil && failure == nil {
		return p.show(response)
	}
	if findings := p.findings(failure); findings != nil {
		if c.format == formatText {
			return c.refusal(p.file, p.positions, findings)
		}
		failure = plan.FindingsError(findings, contract.SourceRequest)
		response = response.AssocKey("error", failure.Value())
	}
	if said := p.why(failure); said != failure {
		response, failure = response.AssocKey("error", said.Value()), said
	}
	return c.answer(response, failure, p, told)
}

// findings returns those of the rejection of the plan that was sent; the
// daemon did not have its text. A nested plan has another source.
func (p performance) findings(refusal *contract.Error) []plan.Finding {
	if p.file == "" || refusal == nil || refusal.Source != contract.SourceRequest {
		return nil
	}
	return plan.FindingsOf(refusal, p.positions)
}

// apply adds the flags to a request envelope.
func (f *callFlags) apply(request edn.Value) edn.Value {
	if !request.IsMap() {
		return request
	}
	if f.deadline > 0 {
		request = request.AssocKey("deadline-ms", edn.Int(max(1, f.deadline.Milliseconds())))
	}
	if f.async {
		request = request.AssocKey("response/type", edn.K("accepted"))
	}
	if f.key != "" {
		request = request.AssocKey("idempotency/key", edn.Text(f.key))
	}
	if f.session != "" {
		request = request.AssocKey("session/id", edn.Text(f.session))
	}
	if f.class != "" || f.priority != 0 {
		queue := request.Key("queue")
		if !queue.IsMap() {
			queue = edn.MustMap()
		}
		if f.class != "" {
			queue = queue.AssocKey("class", edn.K(f.class))
		}
		if f.priority != 0 {
			queue = queue.AssocKey("priority", edn.Int(int64(f.priority)))
		}
		request = request.AssocKey("queue", queue)
	}
	if f.limits.Len() > 0 {
		limits := request.Key("budget")
		if !limits.IsMap() {
			limits = edn.MustMap()
		}
		request = request.AssocKey("budget", limits.Merge(f.limits))
	}
	if len(f.effects) > 0 {
		effects := request.Key("effects")
		if !effects.IsMap() {
			effects = edn.MustMap()
		}
		request = request.AssocKey("effects", effects.AssocKey("allowed", edn.Keywords(f.effects...)))
	}
	if f.transcript {
		request = request.AssocKey("debug/transcript?", edn.Bool(true))
	}
	if f.debugPlan {
		request = request.AssocKey("debug/plan?", edn.Bool(true))
	}
	return request
}

// answer prints a response envelope (CLI-008), except what was already printed
// during the run; told may be nil.
func (c *command) answer(response edn.Value, failure *contract.Error, p performance, told *teller) error {
	f := p.flags
	if err := told.endLine(); err != nil {
		return err
	}
	if c.format != formatText {
		if !told.told() {
			if err := c.value(c.env.Stdout, response); err != nil {
				return err
			}
		}
		if failure != nil {
			return quietError{p.exitCode(response, failure)}
		}
		return nil
	}
	if f.transcript {
		c.printf("%s\n", pretty(response.Key("transcript")))
	}
	if f.debugPlan && !response.Key("plan/debug").IsNil() {
		c.printf("%s\n", pretty(response.Key("plan/debug")))
	}
	for w := range response.Key("warnings").Elems() {
		c.warn("%s", plain(w.Key("message")))
	}
	if quality := response.Key("quality"); quality.Key("degraded?").Truthy() {
		var why []string
		for pair := range quality.Key("why").Elems() {
			capability, _ := pair.Nth(0)
			reason, _ := pair.Nth(1)
			why = append(why, plain(capability)+": "+plain(reason))
		}
		c.printf("degraded: %s\n", strings.Join(why, ", "))
	}
	if response.Key("result").Key("usage").Key("mode").Equal(edn.K("cache")) {
		c.printf("from the cache: an earlier run gave this answer; --no-cache asks again\n")
	}
	if failure != nil {
		failure = onCommandLine(failure)
		c.problem(failure)
		if id, ok := response.Key("run/id").AsString(); ok && p.recorded {
			c.printf("  run     look at it with \"ferment runs show %s\"\n", id)
		}
		return quietError{p.exitCode(response, failure)}
	}
	if id, ok := response.Key("run/id").AsString(); ok && c.verbose {
		c.printf("run %s\n", id)
	}
	if told.told() {
		return nil
	}
	out := response.Key("result").Key("out")
	if text, ok := out.Key("text").AsString(); ok {
		_, err := fmt.Fprintln(c.env.Stdout, display.Shown(c.env.Stdout, strings.TrimSuffix(text, "\n")))
		return err
	}
	_, err := fmt.Fprintln(c.env.Stdout, display.Shown(c.env.Stdout, pretty(out)))
	return err
}

// onCommandLine returns the error with a hint that names the flag for the deadline of a
// run; a node of a plan has none.
func onCommandLine(e *contract.Error) *contract.Error {
	if !strings.HasPrefix(e.Type, "queue/") {
		return e
	}
	return e.WithHint(strings.ReplaceAll(e.Hint, ":deadline-ms", "--deadline"))
}

// exitCode returns the exit code of a failed request. A plan that fails after
// its run has started is a negative result, not a usage error, whatever its
// nodes received; an invalid input of an act is a usage error (CLI-002).
func (p performance) exitCode(response edn.Value, failure *contract.Error) int {
	code := exit.Code(failure)
	if code == exit.Usage && p.file != "" && response.HasKey("run/id") {
		return exit.Negative
	}
	return code
}

// host starts the plugins of the configuration that reach selects, all if it
// is nil.
func (c *command) host(
	ctx context.Context, w *watcher, admit func(*daemon.Loaded) error, reach func(*daemon.Loaded) map[string]bool,
) (*daemon.Host, error) {
	o := c.options()
	o.Admit, o.Reach, o.Transitions, o.Notices, o.Asking = admit, reach, w.transition, w.notice, w.asking
	told := w.tellStarting()
	h, err := daemon.Start(ctx, o)
	told()
	var invalid *daemon.InvalidConfigError
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
