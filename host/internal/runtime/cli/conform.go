package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// conforming holds the options of "ferment conform".
type conforming struct {
	profiles         []string
	json, junit, md  string
	run              string
	list             bool
	seed             uint64
	patience         float64
	config, samples  string
	baseline         string
	env              []string
	command, environ []string
}

func (c *command) conformCommand() *cobra.Command {
	var o conforming
	cmd := &cobra.Command{
		Use:   "conform [flags] -- PROGRAM [ARG ...]",
		Short: "check that a plugin conforms to the plugin contract",
		Long: "conform starts a plugin many times, calls it, cancels calls, stops it and kills it, and reports for each\n" +
			"requirement of the contract whether the plugin meets it. The checks follow from the description of the\n" +
			"plugin: core always, the kinds of its capabilities, and the features that it names.\n" +
			"No check is skipped: one that lacks something, such as a sample, fails and reports what is missing.\n\n" +
			"Exit codes: 0 everything passed, 1 a requirement failed or the baseline is stale, 2 the command is\n" +
			"wrong, 3 the harness or the machine failed.",
		Example: "  ferment conform --profile core -- bin/plugins/text\n" +
			"  ferment conform --run 'core/(cancel|drain)' --seed 7 --junit report.xml -- bin/plugins/text\n" +
			"  ferment conform --list --profile judge",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			if o.list {
				return c.listChecks(o)
			}
			return c.conform(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.profiles, "profile", nil,
		"profiles to check instead of those that follow from the plugin, such as core,judge")
	flags.StringVar(&o.json, "json", "", "write the report to this file as JSON (\"-\": standard output)")
	flags.StringVar(&o.junit, "junit", "", "write the report to this file as JUnit XML")
	flags.StringVar(&o.md, "md", "", "write the report to this file as Markdown")
	flags.StringVar(&o.run, "run", "", "run only checks whose id matches this regular expression")
	flags.BoolVar(&o.list, "list", false, "list the checks with their requirements and start nothing")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of an earlier run to repeat its random choices (0: a new seed)")
	flags.Float64Var(&o.patience, "patience", 1, "factor for all time limits, for a busy machine")
	flags.StringVar(&o.config, "config", "",
		"configuration of the plugin: a file (.edn, .json), or EDN text beginning with {")
	flags.StringVar(&o.samples, "samples", "",
		"inputs that the plugin answers, by capability or intent: a file, or EDN text")
	flags.StringVar(&o.baseline, "baseline", "", "file with the ids of checks that are known to fail, one per line")
	cmd.AddCommand(c.conformHostCommand())
	flags.StringArrayVar(&o.env, "env", nil,
		"variable of the plugin's environment: NAME=VALUE, or NAME to pass it on; the plugin has no others")
	return cmd
}

// conform runs the checks and prints the report.
func (c *command) conform(ctx context.Context, o conforming) error {
	opts, err := c.conformOptions(&o)
	if err != nil {
		return err
	}
	outputs, err := c.openReports(o)
	if err != nil {
		return err
	}
	defer outputs.close()
	show := &conformProgress{command: c, on: c.format == formatText && o.json != "-", live: display.Terminal(c.env.Stdout)}
	opts.OnStart = show.began
	opts.OnResult = func(r conformance.Result) {
		if ctx.Err() == nil { // an interrupted check has no result
			show.result(r)
		}
	}
	opts.Command = c.reproducible(o)
	report := conformance.Run(ctx, conformance.Process(o.command, o.environ), opts)
	show.clear()
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) {
		return cause
	}
	report.Hash = programHash(o.command)
	if report.Baseline, err = c.readBaseline(o.baseline); err != nil {
		return err
	}
	if len(report.Results) == 0 {
		return usagef("no check of the profiles %s matches --run %q: \"ferment conform --list\" lists them",
			strings.Join(report.Profiles, ", "), o.run)
	}
	return c.finishConform(report, o, outputs)
}

// finishConform writes the reports, prints the summary and returns the verdict as an exit code.
func (c *command) finishConform(report conformance.Report, o conforming, outputs *reports) error {
	if err := outputs.write(report); err != nil {
		return err
	}
	if c.format != formatText {
		if err := c.value(c.env.Stdout, report.Value()); err != nil {
			return err
		}
	} else if o.json != "-" {
		c.conformSummary(c.env.Stdout, report)
	}
	return conformExit(report.Outcome())
}

// conformExit returns the exit code of a verdict.
func conformExit(s conformance.Status) error {
	switch s {
	case conformance.Pass:
		return nil
	case conformance.Fault:
		return quietError{exit.Environment}
	}
	return quietError{exit.Negative}
}

// maxPatience is the maximum of --patience.
const maxPatience = 20.0

