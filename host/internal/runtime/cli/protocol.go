package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) protocolCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "protocol",
		Short: "export or compare the protocol package: intents, schemas, prompts and rules"}
	cmd.AddCommand(c.protocolExportCommand(), c.protocolDiffCommand())
	return cmd
}

func (c *command) protocolExportCommand() *cobra.Command {
	var local bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "print the protocol package",
		Long: "export prints intents, schemas, prompts, policies, routing and the catalogue of errors as one value with a hash.\n" +
			"If a daemon runs, it is the package of new acts, else that of the configuration. It contains no positions and\n" +
			"no times: equal configurations give equal packages.",
		Example: "  ferment protocol export > now.edn\n  ferment protocol export --local --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := c.protocol(cmd.Context(), local)
			if err != nil {
				return err
			}
			return c.value(c.env.Stdout, v)
		},
	}
	localFlag(cmd, &local)
	return cmd
}

// protocol returns the package of the daemon, or of the configuration if none runs.
func (c *command) protocol(ctx context.Context, local bool) (edn.Value, error) {
	v, done, err := c.ask(ctx, local, actionOf("protocol-export"))
	if done {
		return v, err
	}
	return c.ownProtocol(ctx)
}

func (c *command) ownProtocol(ctx context.Context) (edn.Value, error) {
	loaded, err := c.load(ctx, c.options())
	if err != nil {
		return edn.Nil(), err
	}
	return loaded.Protocol(), nil
}

func (c *command) protocolDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff [FILE]",
		Short: "compare the protocol package with another one",
		Long: "diff compares the protocol package of the configuration with the one that was exported to FILE. Without FILE it\n" +
			"compares it with that of the daemon of this data directory. It lists additions, removals and changes. Exit\n" +
			"codes: 0 no difference, 1 differences.",
		Example: "  ferment protocol diff protocol.edn\n  ferment protocol diff protocol.edn --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var before edn.Value
			var err error
			if len(args) == 1 {
				before, err = c.readProtocol(args[0])
				if e := contract.AsError(err); e != nil && e.Type == "protocol/invalid" {
					c.problem(e)
					return quietError{exit.Usage} // 1 means that something differs
				}
			} else {
				before, err = c.order(cmd.Context(), actionOf("protocol-export"))
			}
			if err != nil {
				return err
			}
			after, err := c.ownProtocol(cmd.Context())
			if err != nil {
				return err
			}
			return c.protocolDiff(before, after)
		},
	}
	return cmd
}

// readProtocol reads a package that was exported as EDN.
func (c *command) readProtocol(name string) (edn.Value, error) {
	v, err := c.readValue(name)
	if err != nil {
		return edn.Nil(), err
	}
	return v, setup.CheckProtocol(name, v)
}

func (c *command) protocolDiff(before, after edn.Value) error {
	rows := setup.ProtocolChanges(before, after)
	differs := len(rows) > 0
	if c.format != formatText {
		if err := c.value(c.env.Stdout, edn.MustMap(
			edn.K("was"), before.Key("hash"), edn.K("hash"), after.Key("hash"), edn.K("differs?"), edn.Bool(differs),
			edn.K("changes"), edn.Vector(rows...))); err != nil {
			return err
		}
	} else if _, err := fmt.Fprint(c.env.Stdout, protocolDiffText(rows)); err != nil {
		return err
	}
	if differs {
		return quietError{exit.Negative}
	}
	return nil
}

// longestShown is the maximum length of a printed value, in code points.
const longestShown = 300

func protocolDiffText(rows []edn.Value) string {
	if len(rows) == 0 {
		return "nothing differs\n"
	}
	var b strings.Builder
	for _, r := range rows {
		var path []string
		for p := range r.Key("path").Elems() {
			path = append(path, strings.TrimPrefix(p.String(), ":"))
		}
		fmt.Fprintf(&b, "%s  %s\n", plain(r.Key("change")), strings.Join(path, " > "))
		if !r.Key("before").IsNil() {
			fmt.Fprintf(&b, "  - %s\n", cutTo(r.Key("before").String(), longestShown))
		}
		if !r.Key("after").IsNil() {
			fmt.Fprintf(&b, "  + %s\n", cutTo(r.Key("after").String(), longestShown))
		}
	}
	fmt.Fprintf(&b, "%s\n", diag.Counted(len(rows), "difference"))
	return b.String()
}
