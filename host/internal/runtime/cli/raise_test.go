package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// POL-001, PRM-006, AUTH-011, AUTH-013, JRN-040: a request above the budget of its intent is
// refused unless its caller may do budget/raise, and the record of its run has the decision.
// A run goes on with its budget after kill -9, also under rules that permit it to no one any
// more, and so does its replay.
func TestRaisedBudgetOfADaemon(t *testing.T) {
	t.Parallel()
	paid := func(step string) string {
		return `{:capabilities {:mine/paid {:intents #{:mine/paid} :in-schema :req/any :out-schema :res/any :cost {:usd 0.01M} :steps [` + step + `]}}}`
	}
	config := testProfile + scripted("mine") + onDisk + identified +
		strings.Replace(fmt.Sprintf(anyIntent, "mine/paid"), "}", "  budget {\n    max_usd = 0.005\n  }\n}", 1)
	w := newWorld(t, "ferment.hcl", config, "mine.edn", paid("{:hang true}"))
	s := w.serve()
	w.data("user", "add", "ann", "--no-password")
	ann := "Bearer " + plain(w.data("token", "create", "ann").Key("token"))
	ask := envelopeOf("mine/paid", "{}", ":response/type :accepted :budget {:max-usd 1M}")
	refused := s.request(t.Context(), "POST", "/v1/act", ask, "Authorization", ann)
	assert.Equal(t, http.StatusBadRequest, refused.status, "%s", refused.body)
	assert.Equal(t, "budget/raised", word(refused.value(t).Key("error").Key("details").Key("reason")))

	accepted := s.operator("POST", "/v1/act", ask)
	require.Equal(t, http.StatusAccepted, accepted.status, "%s", accepted.body)
	run := plain(accepted.value(t).Key("job/id"))
	require.Eventually(t, func() bool { return strings.Contains(w.run("runs", "records", run).stdout, "attempt/started") }, runLimit, 20*time.Millisecond)
	assert.Contains(t, w.run("runs", "records", run, "--edn").stdout, ":what :budget/raise")
	s.signal(syscall.SIGKILL)
	s.wait()

	w.write("mine.edn", paid("{:value {:n 1}}"))
	w.write("ferment.hcl", config+"operations {\n  rule \"budget/raise\" {\n    forbidden = [\"any\"]\n  }\n}\n")
	s = w.serve()
	require.Eventually(t, func() bool { return w.listed("status")[0] == "completed" }, runLimit, 20*time.Millisecond)
	replayed := w.run("runs", "replay", run)
	assert.Equal(t, 0, replayed.code, replayed.stderr)
	again := s.operator("POST", "/v1/act", ask)
	assert.Equal(t, http.StatusBadRequest, again.status, "%s", again.body)
	s.stop()
}
