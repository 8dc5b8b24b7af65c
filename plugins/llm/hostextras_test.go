package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Cases without a row in the table of failures, through the same host. Names of
// models are those of providers of newHostWall.

// out returns the text of the answer, attempts the attempts.
func (h heard) out() string {
	s, _ := h.response.Key("result").Key("out").Key("text").AsString()
	return s
}

func (h heard) attempts() []edn.Value { return slices.Collect(h.response.Key("transcript").Elems()) }

// used returns the consumed budget of the run.
func (h heard) used() edn.Value {
	scope, _ := h.response.Key("budget").Key("scopes").Nth(0)
	return scope.Key("used")
}

func (w *hostWall) ask(t *testing.T, kind, model, more string) heard {
	t.Helper()
	return w.act(t.Context(), envelope("wall/"+kind, hello, ":"+model+" :spare/text", more), kind != "plain")
}

// Rows 1, 2 and 22 end before anything is sent: the next candidate answers, and
// nothing was charged (LLM-005, BIND-009).
func (w *hostWall) beforeARequest(t *testing.T) {
	for _, kind := range policies {
		h := w.ask(t, kind, "openai/keyless", "")
		assert.Equal(t, spareText, h.out(), kind)
		assert.Len(t, h.attempts(), 1, "%s: it is not asked", kind)
		assert.Equal(t, `{:degraded? true :why [[:openai/keyless :provider/not-configured]]}`,
			h.response.Key("quality").Dissoc(edn.K("checks"), edn.K("must-pass?"), edn.K("score")).String(), kind)
		assert.Equal(t, `{:attempts 1 :roundtrips 1 :tokens-in 5 :tokens-out 7 :usd 0.001M}`, h.used().String(), kind)

		h = w.ask(t, kind, "openai/nobody", "")
		assert.Equal(t, spareText, h.out(), kind)
		e := h.attempts()[0].Key("error")
		assert.Equal(t, ":provider/unavailable", e.Key("type").String(), kind)
		assert.Equal(t, "false", e.Key("details").Key("sent?").String(), kind)
		assert.Equal(t, `{:attempts 2 :roundtrips 2 :tokens-in 5 :tokens-out 7 :usd 0.001M}`, h.used().String(), kind)
		if kind != "plain" {
			assert.Equal(t, spareText, h.text, kind)
		}
	}
	assert.Empty(t, w.servers["keyless"].Requests())

	// One call holds the only place of an account without a queue.
	server, k := w.servers["narrow"], talks()["openai-chat"]
	open := make(chan struct{})
	held := k.whole("held")
	held.Steps[0].Until = open
	server.Then(held)
	arrived := server.Arrived()
	done := make(chan heard, 1)
	go func() {
		h, err := w.try(t.Context(), envelope("wall/plain", hello, ":openai/narrow", ""), false, nil)
		assert.NoError(t, err)
		done <- h
	}()
	<-arrived
	h := w.ask(t, "plain", "openai/narrow", "")
	assert.Equal(t, spareText, h.out())
	e := h.attempts()[0].Key("error")
	assert.Equal(t, "[:runtime/overloaded :switch false]", edn.Vector(e.Key("type"), e.Key("class"), e.Key("details").Key("sent?")).String())
	assert.NotEqual(t, ":plugin", e.Key("source").String(), "LLM-031")
	assert.Equal(t, `{:attempts 2 :roundtrips 2 :tokens-in 5 :tokens-out 7 :usd 0.001M}`, h.used().String())
	close(open)
	assert.Equal(t, "held", (<-done).out())
}

// The first piece is awaited until its timer fires; keep-alives do not postpone
// it. Row 13: the deadline of the request ends the wait too; a spare candidate answers before it (EMB-002).
func (w *hostWall) late(t *testing.T) {
	for dialect, provider := range providers {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			w.lateAt(t, provider, talks()[dialect])
		})
	}
}

