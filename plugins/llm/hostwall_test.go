package main

import (
	"cmp"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// hostWall is the host with model servers of all dialects. The timers of the
// first account of a dialect are long. Each other account has one short timer,
// so that on a slow machine too no other timer ends a call.
type hostWall struct {
	*daemon
	servers map[string]*wiretest.Server // by account
}

// shortTimer is the short timer of an account that waits in vain.
const shortTimer = "250ms"

// policies are the streaming policies, by the intent that sets them. Calls of
// plain do not stream.
var policies = []string{"plain", "gate-passed", "first-token", "provisional"}

// accounts are the plugins of a dialect, with their short timer.
var accounts = map[string]string{"": "", "-silent": "silence", "-late": "first_token", "-stalled": "stall"}

const spareText = "The spare one answers."

// accountBlock returns a plugin block with a model for each label; more are
// further lines of its configuration.
func accountBlock(name, provider, url string, labels []string, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %q {\n  command = [\"${local.bin}/plugins/llm\"]\n  isolation { network = \"ports\" }\n  config {\n    provider = %q\n    base_url = %q\n    %s\n", name, provider, url, strings.Join(more, "\n    "))
	for _, label := range labels {
		fmt.Fprintf(&b, "    model %q {\n      name = \"sample\"\n      intents = [\"wall/plain\", \"wall/gate-passed\", \"wall/first-token\", \"wall/provisional\", \"eval/grade\", \"code/generate\"]\n      price {\n        input = \"1\"\n        output = \"2\"\n      }\n    }\n", label)
	}
	b.WriteString("  }\n}\n")
	return b.String()
}

// withKey is the configuration line of an account with a key.
const withKey = `api_key = secret("env:WALL_KEY")`

// presetOf returns the line of an account whose provider has another default
// dialect.
func presetOf(dialect string) string {
	if dialect == "openai-responses" {
		return `preset = "openai-responses"`
	}
	return ""
}

// wallConfig returns the configuration of the host.
func wallConfig(bin string, plugins ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ferment { profile = \"test\" }\nlocals { bin = %q }\n", bin)
	b.WriteString("plugin \"spare\" {\n  command = [\"${local.bin}/plugins/scripted\"]\n  config { script = \"spare.edn\" }\n}\n")
	b.WriteString("dispatch \"default\" {\n  retry { fallback = 1 }\n}\n")
	for _, p := range policies {
		fmt.Fprintf(&b, "intent \"wall/%s\" {\n  in = \"req/any\"\n  out = \"res/text\"\n  stream = %q\n}\n", p, map[bool]string{true: "gate-passed", false: p}[p == "plain"])
	}
	b.WriteString("intent \"code/generate\" {\n  in = \"req/any\"\n  out = \"res/code\"\n  stream = \"first-token\"\n}\n")
	b.WriteString("intent \"eval/grade\" {\n  in = \"req/eval\"\n  out = \"res/eval\"\n}\n")
	for _, p := range plugins {
		b.WriteString(p)
	}
	return b.String()
}

// spareScript answers where the models fail.
func spareScript() string {
	return fmt.Sprintf(`{:capabilities
 {:spare/text {:cost {:usd 0.001M} :intents #{:wall/plain :wall/gate-passed :wall/first-token :wall/provisional} :steps [{:value {:text %q} :usage {:tokens-in 5 :tokens-out 7 :tokens-mark :exact :cost-usd 0.001M :cost-mark :exact}}]}
  :spare/grade {:cost {:usd 0.001M} :intents #{:eval/grade} :out-schema :res/eval :steps [{:value {:score 0.5} :usage {:tokens-in 5 :tokens-out 7 :tokens-mark :exact :cost-usd 0.001M :cost-mark :exact}}]}}}`, spareText)
}

func label(i int) string { return fmt.Sprintf("f%02d", i) }

// closedPort returns an address on which no process listens.
func closedPort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return "http://" + listener.Addr().String()
}

// newHostWall starts the host.
func newHostWall(t testing.TB) *hostWall {
	t.Helper()
	w := &hostWall{servers: map[string]*wiretest.Server{}}
	var plugins []string
	for dialect, provider := range providers {
		for suffix, timer := range accounts {
			name := provider + suffix
			w.servers[name] = wiretest.Serve(t)
			labels := []string{strings.TrimPrefix(cmp.Or(suffix, "-voice"), "-")}
			if suffix == "" {
				for i := range wall() {
					labels = append(labels, label(i))
				}
			}
			short := ""
			if timer != "" {
				short = fmt.Sprintf("timeouts { %s = %q }", timer, shortTimer)
			}
			plugins = append(plugins, accountBlock(name, provider, w.servers[name].URL, labels, withKey, presetOf(dialect), short))
		}
	}
	for _, name := range []string{"narrow", "keyless", "fourth", "llama"} {
		w.servers[name] = wiretest.Serve(t)
	}
	plugins = append(plugins,
		accountBlock("narrow", "openai", w.servers["narrow"].URL, []string{"narrow"}, withKey, "max_in_flight = 1", "queue = 0"),
		accountBlock("keyless", "openai", w.servers["keyless"].URL, []string{"keyless"}),
		accountBlock("nobody", "openai", closedPort(t), []string{"nobody"}, withKey),
		accountBlock("fourth", "compatible", w.servers["fourth"].URL, []string{"fourth"}, withKey),
		accountBlock("llama", "compatible", w.servers["llama"].URL+"/v1", []string{"llama"}, withKey, `preset = "llama-server"`))
	for _, server := range w.servers { // counts are side requests, made where usage is missing
		server.Beside(counterOf(t, "anthropic"), counterOf(t, "llama-server"))
	}
	bin := programs(t)
	w.daemon = daemonOf(t, bin, wallConfig(bin, plugins...), map[string]string{"spare.edn": spareScript()}, "WALL_KEY="+canary)
	return w
}

// envelope returns a request of an intent with two candidates.
func envelope(intent, input, candidates, more string) string {
	return fmt.Sprintf(`{:proto 1 :trace {:id "wall"} :task {:intent :%s :dispatch {:candidates [%s]}} :input %s :debug/transcript? true :budget {:max-attempts 9 :max-usd 1M :max-tokens 400} %s}`, intent, candidates, input, more)
}

// LLM-055: each failure through the real host, which has a second candidate,
// for streaming and other clients, before and after a piece was shown. No
// client gets a partial answer as a complete one.
func TestFaultWallThroughTheHost(t *testing.T) {
	w := newHostWall(t)
	t.Run("faults", func(t *testing.T) {
		for dialect, provider := range providers {
			for suffix := range accounts {
				t.Run(provider+suffix, func(t *testing.T) {
					t.Parallel()
					for i, f := range wall() {
						if accountOf(f) == suffix && (f.only == "" || strings.Contains(f.only, dialect)) {
							w.fault(t, faultCase{fault: f, talk: talks()[dialect], account: provider + suffix, model: provider + "/" + cmp.Or(strings.TrimPrefix(suffix, "-"), label(i))})
						}
					}
				})
			}
		}
	})
	t.Run("before a request", w.beforeARequest)
	t.Run("late", w.late)
	t.Run("usage", w.usage)
	t.Run("counting", w.counting)
	t.Run("recovery", w.recovery)
	t.Run("statuses", w.statuses)
	t.Run("slow reader", w.slowReader)
	t.Run("cancel", w.cancel)
	t.Run("command line", w.commandLine)
	t.Run("four providers", w.fourProviders)
	t.Run("one agent", w.oneAgent)
	t.Run("trips", w.trips)
}

// accountOf returns the account whose short timer ends a fault.
func accountOf(f fault) string {
	switch f.fires {
	case silence:
		return "-silent"
	case stall:
		return "-stalled"
	}
	return ""
}

// faultCase is a fault in a dialect, played to one model.
type faultCase struct {
	fault
	talk           talk
	account, model string
}

func (w *hostWall) fault(t *testing.T, s faultCase) {
	kinds := policies
	if s.intent != "" {
		kinds = []string{s.intent}
	}
	for _, kind := range kinds {
		for _, after := range []bool{false, true} {
			if after && s.once {
				continue
			}
			for _, streamed := range []bool{false, true} {
				if s.intent == "" && streamed == (kind == "plain") {
					continue
				}
				w.meet(t, s, kind, after, streamed)
			}
		}
	}
}

// meet plays one fault and checks every record of its consequences.
func (w *hostWall) meet(t *testing.T, s faultCase, kind string, after, streamed bool) {
	name := fmt.Sprintf("%s, %s, %s, after a piece: %t, streamed: %t", s.model, s.name, kind, after, streamed)
	intent, input, spare, answer := "wall/"+kind, cmp.Or(s.input, hello), "spare/text", edn.MustMap(edn.K("text"), edn.Text(spareText))
	if s.intent != "" {
		intent, spare, answer = s.intent, "spare/grade", edn.MustRead(`{:score 0.5}`)
	}
	before := ""
	if after {
		before = s.talk.text("shown ")
	}
	shown := s.says
	if after {
		shown = "shown " + s.says
	}
	server := w.servers[s.account]
	played := len(server.Requests())
	server.Then(s.plays(s.talk, before))
	h := w.act(t.Context(), envelope(intent, input, ":"+s.model+" :"+spare, ""), streamed)
	require.NotContains(t, h.raw, "CANARY", name)
	require.Len(t, server.Requests(), played+1, "%s: one request", name)

	// The cause: the failure as reported by the plugin.
	attempts := slices.Collect(h.response.Key("transcript").Elems())
	require.NotEmpty(t, attempts, "%s: %s", name, h.raw)
	e := attempts[0].Key("error")
	class := s.class
	if early, late, two := strings.Cut(class, "|"); two {
		class = early
		if after {
			class = late
		}
	}
	assert.Equal(t, ":"+s.typ, e.Key("type").String(), "%s: %s", name, e)
	assert.Equal(t, ":"+class, e.Key("class").String(), name)
	assert.Equal(t, ":"+s.source.String(), e.Key("source").String(), name)
	assert.True(t, e.Key("details").Key("sent?").Truthy(), "%s: %s", name, e)
	wait, _ := e.Key("details").Key("retry-after-ms").AsInt()
	assert.Equal(t, s.wait, wait, name)

	// The consequence: the answer of the second candidate, or an error.
	bound := kind == "first-token" && shown != ""
	final := bound || class == "stop"
	names := strings.Join(h.names(), " ")
	if final {
		assert.Len(t, attempts, 1, "%s: nobody else is asked", name)
		assert.True(t, h.response.Key("result").IsNil(), "%s: a part of an answer is no answer", name)
		want := s.typ
		if bound {
			want = "stream/truncated"
		}
		failed := h.response.Key("error")
		assert.Equal(t, ":"+want, failed.Key("type").String(), "%s: %s", name, failed)
	} else if assert.Len(t, attempts, 2, "%s: %s", name, h.raw) {
		assert.True(t, h.response.Key("error").IsNil(), name)
		assert.Equal(t, answer.String(), h.response.Key("result").Key("out").String(), name)
		assert.Equal(t, ":"+spare, attempts[1].Key("cap/id").String(), name)
	}
	if streamed {
		w.seen(t, name, h, kind, shown, final, names)
	}
	w.ledger(t, name, h, s, shown, final)
}

// seen checks the text shown to the client of a stream.
func (w *hostWall) seen(t *testing.T, name string, h heard, kind, shown string, final bool, names string) {
	last := h.events[len(h.events)-1]
	assert.Equal(t, ":finished", last.Key("event").String(), name)
	assert.Equal(t, map[bool]string{true: ":failed", false: ":completed"}[final], last.Key("status").String(), name)
	text, was := "", ""
	for _, e := range h.events {
		piece, _ := e.Key("text").AsString()
		switch e.Key("event").String() {
		case ":chunk", ":provisional":
			text += piece
			if e.Key("cap/id").String() != ":spare/text" {
				was += piece
			}
		}
	}
	switch {
	case kind == "first-token" && shown != "":
		begins(t, name, shown, h.text)
		assert.NotContains(t, names, "commit", name)
	case kind == "provisional" && shown != "":
		begins(t, name, shown, was)
		assert.Contains(t, names, "provisional attempt retract", "%s: %s", name, names)
	default:
		assert.Empty(t, was, "%s: nothing of it was seen", name)
		assert.NotContains(t, names, "retract", name)
	}
	if !final && kind != "eval/grade" {
		assert.Equal(t, spareText, h.text, "%s: %s", name, text)
	}
}

// begins asserts that a non-empty prefix of a text was seen; pieces not yet
// forwarded at the failure are dropped.
func begins(t *testing.T, name, shown, seen string) {
	t.Helper()
	assert.NotEmpty(t, seen, name)
	assert.True(t, strings.HasPrefix(shown, seen), "%s: %q of %q", name, seen, shown)
}

// ledger checks the recorded usage of the calls.
func (w *hostWall) ledger(t *testing.T, name string, h heard, s faultCase, shown string, final bool) {
	usage := h.response.Key("usage")
	calls := 2
	if final {
		calls = 1
	}
	n, _ := usage.Key("attempts").AsInt()
	assert.EqualValues(t, calls, n, name)
	paid := usage.Key("by-capability").Key(s.model)
	if shown != "" {
		assert.Contains(t, []string{":at-least", ":exact", ":estimated"}, paid.Key("tokens-mark").String(), "%s: what it took is told: %s", name, usage)
		assert.Equal(t, paid.Key("tokens-mark").String(), paid.Key("cost-mark").String(), name)
		out, _ := paid.Key("tokens-out").AsInt()
		assert.Positive(t, out, "%s: %s", name, paid)
	}
	budget := h.response.Key("budget")
	scope, _ := budget.Key("scopes").Nth(0)
	assert.Equal(t, "{}", scope.Key("reserved").String(), "%s: nothing stays reserved", name)
	number := func(v edn.Value) *big.Rat {
		r, ok := v.AsNumber()
		if !ok {
			return new(big.Rat)
		}
		return r
	}
	used := number(scope.Key("used").Key("usd"))
	if !final {
		used.Sub(used, big.NewRat(1, 1000)) // cost of the second candidate
	}
	if paid.Key("tokens-mark").IsNil() {
		// The usage is unknown: the whole reservation is charged.
		assert.Positive(t, used.Sign(), "%s: %s", name, scope)
		assert.Equal(t, ":estimated", scope.Key("mark").String(), name)
		assert.Contains(t, []string{"2", "3", "12", "14", "16"}, strings.Fields(s.name)[0], "%s: the others know", name)
	} else {
		assert.Zero(t, number(paid.Key("cost-usd")).Cmp(used), "%s: %s, used %s", name, paid, scope)
		assert.Equal(t, paid.Key("cost-mark").String(), scope.Key("mark").String(), name)
	}
	assert.Zero(t, big.NewRat(1, 1).Cmp(new(big.Rat).Add(number(scope.Key("left").Key("usd")), number(scope.Key("used").Key("usd")))), "%s: %s", name, scope)
	attempts, _ := scope.Key("used").Key("attempts").AsInt()
	assert.EqualValues(t, calls, attempts, name)
}
