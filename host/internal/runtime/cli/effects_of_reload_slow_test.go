//go:build slow

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// setting is an attribute of the specification with its enclosing blocks.
type setting struct {
	path  string
	chain []*language.Block
	attr  *language.Attr
}

// settings returns all attributes of the specification.
func settings() []setting {
	var out []setting
	var walk func(b *language.Block, path string, chain []*language.Block)
	walk = func(b *language.Block, path string, chain []*language.Block) {
		for i := range b.Attrs {
			out = append(out, setting{path + "." + b.Attrs[i].Name, chain, &b.Attrs[i]})
		}
		for i := range b.Blocks {
			inner := &b.Blocks[i]
			name := strings.TrimPrefix(path+"."+inner.Name, ".")
			below := append(slices.Clone(chain), inner)
			if len(inner.Variants) == 0 {
				walk(inner, name, below)
			}
			for k := range inner.Variants {
				v := &inner.Variants[k]
				walk(v, name+" "+v.Only, append(slices.Clone(chain), v))
			}
		}
	}
	walk(language.Specification(), "", nil)
	return out
}

// labelOf names the blocks of the configuration that are changed.
var labelOf = map[string]string{
	"plugin": "mine", "capability": "mine/a", "schema": "t/s", "check": "c", "dispatch": "d", "intent": "t/a", "role": "clerk", "rule": "fs/read", "secret": "s", "db": "n",
	"judge": "j", "rubric": "r", "criterion": "k", "class": "batch", "human": "people/clerk", "operation": "act/defaults", "binding": "session/language", "profile": "strict-meta",
	"oidc": "corp",
}

const changedBase = testProfile + `
schema "t/s" {
  spec = edn(":any")
}

check "c" {
  condition = true
}

dispatch "d" {}

dispatch "e" {}

intent "t/a" {
  in  = "req/any"
  out = "res/any"
}

intent "t/h" {
  in  = "req/any"
  out = "res/any"
}

human "people/clerk" {
  intents = ["t/h"]
}

capability "mine/a" {
  plugin = "mine"
}

effects {
  secret "s" {
    value = secret("env:SOME")
  }

  db "n" {
    driver = "sqlite"
    path   = "/nowhere/n.db"
  }
}

role "clerk" {}

auth {
  oidc "corp" {
    issuer   = "https://127.0.0.1:1"
    audience = "ferment"
  }
}

rubric "r" {
  criterion "k" {
    ask = "Is it right?"
  }
}

judge "j" {
  intent = "t/a"
}

prompts {
  roles = { voice = "Speak." }
}
`

