package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// engine answers the intents of a test in place of a capability, by the contract
// of the host: events of the run, then a response envelope.
type engine struct {
	answer   func(intent string, input edn.Value) (edn.Value, *contract.Error)
	events   []edn.Value // of every call
	requests []edn.Value
	opened   []Opening
	closed   int
	during   func() // while a call is in progress
}

func (e *engine) Call(ctx context.Context, request edn.Value, show func(edn.Value) error) (edn.Value, error) {
	e.requests = append(e.requests, request)
	if show != nil {
		for _, event := range e.events {
			if err := show(event); err != nil {
				return edn.Nil(), err
			}
		}
	}
	if e.during != nil {
		e.during()
	}
	if err := ctx.Err(); err != nil {
		return edn.Nil(), context.Cause(ctx)
	}
	intent, _ := request.Key("task").Key("intent").AsKeyword()
	out, err := e.answer(intent, request.Key("input"))
	if err != nil {
		return edn.MustMap(edn.K("error"), err.Value()), nil
	}
	return edn.MustMap(edn.K("result"), edn.MustMap(edn.K("type"), edn.K("value"), edn.K("out"), out)), nil
}

func (e *engine) Close() { e.closed++ }

// inputs returns the inputs of the calls without the workspace and the built-in
// agent.
func (e *engine) inputs() []string {
	var all []string
	for _, r := range e.requests {
		all = append(all, r.Key("input").Dissoc(edn.K("workspace"), edn.K("agent/fallback")).String())
	}
	return all
}

// answers returns an engine that gives one output to every call.
func answers(out string) *engine {
	return &engine{answer: func(string, edn.Value) (edn.Value, *contract.Error) { return edn.MustRead(out), nil }}
}

// fails returns an engine that fails every call.
func fails(err *contract.Error) *engine {
	return &engine{answer: func(string, edn.Value) (edn.Value, *contract.Error) { return edn.Nil(), err }}
}

// desk is a directory with a workspace, in which commands are run.
type desk struct {
	t       testing.TB
	root    string // of the workspace
	dir     string // the working directory
	env     map[string]string
	confirm bool // the answer to every question
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(storeFile)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, storeFile), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "note.txt"), []byte("Parses flags.\n"), 0o644))
	return &desk{t: t, root: root, dir: root, env: map[string]string{}, confirm: true}
}

// ran is the result of a command.
type ran struct {
	code           int
	stdout, stderr string
	asked          string
	err            error
}

type quiet struct{ code int }

func (q quiet) Error() string { return fmt.Sprintf("exit %d", q.code) }

type misuse struct{ error }

func (d *desk) run(e *engine, format string, args ...string) ran {
	d.t.Helper()
	return d.runIn(context.Background(), e, format, args...)
}

func (d *desk) runIn(ctx context.Context, e *engine, format string, args ...string) ran {
	d.t.Helper()
	var stdout, stderr bytes.Buffer
	var r ran
	sh := &Shell{
		Dir:    d.dir,
		Getenv: func(name string) (string, bool) { v, ok := d.env[name]; return v, ok },
		Stdin:  strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Format:  func() string { return format },
		Verbose: func() bool { return false },
		Forms: func(cmd *cobra.Command, _ ...string) func() string {
			form := cmd.Flags().StringP("output", "o", "", "")
			return func() string { return *form }
		},
		ReadFile:  func(name string, _ int) ([]byte, error) { return os.ReadFile(filepath.Join(d.dir, name)) },
		OpenFile:  func(name string, _ func([]byte) error) (*os.File, error) { return os.Open(filepath.Join(d.dir, name)) },
		WriteFile: func(name string, b []byte) error { return os.WriteFile(filepath.Join(d.dir, name), b, 0o644) },
		Confirm: func(what string) error {
			r.asked = what
			if !d.confirm {
				return quiet{1}
			}
			return nil
		},
		Open: func(_ context.Context, _ edn.Value, o Opening) (Caller, error) {
			e.opened = append(e.opened, o)
			return e, nil
		},
		Usage:   func(err error) error { return misuse{err} },
		Problem: func(err error) { fmt.Fprintln(&stderr, contract.AsError(err).Value()) },
		Quiet:   func(code int) error { return quiet{code} },
	}
	root := &cobra.Command{Use: "ferment", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(sh)...)
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	r.err = root.ExecuteContext(ctx)
	r.stdout, r.stderr = stdout.String(), stderr.String()
	var q quiet
	switch {
	case errors.As(r.err, &q):
		r.code = q.code
	case r.err != nil:
		r.code = 2
	}
	require.Equal(d.t, len(e.opened), e.closed, "what was opened is closed")
	return r
}
