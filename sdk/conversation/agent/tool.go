package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/view"
)

// Function is a tool that an agent can run.
type Function struct {
	conversation.Tool
	// Run runs the tool with args, the canonical text of the arguments. The model
	// reads the result, or the text of the error unless it is an [*AbortError].
	Run func(ctx context.Context, args string) (string, error)
}

// AbortError is returned by a tool for a failure that the model must not
// handle. The agent then stops and returns Err, or the AbortError if Err is nil.
type AbortError struct{ Err error }

// Error implements error.
func (e *AbortError) Error() string {
	if e.Err == nil {
		return "agent: a tool aborted"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *AbortError) Unwrap() error { return e.Err }

// Limits of [Tool].
const (
	MaxIterations = 50
	MaxCalls      = 16        // tool calls in one message that are run
	MaxResult     = 256 << 10 // bytes of one result
)

const (
	defaultIterations = 5
	loopCalls         = 3 // number of equal calls that count as a loop
)

// Errors of a [Tool] agent that stopped before its model gave an answer.
var (
	ErrIterationLimit = errors.New("agent: the model still called tools at the iteration limit")
	ErrToolLoop       = errors.New("agent: the model repeats a tool call")
)

// Tool returns the agent that asks the model, runs the tools that its message
// calls, in order, and asks again with the results, until a message calls none.
//
// A tool that fails, and a tool that does not exist, give a failed result that
// the model sees. A result longer than [MaxResult] is cut and marked as cut. Only
// the first [MaxCalls] calls of one message are run.
//
// iterations is the largest number of requests to the model; 0 means 5. If the
// last message still calls tools, it returns the messages so far with
// [ErrIterationLimit]. At the third call of the same tool with the same arguments
// it returns them with [ErrToolLoop]. Each call in these messages has its result,
// so that a later execution can continue from them.
//
// Tool returns an error if iterations is not in the range 0 to [MaxIterations],
// or if a tool has no function, no name, or the same name as another tool.
func Tool(tools []Function, iterations int) (conversation.Agent, error) {
	if iterations < 0 || iterations > MaxIterations {
		return nil, fmt.Errorf("agent: %d iterations; expected 1 to %d, or 0 for %d",
			iterations, MaxIterations, defaultIterations)
	}
	if iterations == 0 {
		iterations = defaultIterations
	}
	a := toolAgent{iterations: iterations, functions: map[string]Function{}}
	for _, f := range tools {
		if _, twice := a.functions[f.Name]; twice || f.Name == "" || f.Run == nil {
			return nil, fmt.Errorf("agent: tool %q: expected a unique name and a function", f.Name)
		}
		a.functions[f.Name] = f
		a.options.Tools = append(a.options.Tools, f.Tool)
	}
	return execution(a.run), nil
}

type toolAgent struct {
	functions  map[string]Function
	options    conversation.Options
	iterations int
}

func (a *toolAgent) run(
	ctx context.Context, c conversation.Context, m conversation.Model, show shower,
) (out []conversation.Message, err error) {
	made := map[conversation.Call]int{}
	for range a.iterations {
		reply, err := ask(ctx, view.Composed("", c, conversation.Of(out...)), m, a.options, show)
		if err != nil {
			return out, err
		}
		out = append(out, reply)
		calls := slices.Collect(reply.Calls())
		if len(calls) == 0 {
			return out, nil
		}
		looped := false
		for i, call := range calls {
			looped = repeated(made, call) || looped
			result, err := a.answer(ctx, call, refusal(i, looped))
			if err != nil {
				return out, err
			}
			out = append(out, result)
			if show != nil && !show(conversation.Delta{Kind: conversation.DeltaMessage, Message: result}) {
				return out, errStopped
			}
		}
		if looped {
			return out, ErrToolLoop
		}
	}
	return out, fmt.Errorf("%w of %d", ErrIterationLimit, a.iterations)
}

// repeated counts the call and reports whether it is one of a loop.
func repeated(made map[conversation.Call]int, call conversation.Call) bool {
	same := conversation.Call{Tool: call.Tool, Args: call.Args}
	made[same]++
	return made[same] >= loopCalls
}

// refusal returns the reason why the i-th call of a message is not run, "" if it
// is.
func refusal(i int, looped bool) string {
	switch {
	case looped:
		return "not run: the agent stops, because a call was repeated"
	case i >= MaxCalls:
		return fmt.Sprintf("not run: a message can call %d tools", MaxCalls)
	}
	return ""
}

// answer runs the tool of a call, unless the call is refused. The error is that
// of the context, or of a tool that aborts.
func (a *toolAgent) answer(ctx context.Context, call conversation.Call, refused string) (conversation.Message, error) {
	if ctx.Err() != nil {
		return conversation.Message{}, context.Cause(ctx)
	}
	f, known := a.functions[call.Tool]
	switch {
	case refused != "":
		return failedResult(call, refused)
	case !known:
		return failedResult(call, fmt.Sprintf("there is no tool %q", call.Tool))
	}
	text, err := f.Run(ctx, call.Args)
	var abort *AbortError
	switch {
	case err != nil && ctx.Err() != nil:
		return conversation.Message{}, context.Cause(ctx)
	case errors.As(err, &abort) && abort.Err == nil:
		return conversation.Message{}, err
	case abort != nil:
		return conversation.Message{}, abort.Err
	case err != nil:
		return failedResult(call, err.Error())
	}
	return conversation.ToolResult(call.ID, cut(text)), nil
}

// failedResult returns a failed result. The text says so too, because not every
// provider has a mark for it.
func failedResult(call conversation.Call, why string) (conversation.Message, error) {
	return conversation.New(conversation.RoleTool,
		conversation.Result{CallID: call.ID, Failed: true}, conversation.Text{Text: cut("Error: " + why)})
}

// cut limits a result to MaxResult bytes, the mark at its end included.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= MaxResult {
		return text
	}
	mark := fmt.Sprintf("\n[cut: the result has %d bytes, the limit is %d]", len(text), MaxResult)
	end := MaxResult - len(mark)
	for !utf8.RuneStart(text[end]) { // the text is valid, so this is at most three bytes
		end--
	}
	return text[:end] + mark
}
