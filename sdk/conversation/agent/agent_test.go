package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/conversation/view"
	"github.com/fermenthq/ferment/sdk/internal/messagegen"
)

var errModel = errors.New("the model failed")

// dice is a deterministic model: what it answers depends on what it reads, and
// may be a text, calls of tools, or a failure.
func dice(seed int) conversationtest.Model {
	return func(c conversation.Context, o conversation.Options) (conversation.Message, error) {
		sum := seed
		for m := range c.All() {
			for _, r := range m.String() {
				sum = (sum*31 + int(r)) % 1009
			}
		}
		switch {
		case sum%11 == 0:
			return conversation.Message{}, errModel
		case sum%3 == 0 && len(o.Tools) > 0:
			return conversation.New(conversation.RoleAssistant, conversation.Reasoning{Text: "let me see"},
				conversation.Text{Text: "I look."},
				conversation.Call{ID: fmt.Sprint("t", sum), Tool: "clock", Args: fmt.Sprintf("{:n %d}", sum%5)},
				conversation.Call{ID: fmt.Sprint("u", sum), Tool: "absent", Args: "{}"})
		}
		return conversation.Assistant(fmt.Sprintf("answer %d of żółw", sum)), nil
	}
}

func clock() agent.Function {
	return agent.Function{
		Tool: conversation.Tool{Name: "clock", Description: "tells the time"},
		Run: func(_ context.Context, args string) (string, error) {
			if strings.Contains(args, "3") {
				return "", errors.New("it is broken")
			}
			return "noon of " + args, nil
		},
	}
}

func tool(t require.TestingT, iterations int, tools ...agent.Function) conversation.Agent {
	a, err := agent.Tool(tools, iterations)
	require.NoError(t, err)
	return a
}

// label is an agent that asks nothing and counts what it reads.
type label string

func (l label) Execute(
	_ context.Context, c conversation.Context, _ conversation.Model,
) ([]conversation.Message, error) {
	out := []conversation.Message{conversation.Assistant(fmt.Sprint(string(l), " after ", c.Len()))}
	if l == "failing" {
		return out, errModel
	}
	return out, nil
}

func (l label) ExecuteStream(
	ctx context.Context, c conversation.Context, m conversation.Model,
) conversation.Stream {
	return func(yield func(conversation.Delta, error) bool) {
		out, err := l.Execute(ctx, c, m)
		for _, m := range out {
			if !yield(conversation.Delta{Kind: conversation.DeltaMessage, Message: m}, nil) {
				return
			}
		}
		if err != nil {
			yield(conversation.Delta{}, err)
		}
	}
}

// anAgent draws an agent, and the stages that it consists of.
func anAgent(t *rapid.T, depth int) (conversation.Agent, []conversation.Agent) {
	kinds := []string{"simple", "tool", "label", "failing", "pipeline", "pipeline"}
	if depth == 0 {
		kinds = kinds[:4]
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "simple":
		return one(agent.Simple())
	case "tool":
		return one(tool(t, rapid.IntRange(0, 4).Draw(t, "iterations"), clock()))
	case "label", "failing":
		return one(label(kind))
	}
	var stages, leaves []conversation.Agent
	for range rapid.IntRange(0, 3).Draw(t, "stages") {
		a, parts := anAgent(t, depth-1)
		stages, leaves = append(stages, a), append(leaves, parts...)
	}
	return agent.Pipeline(stages...), leaves
}

func one(a conversation.Agent) (conversation.Agent, []conversation.Agent) {
	return a, []conversation.Agent{a}
}

// CNV-007: of any agent, execution and stream give the same messages and error,
// and leaving the stream anywhere cancels the model.
func TestStreamsAreExecutions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, _ := anAgent(t, 2)
		c := conversation.Of(messagegen.Messages().Draw(t, "context")...)
		conversationtest.Agent(t, a, c, dice(rapid.IntRange(0, 99).Draw(t, "seed")))
	})
}

