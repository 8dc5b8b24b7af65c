package conversation

import (
	"context"
	"iter"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// AgentIntent is the intent that agents serve.
const AgentIntent = "agent/run"

const modelIntent = "model/chat"

// maxDrafts is the maximum number of drafts of a conversation. At the limit a new draft is
// rejected, so that no stored text is lost; existing drafts can still be sent.
const maxDrafts = 64

// systemOf returns the :system of a call. The error is conversation/invalid-message for one that
// no model could be sent.
func (c *Call) systemOf() (conversation.Message, *contract.Error) {
	m := conversation.System(text(c.Input, "system"))
	if m.Empty() {
		return m, nil
	}
	return m, turns.CheckMessage(m, edn.K("system"))
}

// send commits a message of the user and the answer of a model or an agent in one commit:
// after the path, or with :at-turn as an alternative of a turn of the user. The message is
// stored as a draft before the model is called: a failure or a crash loses no text and
// commits no message without its answer (CNV-021).
func (s *Service) send(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	id := text(c.Input, keyID)
	leave, err := s.lines.enter(ctx, id, c.holder())
	if err != nil {
		return edn.Nil(), err
	}
	defer leave()
	draft, at, err := s.draft(ctx, c, id)
	if err != nil {
		return edn.Nil(), err
	}
	if at == nil {
		return s.sent(ctx, c, id)
	}
	c.event("user-message-added", func(b *edn.MapBuilder) { b.Key(keyDraft, edn.Text(draft.Key)) })
	at.said, at.path = append(at.said, []conversation.Message{draft.Message}), append(at.path, turns.Step{Role: conversation.RoleUser})
	out, err := s.answer(ctx, c, at)
	if err != nil {
		return edn.Nil(), err
	}
	w, err := s.change(ctx, c, id, anyVersion, func(st state) (commit, *contract.Error) {
		if err := at.still(st); err != nil {
			return commit{}, err
		}
		if err := st.onlyActsSince(at.of.Version, c.Input); err != nil {
			return commit{}, err
		}
		do, err := st.exchange(c.Input, draft.Message, out)
		if err != nil {
			return commit{}, err
		}
		drop, failure := st.drafted(draft, text(c.Input, keyDraft))
		if failure != nil {
			return commit{}, failed("read conversation "+st.ID, failure)
		}
		return commit{Change: do, drop: drop}, follows(st, do)
	})
	return s.answered(c, w, out, err)
}

// exchange returns the change that adds a message and its answer to the path.
func (st state) exchange(input edn.Value, m conversation.Message, answer []conversation.Message) (turns.Change, *contract.Error) {
	if !input.HasKey(keyAt) {
		return turns.Append(st.Turns, append([]conversation.Message{m}, answer...)), nil
	}
	path, failure := st.Path(0)
	if failure != nil {
		return turns.Change{}, failed("read conversation "+st.ID, failure)
	}
	return path.Exchange(turns.ParseTurn(text(input, keyAt)), m, answer)
}

// onlyActsSince rejects the commit of an answer if the path has changed since version.
// Turns that acts added to the conversation of their session do not count, unless the
// answer replaces a turn: the answer is already paid for, so it is appended after them.
func (st state) onlyActsSince(version int64, input edn.Value) *contract.Error {
	if version == st.Version {
		return nil
	}
	if input.HasKey(keyAt) {
		return conflict(st.ID, version, st.Version)
	}
	since, err := st.Commits(int(max(0, st.Version-version)))
	if err != nil {
		return failed("read conversation "+st.ID, err)
	}
	if len(since) == 0 || slices.ContainsFunc(since, func(k Commit) bool { return k.Kind != kindAct }) {
		return conflict(st.ID, version, st.Version)
	}
	return nil
}

// answerAt is the path that a model or an agent answers.
type answerAt struct{ view }

// still rejects a commit if the conversation was deleted and another one has its id. The version of
// that one can be the same.
func (at *answerAt) still(st state) *contract.Error {
	if at.of.is(st.Conversation) {
		return nil
	}
	err := contract.Errorf("conversation/conflict", "conversation %s was deleted, and another one was opened with its id", st.ID)
	return err.WithDetail("base", edn.Int(at.of.Version)).WithDetail("current", edn.Int(st.Version)).WithHint("send the message to the new conversation")
}

// at reads the first until turns of the path, all for -1.
func (s *Service) at(c *Call, st state, until int) (*answerAt, error) {
	path, said, err := st.whole()
	if err != nil {
		return nil, err
	}
	if until < 0 {
		until = len(path)
	}
	known, err := st.Summaries()
	if err != nil {
		return nil, err
	}
	rules := *s.rules.Load()
	if n, ok := c.Input.Key("window").AsInt(); ok && n > 0 {
		rules.Window.Turns = int(min(n, turns.MaxTurns))
	}
	v := view{s: s, c: c, of: st.Conversation, path: path[:until:until], said: said[:until:until], known: known, limits: rules}
	return &answerAt{v}, nil
}

// draft stores the message of a call as a draft and returns the path that is to be
// answered; at is nil if the call has committed before, and then no draft is stored.
func (s *Service) draft(ctx context.Context, c *Call, id string) (draft Draft, at *answerAt, err *contract.Error) {
	_, failure := s.store.Update(ctx, id, func(r Reader) (Change, error) {
		at = nil
		st, err := c.open(r, id)
		if err != nil {
			return Change{}, err
		}
		if _, made, failure := r.Committed(c.Key); failure != nil || made {
			return Change{}, failure
		}
		if err := st.has(base(c.Input)); err != nil {
			return Change{}, err
		}
		if err := s.thawed(ctx, st.Conversation); err != nil {
			return Change{}, err
		}
		all, failure := st.Drafts()
		if failure != nil {
			return Change{}, failure
		}
		draft = Draft{Key: c.Key, Run: c.Run, At: s.clock()}
		if draft.Message, err = c.message(all); err != nil {
			return Change{}, err
		}
		was := text(c.Input, keyDraft)
		repeated := slices.ContainsFunc(all, func(d Draft) bool { return d.Key == c.Key })
		if was != "" && !repeated {
			if _, err := draftOf(all, was); err != nil {
				return Change{}, err
			}
		}
		if _, err := c.systemOf(); err != nil {
			return Change{}, err
		}
		full, err := st.exchange(c.Input, draft.Message, []conversation.Message{conversation.Assistant("-")})
		if err != nil {
			return Change{}, err
		}
		if err := (commit{Change: full}).fits(st); err != nil {
			return Change{}, err
		}
		if at, failure = s.at(c, st, full.Keep); failure != nil {
			return Change{}, failure
		}
		change := Change{AddDraft: &draft}
		for _, d := range all { // at most one draft per text, besides the one that is sent again
			if d.Key == was && c.replaces() || d.Key != was && d.Message.Equal(draft.Message) {
				change.DropDrafts = append(change.DropDrafts, d.Key)
			}
		}
		if n := len(all) - len(change.DropDrafts); n >= maxDrafts && (was == "" || c.replaces()) {
			return Change{}, contract.Errorf("conversation/too-large", "the conversation has %d drafts, which is the limit", n).
				WithDetail("limit", edn.Int(maxDrafts)).WithDetail("found", edn.Int(int64(n))).
				WithHint("send or delete a draft by its :draft/id; :conversation/get lists the drafts")
		}
		return change, nil
	})
	return draft, at, failed("send to conversation "+id, failure)
}

// replaces reports whether the input has a text of its own, which takes the place of the
// draft that it may name.
func (c *Call) replaces() bool { return c.Input.HasKey("text") || c.Input.HasKey("content") }

// message returns the message of a call: its text, its parts, or the named one of the
// drafts.
func (c *Call) message(drafts []Draft) (conversation.Message, *contract.Error) {
	if id := text(c.Input, keyDraft); id != "" && !c.replaces() {
		d, err := draftOf(drafts, id)
		if err == nil { // it may be older than the checks
			err = turns.CheckMessage(d.Message, edn.K(keyDraft))
		}
		return d.Message, err
	}
	if !c.replaces() {
		return conversation.Message{}, contract.Errorf("conversation/invalid-message",
			"the input has no message: expected one of :text, :content and :draft/id").
			WithDetail("path", edn.Vector()).WithDetail("expected", edn.Vector(edn.K("text"), edn.K("content"), edn.K(keyDraft)))
	}
	switch hasText, hasContent := c.Input.HasKey("text"), c.Input.HasKey("content"); {
	case hasText && hasContent:
		return conversation.Message{}, contract.Errorf("conversation/invalid-message",
			"the input has both :text and :content: expected one of them").
			WithDetail("path", edn.Vector(edn.K("text")))
	case hasText:
		m := conversation.User(text(c.Input, "text"))
		return m, turns.CheckMessage(m, edn.K("text"))
	}
	m, err := contract.MessageFromValue(edn.MustMap(edn.K("role"), edn.K(string(conversation.RoleUser)), edn.K("content"), c.Input.Key("content")))
	if err != nil {
		return m, err
	}
	return m, turns.CheckMessage(m, edn.K("content"))
}

// draftOf returns the draft with an id; the error is conversation/invalid-message.
func draftOf(drafts []Draft, id string) (Draft, *contract.Error) {
	i := slices.IndexFunc(drafts, func(d Draft) bool { return d.Key == id })
	if i < 0 {
		return Draft{}, contract.Errorf("conversation/invalid-message", "the conversation has no draft %q", id).
			WithDetail("path", edn.Vector(edn.K(keyDraft))).
			WithHint("it was sent, replaced or deleted: :conversation/get lists the drafts; leave :draft/id out to send a new message")
	}
	return drafts[i], nil
}

// drafted returns the keys of the drafts that the commit of draft d removes: d, the draft
// was that it replaced, and others with the same content.
func (st state) drafted(d Draft, was string) (keys []string, err error) {
	all, err := st.Drafts()
	for _, other := range all {
		if other.Key == d.Key || other.Key == was || other.Message.Equal(d.Message) {
			keys = append(keys, other.Key)
		}
	}
	return keys, err
}

// regenerate adds another answer to a turn of the assistant, by default the first one of the last
// answer, and selects it.
func (s *Service) regenerate(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	id := text(c.Input, keyID)
	leave, err := s.lines.enter(ctx, id, c.holder())
	if err != nil {
		return edn.Nil(), err
	}
	defer leave()
	var turn int64
	var at *answerAt
	err = s.read(ctx, c, id, func(st state) error {
		if _, made, err := st.Committed(c.Key); err != nil || made {
			return err
		}
		if err := st.has(base(c.Input)); err != nil {
			return err
		}
		if err := s.thawed(ctx, st.Conversation); err != nil {
			return err
		}
		path, err := st.Path(0)
		if err != nil {
			return err
		}
		i, failure := st.regenerated(path, c.Input)
		if failure != nil {
			return failure
		}
		turn = path[i].Turn
		full, wrong := path.Answer(turn, []conversation.Message{conversation.Assistant("-")}, tail(c.Input))
		if wrong != nil {
			return wrong
		}
		if err := (commit{Change: full}).fits(st); err != nil {
			return err
		}
		at, err = s.at(c, st, i)
		return err
	})
	switch {
	case err != nil:
		return edn.Nil(), err
	case at == nil:
		return s.sent(ctx, c, id)
	}
	out, err := s.answer(ctx, c, at)
	if err != nil {
		return edn.Nil(), err
	}
	w, err := s.change(ctx, c, id, anyVersion, func(st state) (commit, *contract.Error) {
		if err := at.still(st); err != nil {
			return commit{}, err
		}
		if err := st.has(at.of.Version); err != nil {
			return commit{}, err
		}
		return st.answered(turn, out, tail(c.Input))
	})
	return s.answered(c, w, out, err)
}

// regenerated returns the position of the turn that a call regenerates.
func (st state) regenerated(path turns.Path, input edn.Value) (i int, err error) {
	if input.HasKey(keyTurn) {
		var missing *contract.Error
		if i, missing = path.Index(turnOf(input)); missing != nil {
			return 0, missing
		}
	} else if i, err = st.lastAnswer(path, tail(input)); err != nil {
		return 0, err
	}
	switch {
	case i < 0:
		return 0, contract.Errorf("conversation/turn-not-in-path", "the path has no turn of the assistant to regenerate")
	case path[i].Role != conversation.RoleAssistant:
		return 0, contract.Errorf("conversation/invalid-message", "turn %s is of the role %s, expected one of the assistant",
			turns.TurnID(path[i].Turn), path[i].Role).WithHint("edit the turn, or regenerate the one after it")
	}
	return i, nil
}

// lastAnswer returns the position at which the last answer begins, -1 if there is none. The tool calls
// of an agent and their results belong to its answer; all have its run. If later turns are kept, it is
// the last turn of the answer, because results would be kept without their calls.
func (st state) lastAnswer(path turns.Path, tail turns.Tail) (int, error) {
	i := len(path) - 1
	for i >= 0 && path[i].Role != conversation.RoleAssistant {
		i--
	}
	if tail == turns.Keep {
		return i, nil
	}
	run := ""
	for at := i; at >= 0 && (path[at].Role == conversation.RoleAssistant || path[at].Role == conversation.RoleTool); at-- {
		said, err := st.Said(path[at].Span)
		switch {
		case err != nil:
			return 0, err
		case len(said) == 0 || at < i && said[0].Attribution().Run != run:
			return i, nil
		}
		if run = said[0].Attribution().Run; run == "" {
			return i, nil
		}
		if path[at].Role == conversation.RoleAssistant {
			i = at
		}
	}
	return i, nil
}

// answer calls the model or the agent of a call and returns the messages that follow the
// path.
func (s *Service) answer(ctx context.Context, c *Call, at *answerAt) ([]conversation.Message, *contract.Error) {
	out, err := s.ask(ctx, c, at)
	if err != nil {
		c.event("error", func(b *edn.MapBuilder) { b.Key("error", err.Value()) })
		return nil, err
	}
	was, is := lastAnswer(flat(at.said)), lastAnswer(slices.Values(out))
	if was.Capability+was.Model != "" && (was.Capability != is.Capability || was.Model != is.Model) {
		c.event("model-changed", func(b *edn.MapBuilder) {
			b.OptKeyword("cap/id", is.Capability)
			b.OptText("model", is.Model)
		})
	}
	return out, nil
}

// lastAnswer returns the attribution of the last message of an assistant.
func lastAnswer(messages iter.Seq[conversation.Message]) (by conversation.Attribution) {
	for m := range messages {
		if m.Role() == conversation.RoleAssistant {
			by = m.Attribution()
		}
	}
	return by
}

func (s *Service) ask(ctx context.Context, c *Call, at *answerAt) ([]conversation.Message, *contract.Error) {
	messages, cut, err := at.messages(ctx)
	if err != nil {
		return nil, err
	}
	if cut {
		c.event("turns-cut", nil)
	}
	system, err := c.systemOf()
	if err != nil {
		return nil, err
	}
	if !system.Empty() {
		messages = append([]conversation.Message{system}, messages...)
	}
	if c.Input.HasKey("agent") {
		return s.askAgent(ctx, c, at, messages)
	}
	task := target(c.Input.Key("model"), modelIntent)
	intent, _ := task.Key("intent").AsKeyword()
	response, err := c.Ask(ctx, edn.MustMap(
		edn.K("task"), task, edn.K("input"), contract.MessagesInput(intent, slices.Values(messages))), c.Show)
	if err != nil {
		return nil, unfit(intent, err)
	}
	m, err := contract.MessageFromAnswer(response.Key("result").Key("out"))
	if err != nil {
		return nil, unfit(intent, err)
	}
	if err := turns.CheckMessage(m, edn.K("text")); err != nil {
		return nil, ofAnswer(err)
	}
	return []conversation.Message{m.WithAttribution(c.modelled(m, response))}, nil
}

// unfit returns the error of a call of an intent. If the :model of the caller is an intent whose
// schemas do not fit a conversation, the error is about that key: the caller did not write the
// input that was rejected.
func unfit(intent string, err *contract.Error) *contract.Error {
	if intent == modelIntent || err.Type != "invalid-request" && err.Type != "conversation/invalid-message" {
		return err
	}
	return contract.Errorf("invalid-request", ":model :%s cannot answer a conversation: %s", intent, err.Message).
		WithDetail("path", edn.Vector(edn.K("model"))).
		WithHint("name an intent that takes :prompt and answers with a text, or leave :model out for :" + modelIntent)
}

// turn returns the id of the last committed turn, to which conversations belong that an
// agent spawns; TurnID(0) if there is none.
func (at *answerAt) turn() string {
	for _, step := range slices.Backward(at.path) {
		if step.Turn != 0 {
			return turns.TurnID(step.Turn)
		}
	}
	return turns.TurnID(0)
}

// Resolve returns the input of an agent call. An input without a conversation is returned
// unchanged. Otherwise the conversation must be one of the caller, and the input gets the turn that
// the agent answers, which must be on the path (CNV-014). If it has no :messages, it gets those of
// the conversation, of at most the last :window turns (CNV-013). The errors include
// conversation/not-found, conversation/turn-not-in-path, and conversation/invalid-message for a
// conversation without messages.
func (s *Service) Resolve(ctx context.Context, c Call) (edn.Value, *contract.Error) {
	id := text(c.Input, keyID)
	if id == "" {
		return c.Input, nil
	}
	var at *answerAt
	err := s.read(ctx, &c, id, func(st state) (err error) {
		at, err = s.at(&c, st, -1)
		return err
	})
	if err != nil {
		return edn.Nil(), err
	}
	if c.Input.HasKey("messages") {
		if named := text(c.Input, keyTurn); named != "" && named != turns.TurnID(0) {
			if _, err := at.path.Index(turns.ParseTurn(named)); err != nil {
				return edn.Nil(), err
			}
			return c.Input, nil
		}
		return c.Input.AssocKey(keyTurn, edn.Text(at.turn())), nil
	}
	messages, _, err := at.messages(ctx)
	switch {
	case err != nil:
		return edn.Nil(), err
	case len(messages) == 0:
		return edn.Nil(), contract.Errorf("conversation/invalid-message", "conversation %s has no message that an agent could answer", id).
			WithDetail("path", edn.Vector(edn.K(keyID)))
	}
	return c.Input.AssocKey("messages", messageList(messages)).AssocKey(keyTurn, edn.Text(at.turn())), nil
}

// askAgent calls an agent with the model and the tools of the input of the call, and with
// the ids of the conversation and the turn.
func (s *Service) askAgent(ctx context.Context, c *Call, at *answerAt, messages []conversation.Message) ([]conversation.Message, *contract.Error) {
	var input edn.MapBuilder
	input.Key("messages", messageList(messages))
	input.Key(keyID, edn.Text(at.of.ID))
	input.Key(keyTurn, edn.Text(at.turn()))
	model := c.Input.Key("model")
	if model.IsNil() {
		model = edn.K(modelIntent)
	}
	input.Key("model", model)
	input.Opt("tools", c.Input.Key("tools"))
	response, err := c.Ask(ctx, edn.MustMap(
		edn.K("task"), target(c.Input.Key("agent"), AgentIntent),
		edn.K("input"), input.Map()), c.Show)
	if err != nil {
		return nil, err
	}
	out, err := c.agentMessages(response)
	if err != nil {
		return nil, ofAnswer(err)
	}
	return out, nil
}

// agentMessages returns the messages of the answer of an agent, which are of the roles assistant
// and tool: the others are those of its callers.
func (c *Call) agentMessages(response edn.Value) ([]conversation.Message, *contract.Error) {
	out, err := messagesOf(response.Key("result").Key("out"))
	if err != nil {
		return nil, err
	}
	agent := answeredBy(response)
	if handle, ok := contract.HandleOf(c.Input.Key("agent")); ok && agent == "" {
		agent = handle
	}
	for i, m := range out {
		if m.Role() != conversation.RoleAssistant && m.Role() != conversation.RoleTool {
			at := edn.Vector(edn.K("messages"), edn.Int(int64(i)), edn.K("role"))
			return nil, contract.Errorf("conversation/invalid-message", "%s: an agent answers with messages of the roles assistant and tool, not %s",
				at, m.Role()).WithDetail("path", at)
		}
		by := m.Attribution()
		out[i] = m.WithAttribution(conversation.Attribution{Agent: agent, Model: by.Model, Run: c.Run, Finish: by.Finish})
	}
	return out, nil
}

// ofAnswer returns the error about an answer that a conversation cannot store. The message that was
// sent stays a draft.
func ofAnswer(err *contract.Error) *contract.Error {
	out := contract.Errorf(err.Type, "the answer: %s", err.Message).WithDetails(err.Details)
	if err.Type != "conversation/too-large" {
		return out.WithHint("send the message again, or to another model")
	}
	return out.WithHint("ask for a shorter answer, or lower the max_tokens of the intent")
}

// target returns the :task that calls the capability of a handle, the intent of a keyword,
// or else the given intent.
func target(of edn.Value, intent string) edn.Value {
	if id, ok := contract.HandleOf(of); ok {
		return edn.MustMap(edn.K("intent"), edn.K(intent), edn.K("cap/id"), edn.K(id))
	}
	if name, ok := of.AsKeyword(); ok {
		intent = name
	}
	return edn.MustMap(edn.K("intent"), edn.K(intent))
}

func messageList(messages []conversation.Message) edn.Value {
	out := make([]edn.Value, len(messages))
	for i, m := range messages {
		out[i] = contract.MessageValue(m.WithAttribution(conversation.Attribution{}))
	}
	return edn.Vector(out...)
}

// modelled returns the attribution of the message of a model. The host states it.
func (c *Call) modelled(m conversation.Message, response edn.Value) conversation.Attribution {
	model, ok := response.Key("invoke/meta").Key("model").AsString()
	if !ok {
		model, _ = response.Key("result").Key("out").Key("model").AsString()
	}
	return conversation.Attribution{Capability: answeredBy(response), Model: model, Run: c.Run, Finish: m.Attribution().Finish}
}

// answeredBy returns the capability that gave a response.
func answeredBy(response edn.Value) string {
	id, _ := response.Key("invoke/meta").Key("cap/id").AsKeyword()
	return id
}

// answered returns the output of a call that committed the messages of a model or an agent,
// and sends the event completed or error.
func (s *Service) answered(c *Call, w written, out []conversation.Message, err *contract.Error) (edn.Value, *contract.Error) {
	if err != nil {
		c.event("error", func(b *edn.MapBuilder) { b.Key("error", err.Value()) })
		return edn.Nil(), err
	}
	c.event("completed", func(b *edn.MapBuilder) { b.Key("version", edn.Int(w.Version)) })
	b := w.value()
	values := make([]edn.Value, len(out))
	for i, m := range out {
		values[i] = contract.MessageValue(m)
	}
	b.Key("messages", edn.Vector(values...))
	b.OptText("text", contract.AnswerText(slices.Values(out)))
	return b.Map(), nil
}

// sent returns the output of a call that has committed before.
func (s *Service) sent(ctx context.Context, c *Call, id string) (edn.Value, *contract.Error) {
	var w written
	var out []conversation.Message
	err := s.read(ctx, c, id, func(st state) error {
		made, found, err := st.Committed(c.Key)
		if err != nil || !found {
			return err
		}
		if w, err = st.made(made); err != nil {
			return err
		}
		said, err := st.Messages(made.Version, w.first)
		for m := range flat(said) {
			if m.Role() != conversation.RoleUser {
				out = append(out, m)
			}
		}
		return err
	})
	return s.answered(c, w, out, err)
}
