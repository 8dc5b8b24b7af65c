package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) promptCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "prompt", Short: "show the prompts of language models"}
	cmd.AddCommand(c.promptShowCommand())
	return cmd
}

func (c *command) promptShowCommand() *cobra.Command {
	var role, capability string
	var all bool
	cmd := &cobra.Command{
		Use:   "show INTENT [EDN-INPUT] | show --all",
		Short: "print the prompt of a language model",
		Long: "show composes the prompt of an intent as for a call: its layers, each with its place in the configuration and its\n" +
			"hash, and the resulting system prompt. With an input it prints the\n" +
			"messages too. The role is that of a call, or that of --role; --all prints every intent that has a\n" +
			"role under every role. No model is called.",
		Example: "  ferment prompt show text/respond\n  ferment prompt show text/respond '{:prompt \"What is ACID?\"}' --role solver\n  ferment prompt show --all --edn",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && (len(args) > 0 || role != "" || capability != ""):
				return usagef("--all takes no intent, no role and no capability")
			case all:
				return c.promptShowAll(cmd.Context())
			case len(args) == 0:
				return usagef("prompt show takes an intent, such as text/respond, or --all")
			}
			q := setup.PromptQuestion{Intent: strings.TrimPrefix(args[0], ":"), Role: strings.TrimPrefix(role, ":"),
				Capability: strings.TrimPrefix(capability, ":")}
			for _, name := range []string{q.Intent, q.Role, q.Capability} {
				if _, err := edn.Keyword(name); name != "" && err != nil {
					return usagef("%q is not an intent: expected NS/NAME, such as text/respond", name)
				}
			}
			if len(args) > 1 {
				v, err := edn.ReadString(args[1], edn.WithLimits(edn.Body))
				if err != nil {
					return usagef("the input is not EDN: %w", err)
				}
				if !v.IsMap() {
					return usagef("the input is a map, such as '{:prompt \"What is ACID?\"}'")
				}
				q.Input = v
			}
			return c.promptShow(cmd.Context(), q)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "compose as if the request named this role")
	cmd.Flags().BoolVar(&all, "all", false, "print the prompts of every intent that has a role, under every role")
	cmd.Flags().StringVar(&capability, "capability", "", "compose as if this capability served the intent")
	return cmd
}

func (c *command) promptShow(ctx context.Context, q setup.PromptQuestion) error {
	loaded, err := c.load(ctx, c.options())
	if err != nil {
		return err
	}
	v, err := loaded.Prompt(q)
	switch {
	case err != nil:
		return err
	case c.format != formatText:
		return c.value(c.env.Stdout, v)
	}
	_, err = fmt.Fprint(c.env.Stdout, promptText(v))
	return err
}

// promptShowAll prints all prompts that the configuration can compose.
func (c *command) promptShowAll(ctx context.Context) error {
	loaded, err := c.load(ctx, c.options())
	if err != nil {
		return err
	}
	list, err := loaded.Prompts()
	switch {
	case err != nil:
		return err
	case c.format != formatText:
		return c.value(c.env.Stdout, edn.Vector(list...))
	}
	for i, v := range list {
		if i > 0 {
			_, _ = fmt.Fprintln(c.env.Stdout)
		}
		if _, err := fmt.Fprint(c.env.Stdout, promptText(v)); err != nil {
			return err
		}
	}
	return nil
}

// promptText formats a composed prompt for people.
func promptText(v edn.Value) string {
	var b strings.Builder
	fmt.Fprintf(&b, ":%s  role %s (%s)", plain(v.Key("intent")), plain(v.Key("role")), plain(v.Key("role/rule")))
	if v.HasKey("cap/id") {
		fmt.Fprintf(&b, "  for :%s", plain(v.Key("cap/id")))
	}
	b.WriteByte('\n')
	if !v.Key("composed?").Truthy() {
		b.WriteString("no prompt is composed: only calls of language models have one, and the input of a conversation " +
			"already has its messages\n")
		return b.String()
	}
	fmt.Fprintf(&b, "hash %s\n\nlayers\n", plain(v.Key("hash")))
	for l := range v.Key("layers").Elems() {
		fmt.Fprintf(&b, "  %s  (%s, %s)\n", plain(l.Key("name")), plain(l.Key("where")), plain(l.Key("hash"))[:11])
	}
	if v.Key("layers").Len() == 0 {
		b.WriteString("  none\n")
	}
	b.WriteString("\nsystem\n" + indented(plain(v.Key("system"))))
	for m := range v.Key("messages").Elems() {
		fmt.Fprintf(&b, "\n%s\n%s", plain(m.Key("role")), indented(plain(m.Key("content"))))
	}
	if out := v.Key("output"); !out.IsNil() {
		fmt.Fprintf(&b, "\noutput :%s\n  %s\n", plain(out.Key("name")), out.Key("schema"))
	}
	return b.String()
}

// indented indents a text by two columns.
func indented(text string) string {
	if text == "" {
		return "  (none)\n"
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			b.WriteString("  ")
		}
		b.WriteString(line)
	}
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}
