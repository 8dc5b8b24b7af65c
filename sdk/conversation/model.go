package conversation

import "context"

// Model is a language model. Its methods may be called concurrently. If ctx ends, the error is
// that of ctx.
type Model interface {
	// Chat returns the model's next message, whose role is assistant. The model
	// does not run the tools that the message calls.
	Chat(ctx context.Context, c Context, o Options) (Message, error)
	// ChatStream is Chat as a stream: any number of pieces, then one delta with
	// the complete message. An error is the last element of the stream.
	ChatStream(ctx context.Context, c Context, o Options) Stream
}

// Options are the options of one call of a model. The zero value leaves all of
// them to the model.
type Options struct {
	// Tools are the tools that the model may call.
	Tools []Tool
	// ToolChoice is auto, none, required, or the name of the tool to call; "" is
	// auto.
	ToolChoice string
	// MaxTokens limits the answer; 0 is the limit of the model.
	MaxTokens int
	// Temperature is nil for the temperature of the model.
	Temperature *float64
}

// Tool describes a tool to a model.
type Tool struct {
	// Name is the name with which a [Call] refers to the tool. In Ferment it is
	// the id of a capability or an effect, such as fs/read.
	Name        string
	Description string
	// Schema is the text of the schema of the arguments; "" allows none. In
	// Ferment it is a schema in EDN.
	Schema string
}

// Agent turns a context into new messages. It is pure: it reads the context,
// asks the model, and changes nothing else. It answers the last messages of the
// context: a question, the results of tools, or anything else that it can
// continue.
type Agent interface {
	// Execute returns the new messages, not those of the context. With an error
	// it returns the messages that were complete before.
	Execute(ctx context.Context, c Context, m Model) ([]Message, error)
	// ExecuteStream is Execute as a stream. [Fold] of the stream returns the
	// same messages.
	ExecuteStream(ctx context.Context, c Context, m Model) Stream
}
