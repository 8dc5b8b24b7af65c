package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limits returns a configuration whose callers have a daily budget.
func limits(user, more string) string {
	return testProfile + scripted("mine") + "http {\n  limits {\n    per_address = 256\n    connections = 256\n  }\n}\n" +
		fmt.Sprintf("budget \"user\" {\n  %s\n  per = \"day\"\n}\n", user) + more
}

// limited returns a world with such callers, served by a slow plugin with a
// price.
func limited(t testing.TB, user string) *world {
	return newWorld(t, "ferment.hcl", limits(user, ""),
		"mine.edn", `{:capabilities {:mine/paid {:intents #{:mine/paid} :in-schema :req/any :out-schema :res/any :cost {:usd 0.01M} :steps [{:delay-ms 50 :value {:n 1} :usage {:cost-usd 0.01M}}]}}}`)
}

// BUD-002, LED-006: concurrent HTTP callers with a budget for one call. One is
// served, the others receive the remaining budget, the end of the window and a
// retry time.
func TestOneOfManyCallersOverHTTP(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{8, 64} {
		for _, limit := range []string{"max_attempts = 1", "max_usd = 0.015"} {
			t.Run(fmt.Sprintf("%d with %s", callers, limit), func(t *testing.T) {
				t.Parallel()
				s := limited(t, limit).serve()
				var begin, done sync.WaitGroup
				begin.Add(1)
				answers := make([]answer, callers)
				before := time.Now()
				for i := range callers {
					done.Go(func() {
						begin.Wait()
						answers[i] = s.ask("mine/paid", "{}")
					})
				}
				begin.Done()
				done.Wait()
				served := 0
				for _, a := range answers {
					v := a.value(t)
					if a.status == http.StatusOK {
						served++
						continue
					}
					e := v.Key("error")
					assert.Equal(t, http.StatusTooManyRequests, a.status, "%s", v)
					assert.Equal(t, "budget/exceeded", word(e.Key("type")))
					assert.Equal(t, "user", word(e.Key("details").Key("scope")))
					left, ok := e.Key("details").Key("left").AsNumber()
					require.True(t, ok, "%s", e)
					wanted, _ := e.Key("details").Key("asked").AsNumber()
					assert.Negative(t, left.Cmp(wanted), "%s", e)
					resets, ok := e.Key("details").Key("resets").AsInst()
					require.True(t, ok, "%s", e)
					y, m, d := before.UTC().Date()
					assert.False(t, resets.Before(time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)), "%s", resets)
					assert.NotEmpty(t, a.header.Get("Retry-After"))
					assert.Contains(t, e.Key("message").String(), "begins anew at")
				}
				assert.Equal(t, 1, served)
				s.stop()
			})
		}
	}
}

// LED-003, LED-006: the costs of a caller add up over requests, are reported
// in each response, and cause a warning before the limit. A reload keeps the
// counters, and a request can only lower the limit.
func TestBudgetOfCallers(t *testing.T) {
	t.Parallel()
	w := limited(t, "max_usd = 0.05")
	s := w.serve()
	for i := range 4 {
		v := s.ask("mine/paid", "{}").value(t)
		scope, ok := v.Key("budget").Key("scopes").Nth(0)
		require.True(t, ok, "%s", v)
		assert.Equal(t, fmt.Sprintf("0.0%dM", i+1), scope.Key("used").Key("usd").String())
		if i < 3 {
			assert.Zero(t, v.Key("warnings").Len(), "%s", v.Key("warnings"))
		} else {
			assert.Contains(t, v.Key("warnings").String(), "0.01 of 0.05 usd left; it begins anew at", "from four fifths on")
		}
	}
	w.write("ferment.hcl", limits("max_usd = 0.06", ""))
	reloaded := w.run("admin", "reload")
	require.Equal(t, 0, reloaded.code, reloaded.stderr)
	lower := s.request(context.Background(), "POST", "/v1/act", envelopeOf("mine/paid", "{}", ":budget {:max-usd 0.001M}"))
	assert.Equal(t, "budget/exceeded", lower.failure(t))
	assert.Equal(t, "run", word(lower.value(t).Key("error").Key("details").Key("scope")))
	assert.Empty(t, lower.header.Get("Retry-After"), "this one does not change by itself")
	higher := s.request(context.Background(), "POST", "/v1/act", envelopeOf("mine/paid", "{}", ":budget {:max-usd 5M}"))
	assert.Equal(t, http.StatusOK, higher.status, "%s", higher.body)
	assert.Equal(t, http.StatusOK, s.ask("mine/paid", "{}").status)
	assert.Equal(t, "budget/exceeded", s.ask("mine/paid", "{}").failure(t), "six cents are spent")
	s.stop()
}

