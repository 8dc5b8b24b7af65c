package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// probeIntent is the intent for probes of language models.
const probeIntent = "model/probe"

func (c *command) modelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "examine the models behind capabilities",
	}
	cmd.AddCommand(c.modelProbeCommand(), c.modelPricesCommand())
	return cmd
}

func (c *command) modelProbeCommand() *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "probe CAPABILITY",
		Short: "send five small requests to a model server and compare it with its declared quirks",
		Long: "probe requests from the server behind a capability a value, a stream, a value of a\n" +
			"schema, a tool call and an answer that is truncated at its limit, and prints where\n" +
			"it differs from the preset and the quirks block of its model, and the cost.\n" +
			"The plugin sends the requests, because only it has the key. A difference\n" +
			"gives exit 1.",
		Example: "  ferment model probe llm/voice\n  ferment model probe llm/voice --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := strings.TrimPrefix(args[0], ":")
			if k, err := edn.Keyword(id); err != nil || k.Namespace() == "" {
				return usagef("%q is not a capability: expected NS/NAME, such as llm/voice", args[0])
			}
			return c.perform(cmd.Context(), performance{
				request: probeRequest(id),
				flags:   &f,
				show:    c.printProbe,
				refused: notProbed(id),
			})
		},
	}
	f.progress = "none"
	spanFlag(cmd.Flags(), &f.deadline, "deadline", 0, "time limit of all requests, such as 30s")
	localFlag(cmd, &f.local)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("deadline") && f.deadline <= 0 {
			return usagef("--deadline %s: expected a time above zero, such as 30s", f.deadline)
		}
		return nil
	}
	c.registerAttach(cmd)
	c.registerLockfile(cmd)
	return cmd
}

// probeRequest returns a request that calls one capability once, without fallback, because the
// result is about this server, and a retry would have further cost.
func probeRequest(id string) edn.Value {
	plan := edn.MustMap(edn.K("id"), edn.Text("probe"), edn.K("nodes"), edn.Vector(
		edn.MustMap(edn.K("op"), edn.K("call"), edn.K("id"), edn.Text("probe"), edn.K("cap/id"), edn.K(id),
			edn.K("intent"), edn.K(probeIntent),
			edn.K("input"), edn.MustMap(),
			edn.K("dispatch"), edn.MustRead(`{:retry {:same-cap-max 0 :fallback-max 0}}`), edn.K("as"),
			edn.K("probe")),
		edn.MustMap(edn.K("op"), edn.K("emit"), edn.K("input"), edn.K("probe"))))
	return envelope(act.PlanIntent, edn.MustMap(edn.K("plan"), plan))
}

// notProbed returns an error about the capability that cannot be probed, instead of findings about
// a plan that the caller did not write.
func notProbed(id string) func(*contract.Error) *contract.Error {
	return func(e *contract.Error) *contract.Error {
		if e.Type != "plan/invalid" {
			return e
		}
		for f := range e.Details.Key("findings").Elems() {
			message, _ := f.Key("message").AsString()
			if strings.HasPrefix(message, "unknown capability") {
				return contract.Errorf("not-found", "there is no capability :%s", id).
					WithHint("\"ferment plugin list\" shows the capabilities")
			}
		}
		return contract.Errorf("unsupported/intent", ":%s is not a model with a server: its plugin does not serve :%s",
			id, probeIntent).
			WithHint("name a capability of a plugin such as llm or mlx")
	}
}

// printProbe prints the result of a probe.
func (c *command) printProbe(response edn.Value) error {
	out := response.Key("result").Key("out")
	if c.format == formatText {
		if err := probeText(c.env.Stdout, out, response.Key("usage")); err != nil {
			return err
		}
	} else {
		shown := out
		if usage := response.Key("usage"); usage.IsMap() {
			shown = out.AssocKey("usage", usage)
		}
		if err := c.value(c.env.Stdout, shown); err != nil {
			return err
		}
	}
	if !out.Key("agrees?").Truthy() {
		return quietError{exit.Negative}
	}
	return nil
}

func probeText(w io.Writer, out, usage edn.Value) error {
	var rows [][]string
	for k := range out.Key("checks").Elems() {
		state := "ok"
		if !k.Key("ok?").Truthy() {
			state = "differs"
			if k.Key("found").Len() == 0 {
				state = "failed"
			}
		}
		var seen []string
		for name, v := range k.Key("found").Entries() {
			seen = append(seen, plain(name)+" "+plain(v))
		}
		if e := k.Key("error"); !e.IsNil() {
			seen = append(seen, plain(e.Key("type"))+": "+plain(e.Key("message")))
		}
		rows = append(rows, []string{plain(k.Key("check")), state, strings.Join(seen, ", ")})
	}
	if err := display.Table(w, []string{"request", "state", "what was seen"}, rows); err != nil {
		return err
	}
	served := plain(out.Key("model"))
	if s := out.Key("model/served"); !s.IsNil() && plain(s) != served {
		served += " (served by " + plain(s) + ")"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nmodel %s, preset %s\n", served, plain(out.Key("preset")))
	for d := range out.Key("differences").Elems() {
		fmt.Fprintf(&b, "  quirk %s: declared %s, found %s\n", strings.ReplaceAll(plain(d.Key("quirk")), "-", "_"),
			plain(d.Key("declared")), plain(d.Key("found")))
	}
	if out.Key("agrees?").Truthy() {
		b.WriteString("  nothing differs from what is declared\n")
	}
	if count := out.Key("count"); !count.IsNil() {
		fmt.Fprintf(&b, "count %s\n", probeCount(count))
	}
	fmt.Fprintf(&b, "cost %s\n", probeCost(usage))
	_, err := io.WriteString(w, b.String())
	return err
}

// probeCount returns how tokens are counted before a call, and how exactly.
func probeCount(count edn.Value) string {
	ways := map[string]string{"endpoint": "the server", "local": "the table of the model", "estimate": "length"}
	way := plain(count.Key("tokens/counted-by"))
	if known := ways[strings.TrimPrefix(way, ":")]; known != "" {
		way = known
	}
	text := plain(count.Key("tokens-in")) + " tokens in the first request by " + way
	if stated := count.Key("stated"); !stated.IsNil() {
		text += ", the server stated " + plain(stated)
	}
	return text
}

func probeCost(usage edn.Value) string {
	text := plain(usage.Key("tokens-in")) + " tokens in, " + plain(usage.Key("tokens-out")) + " out"
	if cost := usage.Key("cost-usd"); !cost.IsNil() {
		return text + ", " + plain(cost) + " USD (" + plain(usage.Key("cost-mark")) + ")"
	}
	return text + ", price not known"
}
