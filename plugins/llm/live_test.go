//go:build live || external

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/plugins/internal/provider/livetest"
	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

const livetestDir = "../internal/provider/livetest"

// live is a real server, and what to say to it.
type live struct {
	name, key string
	config    edn.Value
	preset    dialect.Preset
	// Messages that bring each kind of answer about.
	greet, count, grade, call string
	// lacks are the cases that the server has no means for, and why.
	lacks map[string]string
}

func (l live) rig(t *testing.T, model string) *rig {
	provider, _ := l.config.Key("provider").AsString()
	config := l.config
	if model != "" {
		config = config.Merge(edn.MustMap(edn.K("model"), edn.MustMap(edn.Text("voice"), l.model().Merge(edn.MustRead(model)))))
	}
	r := &rig{t: t, id: provider + "/voice"}
	r.Plugin = sdktest.Serve(t, newPlugin(transport.System()), sdktest.WithConfig(config), sdktest.WithSecrets(secrets(l.key)), sdktest.WithoutLeakCheck())
	return r
}

func (l live) model() edn.Value {
	m, _ := l.config.Key("model").Get(edn.Text("voice"))
	return m
}

func secrets(key string) map[string]string {
	if key == "" {
		return nil
	}
	return map[string]string{"api-key": key}
}

func says(content string) string {
	return edn.MustMap(edn.K("messages"), edn.Vector(edn.MustMap(edn.K("role"), edn.K("user"), edn.K("content"), edn.Text(content)))).String()
}

func budgeted(n int) string { return fmt.Sprintf(`{:budget {:max-tokens %d :temperature 0.0}}`, n) }

// liveCases are what every real server is asked. Each spends a few tokens.
var liveCases = []struct {
	name string
	run  func(t *testing.T, l live)
}{
	{"value", func(t *testing.T, l live) {
		o := l.rig(t, "").ask(t.Context(), "text/respond", edn.MustMap(edn.K("prompt"), edn.Text(l.greet)).String(), budgeted(200), nil)
		require.Nil(t, o.err)
		text, _ := o.out.Key("text").AsString()
		assert.NotEmpty(t, strings.TrimSpace(text))
		assert.Contains(t, []string{":stop", ":length"}, o.meta.Key("finish").String())
	}},
	{"stream", func(t *testing.T, l live) {
		o := l.rig(t, "").ask(t.Context(), "model/chat", says(l.greet), budgeted(200), nil)
		require.Nil(t, o.err)
		text, _ := o.out.Key("text").AsString()
		assert.Equal(t, text, o.text, "LLM-011: the deltas make up the text")
		assert.NotEmpty(t, o.deltas)
		for i, d := range o.deltas {
			n, _ := d.Key("seq").AsInt()
			assert.EqualValues(t, i+1, n)
		}
		_, timed := o.usage.Key("first-token-ms").AsInt()
		assert.True(t, timed)
	}},
	{"usage", func(t *testing.T, l live) {
		o := l.rig(t, "").ask(t.Context(), "model/chat", says(l.greet), budgeted(200), nil)
		require.Nil(t, o.err)
		assert.Equal(t, ":live", o.usage.Key("mode").String(), "LM-003")
		for _, key := range []string{"tokens-in", "tokens-out"} {
			n, _ := o.usage.Key(key).AsInt()
			assert.Positive(t, n, key)
		}
		if l.preset.UsageInStream || l.preset.Dialect != dialect.OpenAI {
			assert.NotEqual(t, ":estimated", o.usage.Key("tokens-mark").String(), "the server tells what it took")
		}
	}},
	{"limit", func(t *testing.T, l live) {
		o := l.rig(t, "").ask(t.Context(), "model/chat", says(l.count), budgeted(16), nil)
		require.Nil(t, o.err)
		assert.Equal(t, ":length", o.meta.Key("finish").String(), "LLM-024")
	}},
	{"structured", func(t *testing.T, l live) {
		ask := edn.MustMap(edn.K("context"), edn.MustMap(edn.K("prompt"), edn.MustMap(
			edn.K("messages"), edn.Vector(edn.MustMap(edn.K("role"), edn.K("user"), edn.K("content"), edn.Text(l.grade))),
			edn.K("output"), edn.MustRead(`{:name :res/mark :schema [:map {:closed true} [:score [:number {:min 0 :max 1}]]]}`))))
		o := l.rig(t, "").ask(t.Context(), "eval/grade", `{}`, ask.Merge(edn.MustRead(budgeted(300))).String(), nil)
		require.Nil(t, o.err)
		score, ok := o.out.Key("score").AsNumber()
		require.True(t, ok, "%s", o.out)
		f, _ := score.Float64()
		assert.True(t, f >= 0 && f <= 1)
	}},
	{"tools", func(t *testing.T, l live) {
		input := edn.MustRead(says(l.call)).Merge(edn.MustRead(`{:tools [{:tool/id :weather :description "Tells the weather of tomorrow in a city." :in-schema [:map [:city :string]]}]}`))
		o := l.rig(t, "").ask(t.Context(), "model/chat", input.String(), budgeted(300), nil)
		require.Nil(t, o.err)
		assert.Equal(t, ":tool-calls", o.meta.Key("finish").String())
		calls := slices.Collect(o.out.Key("tool/calls").Elems())
		require.Len(t, calls, 1, "%s", o.out)
		call := calls[0]
		assert.Equal(t, ":weather", call.Key("tool/id").String())
		city, _ := call.Key("args").Key("city").AsString()
		assert.Equal(t, "Oslo", city)
	}},
	{"cancel", func(t *testing.T, l live) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		pieces := 0
		o := l.rig(t, "").ask(ctx, "model/chat", says(l.count), budgeted(1500), func(wire.Event) {
			if pieces++; pieces == 3 {
				cancel()
			}
		})
		require.NotNil(t, o.err, "%s", o.response)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
	}},
	{"vectors", func(t *testing.T, l live) {
		o := l.rig(t, `{:intents ["model/embed"]}`).ask(t.Context(), "model/embed", `{:texts ["a bee" "a fly"]}`, "", nil)
		require.Nil(t, o.err)
		dims, _ := o.out.Key("dims").AsInt()
		assert.Positive(t, dims)
		vectors := slices.Collect(o.out.Key("vectors").Elems())
		require.Len(t, vectors, 2)
		for _, v := range vectors {
			assert.EqualValues(t, dims, v.Len())
		}
		n, _ := o.usage.Key("tokens-in").AsInt()
		assert.Positive(t, n)
	}},
	{"unknown model", func(t *testing.T, l live) {
		o := l.rig(t, `{:name "no-such-model-anywhere"}`).ask(t.Context(), "model/chat", says(l.greet), budgeted(16), nil)
		require.NotNil(t, o.err)
		assert.Equal(t, "provider/model-not-found", o.err.Type, "%s", o.err)
		assert.True(t, o.err.Details.Key("sent?").Truthy())
	}},
}