func (w *hostWall) lateAt(t *testing.T, provider string, k talk) {
	for _, kind := range policies {
		w.servers[provider+"-late"].Then(k.says(k.quiet, k.quiet, "!stall"))
		h := w.ask(t, kind, provider+"/late", "")
		assert.Equal(t, spareText, h.out(), "%s %s", provider, kind)
		assert.Equal(t, ":provider/timeout", h.attempts()[0].Key("failure/type").String(), "%s %s", provider, kind)
		assert.NotContains(t, h.names(), "retract")
	}
	open := make(chan struct{})
	tr := k.says(cmp.Or(k.quiet, k.start, "\n"), k.text("in time"), k.finish("stop"), k.end)
	tr.Steps[0].Until = open
	w.servers[provider].Then(tr)
	arrived := w.servers[provider].Arrived()
	done := make(chan heard, 1)
	go func() {
		h, err := w.try(t.Context(), envelope("wall/first-token", hello, ":"+provider+"/voice :spare/text", ""), true, nil)
		assert.NoError(t, err)
		done <- h
	}()
	<-arrived
	close(open)
	h := <-done
	assert.Equal(t, "in time", h.text, provider)
	assert.Len(t, h.attempts(), 1)

	w.servers[provider].Then(k.says(k.start, k.text("shown "), "!stall"))
	for _, kind := range []string{"gate-passed", "first-token", "provisional"} {
		h := w.act(t.Context(), envelope("wall/"+kind, hello, ":"+provider+"/voice", ":deadline-ms 400"), true)
		e := h.attempts()[0].Key("error")
		assert.Equal(t, "[:timeout/hard :switch :downstream]", edn.Vector(e.Key("type"), e.Key("class"), e.Key("source")).String(), "%s %s: %s", provider, kind, h.raw)
		assert.Equal(t, ":queue/deadline-exceeded", h.response.Key("error").Key("type").String(), "%s %s: that of the whole request", provider, kind)
		assert.Equal(t, ":expired", h.events[len(h.events)-1].Key("status").String())
		assert.Equal(t, ":at-least", h.response.Key("budget").Key("mark").String(), "%s %s", provider, kind)
		assert.Equal(t, map[string]string{"gate-passed": "", "first-token": "shown", "provisional": ""}[kind], strings.TrimSpace(h.text), "%s %s", provider, kind)

		h = w.ask(t, kind, provider+"/voice", ":deadline-ms 4000")
		if kind == "first-token" {
			assert.Equal(t, ":queue/deadline-exceeded", h.response.Key("error").Key("type").String(), "%s: it was shown for good", provider)
			continue
		}
		assert.Equal(t, spareText, h.text, "%s %s: EMB-002", provider, kind)
		assert.Equal(t, ":timeout/soft", h.attempts()[0].Key("failure/type").String(), "%s %s", provider, kind)
		assert.Equal(t, ":at-least", h.response.Key("budget").Key("mark").String(), "%s %s", provider, kind)
	}
}

var stated = regexp.MustCompile(`,"usage":\{[^}]*\}|,"prompt_eval_count":\d+,"eval_count":\d+`)

// LLM-020: figures that a provider does not state are counted, and implausible
// ones are replaced by at least the count; both are in the ledger with their
// mark.
func (w *hostWall) usage(t *testing.T) {
	for dialect, provider := range providers {
		k := talks()[dialect]
		missing := k.whole("counted here")
		for i := range missing.Steps {
			missing.Steps[i].Send = stated.ReplaceAllString(missing.Steps[i].Send, "")
		}
		for name, tt := range map[string]struct {
			plays wiretest.Transcript
			mark  string
			least int64
		}{
			"missing": {missing, ":estimated", 1},
			"wrong":   {k.whole(strings.Repeat("many words ", 200)), ":at-least", 401},
			"stated":  {k.whole("three tokens"), ":exact", 3},
		} {
			w.servers[provider].Then(tt.plays)
			h := w.ask(t, "plain", provider+"/voice", "")
			require.NotEmpty(t, h.out(), "%s %s: %s", provider, name, h.raw)
			usage := h.response.Key("usage")
			out, _ := usage.Key("tokens-out").AsInt()
			assert.GreaterOrEqual(t, out, tt.least, "%s %s", provider, name)
			for _, key := range []string{"tokens-mark", "cost-mark"} {
				assert.Equal(t, tt.mark, usage.Key(key).String(), "%s %s", provider, name)
			}
			assert.Equal(t, usage.Key("cost-usd").String(), h.used().Key("usd").String(), "%s %s", provider, name)
			assert.Equal(t, tt.mark, h.response.Key("budget").Key("mark").String(), "%s %s", provider, name)
		}
	}
}

