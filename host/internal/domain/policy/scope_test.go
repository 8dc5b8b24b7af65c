package policy_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Members that nest, collide and miss each other.
var scopeMembers = map[effects.Kind][]string{
	effects.KindNames:    {"A", "B", "GET", "https", "POST"},
	effects.KindFiles:    {"/srv", "/srv/data", "/opt", "/bin/ls"},
	effects.KindDirs:     {"/", "/srv", "/srv/data", "/srv/data/x", "/srvx", "/opt"},
	effects.KindPrefixes: {".", "a", "a/b", "a/b/c", "ab", "z"},
	effects.KindHosts:    {"a.example.com", "*.example.com", "*.x.example.com", "b.x.example.com", "example.com", "10.0.0.1", "::1"},
}

// drawScope draws any subset of the fields of an effect as data and parses it.
func drawScope(t *rapid.T, effect string) effects.Scope {
	var b edn.MapBuilder
	for _, f := range effects.Fields(effect) {
		if rapid.Bool().Draw(t, f.Key+"?") {
			continue
		}
		b.Key(f.Key, drawField(t, f))
	}
	s, problems := effects.ParseScope(effect, b.Map())
	require.Empty(t, problems)
	return s
}

func drawField(t *rapid.T, f effects.Field) edn.Value {
	texts := func(from []string) edn.Value {
		var vs []edn.Value
		for _, s := range rapid.SliceOfN(rapid.SampledFrom(from), 0, 4).Draw(t, f.Key) {
			vs = append(vs, edn.Text(s))
		}
		return edn.Vector(vs...)
	}
	switch f.Kind {
	case effects.KindFlag:
		return edn.Bool(rapid.Bool().Draw(t, f.Key))
	case effects.KindCount, effects.KindBytes, effects.KindMillis:
		return edn.Int(rapid.Int64Range(0, 5).Draw(t, f.Key))
	case effects.KindPorts:
		var vs []edn.Value
		for _, p := range rapid.SliceOfN(rapid.Int64Range(1, 5), 0, 4).Draw(t, f.Key) {
			vs = append(vs, edn.Int(p))
		}
		return edn.Vector(vs...)
	case effects.KindArguments:
		var b edn.MapBuilder
		for _, c := range rapid.SliceOfN(rapid.SampledFrom([]string{"/bin/ls", "/bin/cat"}), 0, 2).Draw(t, f.Key) {
			b.Set(edn.Text(c), texts([]string{"-l", "-a", "[a-z]+"}))
		}
		return b.Map()
	case effects.KindWord:
		return edn.Text(rapid.SampledFrom([]string{"", "Idempotency-Key", "X-Key"}).Draw(t, f.Key))
	}
	return texts(scopeMembers[f.Kind])
}

// notWider reports whether wide permits everything in a field that narrow
// permits. Both are values of the field.
func notWider(f effects.Field, narrow, wide edn.Value) bool {
	if wide.IsNil() {
		return true
	}
	switch f.Kind {
	case effects.KindArguments: // each pattern of a command is one more that its arguments may not miss
		for command, patterns := range wide.Entries() {
			for pattern := range patterns.Elems() {
				kept, _ := narrow.Get(command)
				if !slices.ContainsFunc(slices.Collect(kept.Elems()), func(v edn.Value) bool { return edn.Equal(v, pattern) }) {
					return false
				}
			}
		}
		return true
	case effects.KindFlag:
		return !narrow.IsNil() && (wide.Truthy() || !narrow.Truthy())
	case effects.KindCount, effects.KindBytes, effects.KindMillis:
		n, set := narrow.AsInt()
		w, _ := wide.AsInt()
		return set && n <= w
	case effects.KindPorts:
		return !narrow.IsNil() && narrow.Len() <= wide.Len()
	case effects.KindWord:
		return edn.Equal(narrow, wide) || edn.Equal(narrow, edn.Text(""))
	}
	for x := range narrow.Elems() {
		covered := false
		for y := range wide.Elems() {
			name, _ := x.AsString()
			of, _ := y.AsString()
			covered = covered || effects.Covers(f.Kind, of, name)
		}
		if !covered {
			return false
		}
	}
	return !narrow.IsNil()
}