// CNV-010: a pipeline is its stages one after the other, however they are
// grouped. Each sees the context and all output before it. The output before a
// failure is returned with the index of the stage that failed.
func TestPipelineIsItsStages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, stages := anAgent(t, 3)
		history := messagegen.Messages().Draw(t, "context")
		model := dice(rapid.IntRange(0, 99).Draw(t, "seed"))
		got, err := agent.Pipeline(a).Execute(t.Context(), conversation.Of(history...), model)
		seen := history
		for i, stage := range stages {
			out, stageErr := stage.Execute(t.Context(), conversation.Of(seen...), model)
			seen = slices.Concat(seen, out)
			if stageErr != nil {
				var failed *agent.StageError
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, i, failed.Index)
				assert.Equal(t, stageErr, failed.Err)
				err = nil
				break
			}
		}
		assert.NoError(t, err)
		conversationtest.Equal(t, got, seen[len(history):])
	})
}

// CNV-010: one call, one message.
func TestSimple(t *testing.T) {
	calls := 0
	m := conversationtest.Model(func(c conversation.Context, o conversation.Options) (conversation.Message, error) {
		calls++
		assert.Equal(t, 1, c.Len())
		assert.Empty(t, o)
		return conversation.Assistant("hello"), nil
	})
	out, err := agent.Simple().Execute(t.Context(), conversation.Of(conversation.User("hi")), m)
	require.NoError(t, err)
	conversationtest.Equal(t, out, []conversation.Message{conversation.Assistant("hello")})
	assert.Equal(t, 1, calls)
	assert.EqualError(t, &agent.StageError{Index: 1, Err: errModel}, "agent: stage 1: the model failed")
	out, err = agent.Pipeline().Execute(t.Context(), conversation.Of(conversation.User("hi")), m)
	assert.NoError(t, err)
	assert.Empty(t, out)
	assert.Equal(t, 1, calls, "an empty pipeline asks nothing")
}

// caller is a model that makes the given calls in each message, and talks once
// there are none left.
func caller(messages ...[]conversation.Call) conversationtest.Model {
	return func(c conversation.Context, _ conversation.Options) (conversation.Message, error) {
		n := 0
		for m := range c.All() {
			if m.Role() == conversation.RoleAssistant {
				n++
			}
		}
		if n >= len(messages) {
			return conversation.Assistant("done"), nil
		}
		parts := make([]conversation.Part, 0, len(messages[n]))
		for i, call := range messages[n] {
			call.ID = fmt.Sprintf("t%d-%d", n, i)
			parts = append(parts, call)
		}
		return conversation.New(conversation.RoleAssistant, parts...)
	}
}

func call(args string) conversation.Call { return conversation.Call{Tool: "clock", Args: args} }

func calls(n int, args string) []conversation.Call {
	all := make([]conversation.Call, n)
	for i := range all {
		all[i] = call(fmt.Sprintf(args, i))
	}
	return all
}

// CNV-011, CNV-012: the bounds of the tool agent, at and beyond each. At a bound
// the messages so far are returned with an error, and each call has its result.
func TestToolBounds(t *testing.T) {
	same := []conversation.Call{call("{:n 0}")}
	next := func(n int) (messages [][]conversation.Call) { // one call in each message
		for i := range n {
			messages = append(messages, []conversation.Call{call(fmt.Sprintf("{:i %d}", i))})
		}
		return messages
	}
	inOne := []conversation.Call{same[0], same[0], call("{}"), same[0], call("{:z 1}")}
	for name, c := range map[string]struct {
		iterations int
		model      conversationtest.Model
		err        error
		asked, ran int
	}{
		"no call":                     {0, caller(), nil, 1, 0},
		"four of five":                {0, caller(next(4)...), nil, 5, 4},
		"five of five":                {0, caller(next(5)...), agent.ErrIterationLimit, 5, 5},
		"one of one":                  {1, caller(calls(2, "{:a %d}")), agent.ErrIterationLimit, 1, 2},
		"fifty":                       {50, caller(next(50)...), agent.ErrIterationLimit, 50, 50},
		"the limit of calls":          {0, caller(calls(16, "{:a %d}")), nil, 2, 16},
		"beyond the limit of calls":   {0, caller(calls(20, "{:a %d}")), nil, 2, 16},
		"the same call twice":         {0, caller(same, same), nil, 3, 2},
		"the third call":              {0, caller(same, same, append(same, call("{}"))), agent.ErrToolLoop, 3, 2},
		"the third call in a message": {0, caller(inOne), agent.ErrToolLoop, 1, 3},
		"other arguments":             {0, caller(calls(3, "{:a %d}")), nil, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			asked, ran := 0, 0
			f := clock()
			f.Run = func(context.Context, string) (string, error) { ran++; return "noon", nil }
			var counted conversationtest.Model = func(
				read conversation.Context, o conversation.Options,
			) (conversation.Message, error) {
				asked++
				assert.Equal(t, []conversation.Tool{f.Tool}, o.Tools)
				return c.model(read, o)
			}
			out, err := tool(t, c.iterations, f).Execute(t.Context(), conversation.Of(conversation.User("When?")), counted)
			assert.ErrorIs(t, err, c.err)
			assert.Equal(t, c.asked, asked)
			assert.Equal(t, c.ran, ran)
			answered(t, out)
		})
	}
}

