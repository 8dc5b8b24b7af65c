//go:build slow

package cli_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// TestQueuedJobsSurvive: a restart amid many queued jobs loses none and keeps their
// order (RUN-016).
func TestQueuedJobsSurvive(t *testing.T) {
	jobs := proof.Size(t, "queued jobs over a kill", 1000, 10_000)
	w := answering(t, onDisk+"queue {\n  max_queued = 20000\n  class \"one\" {\n    workers    = 1\n    max_queued = 20000\n  }\n}\n"+
		"http {\n  limits {\n    anonymous_rate = \"100000/s\"\n    act_rate       = \"100000/s\"\n  }\n}\n")
	s := w.serve()
	hangs := s.submitted("mine/hang", "")
	s.becomes(hangs, "running")
	want := make([]string, jobs)
	for i := range want {
		want[i] = s.submitted("mine/data", ":deadline-ms 3600000")
	}
	s.signal(syscall.SIGKILL)
	s.wait()
	s = w.serve()
	_, _, ok := s.logged(0, said("resumed runs that an earlier daemon had begun"))
	require.True(t, ok)
	assert.Equal(t, "queued", word(s.job(want[jobs-1]).Key("job/status")))
	s.request(t.Context(), "POST", "/v1/act/jobs/"+hangs+"/cancel", "")
	require.Eventually(t, func() bool { return word(s.job(want[jobs-1]).Key("job/status")) == "completed" }, 5*time.Minute, 100*time.Millisecond)
	s.stop()

	kept := openStore(t, w)
	defer func() { require.NoError(t, kept.Close()) }()
	runs, err := kept.Runs(t.Context(), store.Filter{Status: journal.StatusCompleted, Limit: 100_000})
	require.NoError(t, err)
	require.Len(t, runs, jobs)
	begun := map[string]time.Time{}
	for _, run := range runs {
		records, err := kept.Read(t.Context(), run.ID, 0, 100)
		require.NoError(t, err)
		for _, rec := range records {
			if rec.Body.Kind() == journal.KindRunStarted {
				begun[run.ID] = rec.At
			}
		}
	}
	assert.True(t, slices.IsSortedFunc(want, func(a, b string) int { return begun[a].Compare(begun[b]) }), "the order is another one")
}
