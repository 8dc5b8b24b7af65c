package agent

import (
	"context"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/view"
)

// Instructed returns an agent that executes a with a system message before the
// context. The message is not part of the result. If instructions is empty,
// Instructed returns a.
func Instructed(instructions string, a conversation.Agent) conversation.Agent {
	if instructions == "" {
		return a
	}
	return execution(func(
		ctx context.Context, c conversation.Context, m conversation.Model, show shower,
	) ([]conversation.Message, error) {
		return runStage(ctx, a, view.Composed(instructions, c), m, show)
	})
}