// conformOptions reads the files in the command line, and searches the program.
func (c *command) conformOptions(o *conforming) (conformance.Options, error) {
	opts := conformance.Options{Seed: o.seed, Profiles: o.profiles, Patience: o.patience}
	if math.IsNaN(o.patience) || o.patience < 1 || o.patience > maxPatience {
		return opts, usagef("--patience %v: expected a number from 1 to %v", o.patience, maxPatience)
	}
	if len(o.command) == 0 {
		return opts, usagef("conform needs a plugin to start: ferment conform -- ./my-plugin")
	}
	path, err := exec.LookPath(o.command[0])
	if e := launch.Executable(o.command[0]); err != nil && e != nil {
		return opts, usagef("%s", e)
	}
	if err != nil {
		return opts, usagef("no program %s: %s", o.command[0], cause(lookPathCause(err)))
	}
	o.command = append([]string{path}, o.command[1:]...)
	if err := o.profilesExist(); err != nil {
		return opts, err
	}
	if o.run != "" {
		if opts.Only, err = regexp.Compile(o.run); err != nil {
			return opts, usagef("--run: %s", err)
		}
	}
	if opts.Seed == 0 {
		opts.Seed = rand.Uint64()
	}
	o.seed = opts.Seed
	if opts.Config, err = c.readMap("--config", o.config); err != nil {
		return opts, err
	}
	samples, err := c.readMap("--samples", o.samples)
	if err != nil {
		return opts, err
	}
	if err := opts.ReadSamples(samples); err != nil {
		return opts, usagef("--samples: %s", err)
	}
	if _, err := c.readBaseline(o.baseline); err != nil {
		return opts, err
	}
	for _, pair := range o.env {
		if !strings.Contains(pair, "=") {
			value, _ := c.env.Getenv(pair)
			pair += "=" + value
		}
		o.environ = append(o.environ, pair)
	}
	return opts, nil
}

// profilesExist reports unknown names of profiles.
func (o conforming) profilesExist() error {
	for _, p := range o.profiles {
		if !slices.Contains(conformance.Profiles(), p) {
			return usagef("no profile %q: expected one of %s", p, strings.Join(conformance.Profiles(), ", "))
		}
	}
	return nil
}

// lookPathCause removes the name from an error, because the message already has it.
func lookPathCause(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// readMap reads a map from a file or from the text itself.
func (c *command) readMap(flag, given string) (edn.Value, error) {
	if given == "" {
		return edn.Nil(), nil
	}
	var v edn.Value
	var err error
	if strings.HasPrefix(strings.TrimSpace(given), "{") {
		if v, err = edn.ReadString(given, edn.WithSource(flag)); err != nil {
			err = contract.SyntaxError("invalid-request", err)
		}
	} else {
		v, err = c.readValue(given)
	}
	if err == nil && !v.IsMap() {
		err = usagef("%s: expected a map, got %s", flag, cutTo(v.String(), 80))
	}
	return v, err
}

func (c *command) readBaseline(name string) (*conformance.Baseline, error) {
	if name == "" {
		return nil, nil
	}
	text, err := c.readText(name)
	if err != nil {
		return nil, err
	}
	b, err := conformance.ParseBaseline(string(text))
	if err != nil {
		return nil, usagef("%s: %s", name, err)
	}
	return b, nil
}

// programHash returns the hash of the program and of the files among its arguments; empty if they
// cannot be read.
func programHash(command []string) string {
	var files []string
	for _, arg := range command[1:] {
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			files = append(files, arg)
		}
	}
	hash, err := plugin.HashProgram(command[0], files)
	if err != nil {
		return ""
	}
	return hash
}

// reproducible returns the part of the command line after seed, profile and check id.
func (c *command) reproducible(o conforming) conformance.CommandLine {
	line := conformance.CommandLine{Program: o.command}
	add := func(flag, value string) {
		if value != "" {
			line.Flags = append(line.Flags, flag, value)
		}
	}
	add("--config", o.config)
	add("--samples", o.samples)
	for _, pair := range o.env {
		add("--env", pair)
	}
	if o.patience != 1 {
		add("--patience", strconv.FormatFloat(o.patience, 'g', -1, 64))
	}
	return line
}

// listChecks prints the checks that the flags select.
func (c *command) listChecks(o conforming) error {
	if err := o.profilesExist(); err != nil {
		return err
	}
	profiles := o.profiles
	if len(profiles) == 0 {
		profiles = conformance.Profiles()
	}
	var only *regexp.Regexp
	if o.run != "" {
		var err error
		if only, err = regexp.Compile(o.run); err != nil {
			return usagef("--run: %s", err)
		}
	}
	checks := slices.DeleteFunc(conformance.ChecksOf(profiles...), func(k conformance.Check) bool {
		return only != nil && !only.MatchString(k.ID)
	})
	if c.format != formatText {
		all := make([]edn.Value, len(checks))
		for i, k := range checks {
			requirements := make([]edn.Value, len(k.Requirements))
			for j, id := range k.Requirements {
				requirements[j] = edn.Text(id)
			}
			all[i] = edn.MustMap(edn.K("check"), edn.Text(k.ID), edn.K("profile"), edn.Text(k.Profile()),
				edn.K("text"), edn.Text(k.Text), edn.K("requirements"), edn.Vector(requirements...))
		}
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("suite"), edn.Text(conformance.SuiteVersion),
			edn.K("checks"), edn.Vector(all...),
		))
	}
	rows := make([][]string, len(checks))
	for i, k := range checks {
		rows[i] = []string{k.ID, strings.Join(k.Requirements, " "), k.Text}
	}
	return display.Table(c.env.Stdout, []string{"check", "requirements", "what a plugin must do"}, rows)
}

