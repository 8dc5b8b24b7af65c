package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RUN-042: who watches a run later sees the times that its events had.
func TestWatcherShowsRecordedTimes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out bytes.Buffer
	w := &watcher{on: true, form: formatText, out: &out, recorded: true}
	attempt := func(state string) edn.Value { return edn.MustMap(edn.K("state"), edn.K(state)) }
	w.tell(journal.Event{Name: "accepted", At: at})
	w.tell(journal.Event{Name: "attempt", At: at.Add(1500 * time.Millisecond), Node: "n", CapID: "a/one", Details: attempt("started")})
	w.tell(journal.Event{Name: "attempt", At: at.Add(90 * time.Second), Node: "m", CapID: "a/two", Details: attempt("started")})
	assert.Equal(t, "   1.5s  n: asking a/one\n  1m30s  m: asking a/two\n", out.String())
}

// A decimal is shown without its mark; a name that ends like it is shown whole.
func TestWrittenKeepsTexts(t *testing.T) {
	assert.Equal(t, "0.5", written(edn.MustRead("0.5M")))
	assert.Equal(t, "run_01M", written(edn.Text("run_01M")))
	assert.Equal(t, "model/M", written(edn.K("model/M")))
}