// Text output about budgets: the report, the rejection, the worst case
// (LED-006, BUD-004, CHECK-023).
func TestBudgetVerbs(t *testing.T) {
	t.Parallel()
	w := limited(t, "max_usd = 0.05")
	w.write("plan.edn", `{:nodes [{:op :call :intent :mine/paid :input {:q 1} :as :x :dispatch {:retry {:same-cap-max 3} :switch-on #{:class/retry}}} {:op :emit :input :x}]}`)
	got := w.run("act", "mine/paid", "{}", "--report", "--budget", "{:max-attempts 2}")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stderr, "budget: reserved attempts 1, roundtrips 1, usd 0.01, settled attempts 1, roundtrips 1, usd 0.01 (exact), refunded nothing")
	assert.Regexp(t, `user local +usd 0\.05 +attempts 1, roundtrips 1, usd 0\.01 +usd 0\.04 +\d{4}-`, got.stderr)
	assert.Regexp(t, `run +attempts 2 +attempts 1, roundtrips 1, usd 0\.01 +attempts 1 +never`, got.stderr)

	spent := w.run("act", "mine/paid", "{}", "--budget", "{:max-usd 0.001M}")
	assert.Equal(t, 1, spent.code)
	assert.Contains(t, strings.ReplaceAll(spent.stderr, "\n", " "), "has 0.001 of 0.001 usd left, and 0.01 would be needed; it does not begin anew by itself")
	bad := w.run("act", "mine/paid", "{}", "--budget", "{:max-usd 0.1}")
	assert.Equal(t, 2, bad.code)
	assert.Contains(t, bad.stderr, "--budget")

	checked := w.run("check", "plan.edn", "--budget", "{:max-usd 0.03M}")
	assert.Equal(t, 0, checked.code, checked.stdout)
	assert.Equal(t, "plan.edn:1:1", strings.TrimSpace(strings.Split(strings.Split(checked.stdout, "--> ")[1], "\n")[0]))
	assert.True(t, strings.HasPrefix(checked.stdout, "warning: the worst case is 0.04 usd, and the budget allows 0.03 (CHECK-023)\n"), checked.stdout)
	assert.True(t, strings.HasSuffix(checked.stdout, "\n\nplan.edn: ok, 2 nodes; at most roundtrips 4, attempts 4, usd 0.04\n"), checked.stdout)
	asData := w.run("check", "plan.edn", "-o", "edn").value(t)
	assert.Equal(t, "{:attempts 4 :roundtrips 4 :usd 0.04M}", asData.Key("worst-case").String())
	w.write("ferment.hcl", limits("max_usd = 0.05", "budget \"run\" {\n  max_usd           = 0.03\n  refuse_worst_case = true\n}\n"))
	refused := w.run("check", "plan.edn")
	assert.Equal(t, 1, refused.code)
	assert.Contains(t, refused.stdout, "error: the worst case is 0.04 usd, and the budget allows 0.03 (CHECK-023)")
	ran := w.run("run", "plan.edn", "-o", "edn")
	assert.Equal(t, 1, ran.code)
	assert.Equal(t, "budget/would-exceed", word(ran.value(t).Key("error").Key("type")), ran.stdout)
	assert.False(t, ran.value(t).HasKey("run/id"), "there is no run")
}

