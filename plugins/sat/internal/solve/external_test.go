package solve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/sat/internal/dimacs"
	"github.com/fermenthq/ferment/sdk/contract"
)

// played makes a program from a shell script; $1 is the formula, $2 the answer
// file for MiniSat style.
func played(t *testing.T, style Style, script string) External {
	t.Helper()
	path := filepath.Join(t.TempDir(), "solver")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return External{Path: path, Style: style, Dir: t.TempDir()}
}

// small has models, all of which set 2.
var small = &dimacs.Formula{Vars: 3, Clauses: [][]int{{1, 2}, {-1, 2}}}

// An answer is accepted only if all of its parts agree.
func TestExternalAnswers(t *testing.T) {
	const wrongModel, bad = "runtime/invalid-result", "provider/error"
	tests := []struct {
		name   string
		style  Style
		script string
		want   Status
		typ    string
		says   string
	}{
		{"model", Competition, "echo c hello; echo s SATISFIABLE; echo v -1 2; echo v -3 0; exit 10", Sat, "", ""},
		{"model that leaves something out", Competition, "echo s SATISFIABLE; echo v 2 0; exit 10", Sat, "", ""},
		{"none", Competition, "echo s UNSATISFIABLE; exit 20", Unsat, "", ""},
		{"gives up", Competition, "echo s UNKNOWN; exit 0", Unknown, "", ""},
		{"gives up silently", Competition, "echo c UNKNOWN; exit 0", Unknown, "", ""},
		{"minisat model", MiniSat, "echo WARNING; printf 'SAT\\n1 2 -3 0\\n' > $2; exit 10", Sat, "", ""},
		{"minisat none", MiniSat, "echo UNSAT > $2; exit 20", Unsat, "", ""},
		{"minisat gives up", MiniSat, "echo INDET > $2; exit 0", Unknown, "", ""},
		{"minisat without file", MiniSat, "exit 0", Unknown, "", ""},

		{"wrong model", Competition, "echo s SATISFIABLE; echo v 1 -2 3 0; exit 10", "", wrongModel, "clause 2 is not satisfied"},
		{"both values", Competition, "echo s SATISFIABLE; echo v 1 -1 2 0; exit 10", "", wrongModel, "both true and false"},
		{"unknown variable", Competition, "echo s SATISFIABLE; echo v 2 9 0; exit 10", "", wrongModel, "variable 9 is not in the formula"},
		{"minisat wrong model", MiniSat, "printf 'SAT\\n-1 -2 -3 0\\n' > $2; exit 10", "", wrongModel, "clause 1"},
		{"cut model", Competition, "echo s SATISFIABLE; echo v 1 2; exit 10", "", bad, "does not end with 0"},
		{"no model", Competition, "echo s SATISFIABLE; exit 10", "", bad, "does not end with 0"},
		{"model behind its end", Competition, "echo s SATISFIABLE; echo v 2 0 1; exit 10", "", bad, "follows the 0"},
		{"model that goes on", Competition, "echo s SATISFIABLE; echo v 2 0; echo v 1 0; exit 10", "", bad, "has ended"},
		{"model without a claim", Competition, "echo s UNSATISFIABLE; echo v 2 0; exit 20", "", bad, "the output has a model"},
		{"two claims", Competition, "echo s SATISFIABLE; echo s UNSATISFIABLE; exit 10", "", bad, "second status"},
		{"unknown claim", Competition, "echo s MAYBE; exit 10", "", bad, "expected SATISFIABLE"},
		{"no claim", Competition, "echo v 2 0; exit 10", "", bad, "no status line"},
		{"words", Competition, "echo s SATISFIABLE; echo v 1 two 0; exit 10", "", bad, `expected an integer as literal, found "two"`},
		{"huge number", Competition, "echo s SATISFIABLE; echo v 99999999999999999999 0; exit 10", "", bad, "expected an integer as literal"},
		{"garbage", Competition, "echo hello; exit 10", "", bad, "begins with c, s or v"},
		{"bytes", Competition, `printf '\377\376\n'; exit 10`, "", bad, "begins with c, s or v"},
		{"code and claim differ", Competition, "echo s SATISFIABLE; echo v 2 0; exit 20", "", bad, "the exit code is 20, expected 10"},
		{"refuted with a good exit", Competition, "echo s UNSATISFIABLE; exit 0", "", bad, "expected 20"},
		{"minisat code and claim differ", MiniSat, "echo UNSAT > $2; exit 10", "", bad, "expected 20"},
		{"minisat garbage", MiniSat, "echo hello > $2; exit 10", "", bad, "expected SAT, UNSAT or INDET"},
		{"minisat directory", MiniSat, "mkdir $2; exit 10", "", bad, "not a regular file"},
		{"error", Competition, "echo cannot read >&2; exit 1", "", bad, "cannot read"},
		{"signal", Competition, "kill -9 $$", "", bad, "ended with"},
		{"crash behind an answer", Competition, "echo s UNSATISFIABLE; kill -11 $$", "", bad, "ended with"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := played(t, tt.style, tt.script)
			got, err := e.Run(context.Background(), small, time.Minute)
			left, rerr := os.ReadDir(e.Dir)
			require.NoError(t, rerr)
			assert.Empty(t, left, "nothing is left of a call")
			if tt.typ != "" {
				require.ErrorIs(t, err, contract.OfType(tt.typ), "%v", err)
				assert.ErrorContains(t, err, tt.says)
				assert.Less(t, len(err.Error()), 500)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, got.Status)
			if tt.want == Sat {
				bad, err := small.Check(got.Model)
				require.NoError(t, err)
				assert.Zero(t, bad)
				assert.Len(t, got.Model, small.Vars, "every variable is named once")
			}
		})
	}
}