// answered tests that the calls of each message are answered in order right after
// it.
func answered(t *testing.T, out []conversation.Message) {
	t.Helper()
	var open []string
	for _, m := range out {
		if r, ok := m.Result(); ok {
			require.NotEmpty(t, open)
			assert.Equal(t, open[0], r.CallID)
			open = open[1:]
			continue
		}
		assert.Empty(t, open)
		for call := range m.Calls() {
			open = append(open, call.ID)
		}
	}
	assert.Empty(t, open)
}

// CNV-011: what goes wrong with a tool is a result that the model sees.
func TestToolFailures(t *testing.T) {
	broken := clock()
	broken.Run = func(context.Context, string) (string, error) { return "", errors.New("it is broken") }
	model := caller([]conversation.Call{call("{}"), {Tool: "absent", Args: "{}"}})
	out, err := tool(t, 0, broken).Execute(t.Context(), conversation.Of(conversation.User("When?")), model)
	require.NoError(t, err)
	require.Len(t, out, 4)
	for i, want := range []string{"Error: it is broken", `Error: there is no tool "absent"`} {
		r, _ := out[1+i].Result()
		assert.True(t, r.Failed)
		assert.Equal(t, want, out[1+i].Text())
	}
	answered(t, out)
}

// CNV-011: a result is cut at a character, at 256 KiB with its mark.
func TestToolResultsAreCut(t *testing.T) {
	for _, size := range []int{agent.MaxResult - 1, agent.MaxResult, agent.MaxResult + 1, 3 * agent.MaxResult} {
		for _, unit := range []string{"a", "ż", "日", "😀", "\xff"} {
			f := clock()
			text := strings.Repeat(unit, size/len(unit)) + strings.Repeat("a", size%len(unit))
			f.Run = func(context.Context, string) (string, error) { return text, nil }
			out, err := tool(t, 0, f).Execute(t.Context(), conversation.Of(), caller(calls(1, "{:a %d}")))
			require.NoError(t, err)
			got := out[1].Text()
			assert.True(t, utf8.ValidString(got))
			assert.LessOrEqual(t, len(got), agent.MaxResult)
			valid := strings.ToValidUTF8(text, "\ufffd")
			if len(valid) <= agent.MaxResult {
				assert.Equal(t, valid, got)
				continue
			}
			shown, mark, found := strings.Cut(got, "\n[cut: ")
			assert.True(t, found)
			assert.Contains(t, mark, fmt.Sprint(len(valid)))
			assert.Contains(t, mark, fmt.Sprint(agent.MaxResult), "the limit")
			assert.True(t, strings.HasPrefix(valid, shown))
			assert.Greater(t, len(got), agent.MaxResult-utf8.UTFMax)
		}
	}
}

// CNV-011: limits outside of the range, and tools that cannot be told apart.
func TestToolRejects(t *testing.T) {
	for name, c := range map[string]struct {
		tools      []agent.Function
		iterations int
	}{
		"negative":         {nil, -1},
		"above 50":         {nil, 51},
		"two of one name":  {[]agent.Function{clock(), clock()}, 5},
		"without a name":   {[]agent.Function{{Run: clock().Run}}, 5},
		"without function": {[]agent.Function{{Tool: clock().Tool}}, 5},
	} {
		_, err := agent.Tool(c.tools, c.iterations)
		assert.Error(t, err, name)
		if c.tools == nil {
			assert.Regexp(t, `\b50\b.*\b5\b`, err.Error(), "the limit and the default")
		}
	}
	tool(t, agent.MaxIterations)
}