// LLM-022, BUD-001: where a budget is so tight that an estimate could decide,
// the host makes the provider count. A request that fits is sent although its
// length suggests otherwise; one that does not is not sent.
func (w *hostWall) counting(t *testing.T) {
	long := strings.Repeat("hello world ", 400) // its length gives 1,600 and more, the table 801 plus the frame
	for _, tt := range []struct {
		model, account, dialect string
		fits, lacks             string // budgets
		asked                   int    // number of counts, in both cases
	}{
		{"openai/voice", "openai", "openai-chat", `:max-tokens-in 1200`, `:max-tokens-in 800`, 0},
		{"openai/voice", "openai", "openai-chat", `:max-usd 0.0020M :max-tokens 400`, `:max-usd 0.0015M :max-tokens 400`, 0},
		{"anthropic/voice", "anthropic", "anthropic-messages", `:max-tokens-in 1403`, `:max-tokens-in 1402`, 2},
		{"compatible/llama", "llama", "openai-chat", `:max-tokens-in 100`, `:max-tokens-in 9`, 2},
	} {
		server := w.servers[tt.account]
		counted := len(server.Besides())
		ask := func(budget string) heard {
			server.Then(talks()[tt.dialect].whole("fine"))
			return w.act(t.Context(), fmt.Sprintf(`{:proto 1 :trace {:id "count"} :task {:intent :wall/plain :dispatch {:candidates [:%s]}} :input {:messages [{:role :user :content %q}]} :budget {%s}}`, tt.model, long, budget), false)
		}
		h := ask(tt.fits)
		assert.Equal(t, "fine", h.out(), "%s %s: %s", tt.model, tt.fits, h.raw)
		asked := len(server.Requests())
		h = ask(tt.lacks)
		assert.Equal(t, ":budget/exceeded", h.response.Key("error").Key("type").String(), "%s %s: %s", tt.model, tt.lacks, h.raw)
		assert.Len(t, server.Requests(), asked, "%s: the model is not asked", tt.model)
		assert.Len(t, server.Besides(), counted+tt.asked, tt.model)
	}
}

// LLM-015: a text that lost an event is rejected; the next model answers.
func (w *hostWall) recovery(t *testing.T) {
	for dialect, provider := range providers {
		k := talks()[dialect]
		w.servers[provider].Then(k.says(k.start, k.text("be"), k.broken, k.text("fore"), k.finish("stop"), k.end))
		for _, kind := range policies {
			h := w.ask(t, kind, provider+"/voice", "")
			if kind == "first-token" { // shown text cannot be retracted
				assert.Equal(t, ":stream/truncated", h.response.Key("error").Key("type").String(), "%s: %s", provider, h.raw)
				continue
			}
			assert.Equal(t, "The spare one answers.", h.out(), "%s %s", provider, kind)
		}
	}
}

// LM-010: the status of each failure where no other candidate can serve, and
// Retry-After: the provider's time, else a short one.
func (w *hostWall) statuses(t *testing.T) {
	codes := map[string]int{
		"provider/request-invalid": 400, "provider/context-exceeded": 413,
		"provider/auth-failed": 503, "provider/model-not-found": 503, "provider/rate-limited": 503, "provider/overloaded": 503,
		"provider/timeout": 504,
	}
	k := talks()["openai-chat"]
	for i, f := range wall() {
		if f.intent != "" || f.input != "" || f.fires != 0 {
			continue
		}
		w.servers["openai"].Then(f.plays(k, ""))
		body := fmt.Sprintf(`{:proto 1 :trace {:id "status"} :task {:intent :code/generate :dispatch {:candidates [:openai/%s]}} :input %s}`, label(i), hello)
		h := w.act(t.Context(), body, false)
		assert.Equal(t, ":"+f.typ, h.response.Key("error").Key("type").String(), f.name)
		assert.Equal(t, cmp.Or(codes[f.typ], 502), h.status, f.name)
		after := ""
		if f.typ == "provider/rate-limited" || f.typ == "provider/overloaded" { // of 503 responses those that may be retried
			after = fmt.Sprint(max(1, (f.wait+999)/1000))
		}
		assert.Equal(t, after, h.header.Get("Retry-After"), f.name)
	}
}

