//go:build external && slow

package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/sdktest/postgrestest"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// onPostgres returns worlds whose journals are in one database, and their blocks store.
func onPostgres(t *testing.T, hosts int) (worlds []*world, kept string) {
	t.Helper()
	server, err := postgrestest.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	schema, err := server.Schema(t.Context())
	require.NoError(t, err)
	for range hosts {
		w := newWorld(t, "ferment.hcl", testProfile)
		w.dsn = server.DSN(schema, "")
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "dsn"), []byte(w.dsn+"\n"), 0o600))
		worlds = append(worlds, w)
	}
	return worlds, `store {
  driver = "postgres"
  dsn    = secret("file:dsn")
  lease  = "15s"
  sync   = "full"
}
`
}

// JRN-004, JRN-040, SES-030: as TestDaemonKilledAnytime, with the journal in
// PostgreSQL.
func TestDaemonOnPostgresKilledAnytime(t *testing.T) {
	worlds, kept := onPostgres(t, 1)
	killedAnytime(t, worlds[0], proof.Size(t, "kills of a daemon on PostgreSQL", 12, 300), kept)
}

// JRN-007: of two daemons on one database one is killed. The other one takes its runs
// over and finishes them: calls of class none and idempotent are done, one of class
// once waits for a decision. Nothing is done twice that must not be.
func TestDaemonsTakeOver(t *testing.T) {
	worlds, kept := onPostgres(t, 2)
	a, b := worlds[0], worlds[1]
	file := a.counting(t, kept)
	b.counting(t, kept)
	require.NoError(t, os.Remove(filepath.Join(b.dir, "out")))
	require.NoError(t, os.Symlink(filepath.Dir(file), filepath.Join(b.dir, "out")))
	first, second := a.serve(), b.serve()
	var runs []string
	for k := range 6 {
		name, once := fmt.Sprintf("0/%d", k), ""
		if k == 0 {
			once = fmt.Sprintf(`{:op :call :intent :count/once :input {:n "%s.7"} :as :o}`, name)
		}
		answer := first.request(context.Background(), "POST", "/v1/act", envelopeOf("plan/run",
			"{:plan "+fmt.Sprintf(countingPlan, name, once)+"}", ":effects {:allowed #{:fs/write}} :response/type :accepted"))
		require.Equal(t, 202, answer.status, "%s", answer.body)
		id, _ := answer.value(t).Key("job/id").AsString()
		runs = append(runs, id)
	}
	first.signal(syscall.SIGKILL)
	first.wait()
	require.Eventually(t, func() bool { return len(b.recorded(t, "open")) == 0 }, runLimit, 20*time.Millisecond)
	for _, id := range b.recorded(t, "suspended") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		decision := []string{"runs", "resume", id, "--decide", "retry"}
		if strings.Contains(string(text), "once 0/0.7 ") {
			decision = []string{"runs", "resume", id, "--decide", "skip-as-done", "--value", `{:n "0/0.7"}`}
		}
		b.data(decision...)
	}
	require.Eventually(t, func() bool { return len(b.recorded(t, "open")) == 0 }, runLimit, 20*time.Millisecond)
	second.stop()

	s := openStore(t, b)
	defer func() { require.NoError(t, s.Close()) }()
	damage, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	assert.Empty(t, damage)
	taken := 0
	for _, id := range runs {
		run, err := s.Run(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, journal.StatusCompleted, run.State, id)
		records, err := s.Read(t.Context(), id, 0, 10_000)
		require.NoError(t, err)
		for _, rec := range records {
			if resumed, ok := rec.Body.(*journal.RunResumed); ok && resumed.Why == journal.ResumedLease {
				taken++
			}
		}
	}
	t.Logf("%d of %d runs were under way when their daemon was killed", taken, len(runs))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.LessOrEqual(t, strings.Count(string(text), "once 0/0.7 "), 1)
	for k := range runs {
		assert.Contains(t, string(text), fmt.Sprintf("keyed 0/%d.6 ", k))
	}
}

// OPS-004, JRN-007: of two daemons on one database one goes down while a run is under way
// and another waits for its turn. The other daemon executes that one before the first
// daemon has ended.
func TestDaemonsHandOver(t *testing.T) {
	worlds, kept := onPostgres(t, 2)
	model := answering(t)
	for _, w := range worlds {
		w.write("ferment.hcl", testProfile+scripted("mine")+kept+oneWorker)
		script, err := os.ReadFile(filepath.Join(model.dir, "mine.edn"))
		require.NoError(t, err)
		w.write("mine.edn", string(script))
		w.mustLock()
	}
	first, second := worlds[0].serve(), worlds[1].serve()
	hangs := first.submitted("mine/hang", "")
	first.becomes(hangs, "running")
	waits := first.submitted("mine/data", "")
	assert.Equal(t, "queued", word(first.job(waits).Key("job/status")))

	host, err := os.ReadFile(filepath.Join(worlds[0].dir, "var", "HOST"))
	require.NoError(t, err)
	elsewhere := second.request(t.Context(), "POST", "/v1/runs/"+hangs+"/cancel", "") // RUN-013
	assert.Equal(t, 409, elsewhere.status, "%s", elsewhere.body)
	refused := elsewhere.value(t).Key("error")
	assert.True(t, refused.Key("retryable?").Truthy(), "%s", elsewhere.body)
	assert.Equal(t, strconv.Quote(strings.TrimSpace(string(host))), refused.Key("details").Key("host").String())

	first.signal(syscall.SIGTERM)
	second.becomes(waits, "completed")
	_, _, ok := first.logged(0, said("handed runs over to other hosts"))
	assert.True(t, ok)
	assert.Equal(t, "running", word(second.job(hangs).Key("job/status")), "the first daemon still waits for it")
	first.signal(syscall.SIGTERM) // and does so no longer
	first.wait()
	_, _, ok = second.logged(0, said("took over runs of hosts that are gone"))
	assert.True(t, ok)
	var canceled answer
	require.Eventually(t, func() bool { // what was taken over is executed soon, but not at once
		canceled = second.request(t.Context(), "POST", "/v1/runs/"+hangs+"/cancel?wait=20000", "")
		return canceled.status == 200
	}, runLimit, 50*time.Millisecond, "%s", &canceled.body)
	second.stop()
	assert.Equal(t, 0, worlds[1].run("runs", "verify").code)
}