// A canceled context ends the loop instead of being shown to the model, whether
// the tool notices it or not.
func TestToolIsCanceled(t *testing.T) {
	reason := errors.New("the caller left")
	for _, notices := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		f := clock()
		ran := 0
		f.Run = func(ctx context.Context, _ string) (string, error) {
			ran++
			cancel(reason)
			if notices {
				return "", ctx.Err()
			}
			return "noon", nil
		}
		out, err := tool(t, 0, f).Execute(ctx, conversation.Of(), caller(calls(3, "{:a %d}")))
		assert.ErrorIs(t, err, reason)
		assert.Equal(t, 1, ran)
		assert.Equal(t, notices, len(out) == 1, "the result of a tool that ran is kept")
	}
}

// stream is a model whose streams are given.
type stream func(yield func(conversation.Delta, error) bool)

func (s stream) Chat(context.Context, conversation.Context, conversation.Options) (conversation.Message, error) {
	panic("a stream asks for streams")
}

func (s stream) ChatStream(
	context.Context, conversation.Context, conversation.Options,
) conversation.Stream {
	return conversation.Stream(s)
}

// CNV-007: the sequence ends after its first error, and a stream of a model that
// is broken off, or is no answer, is an error and not a short answer.
func TestBrokenStreams(t *testing.T) {
	type step struct {
		delta conversation.Delta
		err   error
	}
	message := func(m conversation.Message) step {
		return step{delta: conversation.Delta{Kind: conversation.DeltaMessage, Message: m}}
	}
	whole := message(conversation.Assistant("Hello"))
	piece := step{delta: conversation.Delta{Kind: conversation.DeltaText, Text: "Hel"}}
	retract := step{delta: conversation.Delta{Kind: conversation.DeltaRetract}}
	invalid := errors.New("an InvalidError")
	agents := map[string]conversation.Agent{
		"simple": agent.Simple(), "tool": tool(t, 0), "pipeline": agent.Pipeline(agent.Simple()),
	}
	for name, c := range map[string]struct {
		steps []step
		shown int
		want  error
	}{
		"whole":               {[]step{piece, whole}, 2, nil},
		"nothing":             {nil, 0, io.ErrUnexpectedEOF},
		"cut":                 {[]step{piece}, 1, io.ErrUnexpectedEOF},
		"failed":              {[]step{piece, {err: errModel}, whole}, 1, errModel},
		"two messages":        {[]step{whole, whole}, 1, invalid},
		"of the user":         {[]step{message(conversation.User("x"))}, 0, invalid},
		"empty":               {[]step{message(conversation.Message{})}, 0, invalid},
		"retracted, then cut": {[]step{piece, retract}, 2, io.ErrUnexpectedEOF},
	} {
		for kind, a := range agents {
			t.Run(name+" "+kind, func(t *testing.T) {
				model := stream(func(yield func(conversation.Delta, error) bool) {
					for _, s := range c.steps {
						if !yield(s.delta, s.err) {
							return
						}
					}
				})
				shown, failures := 0, 0
				var last error
				for _, err := range a.ExecuteStream(t.Context(), conversation.Of(), model) {
					require.Zero(t, failures, "nothing follows an error")
					if last = err; err != nil {
						failures++
					} else {
						shown++
					}
				}
				assert.Equal(t, c.shown, shown)
				if !errors.Is(c.want, invalid) {
					assert.ErrorIs(t, last, c.want)
					return
				}
				var is *conversation.InvalidError
				require.ErrorAs(t, last, &is)
				assert.Equal(t, -1, is.Part, "the message as a whole")
			})
		}
	}
}

// A model that answers with a message of another role is not an answer.
func TestAnswersAreOfAssistants(t *testing.T) {
	for _, m := range []conversation.Message{{}, conversation.User("x"), conversation.Assistant("")} {
		model := conversationtest.Model(func(conversation.Context, conversation.Options) (conversation.Message, error) {
			return m, nil
		})
		out, err := agent.Simple().Execute(t.Context(), conversation.Of(), model)
		var invalid *conversation.InvalidError
		require.ErrorAs(t, err, &invalid)
		assert.Equal(t, -1, invalid.Part, "the message as a whole")
		assert.Empty(t, out)
	}
}

