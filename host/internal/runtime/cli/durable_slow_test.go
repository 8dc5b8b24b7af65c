//go:build slow

package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// countingPlan has calls of every class in a row, in a map and in a plan. Its
// result is the same however often it is resumed.
const countingPlan = `{:nodes [
 {:op :call :intent :count/free :input {:n "%[1]s.1"} :as :a}
 {:op :call :intent :count/keyed :input {:n "%[1]s.2"} :as :b}
 {:op :let :value ["%[1]s.3" "%[1]s.4" "%[1]s.5"] :as :names}
 {:op :map :over :names :item :name :as :all :max-parallel 2
  :body [{:op :call :intent :count/free :input {:n {:slot/id :name}} :as :r} {:op :emit :input {:slot/path [:r :out :n]}}]}
 {:op :plan :as :inner :plan {:nodes [{:op :call :intent :count/keyed :input {:n "%[1]s.6"} :as :p} {:op :emit :input {:slot/path [:p :n]}}]}}
 %[2]s
 {:op :emit :input [{:slot/path [:a :n]} {:slot/path [:b :n]} {:slot/path [:all :out]} {:slot/path [:inner :out]}]}]}`

// TestDaemonKilledAnytime: SIGKILL of a daemon at any moment loses no accepted
// run, be it answered with 202 or with its result. The next daemon resumes what was
// open; calls of class none and idempotent are done, equal to those of an
// uninterrupted run, and never again once their answer is committed. A run that was
// cut in a call of class once is suspended, and does not repeat it: the decision
// about it follows from its trace (JRN-004, JRN-040 to JRN-044, RUN-016).
func TestDaemonKilledAnytime(t *testing.T) {
	killedAnytime(t, newWorld(t, "ferment.hcl", testProfile), proof.Size(t, "kills of the daemon", 60, 1000), sqliteStore)
}

const sqliteStore = `store {
  driver = "sqlite"
  sync   = "full"
}
`

// killedAnytime kills the daemons of a world with a store.
func killedAnytime(t *testing.T, w *world, kills int, kept string) {
	file := w.counting(t, kept)
	random := rand.New(rand.NewPCG(killSeed, 7))
	want := map[string]string{} // by run: its result; empty for one that was only accepted
	committed := map[string]int{}
	open := 0
	for round := range kills {
		s := w.serve()
		if open > 0 {
			_, _, ok := s.logged(0, said("resumed runs that an earlier daemon had begun"))
			require.True(t, ok, "round %d: %d open runs are not resumed", round, open)
		}
		if round%2 == 0 { // no run is under way in three kills in a row
			require.Eventually(t, func() bool { return len(w.recorded(t, "open")) == 0 }, runLimit, 5*time.Millisecond)
		}
		var clients sync.WaitGroup
		var mu sync.Mutex
		for k := range 3 {
			name, once := fmt.Sprintf("%d/%d", round, k), ""
			if k == 0 {
				once = fmt.Sprintf(`{:op :call :intent :count/once :input {:n "%s.7"} :as :o}`, name)
			}
			status, more := 200, ":effects {:allowed #{:fs/write}}"
			if k == 1 {
				status, more = 202, more+" :response/type :accepted"
			}
			clients.Go(func() {
				body := envelopeOf("plan/run", "{:plan "+fmt.Sprintf(countingPlan, name, once)+"}", more)
				a := s.request(context.Background(), "POST", "/v1/act", body)
				if a.err != nil {
					return // the daemon is gone
				}
				assert.Equal(t, status, a.status, "%s", a.body)
				id, result := a.header.Get("Ferment-Run-Id"), ""
				if status == 200 {
					result = a.value(t).Key("result").Key("out").String()
				}
				mu.Lock()
				defer mu.Unlock()
				if assert.NotEmpty(t, id, "%s", a.body) {
					want[id] = result
				}
			})
		}
		if round%2 == 0 { // before its kill a run is recorded, however slow the machine is
			answered := make(chan struct{})
			go func() {
				clients.Wait()
				close(answered)
			}()
			s.recordedOne(answered)
		}
		<-time.NewTimer(time.Duration(random.IntN(70)) * time.Millisecond).C
		s.signal(syscall.SIGKILL)
		s.wait()
		clients.Wait()
		require.Empty(t, awaitNone(built.root, endLimit))
		open = openRuns(t, w, file, committed)
	}
	s := w.serve() // resumes the last ones, and waits for them when it is stopped
	if open > 0 {
		_, _, ok := s.logged(0, said("resumed runs that an earlier daemon had begun"))
		require.True(t, ok)
	}
	require.Eventually(t, func() bool { return len(w.recorded(t, "open")) == 0 }, runLimit, 5*time.Millisecond)
	s.stop()
	decided := decideAll(t, w, file)
	verifyDurable(t, w, want, file, committed)
	t.Logf("%d runs were suspended", decided)
}