// changes are the lines for attributes for which a value of their type is not
// sufficient.
var changes = map[string]string{
	"ferment.lock_file": `lock_file = "../other.lock.hcl"`, "ferment.profile": `profile = "dev"`, "ferment.requires": `requires = ">= 0.0"`,
	"plugin.version": `version = ">= 0.1"`, "plugin.needs": `needs = []`, "plugin.files": `files = ["../mine.edn"]`, "plugin.env_pass": `env_pass = ["PATH"]`,
	"plugin.operations":      `operations = ["prompt/override"]`,
	"plugin.instances.min":   "min = 2\nmax = 2",
	"plugin.isolation.level": `level = "strict"`, "plugin.isolation.cpu": "cpu = 0.5\nbest_effort = true", "plugin.isolation.memory": `memory = "4GiB"`, "plugin.isolation.file_size": `file_size = "1GiB"`,
	"plugin.isolation.exec": `exec = ["/bin"]`, "plugin.isolation.processes": "processes = 4096\nbest_effort = true",
	"capability.provides": `provides = "mine/a"`, "capability.effects": `effects = ["none"]`,
	"schema.spec":   `spec = edn("[:map]")`,
	"check.builtin": "builtin = \"json-valid\"\ncondition = null", "check.intent": "intent = \"t/a\"\ncondition = null", "check.condition": "condition = result.ok",
	"dispatch.switch_on": `switch_on = ["runtime/crashed"]`, "dispatch.switch_on_replace": `switch_on_replace = ["runtime/crashed"]`, "dispatch.fallback_to": `fallback_to = ["mine/b"]`, "dispatch.checks": `checks = ["c"]`,
	"dispatch.learned.prior": `prior = { "mine/a" = [2, 1] }`,
	"intent.in":              `in = "t/s"`, "intent.out": `out = "t/s"`, "intent.candidates": `candidates = ["mine/a"]`, "intent.dispatch": `dispatch = "e"`, "intent.checks": `checks = ["c"]`,
	"intent.done.must": `must = ["schema-valid", "c"]`, "intent.done.should": `should = ["c"]`, "intent.effects": `effects = ["fs/read"]`,
	"intent.quality.swap_to":  "swap_to = \"mine/b\"\nmin_pass_rate = 0.5",
	"capability.breaker.ramp": "ramp = [50, 100]", "dispatch.breaker.ramp": "ramp = [50, 100]",
	"capability.scope.allow_commands": `allow_commands = ["/bin/true"]`, "effects.scope.allow_commands": `allow_commands = ["/bin/true"]`, "role.scope.allow_commands": `allow_commands = ["/bin/true"]`,
	"capability.scope.arguments": `arguments = { "/bin/true" = ["x"] }`, "effects.scope.arguments": "allow_commands = [\"/bin/true\"]\narguments = { \"/bin/true\" = [\"x\"] }", "role.scope.arguments": `arguments = { "/bin/true" = ["x"] }`,
	"capability.role": `role = "voice"`, "intent.role": `role = "voice"`, "prompts.roles": `roles = { voice = "Sing." }`, "prompts.intents": `intents = { "t/a" = "x" }`, "prompts.language_packs": `language_packs = ["../it.edn"]`,
	"prompts.fragments": "fragments = { f = \"x\" }\ndefault = { fragment = \"f\" }", "prompts.allowed": `allowed = { voice = ["x"] }`,
	"auth.session_token.idle_ttl": `idle_ttl = "1h"`,
	"auth.basic.memory":           `memory = "24MiB"`, "auth.tokens.max_ttl": `max_ttl = "400d"`,
	"auth.account_roles": `account_roles = { robot = ["user"] }`, "auth.strong_types": `strong_types = ["robot"]`, "role.intents": `intents = ["text/*"]`,
	"http.trusted_proxies": `trusted_proxies = ["10.0.0.0/8"]`, "http.tls_terminated_by_proxy": "tls_terminated_by_proxy = true\ntrusted_proxies = [\"10.0.0.0/8\"]",
	"http.limits.session_body": `session_body = "2MiB"`,
	"session.binding.target":   "target = [\"constraints\", \"language\"]",
	"session.binding.coerce":   "target = [\"constraints\", \"language\"]\ncoerce = \"keyword\"",
	"session.binding.required": "target = [\"constraints\", \"language\"]\nrequired = true",
	// A busy machine needs more than the usual 2 s.
	"plugin.start_timeout": `start_timeout = "2m"`, "plugin.configure_timeout": `configure_timeout = "2m"`,
	"queue.default_class": `default_class = "sync"`,
	"queue.deadline":      `deadline = "90s"`, "queue.async_deadline": `async_deadline = "20m"`, "queue.max_deadline": `max_deadline = "23h"`,
	"router.meta": "meta = true\nintent = \"t/a\"", "router.profile": `profile = "strict-meta"`,
	"router.capability_role": `capability_role = { "mine/a" = "voice" }`, "router.intent_role": `intent_role = { "t/a" = "voice" }`,
	"router.intent_default_role": `intent_default_role = { "t/a" = "voice" }`,
	"capability.model_key":       `model_key = "large"`, "intent.model_key": `model_key = "vendor/large"`,
	"intent.plan":                     `plan = edn("{:nodes [{:op :call :intent :t/a :input {:slot/id :input} :as :x} {:op :emit :input :x}]}")`,
	"router.capability_model_key":     `capability_model_key = { "mine/a" = "large" }`,
	"router.intent_model_key":         `intent_model_key = { "t/a" = "large" }`,
	"router.intent_default_model_key": `intent_default_model_key = { "t/a" = "large" }`,
	"judge.intent":                    `intent = "t/b"`, "judge.votes": "votes = 1", "rubric.scale": "scale = [0, 5]", "rubric.rules": `rules = [{ rule = "length" }]`,
	"effects.secret.value":         `value = secret("env:OTHER")`,
	"capability.scope.connections": `connections = ["n"]`, "effects.scope.connections": `connections = ["n"]`, "role.scope.connections": `connections = ["n"]`,
	"http.admin_socket":      `admin_socket = "other.sock"`,
	"telemetry.otel.enabled": "enabled = true\nendpoint = \"http://127.0.0.1:1\"", "telemetry.otel.endpoint": `endpoint = "http://127.0.0.1:1"`,
	"telemetry.otel.headers": `headers = { authorization = secret("env:OTHER") }`,
	"judge.anchors":          `anchors = "../it.edn"`,
	"http.listen":            `listen = ["127.0.0.1:1"]`, "http.allowed_hosts": `allowed_hosts = ["ferment.example"]`,
}

