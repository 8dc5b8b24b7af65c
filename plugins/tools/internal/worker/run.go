package worker

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// Run carries out a task in a worker; self is the binary that has Main behind
// Arg. The end of ctx kills the worker.
func Run(ctx context.Context, self string, t *Task) (edn.Value, error) {
	env := []string{"GOMAXPROCS=2"}
	if race, ok := os.LookupEnv("GORACE"); ok {
		env = append(env, "GORACE="+race)
	}
	p, err := launch.Start(launch.Command{Path: self, Args: []string{Arg}, Env: env})
	if err != nil {
		return edn.Nil(), contract.Errorf("effects/runtime-missing", ":%s: start a worker: %w", t.Tool.ID, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Kill() })
	defer stop()
	words := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(p.Stderr(), 4<<10))
		_ = p.Stderr().Close()
		words <- strings.Join(strings.Fields(string(text)), " ")
	}()
	sent := make(chan struct{})
	go func() { // a worker that is gone says so below
		defer close(sent)
		_ = send(p.Stdin(), t.value())
	}()
	reply, err := receive(p.Stdout())
	_ = p.Stdout().Close()
	if err == nil {
		_ = p.CloseStdin() // it ends by itself
	} else {
		_ = p.Kill()
	}
	<-p.Done()
	<-p.Settled()
	_ = p.CloseStdin()
	<-sent
	said := <-words
	if err != nil {
		if ctx.Err() != nil {
			return edn.Nil(), t.unsure(contract.AsError(context.Cause(ctx)))
		}
		return edn.Nil(), t.unsure(contract.Errorf("effects/runtime-failed", ":%s: the worker ended without an answer (%s): %s", t.Tool.ID, p.Exit(), launch.Clip(said, 300)))
	}
	if failed := reply.Key("error"); !failed.IsNil() {
		return edn.Nil(), contract.ErrorFromValue(failed, contract.SourceHost)
	}
	return reply.Key("out"), nil
}

// unsure says that the call may have been done, if it could change anything.
func (t *Task) unsure(e *contract.Error) *contract.Error {
	if t.Tool.Effect == "fs/read" {
		return e
	}
	return e.WithDetail("effect/state", edn.K("unknown"))
}
