package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) dispatchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dispatch",
		Short: "show what is known of the candidates, and reset their breakers",
	}
	cmd.AddCommand(c.dispatchStatsCommand(), c.dispatchResetCommand())
	return cmd
}

func (c *command) dispatchResetCommand() *cobra.Command {
	var intent string
	cmd := &cobra.Command{
		Use:   "reset CAPABILITY",
		Short: "close the breakers of a capability",
		Long: "reset closes the breakers of a capability of the daemon and forgets the failures that they count, once their cause is\n" +
			"gone. A breaker counts for one intent. A plugin in quarantine is released with \"ferment plugin release\".",
		Example: "  ferment dispatch reset chess/engine\n  ferment dispatch reset chess/engine --intent chess/best-move",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("breaker-reset")
			for key, name := range map[string]string{"capability": args[0], "intent": intent} {
				if name == "" && key == "intent" {
					continue
				}
				v, err := edn.Keyword(strings.TrimPrefix(name, ":"))
				if err != nil {
					return usagef("%s %q: expected a name", key, name)
				}
				action = action.AssocKey(key, v)
			}
			result, err := c.order(cmd.Context(), action)
			if err != nil {
				return err
			}
			if c.format != formatText {
				return c.value(c.env.Stdout, result)
			}
			return c.resetText(result.Key("candidates"))
		},
	}
	cmd.Flags().StringVar(&intent, "intent", "", "only the breaker of this intent")
	return cmd
}

// resetText prints which breakers are closed now.
func (c *command) resetText(candidates edn.Value) error {
	if candidates.Len() == 0 {
		_, err := io.WriteString(c.env.Stdout, "the capability was not called yet, so it has no breaker to reset\n")
		return err
	}
	for s := range candidates.Elems() {
		if _, err := fmt.Fprintf(c.env.Stdout, "%s %s: the breaker is closed\n", s.Key("cap/id"), s.Key("intent")); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) dispatchStatsCommand() *cobra.Command {
	var intent, since string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "show how often each candidate passes its gates, learned and estimated",
		Long: "stats shows the candidates of each intent whose policy is learned. Outcomes are all that were counted. The pass\n" +
			"rate is the current estimate with its 95 % interval; older outcomes count less. The other estimates say how often\n" +
			"a candidate would have passed if it had been the first in all decisions of the period. They are computed from the\n" +
			"recorded probability of each choice: inverse has no bias before it is cut to 0 to 1, normalised varies less.\n" +
			"They use only decisions that were made at random and whose first candidate was accepted or refused.",
		Example: "  ferment dispatch stats\n  ferment dispatch stats --since 7d --json\n  ferment dispatch stats --intent text/respond",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			action, err := statsAction("dispatch-stats", intent, since)
			if err != nil {
				return err
			}
			return c.onRuns(cmd.Context(), false, func(d runsDesk) error {
				if !d.there { // priors and half-lives are in the configuration
					if loaded, err := c.load(cmd.Context(), c.options()); err == nil {
						d.under(loaded)
					}
				}
				v, err := d.do(cmd.Context(), action)
				if err != nil {
					return err
				}
				if c.format != formatText {
					return c.value(c.env.Stdout, v)
				}
				return c.learnedText(v, action.Key("intent"))
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "24h", "decisions of runs accepted since then: a time such as 90m or 7d, or a date")
	cmd.Flags().StringVar(&intent, "intent", "", "only this intent")
	return cmd
}

// statsAction returns an action on the runs of a period and an intent.
func statsAction(name, intent, since string) (edn.Value, error) {
	at, err := sinceWhen(since, time.Now())
	if err != nil {
		return edn.Nil(), err
	}
	action := actionOf(name, edn.K("since"), edn.Inst(at))
	if intent == "" {
		return action, nil
	}
	v, err := edn.Keyword(strings.TrimPrefix(intent, ":"))
	if err != nil {
		return edn.Nil(), usagef("--intent %s: expected a name", intent)
	}
	return action.AssocKey("intent", v), nil
}

// learnedText prints what was learned for people, of an intent if it is not nil.
func (c *command) learnedText(v, intent edn.Value) error {
	groups := v.Key("groups")
	if groups.Len() == 0 {
		of := ""
		if !intent.IsNil() {
			of = " of " + intent.String()
		}
		_, err := fmt.Fprintf(c.env.Stdout, "nothing was learned: no act%s was dispatched with the policy learned\n", of)
		return err
	}
	first := true
	for g := range groups.Elems() {
		if !first {
			if _, err := io.WriteString(c.env.Stdout, "\n"); err != nil {
				return err
			}
		}
		first = false
		if err := c.learnedGroup(g, v.Key("since")); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) learnedGroup(g, since edn.Value) error {
	var b strings.Builder
	b.WriteString(plain(g.Key("intent")))
	if g.HasKey("bucket") {
		b.WriteString(", bucket " + plain(g.Key("bucket")))
	}
	b.WriteString(", since " + stamp(since) + "\n")
	if g.HasKey("unreadable") {
		b.WriteString(diag.WrapLabeled("  unreadable  ", plain(g.Key("unreadable"))) + "\n")
	}
	var made []string
	for _, d := range []struct{ key, says string }{
		{"drawn", "at random"}, {"by-mean", "by mean"}, {"declared", "in the declared order"}, {"unknown", "without an outcome"},
	} {
		if n := number(g.Key("decisions").Key(d.key)); n > 0 {
			made = append(made, fmt.Sprintf("%d %s", n, d.says))
		}
	}
	b.WriteString(diag.WrapLabeled("  decisions   ", dash(strings.Join(made, ", "))) + "\n")
	if _, err := io.WriteString(c.env.Stdout, b.String()); err != nil {
		return err
	}
	var believed, estimated [][]string
	for a := range g.Key("arms").Elems() {
		name, latency := plain(a.Key("cap/id"))+" v"+a.Key("major").String(), ""
		if a.HasKey("latency-ms") {
			latency = written(a.Key("latency-ms")) + "ms"
		}
		believed = append(believed, []string{name, a.Key("outcomes").String(), bounds(a.Key("rate")), dash(latency),
			dash(written(a.Key("cost-usd")))})
		if a.HasKey("decisions") {
			first := fmt.Sprintf("%d of %d", number(a.Key("first")), number(a.Key("decisions")))
			estimated = append(estimated, []string{name, first, dash(bounds(a.Key("inverse"))), dash(bounds(a.Key("normalised")))})
		}
	}
	if err := c.section([]string{"candidate", "outcomes", "pass rate", "latency", "usd"}, believed); err != nil {
		return err
	}
	return c.section([]string{"as the first", "was first", "inverse", "normalised"}, estimated)
}

// bounds returns a value with its bounds as text; empty for nil.
func bounds(v edn.Value) string {
	if v.IsNil() {
		return ""
	}
	return fmt.Sprintf("%s (%s to %s)", written(v.Key("value")), written(v.Key("low")), written(v.Key("high")))
}
