package dialect

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/sdk/conversation"
)

// The forms of ids of calls that servers accept.
var (
	// langchain-ai/langchain pull request 24668, 2026-11-28
	nineLetters = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	// maximhq/bifrost issue 5097, 2026-11-28
	plainID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	// agno-agi/agno issue 5382, 2026-11-28
	fortyLetters = regexp.MustCompile(`^.{1,40}$`)
	// openclaw/openclaw pull request 875, 2026-11-28
	sixtyFourLetters = regexp.MustCompile(`^.{1,64}$`)
	anyID            = regexp.MustCompile(``)
)

// mistrals are parts of the names of models whose templates accept only nineLetters, on any server
// (ml-explore/mlx-lm pull request 1399, openclaw/openclaw issue 57672, 2026-11-28).
var mistrals = []string{"mistral", "mixtral", "ministral", "codestral", "devstral"}

// callIDs returns the form of the ids of calls that the server accepts for a model.
func (p Preset) callIDs(model string) *regexp.Regexp {
	model = strings.ToLower(model)
	if slices.ContainsFunc(mistrals, func(s string) bool { return strings.Contains(model, s) }) {
		return nineLetters
	}
	return cmp.Or(p.CallIDs, anyID)
}

// withCallIDs returns the messages with ids of calls that the server accepts, each of one call only:
// the calls may be of another provider. An accepted id is kept, and the same conversation gives the
// same ids. No answer refers to an earlier call, so they are not mapped back.
func (p Preset) withCallIDs(model string, messages []chat.Message) []chat.Message {
	form, taken, wire := p.callIDs(model), map[string]bool{}, map[string]string{}
	out := slices.Clone(messages)
	for i := range out {
		m := &out[i]
		m.CallID = cmp.Or(wire[m.CallID], m.CallID)
		m.Calls = slices.Clone(m.Calls)
		for j, c := range m.Calls {
			accepted := c.ID
			if !form.MatchString(accepted) {
				accepted = ""
			}
			wire[c.ID] = conversation.CallID(accepted, c.ID, taken)
			m.Calls[j].ID = wire[c.ID]
		}
		if len(m.Calls) == 0 {
			continue
		}
		m.Parts = slices.Clone(m.Parts)
		for j, part := range m.Parts {
			m.Parts[j].Call = cmp.Or(wire[part.Call], part.Call)
		}
	}
	return out
}
