package daemon

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RUN-002: a refused act is a line of the audit log and a row of the audit trail, without
// the text of its request.
func TestRefusedActIsAudited(t *testing.T) {
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Name: "ferment", Output: &out, JSONFormat: true})
	d := &Daemon{log: log, life: t.Context()}
	h := &Host{events: &journal.Host{}}
	d.host.Store(h)
	d.Rejected(httpapi.Rejection{
		Principal:     "uid/7",
		PrincipalType: "local",
		Roles:         []string{policy.RoleAdmin},
		Intent:        "t/none",
		Address:       "127.0.0.1:9",
		Trace:         edn.Text("t-1"),
		Took:          7 * time.Millisecond,
		Err:           contract.Errorf("invalid-request", "there is no key :canary"),
		Kept:          true,
	})
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	for key, want := range map[string]string{
		"@module": "ferment.audit", "@message": "act/rejected", "principal": "uid/7", "address": "127.0.0.1:9",
		"trace": "t-1", "error": "invalid-request", "intent": "t/none",
	} {
		assert.Equal(t, want, line[key], key)
	}
	assert.NotContains(t, out.String(), "canary")
	rows, err := h.events.Read(t.Context(), journal.HostQuery{View: journal.ViewAudit, Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	row := rows[0].Body.(*journal.ActRejected)
	assert.Equal(t, "uid/7 ::ffff:127.0.0.1 invalid-request", strings.Join([]string{row.Principal, row.Address, row.Err.Type}, " "))
	assert.Equal(t, `{:id "t-1"}`, row.Trace.String())
	assert.Equal(t, "local t/none rejected", strings.Join([]string{row.PrincipalType, row.Intent, row.Status}, " "))
	assert.Equal(t, []string{policy.RoleAdmin}, row.Roles)
	assert.Equal(t, 7*time.Millisecond, row.Latency)
	assert.NotContains(t, rows[0].Value().String(), "canary")
}

// AUTH-013: a request that reached objects of others is a line of the audit log and a row of the
// audit trail, with the decision that permitted it.
func TestReachToOthersIsAudited(t *testing.T) {
	var out bytes.Buffer
	d := &Daemon{log: hclog.New(&hclog.LoggerOptions{Output: &out, JSONFormat: true}), life: t.Context()}
	h := &Host{events: &journal.Host{}}
	d.host.Store(h)
	decision := policy.Decision{What: policy.AnyRuns, OK: true, Rule: policy.Rule{Any: []string{policy.RoleAdmin}}, Reason: "any"}
	d.Permitted(httpapi.Permission{
		Principal: "user/1",
		Address:   "127.0.0.1:9",
		Decision:  decision,
		Request:   "GET /v1/runs/run_1",
		Run:       "run_1",
		Session:   "s-1",
	})
	rows, err := h.events.Read(t.Context(), journal.HostQuery{View: journal.ViewAudit, Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	row := rows[0].Body.(*journal.AuthEvent)
	assert.Equal(t, decision.Value().String(), row.Rule.String())
	row.Rule = edn.Value{}
	assert.Equal(t, &journal.AuthEvent{
		Event: "auth/permitted", User: "user/1", Address: "::ffff:127.0.0.1", Operation: "runs/any", Success: true, Level: journal.LevelInfo,
		Message: "GET /v1/runs/run_1", Run: "run_1", SessionID: "s-1",
	}, row)
	assert.Equal(t, 1, strings.Count(out.String(), "auth/permitted"))
}

// AUTH-013, AUTH-033: only refused acts within the rate limits have rows in the audit
// trail, so that a flood cannot push out others. All are logged and counted.
func TestFloodMakesNoRows(t *testing.T) {
	var out bytes.Buffer
	d := &Daemon{log: hclog.New(&hclog.LoggerOptions{Output: &out, JSONFormat: true}), begun: time.Now(), life: t.Context()}
	d.count()
	h := &Host{events: &journal.Host{}}
	d.observeMemory(h)
	d.host.Store(h)
	refuse := func(typ string, kept bool) {
		d.Rejected(httpapi.Rejection{Principal: "anonymous", Address: "127.0.0.1:9", Err: contract.Errorf(typ, "no"), Kept: kept})
	}
	for range 100 {
		refuse("auth/rate-limited", false)
		refuse("http/cross-origin", false)
	}
	refuse("invalid-request", true)
	rows, err := h.events.Read(t.Context(), journal.HostQuery{View: journal.ViewAudit, Limit: 1000})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, "invalid-request", rows[0].Body.(*journal.ActRejected).Err.Type)
	assert.Equal(t, 201, strings.Count(out.String(), "act/rejected"))
	counts, _ := d.figures.meter.Total()
	counted := map[string]int64{}
	for key, n := range counts.N {
		if key.Name == tally.Failures {
			counted[key.Labels[0]] = n
		}
	}
	assert.Equal(t, map[string]int64{"auth/rate-limited": 100, "http/cross-origin": 100, "invalid-request": 1}, counted)
}
