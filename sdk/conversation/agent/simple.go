package agent

import (
	"context"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Simple returns the agent that asks the model once and returns its message.
func Simple() conversation.Agent {
	return execution(func(
		ctx context.Context, c conversation.Context, m conversation.Model, show shower,
	) ([]conversation.Message, error) {
		reply, err := ask(ctx, c, m, conversation.Options{}, show)
		if err != nil {
			return nil, err
		}
		return []conversation.Message{reply}, nil
	})
}
