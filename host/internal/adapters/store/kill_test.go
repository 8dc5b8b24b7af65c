package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// Variables that make the test program a process that writes until it is killed.
const (
	killDir = "STORE_TEST_KILL_DIR"
	killDSN = "STORE_TEST_KILL_DSN" // of a PostgreSQL database; empty: a file in the directory
	killAt  = "STORE_TEST_KILL_AT"  // operation after which it kills itself; 0: never

	killVars = "STORE_TEST_KILL_VARS" // it writes session variables instead of runs
	killHost = "STORE_TEST_KILL_HOST" // it writes denials instead of runs
	killTalk = "STORE_TEST_KILL_TALK" // it sends messages instead; their first operation is number 1
)

// killed runs the writing process in place of the tests.
func killed() bool {
	dir := os.Getenv(killDir)
	if dir == "" {
		return false
	}
	at, _ := strconv.ParseInt(os.Getenv(killAt), 10, 64)
	var ops atomic.Int64
	opts := Options{Path: filepath.Join(dir, "ferment.db")}
	if dsn := os.Getenv(killDSN); dsn != "" {
		opts = Options{Postgres: &Postgres{DSN: dsn, Host: dir}}
	}
	var begun atomic.Bool
	begun.Store(os.Getenv(killTalk) == "")
	opts.Faults.Before = func(string) error {
		if begun.Load() && ops.Add(1) == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	s, err := Open(context.Background(), opts)
	if err != nil {
		panic(err)
	}
	if os.Getenv(killTalk) != "" {
		sendAll(s, &begun)
	}
	if os.Getenv(killVars) != "" {
		putVars(s)
	}
	if os.Getenv(killHost) != "" {
		denyAll(s)
	}
	var done sync.WaitGroup
	for n := range 4 {
		done.Go(func() {
			for i := 0; ; i++ {
				if err := writeRun(s, fmt.Sprintf("run_%d_%d", n, i), os.Stdout); err != nil {
					panic(err)
				}
			}
		})
	}
	done.Wait()
	return true
}

// writeRun appends the records of a run, and prints the number of each that is acknowledged.
func writeRun(s *Store, run string, say io.Writer) error {
	for _, rec := range killScript(run) {
		if err := s.Append(context.Background(), rec); err != nil {
			return err
		}
		if rec.Seq%3 == 1 {
			continue
		}
		if err := s.Sync(context.Background(), run); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(say, run, rec.Seq)
	}
	s.Drop(run)
	return nil
}

// killScript are the records of a run of the writing process, with a value that
// is a file.
func killScript(run string) []journal.Record {
	sc := newScript(run)
	out := []journal.Record{sc.accepted(dialogue(40))}
	out = append(out, sc.step(textOf(len(run), 300), large(int(run[len(run)-1])))...)
	out = append(out, sc.step(textOf(1, 300), textOf(2, 300))...)
	return append(out, sc.finished(textOf(3, 300)))
}

// JRN-001, JRN-004, JRN-005: after kill -9 at any point everything that was
// acknowledged is there, nothing is there in part, and open runs can be continued.
func TestKilledProcessLosesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		for seed := range proof.Size(t, "kills of a store", 4, 60) {
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				dir := t.TempDir()
				random := rand.New(rand.NewPCG(uint64(seed), 7))
				at, lines := 0, 1+random.IntN(120)
				if seed%2 == 0 {
					at, lines = 1+random.IntN(200), 1<<30
				}
				acknowledged := killAfter(t, on, dir, at, lines)

				s, _ := assertKept(t, on, dir, acknowledged)
				assertActRows(t, s)
			})
		}
	})
}

