package cli_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// people is a configuration in which people approve refunds and pick colours.
const people = `
schema "res/approval" {
  spec = edn("[:map {:closed true} [:approved :boolean] [:colour {:optional true} :keyword]]")
}
intent "refund/approve" {
  in  = "req/any"
  out = "res/approval"
}
human "people/clerk" {
  intents = ["refund/approve"]
}
`

// asking is a world whose runs ask people.
func asking(t testing.TB) *world { return answering(t, onDisk+oneWorker+people) }

// asksFor submits an act that asks a person, and waits until it does.
func (s *served) asksFor(more string) string {
	s.t.Helper()
	id := s.submitted("refund/approve", more)
	s.becomes(id, "waiting")
	return id
}

func (s *served) answer(run, interrupt, body string) answer {
	return s.request(s.t.Context(), "POST", "/v1/runs/"+run+"/interrupts/"+interrupt, body, "Content-Type", "application/edn")
}

const approved = `{:answer {:approved true}}`

// JRN-045, RUN-011: a run that asks people is waiting, without a worker; the answer
// is checked, and taken once: from two people at once, one gets 409.
func TestPeople(t *testing.T) {
	t.Parallel()
	w := asking(t)
	s := w.serve()
	run := s.asksFor("")
	assert.Equal(t, []string{run}, w.listed("run", "--status", "waiting"))
	other := s.submitted("mine/data", "")
	s.becomes(other, "completed") // the only worker is free

	open := w.data("runs", "interrupts", run).Key("interrupts")
	require.Equal(t, 1, open.Len(), "%s", open)
	question, _ := open.Nth(0)
	assert.Equal(t, `"0-1-1"`, question.Key("interrupt").String())
	assert.Equal(t, ":people/clerk", question.Key("cap/id").String())
	assert.Equal(t, ":res/approval", question.Key("schema").String())
	shown := w.run("runs", "show", run)
	assert.Contains(t, shown.stdout, "ferment runs answer "+run+" 0-1-1")
	assert.Contains(t, shown.stdout, ", that of the run", "without a deadline of its own")
	assert.NotContains(t, shown.stdout, "nil")
	assert.True(t, question.HasKey("run/deadline-at"))
	second := s.asksFor("")
	for _, all := range []edn.Value{w.data("runs", "interrupts"), s.request(t.Context(), "GET", "/v1/interrupts", "").value(t)} {
		var runs []string
		for i := range all.Key("interrupts").Elems() {
			id, _ := i.Key("run").AsString()
			runs = append(runs, id)
			assert.Equal(t, question.Key("question").String(), i.Key("question").String())
		}
		assert.Equal(t, []string{second, run}, runs)
	}
	listed := w.run("runs", "interrupts")
	for _, id := range []string{run, second} {
		assert.Contains(t, listed.stdout, "ferment runs answer "+id+" 0-1-1")
	}
	fits(t, listed.stdout)
	require.Equal(t, 200, s.answer(second, "0-1-1", approved).status)
	assert.Equal(t, 1, w.data("runs", "interrupts").Key("interrupts").Len())

	wrong := s.answer(run, "0-1-1", `{:answer {:approved "perhaps"}}`)
	assert.Equal(t, 422, wrong.status, "%s", wrong.body)
	assert.Equal(t, "interrupt/answer-invalid", wrong.failure(t))
	assert.Equal(t, 404, s.answer(run, "9-1-1", approved).status)
	assert.Equal(t, 400, s.answer(run, "0-1-1", `{:value 1}`).status)
	assert.Equal(t, "waiting", word(s.job(run).Key("job/status")))

	var both sync.WaitGroup
	var status [2]int
	for i := range status {
		both.Go(func() {
			status[i] = s.request(t.Context(), "POST", "/v1/runs/"+run+"/interrupts/0-1-1", `{"answer": {"approved": true, "colour": "red"}}`,
				"Content-Type", "application/json").status
		})
	}
	both.Wait()
	assert.ElementsMatch(t, []int{200, 409}, status[:])
	job := s.becomes(run, "completed")
	assert.Equal(t, `{:approved true :colour :red}`, job.Key("result").Key("out").String())
	assert.Equal(t, 409, s.answer(run, "0-1-1", approved).status, "it has finished")
	assert.Equal(t, 0, w.run("runs", "replay", run).code)
	s.stop()
}

