package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// calibrating is "ferment judge calibrate" as it was asked for.
type calibrating struct {
	anchors  string
	parallel int
	reset    bool
	local    bool
	deadline time.Duration
}

func (c *command) judgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "measure the judges of the configuration",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.calibrateCommand())
	return cmd
}

func (c *command) calibrateCommand() *cobra.Command {
	var o calibrating
	cmd := &cobra.Command{
		Use:   "calibrate [NAME]",
		Short: "measure a judge by answers that people have labelled, and keep the figures",
		Long: "calibrate has a judge of the configuration grade answers of which people said whether they are good, each\n" +
			"twice, and good ones against bad ones to the same question in both orders. It prints how far the judge agrees\n" +
			"with the labels and which habits it has, and writes that to calibration/NAME.edn in the data directory, where\n" +
			"the gates look how far a judge is to be believed. NAME may be left out if there is one judge.\n\n" +
			"The anchors are an EDN file with at least 20 answers of each label:\n" +
			"  {:score-min 0.7 :anchors [{:id \"a1\" :label :good :task/call {:input {:text \"...\"}}\n" +
			"                             :task/result {:out {:text \"...\"}}} ...]}\n" +
			"An anchor may have :task/done, :task/env and the :family of the model that wrote it.\n\n" +
			"Exit codes: 0 the judge can be believed, 1 it agrees too little with the labels, or less than it did, or gave\n" +
			"too few verdicts, 2 the command or the anchors are wrong, 3 something around it is missing.",
		Example: "  ferment judge calibrate --anchors anchors.edn\n" +
			"  ferment judge calibrate grader --anchors anchors.edn --parallel 8 --json\n" +
			"  ferment judge calibrate grader --reset",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.parallel < 1 || o.parallel > 64 {
				return usagef("--parallel %d: expected 1 to 64", o.parallel)
			}
			if cmd.Flags().Changed("deadline") && o.deadline <= 0 {
				return usagef("--deadline %s: expected a time above zero, such as 30s", o.deadline)
			}
			return c.calibrate(cmd.Context(), strings.Join(args, ""), o)
		},
	}
	cmd.Flags().StringVar(&o.anchors, "anchors", "", "EDN file with the labelled answers (default: those that the judge block names)")
	cmd.Flags().IntVar(&o.parallel, "parallel", 4, "verdicts at once")
	cmd.Flags().DurationVar(&o.deadline, "deadline", 0, "time for one verdict, such as 30s")
	cmd.Flags().BoolVar(&o.reset, "reset", false, "hold later measurements against this one, not against the first")
	localFlag(cmd, &o.local)
	return cmd
}

// calibrate measures a judge and keeps the record.
func (c *command) calibrate(ctx context.Context, name string, o calibrating) error {
	loaded, err := c.load(ctx, c.options())
	if err != nil {
		return err
	}
	judge, err := judgeNamed(loaded.Generation.Registry, name)
	if err != nil {
		return err
	}
	anchors, err := c.anchorsOf(judge, o.anchors)
	if err != nil {
		return err
	}
	file := config.CalibrationFile(loaded.Host.DataDir, judge.Name)
	var before *calibration.Record
	if !o.reset {
		if before, err = config.ReadCalibration(loaded.Host.DataDir, judge.Name); err != nil {
			c.printf("warning: %s is no record of a calibration and is replaced: %v\n", c.relative(file), err)
		}
	}
	m := &measurement{judge: judge, registry: loaded.Generation.Registry, anchors: anchors, parallel: o.parallel, deadline: o.deadline, tick: c.ticker()}
	stop, err := c.answering(ctx, m, o.local)
	if err != nil {
		return err
	}
	defer stop()
	record, err := m.take(ctx)
	c.tickEnd()
	if err != nil {
		return err
	}
	record.At = time.Now().UTC().Truncate(time.Second)
	record = record.Since(before)
	if err := keepRecord(file, record); err != nil {
		return err
	}
	return c.showCalibration(judge, record, m, file)
}

// judgeNamed finds the judge that is meant.
func judgeNamed(reg *registry.Registry, name string) (*registry.Judge, error) {
	names := reg.Judges()
	if len(names) == 0 {
		return nil, contract.Errorf("not-found", "the configuration has no judge").WithHint("add a block such as judge \"grader\" { capability = \"judge/rubric\" }")
	}
	if name == "" {
		if len(names) > 1 {
			return nil, usagef("there are %d judges: name one of %s", len(names), strings.Join(names, ", "))
		}
		name = names[0]
	}
	judge, ok := reg.Judge(name)
	if !ok {
		e := contract.Errorf("not-found", "there is no judge %q", name).WithHint("the judges are " + strings.Join(names, ", "))
		return nil, e.DidYouMean(contract.Nearest(name, names))
	}
	return judge, nil
}

