package contract

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// rowsOfTheContract is the table of the contract, group by group: types, class,
// sources with the default first, retryable, and HTTP status. Two outcomes are
// those of source request and of any other source.
var rowsOfTheContract = []struct {
	types   string
	class   string
	sources string
	again   string
	http    string
}{
	{"invalid-request", "stop!", "request", "no", "400"},
	{"input/invalid render/missing render/syntax render/too-large text/nothing-to-summarize chess/game-over", "stop", "request", "no", "400"},
	{"unsupported/intent", "stop!", "request", "no", "422"},
	{"plan/invalid", "stop repair", "request plugin", "no yes", "400 502"},
	{"plan/too-deep plan/too-large", "stop! stop!", "request plugin", "no no", "400 502"},
	{"slot/unresolved", "stop stop", "request plugin", "no no", "400 502"},
	{"schema/invalid format/drift eval/must-failed eval/low-score hallucinated/api", "repair", "plugin downstream", "yes", "502"},
	{"repair/exhausted", "switch", "as-cause", "yes", "502"},
	{"judge/failed judge/no-score judge/score-out-of-range judge/ambiguous-score", "retry", "downstream", "yes", "502"},
	{"judge/same-family judge/drift", "switch", "host", "no", "502"},
	{"judge/rubric-invalid", "stop", "request", "no", "400"},
	{"runtime/crashed runtime/start-failed runtime/invoke-failed", "switch", "plugin", "yes", "502"},
	{"runtime/invalid-result", "retry", "plugin", "yes", "502"},
	{"runtime/unresponsive", "switch", "plugin", "yes", "504"},
	{"runtime/not-ready runtime/overloaded", "switch", "host plugin downstream", "yes", "503"},
	{"runtime/quarantined", "switch", "plugin", "no", "503"},
	{"runtime/integrity", "switch", "host", "no", "503"},
	{"runtime/protocol", "switch", "plugin", "no", "502"},
	{"runtime/internal", "stop!", "host", "no", "500"},
	{"runtime/starting runtime/draining", "stop!", "host", "yes", "503"},
	{"timeout/soft provider/timeout", "switch", "downstream plugin", "yes", "504"},
	{"timeout/hard", "switch", "downstream plugin host", "no", "504"},
	{"stream/truncated stream/malformed stream/stalled", "switch", "downstream plugin", "yes", "502"},
	{"breaker/open", "switch", "host", "yes", "503"},
	{"race/lost", "none", "host", "no", "0"},
	{"canceled", "stop!", "request", "no", "409"},
	{"policy/blocked auth/forbidden auth/forbidden-effect", "stop!", "request", "no", "403"},
	{"auth/unauthorized", "stop!", "request", "no", "401"},
	{"auth/ambiguous", "stop!", "request", "no", "400"},
	{"auth/locked auth/rate-limited", "stop!", "request", "yes", "429"},
	{"auth/busy", "stop!", "host", "yes", "503"},
	{"auth/not-configured", "stop!", "host", "no", "503"},
	{"budget/exceeded", "stop!", "request", "no", "429"},
	{"budget/would-exceed", "stop!", "request", "no", "402"},
	{"budget/unavailable", "stop!", "host", "yes", "503"},
	{"effects/invalid-input", "stop", "request", "no", "400"},
	{"effects/missing-required effects/scope-denied effects/not-enforceable", "stop", "request", "no", "403"},
	{"effects/unsupported-tool", "stop", "request", "no", "422"},
	{"effects/process-failed", "switch", "downstream", "no", "502"},
	{"effects/runtime-failed", "switch", "plugin", "yes", "502"},
	{"effects/runtime-missing", "switch", "host", "no", "503"},
	{"effects/outcome-unknown", "stop!", "plugin", "no", "409"},
	{"provider/not-configured provider/auth-failed provider/model-not-found", "switch", "host", "no", "503"},
	{"provider/unavailable provider/empty", "retry", "downstream", "yes", "502"},
	{"provider/error", "retry", "downstream", "yes", "502"},
	{"provider/rate-limited provider/overloaded", "switch", "downstream", "yes", "503"},
	{"provider/quota-exhausted provider/request-failed provider/refused", "switch", "downstream", "no", "502"},
	{"provider/context-exceeded", "switch", "request", "no", "413"},
	{"provider/request-invalid", "stop", "request", "no", "400"},
	{"provider/output-truncated provider/tool-call-invalid agent/iteration-limit agent/tool-loop", "repair", "downstream", "yes", "502"},
	{"agent/context-incomplete", "stop", "host", "no", "500"},
	{"model/unavailable model/port-in-use", "switch", "host", "no", "503"},
	{"model/start-failed model/start-timeout model/not-ready model/died", "switch", "downstream", "yes", "503"},
	{"model/crash-loop model/out-of-memory", "switch", "downstream", "no", "503"},
	{"model/frozen", "switch", "request", "no", "409"},
	{"route/decide-failed", "stop", "as-cause", "yes", "502"},
	{"queue/disabled", "stop!", "host", "no", "503"},
	{"queue/job-not-found", "stop!", "request", "no", "404"},
	{"queue/invalid-transition", "stop!", "request", "no", "409"},
	{"queue/deadline-exceeded", "stop!", "request", "no", "504"},
	{"run/not-found", "stop!", "request", "no", "404"},
	{"run/suspended run/poison run/not-resumable run/decision-required run/evaluator-unknown", "stop!", "request", "no", "409"},
	{"run/decision-invalid", "stop!", "request", "no", "422"},
	{"interrupt/not-found", "stop!", "request", "no", "404"},
	{"interrupt/answered", "stop!", "request", "no", "409"},
	{"interrupt/answer-invalid", "stop!", "request", "no", "422"},
	{"interrupt/unanswered", "stop", "downstream", "no", "504"},
	{"idempotency/invalid-key", "stop!", "request", "no", "400"},
	{"idempotency/mismatch", "stop!", "request", "no", "422"},
	{"idempotency/exhausted", "stop!", "request", "no", "409"},
	{"stream/bad-cursor", "stop!", "request", "no", "400"},
	{"stream/cursor-ahead", "stop!", "request", "no", "409"},
	{"stream/gone", "stop!", "request", "no", "410"},
	{"stream/too-many-subscribers", "stop!", "request", "yes", "429"},
	{"journal/unavailable journal/full", "stop!", "host", "yes", "503"},
	{"journal/fenced", "stop!", "host", "no", "409"},
	{"journal/damaged", "stop!", "host", "no", "500"},
	{"replay/miss", "stop!", "request", "no", "409"},
	{"replay/values-purged", "stop!", "request", "no", "410"},
	{"session/not-found", "stop!", "request", "no", "404"},
	{"session/invalid-id", "stop!", "request", "no", "400"},
	{"session/notes-too-large", "stop!", "request", "no", "422"},
	{"session/version-conflict", "stop!", "request", "yes", "409"},
	{"session/store-unavailable", "stop!", "host", "yes", "503"},
	{"session.vars/invalid-key session.vars/key-namespace-required", "stop", "request", "no", "400"},
	{"session.vars/key-namespace-forbidden session.vars/key-too-long session.vars/value-too-large", "stop", "request", "no", "422"},
	{"session.vars/limit-exceeded session.vars/session-frozen", "stop", "request", "no", "409"},
	{"session.vars/policy-read-forbidden session.vars/policy-write-forbidden session.vars/policy-delete-forbidden", "stop", "request", "no", "403"},
	{"conversation/not-found conversation/turn-not-in-path conversation/span-not-in-turn", "stop", "request", "no", "404"},
	{"conversation/invalid-message", "stop", "request", "no", "400"},
	{"conversation/too-large", "stop", "request", "no", "413"},
	{"conversation/conflict", "retry", "request", "yes", "409"},
	{"conversation/store-failed", "retry", "host", "yes", "503"},
	{"not-found", "stop!", "request", "no", "404"},
	{"method-not-allowed", "stop!", "request", "no", "405"},
	{"http/not-acceptable value/json-collision", "stop!", "request", "no", "406"},
	{"http/too-large", "stop!", "request", "no", "413"},
	{"http/unsupported-media-type", "stop!", "request", "no", "415"},
	{"http/misdirected", "stop!", "request", "no", "421"},
	{"http/request-timeout", "stop!", "request", "yes", "408"},
	{"journal/too-large", "stop!", "host", "no", "422"},
	{"http/headers-too-large", "stop!", "request", "no", "431"},
	{"http/bad-encoding", "stop!", "request", "no", "400"},
	{"http/cross-origin", "stop!", "request", "no", "403"},
	{"user/not-found user/unknown-role role/not-found", "stop!", "request", "no", "404"},
	{"user/already-exists user/last-admin role/in-use", "stop!", "request", "no", "409"},
	{"user/invalid-role user/invalid-lock-kind role/invalid-role", "stop!", "request", "no", "422"},
	{"db/not-configured", "stop!", "request", "no", "503"},
	{"admin/conflict", "stop!", "request", "no", "409"},
	{"backup/invalid", "stop!", "request", "no", "422"},
	{"backup/failed", "stop!", "host", "no", "500"},
	{"run/restored", "stop!", "request", "no", "409"},
	{"config/restart", "stop!", "host", "no", "409"},
	{"config/syntax config/unknown-name config/missing config/duplicate config/type config/range config/dangling-reference", "stop!", "host", "no", "422"},
	{"config/cycle config/include config/env-missing config/secret-missing config/limit config/reserved config/overridden", "stop!", "host", "no", "422"},
	{"config/plugin-schema config/plugin-unknown config/lock config/unused config/deprecated", "stop!", "host", "no", "422"},
	{"capability/invalid-metadata router/invalid-config router/unknown-capability protocol/invalid", "stop!", "host", "no", "422"},
	{"act/middleware-invalid http/insecure-listener agent/invalid", "stop!", "host", "no", "422"},

	// Types of the context engine: the part after the slash determines the
	// status.
	{"workspace/not-found workspace/unscanned", "stop", "host", "no", "404"},
	{"workspace/exists", "stop", "host", "no", "409"},
	{"workspace/root-denied store/read-only store/unsafe", "stop", "host", "no", "403"},
	{"store/locked", "retry", "host", "yes", "409"},
	{"frame/no-head path/not-in-tree agent/unknown seq/unknown node/not-found frame/not-found", "stop", "request", "no", "404"},
	{"node/deleted node/ambiguous import/conflict frame/immutable frame/id-mismatch frame/basis-mismatch", "stop", "request", "no", "409"},
	{"head/conflict regenerate/contended", "retry", "request", "yes", "409"},
	{"agent/role-denied generate/denied agent/impersonation", "stop", "request", "no", "403"},
	{"frame/too-large synthesis/too-large generate/too-large limit/exceeded", "stop", "request", "no", "413"},
	{"store/corrupt store/version", "stop", "host", "no", "500"},
	{"store/io", "retry", "host", "yes", "500"},
	{"path/invalid frame/invalid frame/type-invalid frame/metadata-policy agent/required agent/prompt-missing ignore/invalid", "stop", "request", "no", "400"},
	{"synthesis/not-directory synthesis/child-not-ready synthesis/nondeterministic generate/binary seq/compacted import/invalid", "stop", "request", "no", "400"},
	{"scan/unreadable generate/empty generate/truncated watch/root-lost", "retry", "request", "yes", "400"},
	{"synthesis/custom-failed compose/custom-failed", "stop", "as-cause", "no", "400"},

	// A secret that the journal does not keep (JRN-022).
	{"run/secret-missing", "stop", "host", "yes", "409"},

	// A handle that names an unknown capability (ENV-018).
	{"cap/not-found", "stop", "request", "no", "404"},
}

