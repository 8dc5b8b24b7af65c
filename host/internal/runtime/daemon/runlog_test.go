package daemon

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TEL-001: the lines about a failed run and its failed attempts have run, node, capability,
// generation, principal, trace and span, and the message of an error, which may quote the
// request, only with content full. RUN-005: a defect is logged with its run and its stack.
func TestLinesAboutRuns(t *testing.T) {
	for _, content := range []string{"off", "hash", "full"} {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/two", "")}})
		w.On("a/one", dispatchtest.Step{Err: contract.Errorf("provider/error", "no answer to SECRET")})
		w.On("a/two", dispatchtest.Step{Err: contract.Errorf("provider/error", "no answer to SECRET")})
		h := &Host{runs: newRuns(), journal: journal.NewMemory()}
		service, err := act.New(act.Config{
			Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: h.journal, Hash: edn.Hash(edn.Nil()),
		})
		require.NoError(t, err)
		run, refused := service.Start(t.Context(), act.Act{Principal: "ann", PrincipalType: "user", Request: edn.MustRead(
			`{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/one :a/two]}} :input {}}`)})
		require.Nil(t, refused)
		<-run.Done()

		var out bytes.Buffer
		d := &Daemon{
			log:   hclog.New(&hclog.LoggerOptions{Output: &out, JSONFormat: true, Level: hclog.Debug}),
			early: &setup.Loaded{Config: &config.Config{Telemetry: config.Telemetry{Content: content}}},
		}
		lines := func() (all []map[string]any) {
			for line := range strings.Lines(out.String()) {
				fields := map[string]any{}
				require.NoError(t, json.Unmarshal([]byte(line), &fields))
				for _, key := range []string{"trace", "span"} {
					assert.NotEmpty(t, fields[key], "%s of %s", key, line)
				}
				assert.Equal(t, run.ID(), fields["run"])
				assert.Equal(t, "ann", fields["principal"])
				all = append(all, fields)
			}
			out.Reset()
			return all
		}
		d.runEnded(run)
		assert.Equal(t, content == "full", strings.Contains(out.String(), "SECRET"), content)
		all := lines()
		require.NotEmpty(t, all)
		attempts := all[:len(all)-1]
		require.NotEmpty(t, attempts)
		spans := map[any]bool{}
		for _, line := range attempts {
			assert.Equal(t, "attempt failed", line["@message"])
			assert.Equal(t, "act", line["node"])
			assert.Contains(t, []any{"a/one", "a/two"}, line["capability"])
			assert.Equal(t, "provider/error", line["error"])
			spans[line["span"]] = true
		}
		assert.Len(t, spans, len(attempts), "each attempt has a span of its own")
		last := all[len(all)-1]
		assert.Equal(t, "run failed", last["@message"])
		assert.NotContains(t, spans, last["span"])

		kept := journal.NewMemory() // as while the run is executed
		kept.Load(run.ID(), run.Records())
		d.host.Store(&Host{runs: newRuns(), journal: kept})
		d.panicked(run.ID(), "node act", "no luck", []byte("stack of it"))
		all = lines()
		require.Len(t, all, 1)
		assert.Equal(t, "no luck", all[0]["panic"])
		assert.Equal(t, "stack of it", all[0]["stack"])

		d.host.Store(nil)
		d.log.SetLevel(hclog.Info)
		d.runEnded(run)
		assert.Len(t, lines(), 1, "attempts are logged at level debug")
		d.log.SetLevel(hclog.Warn)
		d.runEnded(run)
		assert.Empty(t, out.String())
	}
}
