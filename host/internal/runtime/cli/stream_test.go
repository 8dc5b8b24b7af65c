package cli_test

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// lines streams pieces with pauses, so that each is an event of its own.
func lines(rest string, pieces ...string) string {
	all := make([]string, len(pieces))
	for i, p := range pieces {
		all[i] = edn.Text(p).String()
	}
	return "{:stream [" + strings.Join(all, " ") + "] :chunk-ms 70 " + rest + "}"
}

// The rows of the table of streaming policies (STR-001, STR-002, GATE-005)
// with real processes: the events that a follower of the run sees.
var streamed = []sequence{
	{
		name: "gate-passed", stream: "gate-passed", dispatch: ":retry {:fallback-max 1}",
		a: []string{lines(":error {:type :provider/error}", "never ", "seen")}, b: []string{lines("", "all ", "at once")}, asked: "a1 b2", out: `{:text "all at once"}`,
	},
	{
		name: "provisional-commits", stream: "provisional",
		a: []string{lines("", "word ", "by ", "word")}, asked: "a1", out: `{:text "word by word"}`,
	},
	{
		name: "provisional-gate-fails", stream: "provisional", dispatch: ":retry {:fallback-max 1}", node: ":done {:must #{:good}}",
		a: []string{lines(`:value {:text "bad one"}`, "bad ", "one")}, b: []string{lines(`:value {:text "good one" :good true}`, "good ", "one")}, asked: "a1 b2", out: `{:good true :text "good one"}`,
	},
	{
		name: "provisional-repairs", stream: "provisional", dispatch: ":repair {:max 1}", node: ":done {:must #{:good}}", meta: ":repairs? true",
		a: []string{lines(`:value {:text "bad"}`, "bad"), lines(`:value {:text "better" :good true}`, "better")}, asked: "a1 a2", out: `{:good true :text "better"}`,
	},
	{
		name: "provisional-crash", stream: "provisional", dispatch: ":retry {:fallback-max 1}",
		a: []string{lines(":crash :sigkill", "half ", "an ")}, b: []string{lines("", "whole")}, asked: "a1 b2", out: `{:text "whole"}`,
	},
	{
		name: "provisional-malformed-frame", stream: "provisional", dispatch: ":retry {:fallback-max 1}",
		a: []string{lines(`:raw "{:result {:type"`, "half ")}, b: []string{lines("", "whole")}, asked: "a1 b2", out: `{:text "whole"}`,
	},
	{
		name: "provisional-deadline", stream: "provisional", node: ":deadline-ms 5000",
		a: []string{lines(":hang true", "half ")}, asked: "a1", fails: "timeout/hard", exit: 7,
	},
	{
		name: "first-token-commits", stream: "first-token",
		a: []string{lines("", "as ", "it comes")}, asked: "a1", out: `{:text "as it comes"}`,
	},
	{
		name: "first-token-crash", stream: "first-token", dispatch: ":retry {:same-cap-max 1 :fallback-max 1}",
		a: []string{lines(":crash :sigkill", "half ")}, b: unwanted, asked: "a1", fails: "stream/truncated", exit: 1,
	},
	{
		name: "first-token-error-before", stream: "first-token", dispatch: ":retry {:fallback-max 1}",
		a: []string{fails("provider/unavailable")}, b: []string{lines("", "in ", "time")}, asked: "a1 b2", out: `{:text "in time"}`,
	},
	{
		name: "first-token-gate-fails", stream: "first-token", dispatch: ":retry {:fallback-max 1}", node: ":done {:should #{:good} :score-min 0.9}",
		a: []string{lines("", "not ", "good")}, b: unwanted, asked: "a1", fails: "eval/low-score", exit: 1,
	},
	{
		name: "race-hides", stream: "provisional", dispatch: ":strategy :race :race {:width 2}",
		a: []string{lines("", "first")}, b: []string{lines(":delay-ms 60000", "second")}, asked: "a1 b2", out: `{:text "first"}`,
	},
	{
		name: "hedge-is-overtaken", stream: "provisional", dispatch: ":strategy :hedge :hedge {:after-ms 2000 :max 1}",
		a: []string{lines(":hang true", "slow ")}, b: []string{lines("", "fast")}, asked: "a1 b2", out: `{:text "fast"}`,
	},
	{
		name: "plan-answers", stream: "provisional", meta: ":can-produce #{:value :plan}", dispatch: ":retry {:fallback-max 1}", node: ":done {:must #{:good}}",
		a: []string{`{:plan {:nodes [{:op :call :id "inner" :intent :demo/answer :input {:q 2} :as :i :dispatch {:candidates [:t/c]}} {:op :emit :input :i}]}}`},
		b: []string{lines(`:value {:text "b" :good true}`, "b")}, c: []string{lines("", "from ", "within")}, asked: "a1 c1 b2", out: `{:good true :text "b"}`,
	},
	{
		name: "asked-by-a-handle", stream: "provisional", node: given("b"), dispatch: ":exclude [:t/b]", loose: true,
		a: []string{`{:ask {:handle [:model] :intent :demo/answer :stream true}}`}, b: []string{lines("", "through the host")}, asked: "a1 b1", out: `{:text "through the host"}`,
	},
	{
		name: "only-the-answer-node", stream: "provisional",
		plan: `{:nodes [{:op :call :id "first" :intent :demo/answer :input {:q 1} :as :x :dispatch {:candidates [:t/a]}}
 {:op :plan :id "sub" :plan {:nodes [{:op :call :id "last" :intent :demo/answer :input {:text {:slot/path [:x :text]}} :as :y :dispatch {:candidates [:t/b]}} {:op :emit :input {:slot/path [:y :out :text]}}]} :as :z}
 {:op :emit :input {:final :z}}]}`,
		a: []string{lines("", "not ", "shown")}, b: []string{lines("", "the ", "answer")}, asked: "a1 b1", out: `{:final {:text "the answer"}}`,
	},
}