// anchorsOf reads the anchors that are named, or those of the judge.
func (c *command) anchorsOf(judge *registry.Judge, name string) (calibration.Anchors, error) {
	if name == "" {
		name = judge.Anchors
	}
	if name == "" {
		return calibration.Anchors{}, usagef("judge %s names no anchors: give a file with --anchors", judge.Name)
	}
	v, err := c.readValue(name)
	if err != nil {
		return calibration.Anchors{}, err
	}
	anchors, err := calibration.ParseAnchors(v)
	if e := contract.AsError(err); err != nil && e != nil {
		return anchors, e.WithOp("read", sourceName(name))
	}
	return anchors, err
}

// keepRecord writes the record: all of it, or the one before stays.
func keepRecord(file string, r calibration.Record) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	text := append(edn.WritePretty(r.Value(), edn.PrettyOptions{First: []edn.Value{edn.K("calibration/version"), edn.K("judge"), edn.K("cap/id")}}), '\n')
	if err := renameio.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// answering gives the measurement somebody to ask: the daemon if one serves the
// data directory, else plugins of this process, which stop ends.
func (c *command) answering(ctx context.Context, m *measurement, local bool) (stop func(), err error) {
	if !local {
		client, err := c.reach(ctx)
		if err != nil {
			return nil, err
		}
		if client != nil {
			m.ask = func(ctx context.Context, request edn.Value) (edn.Value, error) {
				response, err := client.Act(ctx, request, c.env.Dir)
				if failure := response.Key("error"); err == nil && !failure.IsNil() {
					return response, contract.ErrorFromValue(failure, contract.SourceHost)
				}
				return response, err
			}
			return func() {}, nil
		}
	}
	watcher, err := c.newWatcher("none")
	if err != nil {
		return nil, err
	}
	host, err := c.host(ctx, watcher, nil)
	if err != nil {
		return nil, err
	}
	m.ask = func(ctx context.Context, request edn.Value) (edn.Value, error) {
		return actIn(ctx, host, request, c.env.Dir)
	}
	return host.Close, nil
}

// actIn performs one act on the plugins of this process.
func actIn(ctx context.Context, host *daemon.Host, request edn.Value, dir string) (edn.Value, error) {
	run, refused := host.Service().Start(ctx, act.Act{Request: request, Dir: dir})
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

// ticker tells on a terminal how far the measurement is.
func (c *command) ticker() func(done, all int) {
	if !terminal(c.env.Stderr) || c.format != formatText {
		return func(int, int) {}
	}
	return func(done, all int) { _, _ = fmt.Fprintf(c.env.Stderr, "\r\x1b[Kverdict %d of %d", done, all) }
}

// tickEnd clears the line of the ticker.
func (c *command) tickEnd() {
	if terminal(c.env.Stderr) && c.format == formatText {
		_, _ = io.WriteString(c.env.Stderr, "\r\x1b[K")
	}
}

// showCalibration prints what was measured. A judge that cannot be believed is a
// negative result.
func (c *command) showCalibration(judge *registry.Judge, r calibration.Record, m *measurement, file string) error {
	faults := r.Faults(judge.Drift)
	weak := r.Kappa < judge.MinKappa
	believed := !weak && !slices.ContainsFunc(faults, func(f calibration.Fault) bool { return f.Name == "drift" })
	var err error
	if c.format == formatText {
		_, err = fmt.Fprint(c.env.Stdout, calibrationText(judge, r, m, faults, c.relative(file)))
	} else {
		var list []edn.Value
		for _, f := range faults {
			list = append(list, edn.MustMap(edn.K("fault"), edn.K(f.Name), edn.K("message"), edn.Text(f.Message)))
		}
		err = c.value(c.env.Stdout, edn.MustMap(
			edn.K("calibration"), r.Value(), edn.K("hash"), edn.Text(r.Hash()), edn.K("file"), edn.Text(c.relative(file)),
			edn.K("believed?"), edn.Bool(believed), edn.K("faults"), edn.Vector(list...), edn.K("usage"), m.spent.value()))
	}
	if err != nil {
		return err
	}
	if !believed {
		return quietError{contract.ExitNegative}
	}
	return nil
}

func calibrationText(judge *registry.Judge, r calibration.Record, m *measurement, faults []calibration.Fault, file string) string {
	var b strings.Builder
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
	line("kappa", "%.2f  agreement beyond chance, %.2f is needed to refuse answers", r.Kappa, judge.MinKappa)
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
	line("spent", "%s", m.spent.text())
	for _, f := range faults {
		line("warning", "%s", f.Message)
	}
	switch {
	case r.Kappa < judge.MinKappa:
		line("result", "agrees too little with the labels: its verdicts only count as should")
	case r.Drifted(judge.Drift):
		line("result", "agrees less than it did: it is not asked until it is calibrated with --reset")
	default:
		line("result", "its verdicts may refuse answers")
	}
	line("written to", "%s", file)
	return b.String()
}
