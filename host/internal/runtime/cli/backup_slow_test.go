//go:build slow

package cli_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPS-008: a backup under load restores to a state whose every run verifies. While its
// original is alive, the copy executes no open run of it: no effect happens twice, also
// when the client sends the request with its key to the copy.
func TestBackupUnderLoadAndClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile)
	file := w.counting(t, sqliteStore)
	w.write("ferment.hcl", w.configuration()+fmt.Sprintf(anyIntent, "count/gate"))
	s := w.serve()

	const openPlan = `{:plan {:nodes [
 {:op :call :intent :count/once :input {:n "open.1"} :as :a}
 {:op :call :intent :count/gate :input {:n "wait"} :as :b}
 {:op :call :intent :count/once :input {:n {:slot/path [:b :out :n]}} :as :c}
 {:op :emit :input {:slot/path [:c :out :n]}}]}}`
	open := envelopeOf("plan/run", openPlan, `:response/type :accepted :idempotency/key "k" :effects {:allowed #{:fs/write}}`)
	a := s.request(t.Context(), "POST", "/v1/act", open)
	require.Equal(t, 202, a.status, "%s", a.body)
	id, _ := a.value(t).Key("job/id").AsString()
	require.Eventually(t, func() bool { return strings.Contains(w.effects(t, file), "begin wait\n") }, runLimit, 5*time.Millisecond)

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var clients sync.WaitGroup
	for k := range 6 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("%d/%d", k, n)
				body := envelopeOf("plan/run", "{:plan "+fmt.Sprintf(countingPlan, name, "")+"}", ":effects {:allowed #{:fs/write}}")
				if got := s.request(context.Background(), "POST", "/v1/act", body); ctx.Err() == nil {
					assert.Equal(t, 200, got.status, "%s", got.body)
				}
			}
		})
	}
	require.Eventually(t, func() bool { return len(w.recorded(t, "completed")) >= 10 }, runLimit, 10*time.Millisecond)
	made := w.data("admin", "backup", filepath.Join(w.dir, "b.tar"))
	runs, _ := made.Key("journal").Key("runs").AsInt()
	opened, _ := made.Key("journal").Key("open").AsInt()
	assert.Greater(t, runs, int64(10))
	assert.Equal(t, 0, w.run("admin", "backup", "verify", "b.tar").code)
	config := w.elsewhere("copy")
	done := w.data("admin", "restore", "b.tar", "--config", config, "--yes")
	assert.Equal(t, fmt.Sprint(opened), done.Key("runs/suspended").String())

	clone := w.serve("--config", config)
	assert.Equal(t, 0, w.run("runs", "verify", "--config", config).code)
	assert.Equal(t, int(opened), len(w.listed("run", "--status", "suspended", "--limit", "100", "--config", config)))
	refused := clone.request(t.Context(), "POST", "/v1/act", open)
	if refused.status == 202 { // its job, which does not go on
		job, _ := refused.value(t).Key("job/id").AsString()
		assert.Equal(t, id, job)
	} else {
		assert.Equal(t, 409, refused.status, "%s", refused.body)
	}
	stop()
	clients.Wait()
	w.write("out/effects.open", "")
	s.becomes(id, "completed")
	clone.stop()
	s.stop()
	assert.Contains(t, w.listed("run", "--status", "suspended", "--limit", "100", "--config", config), id)
	counts := map[string]int{}
	for line := range strings.Lines(w.effects(t, file)) {
		if f := strings.Fields(line); f[0] == "once" || f[0] == "keyed" {
			counts[strings.Join(f[:2], " ")]++
		}
	}
	for what, n := range counts {
		assert.Equal(t, 1, n, what)
	}
	assert.Equal(t, []int{1, 1}, []int{counts["once open.1"], counts["once wait"]})
}