// events parses the output of --stream, one event per line.
func (e ended) events(t testing.TB) []edn.Value {
	t.Helper()
	var out []edn.Value
	for line := range strings.Lines(e.stdout) {
		v, err := edn.ReadString(line, edn.WithLimits(edn.Body))
		require.NoError(t, err, line)
		out = append(out, v)
	}
	require.NotEmpty(t, out, e.stderr)
	return out
}

// story is the content of a golden file about events: consecutive pieces of
// text are joined, and record numbers are removed. Events of concurrent calls
// are ordered by path.
func (w *world) story(events []edn.Value, loose bool) edn.Value {
	if loose {
		slices.SortStableFunc(events, func(a, b edn.Value) int { return edn.Compare(a.Key("path"), b.Key("path")) })
	}
	var out []edn.Value
	for _, e := range events {
		e = e.Dissoc(edn.K("at"), edn.K("seq"), edn.K("chunk"), edn.K("deadline-at"), edn.K("generation"), edn.K("host"), edn.K("response"))
		name := word(e.Key("event"))
		if n := len(out); n > 0 && (name == "chunk" || name == "provisional") && edn.Equal(out[n-1].Key("event"), e.Key("event")) && edn.Equal(out[n-1].Key("attempt"), e.Key("attempt")) {
			before, _ := out[n-1].Key("text").AsString()
			text, _ := e.Key("text").AsString()
			out[n-1] = out[n-1].AssocKey("text", edn.Text(before+text))
			continue
		}
		out = append(out, e)
	}
	return w.masked(edn.Vector(out...))
}

// talkers is a world in which one candidate has to retract its text.
func talkers(t testing.TB, stream string) *world {
	return sequence{
		stream: stream, dispatch: ":retry {:fallback-max 1}", node: ":done {:must #{:good}}",
		a: []string{lines(`:value {:text "bad one"}`, "bad ", "one")}, b: []string{lines(`:value {:text "good one" :good true}`, "good ", "one")},
	}.world(t)
}

// TestStreamText: on a terminal text is printed and retracted; elsewhere it is
// printed once it is accepted (CLI-001, CLI-008).
func TestStreamText(t *testing.T) {
	t.Parallel()
	w := talkers(t, "provisional")
	got := w.run("run", "plan.edn", "--stream")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, "good one\n", got.stdout)
	assert.Empty(t, got.stderr)

	code, seen := talkers(t, "provisional").onTerminal(nil, "run", "plan.edn", "--stream")
	assert.Equal(t, 0, code)
	assert.Equal(t, "bad one\nretracted: eval/must-failed\ngood one\n", seen)

	// Control characters are escaped on the terminal, and only there
	// (CLI-001).
	hostile := sequence{stream: "first-token", a: []string{lines(`:value {:text "red \u001b[31m\u202eder"}`, "red \x1b[31m", "\u202eder")}}
	code, seen = hostile.world(t).onTerminal(nil, "run", "plan.edn", "--stream")
	assert.Equal(t, 0, code)
	assert.Equal(t, `red \x1b[31m\u202eder`+"\n", seen)
	code, seen = hostile.world(t).onTerminal(nil, "run", "plan.edn", "--progress", "none")
	assert.Equal(t, 0, code)
	assert.Equal(t, `red \x1b[31m\u202eder`+"\n", seen)
	assert.Equal(t, "red \x1b[31m\u202eder\n", hostile.world(t).run("run", "plan.edn", "--stream").stdout)

	w = sequence{stream: "first-token", a: []string{lines(":error {:type :provider/error}", "half ")}}.world(t)
	got = w.run("run", "plan.edn", "--stream")
	assert.Equal(t, 1, got.code)
	assert.Equal(t, "half \n", got.stdout)
	assert.Contains(t, got.stderr, "stream/truncated")

	// Without text there is nothing to stream; the answer is printed at the
	// end.
	w = sequence{stream: "provisional", a: []string{`{:value {:n 1}}`}}.world(t)
	got = w.run("run", "plan.edn", "--stream")
	assert.Equal(t, "{:n 1}\n", got.stdout)
	got = w.run("run", "plan.edn", "--stream", "--json")
	last := got.stdout[strings.LastIndex(strings.TrimSpace(got.stdout), "\n")+1:]
	v, err := edn.ReadJSON([]byte(last))
	require.NoError(t, err, got.stdout)
	assert.Equal(t, `{:n 1}`, v.Key("response").Key("result").Key("out").String())

	got = w.run("run", "plan.edn", "--stream", "--bind", "nonsense")
	assert.Equal(t, 2, got.code)
}

