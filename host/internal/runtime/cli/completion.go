package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// completionTime is the time limit of a completion (CLI-006), without the start of the process.
const completionTime = 150 * time.Millisecond

// shells lists the supported shells.
var shells = []string{"bash", "zsh", "fish"}

func (c *command) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash | zsh | fish",
		Short: "print a script that completes commands in a shell",
		Long: "completion prints a script with which a shell completes commands, flags and the names of the\n" +
			"configuration: intents, capabilities, plugins. It never starts a plugin and ignores errors. Install the\n" +
			"script for bash, which needs the package bash-completion, as\n" +
			"~/.local/share/bash-completion/completions/ferment; for zsh as _ferment in a directory of fpath; for\n" +
			"fish as ~/.config/fish/completions/ferment.fish.",
		Example:               "  ferment completion bash > ferment.bash\n  ferment completion zsh > _ferment\n  ferment completion fish > ferment.fish",
		Args:                  cobra.ExactArgs(1),
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := map[string]func(io.Writer) error{
				"bash": func(w io.Writer) error { return cmd.Root().GenBashCompletionV2(w, true) },
				"zsh":  cmd.Root().GenZshCompletion,
				"fish": func(w io.Writer) error { return cmd.Root().GenFishCompletion(w, true) },
			}[args[0]]
			if !ok {
				return usagef("unknown shell %q: expected %s", args[0], strings.Join(shells, ", "))
			}
			if err := write(c.env.Stdout); err != nil {
				return fmt.Errorf("write the script: %w", err)
			}
			return nil
		},
	}
}

// names returns the candidates for a prefix.
type names func(prefix string) []string

// completions registers the completions of commands and flags.
func (c *command) completions(root *cobra.Command) {
	intents := c.named(func(n setup.Names) []string { return append(n.HostIntents, n.Intents...) })
	capabilities := c.named(func(n setup.Names) []string { return n.Capabilities })
	plugins := c.named(func(n setup.Names) []string { return n.Plugins })
	for verb, offer := range map[string]names{
		"act": intents, "plugin inspect": plugins, "plugin approve": plugins, "config docs": fixed(append(view.BlockPaths(), "limits")),
		"admin plugin restart": plugins, "admin plugin swap": plugins, "admin plugin quarantine": plugins, "admin plugin logs": plugins,
		"plugin restart": plugins, "plugin swap": plugins, "plugin quarantine": plugins, "plugin logs": plugins,
	} {
		cmd, rest, err := root.Find(strings.Fields(verb))
		if err != nil || len(rest) > 0 || cmd.ValidArgsFunction != nil {
			continue // not part of this build
		}
		cmd.ValidArgsFunction = offer.first()
	}
	for _, verb := range []string{"show", "records", "verify", "replay", "export", "pin", "unpin", "purge", "cancel", "resume", "watch"} {
		if cmd, rest, err := root.Find([]string{"runs", verb}); err == nil && len(rest) == 0 {
			cmd.ValidArgsFunction = names(c.knownRuns).first()
		}
	}
	if cmd, rest, err := root.Find([]string{"runs", "diff"}); err == nil && len(rest) == 0 {
		cmd.ValidArgsFunction = names(c.knownRuns).always()
	}
	users, sessions := names(c.knownUsers), names(c.knownSessions)
	for group, byWord := range map[string]map[string]names{ // by the word for the first argument
		"user": {"NAME": users}, "role": {"USER": users}, "token": {"USER": users}, "session": {"ID": sessions, "[ID]": sessions},
	} {
		cmd, _, _ := root.Find([]string{group})
		for _, sub := range cmd.Commands() {
			if words := strings.Fields(sub.Use); len(words) > 1 && byWord[words[1]] != nil && sub.Name() != "add" {
				sub.ValidArgsFunction = byWord[words[1]].first()
			}
		}
	}
	if cmd, rest, err := root.Find([]string{"explain"}); err == nil && len(rest) == 0 {
		cmd.ValidArgsFunction = c.completeExplain(intents)
	}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for flag, offer := range map[string]names{"capability": capabilities, "plugin": plugins,
			"profile": fixed(language.Profiles()), "output": fixed([]string{"text", "json", "edn"}),
			"only": c.named(blockNames), "status": fixed(runStatuses), "intent": intents} {
			if cmd.LocalFlags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, offer.always()) // fails if it is already registered
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// completeExplain completes intents, and error types after the word error.
func (c *command) completeExplain(intents names) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return offered(append(intents(prefix), "error"), prefix), cobra.ShellCompDirectiveNoFileComp
		case len(args) == 1 && args[0] == "error":
			var types []string
			for _, row := range contract.Rows() {
				types = append(types, row.Type)
			}
			return offered(types, prefix), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// named returns a completion of names in the configuration.
func (c *command) named(which func(setup.Names) []string) names {
	return func(string) []string {
		return which(setup.KnownNames(c.ctx, c.options(), completionTime))
	}
}

// knownRuns returns the ids of the newest runs of the daemon.
func (c *command) knownRuns(string) []string {
	return append(c.answered("runs", "run", (*client.Client).Admin, actionOf("runs-list", edn.K("limit"), edn.Int(50))), "last")
}

// knownUsers returns the logins of the users of the daemon.
func (c *command) knownUsers(string) []string {
	return c.answered("users", "login", (*client.Client).Admin, actionOf("list-users"))
}

// knownSessions returns the ids of sessions of the daemon.
func (c *command) knownSessions(string) []string {
	return c.answered("sessions", "session/id", (*client.Client).Session, actionOf("list"))
}

// answered returns a key of each row of a list of the daemon; nil if no daemon runs or it does not
// answer in time.
func (c *command) answered(
	list, key string, ask func(*client.Client, context.Context, edn.Value) (edn.Value, error), action edn.Value,
) (out []string) {
	ctx, cancel := context.WithTimeout(c.ctx, completionTime)
	defer cancel()
	there, err := c.reach(ctx)
	if err != nil || there == nil {
		return nil
	}
	answer, _ := ask(there, ctx, action) // nil if there is no response
	for row := range answer.Key(list).Elems() {
		out = append(out, plain(row.Key(key)))
	}
	return out
}

// blockNames returns the blocks that config show can print alone.
func blockNames(n setup.Names) []string {
	out := []string{"ferment"}
	for block, labels := range map[string][]string{"plugin": n.Plugins, "intent": n.Intents,
		"capability": n.Capabilities} {
		for _, label := range labels {
			out = append(out, block+"."+label)
		}
	}
	return out
}

func fixed(all []string) names { return func(string) []string { return all } }

// first completes only the first argument.
func (n names) first() cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return offered(n(prefix), prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// always completes at every position.
func (n names) always() cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return offered(n(prefix), prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// offered returns the names with a prefix. An id may be written as a keyword.
func offered(all []string, prefix string) []string {
	colon := ""
	if rest, ok := strings.CutPrefix(prefix, ":"); ok {
		colon, prefix = ":", rest
	}
	var out []string
	for _, name := range all {
		if strings.HasPrefix(name, prefix) {
			out = append(out, colon+name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
