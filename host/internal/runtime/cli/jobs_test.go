package cli_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// oneWorker is a queue class whose runs start one after the other.
const oneWorker = "queue {\n  class \"one\" {\n    workers    = 1\n    max_queued = 5\n  }\n}\n"

// submit sends an act that is answered before it runs, and returns its job.
func (s *served) submit(intent, more string, header ...string) answer {
	s.t.Helper()
	return s.request(s.t.Context(), "POST", "/v1/act", envelopeOf(intent, "{}", ":response/type :accepted :queue {:class :one} "+more), header...)
}

func (s *served) submitted(intent, more string, header ...string) string {
	s.t.Helper()
	a := s.submit(intent, more, header...)
	require.Equal(s.t, 202, a.status, "%s", a.body)
	id, _ := a.value(s.t).Key("job/id").AsString()
	require.Equal(s.t, "/v1/act/jobs/"+id, a.header.Get("Location"))
	return id
}

func (s *served) job(id string) edn.Value {
	s.t.Helper()
	a := s.request(s.t.Context(), "GET", "/v1/act/jobs/"+id, "")
	require.Equal(s.t, 200, a.status, "%s", a.body)
	return a.value(s.t)
}

// becomes waits for the state of a job.
func (s *served) becomes(id, state string) edn.Value {
	s.t.Helper()
	return s.is(id, state, func(job edn.Value) bool { return word(job.Key("job/status")) == state })
}

// is waits until a job is as it has to be.
func (s *served) is(id, state string, as func(edn.Value) bool) edn.Value {
	s.t.Helper()
	var job edn.Value
	require.Eventually(s.t, func() bool { job = s.job(id); return as(job) }, runLimit, 10*time.Millisecond,
		"%s is not %s: %s", id, state, &job)
	return job
}

// RUN-010 to RUN-014: accepted acts wait for a worker of their class, in the order
// of their priorities, and are canceled and expire while they wait.
func TestJobs(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+oneWorker)
	s := w.serve()
	hangs := s.submitted("mine/hang", "")
	s.becomes(hangs, "running")
	first := s.submitted("mine/data", "")
	waiting := s.job(first)
	assert.Equal(t, "queued", word(waiting.Key("job/status")))
	assert.Equal(t, "one", word(waiting.Key("queue/class")))
	assert.Equal(t, "0", waiting.Key("attempt").String())
	s.submitted("mine/data", "")
	assert.Equal(t, []string{"queued", "queued", "running"}, w.listed("status"))

	state := w.run("status")
	assert.Contains(t, state.stdout, "1 under way, 2 of class one waiting")
	assert.Equal(t, "2", w.data("status").Key("queued").String())

	canceled := s.request(t.Context(), "POST", "/v1/act/jobs/"+first+"/cancel", `{:reason "no need"}`)
	require.Equal(t, 200, canceled.status, "%s", canceled.body)
	assert.Equal(t, ":canceled", canceled.value(t).Key("job/status").String())
	assert.True(t, canceled.value(t).Key("cancel/accepted?").Truthy())
	job := s.job(first)
	assert.Equal(t, `"no need"`, job.Key("cancel/reason").String())
	assert.Equal(t, ":canceled", job.Key("error").Key("type").String())
	again := s.request(t.Context(), "POST", "/v1/act/jobs/"+first+"/cancel", "{}").value(t)
	assert.False(t, again.Key("cancel/accepted?").Truthy(), "it is final")

	late := s.submitted("mine/data", ":deadline-ms 150")
	job = s.becomes(late, "expired")
	assert.Equal(t, ":queue/deadline-exceeded", job.Key("error").Key("type").String())
	assert.Equal(t, "running", word(s.job(hangs).Key("job/status")), "nothing has made room for it")

	for range 4 {
		s.submitted("mine/data", "")
	}
	full := s.submit("mine/data", "")
	assert.Equal(t, 503, full.status, "%s", full.body)
	assert.Equal(t, "runtime/overloaded", full.failure(t))
	assert.NotEmpty(t, full.header.Get("Retry-After"))
	wrong := s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/data", "{}", ":queue {:class :onee}"))
	assert.Equal(t, 400, wrong.status)
	assert.Contains(t, string(wrong.body), ":one")
	assert.Equal(t, 200, s.ask("mine/data", "{}").status, "other classes go on")

	assert.Equal(t, 200, s.request(t.Context(), "POST", "/v1/runs/"+hangs+"/cancel?wait=20000", "").status)
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "queued")) == 0 }, runLimit, 10*time.Millisecond)
	for _, id := range w.listed("run", "--status", "completed") {
		assert.Equal(t, "1", s.job(id).Key("attempt").String())
	}
	s.stop()
	assert.Equal(t, 0, w.run("runs", "verify").code)
}

