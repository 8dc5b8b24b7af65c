package sdk

import (
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// agentStream sends the deltas of an agent to the host and collects its messages.
// The texts that it sent since the last retraction are, joined, the :text of the
// output: [contract.AnswerText] of the messages.
type agentStream struct {
	out *Stream
	by  conversation.Attribution // agent and run of the messages

	messages []conversation.Message
	said     strings.Builder // text of the complete messages
	open     strings.Builder // sent text of the message that is being written
	err      error           // of sending
}

// show sends the next delta to the host and reports whether the agent can continue.
// If it cannot, s.err is set.
func (s *agentStream) show(d conversation.Delta) bool {
	switch d.Kind {
	case conversation.DeltaText:
		s.err = s.piece(d.Text)
	case conversation.DeltaReasoning:
		s.err = s.out.Reasoning(d.Text)
	case conversation.DeltaCall:
		s.err = s.out.delta("tool-call", d.Text)
	case conversation.DeltaRetract:
		s.err = s.retract(d.Text)
	case conversation.DeltaMessage:
		s.err = s.message(d.Message)
	}
	return s.err == nil
}

// apart returns text, with an empty line before it if earlier messages had text.
func (s *agentStream) apart(text string) string {
	if text != "" && s.said.Len() > 0 {
		return contract.Paragraph + text
	}
	return text
}

func (s *agentStream) piece(text string) error {
	if s.open.Len() == 0 {
		text = s.apart(text)
	}
	return s.send(text)
}

func (s *agentStream) send(text string) error {
	if text == "" {
		return nil
	}
	s.open.WriteString(text)
	return s.out.Text(text)
}

// retract withdraws the text of the message that is being written.
func (s *agentStream) retract(reason string) error {
	if s.open.Len() == 0 {
		return nil
	}
	s.open.Reset()
	if err := s.out.Retract(reason); err != nil || s.said.Len() == 0 {
		return err
	}
	return s.out.Text(s.said.String()) // a retraction withdraws all text of the call
}

// message completes the message that is being written: it sends the text that the
// sent pieces did not contain, and m itself. Pieces that are not a prefix of the
// text are retracted first.
func (s *agentStream) message(m conversation.Message) error {
	if m.Empty() {
		return agentError(s.by.Agent, &conversation.InvalidError{Part: -1, Reason: "the agent returned an empty message"})
	}
	by := m.Attribution()
	if by.Agent == "" {
		by.Agent = s.by.Agent
	}
	if by.Run == "" {
		by.Run = s.by.Run
	}
	m = m.WithAttribution(by)
	text := ""
	if m.Role() == conversation.RoleAssistant {
		text = s.apart(m.Text())
	}
	if !strings.HasPrefix(text, s.open.String()) {
		if err := s.retract("stream/malformed"); err != nil {
			return err
		}
	}
	if err := s.send(text[s.open.Len():]); err != nil {
		return err
	}
	s.said.WriteString(text)
	s.open.Reset()
	s.messages = append(s.messages, m)
	return s.out.Delta(edn.MustMap(edn.K("kind"), edn.K("message"), edn.K("message"), contract.MessageValue(m)))
}

// finish returns the reason why the model stopped in the last message.
func (s *agentStream) finish() string {
	if len(s.messages) == 0 {
		return ""
	}
	return s.messages[len(s.messages)-1].Attribution().Finish
}

func (s *agentStream) output(finish string) edn.Value {
	values := make([]edn.Value, len(s.messages))
	for i, m := range s.messages {
		values[i] = contract.MessageValue(m)
	}
	stop := "done"
	if finish == "length" || finish == "refused" {
		stop = finish
	}
	var out edn.MapBuilder
	out.Key("messages", edn.Vector(values...))
	out.OptText("text", s.said.String())
	out.Key("agent/stop", edn.K(stop))
	return out.Map()
}
