package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// eachStream runs a test over every stream of a host, with the journal whose runs are
// in it.
func eachStream(t *testing.T, test func(t *testing.T, h journal.HostStream, runs act.Journal)) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		test(t, s.HostStream(), s)
	})
	t.Run("memory", func(t *testing.T) {
		h := &journal.Host{}
		runs := journal.NewMemory()
		runs.Acts = h
		test(t, h, runs)
	})
}

func denial(n int) *journal.AuthEvent {
	return &journal.AuthEvent{Event: "auth/denied", User: fmt.Sprintf("user/%d", n), Address: "::1", Operation: "http.v1/act",
		Level: journal.LevelWarn, Message: "no", Rule: edn.MustRead(`{:ok? false}`), Reason: "auth/forbidden"}
}

func recorded(t testing.TB, h journal.HostStream, at time.Time, bodies ...journal.Body) {
	t.Helper()
	var wait func(ctx context.Context) error
	for _, b := range bodies {
		var err error
		wait, err = h.Record(context.Background(), at, b)
		require.NoError(t, err)
	}
	require.NoError(t, wait(context.Background()))
}

// hostPage returns a page of a stream without waiting for later records.
func hostPage(t testing.TB, h journal.HostStream, v journal.View, cursor string, limit int) journal.HostPage {
	t.Helper()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	got, err := journal.HostAfter(over, h, v, cursor, limit)
	require.Nil(t, err)
	return got
}

func seqs(p journal.HostPage) (out []int) {
	for _, rec := range p.Records {
		out = append(out, rec.Seq)
	}
	return out
}

// TEL-002: the stream of a host has views, pages and cursors, on every store alike. A
// reader that has all of it waits for the next record.
func TestStreamOfTheHost(t *testing.T) {
	eachStream(t, func(t *testing.T, h journal.HostStream, _ act.Journal) {
		assert.Equal(t, journal.HostPage{Cursor: "host.0"}, hostPage(t, h, journal.ViewEvents, "", 10))
		_, err := h.Record(context.Background(), start, &journal.AuthEvent{Event: "auth/denied"})
		typed(t, err, "runtime/internal")
		login := &journal.AuthEvent{Event: "auth/login", User: "ann", Operation: "auth/login", Success: true, Level: "info", Message: "in"}
		event := &journal.HostEvent{Event: "quality/swap", Details: nothing}
		recorded(t, h, start, denial(1), login, event, login, denial(2), event)

		first := hostPage(t, h, journal.ViewAudit, "", 3)
		assert.Equal(t, []int{1, 2, 4}, seqs(first))
		assert.Equal(t, []any{"host.4", true}, []any{first.Cursor, first.More})
		second := hostPage(t, h, journal.ViewAudit, first.Cursor, 3)
		assert.Equal(t, []int{5}, seqs(second))
		assert.Equal(t, []any{"host.5", false}, []any{second.Cursor, second.More})
		assert.Equal(t, "host.6", hostPage(t, h, journal.ViewAudit, second.Cursor, 3).Cursor)
		assert.Equal(t, []int{3, 6}, seqs(hostPage(t, h, journal.ViewEvents, "", 2)), "the last ones, no denials")
		assert.Equal(t, []int{6}, seqs(hostPage(t, h, journal.ViewEvents, "", 1)))
		assert.Equal(t, []int{3, 6}, seqs(hostPage(t, h, journal.ViewEvents, "host.1", 2)))
		assert.Equal(t, texts([]journal.Record{{Run: "host", Seq: 1, At: start, Epoch: 1, Body: denial(1)}}), texts(first.Records[:1]))

		for cursor, typ := range map[string]string{
			"host.2000": "stream/cursor-ahead",
			"host.-1":   "stream/bad-cursor",
			"host.01":   "stream/bad-cursor",
			"x":         "stream/bad-cursor",
		} {
			_, err := journal.HostAfter(t.Context(), h, journal.ViewAudit, cursor, 3)
			typed(t, err, typ)
		}
		come := make(chan journal.HostPage)
		go func() {
			got, err := journal.HostAfter(t.Context(), h, journal.ViewAudit, "host.6", 3)
			assert.Nil(t, err)
			come <- got
		}()
		recorded(t, h, start, event) // not in the view
		recorded(t, h, start, login)
		assert.Equal(t, []int{8}, seqs(<-come))
	})
}

