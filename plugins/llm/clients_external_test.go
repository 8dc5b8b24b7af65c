//go:build external

package main

import (
	"bufio"
	"cmp"
	"net/http"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

// The tests of this file require node and the packages of clientsDir, where
// read.mjs runs the vendors' own clients against the servers of these tests.
const (
	clientsDir = "../internal/provider/wiretest/clients"
	wires      = "../internal/provider/testdata/wire"
)

// visible returns the part of a transcript's want that a client can see: a
// client infers no finish reason, and that of Ollama drops the ids of calls.
func visible(dialect string, w wiretest.Want) wiretest.Want {
	if w.Assumed {
		w.Finish, w.Assumed = "", false
	}
	if dialect == "ollama-chat" {
		var calls []string
		for _, call := range w.Calls {
			calls = append(calls, call[max(0, strings.Index(call, "fs__")):])
		}
		w.Calls = calls
	}
	return w
}

// clientsAccept are the transcripts that are an error for the plugin but not
// for a client, and the reasons.
var clientsAccept = map[string]string{
	"openai-responses/delta-lost": "a client does not compare the deltas with the text that the end of an item repeats",
}

// LLM-053, LLM-054: for every well-formed transcript the vendors' clients read
// the same as the adapter and send the request that the transcript names. They
// read no other transcript like the adapter, and throw at those that fail. The
// Responses API is read three ways: by its events, by the response that the
// last one repeats, and as a response that is not streamed. Excluded are
// refusals, which are answers for a client, and unreadable events, which each
// client treats in its own way.
func TestClientsReadTheTranscripts(t *testing.T) {
	var readings []wiretest.Reading
	var all []wiretest.Transcript
	for _, dialect := range dialects() {
		before, whole := len(readings), 0
		for _, tr := range wiretest.Load(t, wires, dialect) {
			stalls := slices.ContainsFunc(tr.Steps, func(s wiretest.Step) bool { return s.Do == "stall" })
			if stalls || tr.Want.Error == "provider/refused" || tr.Want.Skipped > 0 {
				continue
			}
			add := func(form string) {
				if tr.WellFormed {
					whole++
				}
				readings = append(readings, wiretest.Reading{
					Name: dialect + form + "/" + tr.Name, Dialect: dialect + form, URL: wiretest.Serve(t, tr).URL,
				})
				all = append(all, tr)
			}
			add("")
			if dialect == "openai-responses" && tr.WellFormed {
				add("/whole")
			}
			if dialect == "openai-responses" && tr.Name == "not-streamed" {
				tr.WellFormed = true
				add("/value")
			}
		}
		t.Logf("%s: %d readings, %d of them well-formed", dialect, len(readings)-before, whole)
		assert.GreaterOrEqual(t, whole, 8, dialect)
	}
	for i, s := range wiretest.ReadByClients(t, clientsDir, readings) {
		name, tr := readings[i].Name, all[i]
		want, got := visible(readings[i].Dialect, tr.Want), s.Want(readings[i].Dialect)
		switch {
		case clientsAccept[name] != "":
			assert.Empty(t, s.Error, name)
		case tr.Want.Error != "":
			assert.NotEmpty(t, s.Error, name)
		case !tr.WellFormed:
			assert.False(t, s.Error == "" && reflect.DeepEqual(want, got), "%s: the client reads it: it is well-formed", name)
		case assert.Empty(t, s.Error, name):
			assert.Equal(t, want, got, name)
		}
	}
}

// named finds a transcript.
func named(t *testing.T, dialect, name string) wiretest.Transcript {
	t.Helper()
	all := wiretest.Load(t, wires, dialect)
	i := slices.IndexFunc(all, func(tr wiretest.Transcript) bool { return tr.Name == name })
	require.GreaterOrEqual(t, i, 0, "no transcript %s/%s", dialect, name)
	return all[i]
}

// LLM-003: the reason for wire code of our own. The plain stream of these
// clients accepts a cut answer as complete, stops at an unreadable event, and
// repeats a failed request without informing the caller.
func TestWhyTheWireCodeIsOurOwn(t *testing.T) {
	for _, dialect := range []string{"openai-chat", "anthropic-messages"} {
		var readings []wiretest.Reading
		for _, name := range []string{"truncated", "malformed-then-recovery"} {
			tr := named(t, dialect, name)
			tr.Body = nil
			readings = append(readings, wiretest.Reading{Dialect: dialect + "/plain", URL: wiretest.Serve(t, tr).URL})
		}
		failing := wiretest.Serve(t, wiretest.Transcript{
			Status: http.StatusInternalServerError,
			Header: http.Header{"Retry-After-Ms": {"1"}},
		})
		sights := wiretest.ReadByClients(t, clientsDir, append(readings, wiretest.Reading{Dialect: dialect + "/plain", URL: failing.URL}))
		assert.Empty(t, sights[0].Error, dialect)
		assert.NotEmpty(t, sights[1].Error, dialect)
		assert.NotEmpty(t, sights[2].Error, dialect)
		assert.Len(t, failing.Requests(), 3, dialect)
	}
}

// LLM-022, LLM-054: the client of Anthropic reads the count of a request as the
// plugin does.
func TestClientReadsTheCount(t *testing.T) {
	tr := named(t, "count", "anthropic")
	s := wiretest.ReadByClients(t, clientsDir, []wiretest.Reading{{Dialect: "anthropic-count", URL: wiretest.Serve(t, tr).URL}})[0]
	require.Empty(t, s.Error)
	assert.EqualValues(t, tr.Want.In, s.Seen.In)
}

// How a client may differ from the plugin.
const (
	rejects  = "rejects"  // it throws
	misreads = "misreads" // it returns another text as the answer
)

type clientDifference struct{ pattern, client, why string }

// clientDifferences are the faults with a complete answer that a client does
// not accept as such, by pattern of DIALECT/NAME. In all of them the plugin
// accepts more than the vendors' servers send, for the sake of other servers
// and proxies.
var clientDifferences = []clientDifference{
	{`/"[^"]+" after \d bytes$`, misreads,
		"a client decodes each event on its own; the plugin joins a character that is split over two events"},
	{`^openai-responses/.*"status":"completed","(usage|model|id|output":(null|"x"))`, rejects,
		"a client needs the output in the last event; the plugin has it from the events before"},
	{`^openai-responses/(without items|an item without positions|more after the end)$`, rejects,
		"a client needs response.created and the begin of each item before what belongs to them"},
	{`^openai-responses/without deltas$`, misreads,
		"the vendor sends deltas of each text; the plugin takes the text of an item that had none"},
	{`^openai-responses/(parts without deltas|an empty part before one with deltas|a part without deltas after another one|` +
		`parts one after another without indexes)$`, rejects,
		"a client needs the begin of each part; the plugin takes the text of one that had none"},
	{`^openai-responses/events of a later version$`, rejects,
		"a client knows each event; the plugin passes over others"},
	{`^(openai-chat|openai-responses|anthropic-messages)/(an abort in |all of it again in .*do:abort$)`, rejects,
		"a client reads to the end of the body; for the plugin the formal end of the stream is enough"},
	{`^anthropic-messages/.* \| event:{"type":"message_delta",.* \| do:cut$`, rejects,
		"a client needs message_stop; the plugin accepts a stop reason in its place"},
	{`^anthropic-messages/a piece named ping$`, misreads,
		"a client reads the name of an event; the plugin reads its type"},
	{`^anthropic-messages/nothing in `, rejects,
		"a client needs usage in message_delta; the plugin estimates missing usage"},
	{`^openai-chat/(the text once more|messages as deltas)$`, rejects,
		"a message in a chunk replaces the role that came before; the vendor sends none"},
	{`^openai-chat/a role without a text$`, rejects,
		"a client requires the role of the first chunk; the plugin reads the role of a text"},
	{`^openai-chat/usage alone$`, rejects,
		"a client needs choices in each chunk; the plugin reads usage without them"},
	{`^openai-chat/(parts|reasoning and a citation among the parts|summaries of reasoning among the parts)$`, misreads,
		"the vendor sends the content of a delta as one text; the plugin reads a list of parts too"},
	{`^openai-chat/another choice$`, rejects,
		"a client needs the finish reason of each choice; the plugin reads the one choice that it asked for"},
	{`^ollama-chat/an error that is none$`, rejects,
		"for a client any field named error is an error; for the plugin an empty one is not"},
}

// LLM-054, LLM-055: the vendors' clients also accept what the fault server
// sends as a complete answer.
func TestClientsReadTheFaults(t *testing.T) {
	var readings []wiretest.Reading
	var texts []string
	for _, dialect := range dialects() {
		before := len(readings)
		for _, f := range faultsOf(dialect) {
			if f.want != "" || f.finish != "" { // of several finish reasons a client reports the last one
				continue
			}
			tr, more := talks()[dialect].steps(f.says)
			if more != nil {
				close(more) // a client has no clock that the test can move
			}
			readings = append(readings, wiretest.Reading{
				Name: dialect + "/" + f.name, Dialect: dialect, URL: wiretest.Serve(t, tr).URL,
			})
			texts = append(texts, cmp.Or(f.meant, "Hello world."))
		}
		t.Logf("%s: %d faults with a whole answer", dialect, len(readings)-before)
		assert.GreaterOrEqual(t, len(readings)-before, 25, dialect)
	}
	differ := make([]int, len(clientDifferences))
	for i, s := range wiretest.ReadByClients(t, clientsDir, readings) {
		name, w := readings[i].Name, s.Want(readings[i].Dialect)
		known := slices.IndexFunc(clientDifferences, func(d clientDifference) bool {
			return regexp.MustCompile(d.pattern).MatchString(name)
		})
		if known >= 0 {
			differ[known]++
			assert.Equal(t, clientDifferences[known].client == rejects, s.Error != "", "%s: %s", name, s.Error)
			assert.NotEqual(t, texts[i], w.Text, name)
			continue
		}
		if assert.Empty(t, s.Error, name) {
			assert.Equal(t, []string{texts[i], "stop"}, []string{w.Text, w.Finish}, name)
		}
	}
	for i, d := range clientDifferences {
		t.Logf("%d differ: %s", differ[i], d.why)
		assert.Positive(t, differ[i], "%s: no such fault", d.pattern)
	}
}

// LLM-054, LLM-055: the vendors' clients read the elements of the fault
// server's streams: texts, calls, limits, usage, keep-alives and errors.
func TestClientsReadTheFaultServer(t *testing.T) {
	const args = `{"path":"a.go"}`
	var readings []wiretest.Reading
	var wants []wiretest.Want
	for _, dialect := range dialects() {
		k := talks()[dialect]
		add := func(w wiretest.Want, parts ...string) {
			w.In, w.Out = 9, 3
			server := wiretest.Serve(t, k.says(parts...))
			readings = append(readings, wiretest.Reading{Name: dialect, Dialect: dialect, URL: server.URL})
			wants = append(wants, visible(dialect, w))
		}
		call := k.tool("t1", "fs__read", args)
		add(wiretest.Want{Text: "Hello world.", Finish: "stop"},
			k.start, k.text("Hello "), k.text("world."), k.finish("stop"), k.end)
		add(wiretest.Want{Text: "Hello", Finish: "length"},
			k.start, k.text("Hello"), k.finish("length"), k.end)
		add(wiretest.Want{Text: "Hello", Finish: "stop"},
			k.quiet, k.start, k.quiet, k.text("Hello"), k.quiet, k.finish("stop"), k.end)
		add(wiretest.Want{Text: "So.", Finish: "tool-calls", Calls: []string{"t1 fs__read " + args}},
			k.start, k.text("So."), call, k.finish("tool"), k.end)
		add(wiretest.Want{Error: "it failed"},
			k.start, k.text("Hello"), k.inBand("api_error", "it failed"))
	}
	for i, s := range wiretest.ReadByClients(t, clientsDir, readings) {
		if wants[i].Error != "" {
			assert.Contains(t, s.Error, wants[i].Error, readings[i].Name)
		} else if assert.Empty(t, s.Error, readings[i].Name) {
			assert.Equal(t, wants[i], s.Want(readings[i].Dialect), readings[i].Name)
		}
	}
}

// LLM-054: the client reads the server of the conformance tests.
func TestClientReadsTheConformanceServer(t *testing.T) {
	c := exec.Command("python3", "../../.ci/model-server")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start(), "the test needs python3")
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // killed
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s := wiretest.ReadByClients(t, clientsDir, []wiretest.Reading{{Dialect: "openai-chat", URL: "http://127.0.0.1:" + strings.TrimSpace(port)}})[0]
	require.Empty(t, s.Error)
	assert.Equal(t, wiretest.Want{Text: "a b c", Finish: "stop", In: 9, Out: 3}, s.Want("openai-chat"))
}
