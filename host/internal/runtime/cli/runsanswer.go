package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) runsInterruptsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "interrupts [RUN]",
		Short: "list the questions that a run puts to people, or those of all runs",
		Long: "interrupts prints the open questions of a run, or of all: the node that asks, the question, the schema of the\n" +
			"answer, and the deadline with what happens then.",
		Example: "  ferment runs interrupts\n  ferment runs interrupts last\n  ferment runs interrupts last --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.orderRuns(cmd.Context(), actionOf("runs-interrupts"), func(v edn.Value, _ bool) error {
					_, err := io.WriteString(c.env.Stdout, display.Shown(c.env.Stdout, allInterruptsText(v.Key("interrupts"))))
					return err
				})
			}
			return c.onRuns(cmd.Context(), false, func(d runsDesk) error {
				v, err := d.do(cmd.Context(), actionOf("runs-show", edn.K("run"), edn.Text(args[0]), edn.K("brief?"), edn.Bool(true)))
				if err != nil {
					return err
				}
				run, open := v.Key("run").Key("run"), v.Key("interrupts")
				if open.IsNil() {
					open = edn.Vector()
				}
				if c.format != formatText {
					return c.value(c.env.Stdout, edn.MustMap(edn.K("run"), run, edn.K("interrupts"), open))
				}
				text := "no open questions\n"
				if open.Len() > 0 {
					text = interruptsText(open, plain(run), plain(v.Key("run").Key("status")) == "suspended")
				}
				_, err = io.WriteString(c.env.Stdout, display.Shown(c.env.Stdout, text))
				return err
			})
		},
	}
}

// allInterruptsText returns the open questions of several runs. Those of one run are adjacent in
// open.
func allInterruptsText(open edn.Value) string {
	var b strings.Builder
	for open := slices.Collect(open.Elems()); len(open) > 0; {
		run, n := open[0].Key("run"), 1
		for n < len(open) && open[n].Key("run").Equal(run) {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s\n%s", plain(run), plain(open[0].Key("intent")), interruptsText(edn.Vector(open[:n]...), plain(run), false))
		open = open[n:]
	}
	if b.Len() == 0 {
		return "no open questions\n"
	}
	return b.String()
}

// interruptsText returns the open questions of a run, and how to answer them. A suspended run takes
// no answer before it is resumed.
func interruptsText(open edn.Value, run string, suspended bool) string {
	var b strings.Builder
	b.WriteString("it asks people:\n")
	for i := range open.Elems() {
		fmt.Fprintf(&b, "  %s: node %s asks :%s, since %s ago\n    question %s\n    answer   :%s\n", plain(i.Key("interrupt")),
			plain(i.Key("node")), plain(i.Key("cap/id")), since(i.Key("opened-at")), i.Key("question"), plain(i.Key("schema")))
		if at := i.Key("run/deadline-at"); !at.IsNil() {
			fmt.Fprintf(&b, "    deadline %s, that of the run, which then expires\n", stamp(at))
		} else if then := plain(i.Key("on-deadline")); then != "" {
			if v := i.Key("default"); !v.IsNil() {
				then += " " + v.String()
			}
			fmt.Fprintf(&b, "    deadline %s, then %s\n", stamp(i.Key("deadline-at")), then)
		}
	}
	first, _ := open.Nth(0)
	if suspended {
		fmt.Fprintf(&b, "\nit is suspended; to continue it, before an answer:\n  ferment runs resume %s\n", run)
	}
	b.WriteString("\nto answer")
	if host := hostOf(open); !host.IsNil() {
		fmt.Fprintf(&b, ", on the host with the id %s in the file HOST of its data directory", plain(host))
	}
	fmt.Fprintf(&b, ":\n  ferment runs answer %s %s '{...}'\n", run, plain(first.Key("interrupt")))
	return b.String()
}

// hostOf returns the other host that executes the run of open questions, nil if there is none.
func hostOf(open edn.Value) edn.Value {
	first, _ := open.Nth(0)
	return first.Key("host")
}

func (c *command) runsAnswerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "answer RUN [INTERRUPT] ANSWER",
		Short: "answer a question that a run puts to people",
		Long: "answer gives a run the answer of a person, as EDN. INTERRUPT is the id of the question or of the node that\n" +
			"asks; it is not needed for the only question. The answer is checked against the schema of the question and\n" +
			"taken once.",
		Example: "  ferment runs answer last '{:approved true}'\n  ferment runs answer last 0-1-1 '{:approved true}'",
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := args[len(args)-1]
			answer, err := edn.ReadString(given)
			if err != nil {
				return usagef("ANSWER %s: expected a value in EDN, such as {:approved true}", given)
			}
			action := actionOf("runs-answer", edn.K("run"), edn.Text(args[0]), edn.K("answer"), answer)
			if len(args) == 3 {
				action = action.AssocKey("interrupt", edn.Text(args[1]))
			}
			v, err := c.order(cmd.Context(), action)
			if err != nil {
				return err
			}
			return c.done(v, plain(v.Key("run"))+": "+plain(v.Key("interrupt"))+" is answered")
		},
	}
}
