package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/adapters/store/calibrations"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// calibrating holds the options of "ferment judge calibrate".
type calibrating struct {
	anchors  string
	parallel int
	reset    bool
	recheck  bool
	local    bool
	deadline time.Duration
}

func (c *command) judgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "calibrate the judges of the configuration, and show their calibration",
	}
	cmd.AddCommand(c.judgeListCommand(), c.judgeShowCommand(), c.calibrateCommand())
	return cmd
}

func (c *command) calibrateCommand() *cobra.Command {
	var o calibrating
	cmd := &cobra.Command{
		Use:   "calibrate [NAME]",
		Short: "measure the agreement of a judge with labelled answers, and store it",
		Long: "calibrate has a judge of the configuration grade answers that people labelled as good or bad, each twice,\n" +
			"and compare good with bad answers to the same question in both orders. It prints the agreement of the judge\n" +
			"with the labels and its biases, and writes them to calibration/NAME.edn in the data directory, where\n" +
			"the gates read them. NAME is optional if there is one judge.\n\n" +
			"The anchors are an EDN file with at least 20 answers of each label:\n" +
			"  {:score-min 0.7 :anchors [{:id \"a1\" :label :good :task/call {:input {:text \"...\"}}\n" +
			"                             :task/result {:out {:text \"...\"}}} ...]}\n" +
			"An anchor may have :task/done, :task/env and the :family of the model that wrote it.\n\n" +
			"A daemon repeats the measurement of judges whose block names anchors, before the time recheck is over and when\n" +
			"another model answers. Without a daemon, calibrate --recheck repeats those that are due, for example from\n" +
			"cron. Neither measures judges that were never calibrated.\n\n" +
			"Exit codes: 0 sufficient agreement, 1 too little agreement with the labels, or less than before, or\n" +
			"too few verdicts, 2 wrong command or anchors, 3 the environment lacks something.",
		Example: "  ferment judge calibrate grader --anchors anchors.edn\n" +
			"  ferment judge calibrate grader --anchors anchors.edn --parallel 8 --json\n" +
			"  ferment judge calibrate grader --reset\n" +
			"  ferment judge calibrate --recheck",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.parallel < 1 || o.parallel > 64 {
				return usagef("--parallel %d: expected 1 to 64", o.parallel)
			}
			if cmd.Flags().Changed("deadline") && o.deadline <= 0 {
				return usagef("--deadline %s: expected a time above zero, such as 30s", o.deadline)
			}
			if o.recheck && (o.reset || o.anchors != "") {
				return usagef("--recheck repeats measurements as they were: it takes neither --reset nor --anchors")
			}
			return c.calibrate(cmd.Context(), strings.Join(args, ""), o)
		},
	}
	cmd.Flags().StringVar(&o.anchors, "anchors", "",
		"EDN file with the labelled answers (default: the file that the judge block names)")
	cmd.Flags().IntVar(&o.parallel, "parallel", 4, "maximum number of concurrent verdicts")
	spanFlag(cmd.Flags(), &o.deadline, "deadline", 0, "time limit of one verdict, such as 30s")
	cmd.Flags().BoolVar(&o.reset, "reset", false,
		"make this measurement the baseline of later ones; by default it is the first")
	cmd.Flags().BoolVar(&o.recheck, "recheck", false,
		"repeat the measurement of judges whose calibration is expired or soon will be")
	localFlag(cmd, &o.local)
	return cmd
}

