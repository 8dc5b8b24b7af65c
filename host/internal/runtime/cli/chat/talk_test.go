package chat

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// replies answers each send with the next response, and other intents with an empty
// conversation.
type replies struct {
	responses []string
	turns     string // of the conversation
	sent      []edn.Value
	got       []edn.Value // inputs of get
}

func (r *replies) Call(_ context.Context, request edn.Value, _ func(edn.Value) error) (edn.Value, error) {
	intent, _ := request.Key("task").Key("intent").AsKeyword()
	if intent == "conversation/get" {
		r.got = append(r.got, request.Key("input"))
	}
	if intent != "conversation/send" {
		return edn.MustRead(`{:result {:out {:conversation/id "c" :version 0 :turn-count 0 :turns ` + cmp.Or(r.turns, "[]") + `}}}`), nil
	}
	r.sent = append(r.sent, request.Key("input"))
	next := r.responses[0]
	r.responses = r.responses[1:]
	return edn.MustRead(next), nil
}

// /cost has what refused answers took too.
func TestCostOfRefusedAnswers(t *testing.T) {
	r := &replies{responses: []string{
		`{:result {:out {:text "hi" :version 1}} :usage {:tokens-in 1 :tokens-out 2 :cost-usd 0.25M}}`,
		`{:error {:type :eval/must-failed :message "refused"} :usage {:tokens-in 3 :tokens-out 4 :cost-usd 0.5M}}`,
	}}
	talk := New(r, Settings{Apply: func(request edn.Value) edn.Value { return request }})
	var notes []string
	show := func(e Event) {
		if n, ok := e.(Note); ok {
			notes = append(notes, n.Text)
		}
	}
	assert.NoError(t, talk.Begin(t.Context(), show))
	notes = nil
	for _, line := range []string{"/cost", "one", "/cost", "two", "/cost"} {
		talk.Do(t.Context(), line, "", show)
	}
	assert.Equal(t, []string{
		"no answer yet",
		"last answer  1 tokens in, 2 out, 0.25 USD\n1 answer     1 tokens in, 2 out, 0.25 USD",
		"last message, without an answer  3 tokens in, 4 out, 0.5 USD\n1 answer, 1 without one          4 tokens in, 6 out, 0.75 USD",
	}, notes)
}

// A capability that is not a candidate is not called unknown: --model and an earlier choice may
// name it.
func TestModelThatIsNoCandidate(t *testing.T) {
	talk := New(&replies{}, Settings{Model: "m/count", Models: []string{"m/echo"}})
	var failed *contract.Error
	for _, line := range []string{"/model m/echo", "/model m/count"} {
		talk.Do(t.Context(), line, "", func(e Event) {
			if f, ok := e.(Failed); ok {
				failed = f.Err
			}
		})
	}
	require.NotNil(t, failed)
	assert.Equal(t, "m/echo", talk.Model)
	assert.Contains(t, failed.Message, "m/count is not a candidate of model/chat")
}

// A command without arguments is not executed with one.
func TestUnwantedArguments(t *testing.T) {
	for _, c := range commands() {
		if c.args != "" {
			continue
		}
		r := &replies{}
		var got []Event
		New(r, Settings{}).Do(t.Context(), "/"+c.name+" now", "", func(e Event) { got = append(got, e) })
		require.Len(t, got, 1, c.name)
		require.IsType(t, Failed{}, got[0], c.name)
		assert.Equal(t, "invalid-request", got[0].(Failed).Err.Type, c.name)
	}
}

// A message shows its calls, also one without text.
func TestContentHasCalls(t *testing.T) {
	for in, want := range map[string]string{
		`{:tool/calls [{:id "1" :tool/id :sat/solve :args {}}]}`:                                                                        "[calls sat/solve]",
		`{:content "I look." :tool/calls [{:id "1" :tool/id "clock"}]}`:                                                                 "I look.\n[calls clock]",
		`{:content [{:type :text :text "a"} {:type :tool-call :id "1"} {:type :image :url "u"}] :tool/calls [{:id "1" :tool/id :x/y}]}`: "a\n[image]\n[calls x/y]",
		`{:content "plain"}`: "plain",
	} {
		assert.Equal(t, want, content(edn.MustRead(in)), in)
	}
}