// ERR-002, ERR-006, ERR-012: every type of the contract has one row with its
// class, sources, retryability and status, and the catalogue has no other.
func TestCatalogueIsTheTableOfTheContract(t *testing.T) {
	seen := map[string]bool{}
	for _, want := range rowsOfTheContract {
		for _, typ := range strings.Fields(want.types) {
			require.False(t, seen[typ], "the test names %s twice", typ)
			seen[typ] = true
			r, found := Lookup(typ)
			if !assert.True(t, found, "no row for %s", typ) {
				continue
			}
			assertOutcomes(t, r, want.class, want.again, want.http)
			if want.sources == "as-cause" {
				assert.True(t, r.AsCause, typ)
				continue
			}
			sources := strings.Fields(want.sources)
			assert.Equal(t, sources[0], r.Source.String(), typ)
			assert.Len(t, r.Sources.List(), len(sources), typ)
			for _, name := range sources {
				s, ok := ParseSource(name)
				require.True(t, ok)
				assert.True(t, r.Sources.Has(s), "%s from %s", typ, name)
			}
		}
	}
	for _, r := range Rows() {
		assert.True(t, seen[r.Type], "the contract has no row for %s", r.Type)
	}
}

func assertOutcomes(t *testing.T, r Row, class, again, http string) {
	t.Helper()
	classes, retries, codes := strings.Fields(class), strings.Fields(again), strings.Fields(http)
	for i, source := range []Source{SourceRequest, SourcePlugin} {
		i = min(i, len(codes)-1)
		o := r.For(source)
		assert.Equal(t, classes[i], o.Class.String(), "%s from %s", r.Type, source)
		assert.Equal(t, retries[i] == "yes", o.Retryable, "%s from %s", r.Type, source)
		assert.Equal(t, codes[i], strconv.Itoa(o.HTTP), "%s from %s", r.Type, source)
	}
	assert.Equal(t, Outcome{r.Class, r.Retryable, r.HTTP}, r.For(SourceRequest), r.Type)
}