// TEL-002: each run that ends has one row, which says what its records say, in the
// transaction of run/finished.
func TestEachRunThatEndsHasARow(t *testing.T) {
	eachStream(t, func(t *testing.T, h journal.HostStream, runs act.Journal) {
		done, failed := newScript("run_1"), newScript("run_2")
		appendAll(t, runs, done.whole(2)...)
		syncRun(t, runs, "run_1")
		appendAll(t, runs, failed.accepted(nothing))
		syncRun(t, runs, "run_2")
		require.Len(t, hostPage(t, h, journal.ViewAudit, "", 10).Records, 1, "an open run has no row")
		end := failed.record(&journal.RunFinished{Status: "failed", Response: journal.RefTo(nothing), Latency: 3 * time.Millisecond,
			Totals: edn.MustRead(`{:operations {} :attempts {}}`), Err: contract.Errorf("provider/error", "no model answers")})
		appendAll(t, runs, end)
		syncRun(t, runs, "run_2")

		got := hostPage(t, h, journal.ViewAudit, "", 10).Records
		require.Len(t, got, 2)
		common := `:epoch 1 :kind :act/finished :operation :act/run :principal "uid/7" :principal/type :user :roles #{} :run "host" :trace {} :v 1`
		for i, own := range []string{
			`{:act/run "run_1" :session/id "session of run_1" :cap/id :a/one :executed? true :intent :a/b :latency-ms 7 :outcome :ok :status :completed :seq 1 `,
			`{:act/run "run_2" :session/id "session of run_2" :error/type :provider/error :executed? false :intent :a/b :latency-ms 3 :message "no model answers"
				:outcome :error :status :failed :seq 2 `,
		} {
			want := edn.MustRead(own+common+"}").AssocKey("at", edn.Inst(got[i].At))
			assert.Equal(t, want.String(), got[i].Value().String())
			records := recordsOf(t, runs, fmt.Sprintf("run_%d", i+1))
			assert.Equal(t, records[len(records)-1].At.UTC(), got[i].At.UTC())
			row := journal.Record{Run: "host", Seq: i + 1, At: got[i].At, Epoch: 1, Body: journal.ActOf(records)}
			assert.Equal(t, row.Value().String(), got[i].Value().String())
		}
	})
}

// assertActRows compares the rows of runs in the stream with the finished runs.
func assertActRows(t *testing.T, s *Store) {
	t.Helper()
	rows := map[string]int{}
	for cursor, more := "", true; more; {
		page := hostPage(t, s.HostStream(), journal.ViewAudit, cursor, 1000)
		for _, rec := range page.Records {
			if row, ok := rec.Body.(*journal.ActFinished); ok {
				rows[row.Run]++
			}
		}
		cursor, more = page.Cursor, page.More
	}
	runs, err := s.Runs(context.Background(), Filter{Limit: 10_000})
	require.NoError(t, err)
	want := map[string]int{}
	for _, r := range runs {
		if r.Ended() {
			want[r.ID] = 1
		}
	}
	assert.Equal(t, want, rows)
}