// LED-006, CLI-001, CLI-002, CLI-007: an operator sees the budgets of callers,
// and grants one of them more, effective immediately until the window ends; a
// charge counts like a call. A reload changes limits and keeps both.
func TestBudgetOfAnOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", limits("max_usd = 0.02", "budget \"tenant\" {\n  max_attempts = 50\n}\nbudget \"run\" {\n  max_attempts = 9\n}\n"),
		"mine.edn", `{:capabilities {:mine/paid {:intents #{:mine/paid} :in-schema :req/any :out-schema :res/any :cost {:usd 0.01M} :steps [{:value {:n 1} :usage {:cost-usd 0.01M}}]}}}`)
	s := w.serve()
	fresh := w.run("admin", "budget", "show")
	require.Equal(t, 0, fresh.code, fresh.stderr)
	assert.Regexp(t, `(?m)^scope +limit +granted +used +reserved +left +known +resets$`, fresh.stdout)
	assert.Regexp(t, `(?m)^tenant host +attempts 50 +nothing +nothing +nothing +attempts 50 +exact +never$`, fresh.stdout)
	assert.Regexp(t, `(?m)^each user: at most usd 0.02 \(ferment.hcl:\d+:1\)\neach run: at most attempts 9 \(ferment.hcl:\d+:1\)$`, fresh.stdout)

	for range 2 {
		require.Equal(t, http.StatusOK, s.ask("mine/paid", "{}").status)
	}
	require.Equal(t, "budget/exceeded", s.ask("mine/paid", "{}").failure(t))
	shown := w.run("admin", "budget", "show", "--edn").value(t)
	var caller string
	for x := range shown.Key("scopes").Elems() {
		if word(x.Key("scope")) == "user" {
			caller, _ = x.Key("user").AsString()
			assert.Equal(t, "{:usd 0M} true :day", fmt.Sprint(x.Key("left"), " ", x.Key("soft?"), " ", x.Key("per")))
		}
	}
	require.NotEmpty(t, caller)

	more := w.run("admin", "budget", "adjust", "--user", caller, "--grant", "{:usd 0.02M}")
	require.Equal(t, 0, more.code, more.stderr)
	assert.Regexp(t, `(?m)^user `+caller+` +usd 0.04 +usd 0.02 +attempts 2, roundtrips 2, usd 0.02 +nothing +usd 0.02 +exact\n    resets \d{4}-\d\d-\d\dT00:00:00Z$`, more.stdout)
	answered := s.ask("mine/paid", "{}").value(t)
	user, ok := answered.Key("budget").Key("scopes").Nth(1)
	require.True(t, ok, "%s", answered)
	assert.Equal(t, "{:usd 0.04M} {:usd 0.01M}", fmt.Sprint(user.Key("limit"), " ", user.Key("left")), "the answer of a call tells of it too")

	w.write("ferment.hcl", limits("max_usd = 0.03", ""))
	reloaded := w.run("admin", "reload")
	require.Equal(t, 0, reloaded.code, reloaded.stderr)
	charged := w.run("admin", "budget", "adjust", "--user", caller, "--charge", "{:usd 0.02M}", "-o", "json")
	require.Equal(t, 0, charged.code, charged.stderr)
	assert.JSONEq(t, `{"usd":"0.05"}`, jsonOf(t, charged.stdout, "limit"), "the new limit, and what was granted before")
	assert.JSONEq(t, `{"usd":"0"}`, jsonOf(t, charged.stdout, "left"))
	refused := s.ask("mine/paid", "{}")
	assert.Equal(t, "budget/exceeded", refused.failure(t))
	assert.Contains(t, refused.value(t).Key("error").Key("message").String(), "0 of 0.05 usd left")
	stranger := w.run("admin", "budget", "show", "--user", "uid/4242", "--edn").value(t)
	first, _ := stranger.Key("scopes").Nth(0)
	assert.Equal(t, `"uid/4242" {:usd 0.03M} {}`, fmt.Sprint(first.Key("user"), " ", first.Key("left"), " ", first.Key("used")))

	w.data("user", "add", "ann", "--no-password")
	granted, _ := w.data("admin", "budget", "adjust", "--user", "ann", "--grant", "{:usd 1}").Key("user").AsString()
	assert.Regexp(t, `^user/\d+$`, granted, "calls of an account are counted under its id")
	w.data("admin", "budget", "show", "--user", granted)

	for args, want := range map[string]struct {
		exit int
		says string
	}{
		"admin budget adjust --user an --grant {:usd,1}":     {5, "did you mean ann?"},
		"admin budget adjust --user user/0 --grant {:usd,1}": {5, "there is no user"},
		"admin budget":                                           {2, "needs a command: adjust or show"},
		"admin budget adjust --grant {:usd,1}":                   {2, "needs one of --user NAME and --tenant"},
		"admin budget adjust --user a --tenant --grant {:usd,1}": {2, "needs one of --user NAME and --tenant"},
		"admin budget adjust --user a":                           {2, "needs --grant or --charge"},
		"admin budget adjust --user ann --grant {:usd":           {2, "--grant:1:6: text ends inside the map"},
		"admin budget adjust --user ann --grant 5":               {2, "--grant is integer, not a map"},
		"admin budget adjust --user ann --grant {:usd,0.5}":      {2, "the input of budget-adjust is wrong: [:grant :usd]"},
		"admin budget adjust --user ann --grant {:usd,-1M}":      {2, "found -1M"},
		"admin budget adjust --user ann --grant {:usd,0}":        {2, "changes nothing"},
		"admin budget adjust --user ann --grant {:max-usd,1}":    {2, ":max-usd"},
		"admin budget adjust --user ann --grant {:attempts,1}":   {2, "does not limit attempts"},
		"admin budget adjust --tenant=lab --grant {:attempts,1}": {5, `no block budget "tenant"`},
		"admin budget adjust --tenant --grant {:attempts,1}":     {5, `no block budget "tenant"`},
	} {
		got := w.run(strings.Fields(args)...)
		assert.Equal(t, want.exit, got.code, "%s: %s", args, got.stderr)
		assert.Contains(t, strings.ReplaceAll(got.stderr, "\n", " "), want.says, args)
		assert.Empty(t, got.stdout, args)
	}
	s.stop()
	gone := w.run("admin", "budget", "show")
	assert.Equal(t, 3, gone.code)
}

