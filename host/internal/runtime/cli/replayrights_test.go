package cli_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// writing is a world whose run of plan.edn has a model write a text to out/text.txt; only
// administrators and writers may write.
func writing(t testing.TB) *world {
	return newWorld(t,
		"ferment.hcl", testProfile+scripted("mine")+shipped("tools", "tools")+onDisk+identified+`
role "writer" {}

intent "mine/pick" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["mine/first", "mine/second"]
}

effects {
  rule "fs/write" { any = ["admin", "writer"] }

  scope "fs/write" {
    enabled = true
    roots   = ["out"]
    allow   = ["."]
  }
}
`,
		"out/keep", "",
		"plan.edn", `{:nodes [{:op :call :intent :mine/pick :as :x}
		  {:op :tool :tool/id :fs/write-file :as :w :effects {:allowed #{:fs/write}}
		   :input {:root "out" :path "text.txt" :content {:slot/path [:x :out :text]}}}]}`,
		"mine.edn", `{:capabilities
 {:mine/first {:intents #{:mine/pick} :in-schema :req/any :out-schema :res/any :steps [{:value {:text "first"}}]}
  :mine/second {:intents #{:mine/pick} :in-schema :req/any :out-schema :res/any :steps [{:value {:text "second"}}]}}}`)
}

// JRN-051, AUTH-003, AUTH-013, FX-002: an operator that replays the run of an administrator makes
// no effect that it may not have itself, nor one that the owner may not have any more. The audit
// trail names both, the mode, the swaps, the effects and the new run.
func TestReplayIsPermittedToItsCaller(t *testing.T) {
	t.Parallel()
	w := writing(t)
	s := w.serve()
	file := filepath.Join(w.dir, "out", "text.txt")
	text := func(name string) string {
		b, err := os.ReadFile(filepath.Join(w.dir, name))
		require.NoError(t, err)
		return string(b)
	}
	token := func(args ...string) string {
		return "Bearer " + plain(w.data(append([]string{"token", "create"}, args...)...).Key("token"))
	}
	w.data("user", "add", "root", "--no-password", "--role", "admin")
	w.data("user", "add", "second", "--no-password", "--role", "admin")
	w.data("user", "add", "oper", "--no-password", "--role", "operator")
	w.data("user", "add", "wrt", "--no-password", "--role", "operator", "--role", "writer")
	root, oper, wrt := token("root"), token("oper"), token("wrt")
	act := func(as string) string {
		t.Helper()
		plan := edn.MustRead(text("plan.edn"))
		body := envelopeOf("plan/run", edn.MustMap(edn.K("plan"), plan).String(), ":effects {:allowed #{:fs/write}}")
		a := s.request(t.Context(), "POST", "/v1/act", body, "Authorization", as)
		require.Equal(t, http.StatusOK, a.status, "%s", a.body)
		require.NoError(t, os.Remove(file))
		return a.header.Get("Ferment-Run-Id")
	}
	const fill = `{:mode :fill :swap {:mine/first :mine/second} :effects #{:fs/write}}`
	replay := func(as, run string) answer {
		return s.request(t.Context(), "POST", "/v1/runs/"+run+"/replay", fill, "Authorization", as)
	}
	ofRoot, ofWriter := act(root), act(wrt)
	status := func(a answer) string { return a.value(t).Key("status").String() }

	a := replay(oper, ofRoot)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	assert.Equal(t, ":failed", status(a))
	for _, as := range []string{token("second", "--operation", "runs/*"), token("second", "--intent", "fs/*")} {
		a = replay(as, ofRoot)
		assert.Equal(t, http.StatusForbidden, a.status, "%s", a.body)
		action := strings.Replace(fill, "{", `{:action :runs-replay :run "`+ofRoot+`" `, 1)
		a = s.request(t.Context(), "POST", "/v1/admin", action, "Authorization", as)
		assert.Equal(t, http.StatusForbidden, a.status, "%s", a.body)
	}
	assert.NoFileExists(t, file)

	a = replay(root, ofWriter)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	assert.Equal(t, ":completed", status(a), "%s", a.body)
	assert.Equal(t, "second", text("out/text.txt"))
	replayed := plain(a.value(t).Key("run"))
	require.NoError(t, os.Remove(file))
	w.data("role", "revoke", "wrt", "writer", "--yes")
	a = replay(root, ofWriter)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	assert.Equal(t, ":failed", status(a))
	w.data("user", "lock", "wrt", "--yes")
	assert.Equal(t, http.StatusForbidden, replay(root, ofWriter).status)
	w.data("user", "delete", "wrt", "--yes")
	assert.Equal(t, http.StatusForbidden, replay(root, ofWriter).status)
	assert.NoFileExists(t, file)

	var rows []map[string]any
	for line := range strings.Lines(w.run("admin", "audit", "--json").stdout) {
		row := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	i := slices.IndexFunc(rows, func(r map[string]any) bool { return r["act/run"] == replayed && r["kind"] == "act/finished" })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, []any{"user/4", "user/1", ofWriter}, []any{rows[i]["principal"], rows[i]["replay/by"], rows[i]["replay/of"]})
	i = slices.IndexFunc(rows, func(r map[string]any) bool {
		in, _ := r["input"].(map[string]any)
		return in["replay/run"] == replayed
	})
	require.GreaterOrEqual(t, i, 0, "%v", rows)
	assert.Equal(t, map[string]any{
		"run": ofWriter, "mode": "fill", "swap": map[string]any{"mine/first": "mine/second"}, "effects": []any{"fs/write"}, "replay/run": replayed,
	}, rows[i]["input"])
	assert.Equal(t, "user/1", rows[i]["principal"])
	records := ednValues(t, w.run("runs", "records", replayed, "--edn").stdout)
	assert.Equal(t, `"user/1"`, records[0].Key("replay/by").String())
	assert.NotZero(t, records[0].Key("access").Len())
}