// CNV-010: instructions are a system message before the context, which is not part of
// the result; with any agent, streamed or not.
func TestInstructed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inner, _ := anAgent(t, 1)
		c := conversation.Of(messagegen.Messages().Draw(t, "context")...)
		model := dice(rapid.IntRange(0, 99).Draw(t, "seed"))
		conversationtest.Agent(t, agent.Instructed("Be brief.", inner), c, model)
		said, err := agent.Instructed("Be brief.", inner).Execute(t.Context(), c, model)
		want, wantErr := inner.Execute(t.Context(), view.Composed("Be brief.", c), model)
		assert.Equal(t, fmt.Sprint(want, wantErr), fmt.Sprint(said, err))
		assert.Equal(t, fmt.Sprintf("%p", inner), fmt.Sprintf("%p", agent.Instructed("", inner)))
	})
}

// CNV-012: a tool can end the execution with its error; the messages before it are
// returned.
func TestToolAborts(t *testing.T) {
	broken := errors.New("the host is gone")
	aborts := agent.Function{
		Tool: conversation.Tool{Name: "clock"},
		Run: func(context.Context, string) (string, error) {
			return "", fmt.Errorf("look: %w", &agent.AbortError{Err: broken})
		},
	}
	call, err := conversation.New(conversation.RoleAssistant, conversation.Call{ID: "1", Tool: "clock", Args: "{}"})
	require.NoError(t, err)
	var model conversationtest.Model = func(conversation.Context, conversation.Options) (conversation.Message, error) {
		return call, nil
	}
	said, err := tool(t, 5, aborts).Execute(t.Context(), conversation.Of(conversation.User("go")), model)
	assert.Equal(t, broken, err)
	assert.Equal(t, fmt.Sprint([]conversation.Message{call}), fmt.Sprint(said))
	assert.Equal(t, "the host is gone", (&agent.AbortError{Err: broken}).Error())
}

// CNV-011: the calls of a message beyond the limit say what the limit is.
func TestToolSaysTheLimitOfCalls(t *testing.T) {
	out, err := tool(t, 0, clock()).Execute(t.Context(), conversation.Of(), caller(calls(agent.MaxCalls+1, "{:a %d}")))
	require.NoError(t, err)
	last := out[agent.MaxCalls+1]
	r, _ := last.Result()
	assert.True(t, r.Failed)
	assert.Contains(t, last.Text(), fmt.Sprint(agent.MaxCalls))
}

// CNV-012: the failure of a tool that aborts is the error in it.
func TestAbortErrorIsItsCause(t *testing.T) {
	cause := errors.New("the host is gone")
	assert.ErrorIs(t, &agent.AbortError{Err: cause}, cause)
}

// CNV-012: a tool that aborts without a cause ends the execution too.
func TestToolAbortsWithoutCause(t *testing.T) {
	f := clock()
	f.Run = func(context.Context, string) (string, error) { return "", &agent.AbortError{} }
	out, err := tool(t, 5, f).Execute(t.Context(), conversation.Of(), caller(calls(1, "{:a %d}")))
	var abort *agent.AbortError
	require.ErrorAs(t, err, &abort)
	assert.NotEmpty(t, err.Error())
	assert.Len(t, out, 1, "the call, and no result")
}

// A context that ends before a tool is run ends the execution: there is neither a result
// nor another question to the model.
func TestToolIsNotRunAfterCancel(t *testing.T) {
	reason := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := 0
	model := conversationtest.Model(func(c conversation.Context, o conversation.Options) (conversation.Message, error) {
		asked++
		cancel(reason)
		return caller(calls(1, "{:a %d}"))(c, o)
	})
	f := clock()
	f.Run = func(context.Context, string) (string, error) {
		t.Error("the tool was run")
		return "", nil
	}
	out, err := tool(t, 0, f).Execute(ctx, conversation.Of(), model)
	assert.ErrorIs(t, err, reason)
	assert.Len(t, out, 1)
	assert.Equal(t, 1, asked)
}