// CNV-021: only a line that was made from a message without an answer names it.
func TestDraftsOfLines(t *testing.T) {
	ok := `{:result {:out {:text "hi" :version 1}}}`
	r := &replies{responses: []string{`{:error {:type :provider/unavailable :message "no"}}`, ok, ok}}
	talk := New(r, Settings{Apply: func(request edn.Value) edn.Value { return request }})
	var again Offer
	show := func(e Event) {
		if f, failed := e.(Failed); failed {
			again = f.Again
		}
	}
	talk.Do(t.Context(), "//one", "d-1", show)
	assert.Equal(t, Offer{"//one", "d-1"}, again)
	talk.Do(t.Context(), "two", "", show)
	talk.Do(t.Context(), again.Line+"!", again.Draft, show)
	var sent []string
	for _, in := range r.sent {
		sent = append(sent, text(in, "draft/id")+" "+text(in, "text"))
	}
	assert.Equal(t, []string{"d-1 /one", " two", "d-1 /one!"}, sent)
}

// CNV-021: a line whose message without an answer was sent elsewhere is offered as a new message.
func TestDraftThatIsGone(t *testing.T) {
	r := &replies{responses: []string{`{:error {:type :conversation/invalid-message :message "no draft" :details {:path [:draft/id]}}}`}}
	talk := New(r, Settings{Apply: func(request edn.Value) edn.Value { return request }})
	var failed Failed
	talk.Do(t.Context(), "one", "d-1", func(e Event) {
		if f, is := e.(Failed); is {
			failed = f
		}
	})
	assert.Equal(t, Offer{"one", ""}, failed.Again)
	assert.Contains(t, failed.Err.Hint, "/branch")
}

// A line that is not UTF-8 is not sent as another text.
func TestLineThatIsNotUTF8(t *testing.T) {
	for _, line := range []string{"caf\xe9", "/edit #1 caf\xe9", "/title \xff", "\ufffd\xe9"} {
		r := &replies{}
		var failed Failed
		New(r, Settings{}).Do(t.Context(), line, "", func(e Event) { failed, _ = e.(Failed) })
		require.NotNil(t, failed.Err, "%q", line)
		assert.Equal(t, "invalid-request", failed.Err.Type, "%q", line)
		assert.Contains(t, failed.Err.Message, fmt.Sprintf("byte %d ", len(line)-1), "%q", line)
	}
	assert.Equal(t, -1, invalidByte("caf\u00e9 \ufffd"))
}

// The text of a message or an edit is sent byte for byte; // begins one that begins with a slash.
func TestTextsOfLines(t *testing.T) {
	ok := `{:result {:out {:text "hi" :version 1}}}`
	r := &replies{responses: slices.Repeat([]string{ok}, 9), turns: `[{:turn/id "t-1" :role :user :span/id "s-1"}]`}
	talk := New(r, Settings{Apply: func(request edn.Value) edn.Value { return request }})
	for line, want := range map[string]string{
		"\tall:\n\t\tcc\t": "\tall:\n\t\tcc\t", "//etc": "/etc", "  //etc": "  /etc", "/edit #1 \tall:\n ": "\tall:\n ", "/edit #1\nx": "x",
		"/edit \tall: #1": "\tall: #1", " /edit x": "x",
	} {
		r.sent = nil
		talk.Do(t.Context(), line, "", func(Event) {})
		require.Len(t, r.sent, 1, "%q", line)
		assert.Equal(t, want, text(r.sent[0], "text"), "%q", line)
		if !strings.Contains(line, "/edit") {
			assert.Equal(t, line, typed(want), "the line that offers the text")
		}
	}
	in := bufio.NewReader(strings.NewReader("\n\tall:\\\n\t\tcc\n"))
	var lines []string
	for range 2 {
		line, err := readLine(in)
		require.NoError(t, err)
		lines = append(lines, trimmed(line))
	}
	assert.Equal(t, []string{"", "\tall:\n\t\tcc"}, lines)
	for input, want := range map[string]string{"a\\\nb\\\n": "a\nb\\", "a\\": "a\\", "a\\\n\n": "a\n", "\\\n": "\\"} {
		line, err := readLine(bufio.NewReader(strings.NewReader(input)))
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
		}
		assert.Equal(t, want, line, "a backslash at the end of the input is text: %q", input)
	}
}

