package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// onDisk keeps the runs of a world in a file.
const onDisk = "\nstore {\n  driver = \"sqlite\"\n}\n"

// recording is answering with a journal on disk, and a capability that fails.
func recording(t testing.TB) *world {
	w := answering(t, onDisk+scripted("broken"))
	w.write("broken.edn", script(":t/broken", ":t/broken", ":in-schema :req/any :out-schema :res/any",
		`{:error {:type :provider/failed :message "no luck"}}`))
	return w
}

// data runs a command with --edn and returns its result.
func (w *world) data(args ...string) edn.Value {
	w.t.Helper()
	got := w.run(append(args, "--edn")...)
	require.Equal(w.t, 0, got.code, "%s: %s", strings.Join(args, " "), got.stderr)
	return got.value(w.t)
}

// listed returns a key of each recorded run, the latest first.
func (w *world) listed(key string, args ...string) (out []string) {
	w.t.Helper()
	for r := range w.data(append([]string{"runs", "list"}, args...)...).Key("runs").Elems() {
		text, ok := r.Key(key).AsString()
		if !ok {
			text = word(r.Key(key))
		}
		require.NotEmpty(w.t, text, "%s of %s", key, r)
		out = append(out, text)
	}
	return out
}

// JRN-040, JRN-053, JRN-061, CLI-002, CLI-003, CLI-005, RUN-013, RUN-014, each as
// far as an operator sees it: runs are listed, shown, verified, exported, pinned,
// purged and canceled through the daemon, and on the files after it was killed;
// the next daemon resumes what was open.
func TestRuns(t *testing.T) {
	t.Parallel()
	w := recording(t)
	none := w.run("runs", "list")
	assert.Equal(t, 0, none.code, none.stderr)
	assert.Contains(t, none.stdout, "ferment serve")
	assert.NoDirExists(t, filepath.Join(w.dir, "var"), "a list creates nothing")
	assert.Equal(t, 5, w.run("runs", "show", "last").code)

	s := w.serve()
	good := w.run("act", "mine/data", "{}", "--verbose")
	require.Equal(t, 0, good.code, good.stderr)
	bad := w.run("act", "t/broken", "{}")
	require.Equal(t, 1, bad.code, bad.stderr)
	assert.Equal(t, []string{"failed", "completed"}, w.listed("status"))
	assert.Equal(t, []string{"t/broken"}, w.listed("intent", "--status", "failed", "--since", "1h"))
	assert.Len(t, w.listed("run", "--limit", "1"), 1)
	ids := w.listed("run")
	assert.Contains(t, bad.stderr, "ferment runs show "+ids[0])
	assert.Contains(t, good.stderr, ids[1])

	lost := w.data("runs", "show", "last")
	assert.Equal(t, ":runtime/invoke-failed", lost.Key("error").Key("type").String())
	assert.Equal(t, 1, lost.Key("transcript").Len())
	text := w.run("runs", "show", ids[0][:28])
	assert.Equal(t, 0, text.code, text.stderr)
	for _, part := range []string{ids[0], "t/broken", "failed", "attempt 1", "no luck"} {
		assert.Contains(t, text.stdout, part)
	}
	records := w.run("runs", "records", ids[1], "--values")
	require.Equal(t, 0, records.code, records.stderr)
	all := ednValues(t, records.stdout)
	assert.Len(t, jsonValues(t, w.run("runs", "records", ids[1], "--json").stdout), len(all))
	assert.Len(t, ednValues(t, w.run("runs", "records", ids[1], "--after", "3").stdout), len(all)-3)
	assert.Equal(t, ":run/accepted", all[0].Key("kind").String())
	assert.Positive(t, all[0].Key("values").Len())

	hanging := w.start("", "act", "mine/hang", "{}")
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "running")) == 1 }, 20*time.Second, 20*time.Millisecond)
	assert.Equal(t, 6, w.run("runs", "export", "last").code, "it is not finished")
	assert.True(t, w.data("runs", "cancel", "last", "--why", "enough").Key("cancel/accepted?").Truthy())
	assert.Equal(t, 7, hanging.wait().code)
	canceled := w.data("runs", "show", "last")
	assert.Equal(t, "canceled", word(canceled.Key("run").Key("status")))
	assert.Equal(t, `"enough"`, canceled.Key("cancel").Key("why").String())
	assert.False(t, w.data("runs", "cancel", "last").Key("cancel/accepted?").Truthy(), "it has ended")

	whole := w.run("runs", "export", ids[1])
	require.Equal(t, 0, whole.code, whole.stderr)
	exported := w.data("runs", "export", ids[1], "run.edn")
	written, err := os.ReadFile(filepath.Join(w.dir, "run.edn"))
	require.NoError(t, err)
	assert.Equal(t, whole.stdout, string(written))
	assert.Equal(t, edn.Int(int64(len(written))).String(), exported.Key("bytes").String())
	assert.Equal(t, 6, w.run("runs", "import", "run.edn").code, "it is recorded already")
	assert.True(t, w.data("runs", "pin", ids[1]).Key("pinned?").Truthy())
	assert.False(t, w.data("runs", "unpin", ids[1]).HasKey("pinned?"))
	assert.Equal(t, 2, w.run("runs", "purge", ids[1]).code, "nobody confirms")
	assert.False(t, w.data("runs", "purge", ids[1], "--dry-run").HasKey("purged-at"))
	assert.True(t, w.data("runs", "purge", ids[1], "--yes").HasKey("purged-at"))

	cut := w.start("", "act", "mine/hang", "{}")
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "running")) == 1 }, 20*time.Second, 20*time.Millisecond)
	s.signal(syscall.SIGKILL)
	s.wait()
	id := w.listed("run", "--status", "open")
	require.Len(t, id, 1)
	assert.Contains(t, cut.wait().stderr, "ferment runs show "+id[0], "its caller can find it")
	assert.Equal(t, "4", w.data("runs", "verify").Key("runs").String())
	assert.Equal(t, 3, w.run("runs", "cancel", id[0]).code, "no daemon executes it")

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	file := w.configuration()
	w.write("ferment.hcl", file+"http {\n  listen = [\""+taken.Addr().String()+"\"]\n}\n")
	failed := w.run("serve")
	assert.Equal(t, 69, failed.code, failed.stderr)
	require.NoError(t, taken.Close())
	w.write("ferment.hcl", file)

	s = w.serve()
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "running")) == 1 }, 20*time.Second, 20*time.Millisecond)
	resumed, _ := w.data("runs", "show", id[0]).Key("epochs").Nth(1)
	assert.Equal(t, ":crash", resumed.Key("why").String())
	w.data("runs", "cancel", id[0])
	require.Eventually(t, func() bool { return w.listed("status")[0] == "canceled" }, 20*time.Second, 20*time.Millisecond)
	assert.Equal(t, ":ok? true", strings.Trim(w.data("runs", "verify").Dissoc(edn.K("damaged"), edn.K("runs"), edn.K("sessions")).String(), "{}"))
	s.stop()
}

