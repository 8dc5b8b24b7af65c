//go:build long

package store

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// Variables that make the test program a process whose system calls fail.
const (
	faultDir    = "STORE_TEST_FAULT_DIR"
	faultThread = "STORE_TEST_FAULT_THREAD" // operation at which its thread is traced from then on
	faultTrace  = "STORE_TEST_FAULT_TRACE"  // arguments of strace
)

func init() { children = append(children, faulted) }

// faulted runs the writing process in place of the tests: one caller writes runs and then
// removes what retention does. Its batches depend on nothing but its calls.
//
// strace counts the calls of each thread for itself, so one thread is traced: that of the
// caller, which opens and closes the store, from "open"; that of the writer from "begin"; that
// of the upkeep from "checkpoint".
func faulted() bool {
	dir := os.Getenv(faultDir)
	if dir == "" {
		return false
	}
	var traced, reached sync.Once
	copies := make(chan struct{}) // closed before the first checkpoint
	before := func(op string) error {
		if op == os.Getenv(faultThread) {
			traced.Do(traceThread)
		}
		if op == "checkpoint" {
			reached.Do(func() { close(copies) })
		}
		return nil
	}
	_ = before("open")
	s, err := Open(context.Background(), Options{
		Path:   filepath.Join(dir, "ferment.db"),
		Now:    now,
		Faults: Faults{Before: before},
		period: time.Hour,
		Limits: Limits{Retain: Retention{Age: time.Minute}},
	})
	if err != nil {
		fmt.Println("unopened", typeOf(err))
		return true
	}
	s.queue.mu.Lock()
	s.queue.delay = time.Hour
	s.queue.mu.Unlock()
	for _, step := range []func() error{
		func() error { return writeRun(s, "run_a", os.Stdout) },
		func() error { return awaitCopy(s, copies) },
		func() error { return writeRun(s, "run_b", os.Stdout) },
		func() error { return writeRun(s, "run_c", os.Stdout) },
		func() error { return purge(s, "run_a") },
		func() error { return pinAll(s, "run_a", "run_b", "run_c") }, // oldRuns are removed
		func() error {
			fmt.Println("retains", "host records")
			_, err := s.Retain(context.Background())
			return err
		},
		func() error { return writeRun(s, "run_d", os.Stdout) },
	} {
		if err = step(); err != nil {
			fmt.Println("refused", typeOf(err))
			break
		}
	}
	if s.Err() != nil {
		fmt.Println("failed", typeOf(writeRun(s, "run_late", os.Stdout)))
	} else if err != nil {
		_ = writeRun(s, "run_more", os.Stdout)
	}
	fmt.Println("closed", typeOf(s.Close()))
	if s.Err() != nil {
		fmt.Println("final", typeOf(s.Err()))
	}
	return true
}

// awaitCopy returns when a checkpoint begins, if the log is long enough for one, or when it has
// ended, if that is traced: a commit meanwhile leaves its end to the writer.
func awaitCopy(s *Store, copies <-chan struct{}) error {
	if lite(s).walSize() < walCopy {
		return nil
	}
	wakes := 1
	if os.Getenv(faultThread) == "checkpoint" {
		wakes = 3 // one is under way, one is in the channel: the last is sent when the first has ended
	}
	for range wakes {
		select {
		case s.upkeep <- struct{}{}:
		case <-s.Failed():
		}
	}
	select {
	case <-copies:
	case <-s.Failed():
	}
	return nil
}

func purge(s *Store, run string) error {
	err := s.Purge(context.Background(), run)
	if err == nil {
		fmt.Println("purged", run)
	}
	return err
}

func pinAll(s *Store, runs ...string) error {
	for _, run := range runs {
		if err := s.Pin(context.Background(), run); err != nil {
			return err
		}
	}
	return nil
}

// typeOf names the type of an error.
func typeOf(err error) string {
	var typed *contract.Error
	var damage *Damage
	switch {
	case err == nil:
		return "well"
	case errors.As(err, &typed):
		return typed.Type
	case errors.As(err, &damage):
		return "damage"
	}
	return fmt.Sprintf("%T", err)
}

