package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TEL-002: the audit trail has the hashes of answers and decisions, not what they say, and
// no text of an error about them.
func TestTrailHasNoContent(t *testing.T) {
	const canary = "canary-3b7f29c1e5"
	hash := edn.Hash(edn.Text(canary))
	w := newWorld(t)
	resume := "POST " + concrete("/v1/runs/{id}/resume")
	for _, row := range []struct{ what, body, want string }{
		{"POST /v1/admin", `{"action":"runs-answer","run":"last","answer":"` + canary + `"}`, `:answer "` + hash + `"`},
		{"POST /v1/admin", `{"action":"runs-resume","run":"last","decisions":[{"node":"pay","decision":"skip-as-done","value":"` + canary + `"},{"decision":"retry"}]}`,
			`:decisions [{:decision :skip-as-done :node "pay" :value "` + hash + `"} {:decision :retry}]`},
		{resume, `{"decisions":[{"node":"pay","decision":"skip-as-done","value":"` + canary + `"}]}`, `:run "` + sampleRun + `"`},
	} {
		for _, failure := range []*contract.Error{nil, contract.Errorf("run/decision-invalid", "expected 1, got %s", canary)} {
			w.failing.Store(failure)
			a := w.operator(row.what, row.body)
			entry := <-w.audited
			assert.Contains(t, entry.Input.String(), row.want)
			assert.NotContains(t, entry.Input.String(), canary)
			if failure == nil {
				assert.Equal(t, 200, a.status, "%s", a.body)
				assert.Nil(t, entry.Err)
				continue
			}
			require.NotNil(t, entry.Err)
			assert.Equal(t, failure.Type, entry.Err.Type)
			assert.NotContains(t, entry.Err.Error(), canary)
			assert.Contains(t, string(a.body), canary, "the caller gets the reason")
		}
	}
}

// TEL-002: a row that JSON cannot represent is a line with its text, among the others.
func TestTrailRowThatJSONCannotHave(t *testing.T) {
	w := newWorld(t)
	w.trail = []edn.Value{edn.MustRead(`{:seq 2 :input {:a 1 "a" 2}}`), edn.MustRead(`{:seq 3}`)}
	a := w.operator("GET /v1/admin/audit", "")
	require.Equal(t, 200, a.status, "%s", a.body)
	assert.Equal(t, "host.3", a.header.Get("Ferment-Cursor"))
	lines := strings.Split(string(a.body), "\n")
	require.Len(t, lines, 4)
	second, err := edn.ReadJSON([]byte(lines[1]))
	require.NoError(t, err)
	assert.Equal(t, "2", second.Key("seq").String())
	text, _ := second.Key("edn").AsString()
	assert.True(t, w.trail[0].Equal(edn.MustRead(text)), text)
	assert.Equal(t, `{"seq":3}`, lines[2])

	a = w.operator("POST /v1/admin", `{"action":"audit"}`)
	require.Equal(t, 200, a.status, "the action has the same rows: %s", a.body)
	row, _ := a.value(t).Key("result").Key("rows").Nth(1)
	assert.Equal(t, second.String(), row.String())
	a = w.operator("POST /v1/admin", `{:action :audit}`, "Content-Type", "application/edn", "Accept", "application/edn")
	row, _ = a.value(t).Key("result").Key("rows").Nth(1)
	assert.True(t, w.trail[0].Equal(row), "%s", row)
}

// TEL-002: following the trail leaves no rows in it, or each request would find that of the
// one before. Reading older rows leaves one, with a wait as well.
func TestReadingOfTheTrailIsRecorded(t *testing.T) {
	w := newWorld(t)
	for _, row := range []struct {
		age      time.Duration
		wait     string
		recorded int
	}{{0, "1", 0}, {time.Minute, "1", 0}, {time.Hour, "1", 1}, {0, "0", 1}, {time.Hour, "0", 1}} {
		w.trailAge.Store(int64(row.age))
		for _, a := range []answer{
			w.operator("GET /v1/admin/audit?after=host.0&wait-ms="+row.wait, ""),
			w.operator("POST /v1/admin", `{"action":"audit","after":"host.0","wait-ms":`+row.wait+`}`),
		} {
			require.Equal(t, 200, a.status, "%s", a.body)
		}
		assert.Len(t, w.audited, 2*row.recorded, "%s, wait %s", row.age, row.wait)
		for range 2 * row.recorded {
			<-w.audited
		}
	}
}

// AUTH-013, TEL-002: the audit trail names the token and the user that an action created or
// deleted by their ids, also if the action failed or was a repetition, and no token's text.
func TestTrailNamesTokensAndUsers(t *testing.T) {
	w := newWorld(t)
	recorded := func(body string, header ...string) (result, input edn.Value) {
		t.Helper()
		result = w.operator("POST /v1/admin", body, header...).value(t).Key("result")
		return result, journal.HideNamed((<-w.audited).Input)
	}
	user, input := recorded(`{"action":"create-user","user":"ann"}`)
	assert.Equal(t, user.Key("user/id").String(), input.Key("user/id").String())
	for range 2 {
		made, input := recorded(`{"action":"token-create","user":"ann"}`, "Idempotency-Key", "k")
		assert.Equal(t, made.Key("token/id").String(), input.Key("token/id").String())
		assert.NotContains(t, input.String(), "fmt_")
	}
	made, _ := recorded(`{"action":"token-create","user":"ann"}`)
	revoke := `{"action":"token-revoke","token":` + made.Key("token/id").String() + `}`
	for range 2 {
		_, input = recorded(revoke)
		assert.Equal(t, made.Key("token/id").String(), input.Key("token/id").String())
	}
	text, _ := made.Key("token").AsString()
	rest, _ := strings.CutPrefix(text, "fmt_")
	secret := rest[len("12345678_"):]
	for _, named := range []string{text, rest, "fms_" + rest, "fmb_" + rest, text[:len(text)-5], secret, "my " + text} {
		w.operator("POST /v1/admin", `{"action":"token-revoke","token":"`+named+`"}`)
		input := (<-w.audited).Input
		assert.NotContains(t, journal.HideNamed(input).String(), secret[:20], named)
		if named != secret && named[:2] != "my" {
			assert.Equal(t, made.Key("token/id").String(), input.Key("token/id").String(), named)
		}
	}
	_, input = recorded(`{"action":"delete-user","user":"ann"}`)
	assert.Equal(t, user.Key("user/id").String(), input.Key("user/id").String())
}
