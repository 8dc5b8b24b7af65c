package cli_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// JRN-022: values that a schema marks as secret are in no file of the data directory, no
// log, no stream and no output about the run, also when the daemon is killed. The plugin
// and the caller who waits have them.
func TestMarkedSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	const token = canary + "-marked-by-a-schema"
	w := newWorld(t,
		"ferment.hcl", testProfile+scripted("mine")+onDisk+`
schema "t/marked" {
  spec = edn("[:map [:token {:secret true} :string]]")
}

schema "t/said" {
  spec = edn("[:map [:ticket {:secret true} :string] [:said :string]]")
}

intent "mine/say" {
  in  = "t/marked"
  out = "t/said"
}

intent "mine/slow" {
  in  = "t/marked"
  out = "t/said"
}
`,
		"mine.edn", `{:capabilities
 {:mine/say {:intents #{:mine/say} :in-schema :req/any :out-schema :res/any :steps [{:template {:ticket "{{input.token}}-ticket" :said "you said {{input.token}}"}}]}
  :mine/slow {:intents #{:mine/slow} :in-schema :req/any :out-schema :res/any :steps [{:delay-ms 60000 :template {:ticket "{{input.token}}-ticket" :said ""}}]}}}`)
	e := &ear{}
	s := w.serve()
	input := fmt.Sprintf(`{:token %q}`, token)
	post := func(s *served, intent, key string) answer {
		return s.request(t.Context(), "POST", "/v1/act", envelopeOf(intent, input, ""), "Idempotency-Key", key)
	}
	first := post(s, "mine/say", "k-1")
	require.Equal(t, 200, first.status, "%s", first.body)
	assert.Contains(t, string(first.body), "you said "+token)
	run := first.header.Get("Ferment-Run-Id")
	again := post(s, "mine/say", "k-1")
	assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	e.hear("the response of the journal", string(again.body))
	streamed := s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/say", input, ""), "Accept", "text/event-stream")
	e.hear("the stream of an act", string(streamed.body))
	assert.Contains(t, string(streamed.body), "b3k:")
	events := s.watch(t, run, "")
	events.until()
	for _, one := range events.seen {
		e.hear("event "+one.name, one.text)
	}
	lost := make(chan answer, 1)
	go func() { lost <- post(s, "mine/slow", "k-2") }()
	require.Eventually(t, func() bool { return len(w.recorded(t, "running")) == 1 }, runLimit, 20*time.Millisecond)
	s.signal(syscall.SIGKILL)
	e.hear("the log of the first daemon", s.wait().stderr)
	<-lost

	s = w.serve()
	require.Eventually(t, func() bool { return len(w.recorded(t, "failed")) == 1 }, runLimit, 20*time.Millisecond)
	hears := func(args ...string) ended {
		got := w.run(args...)
		e.hear(fmt.Sprint(args), got.stdout+got.stderr)
		return got
	}
	cut := w.recorded(t, "failed")[0]
	assert.Contains(t, hears("runs", "show", cut, "--edn").stdout, "run/secret-missing")
	assert.NotContains(t, hears("runs", "show", cut).stdout, "runs resume", "the secret would be missing again")
	for _, args := range [][]string{
		{"runs", "show", run, "--edn"}, {"runs", "records", run, "--values"}, {"runs", "export", run, "run.edn"}, {"runs", "replay", run}, {"runs", "verify"},
		{"runs", "watch", run, "--edn"}, {"runs", "diff", run, run}, {"runs", "list"}, {"status"},
	} {
		assert.Equal(t, 0, hears(args...).code, "%v", args)
	}
	e.hear("the log of the second daemon", s.stop().stderr)
	info, err := os.Stat(filepath.Join(w.dir, "var", "secrets.key"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	text, err := os.ReadFile(filepath.Join(w.dir, "run.edn"))
	require.NoError(t, err)
	e.hear("the exported file", string(text))
	require.NoError(t, filepath.WalkDir(filepath.Join(w.dir, "var"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		e.hear(path, string(text))
		return err
	}))
	e.silent(t)
}