// traceThread has strace trace this goroutine, which stays on its thread.
func traceThread() {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // where only parents may trace
	cmd := exec.Command("strace", append(strings.Fields(os.Getenv(faultTrace)), "-p", strconv.Itoa(unix.Gettid()))...)
	cmd.Stdout = os.Stdout // the log is complete when the standard output ends
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		panic(err)
	}
	if line, _ := bufio.NewReader(said).ReadString('\n'); !strings.Contains(line, "attached") {
		panic("strace: " + line)
	}
}

// fileCalls are the system calls that change files; "?": not every architecture has it.
const fileCalls = "openat,write,pwrite64,fsync,fdatasync,ftruncate,fallocate,renameat,unlinkat,mkdirat,fchmod," +
	"?open,?rename,?renameat2,?unlink,?mkdir"

// fault is a way in which system calls fail.
type fault struct {
	name, result string
	lasts        bool // all later calls fail too
	calls        []string
}

var (
	writes = []string{"write", "pwrite64"}
	grows  = append([]string{"openat", "ftruncate", "fallocate", "renameat", "mkdirat", "open", "rename", "mkdir"}, writes...)

	// A write that is reported as shorter than it was asked wrote nothing: strace replaces the
	// call. A disk that is really full writes a part in TestFullDiskLosesNothing.
	faults = []fault{
		{name: "EIO", result: "error=EIO"},
		{name: "ENOSPC", result: "error=ENOSPC", calls: grows},
		{name: "full", result: "error=ENOSPC", calls: grows, lasts: true},
		{name: "short", result: "retval=0", calls: writes},
	}
)

// nthCall is the nth call of a kind on a thread.
type nthCall struct {
	call string
	n    int
}

// faultWindow is a part of the work of the writing process whose calls fail.
type faultWindow struct {
	name   string
	thread string // see faultThread
	data   func(t *testing.T, dir string)
	// hits are patterns of calls that are among those that fail.
	hits []string
}

var faultWindows = []faultWindow{
	{
		name:   "new directory",
		thread: "open",
		data:   func(*testing.T, string) {},
		hits:   []string{`mkdirat.*blobs`, `pwrite64.*/ferment\.db>`, `sync.*-wal>`, `fallocate.*reserve`},
	},
	{
		name:   "migration",
		thread: "open",
		data:   oldData,
		hits:   []string{`pwrite64.*\.v\d+>`, `sync.*\.v\d+>`, `pwrite64.*-wal>`},
	},
	{
		name:   "long log",
		thread: "open",
		data:   longLog,
		hits:   []string{`ftruncate.*-wal>`, `pwrite64.*/ferment\.db>`, `sync.*/ferment\.db>`},
	},
	{
		name:   "writer",
		thread: "begin",
		data:   longLog,
		hits: []string{
			`write\(.*/blobs/tmp-`, `fsync.*/blobs/tmp-`, `rename.*/blobs/tmp-`, `fsync.*/blobs>`, `fsync.*/blobs/..>`,
			`pwrite64.*-wal>.*, 4096,`, `sync.*-wal>`,
			`pwrite64.*-wal>.*, 32, 0\)`,                                         // the log starts over
			`pwrite64.*/ferment\.db>`, `sync.*/ferment\.db>`, `ftruncate.*-wal>`, // checkpoints between commits, of a purge
			`unlinkat.*/blobs/../`,
		},
	},
	{
		name:   "checkpoint",
		thread: "checkpoint",
		data:   longLog,
		hits:   []string{`pwrite64.*/ferment\.db>`, `sync.*/ferment\.db>`, `sync.*-wal>`},
	},
}

// oldRuns are enough for pages to become free when they are removed.
var oldRuns = []string{"run_1", "run_2", "run_3", "run_4", "run_5", "run_6"}

func writeOld(t *testing.T, s *Store) {
	for _, run := range oldRuns {
		require.NoError(t, writeRun(s, run, io.Discard))
	}
}