// No answer of the host has the messages of the whole conversation.
func TestReadsInParts(t *testing.T) {
	r := &replies{turns: `[{:turn/id "t-1" :role :user} {:turn/id "t-2" :role :assistant}]`}
	talk := New(r, Settings{
		Apply:     func(request edn.Value) edn.Value { return request },
		WriteFile: func(string, []byte) error { return nil },
	})
	for _, line := range []string{"/branch", "/regenerate", "/edit", "/edit #2 x", "/select", "/fork #1", "/export x.md", "/undo", "/discard"} {
		talk.Do(t.Context(), line, "", func(Event) {})
	}
	assert.NotEmpty(t, r.got)
	for _, in := range r.got {
		assert.True(t, in.HasKey("window") || in.HasKey("limit") || in.HasKey("turn/id") || in.Key("messages?").Equal(edn.Bool(false)), "%s", in)
	}
}

// copied is a conversation that was forked and not changed since.
type copied struct{ calls []string }

func (c *copied) Call(_ context.Context, request edn.Value, _ func(edn.Value) error) (edn.Value, error) {
	c.calls = append(c.calls, request.Key("task").Key("intent").String())
	return edn.MustRead(`{:result {:out {:conversation/id "f" :version 1 :turn-count 2 :from {:relation :forked-from :conversation/id "c"}}}}`), nil
}

// A fork without changes has nothing to undo: its first version is the copy.
func TestUndoOfFork(t *testing.T) {
	c := &copied{}
	talk := New(c, Settings{Conversation: "f", Apply: func(request edn.Value) edn.Value { return request }})
	require.NoError(t, talk.Begin(t.Context(), func(Event) {}))
	var failure string
	talk.Do(t.Context(), "/undo", "", func(e Event) {
		if f, failed := e.(Failed); failed {
			failure = contract.AsError(f.Err).Message
		}
	})
	assert.Equal(t, "the conversation has no change to undo", failure)
	assert.NotContains(t, c.calls, ":conversation/restore")
}

// A command about a turn that does not exist yet says what comes first.
func TestCommandsWithoutTurns(t *testing.T) {
	talk := New(&replies{turns: `[]`}, Settings{Apply: func(request edn.Value) edn.Value { return request }})
	for _, line := range []string{"/regenerate", "/edit", "/edit x", "/select"} {
		var hint string
		talk.Do(t.Context(), line, "", func(e Event) {
			if f, failed := e.(Failed); failed {
				hint = contract.AsError(f.Err).Hint
			}
		})
		assert.Equal(t, "send a message first", hint, line)
	}
}

// The hint of a command that is refused is one for the chat, not that of the error type.
func TestHintsOfCommands(t *testing.T) {
	r := &replies{turns: `[{:turn/id "t-1" :role :assistant}] :alternatives [{:span/id "s-1" :selected? true :messages []}]`}
	talk := New(r, Settings{Apply: func(request edn.Value) edn.Value { return request }})
	for line, want := range map[string]string{
		"/select #1 9":  "/select #1 lists them",
		"/export":       "such as /export ",
		"/export x.txt": "such as /export x.md",
		"/quit now":     "/help lists the commands",
	} {
		var hint string
		talk.Do(t.Context(), line, "", func(e Event) {
			if f, failed := e.(Failed); failed {
				hint = contract.AsError(f.Err).Hint
			}
		})
		assert.Contains(t, hint, want, line)
	}
}

// outcomes answers each send with the next outcome, after an event of its run. The conversation
// has the answer of the run kept.
type outcomes struct {
	next []outcome
	kept string
	sent []edn.Value
}