// assertKept opens the database of a writing process that has ended. All that was
// acknowledged is there, nothing is damaged or there in part, and open runs can be continued.
// It returns the store, and the runs before.
func assertKept(t *testing.T, on backend, dir string, acknowledged map[string]int) (*Store, []Run) {
	t.Helper()
	s := on.openAt(t, dir)
	damage, err := s.VerifyAll(context.Background())
	require.NoError(t, err)
	assert.Empty(t, damage)
	runs, err := s.Runs(context.Background(), Filter{Limit: 10_000})
	require.NoError(t, err)
	found := map[string]int{}
	for _, r := range runs {
		found[r.ID] = r.Records
		if !r.Removed.IsZero() {
			continue
		}
		records, err := s.Read(context.Background(), r.ID, 0, maxRecords)
		require.NoError(t, err)
		require.Len(t, records, r.Records)
		require.Equal(t, texts(killScript(r.ID)[:r.Records]), texts(records), "a prefix of what was appended")
	}
	for run, seq := range acknowledged {
		assert.GreaterOrEqual(t, found[run], seq, run)
	}
	open, err := s.Unfinished(context.Background())
	require.NoError(t, err)
	for _, o := range open {
		sc := newScript(o.Run.ID)
		sc.seq, sc.epoch = o.Last.Seq, o.Run.Epoch+1
		appendAll(t, s, sc.finished(nothing))
		require.NoError(t, s.Sync(context.Background(), o.Run.ID))
		require.NoError(t, s.Verify(context.Background(), o.Run.ID))
	}
	_, err = s.Retain(context.Background())
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(dir, "blobs", tempPrefix+"*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	return s, runs
}

// killAfter runs the writing process until it killed itself or printed a number
// of lines, and returns the last acknowledged record of each run.
func killAfter(t *testing.T, on backend, dir string, at, lines int) map[string]int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"="+strconv.Itoa(at))
	if on.files == 0 {
		cmd.Env = append(cmd.Env, killDSN+"="+on.source(t, dir))
	}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	acknowledged := map[string]int{}
	in := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == lines {
			require.NoError(t, cmd.Process.Kill())
		}
		line, err := in.ReadString('\n')
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		var run string
		var seq int
		_, err = fmt.Sscan(line, &run, &seq)
		require.NoError(t, err)
		acknowledged[run] = seq
	}
	_ = cmd.Wait()
	require.Equal(t, syscall.SIGKILL, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	return acknowledged
}

// cutsOf returns lengths of a write-ahead log: the ends of some or all of its frames, and a
// random place within the frame before each of them.
func cutsOf(t *testing.T, log []byte, what string, random *rand.Rand) (cuts []int) {
	t.Helper()
	const logHeader, frame = 32, 24 + pageSize
	frames := (len(log) - logHeader) / frame
	some := proof.Size(t, what, frames/9, frames)
	for at := logHeader; at <= len(log); at += max(frames/max(some, 1), 1) * frame {
		cuts = append(cuts, at, max(0, at-1-random.IntN(frame)))
	}
	return cuts
}

// JRN-030: a write-ahead log that is cut anywhere gives a prefix of what was
// committed.
func TestCutLogGivesAPrefix(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir)
	checkpoint(t, s)
	var records []journal.Record
	var lengths []int64 // of the log after each record
	sc := newScript("run_1")
	for _, rec := range append([]journal.Record{sc.accepted(dialogue(40))}, sc.step(textOf(1, 300), textOf(2, 300))...) {
		appendAll(t, s, rec)
		require.NoError(t, s.Sync(context.Background(), "run_1"))
		records = append(records, rec)
		lengths = append(lengths, lite(s).walSize())
	}
	name := filepath.Join(dir, "ferment.db")
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	log, err := os.ReadFile(name + "-wal")
	require.NoError(t, err)
	require.Equal(t, lengths[len(lengths)-1], int64(len(log)))

	random := rand.New(rand.NewPCG(1, 2))
	cuts := cutsOf(t, log, "frames that end a log", random)
	for _, at := range append(cuts, 0, len(log)) {
		other := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(other, "ferment.db"), file, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(other, "ferment.db-wal"), log[:at], 0o600))
		cut := openAt(t, other)
		want := 0
		for want < len(lengths) && lengths[want] <= int64(at) {
			want++
		}
		if want > 0 {
			stored, err := cut.Read(context.Background(), "run_1", 0, 100)
			require.NoError(t, err)
			assert.Equal(t, texts(records[:want]), texts(stored), "cut at byte %d", at)
			require.NoError(t, cut.Verify(context.Background(), "run_1"))
		} else {
			_, err := cut.Run(context.Background(), "run_1")
			typed(t, err, "run/not-found")
		}
		require.NoError(t, cut.Close())
	}
}
