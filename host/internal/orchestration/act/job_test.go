package act_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
)

// job is a run that waits for its turn, and the service that begins it.
type job struct {
	t       *testing.T
	service *act.Service
	run     *act.Run
	kept    *journal.Memory
}

// memory keeps the records of runs that are dropped.
type memory struct{ *journal.Memory }

func (memory) Drop(string) {}

func submitted(t *testing.T, more string) *job {
	t.Helper()
	kept := journal.NewMemory()
	one := queue.New(queue.Settings{Workers: 1, MaxQueued: 9, Classes: []queue.Class{{Name: "sync", Workers: 1, MaxQueued: 9, Weight: 1},
		{Name: "batch", Workers: 1, MaxQueued: 9, Weight: 1}}}, time.Now)
	s := service(t, resumeWorld(t), func(c *act.Config) { c.Journal, c.Queue = memory{kept}, one })
	run, err := s.Submit(request(ownPlan(`{:nodes [{:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:n 1} :as :x}
	  {:op :emit :input {:slot/path [:x :out :by]}}]}`, "", ":response/type :accepted "+more)))
	require.Nil(t, err, "%v", err)
	return &job{t, s, run, kept}
}

// begin executes the job and returns the kinds of its records.
func (j *job) begin() (kinds []string) {
	j.t.Helper()
	require.True(j.t, j.run.AwaitTurn())
	records, failed := j.kept.Records(j.run.ID())
	require.NoError(j.t, failed)
	require.Nil(j.t, j.service.Begin(j.run, records, journal.ResumedCrash))
	records, failed = j.kept.Records(j.run.ID())
	require.NoError(j.t, failed)
	for _, rec := range records {
		kinds = append(kinds, string(rec.Body.Kind()))
		assert.Equal(j.t, 1, rec.Epoch, "it was never under way before")
	}
	return kinds
}

// RUN-010, RUN-016: an accepted act begins when it is its turn, as one that was
// never under way, whatever has happened to its host.
func TestSubmit(t *testing.T) {
	j := submitted(t, "")
	assert.True(t, j.run.Waiting())
	kinds := j.begin()
	assert.NotContains(t, kinds, "run/resumed")
	assert.Contains(t, kinds, "run/started")
	assert.Equal(t, "run/finished", kinds[len(kinds)-1])
	response, err := j.run.Wait()
	require.Nil(t, err, "%v", err)
	assert.Equal(t, `{:value :a/one}`, response.Key("result").Key("out").String())
	assert.False(t, j.run.Waiting())
}

// RUN-013, OPS-004: a run that is canceled or interrupted between its turn and its
// begin is not started. An interrupted one stays open.
func TestJobEndsBeforeItBegins(t *testing.T) {
	j := submitted(t, "")
	require.True(t, j.run.AwaitTurn())
	assert.True(t, j.run.Cancel("operator", "no need"))
	assert.Equal(t, []string{"run/accepted", "cancel/requested", "run/finished"}, j.begin())
	_, err := j.run.Wait()
	assert.Equal(t, "canceled", err.Type)
	assert.Equal(t, `"no need"`, err.Details.Key("why").String())

	j = submitted(t, "")
	require.True(t, j.run.AwaitTurn())
	records, failed := j.kept.Records(j.run.ID())
	require.NoError(t, failed)
	j.run.Interrupt()
	require.Nil(t, j.service.Begin(j.run, records, ""))
	_, err = j.run.Wait()
	assert.Equal(t, "runtime/draining", err.Type)
	after, failed := j.kept.Records(j.run.ID())
	require.NoError(t, failed)
	assert.Len(t, after, len(records), "nothing is recorded any more")

	j = submitted(t, "")
	j.run.Interrupt()
	assert.False(t, j.run.AwaitTurn(), "it is over")
}