// jsonOf returns one field of a JSON object.
func jsonOf(t *testing.T, text, field string) string {
	t.Helper()
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(text), &m), text)
	return string(m[field])
}

// LED-001, LED-005, LED-007: spent amounts and grants outlive restarts. A daemon
// that is killed between reserve and settle has counted what was settled; the next
// one counts the open reservation, settles it when it resumes the run, and counts
// nothing twice.
func TestBudgetsOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	budgets := "budget \"tenant\" {\n  max_usd = 1\n}\nbudget \"user\" {\n  max_usd = 0.04\n}\n"
	w := newWorld(t, "ferment.hcl", testProfile+scripted("mine")+budgets+onDisk, "mine.edn", `{:capabilities {
		:mine/paid {:intents #{:mine/paid} :in-schema :req/any :out-schema :res/any :cost {:usd 0.01M} :steps [{:value {:n 1} :usage {:cost-usd 0.004M}}]}
		:mine/hang {:intents #{:mine/hang} :in-schema :req/any :out-schema :res/any :cost {:usd 0.01M} :steps [{:hang true}]}}}`)
	var caller string
	figures := func() (out []string) {
		t.Helper()
		for x := range w.data("admin", "budget", "show").Key("scopes").Elems() {
			if user, ok := x.Key("user").AsString(); ok {
				caller = user
			}
			out = append(out, fmt.Sprintf("%s used %s reserved %s granted %s", word(x.Key("scope")),
				x.Key("used").Key("usd"), x.Key("reserved").Key("usd"), x.Key("granted").Key("usd")))
		}
		return out
	}
	both := func(used, reserved string) []string {
		return []string{
			"tenant used " + used + " reserved " + reserved + " granted nil",
			"user used " + used + " reserved " + reserved + " granted 0.01M",
		}
	}
	s := w.serve()
	require.Equal(t, http.StatusOK, s.ask("mine/paid", "{}").status)
	figures()
	w.data("admin", "budget", "adjust", "--user", caller, "--grant", "{:usd 0.01M}")
	require.Equal(t, both("0.004M", "nil"), figures())
	s.stop()
	s = w.serve()
	require.Equal(t, both("0.004M", "nil"), figures(), "after a restart")

	var hanging sync.WaitGroup
	hanging.Go(func() { s.ask("mine/hang", "{}") })
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "running")) == 1 }, runLimit, 20*time.Millisecond)
	require.Eventually(t, func() bool { return strings.Contains(w.run("runs", "records", "last").stdout, "attempt/started") }, runLimit, 20*time.Millisecond)
	require.Equal(t, both("0.004M", "0.01M"), figures())
	s.signal(syscall.SIGKILL)
	s.wait()
	hanging.Wait()

	s = w.serve()
	_, _, ok := s.logged(0, said("resumed runs that an earlier daemon had begun"))
	require.True(t, ok)
	require.Eventually(t, func() bool { return slices.Equal(both("0.014M", "0.01M"), figures()) }, runLimit, 20*time.Millisecond,
		"the lost call counts as reserved, and the run makes another one")
	w.data("runs", "cancel", "last")
	require.Eventually(t, func() bool { return w.listed("status")[0] == "canceled" }, runLimit, 20*time.Millisecond)
	require.Equal(t, both("0.024M", "nil"), figures())
	s.signal(syscall.SIGKILL)
	s.wait()

	s = w.serve()
	require.Equal(t, both("0.024M", "nil"), figures())
	for range 5 {
		require.Equal(t, http.StatusOK, s.ask("mine/paid", "{}").status)
	}
	assert.Equal(t, "budget/exceeded", s.ask("mine/paid", "{}").failure(t), "0.044 of 0.05 are spent, and a call may cost 0.01")
	s.stop()
}