// recordedOne waits until an open run is recorded, or until answered is closed: a run
// may end before it is seen.
func (s *served) recordedOne(answered <-chan struct{}) {
	s.t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for s.request(s.t.Context(), "GET", "/v1/runs?status=open&limit=1", "").value(s.t).Key("runs").Len() == 0 {
		select {
		case <-answered:
			return
		case <-poll.C:
		}
	}
}

// decideAll lets a daemon continue the suspended runs: a call of class once that has
// left its line in the file is done, and the others are called.
func decideAll(t *testing.T, w *world, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	kept := openStore(t, w)
	runs, err := kept.Runs(t.Context(), store.Filter{Status: "suspended", Limit: 100_000})
	require.NoError(t, err)
	decisions := make([][]string, len(runs))
	for i, run := range runs {
		records, err := kept.Read(t.Context(), run.ID, 0, 10_000)
		require.NoError(t, err)
		why, ok := records[len(records)-1].Body.(*journal.RunSuspended)
		require.True(t, ok, run.ID)
		assert.Equal(t, "effects/outcome-unknown", why.Why)
		name := firstOf(records) + ".7"
		decisions[i] = []string{"runs", "resume", run.ID, "--decide", "retry"}
		if strings.Contains(string(text), "once "+name+" ") {
			decisions[i] = []string{"runs", "resume", run.ID, "--decide", "skip-as-done", "--value", fmt.Sprintf("{:n %q}", name)}
		}
	}
	require.NoError(t, kept.Close())
	s := w.serve()
	for _, decision := range decisions {
		w.data(decision...)
	}
	require.Eventually(t, func() bool { return len(w.recorded(t, "open")) == 0 }, runLimit, 5*time.Millisecond)
	s.stop()
	return len(runs)
}

// effectsOf returns the calls of a run with an effect, as the counter writes them.
func effectsOf(records []journal.Record) (out []string) {
	first := firstOf(records)
	out = []string{"keyed " + first + ".2", "keyed " + first + ".6"}
	if strings.Contains(records[0].Body.(*journal.RunAccepted).Request.Value().String(), ":count/once") {
		out = append(out, "once "+first+".7")
	}
	return out
}

// firstOf returns the name that the calls of a run begin with.
func firstOf(records []journal.Record) string {
	node, _ := records[0].Body.(*journal.RunAccepted).Request.Value().Key("input").Key("plan").Key("nodes").Nth(0)
	name, _ := node.Key("input").Key("n").AsString()
	return strings.TrimSuffix(name, ".1")
}

func openStore(t *testing.T, w *world) *store.Store {
	t.Helper()
	options := store.Options{Path: filepath.Join(w.dir, "var", "ferment.db")}
	if w.dsn != "" {
		host, err := os.ReadFile(filepath.Join(w.dir, "var", "HOST"))
		require.NoError(t, err)
		options = store.Options{Postgres: &store.Postgres{DSN: w.dsn, Host: strings.TrimSpace(string(host))}}
	}
	s, err := store.Open(t.Context(), options)
	require.NoError(t, err)
	return s
}

// openRuns returns the number of open runs. No daemon is there. It adds how often each
// call was made whose answer is found committed for the first time.
func openRuns(t *testing.T, w *world, file string, committed map[string]int) int {
	s := openStore(t, w)
	defer func() { require.NoError(t, s.Close()) }()
	open, err := s.Unfinished(t.Context())
	require.NoError(t, err)
	ids := map[string]bool{}
	for _, u := range open {
		ids[u.Run.ID] = true
	}
	last, err := s.Runs(t.Context(), store.Filter{Limit: 10})
	require.NoError(t, err)
	for _, run := range last {
		ids[run.ID] = true
	}
	text, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) { // no call was made yet
		require.NoError(t, err)
	}
	for id := range ids {
		records, err := s.Read(t.Context(), id, 0, 10_000)
		require.NoError(t, err)
		for _, rec := range records {
			node, ok := rec.Body.(*journal.NodeCommitted)
			if !ok {
				continue
			}
			name, ok := node.Value.Value().Key("out").Key("n").AsString()
			if _, known := committed[name]; ok && !known {
				committed[name] = strings.Count(string(text), " "+name+" ")
			}
		}
	}
	return len(open)
}