// TEL-002, JRN-001: the stream is there after a restart and goes on; what was changed or
// removed behind the back of the store is damage, and the schema refuses both.
func TestTheStreamLastsAndIsVerified(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, dir := context.Background(), t.TempDir()
		s := on.openAt(t, dir)
		recorded(t, s.HostStream(), start, denial(1), denial(2), denial(3))
		require.NoError(t, s.Close())
		s = on.openAt(t, dir)
		recorded(t, s.HostStream(), start, denial(4))
		assert.Equal(t, []int{1, 2, 3, 4}, seqs(hostPage(t, s.HostStream(), journal.ViewAudit, "", 10)))
		damage, err := s.VerifyAll(ctx)
		require.NoError(t, err)
		assert.Empty(t, damage)
		for _, text := range []string{"UPDATE host_records SET at = 1", "DELETE FROM host_records WHERE n = 2"} {
			_, err := s.db.writer().ExecContext(ctx, text)
			require.ErrorContains(t, err, "append-only")
		}
		require.NoError(t, s.Close())
		on.tamper(t, dir, "UPDATE host_records SET body = (SELECT body FROM host_records WHERE n = 3) WHERE n = 2")
		s = on.openAt(t, dir)
		damage, err = s.VerifyAll(ctx)
		require.NoError(t, err)
		assert.Equal(t, []*Damage{{Run: "host", Seq: 2, What: "the record is not what was written"}}, damage)
		require.NoError(t, s.Close())
		on.tamper(t, dir, "DELETE FROM host_records WHERE n = 4", "DELETE FROM host_records WHERE n = 1")
		s = on.openAt(t, dir)
		damage, err = s.VerifyAll(ctx)
		require.NoError(t, err)
		assert.Equal(t, []*Damage{{Run: "host", Seq: 1, What: "the record is missing"}}, damage)
	})
}

// TEL-002: a stream that is verified while records are added and removed is not damaged.
func TestTheStreamIsVerifiedInUse(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		s := on.openAt(t, t.TempDir(), func(o *Options) { o.Limits.Retain, o.Now = Retention{Age: time.Millisecond}, time.Now })
		recorded(t, s.HostStream(), time.Now(), denial(1))
		var writers sync.WaitGroup
		writers.Go(func() {
			for n := 2; ctx.Err() == nil; n++ {
				wait, err := s.HostStream().Record(context.Background(), time.Now(), denial(n))
				if assert.NoError(t, err) {
					assert.NoError(t, wait(context.Background()))
				}
			}
		})
		for range 50 {
			damage, err := s.VerifyAll(ctx)
			require.NoError(t, err)
			require.Empty(t, damage)
			_, err = s.retainHost(ctx)
			require.NoError(t, err)
		}
		stop()
		writers.Wait()
	})
}

// TEL-002: records that were removed at the end of the stream are missing too, also when others follow.
func TestTheEndOfTheStreamIsVerified(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, dir := context.Background(), t.TempDir()
		s := on.openAt(t, dir)
		recorded(t, s.HostStream(), start, denial(1), denial(2), denial(3))
		require.NoError(t, s.Close())
		on.tamper(t, dir, "DELETE FROM host_records WHERE n > 1")
		missing := []*Damage{{Run: "host", Seq: 2, What: "the record is missing"}}
		for range 2 {
			s = on.openAt(t, dir)
			damage, err := s.VerifyAll(ctx)
			require.NoError(t, err)
			assert.Equal(t, missing, damage)
			recorded(t, s.HostStream(), start, denial(4))
			require.NoError(t, s.Close())
		}
		on.tamper(t, dir, "DELETE FROM host_tail")
		s = on.openAt(t, dir)
		damage, err := s.VerifyAll(ctx)
		require.NoError(t, err)
		assert.Equal(t, missing, damage)
		recorded(t, s.HostStream(), start, denial(5))
	})
}