// TestStreamInterrupted: Ctrl-C in the middle of a text cancels the run, and
// the printed text is retracted.
func TestStreamInterrupted(t *testing.T) {
	t.Parallel()
	w := sequence{stream: "provisional", a: []string{lines(":hang true", "half ")}}.world(t)
	p := w.start("", "run", "plan.edn", "--stream", "-o", "edn", "--progress", "edn")
	p.must("text", 0, func(e event) bool { return e.word("event") == "provisional" })
	p.signal(syscall.SIGINT)
	got := p.wait()
	assert.Equal(t, 130, got.code)
	var names []string
	for _, e := range got.events(t) {
		names = append(names, word(e.Key("event")))
	}
	assert.Contains(t, strings.Join(names, " "), "provisional cancel")
	assert.Equal(t, []string{"retract", "finished"}, names[len(names)-2:])
}

// TestStreamThere: the same over the admin socket of a daemon, and over HTTP
// as server-sent events; a client that closes its connection cancels the call
// in the plugin.
func TestStreamThere(t *testing.T) {
	t.Parallel()
	w := sequence{
		stream: "provisional", dispatch: ":retry {:fallback-max 1}", node: ":done {:must #{:good}}",
		a: []string{lines(`:value {:text "bad one"}`, "bad ", "one"), lines(":hang true", "half ")}, b: []string{lines(`:value {:text "good one" :good true}`, "good ", "one")},
	}.world(t)
	w.env = append(w.env, "FERMENT_PROFILE=test")
	d := w.serve()
	got := w.run("run", "plan.edn", "--stream", "-o", "edn")
	assert.Equal(t, 0, got.code, got.stderr)
	events := got.events(t)
	assert.Equal(t, `{:good true :text "good one"}`, events[len(events)-1].Key("response").Key("result").Key("out").String())
	var names []string
	for _, e := range events {
		names = append(names, word(e.Key("event")))
	}
	assert.Contains(t, strings.Join(names, " "), "retract")
	assert.Equal(t, 2, strings.Count(strings.Join(names, " "), "provisional attempt"), "%s", names)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := envelopeOf("demo/answer", "{:q 1}", ":cap/id :t/a")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.address+"/v1/act", strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Content-Type", "application/edn")
	resp, err := d.client.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	scan := bufio.NewScanner(resp.Body)
	for scan.Scan() && scan.Text() != "event: provisional" {
	}
	require.NoError(t, scan.Err())
	require.Equal(t, 1, d.inFlight("a"))
	cancel()
	require.Eventually(t, func() bool { return d.inFlight("a") == 0 }, 20*time.Second, 20*time.Millisecond)
	d.stop()
}

// TestHandleEndsWithItsCall: a request of a plugin ends at the deadline of the
// call that it is made in, and with its cancellation.
func TestHandleEndsWithItsCall(t *testing.T) {
	t.Parallel()
	ask := sequence{a: []string{`{:ask {:handle [:model]}}`}, b: []string{hang}, node: given("b") + " :deadline-ms 3000"}
	got := ask.world(t).run("run", "plan.edn", "--transcript", "-o", "edn")
	response := got.value(t)
	assert.Equal(t, 7, got.code, got.stderr)
	assert.Equal(t, "timeout/hard", word(response.Key("error").Key("type")))
	assert.Equal(t, "a1 b1", asks(response.Key("transcript"), false))

	ask.node = given("b")
	p := ask.world(t).start("", "run", "plan.edn", "-o", "edn", "--progress", "edn")
	p.must("the second call", 0, asked("t/b"))
	p.signal(syscall.SIGINT)
	got = p.wait()
	assert.Equal(t, 130, got.code)
	assert.Equal(t, "canceled", word(got.value(t).Key("error").Key("type")))
}