// FX-001: meet is commutative, associative and idempotent, and never wider than
// an operand; an absent field inherits, an empty list permits nothing, and
// enabled = false wins.
func TestMeetLaws(t *testing.T) {
	for _, effect := range effects.Scoped() {
		t.Run(effect, rapid.MakeCheck(func(t *rapid.T) {
			a, b, c := drawScope(t, effect), drawScope(t, effect), drawScope(t, effect)
			show := func(s effects.Scope) string { return s.Value(effect).String() }
			ab := policy.Meet(a, b)
			require.Equal(t, show(ab), show(policy.Meet(b, a)), "commutative")
			require.Equal(t, show(policy.Meet(ab, c)), show(policy.Meet(a, policy.Meet(b, c))), "associative")
			require.Equal(t, show(a), show(policy.Meet(a, a)), "idempotent")
			require.Equal(t, show(a), show(policy.Meet(a, effects.Scope{})), "absent inherits")
			for _, f := range effects.Fields(effect) {
				in := func(s effects.Scope) edn.Value { return s.Value(effect).Key(f.Key) }
				require.True(t, notWider(f, in(ab), in(a)) && notWider(f, in(ab), in(b)), "%s: %s is wider than %s or %s", f.Key, show(ab), show(a), show(b))
			}
			require.False(t, ab.Enabled.V && (a.Enabled.Set && !a.Enabled.V || b.Enabled.Set && !b.Enabled.V), "enabled = false wins")
			read, problems := effects.ParseScope(effect, ab.Value(effect))
			require.Empty(t, problems)
			require.Equal(t, show(ab), show(read), "what is written can be read")
		}))
	}
}

// The meet permits exactly those inputs of a tool that both operands permit.
func TestMeetDecidesLikeBoth(t *testing.T) {
	file, _ := effects.ToolNamed("fs/read-file")
	request, _ := effects.ToolNamed("net/http-request")
	run, _ := effects.ToolNamed("process/run")
	inputs := map[string][]edn.Value{
		"fs/read": {edn.MustRead(`{:path "a/b/f" :root "/srv"}`), edn.MustRead(`{:path "z" :root "/srv/data"}`), edn.MustRead(`{:path "abc" :root "/opt"}`)},
		"net/http": {edn.MustRead(`{:url "https://b.x.example.com:3/"}`), edn.MustRead(`{:url "https://a.example.com:2/" :method "POST"}`),
			edn.MustRead(`{:url "https://10.0.0.1:1/"}`)},
		"process/run": {edn.MustRead(`{:command ["/bin/ls" "-l"] :cwd "/srv/data"}`), edn.MustRead(`{:command ["/bin/ls" "-l" "-a" "x"] :cwd "/opt"}`)},
	}
	for _, tool := range []effects.Tool{file, request, run} {
		t.Run(tool.ID, rapid.MakeCheck(func(t *rapid.T) {
			a, b := drawScope(t, tool.Effect), drawScope(t, tool.Effect)
			// Only written lists and flags decide; an unwritten one inherits.
			for _, s := range []*effects.Scope{&a, &b} {
				v := s.Value(tool.Effect)
				for _, f := range effects.Fields(tool.Effect) {
					switch {
					case v.HasKey(f.Key):
					case f.Kind == effects.KindFlag:
						v = v.AssocKey(f.Key, edn.Bool(false))
					case scopeMembers[f.Kind] != nil || f.Kind == effects.KindPorts:
						v = v.AssocKey(f.Key, edn.Vector())
					}
				}
				var problems []effects.Problem
				*s, problems = effects.ParseScope(tool.Effect, v)
				require.Empty(t, problems)
			}
			ab := policy.Meet(a, b)
			for _, in := range inputs[tool.Effect] {
				both := tool.Permit(in, &a) == nil && tool.Permit(in, &b) == nil
				require.Equal(t, both, tool.Permit(in, &ab) == nil, "%s under %s and %s", in, a.Value(tool.Effect), b.Value(tool.Effect))
			}
		}))
	}
}