// reports are the report files. They are created before the run, so that a path that cannot be
// written is an error at the start.
type reports struct {
	json, junit, md io.Writer
	files           []*os.File
}

func (c *command) openReports(o conforming) (*reports, error) {
	r := &reports{}
	for _, one := range []struct {
		name string
		to   *io.Writer
	}{{o.json, &r.json}, {o.junit, &r.junit}, {o.md, &r.md}} {
		switch one.name {
		case "":
		case "-":
			*one.to = c.env.Stdout
		default:
			f, err := os.Create(c.path(one.name))
			if err != nil {
				r.close()
				return nil, &fileError{err: fmt.Errorf("write %s: %w", one.name, cause(err)), written: true}
			}
			r.files = append(r.files, f)
			*one.to = f
		}
	}
	return r, nil
}

func (r *reports) close() {
	for _, f := range r.files {
		_ = f.Close()
	}
}

// write writes every requested report.
func (r *reports) write(report conformance.Report) error {
	for _, one := range []struct {
		to   io.Writer
		make func() ([]byte, error)
	}{
		{r.json, report.JSON},
		{r.junit, report.JUnit},
		{r.md, func() ([]byte, error) { return report.Markdown(), nil }},
	} {
		if one.to == nil {
			continue
		}
		text, err := one.make()
		if err != nil {
			return err
		}
		if _, err := one.to.Write(text); err != nil {
			return &fileError{err: fmt.Errorf("write the report: %w", err), written: true}
		}
	}
	return nil
}

// conformProgress prints a line for each check, and on a terminal also the check in progress.
type conformProgress struct {
	command *command
	on      bool
	live    bool
}

func (p *conformProgress) began(k conformance.Check) {
	if p.on && p.live {
		_, _ = fmt.Fprintf(p.command.env.Stdout, "\r\x1b[K.... %s", k.ID)
	}
}

func (p *conformProgress) clear() {
	if p.on && p.live {
		_, _ = fmt.Fprint(p.command.env.Stdout, "\r\x1b[K")
	}
}

func (p *conformProgress) result(r conformance.Result) {
	if !p.on {
		return
	}
	p.clear()
	if r.Blocked != "" {
		return // the summary lists them together
	}
	_, _ = fmt.Fprintf(p.command.env.Stdout, "%-5s %s (%s)\n", r.Status, r.Check.ID, r.Took.Round(time.Millisecond))
}

// conformSummary prints the checks that did not pass, and the verdict.
func (c *command) conformSummary(w io.Writer, r conformance.Report) {
	for _, res := range r.Results {
		if res.Status == conformance.Pass || res.Blocked != "" {
			continue
		}
		known := ""
		if r.Baseline.Knows(res.Check.ID) {
			known = " (known)"
		}
		_, _ = fmt.Fprintf(w, "\n%s %s%s\n%s", res.Status, res.Check.ID, known, diag.WrapError(indent(r.Explain(res))))
	}
	_, _ = fmt.Fprintln(w)
	missed := 0
	by, ids := r.Blocked()
	for _, id := range by {
		_, _ = fmt.Fprintf(w, "%s: %s\n\n", r.BlockedText(id), strings.Join(ids[id], " "))
		missed += len(ids[id])
	}
	notes, of := r.Notes()
	for _, note := range notes {
		_, _ = fmt.Fprintf(w, "in part: %s: %s\n\n", note, strings.Join(of[note], " "))
	}
	notRun := ""
	if missed > 0 {
		notRun = fmt.Sprintf(", %d not run", missed)
	}
	for _, id := range r.Stale() {
		_, _ = fmt.Fprintf(w, "stale: %s no longer fails: remove it from the baseline\n", id)
	}
	name := cmp.Or(strings.TrimSpace(r.Plugin+" "+r.Version), "the plugin")
	failed, seed := r.Failed(), ""
	if r.Seed != 0 {
		seed = fmt.Sprintf(", seed %d", r.Seed)
	}
	_, _ = fmt.Fprintf(w, "%s: %s: %d of %d checks passed%s in %.1fs (profiles %s; suite %s, protocol %d%s)\n",
		r.Outcome(), name, len(r.Results)-failed, len(r.Results), notRun, r.Took.Seconds(),
		strings.Join(r.Profiles, " "), r.Suite, r.Protocol, seed)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}