// JRN-045: an open interrupt survives the kill and the shutdown of its daemon with
// its id, and an answer that was acknowledged before a kill is kept.
func TestPeopleOutliveDaemons(t *testing.T) {
	t.Parallel()
	w := asking(t)
	s := w.serve()
	run, quick := s.asksFor(":deadline-ms 3600000"), s.asksFor(":deadline-ms 3600000")
	require.Equal(t, 200, s.answer(quick, "0-1-1", approved).status)
	s.signal(syscall.SIGKILL)
	s.wait()

	s = w.serve()
	s.becomes(run, "waiting")
	assert.Equal(t, `{:approved true}`, s.becomes(quick, "completed").Key("result").Key("out").String())
	assert.Equal(t, 409, s.answer(quick, "0-1-1", approved).status)
	s.stop() // does not wait for people

	s = w.serve()
	s.becomes(run, "waiting")
	reader := s.stream(t, "POST", "/v1/act", `{:proto 1 :trace {:id "s"} :task {:intent :refund/approve} :input {} :deadline-ms 3600000}`)
	reader.until("event: interrupt")
	read, _, _ := strings.Cut(reader.last().id, ".")
	began := time.Now()
	s.stop() // nor for the reader of such a run
	assert.Less(t, time.Since(began), 10*time.Second)
	reader.until("event: shutdown", "retry: 3000", read)
	reader.until()

	s = w.serve()
	s.becomes(run, "waiting")
	s.becomes(read, "waiting")
	done := w.run("runs", "answer", run, "{:approved false}")
	require.Equal(t, 0, done.code, done.stderr)
	assert.Equal(t, `{:approved false}`, s.becomes(run, "completed").Key("result").Key("out").String())
	assert.Equal(t, 6, w.run("runs", "answer", run, "0-1-1", "{:approved true}").code)
	shown := w.run("runs", "show", run)
	assert.Regexp(t, `(?m)^  answered +\S+ ago: node \S+, by uid/\d+$`, shown.stdout)
	for _, id := range []string{run, quick} {
		assert.Equal(t, 0, w.run("runs", "replay", id).code)
		records := w.run("runs", "records", id, "--edn")
		assert.Equal(t, 1, strings.Count(records.stdout, ":kind :interrupt/opened"), "it is asked once")
	}
	s.stop()
	assert.Equal(t, 0, w.run("runs", "verify").code)
}

// JRN-045, RUN-013: a run is canceled while it waits for people.
func TestPeopleCanceled(t *testing.T) {
	t.Parallel()
	w := asking(t)
	s := w.serve()
	run := s.asksFor("")
	canceled := s.request(t.Context(), "POST", "/v1/runs/"+run+"/cancel?wait=20000", "")
	require.Equal(t, 200, canceled.status, "%s", canceled.body)
	assert.Equal(t, "canceled", word(canceled.value(t).Key("status")))
	late := s.answer(run, "0-1-1", approved)
	assert.Equal(t, 404, late.status, "%s", late.body)
	assert.Equal(t, 0, w.data("runs", "interrupts", run).Key("interrupts").Len())
	s.stop()
}

// JRN-045: without a daemon nobody can be asked, and the call says so at once.
func TestPeopleNeedADaemon(t *testing.T) {
	t.Parallel()
	w := asking(t)
	got := w.run("act", "refund/approve", "{}", "--json")
	assert.Equal(t, 3, got.code, got.stdout)
	assert.Contains(t, got.stdout, "ferment serve")
}

// JRN-045: the deadline of a block human and what it says about it.
func TestPeopleConfiguration(t *testing.T) {
	t.Parallel()
	const fallback = "dispatch \"default\" {\n  retry {\n    fallback = 1\n  }\n}"
	for text, fault := range map[string]string{
		`deadline = "1h"`: "",
		"deadline = \"1h\"\n  on_deadline = \"escalate\"":                                        "config/unused",
		"deadline = \"1h\"\n  on_deadline = \"escalate\"\n}\n" + fallback:                        "",
		"deadline = \"1h\"\n  on_deadline = \"default\"\n  default = edn(\"{:approved false}\")": "",
		"deadline = \"1h\"\n  on_deadline = \"default\"\n  default = edn(\"{:approved 1}\")":     "config/type",
		"deadline = \"1h\"\n  on_deadline = \"default\"":                                         "config/missing",
		"on_deadline = \"escalate\"":                                                             "config/unused",
		"deadline = \"1h\"\n  default = edn(\"{:approved false}\")":                              "config/unused",
		"intents = [\"refund/aprove\"]":                                                          "config/dangling-reference",
	} {
		block := "human \"people/boss\" {\n  intents = [\"refund/approve\"]\n  " + text
		if !strings.HasSuffix(text, "}") {
			block += "\n}\n"
		}
		if fault == "config/dangling-reference" {
			block = "human \"people/boss\" {\n  " + text + "\n}\n"
		}
		w := answering(t, people+block)
		got := w.run("validate", "--describe", "--edn")
		found := edn.MustRead(got.stdout).String()
		if fault == "" || fault == "config/unused" {
			assert.Equal(t, fault != "", strings.Contains(found, "config/unused"), "%s: %s", text, found)
			assert.Equal(t, 0, got.code, "%s: %s", text, found)
			continue
		}
		assert.Equal(t, 1, got.code, text)
		assert.Contains(t, found, fmt.Sprintf(":type :%s", fault), text)
	}
}