// JRN-042, JRN-044, RUN-016: a run whose calls may have had their effect is
// suspended: its caller is told so, it stays so over crashes of the daemon, and goes
// on with what the operator decides about each call, or is canceled.
func TestRunsDecide(t *testing.T) {
	t.Parallel()
	const quick = "restart {\n  backoff = \"5ms\"\n  jitter  = 0\n}"
	w := answering(t, onDisk+scripted("pay", quick)+scripted("mail", quick))
	for _, name := range []string{"pay", "mail"} {
		w.write(name+".edn", script(":t/"+name, ":t/"+name, ":in-schema :req/any :out-schema :res/any :recovery-rules [[[:q] 1 :once]]",
			sigkill, `{:value {:done "`+name+`"}}`))
	}
	begin := func(s *served) (id string) {
		got := s.request(t.Context(), "POST", "/v1/act", envelopeOf("plan/run", `{:plan {:nodes [
			{:op :call :id "pay" :intent :t/pay :input {:q 1} :as :p} {:op :call :id "mail" :intent :t/mail :input {:q 1} :as :m}
			{:op :emit :input [{:slot/path [:p :out]} {:slot/path [:m :out]}]}]}}`, ""))
		require.Equal(t, 409, got.status, "%s", got.body)
		require.Equal(t, "run/suspended", got.failure(t))
		return got.header.Get("Ferment-Run-Id")
	}
	status := func(is string) {
		t.Helper()
		require.Eventually(t, func() bool { return w.listed("status")[0] == is }, 20*time.Second, 20*time.Millisecond, is)
	}

	s := w.serve()
	id := begin(s)
	assert.Equal(t, 6, w.run("runs", "export", id).code, "it is not finished")
	s.signal(syscall.SIGKILL)
	s.wait()
	assert.Equal(t, 3, w.run("runs", "resume", id, "--decide", "pay=fail", "--decide", "mail=fail").code, "no daemon executes it")
	s = w.serve()
	assert.Equal(t, []string{id}, w.listed("run", "--status", "suspended"))
	assert.Contains(t, w.run("status").stdout, "1 suspended run, see \"ferment runs list --status suspended\"")
	shown := w.run("runs", "show", id)
	require.Equal(t, 0, shown.code, shown.stderr)
	for _, part := range []string{"suspended", "effects/outcome-unknown", "node pay", ":t/mail", "--decide mail=retry", "--decide pay=retry"} {
		assert.Contains(t, shown.stdout, part)
	}
	for line := range strings.Lines(shown.stdout) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 100, line)
	}
	for _, mode := range []string{"strict", "fill"} {
		got := w.run("runs", "replay", id, "--mode", mode)
		assert.Equal(t, 6, got.code, "it is not finished: %s", got.stderr)
		assert.Contains(t, got.stderr, "suspended", mode)
	}
	same := w.run("runs", "diff", id, id)
	assert.Equal(t, 0, same.code, same.stderr)
	assert.Contains(t, same.stdout, "B is suspended")
	for _, row := range []struct {
		args string
		code int
		part string
	}{
		{"", 6, "pay"},
		{"--decide pay=retry", 6, "mail"},
		{"--decide retry", 1, "2 calls need a decision"},
		{"--decide retry --decide fail", 2, "two decisions"},
		{"--decide pay=retry --decide pay=fail", 2, "two decisions"},
		{"--decide pay=retry --decide mail=retry --decide other=retry", 1, "other"},
		{"--decide pay=skip-as-done --decide mail=retry", 1, "needs the value"},
		{"--decide pay=again", 2, "skip-as-done"},
		{"--decide =retry", 2, "--decide =retry"},
		{"--decide =skip-as-done --value ={:a}", 2, "--decide =skip-as-done"},
		{"--decide pay=retry --value mail=1", 2, "mail"},
		{"--decide pay=skip-as-done --value pay={", 2, "EDN"},
	} {
		got := w.run(append([]string{"runs", "resume", id}, strings.Fields(row.args)...)...)
		assert.Equal(t, row.code, got.code, "%s: %s", row.args, got.stderr)
		assert.Contains(t, got.stderr, row.part, row.args)
	}
	status("suspended")

	w.data("runs", "resume", id, "--decide", "pay=retry", "--decide", "mail=skip-as-done", "--value", "mail={:done :seen}")
	require.Eventually(t, func() bool { // the script of pay has begun anew with the daemon
		again := w.data("runs", "show", id)
		return again.Key("suspended").Key("open").Len() == 1 && again.Key("epochs").Len() == 2
	}, 20*time.Second, 20*time.Millisecond)
	w.data("runs", "resume", id, "--decide", "retry")
	status("completed")
	end := w.data("runs", "show", id)
	assert.Equal(t, `{:value [{:done "pay"} {:done :seen}]}`, end.Key("response").Key("result").Key("out").String())
	assert.Contains(t, w.run("runs", "show", id).stdout, "decision")
	assert.Equal(t, 6, w.run("runs", "resume", id).code, "it is finished")
	kept := w.run("runs", "records", id).stdout
	assert.Equal(t, 2, strings.Count(kept, ":kind :run/suspended"), kept)
	assert.Equal(t, 1, strings.Count(kept, ":skip-as-done"), kept)

	s.stop()
	assert.Equal(t, 0, w.run("runs", "verify").code)
	s = w.serve()
	id = begin(s)
	w.data("runs", "resume", id, "--decide", "pay=fail", "--decide", "mail=retry")
	status("failed")
	assert.Equal(t, ":effects/outcome-unknown", w.data("runs", "show", id).Key("error").Key("type").String())
	s.stop()
	s = w.serve()
	id = begin(s)
	assert.True(t, w.data("runs", "cancel", id, "--why", "enough").Key("cancel/accepted?").Truthy())
	status("canceled")
	assert.Equal(t, 0, w.run("runs", "verify").code)
	s.stop()
}