// without are the cases that a preset has no means for. A model that chats is not
// asked for vectors unless it is known to make some.
func without(p dialect.Preset, vectors bool) map[string]string {
	lacks := map[string]string{}
	if !p.Tools {
		lacks["tools"] = "the server has no tools"
	}
	if p.EmbedPath == "" {
		lacks["vectors"] = "the format has no embeddings"
	} else if !vectors {
		lacks["vectors"] = "the model is for chats"
	}
	return lacks
}

// served is the server of package livetest as it is configured.
func served(s *livetest.Server) live {
	p, _ := dialect.PresetNamed("generic")
	p.Tools = true
	return live{
		name: "inference-server over llama.cpp", preset: p,
		config: edn.MustMap(edn.K("provider"), edn.Text("compatible"), edn.K("base-url"), edn.Text(s.URL), edn.K("model"), edn.MustMap(edn.Text("voice"),
			edn.MustMap(edn.K("name"), edn.Text(s.Model)).Merge(edn.MustRead(`{:intents ["model/chat" "text/respond" "eval/grade"] :price {:free true}
			   :quirks {:response-format "json_object" :tools true}}`)))),
		greet: livetest.Greeting, count: livetest.Counting, grade: livetest.Grading, call: livetest.CallsTool,
		lacks: without(p, false),
	}
}

// report is what became of each case at each server.
type report struct {
	names []string
	rows  map[string][]string
}

func (r *report) put(server string, cells ...string) {
	if r.rows == nil {
		r.rows = map[string][]string{}
	}
	if !slices.Contains(r.names, server) {
		r.names = append(r.names, server)
	}
	r.rows[server] = append(r.rows[server], cells...)
}

func (r *report) print() {
	w := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	for _, name := range r.names {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, strings.Join(r.rows[name], "\t"))
	}
	_ = w.Flush()
}