// JRN-045, JRN-007: a host of a shared database lists the open questions of a run that another one
// executes, with the id of that host, which takes the answer.
func TestQuestionsOfAnotherHost(t *testing.T) {
	worlds, kept := onPostgres(t, 2)
	for _, w := range worlds {
		w.write("ferment.hcl", testProfile+people+kept+oneWorker)
		w.mustLock()
	}
	first, second := worlds[0].serve(), worlds[1].serve()
	asked := first.asksFor("")
	text, err := os.ReadFile(filepath.Join(worlds[0].dir, "var", "HOST"))
	require.NoError(t, err)
	host := strings.TrimSpace(string(text))
	for w, want := range map[*world]string{worlds[0]: "nil", worlds[1]: strconv.Quote(host)} {
		for _, command := range [][]string{{"runs", "interrupts"}, {"runs", "interrupts", asked}, {"runs", "show", asked}} {
			open := w.data(command...).Key("interrupts")
			require.Equal(t, 1, open.Len(), "%s: %s", command, open)
			question, _ := open.Nth(0)
			assert.Equal(t, want, question.Key("host").String(), command)
			shown := w.run(command...).stdout
			assert.Contains(t, shown, "ferment runs answer "+asked+" 0-1-1", command)
			assert.Equal(t, want != "nil", strings.Contains(shown, host), "%s: %s", command, shown)
		}
	}
	listed := second.request(t.Context(), "GET", "/v1/interrupts", "").value(t).Key("interrupts")
	require.Equal(t, 1, listed.Len(), "%s", listed)
	elsewhere := second.answer(asked, "0-1-1", approved)
	assert.Equal(t, 409, elsewhere.status, "%s", elsewhere.body)
	require.Equal(t, 200, first.answer(asked, "0-1-1", approved).status)
	second.becomes(asked, "completed")
	assert.Zero(t, worlds[1].data("runs", "interrupts").Key("interrupts").Len())
	second.stop()
	first.stop()
}

// SES-030: verbs that work without a daemon do so with PostgreSQL; the repair of files
// says what takes its place.
func TestVerbsOnPostgres(t *testing.T) {
	worlds, kept := onPostgres(t, 1)
	w := worlds[0]
	w.counting(t, kept)
	s := w.serve()
	answer := s.request(context.Background(), "POST", "/v1/act", envelopeOf("count/free", `{:n "1"}`, ""))
	require.Equal(t, 200, answer.status, "%s", answer.body)
	id := answer.header.Get("Ferment-Run-Id")
	s.stop()
	assert.Equal(t, []string{id}, w.recorded(t, "completed"))
	assert.Equal(t, 0, w.run("runs", "show", id).code)
	assert.Equal(t, "1 run verified, none damaged\n", w.run("runs", "verify").stdout)
	exported := filepath.Join(w.dir, "run.edn")
	require.Equal(t, 0, w.run("runs", "export", id, exported).code)
	refused := w.run("runs", "import", exported)
	assert.NotEqual(t, 0, refused.code)
	assert.Contains(t, refused.stderr, "import/conflict")
	require.Equal(t, 0, w.run("admin", "backup", "b.tar").code) // OPS-008
	config := w.elsewhere("copy")
	revoke := w.run("admin", "restore", "b.tar", "--config", config, "--revoke-tokens", "--yes")
	assert.Equal(t, 2, revoke.code, revoke.stderr)
	assert.Contains(t, revoke.stderr, "PostgreSQL")
	assert.NoDirExists(t, filepath.Join(w.dir, "copy"))
	plan := w.run("admin", "restore", "b.tar", "--config", config, "--dry-run")
	assert.Contains(t, plan.stdout, "open runs are those of the database and go on; tokens are those of the database")
	repair := w.run("admin", "journal-repair")
	assert.NotEqual(t, 0, repair.code)
	assert.Contains(t, repair.stderr, "PostgreSQL")
	assert.NotContains(t, w.run("config", "show").stdout, w.dsn)

	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "dsn"), []byte("host=/nowhere password=hidden\n"), 0o600))
	gone := w.run("serve")
	assert.Equal(t, 69, gone.code, gone.stderr)
	assert.NotContains(t, gone.stderr, "hidden")
}