// RUN-011: a run with a higher priority starts first.
func TestJobPriorities(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+oneWorker+"\nrole \"user\" {\n  max_priority = 9\n}\n")
	s := w.serve()
	hangs := s.submitted("mine/hang", "")
	s.becomes(hangs, "running")
	var ids []string
	for _, priority := range []int{0, -9, 9, 0} {
		a := s.request(t.Context(), "POST", "/v1/act",
			envelopeOf("mine/data", "{}", fmt.Sprintf(":response/type :accepted :queue {:class :one :priority %d}", priority)))
		require.Equal(t, 202, a.status, "%s", a.body)
		id, _ := a.value(t).Key("job/id").AsString()
		ids = append(ids, id)
	}
	s.request(t.Context(), "POST", "/v1/act/jobs/"+hangs+"/cancel", "")
	var order []string
	for _, id := range ids {
		order = append(order, s.becomes(id, "completed").Key("started-at").String())
	}
	assert.True(t, order[2] < order[0] && order[0] < order[3] && order[3] < order[1], "%q", order)
	s.stop()
}

// RUN-010, RUN-016, RUN-020, RUN-022: jobs survive the kill of the daemon with their
// order, class and key, and what was under way goes on.
func TestJobsSurviveAKill(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+oneWorker)
	s := w.serve()
	hangs := s.submitted("mine/hang", "", "Idempotency-Key", "k0")
	s.becomes(hangs, "running")
	again := s.submit("mine/hang", "", "Idempotency-Key", "k0").value(t)
	assert.Equal(t, ":running", again.Key("job/status").String())
	assert.True(t, again.HasKey("started-at"))
	assert.Empty(t, s.submit("mine/hang", "", "Idempotency-Key", "k0").header.Get("Idempotency-Replayed"))
	ids := []string{s.submitted("mine/data", "", "Idempotency-Key", "k1"), s.submitted("mine/data", ""), s.submitted("mine/data", "")}
	assert.Equal(t, ids[0], s.submitted("mine/data", "", "Idempotency-Key", "k1"), "it is the same job")
	s.signal(syscall.SIGKILL)
	s.wait()

	s = w.serve()
	s.becomes(hangs, "running")
	require.Eventually(t, func() bool { return s.job(hangs).Key("attempt").String() == "2" }, runLimit, 10*time.Millisecond)
	for _, id := range ids {
		assert.Equal(t, "queued", word(s.job(id).Key("job/status")), id)
	}
	assert.Equal(t, ids[0], s.submitted("mine/data", "", "Idempotency-Key", "k1"))
	waits := make(chan answer, 1)
	go func() {
		waits <- s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/data", "{}", ""), "Idempotency-Key", "k1")
	}()
	s.request(t.Context(), "POST", "/v1/act/jobs/"+hangs+"/cancel", "")
	var starts []string
	for _, id := range ids {
		job := s.becomes(id, "completed")
		assert.Equal(t, "1", job.Key("attempt").String(), "it was never under way before")
		assert.Equal(t, "1", job.Key("result").Key("out").Key("n").String())
		starts = append(starts, job.Key("started-at").String())
	}
	assert.IsIncreasing(t, starts)
	answered := <-waits
	assert.Equal(t, 200, answered.status, "%s", answered.body)
	assert.Equal(t, ids[0], answered.header.Get("Ferment-Run-Id"))
	done := s.submit("mine/data", "", "Idempotency-Key", "k1")
	assert.Equal(t, 202, done.status)
	assert.Equal(t, ":completed", done.value(t).Key("job/status").String())
	assert.Equal(t, "true", done.header.Get("Idempotency-Replayed"))

	hangs = s.submitted("mine/hang", "")
	s.becomes(hangs, "running")
	last := s.submitted("mine/data", "")
	s.request(t.Context(), "POST", "/v1/act/jobs/"+hangs+"/cancel", "")
	s.becomes(last, "completed")
	s.stop()
	assert.Equal(t, 0, w.run("runs", "verify").code)
	kept := strings.Count(w.run("runs", "list", "--limit", "100").stdout, "completed")
	assert.Equal(t, 4, kept)
}

