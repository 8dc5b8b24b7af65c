package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Caller calls an intent and returns the response envelope. show receives the events of the run.
// Canceling ctx cancels the run. Call returns when the run has ended, or with an error other than
// canceled if its end is unknown.
type Caller interface {
	Call(ctx context.Context, request edn.Value, show func(event edn.Value) error) (edn.Value, error)
}

// Settings configures a talk.
type Settings struct {
	Conversation string   // its name; empty: a new one
	Model        string   // a capability; empty: one that serves model/chat
	Agent        string   // a capability, or the intent agent/run; empty: only the model
	System       string   // instructions before the conversation
	Models       []string // capabilities that serve model/chat
	Temporary    bool     // delete the conversation at the end of the program
	// Apply adds the flags of the command line to a request.
	Apply func(request edn.Value) edn.Value
	// WriteFile creates a file of an export.
	WriteFile func(name string, content []byte) error
}

// Talk is a dialog in one conversation at a time. Its methods must not be called concurrently.
type Talk struct {
	Settings
	caller Caller

	id      string
	version int64 // the last one whose turns the user has seen, or was told about
	// before has the version that an undo of a version restores, if it is not the previous one.
	before map[int64]int64
	draft  string // id of the unanswered message that the current line is
	last   hearing
	open   openRun
	spent  []spending // one per requested answer
}

// openRun is a run for a line whose answer this talk has not received.
type openRun struct{ id, line string }

// New returns a talk. Begin must be called first.
func New(caller Caller, s Settings) *Talk {
	return &Talk{Settings: s, caller: caller, before: map[int64]int64{}}
}

// shownTurns is the number of turns that are shown when a conversation is continued.
const shownTurns = 6

// Begin opens the conversation and shows its last turns.
func (t *Talk) Begin(ctx context.Context, show func(Event)) error {
	return t.enter(ctx, t.Conversation, show)
}

// enter opens a conversation, which is created if it does not exist.
func (t *Talk) enter(ctx context.Context, name string, show func(Event)) error {
	t.id = name
	of, err := t.ask(ctx, "open", edn.MapBuilder{}, nil)
	if err != nil {
		return err
	}
	t.id = text(of, "conversation/id")
	t.version, _ = of.Key("version").AsInt()
	clear(t.before)
	if t.version > 0 && of.Key("from").Key("relation").Equal(edn.K("forked-from")) {
		t.before[1] = -1 // its first version is the copy, which an undo would empty
	}
	var kept edn.Value
	if name != "" { // it may have turns, or an unanswered message
		if kept, err = t.get(ctx, shownTurns); err != nil {
			return err
		}
	}
	show(Moved{t.id, t.model()})
	n, _ := of.Key("turn-count").AsInt()
	switch {
	case n > 0 || kept.Key("drafts").Len() > 0:
		about := fmt.Sprintf("conversation %s, %s", t.id, counted(int(n), "turn"))
		if drafts := kept.Key("drafts").Len(); drafts > 0 {
			about += ", " + counted(drafts, "message") + " without an answer"
		}
		show(Note{about})
	case t.Temporary:
		show(Note{fmt.Sprintf("new conversation %s, which ends with the program: "+
			"a daemon with a store keeps conversations (ferment serve)", t.id)})
	default:
		show(Note{"new conversation " + t.id})
	}
	t.recall(kept, show)
	return nil
}

// recall shows the last turns, and offers the unanswered messages.
func (t *Talk) recall(kept edn.Value, show func(Event)) {
	for m := range kept.Key("messages").Elems() {
		show(said(m))
	}
	stale := 0
	for v := range kept.Key("turns").Elems() {
		if turnIn(v).stale {
			stale++
		}
	}
	if stale > 0 {
		show(Note{counted(stale, "turn") + " of these are stale, because a turn before them was changed: /branch marks them"})
	}
	for d := range kept.Key("drafts").Elems() {
		if written, ok := d.Key("message").Key("content").AsString(); ok { // a line cannot have other parts
			show(Offer{typed(written), text(d, "draft/id")})
		}
	}
}

// message returns the text that a line sends.
func message(line string) string {
	if indent, rest := indented(line); strings.HasPrefix(rest, "//") {
		return indent + rest[1:]
	}
	return line
}

// typed returns the line that sends a text.
func typed(text string) string {
	if indent, rest := indented(text); strings.HasPrefix(rest, "/") {
		return indent + "/" + rest
	}
	return text
}

// model returns the name of the agent or model that answers.
func (t *Talk) model() string { return cmp.Or(t.Agent, t.Model, first(t.Models)) }