// TEL-002, JRN-060: retention removes records of the host by their age. The rest still
// verifies, and a cursor into what was removed says so.
func TestRetentionOfTheStream(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, dir := context.Background(), t.TempDir()
		old := func(o *Options) { o.Limits.Retain = Retention{Age: time.Hour} }
		s := on.openAt(t, dir, old)
		recorded(t, s.HostStream(), now().Add(-2*time.Hour), denial(1), denial(2))
		recorded(t, s.HostStream(), now(), denial(3))
		would, err := s.Removable(ctx)
		require.NoError(t, err)
		did, err := s.Retain(ctx)
		require.NoError(t, err)
		assert.Equal(t, []int{2, 2}, []int{would.Host, did.Host})
		assert.Equal(t, []int{3}, seqs(hostPage(t, s.HostStream(), journal.ViewAudit, "", 10)))
		_, gone := journal.HostAfter(ctx, s.HostStream(), journal.ViewAudit, "host.1", 10)
		typed(t, gone, "stream/gone")
		assert.Equal(t, []int{3}, seqs(hostPage(t, s.HostStream(), journal.ViewAudit, "host.2", 10)))
		require.NoError(t, s.Close())
		s = on.openAt(t, dir, old, func(o *Options) { o.Now = func() time.Time { return now().Add(3 * time.Hour) } })
		did, err = s.Retain(ctx)
		require.NoError(t, err)
		assert.Equal(t, 1, did.Host)
		assert.Equal(t, journal.HostPage{Cursor: "host.3"}, hostPage(t, s.HostStream(), journal.ViewAudit, "", 10))
		recorded(t, s.HostStream(), now(), denial(4))
		assert.Equal(t, []int{4}, seqs(hostPage(t, s.HostStream(), journal.ViewAudit, "host.3", 10)))
		damage, err := s.VerifyAll(ctx)
		require.NoError(t, err)
		assert.Empty(t, damage)
	})
}

// AUTH-013: while the disk does not answer and the queue is full, the limit of a caller
// holds, and events of the host itself wait for nothing.
func TestFullQueueOfTheHost(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		hold, held := make(chan struct{}), make(chan struct{}, 10)
		s := on.openAt(t, t.TempDir(), func(o *Options) {
			o.QueueBytes = 1
			o.Faults.Before = func(op string) error {
				if op == "commit" {
					held <- struct{}{}
					<-hold
				}
				return nil
			}
		})
		defer func() { require.NoError(t, s.Close()) }()
		defer close(hold)
		stream := s.HostStream()
		record := func(ctx context.Context) error {
			_, err := stream.Record(ctx, now(), denial(1))
			return err
		}
		require.NoError(t, record(t.Context()))
		s.queue.mu.Lock()
		s.queue.notify()
		s.queue.mu.Unlock()
		<-held // the writer has the first one
		require.NoError(t, record(t.Context()), "the queue has room for one")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, record(ctx), context.DeadlineExceeded)
		_, err := stream.Record(ctx, now(), &journal.HostEvent{Event: "x", Details: edn.MustMap()})
		require.NoError(t, err)
	})
}

// JRN-060: many records of the host are removed in several transactions, between which
// others write.
func TestRetentionOfALongStream(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx := context.Background()
		s := on.openAt(t, t.TempDir(), func(o *Options) { o.Limits.Retain = Retention{Age: time.Hour} })
		const old = 2*maxHostRemoved + 5
		var last func(context.Context) error
		for n := range old + 1 {
			at := now()
			if n < old {
				at = at.Add(-2 * time.Hour)
			}
			wait, err := s.HostStream().Record(context.Background(), at, denial(n))
			require.NoError(t, err)
			last = wait
		}
		require.NoError(t, last(ctx))
		would, err := s.Removable(ctx)
		require.NoError(t, err)
		begun := s.writer.commits
		did, err := s.Retain(ctx)
		require.NoError(t, err)
		assert.Equal(t, []int{old, old}, []int{would.Host, did.Host})
		ended := s.writer.commits
		_, err = s.Retain(ctx) // removes nothing
		require.NoError(t, err)
		assert.GreaterOrEqual(t, ended-begun, s.writer.commits-ended+2, "a part of them each")
		assert.Equal(t, []int{old + 1}, seqs(hostPage(t, s.HostStream(), journal.ViewAudit, "", 10)))
		damage, err := s.VerifyAll(ctx)
		require.NoError(t, err)
		assert.Empty(t, damage)
	})
}

