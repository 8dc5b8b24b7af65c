package view_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// OPS-009: a limit that is lower than in profile prod is not weaker.
func TestWeakerLimits(t *testing.T) {
	for text, weaker := range map[string][]string{
		`act_rate = "10/s"`:     nil,
		`act_rate = "20/s"`:     nil,
		`act_rate = "1200/min"`: nil,
		`act_rate = "1300/min"`: {"act_rate"},
		`act_burst = 3`:         nil,
		`act_burst = 41`:        {"act_burst"},
		`act_rate = "1000/s"`:   {"act_rate"},
	} {
		c, ds := configtest.Load(t, "ferment {\n  profile = \"prod\"\n}\n\nhttp {\n  limits {\n    "+text+"\n  }\n}\n")
		require.False(t, ds.HasErrors(), text)
		var got []string
		for _, w := range view.Weaker(c) {
			got = append(got, w.Path[len(w.Path)-1])
		}
		assert.Equal(t, weaker, got, text)
	}
}

// OPS-009: of every attribute whose default depends on the profile, what is stricter than
// in prod, or as strict, is not weaker, and what is less strict is.
func TestStricterIsNotWeaker(t *testing.T) {
	written := func(path []string, value string) string {
		text := path[len(path)-1] + " = " + value + "\n"
		for _, block := range slices.Backward(path[:len(path)-1]) {
			text = block + " {\n" + text + "}\n"
		}
		return text
	}
	type values struct{ strict, weak []string }
	rows := map[string]values{
		"auth.required":                     {weak: []string{"false"}},
		"auth.anonymous_role":               {weak: []string{`"user"`}},
		"ferment.auto_reload":               {weak: []string{"true"}},
		"effects.enforcement":               {weak: []string{`"best-effort"`}},
		"http.listen":                       {strict: []string{`["127.0.0.1:7181"]`, "[]"}},
		"http.limits.act_rate":              {strict: []string{`"19/s"`, `"1200/min"`}, weak: []string{`"21/s"`, `"1000/s"`}},
		"http.limits.act_burst":             {strict: []string{"3"}, weak: []string{"41"}},
		"http.limits.anonymous_rate":        {strict: []string{`"4/s"`}, weak: []string{`"6/s"`}},
		"http.limits.login_rate":            {strict: []string{`"4/min"`}, weak: []string{`"6/min"`}},
		"http.limits.act_body":              {strict: []string{`"64KiB"`}, weak: []string{`"5MiB"`}},
		"http.limits.session_body":          {strict: []string{`"64KiB"`}, weak: []string{`"2MiB"`}},
		"http.limits.admin_body":            {strict: []string{`"1KiB"`}, weak: []string{`"65KiB"`}},
		"http.limits.headers":               {strict: []string{`"1KiB"`}, weak: []string{`"33KiB"`}},
		"http.limits.header_read":           {strict: []string{`"4s"`}, weak: []string{`"6s"`}},
		"http.limits.body_read":             {strict: []string{`"29s"`}, weak: []string{`"1h"`}},
		"http.limits.idle":                  {strict: []string{`"100s"`}, weak: []string{`"121s"`}},
		"http.limits.write":                 {strict: []string{`"29s"`}, weak: []string{`"31s"`}},
		"http.limits.stream_write":          {strict: []string{`"9s"`}, weak: []string{`"11s"`}},
		"http.limits.connections":           {strict: []string{`1000`}, weak: []string{`100000`}},
		"http.limits.per_address":           {strict: []string{`60`}, weak: []string{`90000`}},
		"http.limits.run_subscribers":       {strict: []string{`63`}, weak: []string{`65`}},
		"http.limits.principal_subscribers": {strict: []string{`127`}, weak: []string{`100000`}},
		"session.vars.require_qualified":    {weak: []string{"false"}},
		"session.vars.allowed_namespaces":   {strict: []string{`["session"]`, `["project", "session"]`, "[]"}, weak: []string{`["session", "other"]`}},
		"session.vars.frozen_write":         {weak: []string{"true"}},
		"session.vars.frozen_delete":        {weak: []string{"true"}},
		"store.sync":                        {weak: []string{`"off"`}},
		"store.driver":                      {strict: []string{`"postgres"`}, weak: []string{`"memory"`}},
		"telemetry.content":                 {strict: []string{`"off"`}, weak: []string{`"full"`}},
	}
	c, _ := configtest.Load(t, "")
	var walk func(path string, spec *language.Block)
	walk = func(path string, spec *language.Block) {
		for _, a := range spec.Attrs {
			if len(a.Profiles) > 0 || spec.Limits {
				assert.Contains(t, rows, strings.TrimPrefix(path+"."+a.Name, "."))
			}
		}
		for i := range spec.Blocks {
			walk(path+"."+spec.Blocks[i].Name, &spec.Blocks[i])
		}
	}
	walk("", c.Tree.Node.Spec)
	for name, row := range rows {
		path := strings.Split(name, ".")
		for weak, all := range map[bool][]string{false: row.strict, true: row.weak} {
			for _, value := range all {
				text := written(path, value)
				if path[0] == "ferment" {
					text = strings.Replace(text, "{\n", "{\nprofile = \"prod\"\n", 1)
				} else {
					text = "ferment {\nprofile = \"prod\"\n}\n" + text
				}
				if value == `"postgres"` {
					text = strings.Replace(text, "driver", "dsn = env(\"DSN\")\ndriver", 1)
				}
				c, ds := configtest.Load(t, text)
				require.NotNil(t, c.Tree, "%s: %v", text, ds)
				var got []string
				for _, w := range view.Weaker(c) {
					got = append(got, strings.Join(w.Path, "."))
				}
				assert.Equal(t, weak, slices.Contains(got, name), "%s = %s: %v", name, value, got)
			}
		}
	}
}

// HCL-018, OPS-009: a budget that prod does not have is not weaker than none.
func TestBudgetIsNotWeaker(t *testing.T) {
	for profile, budget := range map[string]string{
		"test-live": "",
		"prod":      "budget \"run\" {\n  max_usd = \"9\"\n  max_wall = \"1h\"\n}\n",
	} {
		c, ds := configtest.Load(t, "ferment {\n  profile = \""+profile+"\"\n}\n\n"+budget)
		require.Empty(t, configtest.Types(ds), profile)
		assert.Empty(t, view.Weaker(c), profile)
	}
}