// A slow client blocks the provider and loses nothing: the timer of the
// account, which is shorter than the client's pause, is stopped (LLM-016,
// LLM-017, STR-003).
func (w *hostWall) slowReader(t *testing.T) {
	const pieces, size = 60, 16 << 10
	pause := 3 * 250 * time.Millisecond // longer than the short timer
	for dialect, provider := range providers {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			k := talks()[dialect]
			parts := []string{k.start}
			var whole strings.Builder
			for i := range pieces {
				piece := strings.Repeat(fmt.Sprintf("line %03d\n", i), size/9)
				whole.WriteString(piece)
				parts = append(parts, k.text(piece))
			}
			w.servers[provider+"-stalled"].Then(k.says(append(parts, k.finish("stop"), k.end)...))
			paused := 0
			h, err := w.try(t.Context(), fmt.Sprintf(`{:proto 1 :trace {:id "slow"} :task {:intent :code/generate :dispatch {:candidates [:%s/stalled]}} :input %s}`, provider, hello), true, func(e edn.Value) {
				if e.Key("event").String() == ":chunk" && paused < 2 {
					paused++
					<-time.After(pause) // lets the timers of another process run
				}
			})
			require.NoError(t, err)
			require.Equal(t, 2, paused)
			require.True(t, h.response.Key("error").IsNil(), "%s", h.response.Key("error"))
			code, _ := h.response.Key("result").Key("out").Key("code").AsString()
			assert.Equal(t, whole.Len(), len(code))
			assert.True(t, code == whole.String() && h.text == code, "nothing is missing or turned around")
		})
	}
}

// LLM-017: a client that disconnects during a stream ends the request at the
// provider, and the account answers the next one.
func (w *hostWall) cancel(t *testing.T) {
	for dialect, provider := range providers {
		k, server := talks()[dialect], w.servers[provider]
		server.Then(k.says(k.start, k.text("shown "), "!stall"))
		ctx, cancel := context.WithCancel(t.Context())
		h, err := w.try(ctx, envelope("wall/provisional", hello, ":"+provider+"/voice :spare/text", ""), true, func(e edn.Value) {
			if e.Key("event").String() == ":provisional" {
				cancel()
			}
		})
		cancel()
		assert.Error(t, err, provider)
		assert.Equal(t, "shown", h.text, provider)
		requests := server.Requests()
		<-requests[len(requests)-1].Gone
		server.Then(k.whole("fine"))
		assert.Equal(t, "fine", w.ask(t, "provisional", provider+"/voice", "").text, provider)
	}
}

// commandLine tests "ferment run --stream": if text that was shown for good is
// incomplete, it fails, whatever else is retracted.
func (w *hostWall) commandLine(t *testing.T) {
	k := talks()["openai-chat"]
	w.servers["openai"].Then(k.says(k.start, k.text("shown "), "!cut"))
	for kind, want := range map[string]struct {
		stdout, stderr string
		code           int
	}{
		"gate-passed": {spareText + "\n", "", 0},
		"provisional": {spareText + "\n", "", 0},
		"first-token": {"shown\n", "stream/truncated", 1},
	} {
		plan := kind + ".edn"
		w.write(plan, fmt.Sprintf(`{:nodes [{:op :call :intent :wall/%s :input %s :dispatch {:candidates [:openai/voice :spare/text]} :as :answer} {:op :emit :input {:final :answer}}]}`, kind, hello))
		stdout, stderr, code := w.run("run", plan, "--stream")
		assert.Equal(t, want.stdout, stdout, kind)
		assert.Contains(t, stderr, want.stderr, kind)
		assert.Equal(t, want.code, code, "%s: %s", kind, stderr)
	}
}