// JRN-030: a repair keeps the stream up to the first record that is not what was
// written, and all of it if other pages are damaged.
func TestRepairKeepsTheStream(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	aged := func(o *Options) { o.Limits.Retain = Retention{Age: time.Hour} }
	s := openAt(t, dir, aged)
	recorded(t, s.HostStream(), now().Add(-2*time.Hour), denial(1))
	for n := 2; n < 30; n++ {
		recorded(t, s.HostStream(), now(), denial(n))
	}
	_, err := s.Retain(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	tamper(t, dir, "UPDATE host_records SET kind = 'x', body = x'7b7d' WHERE n = 20")
	report := repair(t, dir, false)
	assert.False(t, report.Sound())
	assert.Equal(t, []any{18, 10, 20}, []any{report.HostRecords, report.HostCut, report.HostDamage.Seq})
	s = openAt(t, dir)
	got := hostPage(t, s.HostStream(), journal.ViewAudit, "", 100)
	assert.Len(t, got.Records, 18)
	assert.Equal(t, "host.19", got.Cursor)
	recorded(t, s.HostStream(), now(), denial(30))
	require.NoError(t, s.Close())

	kept, err := filepath.Glob(filepath.Join(dir, "*"+damagedSuffix+"*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.NoError(t, os.RemoveAll(kept[0])) // its name has the time
	zeroPage(t, dir, pageOf(t, dir, `:user "user/19"`))
	report = repair(t, dir, false)
	assert.NotEmpty(t, report.File)
	s = openAt(t, dir)
	damage, err := s.VerifyAll(ctx)
	require.NoError(t, err)
	assert.Empty(t, damage)
}

// denyAll is the writing process of TestKilledProcessLosesNoDenial: many callers are
// denied at once, and each answer is printed when its record is durable.
func denyAll(s *Store) {
	var say sync.Mutex
	var done sync.WaitGroup
	for caller := range 64 {
		done.Go(func() {
			for n := caller; ; n += 64 {
				wait, err := s.HostStream().Record(context.Background(), time.Now(), denial(n))
				if err == nil {
					err = wait(context.Background())
				}
				if err != nil {
					panic(err)
				}
				say.Lock()
				fmt.Println(n)
				say.Unlock()
			}
		})
	}
	done.Wait()
}

// TEL-002: of a burst of denials by 64 callers, each that was answered is in the stream
// after kill -9, once, and the chain verifies.
func TestKilledProcessLosesNoDenial(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		const answers = 3000
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"=0", killHost+"=1")
		if on.files == 0 {
			cmd.Env = append(cmd.Env, killDSN+"="+on.source(t, dir))
		}
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		answered := map[string]bool{}
		in := bufio.NewScanner(out)
		for in.Scan() {
			if answered["user/"+in.Text()] = true; len(answered) == answers {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		require.Equal(t, syscall.SIGKILL, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		require.GreaterOrEqual(t, len(answered), answers)

		s := on.openAt(t, dir)
		found := map[string]int{}
		for cursor, more := "", true; more; {
			page := hostPage(t, s.HostStream(), journal.ViewAudit, cursor, 700)
			for _, rec := range page.Records {
				found[rec.Body.(*journal.AuthEvent).User]++
			}
			cursor, more = page.Cursor, page.More
		}
		for user := range answered {
			require.Equal(t, 1, found[user], user)
		}
		for user, n := range found {
			require.Equal(t, 1, n, user)
		}
		damage, err := s.VerifyAll(context.Background())
		require.NoError(t, err)
		assert.Empty(t, damage)
		t.Log(strconv.Itoa(len(found)) + " denials, " + strconv.Itoa(len(answered)) + " answered")
	})
}