func TestScopesMeetByEffect(t *testing.T) {
	read := policy.Scoped{Effect: "fs/read", Scope: scope(t, "fs/read", `{:enabled true :allow ["a"]}`)}
	write := policy.Scoped{Effect: "fs/write", Scope: scope(t, "fs/write", `{:max-bytes 9}`)}
	narrow := policy.Scoped{Effect: "fs/read", Scope: scope(t, "fs/read", `{:allow ["a/b"]}`)}
	all := policy.ScopesOf(write, read, narrow)
	assert.Equal(t, `{:fs/read {:allow ["a/b"] :enabled true} :fs/write {:max-bytes 9}}`, all.Value().String())
	assert.Equal(t, all.Value().String(), policy.MeetAll(policy.ScopesOf(narrow), policy.ScopesOf(read, write)).Value().String())
	_, ok := all.Of("net/http")
	assert.False(t, ok)
}

// FX-003: where both sides have argument rules, both apply, sorted by command.
func TestMeetOfArgumentRules(t *testing.T) {
	rules := func(list ...effects.ArgumentRule) effects.Scope {
		return effects.Scope{Arguments: effects.List[effects.ArgumentRule]{V: list, Set: true}}
	}
	rule := func(command string, patterns ...[]string) effects.ArgumentRule {
		return effects.ArgumentRule{Command: command, Patterns: patterns}
	}
	a := rules(rule("go", []string{"test"}), rule("wc", []string{"-l"}))
	b := rules(rule("cat"), rule("go", []string{"vet"}, []string{"test"}))
	want := []effects.ArgumentRule{rule("cat"), rule("go", []string{"test"}, []string{"vet"}), rule("wc", []string{"-l"})}
	assert.Equal(t, want, policy.Meet(a, b).Arguments.V)
	assert.Equal(t, want, policy.Meet(b, a).Arguments.V)
}

func scope(t testing.TB, effect, text string) effects.Scope {
	t.Helper()
	s, problems := effects.ParseScope(effect, edn.MustRead(text))
	require.Empty(t, problems)
	return s
}

// FX-012: a scope that overlaps a forbidden path, from above or from within, is
// detected.
func TestOverlap(t *testing.T) {
	forbidden := []string{"/home/x/var"}
	for text, want := range map[string]string{
		`{:roots ["/home/x"] :allow ["."]}`:           "/home/x",
		`{:roots ["/home/x"] :allow ["docs"]}`:        "",
		`{:roots ["/home/x"] :allow ["var"]}`:         "/home/x/var",
		`{:roots ["/home/x"] :allow ["var/plugins"]}`: "/home/x/var/plugins",
		`{:roots ["/home/x"] :allow ["variety"]}`:     "",
		`{:roots ["/"] :allow ["home"]}`:              "/home",
		`{:roots ["/"] :allow []}`:                    "",
	} {
		s := scope(t, "fs/write", text)
		dir, _ := policy.Overlap(policy.Reach(&s), forbidden)
		assert.Equal(t, want, dir, text)
	}
}

// Meet <= 5 us (daemon.md section 6).
func BenchmarkMeet(b *testing.B) {
	host := scope(b, "net/http", `{:enabled true :hosts ["*.example.com" "api.test" "10.0.0.1"] :schemes ["https"] :ports [443 8443] :methods ["GET" "HEAD" "POST"] :redirects 5 :timeout-ms 10000 :max-bytes 4194304 :allow-private false}`)
	request := scope(b, "net/http", `{:hosts ["a.example.com"] :methods ["GET"] :max-bytes 1048576}`)
	b.ReportAllocs()
	for b.Loop() {
		policy.Meet(host, request)
	}
}