// wider are changes that restart the tools plugin although tool calls use the
// new value immediately: the value is part of its configuration, or determines
// its sandbox.
var wider = []string{"effects.enforcement", "effects.scope net/http.enabled"}

// unusual attributes are covered by other tests.
var unusual = map[string]string{
	"store.dsn":                  "a secret of the driver postgres: tests of the configuration",
	"http.tls.cert_file":         "a certificate and its key change together: tests of TLS",
	"http.tls.key_file":          "a certificate and its key change together: tests of TLS",
	"auth.oidc.issuer":           "a reload reads its keys: TestMeansOfLogin",
	"auth.client_cert.subjects":  "it needs an authority: TestMeansOfLogin",
	"http.tls.client_ca_file":    "it changes the listeners with their certificate: TestMeansOfLogin",
	"auth.oidc.ca_file":          "a reload reads keys with it: TestMeansOfLogin",
	"include.optional":           "what it says is used up when the files are read",
	"capability.plugin":          "another plugin is another capability: TestReload",
	"plugin.command":             "TestReload has a plugin that comes and one that goes",
	"plugin.enabled":             "its processes go: TestReload",
	"effects.db.driver":          "its plugin is not in this configuration: TestDatabasesReachTheirPlugin",
	"effects.db.path":            "its plugin is not in this configuration: TestDatabasesReachTheirPlugin",
	"effects.db.dsn":             "its plugin is not in this configuration: TestDatabasesReachTheirPlugin",
	"session.vars.default_class": "it names a class that its block declares: the tests of sessions",
}

// changed returns the line that changes a setting.
func (s setting) changed() string {
	for _, key := range []string{s.path, strings.Replace(s.path, " process/run", "", 1)} {
		if line, ok := changes[key]; ok {
			return line
		}
	}
	old := s.attr.DefaultIn(language.ProfileTest)
	for _, v := range someValues(s.attr.Type, old) {
		if v != old {
			return s.attr.Name + " = " + v
		}
	}
	return s.attr.Name + " = null"
}

