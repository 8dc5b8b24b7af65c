package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/view"
)

// Pipeline returns the agent that executes the stages in order. Each stage reads
// the context and all messages of the stages before it; the result is the
// messages of all stages. A pipeline without stages returns no messages. A
// pipeline among the stages is replaced by its stages.
//
// If a stage fails, the pipeline returns the messages so far with a
// [*StageError].
func Pipeline(stages ...conversation.Agent) conversation.Agent {
	var all pipeline
	for _, stage := range stages {
		if inner, ok := stage.(*pipeline); ok {
			all.stages = append(all.stages, inner.stages...)
		} else {
			all.stages = append(all.stages, stage)
		}
	}
	all.execution = all.run
	return &all
}

type pipeline struct {
	execution
	stages []conversation.Agent
}

func (p *pipeline) run(
	ctx context.Context, c conversation.Context, m conversation.Model, show shower,
) (out []conversation.Message, err error) {
	for i, stage := range p.stages {
		said, err := runStage(ctx, stage, view.Composed("", c, conversation.Of(out...)), m, show)
		out = append(out, said...)
		if errors.Is(err, errStopped) {
			return out, err
		}
		if err != nil {
			return out, &StageError{Index: i, Err: err}
		}
	}
	return out, nil
}

func runStage(
	ctx context.Context, stage conversation.Agent, c conversation.Context, m conversation.Model, show shower,
) ([]conversation.Message, error) {
	if show == nil {
		return stage.Execute(ctx, c, m)
	}
	return fold(stage.ExecuteStream(ctx, c, m), func(conversation.Delta) error { return nil }, show)
}

// StageError is the failure of a stage of a pipeline.
type StageError struct {
	Index int // of the stage, from 0
	Err   error
}

// Error implements error.
func (e *StageError) Error() string { return fmt.Sprintf("agent: stage %d: %s", e.Index, e.Err) }

// Unwrap returns the error of the stage.
func (e *StageError) Unwrap() error { return e.Err }