func (l live) all(t *testing.T, r *report) {
	for _, c := range liveCases {
		state := "failed"
		t.Run(c.name, func(t *testing.T) {
			if why := l.lacks[c.name]; why != "" {
				state = "not run: " + why
				t.Skip(state)
			}
			c.run(t, l)
			if !t.Failed() {
				state = "passed"
			}
		})
		r.put(l.name, c.name+": "+state)
	}
}

// LM-007, LLM-010, LLM-011: a server that nobody here has written answers as
// the transcripts say that servers do, and where it does not, the plugin copes.
func TestRealServer(t *testing.T) {
	l := served(livetest.Start(t, livetestDir))
	var told report
	l.all(t, &told)
	told.print()
	r := l.rig(t, "")

	t.Run("the text is the same with and without a reader", func(t *testing.T) {
		whole := r.ask(t.Context(), "text/respond", `{:prompt "hello"}`, budgeted(200), nil)
		require.Nil(t, whole.err)
		text, _ := whole.out.Key("text").AsString()
		assert.Equal(t, livetest.Text, text)
		streamed := r.ask(t.Context(), "model/chat", says(l.greet), budgeted(200), func(wire.Event) {})
		require.Nil(t, streamed.err)
		assert.Equal(t, livetest.Text, streamed.text)
		assert.Equal(t, ":stop", streamed.meta.Key("finish").String())
		assert.Equal(t, ":exact", streamed.usage.Key("tokens-mark").String())
		assert.Equal(t, "0", trimmed(streamed.usage.Key("cost-usd")), "it is free")
		n, _ := streamed.usage.Key("tokens-out").AsInt()
		assert.EqualValues(t, 13, n, "twelve words and the end")
	})
	t.Run("a limit of the call is the limit of the server", func(t *testing.T) {
		o := r.ask(t.Context(), "model/chat", says(l.count), budgeted(7), nil)
		require.Nil(t, o.err)
		text, _ := o.out.Key("text").AsString()
		assert.Equal(t, "one two three four five six seven", strings.TrimSpace(text))
		n, _ := o.usage.Key("tokens-out").AsInt()
		assert.EqualValues(t, 7, n)
	})
	t.Run("a value that is enforced as JSON", func(t *testing.T) {
		ask := `{:context {:prompt {:messages [{:role :user :content "grade"}] :output {:name :res/mark :schema [:map {:closed true} [:score [:number {:min 0 :max 1}]]]}}}
		         :budget {:max-tokens 300 :temperature 0.0}}`
		o := r.ask(t.Context(), "eval/grade", `{}`, ask, nil)
		require.Nil(t, o.err)
		assert.Equal(t, "{:score 0.5}", o.out.String())
		assert.Equal(t, ":json", o.meta.Key("format/mode").String(), "LLM-040")
	})
	t.Run("an answer that is given up leaves the plugin ready for the next", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		o := r.ask(ctx, "model/chat", says(l.count), budgeted(1500), nil)
		require.NotNil(t, o.err)
		next := r.ask(t.Context(), "text/respond", `{:prompt "hello"}`, budgeted(200), nil)
		require.Nil(t, next.err)
	})
	t.Run("a probe finds it as it is declared", func(t *testing.T) {
		o := r.ask(t.Context(), "model/probe", `{}`, "", nil)
		require.Nil(t, o.err, "%s", o.err)
		assert.True(t, o.out.Key("agrees?").Truthy(), "LLM-006: %s", o.out)
	})
	t.Run("a probe finds what is declared wrongly", func(t *testing.T) {
		o := l.rig(t, `{:quirks {:response-format "json_schema" :tools false :usage-in-stream false}}`).ask(t.Context(), "model/probe", `{}`, "", nil)
		require.Nil(t, o.err, "%s", o.err)
		assert.Subset(t, differences(o), []string{":tools false true", ":usage-in-stream false true"}, "LLM-006: %s", o.out)
	})
	t.Run("a server that is gone", func(t *testing.T) {
		gone := l
		gone.config = l.config.Merge(edn.MustRead(`{:base-url "http://127.0.0.1:1/v1"}`))
		o := gone.rig(t, "").ask(t.Context(), "model/chat", says(l.greet), budgeted(16), nil)
		require.NotNil(t, o.err)
		assert.Equal(t, "provider/unavailable", o.err.Type)
		assert.Equal(t, contract.SourceDownstream, o.err.Source)
	})
}

func trimmed(v edn.Value) string {
	return strings.TrimSuffix(v.String(), "M")
}