// someValues returns valid and harmless values of a type; at least one of them
// is not the given one.
func someValues(t language.Type, old string) []string {
	within := func(n float64) bool { return (t.Min == nil || n >= *t.Min) && (t.Max == nil || n <= *t.Max) }
	var out []string
	switch t.Kind {
	case language.KindBool:
		return []string{"true", "false"}
	case language.KindInt, language.KindNum:
		n, _ := strconv.ParseFloat(old, 64)
		for _, c := range []float64{n + 1, n - 1, 0.3, 0.7, 2, 100_000} {
			if within(c) && (t.Kind == language.KindNum || c == float64(int64(c))) {
				out = append(out, strconv.FormatFloat(c, 'f', -1, 64))
			}
		}
		return out
	case language.KindDec:
		return []string{"1.5"}
	case language.KindDur:
		for _, d := range []string{"2s", "3s", "4s", "1m", "2m", "25h"} {
			ms, err := time.ParseDuration(d)
			if err == nil && within(float64(ms.Milliseconds())) {
				out = append(out, strconv.Quote(d))
			}
		}
		return out
	case language.KindBytes:
		for _, n := range []float64{1 << 20, 2 << 20, 1 << 14, 4 << 30} {
			if within(n) {
				out = append(out, strconv.FormatFloat(n, 'f', -1, 64))
			}
		}
		return out
	case language.KindEnum:
		for _, w := range t.Enum {
			out = append(out, strconv.Quote(w))
		}
		return out
	case language.KindOrigin:
		return []string{`"https://app.example"`}
	case language.KindRate:
		return []string{`"7/s"`, `"9/s"`}
	case language.KindPath:
		return []string{`".."`}
	case language.KindCond:
		return []string{"result.ok", "true"}
	case language.KindTemplate, language.KindStr, language.KindProgram, language.KindLayer:
		return []string{`"x"`, `"y"`}
	case language.KindRun:
		return []string{`"/bin"`}
	case language.KindVariable:
		return []string{`"A"`}
	case language.KindRef:
		return []string{strconv.Quote(labelOf[t.Ref])}
	case language.KindEDN:
		return []string{`edn("{}")`}
	case language.KindMap:
		elem := `"x"`
		if t.Elem != nil {
			elem = someValues(*t.Elem, "")[0]
		}
		key := "A"
		if t.Key != nil && t.Key.Kind == language.KindEnum {
			key = t.Key.Enum[0]
		}
		return []string{"{ " + key + " = " + elem + " }"}
	case language.KindList, language.KindSet:
		for _, v := range someValues(*t.Elem, "") {
			out = append(out, "["+v+"]")
		}
		return out
	}
	return nil
}

// file returns the file that is merged over the base configuration for the
// change.
func (s setting) file() string {
	var b strings.Builder
	for _, blk := range s.chain {
		b.WriteString(blk.Name)
		switch {
		case blk.Only != "":
			fmt.Fprintf(&b, " %q", blk.Only)
		case blk.Label != language.LabelNone:
			label := labelOf[blk.Name]
			if s.chain[0].Name == "operations" {
				label = "http.v1/act"
			}
			fmt.Fprintf(&b, " %q", label)
		}
		b.WriteString(" {\n")
	}
	b.WriteString(s.changed() + "\n" + strings.Repeat("}\n", len(s.chain)))
	return b.String()
}

// processes returns the ready processes of each plugin.
func (s *served) processes() map[string][]int {
	s.t.Helper()
	out := map[string][]int{}
	for p := range s.admin(`{:action :plugin-list}`).value(s.t).Key("result").Key("plugins").Elems() {
		name, _ := p.Key("plugin").AsString()
		for i := range p.Key("instances").Elems() {
			if pid, ok := i.Key("pid").AsInt(); ok && word(i.Key("state")) == "ready" {
				out[name] = append(out[name], int(pid))
			}
		}
		slices.Sort(out[name])
	}
	return out
}

// settled waits until every plugin has one process, and returns them.
func (s *served) settled() map[string][]int {
	s.t.Helper()
	var now map[string][]int
	require.Eventually(s.t, func() bool {
		now = s.processes()
		return len(now["mine"]) == 1 && len(now["other"]) == 1 && len(now["tools"]) == 1
	}, runLimit, 5*time.Millisecond, "%v", now)
	return now
}

