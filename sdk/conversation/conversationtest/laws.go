package conversationtest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// T is the part of testing.T that the tests need. The T of a property test also
// implements it.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Context tests that the context has the messages and keeps the rules of
// [conversation.Context]: it can be read again, by several readers at once, and
// broken off anywhere.
func Context(t T, c conversation.Context, want []conversation.Message) {
	t.Helper()
	if c.Len() != len(want) {
		t.Fatalf("Len is %d, want %d", c.Len(), len(want))
	}
	for n := range len(want) + 1 {
		var got []conversation.Message
		for m := range c.All() {
			if len(got) == n {
				break
			}
			got = append(got, m)
		}
		Equal(t, got, want[:n])
	}
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			if got := slices.Collect(c.All()); !same(got, want) || c.Len() != len(got) {
				t.Errorf("a concurrent reader got %v, want %v", got, want)
			}
		})
	}
	readers.Wait()
}

// Agent tests that the agent keeps the rules of [conversation.Agent] in the
// context: execution and stream give the same messages and the same error, the
// pieces of a text join to it, a stream can be left after any delta, and the
// context is not changed. The model must be deterministic.
func Agent(t T, a conversation.Agent, c conversation.Context, m conversation.Model) {
	t.Helper()
	before := slices.Collect(c.All())
	want, wantErr := a.Execute(t.Context(), c, m)
	var deltas []conversation.Delta
	got, err := conversation.Fold(a.ExecuteStream(t.Context(), c, m), func(d conversation.Delta) bool {
		deltas = append(deltas, d)
		return true
	})
	Equal(t, got, want)
	if text(err) != text(wantErr) {
		t.Fatalf("the stream fails with %v, the execution with %v", err, wantErr)
	}
	joined(t, deltas)
	for n := range deltas {
		leaves(t, a, c, m, n+1)
	}
	Equal(t, slices.Collect(c.All()), before)
}

// joined tests that the pieces before each message of an assistant are its text.
func joined(t T, deltas []conversation.Delta) {
	t.Helper()
	var pieces strings.Builder
	for _, d := range deltas {
		switch d.Kind {
		case conversation.DeltaText:
			pieces.WriteString(d.Text)
		case conversation.DeltaRetract:
			pieces.Reset()
		case conversation.DeltaMessage:
			if said := d.Message.Text(); pieces.Len() > 0 && pieces.String() != said {
				t.Fatalf("the pieces are %q, the message is %q", pieces.String(), said)
			}
			pieces.Reset()
		}
	}
}

// leaves leaves a stream after n deltas.
func leaves(t T, a conversation.Agent, c conversation.Context, m conversation.Model, n int) {
	t.Helper()
	watched := &watch{Model: m}
	seen := 0
	for _, err := range a.ExecuteStream(t.Context(), c, watched) {
		if seen++; err != nil || seen == n {
			break
		}
	}
	if seen != n {
		t.Fatalf("the stream has %d deltas, and then %d", n, seen)
	}
	for i, ctx := range watched.asked {
		if ctx.Err() == nil {
			t.Fatalf("call %d of the model is not canceled after the stream was left", i)
		}
	}
}

// watch keeps the contexts of a model's calls.
type watch struct {
	conversation.Model
	asked []context.Context
}

// ChatStream implements conversation.Model.
func (w *watch) ChatStream(
	ctx context.Context, c conversation.Context, o conversation.Options,
) conversation.Stream {
	w.asked = append(w.asked, ctx)
	return w.Model.ChatStream(ctx, c, o)
}

// Equal tests that the messages are those that are wanted.
func Equal(t T, got, want []conversation.Message) {
	t.Helper()
	if !same(got, want) {
		t.Fatalf("messages\n got %v\nwant %v", got, want)
	}
}

func same(a, b []conversation.Message) bool {
	return slices.EqualFunc(a, b, conversation.Message.Equal)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