// RUN-010, RUN-041, CLI-002, CLI-004: act --async returns with the run, and runs
// watch follows it over a kill of the daemon, each event once, to its exit code.
func TestRunsWatch(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+oneWorker+scripted("broken"))
	w.write("broken.edn", script(":t/broken", ":t/broken", ":in-schema :req/any :out-schema :res/any", `{:error {:type :provider/failed :message "no luck"}}`))
	assert.Equal(t, 3, w.run("act", "mine/data", "{}", "--async").code, "there is no daemon")
	runs := func(id string) {
		t.Helper()
		require.Eventually(t, func() bool { return word(w.data("runs", "show", id).Key("run").Key("status")) == "running" }, runLimit, 10*time.Millisecond)
	}
	s := w.serve()
	begun := w.run("act", "mine/hang", "{}", "--async", "--class", "one", "--priority", "3")
	require.Equal(t, 0, begun.code, begun.stderr)
	id := w.listed("run")[0]
	assert.Contains(t, begun.stdout, "ferment runs watch "+id)
	asData := w.data("act", "mine/data", "{}", "--async", "--class", "one", "--key", "k")
	assert.Equal(t, "queued", word(asData.Key("job/status")))
	assert.Equal(t, asData.Key("job/id").String(), w.data("act", "mine/data", "{}", "--async", "--class", "one", "--key", "k").Key("job/id").String())
	runs(id)

	events := w.start("", "runs", "watch", id, "--edn", "--wait", "1m")
	text := w.start("", "runs", "watch", id)
	first, _ := text.line(0)
	assert.Contains(t, first, "asking mine/hang")
	s.signal(syscall.SIGKILL)
	s.wait()
	s = w.serve()
	runs(id)
	w.data("runs", "cancel", id)
	ended := events.wait()
	assert.Equal(t, 7, ended.code, ended.stderr)
	var names []string
	last := 0
	require.NotEmpty(t, ended.stdout)
	for _, e := range ednValues(t, ended.stdout) {
		name := word(e.Key("event"))
		if name == "shutdown" {
			continue
		}
		seq, _ := e.Key("seq").AsInt()
		assert.Greater(t, int(seq), last, "%s", e)
		last = int(seq)
		names = append(names, name)
	}
	assert.Equal(t, "accepted", names[0])
	assert.Equal(t, "finished", names[len(names)-1])
	assert.Equal(t, "cancel", names[len(names)-3], "%q", names)
	said := text.wait()
	assert.Equal(t, 7, said.code)
	assert.Contains(t, said.stderr, "canceled")

	good := w.run("runs", "watch", strings.Trim(asData.Key("job/id").String(), `"`))
	assert.Equal(t, 0, good.code, good.stderr)
	assert.Contains(t, good.stdout, ":n 1")
	w.run("act", "t/broken", "{}")
	assert.Equal(t, 1, w.run("runs", "watch", "last").code)
	s.stop()
	assert.Equal(t, 3, w.run("runs", "watch", "last").code, "no daemon")
}

// OPS-004, RUN-007: a daemon that goes down refuses the act of a caller that still
// waits for its turn, who may send it again. It does not execute it later.
func TestDrainRefusesWaitingActs(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+oneWorker)
	w.rewrite("ferment.hcl", "profile = \"test\"", "profile = \"test\"\n  drain_timeout = \"2s\"")
	s := w.serve()
	hangs := s.submitted("mine/hang", "")
	s.becomes(hangs, "running")
	answers := make(chan answer, 2)
	for _, header := range [][]string{nil, {"Idempotency-Key", "k"}} {
		go func() {
			answers <- s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/data", "{}", ":queue {:class :one}"), header...)
		}()
	}
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "queued")) == 2 }, runLimit, 10*time.Millisecond)
	s.signal(syscall.SIGTERM)
	s.wait()
	for range 2 {
		a := <-answers
		assert.Equal(t, 503, a.status, "%s", a.body)
		assert.Equal(t, "runtime/draining", a.failure(t))
		assert.True(t, a.value(t).Key("error").Key("retryable?").Truthy(), "%s", a.body)
		assert.NotEmpty(t, a.header.Get("Ferment-Run-Id"), "%s", a.body)
	}
	assert.ElementsMatch(t, []string{"failed", "open", "open"}, w.listed("status"))
	s = w.serve()
	s.request(t.Context(), "POST", "/v1/act/jobs/"+hangs+"/cancel", "")
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "open")) == 0 }, runLimit, 10*time.Millisecond)
	assert.ElementsMatch(t, []string{"failed", "completed", "canceled"}, w.listed("status"))
	s.stop()
}
