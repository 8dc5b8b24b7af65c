//go:build linux

package plugin

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
)

// SUP-006: when the pass rate of a new edition counts as worse than that of the
// old one.
func TestTally(t *testing.T) {
	for _, row := range []struct {
		name     string
		new, old tally
		worse    bool
	}{
		{"nothing known", tally{}, tally{}, false},
		{"perfect against perfect", tally{20, 20}, tally{20, 20}, false},
		{"one slip in twenty", tally{20, 19}, tally{20, 20}, false},
		{"two slips in twenty", tally{20, 18}, tally{20, 20}, true},
		{"as bad as the old one", tally{20, 10}, tally{20, 10}, false},
		{"a bit worse than a bad one", tally{20, 9}, tally{20, 10}, false},
		{"far worse than a bad one", tally{20, 5}, tally{20, 10}, true},
		{"nothing to compare with", tally{20, 16}, tally{}, false},
		{"bad without anything to compare with", tally{20, 13}, tally{}, true},
		{"one sample, failed", tally{1, 0}, tally{20, 20}, true},
	} {
		assert.Equal(t, row.worse, row.new.worse(row.old), row.name)
	}
}

// SUP-006: the share of a trial is spread evenly.
func TestTrialShare(t *testing.T) {
	for share, want := range map[float64]int{0.01: 10, 0.1: 100, 0.3: 300, 0.5: 500, 1: 1000} {
		tr, n, longest, gap := &trial{swap: Swap{Share: share}}, 0, 0, 0
		for range 1000 {
			if gap++; tr.inShare() {
				n, longest, gap = n+1, max(longest, gap), 0
			}
		}
		assert.InDelta(t, want, n, 1, "%v", share)
		assert.LessOrEqual(t, longest, int(1/share)+1, "%v", share)
	}
}

func canary(mode SwapMode) Settings {
	s := as("good")
	s.Swap = Swap{Mode: mode, Share: 0.25, MinSamples: 6, Timeout: time.Hour}
	return s
}

// judging calls the plugin continuously and reports verdicts: for edition 2 the
// given one, for others a pass.
func (b *bench) judging(pass bool) (stop func() map[int]int) {
	over := make(chan struct{})
	var calls sync.WaitGroup
	var mu sync.Mutex
	editions := map[int]int{}
	for range 2 {
		calls.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				c := request(`{}`)
				b.client.Shadow(c, func(_ context.Context, a dispatch.Answer) (bool, bool) { return pass, true })
				a, err := b.client.Invoke(context.Background(), c)
				if !assert.NoError(b.t, err) {
					return
				}
				mu.Lock()
				editions[a.Edition]++
				mu.Unlock()
				b.client.Judged(c.CapID, a, a.Edition != 2 || pass)
			}
		})
	}
	return func() map[int]int { close(over); calls.Wait(); return editions }
}

// SUP-006: an edition with the pass rate of the old one is promoted; a worse
// one is stopped, and the old one stays.
func TestTrial(t *testing.T) {
	t.Parallel()
	for _, mode := range []SwapMode{SwapCanary, SwapShadow} {
		for verdict, pass := range map[string]bool{"better": true, "worse": false} {
			t.Run(string(mode)+" "+verdict, func(t *testing.T) {
				b := run(t, canary(mode)).ready()
				pid := b.pid()
				stop := b.judging(pass)
				err := b.Swap(within(t), "p", CauseQuality)
				if pass {
					assert.NoError(t, err)
				} else {
					assert.ErrorContains(t, err, "the old edition stays")
				}
				served := stop()
				st := b.Status()
				require.Len(t, st, 1)
				gone := b.to(t, Draining, 1)
				if pass {
					assert.Equal(t, 2, st[0].Edition)
					assert.Equal(t, CauseQuality, gone.Cause)
					assert.Equal(t, pid, gone.PID)
				} else {
					assert.Equal(t, pid, st[0].PID, "the process that ran before")
					assert.Equal(t, CauseTrial, gone.Cause)
					assert.Equal(t, 2, gone.Edition)
					b.line(t, "the old edition stays")
					if mode == SwapShadow {
						assert.Zero(t, served[2], "no caller got an answer of a shadow")
					}
				}
			})
		}
	}
}