// LLM-001: four accounts at once, one of them failing, the others unaffected; no
// process is restarted for it (LLM-031).
func (w *hostWall) fourProviders(t *testing.T) {
	models := []string{"openai/voice", "anthropic/voice", "ollama/voice", "compatible/fourth"}
	w.servers["openai"].Then(talks()["openai-chat"].whole("a"))
	w.servers["anthropic"].Then(status(529, ``))
	w.servers["ollama"].Then(talks()["ollama-chat"].whole("c"))
	w.servers["fourth"].Then(talks()["openai-chat"].whole("d"))
	var mu sync.Mutex
	count := map[string]int{}
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			h, err := w.try(t.Context(), envelope("wall/plain", hello, ":"+models[i%4], ""), false, nil)
			assert.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			failed, _ := h.response.Key("error").Key("type").AsKeyword()
			if failed == "breaker/open" {
				failed = "provider/overloaded" // its breaker is open from then on
			}
			count[models[i%4]+" "+failed+h.out()]++
		})
	}
	group.Wait()
	assert.Equal(t, map[string]int{"openai/voice a": 10, "anthropic/voice provider/overloaded": 10, "ollama/voice c": 10, "compatible/fourth d": 10}, count)
	stdout, stderr, code := w.run("plugin", "list", "--edn")
	require.Zero(t, code, stderr)
	assert.NotRegexp(t, `:restarts [1-9]`, stdout)
}

// LLM-023: one agent calls one provider, another one and the first one again.
// Only the serving model and the usage change.
func (w *hostWall) oneAgent(t *testing.T) {
	var kept, types []string
	for _, dialect := range []string{"openai-chat", "ollama-chat", "openai-chat"} {
		provider := providers[dialect]
		w.servers[provider].Then(talks()[dialect].whole("ok"))
		h := w.ask(t, "provisional", provider+"/voice", `:context {:agent/id "docs-writer"}`)
		require.Equal(t, "ok", h.out(), h.raw)
		meta := h.response.Key("invoke/meta")
		kept = append(kept, meta.Dissoc(edn.K("provider"), edn.K("cap/id"), edn.K("plugin")).String())
		types = append(types, meta.Key("provider").Key("type").String())
	}
	assert.Equal(t, kept[0], kept[1])
	assert.Equal(t, kept[0], kept[2])
	assert.Contains(t, kept[0], `"docs-writer"`)
	assert.Contains(t, kept[0], ":prompt/hash")
	assert.Equal(t, []string{":openai", ":ollama", ":openai"}, types)
}

// LLM-030: a provider that rejected the key, has no quota left or does not know
// the model is not called again until its configuration changes. This is the
// last part because it changes the configuration.
func (w *hostWall) trips(t *testing.T) {
	server, k := w.servers["fourth"], talks()["openai-chat"]
	refusals := map[string]wiretest.Transcript{
		"gate-passed": status(401, mistaken), "first-token": status(402, ``, "Retry-After", "3600"), "provisional": status(404, `{"error":{"code":"model_not_found"}}`),
	}
	for kind, typ := range map[string]string{"gate-passed": "provider/auth-failed", "first-token": "provider/quota-exhausted", "provisional": "provider/model-not-found"} {
		refuses := refusals[kind]
		server.Then(refuses)
		asked := len(server.Requests())
		for range 3 {
			assert.Equal(t, spareText, w.ask(t, kind, "compatible/fourth", "").text, kind)
		}
		assert.Len(t, server.Requests(), asked+1, kind)
		h := w.ask(t, kind, "compatible/fourth", "")
		assert.Equal(t, "[[:compatible/fourth :"+typ+"]]", h.response.Key("quality").Key("why").String(), kind)
	}
	server.Then(k.whole("the new key is good"))
	address := fmt.Sprintf("base_url = %q", server.URL)
	w.write("ferment.hcl", strings.Replace(w.config, address, address+"\n    headers { project = \"other\" }", 1))
	stdout, stderr, code := w.run("admin", "reload")
	require.Zero(t, code, "%s%s", stdout, stderr)
	for _, kind := range []string{"gate-passed", "first-token", "provisional"} {
		assert.Equal(t, "the new key is good", w.ask(t, kind, "compatible/fourth", "").text, kind)
	}
}