// TestStreamExample: the commands of examples/streaming work.
func TestStreamExample(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"ferment.hcl", "talkers.edn", "talk.edn"} {
		text, err := os.ReadFile(filepath.Join(built.module, "examples", "streaming", name))
		require.NoError(t, err)
		w.write(name, string(text))
	}
	w.env = append(w.env, "FERMENT_EXAMPLE_BIN="+filepath.Join(built.root, "bin"))
	const answer = "A stream is shown while it comes, and counts once it is accepted."
	got := w.run("run", "talk.edn", "--stream")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, answer+"\n", got.stdout)
	code, seen := w.onTerminal(nil, "run", "talk.edn", "--stream")
	assert.Equal(t, 0, code)
	assert.Equal(t, "A stream is shown while it\nretracted: eval/must-failed\n"+answer+"\n", seen)
}

// TestStreamCleaned: the thinking of models is not shown, neither in streams
// nor in answers (TXT-001, TXT-002).
func TestStreamCleaned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"ferment.hcl", "talk.edn"} {
		text, err := os.ReadFile(filepath.Join(built.module, "examples", "streaming", name))
		require.NoError(t, err)
		w.write(name, string(text))
	}
	w.write("talkers.edn", `{:capabilities
 {:talk/hasty {:kind :llm :intents #{:text/respond} :in-schema :req/text :out-schema :res/text
   :steps [{:stream ["<think>I am " "in a hurry</think>\n\n" "A stream is shown " "while it"] :chunk-ms 5}]}
  :talk/steady {:kind :llm :intents #{:text/respond} :in-schema :req/text :out-schema :res/text
   :steps [{:stream ["<thi" "nk>slowly</thi" "nk>A stream is shown " "while it comes, " "and counts " "once it is accepted.\n"] :chunk-ms 5}]}}}`)
	w.env = append(w.env, "FERMENT_EXAMPLE_BIN="+filepath.Join(built.root, "bin"))
	const answer = "A stream is shown while it comes, and counts once it is accepted."
	got := w.run("run", "talk.edn", "--stream")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, answer+"\n", got.stdout)
	code, seen := w.onTerminal(nil, "run", "talk.edn", "--stream")
	assert.Equal(t, 0, code)
	assert.Equal(t, "A stream is shown while it\nretracted: eval/must-failed\n"+answer+"\n", seen)
}

// JRN-061: the text of a streamed answer is a value of its run. After a purge neither the files, the records nor an
// export have it, and a reader of the events is told that they are gone.
func TestPurgedStream(t *testing.T) {
	t.Parallel()
	const said, piece = "purged-piece-", "purged-piece-1 "
	w := sequence{stream: "first-token", a: []string{lines("", "purged-piece-0 ", piece, "purged-piece-2")}}.world(t)
	w.write("ferment.hcl", w.configuration()+onDisk+"http {\n  listen = [\"127.0.0.1:0\"]\n}\n")
	w.serve()
	got := w.run("run", "plan.edn", "--stream")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "purged-piece-0 purged-piece-1 purged-piece-2\n", got.stdout)
	seen := w.run("runs", "watch", "last", "-o", "edn")
	require.Equal(t, 0, seen.code, seen.stderr)
	assert.Contains(t, seen.stdout, piece)
	assert.Contains(t, w.run("runs", "records", "last", "--values").stdout, piece)
	assert.NotContains(t, w.run("runs", "records", "last").stdout, said, "records have hashes of it")
	assert.Contains(t, w.run("runs", "export", "last").stdout, piece)
	require.Equal(t, 0, w.run("runs", "replay", "last").code)

	require.True(t, w.data("runs", "purge", "last", "--yes").HasKey("purged-at"))
	for _, args := range [][]string{{"records", "last"}, {"records", "last", "--values"}, {"export", "last"}, {"show", "last"}, {"verify"}} {
		got := w.run(append([]string{"runs"}, args...)...)
		assert.Equal(t, 0, got.code, "%s: %s", args, got.stderr)
		assert.NotContains(t, got.stdout, said, args)
	}
	seen = w.run("runs", "watch", "last")
	assert.NotEqual(t, 0, seen.code)
	assert.Contains(t, seen.stderr, "stream/gone")
	require.NoError(t, filepath.WalkDir(filepath.Join(w.dir, "var"), func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		file, err := os.ReadFile(name)
		assert.NotContains(t, string(file), said, name)
		return err
	}))
}
