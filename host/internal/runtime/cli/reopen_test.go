package cli_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// flaky has capabilities that fail once and then answer.
func flaky(t *testing.T, more string) *world {
	var caps []string
	for _, name := range []string{"one", "two", "three"} {
		caps = append(caps, ":mine/"+name+" {:intents #{:mine/"+name+"} :in-schema :req/any :out-schema :res/any "+
			`:steps [{:error {:type :provider/unavailable :message "no server listens"}} {:value {:n 1}}]}`)
	}
	return newWorld(t,
		"ferment.hcl", testProfile+scripted("mine")+onDisk+more,
		"mine.edn", `{:capabilities {`+strings.Join(caps, "\n")+` :mine/wrong {:intents #{:mine/wrong} :in-schema :req/any :out-schema :res/any
		  :steps [{:error {:type :policy/blocked}}]}
		 :mine/slow {:intents #{:mine/slow} :in-schema :req/any :out-schema :res/any
		  :steps [{:error {:type :provider/unavailable}} {:delay-ms 500 :value {:n 1}}]}}}`)
}

// RUN-022: of several operators at once, and the caller with its key, one continues a
// failed run.
func TestFailedRunGoesOnOnce(t *testing.T) {
	t.Parallel()
	w := flaky(t, "")
	s := w.serve()
	post := func() answer {
		return s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/slow", "{}", ""), "Idempotency-Key", "k-1")
	}
	run := post().header.Get("Ferment-Run-Id")
	var callers sync.WaitGroup
	var resumed atomic.Int32
	for range 8 {
		callers.Go(func() {
			switch a := s.admin(`{:action :runs-resume :run "` + run + `"}`); a.status {
			case 200:
				resumed.Add(1)
			default:
				assert.Equal(t, 409, a.status, "%s", a.body)
			}
		})
	}
	callers.Go(func() { assert.Equal(t, 200, post().status) })
	callers.Wait()
	s.becomes(run, "completed")
	assert.LessOrEqual(t, resumed.Load(), int32(1))
	shown := w.run("runs", "show", run, "--edn").value(t)
	assert.Equal(t, "2", shown.Key("run").Key("epoch").String())
	s.stop()
	assert.Equal(t, 0, w.run("runs", "verify").code)
}

// RUN-022, RUN-044: the key of a failed run continues it, and so does an operator; a
// reader of its events sees one end. The run is verified and replayed as every other.
func TestFailedRunsGoOn(t *testing.T) {
	t.Parallel()
	w := flaky(t, "")
	s := w.serve()
	post := func() answer {
		return s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/one", "{}", ""), "Idempotency-Key", "k-1")
	}
	failed := post()
	assert.Equal(t, "provider/unavailable", failed.failure(t))
	run := failed.header.Get("Ferment-Run-Id")
	end := s.watch(t, run, "")
	end.until()
	last := end.seen[len(end.seen)-1]
	assert.Equal(t, "finished", last.name)
	again := s.request(t.Context(), "GET", "/v1/runs/"+run+"/events", "", "Last-Event-ID", last.id, "Accept", "text/event-stream")
	assert.Equal(t, 204, again.status, "it is final as long as it does not go on")

	done := post()
	require.Equal(t, 200, done.status, "%s", done.body)
	assert.Equal(t, run, done.header.Get("Ferment-Run-Id"))
	assert.Empty(t, done.header.Get("Idempotency-Replayed"))
	assert.Equal(t, "true", post().header.Get("Idempotency-Replayed"))
	behind := s.watch(t, run, last.id)
	behind.until()
	assert.Equal(t, "reopened", behind.seen[0].name)
	late := s.watch(t, run, "")
	late.until()
	var names []string
	for _, e := range late.seen {
		names = append(names, e.name)
	}
	assert.Equal(t, len(names)-1, slices.Index(names, "finished"))
	assert.Contains(t, names, "reopened")

	failed = s.ask("mine/two", "{}")
	require.Equal(t, "provider/unavailable", failed.failure(t))
	two := failed.header.Get("Ferment-Run-Id")
	w.run("runs", "replay", "last", "--mode", "fill")
	shown := w.run("runs", "show", "last")
	assert.NotContains(t, shown.stdout, two)
	assert.Contains(t, shown.stdout, "provider/unavailable")
	assert.NotContains(t, shown.stdout, "runs resume", "a replay does not go on")
	shown = w.run("runs", "show", two)
	assert.Contains(t, shown.stdout, "ferment runs resume run_")
	resumed := w.run("runs", "resume", two)
	require.Equal(t, 0, resumed.code, resumed.stderr)
	watched := w.run("runs", "watch", two)
	require.Equal(t, 0, watched.code, watched.stderr)
	shown = w.run("runs", "show", two)
	assert.Contains(t, shown.stdout, "by decision of ")
	assert.NotContains(t, shown.stdout, "no server listens\n\nto continue")
	twice := w.run("runs", "resume", two, "--json")
	assert.Equal(t, 6, twice.code, twice.stderr)
	require.Equal(t, 0, w.run("runs", "replay", two).code)
	require.Equal(t, 0, w.run("runs", "export", two, "run.edn").code)

	require.Equal(t, "policy/blocked", s.ask("mine/wrong", "{}").failure(t))
	final := w.run("runs", "resume", "last", "--json")
	assert.Equal(t, 6, final.code)
	assert.Contains(t, final.stderr+final.stdout, "run/not-resumable")
	s.stop()
	assert.Equal(t, 0, w.run("runs", "verify").code)
	other := flaky(t, "")
	assert.Equal(t, 0, other.run("runs", "import", w.dir+"/run.edn").code)
	o := other.serve()
	assert.Equal(t, 6, other.run("runs", "resume", "last").code, "it completed, and is read-only")
	o.stop()
}

// RUN-015: a job that fails is queued until it is retried.
func TestJobRetries(t *testing.T) {
	t.Parallel()
	w := flaky(t, "queue {\n  retry {\n    max_attempts = 2\n    backoff      = \"4s\"\n  }\n}\n")
	s := w.serve()
	a := s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/three", "{}", ":response/type :accepted"))
	require.Equal(t, 202, a.status, "%s", a.body)
	id, _ := a.value(t).Key("job/id").AsString()
	s.is(id, "queued for its second attempt", func(job edn.Value) bool {
		return word(job.Key("job/status")) == "queued" && job.Key("attempt").String() == "2"
	})
	s.stop() // it waits on at the next daemon, whose plugin fails again
	s = w.serve()
	job := s.becomes(id, "failed")
	assert.Equal(t, ":provider/unavailable", job.Key("error").Key("type").String())
	assert.Len(t, w.recorded(t, "failed"), 1)
	require.Equal(t, 0, w.run("runs", "resume", id).code)
	assert.Equal(t, "{:n 1}", s.becomes(id, "completed").Key("result").Key("out").String())
	s.stop()
	assert.Equal(t, 0, w.run("runs", "verify").code)
}
