//go:build live

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/livetest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// fromEnv is the server of a preset as the environment gives it, or why there
// is none:
//
//	FERMENT_LIVE_<PRESET>_MODEL   name of the model; without it the preset is not run
//	FERMENT_LIVE_<PRESET>_URL     its base URL, if it is not the provider's own
//	FERMENT_LIVE_<PRESET>_KEY     the key of the account
func fromEnv(p dialect.Preset) (live, string) {
	prefix := "FERMENT_LIVE_" + strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))
	model, url, key := os.Getenv(prefix+"_MODEL"), os.Getenv(prefix+"_URL"), os.Getenv(prefix+"_KEY")
	switch {
	case model == "":
		return live{}, prefix + "_MODEL is not set"
	case p.Keyed && key == "":
		return live{}, prefix + "_KEY is not set"
	case p.Base == "" && url == "":
		return live{}, prefix + "_URL is not set"
	}
	provider := p.Name
	if p.Dialect == dialect.OpenAI && p.Name != "openai" {
		provider = "compatible"
	}
	m := edn.MustMap(edn.K("name"), edn.Text(model)).Merge(edn.MustRead(`{:intents ["model/chat" "text/respond" "eval/grade"]}`))
	config := edn.MustMap(edn.K("provider"), edn.Text(provider), edn.K("preset"), edn.Text(p.Name), edn.K("model"), edn.MustMap(edn.Text("voice"), m))
	if url != "" {
		config = config.Merge(edn.MustMap(edn.K("base-url"), edn.Text(url)))
	}
	return live{
		name: p.Name, key: key, config: config, preset: p,
		greet: "Say hello in one short sentence.",
		count: "Count from one to one thousand in words, one number on each line.",
		grade: `Grade the sentence "Water is wet." Answer with an object that has one key, "score", a number between 0 and 1.`,
		call:  "What will the weather be in Oslo tomorrow? Use the tool.",
		lacks: without(p, false),
	}, ""
}

// LM-007: the cases at every server that there is. One that was not asked is
// "not run"; if none was, the test fails, for nothing was shown.
func TestLive(t *testing.T) {
	var told report
	ran := false
	t.Run("inference-server", func(t *testing.T) {
		if missing := livetest.Missing(livetestDir); missing != "" {
			told.put("inference-server over llama.cpp", "not run: "+missing)
			t.Skip("not run: " + missing)
		}
		ran = true
		served(livetest.Start(t, livetestDir)).all(t, &told)
	})
	t.Run("Ollama", func(t *testing.T) {
		program := os.Getenv(ollamaProgram)
		if program == "" {
			told.put("Ollama, built", "not run: "+ollamaProgram+" is not set")
			t.Skip("not run: " + ollamaProgram + " is not set")
		}
		ran = true
		for _, l := range atOllama(livetest.StartOllama(t, program)) {
			t.Run(l.preset.Name, func(t *testing.T) {
				l.all(t, &told)
				t.Run("as it behaves", func(t *testing.T) { ollamaHabits(t, l) })
			})
		}
	})
	for _, p := range dialect.Presets() {
		t.Run(p.Name, func(t *testing.T) {
			l, missing := fromEnv(p)
			if missing != "" {
				told.put(p.Name, "not run: "+missing)
				t.Skip("not run: " + missing)
			}
			ran = true
			l.all(t, &told)
		})
	}
	fmt.Println()
	told.print()
	if !ran {
		t.Fatal("no server was asked: set the variables of at least one, see README.md")
	}
}