// oldData are finished runs in a database of the version before this one.
func oldData(t *testing.T, dir string) {
	s := openAt(t, dir)
	writeOld(t, s)
	require.NoError(t, s.Close())
	steps, err := readMigrations(sqlFiles, "sql/sqlite")
	require.NoError(t, err)
	migrate(t, Options{Path: filepath.Join(dir, "ferment.db")}, len(steps)-1, true)
}

// longLog are finished runs with a log that the next run makes long enough for a checkpoint. Most
// of its frames are the same page, so that there are few to copy.
func longLog(t *testing.T, dir string) {
	from := t.TempDir()
	s := openAt(t, from, func(o *Options) { o.NoSync = true })
	writeOld(t, s)
	checkpoint(t, s)
	for lite(s).walSize() < walCopy-100<<10 {
		require.NoError(t, s.Pin(context.Background(), oldRuns[0]))
		require.NoError(t, s.Unpin(context.Background(), oldRuns[0]))
	}
	require.NoError(t, os.CopyFS(dir, os.DirFS(from))) // as a crash leaves it
	for _, name := range []string{"ferment.db-shm", reserveName} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	require.NoError(t, s.Close())
}

// JRN-005, JRN-006, JRN-020, JRN-030: whichever write, sync, rename or other change of a file of
// the store fails, and however, nothing that was acknowledged is lost, nothing is there in part,
// nothing is acknowledged after a failure, and an open that failed can be repeated.
func TestEachFailedCallLosesNothing(t *testing.T) {
	_, err := exec.LookPath("strace")
	require.NoError(t, err, "this test injects faults with strace: install it")
	var missed atomic.Int64
	outcomes := &counts{of: map[string]int{}}
	t.Run("each", func(t *testing.T) {
		total := 0
		for _, w := range faultWindows {
			data := filepath.Join(t.TempDir(), "data")
			require.NoError(t, os.Mkdir(data, 0o700))
			w.data(t, data)
			places := w.places(t, data)
			t.Logf("%s: %d calls", w.name, len(places))
			for _, f := range faults {
				for _, p := range places {
					if f.calls != nil && !slices.Contains(f.calls, p.call) {
						continue
					}
					total++
					t.Run(fmt.Sprintf("%s/%s/%s-%d", w.name, f.name, p.call, p.n), func(t *testing.T) {
						t.Parallel()
						outcome := w.fail(t, data, f, p)
						if outcome == "" {
							missed.Add(1)
						}
						outcomes.add(fmt.Sprintf("%-14s %-7s %-10s %s", w.name, f.name, p.call, cmp.Or(outcome, "not reached")))
					})
				}
			}
		}
		proof.Size(t, "failed calls of a store", total, total)
	})
	// A call is missed if the process made fewer of its kind than when they were counted.
	n := int(missed.Load())
	proof.Size(t, "of these not reached", n, n)
	t.Log(outcomes)
}

// counts are numbers of outcomes.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[what]++
}

func (c *counts) String() string {
	var out strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c.of)) {
		fmt.Fprintf(&out, "\n%6d %s", c.of[what], what)
	}
	return out.String()
}

var callName = regexp.MustCompile(`^[a-z0-9]+`)

// places returns the calls of a window that change files of the store.
func (w faultWindow) places(t *testing.T, data string) (out []nthCall) {
	dir := dataAt(t, data)
	said, lines := w.run(t, dir, "")
	require.Equal(t, "well", said.ends["closed"], "without a fault")
	require.NotContains(t, said.ends, "refused", "without a fault")
	seen := map[string]int{}
	for _, line := range lines {
		call := callName.FindString(line)
		seen[call]++
		if strings.Contains(line, dir) && (!strings.HasPrefix(call, "open") || strings.Contains(line, "O_CREAT")) {
			out = append(out, nthCall{call, seen[call]})
		}
	}
	for _, pattern := range w.hits {
		hit := slices.ContainsFunc(lines, regexp.MustCompile(pattern).MatchString)
		require.True(t, hit, "%s: no call matches %s", w.name, pattern)
	}
	return out
}