// RUN-042, RUN-044: the last event of a suspended run is suspended, with the response in
// the stream of an act, and the answer to a reconnect is 204.
func TestStreamsOfASuspendedRun(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+scripted("pay", "restart {\n  backoff = \"5ms\"\n  jitter  = 0\n}"))
	w.write("pay.edn", script(":t/pay", ":t/pay", ":in-schema :req/any :out-schema :res/any :recovery-rules [[[:q] 1 :once]]",
		sigkill, sigkill))
	s := w.serve()
	act := s.stream(t, "POST", "/v1/act?format=edn", envelopeOf("t/pay", "{:q 1}", ""))
	act.until()
	last := act.last()
	require.Equal(t, "suspended", last.name, last.text)
	assert.Contains(t, last.text, ":type :run/suspended", "it has the response")
	run, _, _ := strings.Cut(last.id, ".")
	recorded := s.watch(t, run, "")
	recorded.until()
	assert.Equal(t, last.id, recorded.last().id)
	for _, e := range append(act.seen, recorded.seen...) {
		assert.NotEqual(t, "finished", e.name)
	}
	again := s.request(t.Context(), "GET", "/v1/runs/"+run+"/events", "", "Last-Event-ID", last.id,
		"Accept", "text/event-stream, application/edn;q=0.5")
	assert.Equal(t, 204, again.status, "%s", again.body)

	watched := w.run("runs", "watch", run)
	assert.Equal(t, 6, watched.code, watched.stderr)
	streamed := w.run("act", "t/pay", "{:q 1}", "--stream")
	assert.Equal(t, 6, streamed.code, streamed.stderr)
	assert.Contains(t, streamed.stderr, "run/suspended")
	s.stop()
}

