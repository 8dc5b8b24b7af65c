package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) judgeListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the judges with their agreement and the time of the next measurement",
		Long: "list shows every judge of the configuration with its last calibration. A daemon that serves the data directory\n" +
			"also reports the next measurement of a judge, its progress, and why one failed.",
		Example: "  ferment judge list\n  ferment judge list --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := c.judges(cmd.Context())
			if err != nil {
				return err
			}
			if c.format != formatText {
				return c.value(c.env.Stdout, v)
			}
			return c.judgeTable(v)
		},
	}
}

func (c *command) judgeShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "show one judge with the history of its measurements",
		Example: "  ferment judge show grader\n  ferment judge show grader --edn",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := c.judges(cmd.Context())
			if err != nil {
				return err
			}
			var names []string
			for s := range v.Key("judges").Elems() {
				if plain(s.Key("judge")) == args[0] {
					return c.showJudge(s)
				}
				names = append(names, plain(s.Key("judge")))
			}
			e := contract.Errorf("not-found", "there is no judge %q", args[0])
			if len(names) > 0 {
				e = e.WithHint("use one of " + strings.Join(names, ", "))
			}
			return e.DidYouMean(contract.Nearest(args[0], names))
		},
	}
}

// judges returns the state of the judges from the daemon, or from their files if none runs.
func (c *command) judges(ctx context.Context) (edn.Value, error) {
	there, err := c.reach(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	if there != nil {
		return there.Admin(ctx, actionOf("judge-list"))
	}
	loaded, err := c.load(ctx, c.options())
	if err != nil {
		return edn.Nil(), err
	}
	return daemon.JudgesValue(loaded.JudgeStates(time.Now()), nil), nil
}

func (c *command) judgeTable(v edn.Value) error {
	var rows [][]string
	for s := range v.Key("judges").Elems() {
		rows = append(rows, []string{plain(s.Key("judge")), dash(written(s.Key("cap/id"))), judgeState(s),
			dash(written(s.Key("kappa"))), dash(written(s.Key("first-kappa"))),
			dash(day(s.Key("at"))), dash(written(s.Key("model"))), dash(nextOf(s))})
	}
	if len(rows) == 0 {
		_, err := io.WriteString(c.env.Stdout, "the configuration has no judge\n")
		return err
	}
	return display.Table(c.env.Stdout, []string{"judge", "graded by", "state", "kappa", "first", "measured", "model", "next"},
		rows)
}

// written returns a value as text for people; empty for nil.
func written(v edn.Value) string {
	if v.IsString() || v.IsKeyword() {
		return plain(v)
	}
	return strings.TrimSuffix(plain(v), "M")
}

// day returns the date of an instant; empty for nil.
func day(v edn.Value) string {
	if at, ok := v.AsInst(); ok {
		return at.UTC().Format(time.DateOnly)
	}
	return ""
}

// judgeState returns the calibration state of a judge, with its main value.
func judgeState(s edn.Value) string {
	switch {
	case !s.Key("used?").Truthy():
		return "not used"
	case s.Key("plain?").Truthy() && plain(s.Key("state")) != string(calibration.Drifted):
		return "plain"
	}
	return plain(s.Key("state"))
}

// nextOf returns the time of the next measurement, or its progress.
func nextOf(s edn.Value) string {
	switch m, f := s.Key("measuring"), s.Key("failed"); {
	case !m.IsNil():
		return fmt.Sprintf("now, %s of %s", m.Key("done"), m.Key("all"))
	case s.Key("due").IsNil():
		return ""
	case !f.IsNil():
		return fmt.Sprintf("%s, failed %s", day(s.Key("due")), times(number(f.Key("times"))))
	}
	return day(s.Key("due"))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// stateSentences describe the effect of each state on answers.
var stateSentences = map[string]string{
	string(calibration.Believed):     "its grades may refuse answers",
	string(calibration.Uncalibrated): "it was never measured: its grades only count in the score",
	string(calibration.Expired):      "its measurement is too old: its grades only count in the score",
	string(calibration.Weak):         "it agrees too little with people: its grades only count in the score",
	string(calibration.Worthless):    "its grades are not better than chance: it is not used and has no weight",
	string(calibration.Drifted):      "it agrees less than at its baseline: it is not used",
	"plain":                          "it applies rules of the configuration, which only count in the score: there is nothing to measure",
	"not used":                       "no intent has answers graded by it",
}

// showJudge prints one judge.
func (c *command) showJudge(s edn.Value) error {
	if c.format != formatText {
		return c.value(c.env.Stdout, s)
	}
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, text)
		}
	}
	state := judgeState(s)
	line("judge", plain(s.Key("judge")))
	line("state", state+": "+stateSentences[state])
	line("where", written(s.Key("where")))
	if name, ok := s.Key("anchors").AsString(); ok {
		line("anchors", c.relative(name))
	}
	line("unreadable", written(s.Key("unreadable")))
	line("graded by", written(s.Key("cap/id")))
	line("model", written(s.Key("model")))
	if kappa := written(s.Key("kappa")); kappa != "" {
		line("kappa", fmt.Sprintf("%s, %s is needed to refuse answers", kappa, written(s.Key("min-kappa"))))
		line("measured", fmt.Sprintf("%s, holds until %s", day(s.Key("at")), day(s.Key("until"))))
	}
	line("answers", answersText(s.Key("answers")))
	if next := nextOf(s); next != "" {
		line("next", next+", because of "+reasonOf(s.Key("why")))
	}
	if f := s.Key("failed"); !f.IsNil() {
		line("failed", fmt.Sprintf("%s, %s in a row: %s", day(f.Key("at")), times(number(f.Key("times"))),
			plain(f.Key("error").Key("message"))))
	}
	if r, err := calibration.ParseRecord(s.Key("calibration")); err == nil {
		b.WriteString("\n")
		b.WriteString(courseText(r))
	}
	_, err := io.WriteString(c.env.Stdout, b.String())
	return err
}

// answersText describes the answers that a judge graded; empty for nil.
func answersText(v edn.Value) string {
	if v.IsNil() {
		return ""
	}
	text := fmt.Sprintf("%s of %s passed", v.Key("passed"), v.Key("graded"))
	if good := v.Key("good"); !good.IsNil() {
		text += fmt.Sprintf("; corrected for its errors, a share of %s is good (%s to %s)", written(good.Key("rate")),
			written(good.Key("low")), written(good.Key("high")))
	}
	return text
}

// reasonOf returns the reason of a measurement.
func reasonOf(v edn.Value) string {
	switch calibration.Why(plain(v)) {
	case calibration.ByAge:
		return "its age"
	case calibration.ByModel:
		return "another model that answers"
	}
	return "an operator"
}

// courseText returns the history of a judge, beginning with the oldest.
func courseText(r calibration.Record) string {
	points := append(slices.Clone(r.Course), calibration.Point{
		At:    r.At,
		Kappa: r.Kappa,
		Model: r.Model,
		Why:   r.Why,
		Fresh: !r.Baseline.Known(),
	})
	rows := make([][]string, len(points))
	for i, p := range points {
		why := "an operator"
		if p.Why != "" {
			why = reasonOf(edn.K(string(p.Why)))
		}
		first := ""
		if p.Fresh {
			first = "first of its kind"
		}
		rows[i] = []string{p.At.UTC().Format("2006-01-02 15:04"), fmt.Sprintf("%.2f", p.Kappa), dash(p.Model), why,
			first}
	}
	var b strings.Builder
	_ = display.Table(&b, []string{"measured", "kappa", "model", "because of", ""}, rows) // strings.Builder never fails
	return b.String()
}