// Do executes a line, which is a message or a command, and reports its events, including errors, to
// show. draft is the id of the unanswered message that the line replaces; empty: none. Canceling
// ctx cancels the line.
func (t *Talk) Do(ctx context.Context, line, draft string, show func(Event)) {
	var err error
	t.draft, t.last.run = draft, ""
	before := t.version
	if at := invalidByte(line); at >= 0 {
		err = contract.Errorf("invalid-request", "the line is not UTF-8: byte %d is invalid", at).WithHint("send UTF-8")
	} else if name, arg, ok := commandOf(line); !ok {
		err = t.send(ctx, message(line), edn.MapBuilder{}, show)
	} else if c := find(name); c != nil {
		if name != "edit" { // the indent is part of a text
			arg = strings.TrimSpace(arg)
		}
		if c.args == "" {
			err = unwanted(name, arg)
		}
		if err == nil {
			err = c.run(t, ctx, arg, show)
		}
	} else {
		err = contract.Errorf("invalid-request", "there is no command /%s", name).
			WithHint("/help lists the commands; a message that begins with / is written with //").
			DidYouMean(slash(contract.Nearest(name, names())))
	}
	if err == nil {
		return
	}
	failed := contract.AsError(err)
	conflicts := failed.Type == "conversation/conflict"
	if t.last.run != "" && !conflicts {
		t.open = openRun{t.last.run, line}
	}
	if conflicts || failed.Type == "canceled" {
		if answer, of, found := t.committed(ctx); found {
			show(answer)
			if of == line {
				return
			}
			t.draft = ""
		}
	}
	if t.draft != "" && isDraftGone(failed) {
		t.draft = ""
		failed = failed.WithHint("the message was sent or deleted meanwhile: /branch shows the turns; send it again as a new message")
	}
	if current, ok := failed.Details.Key("current").AsInt(); ok && conflicts {
		t.version = current
		again := "send the message again to add it after them"
		if _, _, command := commandOf(line); command {
			again = "enter the command again to execute it on these"
		}
		failed = failed.WithHint("the conversation was changed meanwhile: /branch shows its turns; " + again)
	}
	show(Failed{Err: failed, Again: Offer{line, t.draft}, Canceled: failed.Type == "canceled" && t.version == before})
}

// isDraftGone reports whether an error says that the conversation does not have the draft of a call.
func isDraftGone(err *contract.Error) bool {
	return err.Type == "conversation/invalid-message" &&
		err.Details.Key("path").Equal(edn.Vector(edn.K("draft/id")))
}

// confirmLimit is the time limit for checking what a canceled run has committed.
const confirmLimit = 5 * time.Second

// committed returns the answer that the open run has added to the conversation, and the line that
// it answers. A run can commit its answer while it is canceled, or after its daemon was restarted.
func (t *Talk) committed(ctx context.Context) (answer Answer, line string, found bool) {
	if t.open.id == "" {
		return Answer{}, "", false
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), confirmLimit)
	defer done()
	of, err := t.get(ctx, shownTurns)
	if err != nil {
		return Answer{}, "", false
	}
	var texts []string
	for m := range of.Key("messages").Elems() {
		if text(m.Key("attribution"), "run") == t.open.id && word(m, "role") == "assistant" {
			texts = append(texts, content(m))
			answer, found = Answer{By: author(m), Value: of}, true
		}
	}
	if found {
		answer.Text = strings.Join(texts, contract.Paragraph)
		t.version, _ = of.Key("version").AsInt()
		line, t.open = t.open.line, openRun{}
	}
	return answer, line, found
}