// A program with endless output is stopped.
func TestExternalThatFloods(t *testing.T) {
	for _, script := range []string{"n=$(head -c 8000 /dev/zero | tr '\\0' n); while :; do echo c $n; done", "yes c noise", "yes | tr -d '\\n'"} {
		_, err := played(t, Competition, script).Run(context.Background(), small, 10*time.Minute)
		require.ErrorIs(t, err, contract.OfType("provider/error"), script)
		assert.ErrorContains(t, err, "more than")
	}
}

// A hanging program and its children have ended when the call returns: after
// the timeout with an unknown answer, after cancellation with an error.
func TestExternalThatHangs(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "pids")
	script := fmt.Sprintf("trap '' TERM INT HUP; sleep 300 & echo $$ $! > %s.new; mv %s.new %s; wait", trace, trace, trace)
	ended := func() {
		text, err := os.ReadFile(trace)
		require.NoError(t, err)
		for _, pid := range strings.Fields(string(text)) {
			require.Eventually(t, func() bool { return !lives(pid) }, 30*time.Second, time.Millisecond, "process %s", pid)
		}
		require.NoError(t, os.Remove(trace))
	}
	e := played(t, Competition, script)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := e.Run(ctx, small, 0)
		done <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(trace); return err == nil }, 2*time.Minute, time.Millisecond)
	at := time.Now()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	assert.Less(t, time.Since(at), 30*time.Second)
	ended()

	got, err := e.Run(context.Background(), small, time.Second)
	require.NoError(t, err)
	assert.Equal(t, Unknown, got.Status)
	assert.Equal(t, "no answer within 1s", got.Reason)
	ended()
}

// lives reports whether a process has neither ended nor become a zombie.
func lives(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestExternalThatIsNoProgram(t *testing.T) {
	e := External{Path: filepath.Join(t.TempDir(), "absent"), Style: Competition, Dir: t.TempDir()}
	_, err := e.Run(context.Background(), small, 0)
	require.ErrorIs(t, err, contract.OfType("provider/not-configured"))
	got, err := e.Run(context.Background(), &dimacs.Formula{Vars: 1, Clauses: [][]int{{}}}, 0)
	require.NoError(t, err)
	assert.Equal(t, Unsat, got.Status, "what needs no search starts nothing")
}

// Every output gives an answer or an error.
func FuzzAnswer(f *testing.F) {
	f.Add("c x\ns SATISFIABLE\nv 1 -2\nv 0\n", 10)
	f.Add("s UNSATISFIABLE\n", 20)
	f.Add("c no status\nv 1 -2\nv 0\n", 0)
	f.Fuzz(func(t *testing.T, text string, code int) {
		if len(text) > 4096 {
			return
		}
		a, err := competitionAnswer([]byte(text), code)
		if err != nil {
			return
		}
		require.NoError(t, status(a.Status, code))
		require.True(t, a.Status == Sat || len(a.Model) == 0)
	})
}
