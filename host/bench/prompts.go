package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// prompts compares composing the prompt of a call with a bare plugin call of the composed prompt
// (PRM-009).
func prompts(p pace) ([]row, error) {
	book := &prompt.Book{Roles: map[string]*prompt.Layer{}, Intents: map[string]*prompt.Layer{}}
	for _, x := range []struct {
		name string
		put  func(*prompt.Layer)
	}{
		{"prompts.default", func(l *prompt.Layer) { book.Default = l }},
		{"prompts.roles.voice", func(l *prompt.Layer) { book.Roles["voice"] = l }},
		{"prompts.intents.text/respond", func(l *prompt.Layer) { book.Intents["text/respond"] = l }},
	} {
		l, problems := prompt.NewLayer(x.name, "ferment.hcl:1:1", []string{strings.Repeat("Write in whole sentences. ", 8), "Use at most {max_chars} characters."})
		if len(problems) > 0 {
			return nil, fmt.Errorf("the layer %s: %s", x.name, problems[0].Message)
		}
		x.put(l)
	}
	text, err := schema.Compile(schema.Builtin()["res/text"])
	if err != nil {
		return nil, err
	}
	prepared := book.Prepare(prompt.Setting{
		Intent: "text/respond", Role: "voice", Schema: text, SchemaName: "res/text",
		Constraints: edn.MustRead(`{:max-chars 1200}`), Context: edn.MustMap(edn.K("summary"), edn.Text(strings.Repeat("They spoke of bees. ", 20))),
	})
	call := prompt.Call{Input: edn.MustMap(edn.K("prompt"), edn.Text(strings.Repeat("How do bees talk? ", 20)))}
	payload := edn.Write(prepared.Compose(call).Value)
	b, err := startBare()
	if err != nil {
		return nil, err
	}
	defer b.close()
	var failed error
	took := alternate(p, func() { prepared.Compose(call) }, func() {
		if err := b.echo(context.Background(), payload); err != nil {
			failed = err
		}
	})
	if failed != nil {
		return nil, failed
	}
	return []row{against(fmt.Sprintf("compose a prompt, %d B", len(payload)), took[0], "go-plugin echo", took[1], 0.1)}, nil
}
