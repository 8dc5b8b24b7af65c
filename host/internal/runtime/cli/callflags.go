package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/sdk/edn"
)

// callFlags are the flags of act and run.
type callFlags struct {
	bind       []string
	inputFile  string
	isJSON     bool // parts of the request are in JSON
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
	cmd.Flags().StringVar(&f.key, "key", "",
		"idempotency key: a repeated command with the same key gets the run that the first one started")
	cmd.Flags().BoolVar(&f.noCache, "no-cache", false,
		"execute the request even if the cache has an answer of an equal request")
	cmd.Flags().StringVar(&f.session, "session", "", "id of a session of the daemon, which fills what the request leaves out")
	localFlag(cmd, &f.local)
	cmd.Flags().StringVar(&f.progress, "progress", "auto",
		"live progress on standard error: auto, none, text, json or edn")
}

// registerRequest adds the flags that apply uses.
func (f *callFlags) registerRequest(cmd *cobra.Command) {
	effectsFlag(cmd, &f.effects)
	cmd.Flags().StringVar(&f.budget, "budget", "",
		"budget of the run, as EDN such as '{:max-usd 0.05M :max-attempts 3}'")
	spanFlag(cmd.Flags(), &f.deadline, "deadline", 0,
		"time limit of the whole run, such as 30s; by default queue.deadline of the configuration, or queue.async_deadline")
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
		if f.key != "" && f.local {
			return usagef("--key: only a daemon keeps idempotency keys: omit --local, or the flag")
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

// apply returns the request envelope with the flags added.
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
