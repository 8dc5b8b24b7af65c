package agent

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// execution is the work of an agent. It passes each delta to show, and returns
// errStopped if show returns false. If show is nil, it does not stream.
type execution func(
	ctx context.Context, c conversation.Context, m conversation.Model, show shower,
) ([]conversation.Message, error)

type shower func(conversation.Delta) bool

// errStopped means that the reader of the stream left it.
var errStopped = errors.New("agent: stopped")

// Execute implements conversation.Agent.
func (e execution) Execute(
	ctx context.Context, c conversation.Context, m conversation.Model,
) ([]conversation.Message, error) {
	return e(ctx, c, m, nil)
}

// ExecuteStream implements conversation.Agent.
func (e execution) ExecuteStream(
	ctx context.Context, c conversation.Context, m conversation.Model,
) conversation.Stream {
	return func(yield func(conversation.Delta, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := e(ctx, c, m, func(d conversation.Delta) bool { return yield(d, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(conversation.Delta{}, err)
		}
	}
}

// ask returns the next message of the model.
func ask(
	ctx context.Context, c conversation.Context, m conversation.Model, o conversation.Options, show shower,
) (conversation.Message, error) {
	if show == nil {
		reply, err := m.Chat(ctx, c, o)
		if err != nil {
			return conversation.Message{}, err
		}
		return reply, checkReply(reply)
	}
	replies := 0
	all, err := fold(m.ChatStream(ctx, c, o), func(d conversation.Delta) error {
		if d.Kind != conversation.DeltaMessage {
			return nil
		}
		if replies++; replies > 1 {
			return &conversation.InvalidError{Part: -1, Reason: "a model streamed a second message"}
		}
		return checkReply(d.Message)
	}, show)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("agent: the stream of the model has no message: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return conversation.Message{}, err
	}
	return all[0], nil
}

// checkReply checks that a model wrote the message.
func checkReply(m conversation.Message) error {
	if m.Role() != conversation.RoleAssistant || m.Empty() {
		why := fmt.Sprintf("a model answered %q instead of an assistant message with content", m)
		return &conversation.InvalidError{Part: -1, Reason: why}
	}
	return nil
}

// fold folds a stream whose deltas are checked before they are shown.
func fold(
	stream conversation.Stream, check func(conversation.Delta) error, show shower,
) ([]conversation.Message, error) {
	var failed error
	all, err := conversation.Fold(stream, func(d conversation.Delta) bool {
		if failed = check(d); failed == nil && !show(d) {
			failed = errStopped
		}
		return failed == nil
	})
	if failed != nil {
		err = failed
	}
	return all, err
}