type outcome struct {
	run, response string
	err           error
}

func (o *outcomes) Call(_ context.Context, request edn.Value, show func(edn.Value) error) (edn.Value, error) {
	intent, _ := request.Key("task").Key("intent").AsKeyword()
	if intent != "conversation/send" && intent != "conversation/regenerate" {
		return edn.MustRead(`{:result {:out {:version 3 :turns [{:turn/id "t-1" :role :user} {:turn/id "t-2" :role :assistant}] :messages [{:role :user :content "one"}
			{:role :assistant :content "hi" :attribution {:run "` + o.kept + `"}}]}}}`), nil
	}
	o.sent = append(o.sent, request.Key("input"))
	now := o.next[0]
	o.next = o.next[1:]
	if err := show(edn.MustRead(`{:event :accepted :run "` + now.run + `"}`)); err != nil || now.err != nil {
		return edn.Nil(), cmp.Or(now.err, err)
	}
	return edn.MustRead(now.response), nil
}

// CNV-021, CNV-024: an answer that was committed while its run was canceled, or after the connection
// was lost, is shown; its message is not offered and not sent twice. A command names the version that
// the talk knows, so that it is not executed on another one.
func TestAnswersOfOpenRuns(t *testing.T) {
	const (
		canceled = `{:error {:type :canceled :message "interrupt"}}`
		conflict = `{:error {:type :conversation/conflict :message "no" :details {:base 0 :current 3}}}`
		ok       = `{:result {:out {:text "fine" :version 4}}}`
	)
	lost := contract.Errorf("runtime/crashed", "the daemon sent no response")
	for name, c := range map[string]struct {
		kept  string
		next  []outcome
		lines []string
		want  []string
	}{
		"canceled in time":   {"r-0", []outcome{{"r-1", canceled, nil}}, []string{"one"}, []string{"canceled one"}},
		"canceled too late":  {"r-1", []outcome{{"r-1", canceled, nil}, {"r-2", ok, nil}}, []string{"one", "two"}, []string{"hi", "fine"}},
		"resumed":            {"r-1", []outcome{{"r-1", "", lost}, {"r-2", conflict, nil}}, []string{"one", "one"}, []string{"failed one", "hi"}},
		"edit resumed":       {"r-1", []outcome{{"r-1", "", lost}, {"r-2", conflict, nil}}, []string{"/edit #1 one", "/edit #1 one"}, []string{"failed /edit #1 one", "hi"}},
		"answer resumed":     {"r-1", []outcome{{"r-1", "", lost}, {"r-2", conflict, nil}}, []string{"/regenerate", "/regenerate"}, []string{"failed /regenerate", "hi"}},
		"resumed, then else": {"r-1", []outcome{{"r-1", "", lost}, {"r-2", conflict, nil}}, []string{"one", "two"}, []string{"failed one", "hi", "failed two"}},
		"changed by another": {"r-9", []outcome{{"r-1", "", lost}, {"r-2", conflict, nil}}, []string{"one", "one"}, []string{"failed one", "failed one"}},
		"not confirmed":      {"r-0", []outcome{{"r-1", "", lost}, {"r-2", ok, nil}}, []string{"one", "one"}, []string{"failed one", "fine"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outcomes{next: c.next, kept: c.kept}
			talk := New(o, Settings{Apply: func(request edn.Value) edn.Value { return request }})
			var got []string
			for _, line := range c.lines {
				talk.Do(t.Context(), line, "", func(e Event) {
					switch e := e.(type) {
					case Answer:
						got = append(got, e.Text)
					case Failed:
						how := "failed "
						if e.Canceled {
							how = "canceled "
						}
						got = append(got, how+e.Again.Line)
					}
				})
			}
			assert.Equal(t, c.want, got)
			for i, sent := range o.sent {
				if c.next[i].response == conflict {
					assert.Equal(t, "0", sent.Key("base-version").String())
				}
			}
			if name == "canceled too late" {
				assert.Equal(t, edn.Int(3), o.sent[1].Key("base-version"))
			}
		})
	}
}
