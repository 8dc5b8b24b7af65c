package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon/doctor"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CLI-001: a table fits a screen, and every word of it is printed.
func TestTablesFit(t *testing.T) {
	word := rapid.StringMatching(`[a-zé/]{1,30}`)
	cell := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(word, 0, 9).Draw(t, "words"), " ") })
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "columns")
		// The first column is a name; names longer than a screen are not
		// split.
		row := rapid.Custom(func(t *rapid.T) []string {
			return append([]string{word.Draw(t, "name")}, rapid.SliceOfN(cell, n-1, n-1).Draw(t, "cells")...)
		})
		head := make([]string, n)
		for i := range head {
			head[i] = rapid.StringMatching(`[a-z]{1,12}`).Draw(t, "head")
		}
		rows := rapid.SliceOfN(row, 0, 4).Draw(t, "rows")
		var out strings.Builder
		require.NoError(t, display.Table(&out, head, rows))
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > diag.Columns {
				t.Fatalf("%d columns: %q", n, line)
			}
		}
		for _, row := range rows {
			for _, cell := range row {
				for _, w := range strings.Fields(cell) {
					if !strings.Contains(out.String(), w) {
						t.Fatalf("%q is missing in\n%s", w, out.String())
					}
				}
			}
		}
	})
	var out strings.Builder
	require.NoError(t, display.Table(&out, []string{"plugin", "state", "what was found"}, [][]string{{"a", "ok", strings.Repeat("words ", 20) + "end"}, {"b", "weak", ""}}))
	assert.Equal(t, "plugin  state  what was found\n"+
		"a       ok     words words words words words words words words words words words words words words\n"+
		"               words words words words words words end\n"+
		"b       weak\n", out.String())
}

// CLI-001: status reports a nearly full disk, and only then.
func TestStatusOfFullDisk(t *testing.T) {
	text := func(free int64) string {
		var out bytes.Buffer
		c := &command{env: Env{Stdout: &out}}
		require.NoError(t, c.status(edn.MustMap(edn.K("data-dir"), edn.Text("var"), edn.K("data-free-bytes"), edn.Int(free))))
		return out.String()
	}
	assert.Contains(t, text(daemon.LittleSpace-1), "disk:     511 MiB free for var, which is too little\n")
	assert.NotContains(t, text(daemon.LittleSpace), "disk:")
}

// CLI-001: after a slow item the next one is reported too, once it becomes
// slow itself.
func TestProgressOfSeveralSlowStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := &watcher{on: true, out: &out, begun: time.Now()}
		stop := w.tellStarting()
		for _, wait := range []struct {
			plugin string
			took   time.Duration
		}{{"slow", slowStart}, {"quick", slowStart - time.Millisecond}, {"slower", slowStart}} {
			w.asking(wait.plugin)
			time.Sleep(wait.took) // in synthetic time
			synctest.Wait()
			w.asking("")
		}
		w.transition(daemon.Transition{Plugin: "late", To: "starting"})
		time.Sleep(slowStart)
		synctest.Wait()
		stop()
		time.Sleep(time.Hour)
		assert.Equal(t, "  300ms  starting slow for its description\n"+
			"  899ms  starting slower for its description\n"+
			" 1.199s  starting late\n", out.String())
	})
}

// CLI-001: a run without events says again and again what it waits for, until its end.
func TestProgressOfALongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := &watcher{on: true, out: &out, begun: time.Now()}
		attempt := func(n int, capability, state string) {
			w.tell(journal.Event{Name: "attempt", Node: "a", Attempt: n, CapID: capability,
				Details: edn.MustMap(edn.K("state"), edn.K(state))})
		}
		attempt(1, "s/slow", "started")
		time.Sleep(2*longWait + time.Second) // in synthetic time
		attempt(2, "s/other", "started")
		attempt(1, "s/slow", "failed")
		time.Sleep(longWait)
		synctest.Wait()
		attempt(2, "s/other", "failed")
		time.Sleep(longWait)
		synctest.Wait()
		w.tell(journal.Event{Name: "finished"})
		time.Sleep(time.Hour)
		synctest.Wait()
		var waits []string
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, "waiting") {
				waits = append(waits, strings.TrimSpace(line))
			}
		}
		assert.Equal(t, []string{"15s  still waiting for s/slow", "30s  still waiting for s/slow", "46s  still waiting for s/other",
			"1m1s  still waiting: no call is running; retries and candidates with an open breaker have pauses"}, waits)
	})
}

// CLI-001: a start that takes longer than 300 ms reports what it waits for,
// and a quick one reports nothing.
func TestProgressOfSlowStart(t *testing.T) {
	for name, tt := range map[string]struct {
		waits func(*watcher)
		took  time.Duration
		want  string
	}{
		"description": {
			waits: func(w *watcher) { w.asking("late") },
			took:  slowStart,
			want:  "starting late for its description",
		},
		"processes": {
			waits: func(w *watcher) {
				w.asking("late")
				w.asking("")
				for _, name := range []string{"late", "b", "done"} {
					w.transition(daemon.Transition{Plugin: name, To: "starting"})
				}
				w.transition(daemon.Transition{Plugin: "done", To: "ready"})
			},
			took: slowStart,
			want: "starting b, late",
		},
		"configuration": {
			waits: func(*watcher) {},
			took:  slowStart,
			want:  "reading the configuration",
		},
		"quick": {
			waits: func(w *watcher) { w.asking("late") },
			took:  slowStart - time.Nanosecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				w := &watcher{on: true, out: &out, begun: time.Now()}
				stop := w.tellStarting()
				tt.waits(w)
				time.Sleep(tt.took) // in synthetic time
				synctest.Wait()
				stop()
				time.Sleep(time.Hour)
				want := ""
				if tt.want != "" {
					want = "  300ms  " + tt.want + "\n"
				}
				assert.Equal(t, want, out.String())
			})
		})
	}
}

// CLI-001: the text output of doctor fits a screen, with shortened hashes;
// data has whole ones.
func TestExaminationFits(t *testing.T) {
	hash := "b3:" + strings.Repeat("0123456789abcdef", 4)
	e := &doctor.Examination{}
	e.Add("configuration", "model-that-is-somewhere", doctor.OK, "scripted 1.0.0, lock approved, level strict, enforcement kernel, no needs, program %s", hash)
	var out bytes.Buffer
	c := &command{env: Env{Stdout: &out}}
	require.NoError(t, c.printExamination(e))
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), diag.Columns, line)
	}
	out.Reset()
	c.format = formatJSON
	require.NoError(t, c.printExamination(e))
	assert.Contains(t, out.String(), hash)
}