// A trial ends at once when a process of the new edition ends, or when the
// caller's context ends; the old edition stays.
func TestTrialEnds(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, change func(*Settings)) (b *bench, trial Status, swapped chan error, cancel context.CancelFunc) {
		s := canary(SwapCanary)
		if change != nil {
			change(&s)
		}
		b = run(t, s).ready()
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		swapped = make(chan error, 1)
		go func() { swapped <- b.Swap(ctx, "p", CauseSwap) }()
		b.eventually(1, "a trial", func(st Status) bool {
			if st.Role == Trial {
				trial = st
			}
			return st.Role == Trial
		})
		return b, trial, swapped, cancel
	}
	stays := func(t *testing.T, b *bench, edition int) {
		t.Helper()
		require.Eventually(t, func() bool { st := b.Status(); return len(st) == 1 && st[0].Edition == edition }, patience, time.Millisecond)
		a, err := b.ask(context.Background(), `{}`)
		require.NoError(t, err)
		assert.Equal(t, edition, a.Edition)
	}
	t.Run("crash", func(t *testing.T) {
		b, trial, swapped, _ := begin(t, nil)
		require.NoError(t, syscall.Kill(trial.PID, syscall.SIGKILL))
		assert.ErrorContains(t, <-swapped, "a process of the new edition failed")
		stays(t, b, 1)
	})
	t.Run("given up", func(t *testing.T) {
		b, _, swapped, cancel := begin(t, nil)
		assert.ErrorContains(t, b.Swap(within(t), "p", CauseSwap), "is on trial")
		cancel()
		assert.ErrorContains(t, <-swapped, "abandoned")
		stays(t, b, 1)
	})
	t.Run("no calls until the timeout", func(t *testing.T) {
		b, _, swapped, _ := begin(t, func(s *Settings) { s.Swap.Timeout = 300 * time.Millisecond })
		require.NoError(t, <-swapped, "nothing spoke against it")
		stays(t, b, 2)
	})
	t.Run("a reload overtakes it", func(t *testing.T) {
		b, _, swapped, _ := begin(t, nil)
		next := as("good", "next")
		p, err := b.Prepare(within(t), Change{Replace: []Settings{next}})
		require.NoError(t, err)
		<-p.Commit()
		assert.ErrorContains(t, <-swapped, "a newer edition replaced the one on trial")
		stays(t, b, 3)
	})
	t.Run("the end of the host", func(t *testing.T) {
		b, _, swapped, _ := begin(t, nil)
		require.NoError(t, b.Supervisor.Close(within(t)))
		assert.Error(t, <-swapped)
	})
	t.Run("an operator does not want one", func(t *testing.T) {
		b := run(t, canary(SwapDirect)).ready()
		require.NoError(t, b.Swap(within(t), "p", CauseSwap))
		stays(t, b, 2)
	})
}

// HCL-039, SUP-006: Commit of a reload begins the trial and does not wait for
// it.
func TestReloadWithTrial(t *testing.T) {
	s := canary(SwapCanary)
	b := run(t, s).ready()
	next := s
	next.Env = map[string]string{"GORACE": quick, "NEW": "yes"}
	p, err := b.Prepare(within(t), Change{Replace: []Settings{next}})
	require.NoError(t, err)
	done := p.Commit()
	b.eventually(1, "a trial", func(st Status) bool { return st.Role == Trial })
	stop := b.judging(true)
	<-done
	served := stop()
	assert.Positive(t, served[1])
	assert.Equal(t, 2, b.client.State("t/echo").Edition)
}
