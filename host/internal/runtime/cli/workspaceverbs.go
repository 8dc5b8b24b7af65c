package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/workspace"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// workspaceCommands returns the groups workspace and context.
func (c *command) workspaceCommands() []*cobra.Command {
	return workspace.Commands(&workspace.Shell{
		Dir:       c.env.Dir,
		Getenv:    c.env.Getenv,
		Stdin:     c.env.Stdin,
		Stdout:    c.env.Stdout,
		Stderr:    c.env.Stderr,
		Format:    func() string { return c.format.String() },
		Verbose:   func() bool { return c.verbose },
		Forms:     c.moreForms,
		ReadFile:  c.readFile,
		OpenFile:  c.openFile,
		WriteFile: c.writeOut,
		Confirm:   func(what string) error { return c.confirm(what, "--yes") },
		Open:      c.openIntent,
		Usage:     func(err error) error { return usageError{err: err} },
		Problem:   c.problem,
		Quiet:     func(code int) error { return quietError{code} },
	})
}

// moreForms gives a command output formats of its own beside the usual ones.
func (c *command) moreForms(cmd *cobra.Command, more ...string) func() string {
	f := &extraForm{asked: c.forms, more: more}
	all := append([]string{"text", "json", "edn"}, more...)
	last := len(all) - 1
	cmd.Flags().VarP(f, "output", "o", "output format: "+strings.Join(all[:last], ", ")+" or "+all[last])
	_ = cmd.RegisterFlagCompletionFunc("output", fixed(all).always()) // fails only for an unknown flag
	return func() string { return f.chosen }
}

// extraForm is the flag --output of a command with its own formats.
type extraForm struct {
	*asked
	more   []string
	chosen string
}

// String implements pflag.Value.
func (f *extraForm) String() string { return "text" }

// Set implements pflag.Value.
func (f *extraForm) Set(s string) error {
	if slices.Contains(f.more, s) {
		f.chosen = s
		return nil
	}
	var is format
	if err := is.Set(s); err != nil {
		return fmt.Errorf("unknown output format %q: expected text, json, edn or %s", s, strings.Join(f.more, ", "))
	}
	f.chosen = ""
	f.ask(is)
	return nil
}

// Type implements pflag.Value; help texts show it.
func (f *extraForm) Type() string { return "form" }

// openIntent prepares calls of the intent of a request: in the daemon of the data directory,
// otherwise in plugins that are started for it.
func (c *command) openIntent(ctx context.Context, request edn.Value, o workspace.Opening) (workspace.Caller, error) {
	if !o.Local {
		there, err := c.reachOrEnd(ctx)
		if err != nil {
			return nil, err
		}
		if there != nil {
			return &intentThere{command: c, there: there}, nil
		}
	}
	mode := "auto"
	if o.Quiet {
		mode = "none"
	}
	w, err := c.newWatcher(mode)
	if err != nil {
		return nil, err
	}
	host, err := c.host(ctx, w, nil, func(loaded *setup.Loaded) map[string]bool {
		return loaded.Reach(act.Act{Request: request, Dir: c.env.Dir})
	})
	if err != nil {
		return nil, err
	}
	return &intentHere{command: c, host: host}, nil
}

// intentThere calls an intent in a daemon.
type intentThere struct {
	*command
	there *client.Client
}

// Call implements workspace.Caller. It waits for the response for at most cancelLimit after a
// cancellation, because only the response has the outcome of a canceled run.
func (t *intentThere) Call(ctx context.Context, request edn.Value, show func(edn.Value) error) (edn.Value, error) {
	if ctx.Err() != nil {
		return edn.Nil(), context.Cause(ctx)
	}
	open, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	accepted := make(chan string, 1)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(cancelLimit, func() { giveUp(unconfirmed()) })
		select {
		case run := <-accepted:
			_, _ = t.there.Cancel(open, run, "interrupt", 0)
		case <-open.Done():
		}
	})()
	accept := func(run string) {
		select {
		case accepted <- run:
		default: // the id is already known
		}
	}
	if show == nil {
		response, err := t.there.Act(open, request, client.Call{Dir: t.env.Dir, Accepted: accept})
		return response.Body, err
	}
	response, err := t.there.Stream(open, request, client.Call{Dir: t.env.Dir}, func(e client.Event) error {
		if run, ok := e.Data.Key("run").AsString(); ok {
			accept(run)
		}
		return show(e.Data)
	})
	return response.Body, err
}

// unconfirmed returns the error of a canceled call whose end the daemon does not report.
func unconfirmed() *contract.Error {
	return contract.Errorf("runtime/not-ready", "the daemon has not confirmed within %s that the run was canceled", cancelLimit).
		WithHint("the run may go on: \"ferment runs list\" shows how it ended")
}

// Close implements workspace.Caller.
func (t *intentThere) Close() {}

// cancelThere cancels a run in the daemon after its reader has ended.
func (c *command) cancelThere(ctx context.Context, there *client.Client, run string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer done()
	_, _ = there.Cancel(ctx, run, "interrupt", 0)
}

// intentHere calls an intent in plugins of this process.
type intentHere struct {
	*command
	host *daemon.Host
}

// Call implements workspace.Caller.
func (h *intentHere) Call(ctx context.Context, request edn.Value, show func(edn.Value) error) (edn.Value, error) {
	a := act.Act{Request: request, Dir: h.env.Dir, Watched: show != nil}
	service := h.host.Service()
	run, refused := service.Start(context.WithoutCancel(ctx), a)
	if refused != nil {
		return service.Refusal(a, refused), nil
	}
	defer context.AfterFunc(ctx, func() { run.Cancel("user", "interrupt") })()
	var failed error
	if show != nil {
		failed = run.Watch(context.WithoutCancel(ctx), func(e journal.Event) error { return show(e.Value()) })
		if failed != nil {
			run.Cancel("user", failed.Error())
		}
	}
	response, _ := run.Wait() // the error is in the response
	h.host.Ended(context.WithoutCancel(ctx), run.ID())
	return response, failed
}

// Close implements workspace.Caller. It is limited by the time limits for stopping plugins.
func (h *intentHere) Close() { h.host.Close() }