// calibrate measures one judge, or all that are due, and stores the records.
func (c *command) calibrate(ctx context.Context, name string, o calibrating) error {
	loaded, err := c.load(ctx, c.options())
	if err != nil {
		return err
	}
	judges, err := c.toMeasure(loaded, name, o)
	if err != nil {
		return err
	}
	if len(judges) == 0 {
		return c.nothingDue()
	}
	jobs := make([]job, len(judges)) // errors in anchors are reported before any call
	for i, j := range judges {
		if jobs[i], err = c.jobOf(j, o.anchors); err != nil {
			return err
		}
	}
	measure, stop, err := c.measuring(ctx, loaded, jobs[0], o)
	if err != nil {
		return err
	}
	defer stop()
	var failed error
	for _, j := range jobs {
		v, err := measure(ctx, j)
		c.tickEnd()
		if err == nil {
			err = c.showCalibration(v)
		}
		if err != nil && failed != nil {
			c.problem(failed)
		}
		if err != nil {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// toMeasure returns the judge with a name, or those that are due.
func (c *command) toMeasure(loaded *setup.Loaded, name string, o calibrating) ([]*registry.Judge, error) {
	reg := loaded.Generation.Registry
	if !o.recheck {
		judge, err := judgeNamed(reg, name)
		return []*registry.Judge{judge}, err
	}
	if name != "" {
		if _, err := judgeNamed(reg, name); err != nil {
			return nil, err
		}
	}
	return loaded.JudgesDue(name, time.Now())
}

func (c *command) nothingDue() error {
	if c.format != formatText {
		return c.value(c.env.Stdout, edn.MustMap(edn.K("measured"), edn.Int(0)))
	}
	_, err := io.WriteString(c.env.Stdout, "no judge is due\n")
	return err
}

// judgeNamed returns the judge with a name, or the only one.
func judgeNamed(reg *registry.Registry, name string) (*registry.Judge, error) {
	names := reg.Judges()
	if len(names) == 0 {
		return nil, contract.Errorf("not-found", "the configuration has no judge").
			WithHint("add a block such as judge \"grader\" { capability = \"judge/rubric\" }")
	}
	if name == "" {
		if len(names) > 1 {
			return nil, usagef("there are %d judges: name one of %s", len(names), strings.Join(names, ", "))
		}
		name = names[0]
	}
	judge, ok := reg.Judge(name)
	if !ok {
		e := contract.Errorf("not-found", "there is no judge %q", name).
			WithHint("use one of " + strings.Join(names, ", "))
		return nil, e.DidYouMean(contract.Nearest(name, names))
	}
	return judge, nil
}

// job is a judge with its labelled answers.
type job struct {
	judge   *registry.Judge
	anchors calibration.Anchors
	text    edn.Value // of the anchors
}

// jobOf reads the anchors in the file name; if it is empty, those of the judge's block.
func (c *command) jobOf(judge *registry.Judge, name string) (job, error) {
	if name == "" {
		name = judge.Anchors
	}
	if name == "" {
		return job{}, usagef("judge %s names no anchors: give a file with --anchors", judge.Name)
	}
	v, err := c.readValue(name)
	if err != nil {
		return job{}, err
	}
	anchors, err := calibration.ParseAnchors(v)
	if e := contract.AsError(err); err != nil && e != nil {
		err = e.WithOp("read", sourceName(name))
	}
	return job{judge, anchors, v}, err
}

// measuring returns the function that measures a judge: in the daemon of the data directory if
// there is one, otherwise in this process with its own plugins, which stop stops.
func (c *command) measuring(
	ctx context.Context, loaded *setup.Loaded, first job, o calibrating,
) (measure func(context.Context, job) (edn.Value, error), stop func(), err error) {
	if !o.local {
		there, err := c.reach(ctx)
		if err != nil {
			return nil, nil, err
		}
		if there != nil {
			file, stop, err := c.anchorsFile(o.anchors, first.text)
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context, j job) (edn.Value, error) {
				return c.measuredBy(ctx, there, j.judge, file, o)
			}, stop, nil
		}
	}
	watcher, err := c.newWatcher("none")
	if err != nil {
		return nil, nil, err
	}
	host, err := c.host(ctx, watcher, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, j job) (edn.Value, error) {
		return c.measuredHere(ctx, host, loaded, j, o)
	}, host.Close, nil
}

// anchorsFile returns the path of the anchors for the daemon; empty if none is given. Anchors from
// standard input are written to a file first.
func (c *command) anchorsFile(name string, text edn.Value) (file string, done func(), err error) {
	switch {
	case name == "":
		return "", func() {}, nil
	case name != "-":
		return c.path(name), func() {}, nil
	}
	f, err := os.CreateTemp("", "anchors-*.edn")
	if err != nil {
		return "", nil, err
	}
	done = func() { _ = os.Remove(f.Name()) }
	_, err = f.Write(edn.Write(text))
	if err = errors.Join(err, f.Close()); err != nil {
		done()
		return "", nil, fmt.Errorf("keep the anchors for the daemon: %w", err)
	}
	return f.Name(), done, nil
}

// measuredBy measures a judge in the daemon.
func (c *command) measuredBy(
	ctx context.Context, there *client.Client, j *registry.Judge, file string, o calibrating,
) (edn.Value, error) {
	action := actionOf("judge-calibrate", edn.K("judge"), edn.Text(j.Name),
		edn.K("parallel"), edn.Int(int64(o.parallel)), edn.K("reset?"), edn.Bool(o.reset))
	if file != "" {
		action = action.AssocKey("file", edn.Text(file))
	}
	if o.deadline > 0 {
		action = action.AssocKey("deadline-ms", edn.Int(max(1, o.deadline.Milliseconds())))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watchMeasurement(ctx, there, j.Name)
	}()
	v, err := there.Admin(ctx, action)
	cancel()
	<-watched
	return v, err
}

// watchMeasurement shows the progress of the daemon on a terminal.
func (c *command) watchMeasurement(ctx context.Context, there *client.Client, judge string) {
	if !c.ticks() {
		return
	}
	tick := c.ticker()
	for (dispatch.SystemClock{}).Wait(ctx, time.Second) == nil {
		v, err := there.Admin(ctx, actionOf("judge-list"))
		if err != nil {
			continue
		}
		for s := range v.Key("judges").Elems() {
			if m := s.Key("measuring"); plain(s.Key("judge")) == judge && !m.IsNil() {
				tick(number(m.Key("done")), number(m.Key("all")))
			}
		}
	}
}

// measuredHere measures a judge with the plugins of this process.
func (c *command) measuredHere(
	ctx context.Context, host *daemon.Host, loaded *setup.Loaded, of job, o calibrating,
) (edn.Value, error) {
	j := of.judge
	store := calibrations.Dir(loaded.Host.DataDir)
	m := &rescore.Measurement{
		Judge: j, Registry: loaded.Generation.Registry, Anchors: of.anchors, Parallel: o.parallel, Deadline: o.deadline, Tick: c.ticker(), Clock: dispatch.SystemClock{},
		Ask: func(ctx context.Context, request edn.Value) (edn.Value, error) {
			return actIn(ctx, host, request, c.env.Dir)
		},
	}
	record, err := m.Take(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	how := rescore.Options{Why: calibration.ByOperator, Reset: o.reset}
	if o.recheck {
		how.Why = calibration.ByAge
	}
	out, err := m.Conclude(store, record, how)
	if out.Unreadable != nil {
		c.tickEnd()
		c.warn("%s is not a calibration record and is replaced: %v", c.relative(store.File(j.Name)), out.Unreadable)
	}
	if err != nil {
		return edn.Nil(), err
	}
	return daemon.CalibratedValue(out, loaded.Host.DataDir), nil
}

// actIn executes one act on the plugins of this process.
func actIn(ctx context.Context, host *daemon.Host, request edn.Value, dir string) (edn.Value, error) {
	run, refused := host.Service().Start(ctx, act.Act{Request: request, Dir: dir, Grading: true})
	if refused != nil {
		return edn.Nil(), refused
	}
	response, failure := run.Wait()
	host.Ended(context.WithoutCancel(ctx), run.ID())
	if failure != nil {
		return response, failure
	}
	return response, nil
}

// ticks reports whether progress is shown.
func (c *command) ticks() bool { return display.Terminal(c.env.Stderr) && c.format == formatText }

// ticker returns a function that shows progress on a terminal.
func (c *command) ticker() func(done, all int) {
	if !c.ticks() {
		return func(int, int) {}
	}
	return func(done, all int) { _, _ = fmt.Fprintf(c.env.Stderr, "\r\x1b[Kverdict %d of %d", done, all) }
}

// tickEnd clears the progress line.
func (c *command) tickEnd() {
	if c.ticks() {
		_, _ = io.WriteString(c.env.Stderr, "\r\x1b[K")
	}
}

// showCalibration prints a measurement. A judge without sufficient agreement is a negative result.
func (c *command) showCalibration(v edn.Value) error {
	file, _ := v.Key("file").AsString()
	v = v.AssocKey("file", edn.Text(c.relative(file)))
	var err error
	if c.format == formatText {
		var r calibration.Record
		if r, err = calibration.ParseRecord(v.Key("calibration")); err == nil {
			_, err = io.WriteString(c.env.Stdout, calibrationText(r, v))
		}
	} else {
		err = c.value(c.env.Stdout, v)
	}
	if err != nil {
		return err
	}
	if !v.Key("believed?").Truthy() {
		return quietError{exit.Negative}
	}
	return nil
}

// calibrationText returns a record and its outcome as text for people.
func calibrationText(r calibration.Record, v edn.Value) string {
	var b strings.Builder
	least := 0.0
	if f, ok := v.Key("min-kappa").AsNumber(); ok {
		least, _ = f.Float64()
	}
	drifted := false
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-20s "+format+"\n", append([]any{name}, args...)...)
	}
	who := r.Capability
	if r.Model != "" {
		who += ", model " + r.Model
	}
	if r.Family != "" {
		who += ", family " + r.Family
	}
	line("judge", "%s (%s)", r.Judge, who)
	failed := ""
	if r.Failed > 0 {
		failed = fmt.Sprintf(", %d without a verdict", r.Failed)
	}
	line("anchors", "%d good, %d bad%s", r.Good, r.Bad, failed)
	line("sensitivity", "%.2f  of the good ones pass at %s", r.Sensitivity, r.ScoreMin.Value().String())
	line("specificity", "%.2f  of the bad ones do not", r.Specificity)
	line("kappa", "%.2f  agreement beyond chance, %.2f is needed to refuse answers", r.Kappa, least)
	if r.Baseline.Known() {
		line("kappa at first", "%.2f", r.Baseline.Value)
	}
	for _, f := range []struct {
		name   string
		m      calibration.Measured
		format string
	}{
		{"changed verdicts", r.Flips, "%.2f  of %d anchors that were judged twice"},
		{"score and length", r.Length, "%+.2f correlation over %d answers"},
		{"first place", r.Order, "%+.2f preference in %d choices"},
		{"own family", r.Own, "%+.2f score, %d answers at least on either side"},
	} {
		if f.m.Known() {
			line(f.name, f.format, f.m.Value, f.m.Of)
		} else {
			line(f.name, "not measured")
		}
	}
	line("spread of scores", "%.2f", r.Spread)
	line("spent", "%s", rescore.SpendingText(v.Key("usage")))
	for f := range v.Key("faults").Elems() {
		line("warning", "%s", plain(f.Key("message")))
		drifted = drifted || f.Key("fault").Equal(edn.K("drift"))
	}
	switch {
	case r.Worthless() != "":
		line("result", "has no weight and is not called: %s", r.Worthless())
	case r.Kappa < least:
		line("result", "agrees too little with the labels: its verdicts only count as should")
	case drifted:
		line("result", "agrees less than at its baseline: it is not called until it is calibrated with --reset")
	default:
		line("result", "its verdicts may refuse answers")
	}
	line("written to", "%s", plain(v.Key("file")))
	return b.String()
}