// dataAt copies a data directory into a new one.
func dataAt(t *testing.T, data string) string {
	within, err := filepath.EvalSymlinks(t.TempDir()) // as strace prints it
	require.NoError(t, err)
	dir := filepath.Join(within, "data")
	require.NoError(t, os.CopyFS(dir, os.DirFS(data)))
	return dir
}

// fail lets one call fail and checks what is left. It returns how the process ended, or "" if
// the fault did not meet a file of the store.
func (w faultWindow) fail(t *testing.T, data string, f fault, p nthCall) string {
	dir := dataAt(t, data)
	when := strconv.Itoa(p.n)
	if f.lasts {
		when += "+"
	}
	said, lines := w.run(t, dir, fmt.Sprintf("-e inject=%s:%s:when=%s", p.call, f.result, when))
	hit := slices.IndexFunc(lines, func(line string) bool {
		return strings.Contains(line, "(INJECTED)") && strings.Contains(line, dir)
	})
	kept := map[string]int{}
	maps.Copy(kept, said.acknowledged)
	if _, err := os.Stat(filepath.Join(data, "ferment.db")); err == nil {
		for _, run := range oldRuns {
			kept[run] = len(killScript(run))
		}
	}
	s, runs := assertKept(t, onFile, dir, kept)
	if said.ends["retains"] == "" {
		assertActRows(t, s)
	}
	for _, r := range runs {
		assert.NotEqual(t, 1, r.Records%3, "%s has a part of a batch", r.ID)
		if r.ID == said.purged {
			assert.False(t, r.Purged.IsZero())
		}
		if !r.Removed.IsZero() {
			assert.Contains(t, oldRuns, r.ID)
			assert.NotEmpty(t, said.ends["retains"], "%s is removed", r.ID)
		}
	}
	if hit < 0 {
		return ""
	}
	line := lines[hit]
	for _, end := range []string{"unopened", "refused", "failed"} {
		assert.NotEqual(t, "damage", said.ends[end], "%s: %s", end, line)
	}
	if typ, failed := said.ends["failed"]; failed {
		assert.Equal(t, "journal/unavailable", typ, line)
		assert.Contains(t, []string{"", "journal/unavailable"}, said.ends["refused"], line)
	}
	// Without space a change may be refused instead, and a checkpoint be made later. A file that
	// was not removed is removed later.
	if w.thread != "open" && f.name == "EIO" && !strings.HasPrefix(p.call, "unlink") {
		assert.NotEmpty(t, said.ends["final"], "goes on after %s", line)
	}
	return said.String()
}

// sayings is what the writing process printed.
type sayings struct {
	acknowledged map[string]int    // last record of each run
	purged       string            // run
	ends         map[string]string // type of error by word
}

func (s sayings) String() string {
	var out []string
	for _, word := range []string{"unopened", "refused", "failed", "closed"} {
		if typ, ok := s.ends[word]; ok {
			out = append(out, word+" "+typ)
		}
	}
	return strings.Join(out, ", ")
}

// run runs the writing process. It returns what it printed, and the calls of the traced thread.
func (w faultWindow) run(t *testing.T, dir, inject string) (said sayings, lines []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), faultDir+"="+dir, faultThread+"="+w.thread,
		faultTrace+"=-y -s 0 -o "+log+" -e trace="+fileCalls+" "+inject)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "the writing process")
	said = sayings{acknowledged: map[string]int{}, ends: map[string]string{}}
	for line := range strings.Lines(string(out)) {
		word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch seq, err := strconv.Atoi(value); {
		case err == nil:
			said.acknowledged[word] = seq
			assert.NotEqual(t, "run_late", word, "acknowledged after a failure")
		case word == "purged":
			said.purged = value
		default:
			said.ends[word] = value
		}
	}
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	return said, slices.Collect(strings.Lines(string(text)))
}