// ERR-002: every row has a help line in terms of this project.
func TestCatalogueHelps(t *testing.T) {
	for _, r := range Rows() {
		_, err := edn.Keyword(r.Type)
		require.NoError(t, err)
		assert.NotEmpty(t, r.Help, r.Type)
		assert.Less(t, len(r.Help), 100, r.Type)
		for _, line := range []string{r.Help, r.Hint} {
			assert.NotContains(t, line, "\n", r.Type)
			assert.NotContains(t, line, "|", r.Type)
			assert.Equal(t, strings.TrimSpace(line), line, r.Type)
			assert.False(t, strings.HasSuffix(line, "."), r.Type)
		}
	}
}

// CLI-002: each error about a run, its records, a session or a conversation gives the next step.
func TestCatalogueHintsOfRunsAndSessions(t *testing.T) {
	for _, r := range append(runErrors(), sessionErrors()...) {
		assert.NotEmpty(t, r.Hint, r.Type)
	}
}

// ERR-001: defaults are allowed classes; the source plugin is only for failures
// of the plugin itself.
func TestCatalogueDefaultsAreAllowed(t *testing.T) {
	for _, r := range Rows() {
		assert.True(t, r.Sources.Has(r.Source), r.Type)
		for _, s := range r.Sources.List() {
			assert.True(t, r.Allows(r.For(s).Class, s), "%s from %s", r.Type, s)
		}
	}
	for _, downstream := range []string{"provider/error", "provider/unavailable", "model/died"} {
		r, _ := Lookup(downstream)
		assert.False(t, r.Sources.Has(SourcePlugin), "%s must not restart its adapter", downstream)
	}
}

