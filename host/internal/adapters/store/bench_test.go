package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// BenchmarkRecord is the rate of commits of one record with 1 and 16 writers, in
// turns, on every kind of database: 16/1 is expected >= 5. JRN-002.
func BenchmarkRecord(b *testing.B) {
	for _, on := range backends {
		b.Run(on.name, func(b *testing.B) { benchmarkRecord(b, on) })
	}
}

func benchmarkRecord(b *testing.B, on backend) {
	const rounds, writers = 50, 16
	s := on.openAt(b, b.TempDir())
	var spent [2]time.Duration
	run := 0
	for b.Loop() {
		for i, n := range []int{1, writers} {
			var done sync.WaitGroup
			began := time.Now()
			for range n {
				run++
				sc := newScript(fmt.Sprintf("run_%d", run))
				log := s.Open(sc.run)
				appendAll(b, log, sc.accepted(nothing))
				done.Go(func() {
					for range rounds {
						appendAll(b, log, sc.record(&journal.CancelRequested{By: "uid/7"}))
						syncRun(b, s, sc.run)
					}
				})
			}
			done.Wait()
			spent[i] += time.Since(began)
		}
	}
	alone := float64(rounds*b.N) / spent[0].Seconds()
	together := float64(rounds*writers*b.N) / spent[1].Seconds()
	b.ReportMetric(alone, "alone/s")
	b.ReportMetric(together, "together/s")
	b.ReportMetric(together/alone, "16/1")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCommit compares the commit of one step's records with a bare
// transaction of one row on the same disk, alternating in the same run: the ratio
// of the medians (step/bare, expected <= 1.5). It then reports how the rate grows
// with 16 writers (16/1, expected >= 5), and their 99th percentile over their
// median (expected <= 5). JRN-002.
func BenchmarkCommit(b *testing.B) {
	const rounds, writers = 20, 16
	s, bare := openAt(b, b.TempDir()), openBare(b)
	var bares, alone, together []time.Duration
	var among time.Duration // time of all rounds of all writers
	run := 0
	begin := func() (func(i int) time.Duration, func()) {
		run++
		sc := newScript(fmt.Sprintf("run_%d", run))
		id, log := run*rounds, s.Open(sc.run)
		appendAll(b, log, sc.accepted(nothing))
		syncRun(b, s, sc.run)
		return func(i int) time.Duration {
				records := sc.step(textOf(id+i, 200), textOf(-id-i, 200))
				began := time.Now()
				appendAll(b, log, records...)
				syncRun(b, s, sc.run)
				return time.Since(began)
			}, func() {
				appendAll(b, log, sc.finished(nothing))
				syncRun(b, s, sc.run)
				s.Drop(sc.run)
			}
	}
	for lite(s).walSize() < walCopy { // from here on both logs are started over in their place
		step, end := begin()
		for i := range rounds {
			step(i)
		}
		end()
	}
	for b.Loop() {
		step, end := begin()
		for i := range rounds {
			bares = append(bares, bare())
			alone = append(alone, step(i))
		}
		end()
		var mu sync.Mutex
		var ready, done sync.WaitGroup
		ready.Add(writers)
		start := make(chan struct{})
		for range writers {
			step, end := begin()
			done.Go(func() {
				ready.Done()
				<-start
				for i := range rounds {
					took := step(i)
					mu.Lock()
					together = append(together, took)
					mu.Unlock()
				}
				end()
			})
		}
		ready.Wait()
		began := time.Now()
		close(start)
		done.Wait()
		among += time.Since(began)
	}
	b.ReportMetric(float64(quantile(bares, 50).Microseconds()), "bare-us")
	b.ReportMetric(float64(quantile(alone, 50).Microseconds()), "step-us")
	b.ReportMetric(float64(quantile(alone, 50))/float64(quantile(bares, 50)), "step/bare")
	rate := float64(len(together)) / among.Seconds()
	b.ReportMetric(rate, "steps/s")
	b.ReportMetric(rate*quantile(alone, 50).Seconds(), "16/1")
	b.ReportMetric(float64(quantile(together, 99))/float64(quantile(together, 50)), "p99/p50")
	b.ReportMetric(0, "ns/op")
}

func quantile(all []time.Duration, percent int) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}

// openBare returns a function that commits one row with the settings of the
// store, and the time that it takes. Its log is copied now and then, so
// that it does not grow.
func openBare(b *testing.B) func() time.Duration {
	ctx := context.Background()
	db, err := openSQLite(ctx, filepath.Join(b.TempDir(), "bare.db"), true)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.close()) })
	_, err = db.conn.ExecContext(ctx, "CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)")
	require.NoError(b, err)
	row, err := db.conn.PrepareContext(ctx, "INSERT INTO t (body) VALUES (?)")
	require.NoError(b, err)
	body, n := make([]byte, 500), 0
	return func() time.Duration {
		began := time.Now()
		_, err := row.ExecContext(ctx, body)
		took := time.Since(began)
		require.NoError(b, err)
		if n++; n%100 == 0 {
			_, err = db.checkpoint(ctx, db.behind, "PASSIVE")
			require.NoError(b, err)
		}
		return took
	}
}

// BenchmarkRead is the rate at which the records of a run are read with all values
// that they name, as a replay does.
func BenchmarkRead(b *testing.B) {
	s := openAt(b, b.TempDir())
	sc := newScript("run_1")
	log := s.Open(sc.run)
	appendAll(b, log, sc.accepted(nothing))
	for i := range 300 {
		appendAll(b, log, sc.step(textOf(i, 1000), textOf(-i, 1000))...)
	}
	appendAll(b, log, sc.finished(nothing))
	syncRun(b, s, sc.run)
	s.Drop(sc.run)
	read := 0
	for b.Loop() {
		records, err := s.Read(b.Context(), sc.run, 0, maxRecords)
		require.NoError(b, err)
		for _, rec := range records {
			rec.Refs(func(ref journal.Ref) { require.False(b, ref.Value().IsNil()) })
		}
		read += len(records)
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "records/s")
}
