package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/chat"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/workspace"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// chatIntent is the intent of the models of a chat.
const chatIntent = "model/chat"

func (c *command) chatCommand() *cobra.Command {
	var f callFlags
	var s chat.Settings
	cmd := &cobra.Command{
		Use:   "chat [NAME]",
		Short: "talk with a language model or an agent",
		Long: "chat goes on with the conversation NAME, or begins it; without a name it begins a new one. The daemon of the\n" +
			"data directory keeps conversations; without one the conversation ends with the program. Text that is retracted\n" +
			"after it was shown is struck out and is no part of the conversation. /help lists the commands.\n" +
			"Without a terminal each line of standard input is a message or a command, \\ at its end continues it, and\n" +
			"standard output has the answers; the first line that fails ends the program.",
		Example: "  ferment chat\n  ferment chat holiday --model llm/voice\n" +
			"  ferment chat puzzles --agent agent/assistant\n" +
			"  ferment chat hello < questions.txt",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				s.Conversation = args[0]
			}
			return c.chat(cmd.Context(), s, &f)
		},
	}
	cmd.Flags().StringVar(&s.Model, "model", "", "capability of the model; without it, the first candidate of model/chat that works")
	cmd.Flags().StringVar(&s.Agent, "agent", "", "capability of an agent that answers, or agent/run")
	cmd.Flags().StringVar(&s.System, "system", "", "instructions for the model, ahead of the conversation")
	f.registerRequest(cmd)
	localFlag(cmd, &f.local)
	c.registerLockfile(cmd)
	return cmd
}

func (c *command) chat(ctx context.Context, s chat.Settings, f *callFlags) error {
	for _, name := range []*string{&s.Model, &s.Agent} {
		*name = strings.TrimPrefix(*name, ":")
		if _, err := edn.Keyword(*name); *name != "" && err != nil {
			return usagef("%q is not a capability: expected NS/NAME, such as llm/voice", *name)
		}
	}
	var err error
	if s.Models, err = c.chatModels(ctx, f.local, s); err != nil {
		return err
	}
	target := edn.MustMap(edn.K("text"), edn.Text(""))
	caller, err := c.openIntent(ctx, envelope(reachedBy(s), target), workspace.Opening{Local: f.local, Quiet: true})
	if err != nil {
		return err
	}
	defer caller.Close()
	_, here := caller.(*intentHere)
	s.Temporary = here || !c.configured(ctx).Store.Lasts()
	s.Apply, s.WriteFile = f.apply, c.createFile
	return c.talk(ctx, chat.New(caller, s))
}

// reachedBy returns the intent whose plugins a chat in this process needs.
func reachedBy(s chat.Settings) string {
	if s.Agent != "" {
		return "agent/run"
	}
	return chatIntent
}

// talk executes a talk, on the terminal if there is one.
func (c *command) talk(ctx context.Context, t *chat.Talk) error {
	term, _ := c.env.Getenv("TERM")
	both := display.Terminal(c.env.Stdin) && display.Terminal(c.env.Stdout)
	if both && c.format == formatText && term != "dumb" && term != "" {
		_, plain := c.env.Getenv("NO_COLOR")
		return chat.Run(ctx, t, chat.Terminal{
			In: c.env.Stdin, Out: c.env.Stdout, Env: os.Environ(), Color: !plain,
		})
	}
	streams := chat.Streams{In: c.env.Stdin, Out: c.env.Stdout, Live: display.Terminal(c.env.Stdout), Problem: c.problem}
	if both {
		streams.Prompt, streams.Interrupted = "> ", c.interrupts.instead
	}
	if c.format != formatText {
		streams.Value = func(a chat.Answer) error { return c.value(c.env.Stdout, a.Value) }
	}
	return chat.Lines(ctx, t, streams)
}

// createFile creates a file that was named in a chat. An existing file is an error.
func (c *command) createFile(name string, content []byte) error {
	err := writeNew(c.path(name), content)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return contract.Errorf("admin/conflict", "the file %s already exists", name).WithHint("choose another name")
	}
	return contract.Errorf("invalid-request", "write %s: %s", name, cause(err)).
		WithHint(environmentHint(&fileError{err: err, written: true}))
}

func writeNew(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// chatModels returns the capabilities that serve the models of a chat. If there are none, the error
// names what is missing, and intents that need no model.
func (c *command) chatModels(ctx context.Context, local bool, s chat.Settings) ([]string, error) {
	v, err := c.explained(ctx, local, true, chatIntent, "")
	var absent *contract.Error
	if errors.As(err, &absent) && absent.Type == "not-found" {
		v, err = edn.Nil(), nil // the configuration does not have the intent
	}
	if err != nil {
		return nil, err
	}
	var models []string
	for m := range v.Key("candidates").Elems() {
		models = append(models, plain(m.Key("cap/id")))
	}
	if s.Model != "" && !slices.Contains(models, s.Model) {
		models = append(models, s.Model) // the host knows whether it can be called
	}
	if len(models) > 0 {
		return models, nil
	}
	e := contract.Errorf("unsupported/intent", "no model serves :%s", chatIntent)
	hint := "configure a plugin for it: host/docs/conversations.md has an example"
	for r := range v.Key("rejected").Elems() {
		e = contract.Errorf("unsupported/intent", "no model serves :%s: %s", chatIntent,
			cmp.Or(plain(r.Key("message")), plain(r.Key("cap/id"))+" is "+plain(r.Key("reason"))))
		hint = cmp.Or(plain(r.Key("hint")), hint)
		break
	}
	return nil, e.WithHint(hint + c.withoutModel(ctx))
}

// samples are inputs of example commands, by the schema of the intent. A schema can accept several keys;
// a sample has the one that the shipped prompts and capabilities read.
var samples = map[string]edn.Value{
	"req/text":    edn.MustMap(edn.K("prompt"), edn.Text("A text of your own.")),
	"req/context": edn.MustMap(edn.K("text"), edn.Text("A text of your own.")),
}

// withoutModel returns text about intents that need no model, with a command that calls one.
func (c *command) withoutModel(ctx context.Context) string {
	loaded, err := c.load(ctx, c.options())
	if err != nil {
		return ""
	}
	var found []string
	reg := loaded.Generation.Registry
	for _, id := range reg.Intents() {
		in, _ := reg.Intent(id)
		embedded := func(capability string) bool {
			served, known := reg.Capability(capability)
			return known && (served.Kind == "solver" || served.Kind == "tool") &&
				!slices.ContainsFunc(served.Effects, func(effect string) bool { return effect != "none" })
		}
		if in != nil && !in.Host && slices.ContainsFunc(reg.Candidates(id), embedded) {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		return ""
	}
	next := []string{"ferment", "explain", found[0]}
	for _, id := range found {
		if sample, ok := samples[reg.InSchema(id, "")]; ok {
			next = []string{"ferment", "act", id, sample.String()}
			break
		}
	}
	if c.config != "" {
		next = append(next, "--config", c.config)
	}
	if c.profile != "" {
		next = append(next, "--profile", c.profile)
	}
	return fmt.Sprintf("; without a model these intents answer: %s. Try: %s", strings.Join(found, ", "), launch.ShellLine(next...))
}