// HCL-044, HCL-007, OPS-003: the daemon applies a change of each attribute as
// the specification says: it rejects and names those that need a restart,
// replaces the process of a plugin for some, and keeps every process for all
// others.
func TestReloadEffectOfEveryAttribute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", changedBase+scripted("mine")+scripted("other")+shipped("tools", "tools")+"\ncapability \"other/a\" {\n  plugin   = \"other\"\n  provides = \"o/a\"\n}\n",
		"mine.edn", `{:capabilities {:mine/a {:intents #{:t/a} :in-schema :req/any :out-schema :res/any :effects #{:none} :steps [{:value {:n 1}}]}
 :mine/b {:intents #{:t/a :t/b} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}}}`,
		"other.edn", `{:capabilities {:o/a {:intents #{:t/o} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}}}`)
	w.env = append(w.env, "SOME=1", "OTHER=2")
	pack, err := os.ReadFile("../../../../examples/languages/it.edn")
	require.NoError(t, err)
	w.write("it.edn", string(pack))
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "common"), 0o755))
	s := w.serveLimit(2*time.Hour, "--config", ".")
	reload := func() answer { return s.admin(`{:action :config-reload}`) }
	seen := map[language.Reload]int{}
	for _, row := range settings() {
		if _, ok := unusual[row.path]; ok {
			continue
		}
		before := s.settled()
		text := row.file()
		w.write("common/change.hcl", text)
		a := reload()
		if a.status != 200 && strings.Contains(string(a.body), "config/reserved") {
			continue // not part of this build
		}
		switch row.attr.Reload {
		case language.ReloadHost:
			if assert.Equal(t, 409, a.status, "%s\n%s\n%s", row.path, text, a.body) {
				assert.Contains(t, a.value(t).Key("details").Key("keys").String(), row.attr.Name, row.path)
			}
			assert.Equal(t, before, s.processes(), row.path)
		default:
			if !assert.Equal(t, 200, a.status, "%s\n%s\n%s", row.path, text, a.body) {
				break
			}
			assert.True(t, changeOf(a.value(t).Key("result").Key("changes"), row.attr), "%s: no such change in %s\n%s", row.path, a.body, text)
			at := "mine"
			if row.chain[0].Name != "plugin" {
				at = "tools" // the effects block is part of its configuration
			}
			if row.attr.Reload == language.ReloadPlugin {
				assert.Eventually(t, func() bool {
					now := s.processes()
					return len(now[at]) == 1 && !slices.Equal(now[at], before[at])
				}, runLimit, 5*time.Millisecond, "%s: no new process\n%s", row.path, text)
			} else if now := s.processes(); !slices.Contains(wider, row.path) {
				for _, pid := range before[at] {
					assert.Contains(t, now[at], pid, "%s: another process of %s\n%s", row.path, at, text)
				}
			}
			assert.Equal(t, before["other"], s.processes()["other"], "%s: nothing about that plugin has changed", row.path)
		}
		seen[row.attr.Reload]++
		w.write("common/change.hcl", "")
		a = reload()
		assert.Equal(t, 200, a.status, "back from %s: %s", row.path, a.body)
	}
	assert.Greater(t, seen[language.ReloadUse], 100)
	assert.Greater(t, seen[language.ReloadPlugin], 20)
	assert.Greater(t, seen[language.ReloadHost], 5)
	s.stop()
	assert.Empty(t, w.left(endLimit))
}

// changeOf reports whether the changes include one of an attribute, with the
// action of its class.
func changeOf(list edn.Value, attr *language.Attr) bool {
	for row := range list.Elems() {
		path := row.Key("path")
		last, _ := path.Nth(path.Len() - 1)
		if name, _ := last.AsString(); name == attr.Name && word(row.Key("reload")) == string(attr.Reload) || word(row.Key("action")) == "add" {
			return true // an attribute, or a block that was added for it
		}
	}
	return false
}