// verifyDurable checks the journal against what clients have seen, what the counter has
// counted, and how often each call had been made when its answer was committed.
func verifyDurable(t *testing.T, w *world, want map[string]string, file string, committed map[string]int) {
	t.Helper()
	s := openStore(t, w)
	defer func() { require.NoError(t, s.Close()) }()
	damaged, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Empty(t, damaged)
	runs, err := s.Runs(t.Context(), store.Filter{Limit: 100_000})
	require.NoError(t, err)
	resumed, accepted, effects := 0, 0, []string(nil)
	for _, run := range runs {
		records, err := s.Read(t.Context(), run.ID, 0, 10_000)
		require.NoError(t, err)
		end, ok := records[len(records)-1].Body.(*journal.RunFinished)
		if !assert.True(t, ok, "run %s is open: %s", run.ID, records[len(records)-1].Value()) {
			continue
		}
		if run.Epoch > 1 {
			resumed++
		}
		first := firstOf(records)
		if !assert.Nil(t, end.Err, "run %s: %v", run.ID, end.Err) {
			continue
		}
		effects = append(effects, effectsOf(records)...)
		result := end.Response.Value().Key("result").Key("out").String()
		assert.Equal(t, fmt.Sprintf(`{:value ["%[1]s.1" "%[1]s.2" ["%[1]s.3" "%[1]s.4" "%[1]s.5"] {:text "%[1]s.6"}]}`, first), result, "run %s", run.ID)
		if seen, ok := want[run.ID]; ok {
			if seen == "" {
				accepted++
			} else {
				assert.Equal(t, seen, result, "run %s: its client had another answer", run.ID)
			}
			delete(want, run.ID)
		}
	}
	assert.Empty(t, want, "answered or accepted runs that the journal does not have")
	assert.Positive(t, accepted)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	keys, times := map[string]string{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		var class, name, key string
		_, err := fmt.Sscan(line, &class, &name, &key)
		require.NoError(t, err, line)
		if before, ok := keys[name]; ok {
			assert.Equal(t, before, key, "call %s has two effect keys", name)
		}
		keys[name] = key
		times[class+" "+name]++
		assert.False(t, class == "once" && times[class+" "+name] > 1, "call %s of class once was repeated", name)
	}
	for _, call := range effects {
		assert.Positive(t, times[call], "call %s was not made", call)
	}
	repeated := 0
	for call, n := range times {
		_, name, _ := strings.Cut(call, " ")
		if before, ok := committed[name]; ok {
			assert.Equal(t, before, n, "call %s was made again although its answer was committed", call)
		}
		repeated += n - 1
	}
	assert.NotEmpty(t, committed)
	assert.Positive(t, resumed, "no run was cut")
	t.Logf("%d runs, %d resumed, %d accepted, %d calls, %d answers committed before a kill, %d repeats of calls without one",
		len(runs), resumed, accepted, len(keys), len(committed), repeated)
}

// JRN-005: a daemon that cannot record answers nothing more, and ends with 74
// within 5 s. The next one has everything that was answered.
func TestDaemonWithABrokenJournal(t *testing.T) {
	w := answering(t, "store {\n  driver = \"sqlite\"\n}\n"+oneWorker)
	s := w.serve()
	hangs := s.submitted("mine/hang", "")
	s.becomes(hangs, "running")
	s.submitted("mine/data", "")
	before := s.ask("mine/data", "{}")
	require.Equal(t, 200, before.status, "%s", before.body)
	limit := unix.Rlimit{Cur: 1000, Max: 1000} // every file is larger
	require.NoError(t, unix.Prlimit(s.pid, unix.RLIMIT_FSIZE, &limit, nil))
	broken := time.Now()
	a := s.ask("mine/data", "{}")
	if a.err == nil { // the daemon may end first
		assert.Equal(t, 503, a.status, "%s", a.body)
		assert.Equal(t, "journal/unavailable", a.failure(t))
	}
	assert.Equal(t, 74, s.wait().code)
	// The limit is 5 s, with room for a busy machine.
	took := time.Since(broken)
	t.Logf("the daemon ended after %s", took.Round(time.Millisecond))
	assert.Less(t, took, time.Minute)
	assert.Empty(t, w.left(endLimit))

	s = w.serve()
	s.becomes(hangs, "running")
	s.request(t.Context(), "POST", "/v1/act/jobs/"+hangs+"/cancel", "")
	s.stop()
	kept := openStore(t, w)
	defer func() { require.NoError(t, kept.Close()) }()
	runs, err := kept.Runs(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 3, "what was not answered is not there, or is finished")
	assert.Equal(t, journal.StatusCompleted, runs[0].State)
}
