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
)

// BenchmarkCommit compares the commit of one step's records with a bare
// transaction of one row on the same disk, alternating in the same run. It
// reports the ratio of the medians (at 1 writer, expected <= 1.5), and how the
// rate grows with 16 writers (expected >= 5). JRN-002.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := openAt(b, b.TempDir())
			bare := openBare(b)
			const rounds = 20 // steps of each writer per iteration
			var bareTimes, stepTimes []time.Duration
			var stepping time.Duration
			run := 0
			for b.Loop() {
				for range rounds {
					began := time.Now()
					bare()
					bareTimes = append(bareTimes, time.Since(began))
				}
				began := time.Now()
				var mu sync.Mutex
				var done sync.WaitGroup
				for range writers {
					run++
					id := run
					sc := newScript(fmt.Sprintf("run_%d", id))
					done.Go(func() {
						log := s.Open(sc.run)
						appendAll(b, log, sc.accepted(nothing))
						syncRun(b, s, sc.run)
						for i := range rounds {
							began := time.Now()
							appendAll(b, log, sc.step(textOf(id*rounds+i, 200), textOf(-id*rounds-i, 200))...)
							syncRun(b, s, sc.run)
							mu.Lock()
							stepTimes = append(stepTimes, time.Since(began))
							mu.Unlock()
						}
						appendAll(b, log, sc.finished(nothing))
						syncRun(b, s, sc.run)
						s.Drop(sc.run)
					})
				}
				done.Wait()
				stepping += time.Since(began)
			}
			b.ReportMetric(float64(quantile(bareTimes, 50).Microseconds()), "bare-p50-us")
			b.ReportMetric(float64(quantile(stepTimes, 50).Microseconds()), "step-p50-us")
			b.ReportMetric(float64(quantile(stepTimes, 99))/float64(quantile(stepTimes, 50)), "p99/p50")
			b.ReportMetric(float64(quantile(stepTimes, 50))/float64(quantile(bareTimes, 50)), "step/bare")
			b.ReportMetric(float64(len(stepTimes))/stepping.Seconds(), "steps/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func quantile(all []time.Duration, percent int) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}

// openBare returns a function that commits one row with the settings of the
// store.
func openBare(b *testing.B) func() {
	ctx := context.Background()
	db, err := openSQLite(ctx, filepath.Join(b.TempDir(), "bare.db"), true)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.close()) })
	_, err = db.conn.ExecContext(ctx, "CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)")
	require.NoError(b, err)
	row, err := db.conn.PrepareContext(ctx, "INSERT INTO t (body) VALUES (?)")
	require.NoError(b, err)
	body := make([]byte, 500)
	return func() {
		_, err := row.ExecContext(ctx, body)
		require.NoError(b, err)
	}
}