// ERR-011, MLX-020: every alias resolves to a type of the catalogue.
func TestAliases(t *testing.T) {
	want := map[string]string{
		"invalid-result":                 "runtime/invalid-result",
		"invalid-result-after-retries":   "runtime/invalid-result",
		"queue/full":                     "runtime/overloaded",
		"queue/canceled":                 "canceled",
		"queue/timeout":                  "timeout/hard",
		"queue/unavailable":              "journal/unavailable",
		"queue/not-initialized":          "journal/unavailable",
		"act/middleware-compile-invalid": "act/middleware-invalid",
		"act/middleware-missing-fn":      "act/middleware-invalid",
		"runtime-not-ready":              "model/not-ready",
		"runtime-port-in-use":            "model/port-in-use",
		"runtime-start-failed":           "model/start-failed",
		"runtime-process-missing":        "model/unavailable",
		"runtime-process-dead":           "model/died",
		"runtime-process-io-unavailable": "model/died",
		"runtime-session-reset-failed":   "model/not-ready",
		"invoke-failed":                  "provider/error",
		"invoke-timeout":                 "provider/timeout",
		"invoke-http-status":             "provider/request-failed",
		"invoke-http-failed":             "provider/unavailable",
		"invoke-http-url-missing":        "provider/not-configured",
		"invoke-not-configured":          "provider/not-configured",
		"quit-not-configured":            "provider/not-configured",
		"reset-not-configured":           "provider/not-configured",
		"unsupported-command":            "provider/request-invalid",
	}
	assert.Equal(t, want, aliases())
	for alias, typ := range want {
		assert.Equal(t, typ, ResolveAlias(":"+alias))
		r, found := Lookup(typ)
		require.True(t, found, alias)
		assert.Contains(t, r.Aliases, alias)
		_, isType := Lookup(alias)
		assert.False(t, isType, "%s is a type and an alias", alias)
	}
	assert.Equal(t, "demo/own", ResolveAlias("demo/own"))
}