// CLI-001: the tables and the screen of runs fit.
func TestRunsFit(t *testing.T) {
	t.Parallel()
	w := recording(t)
	s := w.serve()
	w.run("act", "t/broken", "{}")
	w.run("act", "mine/data", "{}")
	for _, args := range [][]string{{"runs", "list"}, {"runs", "show", "last"}, {"runs", "verify"}} {
		got := w.run(args...)
		assert.Equal(t, 0, got.code, got.stderr)
		for line := range strings.Lines(got.stdout) {
			assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 100, line)
		}
	}
	s.stop()
	s = w.serve() // what was recorded before is there
	assert.Len(t, w.listed("run"), 2)
	completed := w.run("__complete", "runs", "show", "run_")
	assert.Contains(t, completed.stdout, w.listed("run")[0])
	s.stop()
}

// JRN-001, CLI-002: damage is printed, and has its own exit code.
func TestRunsVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	w := recording(t)
	s := w.serve()
	const mark = "caller-made-trace"
	got := s.request(t.Context(), "POST", "/v1/act", strings.Replace(envelopeOf("mine/data", "{}", ""), `"t"`, `"`+mark+`"`, 1))
	require.Equal(t, 200, got.status)
	s.stop()
	path := filepath.Join(w.dir, "var", "ferment.db")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(file), mark)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(file), mark, strings.ToUpper(mark))), 0o600))
	text := w.run("runs", "verify")
	assert.Equal(t, 3, text.code, text.stderr)
	assert.Contains(t, text.stdout, "run_")
	asData := w.run("runs", "verify", "last", "--edn")
	assert.Equal(t, 3, asData.code)
	assert.False(t, asData.value(t).Key("ok?").Truthy())
	assert.Equal(t, 1, asData.value(t).Key("damaged").Len())

	// JRN-030: a daemon starts, finds it in the background and says so.
	s = w.serve()
	l, _, ok := s.logged(0, said("the journal is damaged"))
	require.True(t, ok)
	assert.Contains(t, l.text("error"), "run_")
	assert.Contains(t, l.text("next"), "ferment admin journal-repair")
	l, _, ok = s.logged(0, said("the journal was verified"))
	require.True(t, ok)
	assert.Equal(t, []any{1.0, 2.0, "error"}, []any{l["runs"], l["damaged"], l["@level"]}, "the run, and its row in the audit trail")
	status := w.run("status")
	assert.Regexp(t, `2 damaged\s+places, see "ferment runs verify"`, status.stdout)

	// OPS-008: a backup has the damage, too. It says so, is told apart from a changed one, and
	// is restored if that is asked for.
	kept := filepath.Join(w.dir, "damaged.tar")
	made := w.run("admin", "backup", kept)
	assert.Equal(t, 0, made.code, made.stderr)
	assert.Contains(t, made.stderr, "the journal has 2 damaged places, which the backup has, too")
	s.stop()
	verified := w.run("admin", "backup", "verify", kept)
	assert.Equal(t, 1, verified.code)
	assert.Contains(t, verified.stdout, "its journal was damaged before")
	require.NoError(t, os.Rename(filepath.Join(w.dir, "var"), filepath.Join(w.dir, "old")))
	refused := w.run("admin", "restore", kept, "--yes")
	assert.Equal(t, 1, refused.code)
	assert.Contains(t, refused.stderr, "--damaged restores this one")
	restored := w.run("admin", "restore", kept, "--yes", "--damaged")
	assert.Equal(t, 0, restored.code, restored.stderr)
	assert.Equal(t, 3, w.run("runs", "verify").code)

	// The counts leave out what the records of a damaged run cannot tell.
	file, err = os.ReadFile(path)
	require.NoError(t, err)
	damaged := strings.ReplaceAll(string(file), strings.ToUpper(mark), strings.Replace(mark, "-", `"`, 1))
	require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
	stats := w.run("runs", "stats")
	assert.Equal(t, 0, stats.code, stats.stderr)
	assert.Contains(t, stats.stdout, "1 run without records, which were removed or are damaged")
}
