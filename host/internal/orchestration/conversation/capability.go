package conversation

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Schemas of all intents.
const (
	inSchema  = "req/conversation"
	outSchema = "res/conversation"
)

// Effects of the intents.
const (
	reads  = "db/read"
	writes = "db/write"
)

// served are the capabilities of the host, with their intents. answers is true for those in
// which a model or an agent answers (CNV-026).
var served = []struct {
	id, effect, about string
	intents           []string
	answers           bool
}{
	{"conversation/read", reads, "reads conversations", []string{"get", "list"}, false},
	{"conversation/write", writes, "changes conversations", []string{
		"append", "archive", "delete", "edit", "fork", "open", "restore", "result", "select", "spawn", "truncate",
	}, false},
	{"conversation/run", writes, "has models and agents answer in conversations", []string{"regenerate", "send"}, true},
}

// Capabilities returns the capabilities of the host that serve conversations.
func Capabilities() []registry.Capability {
	out := make([]registry.Capability, len(served))
	for i, s := range served {
		out[i] = registry.Capability{Host: true, Capability: contract.Capability{
			ID:          s.id,
			Kind:        "host",
			Version:     "1.0.0",
			Intents:     names(s.intents),
			CanProduce:  []string{"value"},
			Effects:     []string{s.effect},
			InSchema:    contract.SchemaRef{Name: inSchema},
			OutSchema:   contract.SchemaRef{Name: outSchema},
			Cost:        contract.Cost{USD: edn.Int(0)},
			Idempotent:  true,
			Streams:     s.answers,
			Stability:   "stable",
			Description: s.about,
		}}
	}
	return out
}

// Intents returns the intents of the host for conversations.
func Intents() (out []registry.Intent) {
	for _, s := range served {
		for _, id := range names(s.intents) {
			out = append(out, registry.Intent{ID: id, In: inSchema, Out: outSchema, Effects: []string{s.effect}, Host: true})
		}
	}
	return out
}

func names(short []string) []string {
	out := make([]string, len(short))
	for i, name := range short {
		out[i] = "conversation/" + name
	}
	return out
}

// Policies adds the policies of the intents whose answers are streamed to book. Streaming
// is provisional, because the answer has already passed the gates of the model or the
// agent, whose policy decides when text is streamed.
func Policies(book *policy.Book) {
	for _, s := range served {
		if !s.answers {
			continue
		}
		for _, id := range names(s.intents) {
			book.Intents[id] = policy.Layer{Stream: policy.Of(policy.Provisional, policy.Origin{Source: policy.SourceBuiltin})}
		}
	}
}
