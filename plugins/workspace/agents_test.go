package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-064: an agent that may have a model write frames and lacks prompts is listed, shown
// and validated with what it lacks; validate without an agent is about all.
func TestProblemsOfAgents(t *testing.T) {
	b := start(t, nil, func(cfg map[string]any) {
		cfg["agent"] = edn.MustRead(`{"bare" {:role "writer" :prompts {:system "s"}}
			"notes" {:role "writer" :capabilities ["frame/append"]} "reader" {:role "reader"}}`)
	})
	one := func(op, name string) edn.Value {
		t.Helper()
		return b.call("context/agents", `{:op `+op+` :agent/id "`+name+`"}`)
	}
	for _, op := range []string{":show", ":validate"} {
		bare := one(op, "bare")
		assert.Equal(t, "false", bare.Key("valid?").String())
		assert.Equal(t, `["no prompt \"file\" is configured" "no prompt \"directory\" is configured"]`, bare.Key("problems").String())
		for _, name := range []string{"notes", "reader", "writer"} {
			sound := one(op, name)
			assert.Equal(t, "true []", sound.Key("valid?").String()+" "+sound.Key("problems").String(), name)
		}
	}
	for _, op := range []string{":list", ":validate"} {
		all := b.call("context/agents", `{:op `+op+`}`).Key("agents")
		assert.Equal(t, 5, all.Len())
		for a := range all.Elems() {
			name, _ := a.Key("agent/id").AsString()
			assert.Equal(t, name != "bare", a.Key("valid?").Truthy(), name)
		}
	}
	b.call("workspace/scan", `{}`)
	b.fails("agent/prompt-missing", "context/generate", `{:agent/id "bare" :path "." :intent :context/summarize}`)
}

// WS-064: extractors need no prompt, so an agent without prompts can use them.
func TestExtractorsNeedNoPrompt(t *testing.T) {
	b := start(t, fourFiles, func(cfg map[string]any) {
		cfg["agent"] = edn.MustRead(`{"plain" {:role "writer"}}`)
		cfg["default-agent"] = "plain"
	})
	b.call("workspace/scan", `{}`)
	for _, more := range []string{"", ":producer :auto", ":producer :extract/text", ":producer :extract/facts", `:agent/id "plain"`} {
		b.call("context/generate", `{:path "top.txt" :frame/type "digest" `+more+`}`)
	}
	for _, more := range []string{":producer :generate", `:model "p/m"`, `:prompt "{content}"`, ":producer :generate :mode :plan"} {
		b.fails("agent/prompt-missing", "context/generate", `{:path "top.txt" :frame/type "digest" `+more+`}`)
	}
	b.fails("agent/role-denied", "context/synthesize", `{:path "." :frame/type "digest"}`)
}

// WS-064: a principal that no caller has is a problem at its place in the settings.
func TestPrincipalsAreChecked(t *testing.T) {
	cfg := settings{
		AllowedRoots: []string{"/"},
		Agents:       map[string]agentBlock{"docs": {Role: "writer", Principals: []string{"user/3", "ci"}}},
	}
	err := checkSettings(cfg)
	assert.ErrorContains(t, err, `[:agent "docs" :principals 1]`)
	assert.ErrorContains(t, err, "user/N")
	cfg.Agents["docs"].Principals[1] = "local"
	assert.NoError(t, checkSettings(cfg))
}