// invalidByte returns the index of the first byte of a text that is not UTF-8, -1 if there is none.
func invalidByte(s string) int {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

func slash(name string) string {
	if name == "" {
		return ""
	}
	return "/" + name
}

// send sends a message for an answer. in is further input of the intent.
func (t *Talk) send(ctx context.Context, said string, in edn.MapBuilder, show func(Event)) error {
	in.Key("text", edn.Text(said))
	in.OptText("draft/id", t.draft)
	return t.answered(ctx, "send", in, show)
}

// answered calls an intent that makes a model or an agent answer.
func (t *Talk) answered(ctx context.Context, intent string, in edn.MapBuilder, show func(Event)) error {
	in.OptText("system", t.System)
	if t.Model != "" {
		in.Key("model", edn.MustMap(edn.K("cap/ref"), edn.K(t.Model)))
	}
	switch t.Agent {
	case "":
	case agentIntent:
		in.Key("agent", edn.K(agentIntent))
	default:
		in.Key("agent", edn.MustMap(edn.K("cap/ref"), edn.K(t.Agent)))
	}
	t.last = hearing{show: show}
	out, err := t.change(ctx, intent, in, t.last.hear)
	t.spent = append(t.spent, spending{t.last.usage, err == nil})
	if t.last.draft != "" {
		t.draft = t.last.draft
	}
	if err != nil {
		return err
	}
	answer := Answer{Text: text(out, "text"), Value: out}
	for m := range out.Key("messages").Elems() {
		answer.By = author(m)
	}
	show(answer)
	return nil
}

const (
	agentIntent = "agent/run"
	modelIntent = "model/chat"
)

// change calls an intent that creates a version of the conversation from the one that this talk
// knows.
func (t *Talk) change(ctx context.Context, intent string, in edn.MapBuilder, show func(edn.Value) error) (edn.Value, error) {
	in.Key("base-version", edn.Int(t.version))
	out, err := t.ask(ctx, intent, in, show)
	if v, ok := out.Key("version").AsInt(); ok && err == nil {
		t.version = v
	}
	return out, err
}

// get returns the conversation with its last turns; window is their number.
func (t *Talk) get(ctx context.Context, window int) (edn.Value, error) {
	var in edn.MapBuilder
	in.Key("window", edn.Int(int64(window)))
	return t.ask(ctx, "get", in, nil)
}

// ask calls an intent for the conversation and returns its output.
func (t *Talk) ask(ctx context.Context, intent string, in edn.MapBuilder, show func(edn.Value) error) (edn.Value, error) {
	in.OptText("conversation/id", t.id)
	request := edn.MustMap(
		edn.K("proto"), edn.Int(contract.Proto),
		edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("chat")),
		edn.K("task"), edn.MustMap(edn.K("intent"), edn.K("conversation/"+intent)),
		edn.K("input"), in.Map(),
	)
	response, err := t.caller.Call(ctx, t.Apply(request), show)
	if err != nil {
		return edn.Nil(), err
	}
	if show != nil {
		t.last.usage = usageOf(response.Key("usage"))
	}
	if failure := response.Key("error"); !failure.IsNil() {
		return edn.Nil(), contract.ErrorFromValue(failure, contract.SourceHost)
	}
	return response.Key("result").Key("out"), nil
}

// hearing collects the data about the answer from the events of a run.
type hearing struct {
	show  func(Event)
	run   string
	draft string
	gates []gate
	usage usage
}

// gate is a verdict about an answer.
type gate struct {
	capability, name string
	score            edn.Value
	pass, applicable bool
}

// hear handles an event of a run. The text is that of the call of the intent itself; its answer
// comes from a nested call.
func (h *hearing) hear(e edn.Value) error {
	if h.show == nil {
		return errors.New("internal error: no answer is expected")
	}
	h.run = cmp.Or(text(e, "run"), h.run)
	outer := e.Key("path").Len() <= 1
	switch name, _ := e.Key("event").AsKeyword(); name {
	case "provisional", "chunk":
		if outer {
			h.show(Piece{text(e, "text")})
		}
	case "retract":
		if reason := word(e, "reason"); outer && reason != "canceled" { // Failed follows for "canceled"
			h.show(Retracted{reason})
		}
	case "attempt":
		if !outer && word(e, "state") == "started" {
			h.show(Asking{word(e, "cap/id")})
		}
	case "gate":
		if !outer {
			h.gates = append(h.gates, gate{
				capability: word(e, "cap/id"),
				name:       word(e, "gate"),
				score:      e.Key("score"),
				pass:       e.Key("pass").Truthy(),
				applicable: !e.Key("applicable?").Equal(edn.Bool(false)),
			})
		}
	case "progress":
		if id := text(e.Key("value"), "draft/id"); id != "" {
			h.draft = id
		}
	}
	return nil
}

// said returns a message for display.
func said(m edn.Value) Said { return Said{word(m, "role"), author(m), content(m)} }

// author returns the author of a message: the model if it is known, otherwise the agent or capability.
func author(m edn.Value) string {
	by := m.Key("attribution")
	return cmp.Or(text(by, "model"), text(by, "agent/id"), word(by, "cap/id"))
}

// content returns the text of a message, with a line for each part that is not text and for each
// tool call.
func content(m edn.Value) string {
	var parts []string
	if s, ok := m.Key("content").AsString(); ok && s != "" {
		parts = append(parts, s)
	}
	for p := range m.Key("content").Elems() {
		if s, ok := p.Key("text").AsString(); ok {
			parts = append(parts, s)
		} else if kind := word(p, "type"); kind != "tool-call" {
			parts = append(parts, "["+kind+"]")
		}
	}
	for call := range m.Key("tool/calls").Elems() {
		parts = append(parts, "[calls "+word(call, "tool/id")+"]")
	}
	return strings.Join(parts, "\n")
}

func text(v edn.Value, key string) string {
	s, _ := v.Key(key).AsString()
	return s
}

// word returns a value that is a keyword or a string.
func word(v edn.Value, key string) string {
	s, _ := v.Key(key).AsKeyword()
	return cmp.Or(s, text(v, key))
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