// golden compares with a file, or writes it if UPDATE_GOLDEN is set.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, got, 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "%s is out of date: run with UPDATE_GOLDEN=1 and look at the difference", name)
}

// ERR-012: changing a returned row does not change the catalogue.
func TestRowsCannotChangeTheCatalogue(t *testing.T) {
	rows := Rows()
	for i := range rows {
		rows[i].Type = "x"
		for j := range rows[i].Aliases {
			rows[i].Aliases[j] = "x"
		}
	}
	r, found := Lookup("runtime/invalid-result")
	require.True(t, found)
	assert.Equal(t, []string{"invalid-result", "invalid-result-after-retries"}, r.Aliases)
}

func TestNamesOfClassesAndSources(t *testing.T) {
	for c := ClassNone; c <= ClassFinal; c++ {
		got, ok := ParseClass(":" + c.String())
		assert.True(t, ok)
		assert.Equal(t, c, got)
	}
	for s := SourceRequest; s <= SourceDownstream; s++ {
		got, ok := ParseSource(s.String())
		assert.True(t, ok)
		assert.Equal(t, s, got)
	}
	for _, name := range []string{"", "unknown", "stop!!", "Plugin"} {
		_, isClass := ParseClass(name)
		_, isSource := ParseSource(name)
		assert.False(t, isClass || isSource, name)
	}
	assert.Equal(t, "invalid", Class(99).String())
	assert.Equal(t, "invalid", Source(99).String())
	assert.Equal(t, []Source{SourceHost, SourceDownstream}, sourcesOf(SourceDownstream, SourceHost).List())
}

// HCL-033: the nearest name is within two edits or a third of the name; ties
// are resolved by name.
func TestNearest(t *testing.T) {
	known := []string{"constraints", "context", "done", "budget", "beta", "bets"}
	for name, want := range map[string]string{
		"constraint":       "constraints",
		"contxet":          "context",
		"bet":              "beta",
		"entirely-foreign": "",
		"budgetary":        "budget",
	} {
		assert.Equal(t, want, Nearest(name, known), name)
	}
	assert.Equal(t, "runtime/crashed", NearestType(":runtime/crashd"))
	assert.NoError(t, quick.Check(func(name string) bool { return Nearest(name, []string{name}) == name || len(name) > 256 }, nil))
}
