package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// through returns a rig whose requests go to url.
func through(t testing.TB, dialect, url string) *rig {
	r := &rig{t: t, id: providers[dialect] + "/voice"}
	r.Plugin = sdktest.Serve(t, newPlugin(transport.System()), sdktest.WithConfig(settingsFor(t, dialect, url, "", "")),
		sdktest.WithSecrets(map[string]string{"api-key": canary}), sdktest.WithoutLeakCheck())
	return r
}

// steady formats an outcome without times and hashes.
func steady(o outcome) string {
	var all []string
	for _, key := range []string{"tokens-in", "tokens-out", "tokens-cached", "tokens-reasoning", "tokens-mark"} {
		all = append(all, o.usage.Key(key).String())
	}
	all = append(all, failureOf(o.err), o.out.String(), o.text, o.reasoning, o.meta.Key("finish").String(), o.meta.Key("provider").String(), o.meta.Key("stream/skipped").String())
	return strings.Join(all, "\n")
}

// LLM-053: playing a recording gives the same result, for every transcript of
// every dialect, including those that break off.
func TestRecordings(t *testing.T) {
	for _, dialect := range dialects() {
		for _, tr := range wiretest.Load(t, "../internal/provider/testdata/wire", dialect) {
			if tr.Name == "finish-and-stall" {
				continue // its clock is moved by hand
			}
			t.Run(dialect+"/"+tr.Name, func(t *testing.T) {
				t.Parallel()
				input := hello
				if strings.Contains(tr.Name, "tool-call") || len(tr.Want.Calls) > 0 {
					input = withTools
				}
				tr.Body = nil
				server := wiretest.Serve(t, tr)
				recorder := wiretest.Record(t, wiretest.Recording{Upstream: server.URL, Source: "the server of these tests", Date: "2026-11-22", Secrets: []string{canary}})
				first := through(t, dialect, recorder.URL).ask(t.Context(), "model/chat", input, "", nil)
				var texts []string
				require.Eventually(t, func() bool {
					var err error
					texts, err = recorder.Texts()
					return err == nil && len(texts) == 1
				}, 20*time.Second, time.Millisecond)
				assert.NotContains(t, texts[0], "CANARY")
				assert.True(t, strings.HasPrefix(texts[0], "origin: recorded\nsource: the server of these tests\ndate: 2026-11-22\nrequest: POST "), texts[0])
				again, err := wiretest.Parse(tr.Name, texts[0])
				require.NoError(t, err, texts[0])
				assert.Equal(t, tr.Whole(), again.Whole(), "byte for byte")
				second := through(t, dialect, wiretest.Serve(t, again).URL).ask(t.Context(), "model/chat", input, "", nil)
				assert.Equal(t, steady(first), steady(second))
			})
		}
	}
}

// LLM-053, LM-004: if a server repeats the key, it is removed; if it cannot be
// removed, nothing is recorded.
func TestRecordingsAreScrubbed(t *testing.T) {
	k := talks()["openai-chat"]
	server := wiretest.Serve(t, k.says(k.start, k.text("your key is "+canary), k.finish("stop"), k.end))
	set := wiretest.Recording{Upstream: server.URL, Source: "a server that talks too much", Date: "2026-11-22", Secrets: []string{canary}}
	recorder := wiretest.Record(t, set)
	o := through(t, "openai-chat", recorder.URL).ask(t.Context(), "model/chat", hello, "", nil)
	require.Nil(t, o.err)
	var texts []string
	require.Eventually(t, func() bool {
		texts, _ = recorder.Texts()
		return len(texts) == 1
	}, 20*time.Second, time.Millisecond)
	assert.Contains(t, texts[0], "[secret]")
	assert.NotContains(t, texts[0], canary[3:11])
	assert.NotContains(t, strings.ToLower(texts[0]), "authorization")

	// A key that is split into pieces of one byte each cannot be removed.
	set.Transport = answering(func() *http.Response {
		body := k.start + k.text("your key is "+canary) + k.finish("stop") + k.end
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {k.media}}, Body: io.NopCloser(iotest.OneByteReader(strings.NewReader(body)))}
	})
	recorder = wiretest.Record(t, set)
	require.Nil(t, through(t, "openai-chat", recorder.URL).ask(t.Context(), "model/chat", hello, "", nil).err)
	require.Eventually(t, func() bool {
		_, err := recorder.Texts()
		return err != nil
	}, 20*time.Second, time.Millisecond)
}

// answering is a transport that gives the same answer to every request.
type answering func() *http.Response

func (a answering) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }

// LLM-053: pauses are recorded, and played by a Server with a Pace.
func TestRecordedPauses(t *testing.T) {
	tr, err := wiretest.Parse("paused", "origin: recorded\nsource: s\ndate: 2026-11-22\nrequest: POST /chat/completions\nheader: Content-Type: text/event-stream\n\nwait 120ms\n| data: {}\n---\nwait 1s\n| data: [DONE]\n|\n")
	require.NoError(t, err)
	require.Len(t, tr.Steps, 2)
	assert.Equal(t, []time.Duration{120 * time.Millisecond, time.Second}, []time.Duration{tr.Steps[0].Wait, tr.Steps[1].Wait})
	k := talks()["openai-chat"]
	paused := k.whole("Hello.")
	paused.Steps[1].Wait = time.Hour
	server := wiretest.Serve(t, paused)
	var waited []time.Duration
	server.Pace = func(d time.Duration, _ <-chan struct{}) { waited = append(waited, d) }
	require.Nil(t, through(t, "openai-chat", server.URL).ask(t.Context(), "model/chat", hello, "", nil).err)
	assert.Equal(t, []time.Duration{time.Hour}, waited)
	_, err = wiretest.Parse("wrong", "origin: recorded\nsource: s\ndate: d\n\nwait long\n")
	assert.Error(t, err)
}
