package effects

import (
	"encoding/base64"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

func mustScope(t testing.TB, effect, text string) Scope {
	t.Helper()
	s, problems := ParseScope(effect, edn.MustRead(text))
	require.Empty(t, problems)
	return s
}

const (
	readScope    = `{:enabled true :roots ["/srv/a"] :allow ["docs" "pub/x"]}`
	twoRoots     = `{:enabled true :roots ["/srv/a" "/srv/b"] :allow ["."]}`
	appendScope  = `{:enabled true :roots ["/srv/a"] :allow ["."] :append false :mkdirs false}`
	processScope = `{:enabled true :allow-commands ["/usr/bin/git" "/bin/ls"] :allow-cwd ["/srv/a"] :env-pass ["LANG"] :max-timeout-ms 5000
	  :arguments {"/usr/bin/git" ["status" "--[a-z]+"]}}`
	dbScope  = `{:enabled true :connections ["main"] :timeout-ms 5000}`
	webScope = `{:enabled true :hosts ["api.test" "*.example.com" "10.1.2.3" "93.184.216.34"] :schemes ["https"] :ports [443 8443] :methods ["GET" "POST"]}`
)

// Each row is one decision with its reason, "" for allowed: what a tool decides
// before it accesses anything (daemon.md section 6).
func TestToolsDecideByInputAndScope(t *testing.T) {
	for _, row := range []struct{ tool, scope, input, reason string }{
		{"fs/read-file", readScope, `{:path "docs/a.txt"}`, ""},
		{"fs/read", readScope, `{:path "docs"}`, ""},
		{"fs/list", readScope, `{:path "./docs//x/"}`, ""},
		{"fs/read-file", readScope, `{:path "docsx/a"}`, "path-not-allowed"},
		{"fs/read-file", readScope, `{:path "pub"}`, "path-not-allowed"},
		{"fs/read-file", readScope, `{:path "."}`, "path-not-allowed"},
		{"fs/read-file", readScope, `{:path "../a/docs/x"}`, "path-outside-root"},
		{"fs/read-file", readScope, `{:path "docs/../docs/x"}`, "path-outside-root"},
		{"fs/read-file", readScope, `{:path "/srv/a/docs/x"}`, "path-outside-root"},
		{"fs/read-file", readScope, `{:path "docs/a\u0000b"}`, "path/invalid"},
		{"fs/read-file", readScope, `{:path ""}`, "schema"},
		{"fs/read-file", readScope, `{:path 7}`, "schema"},
		{"fs/read-file", readScope, `{:path "docs/a" :root "/srv"}`, "path-outside-local-root"},
		{"fs/read-file", readScope, `{:path "docs/a" :root "/srv/a/"}`, ""},
		{"fs/read-file", twoRoots, `{:path "x"}`, "root/ambiguous"},
		{"fs/read-file", twoRoots, `{:path "x" :root "/srv/b"}`, ""},
		{"fs/read-file", `{:enabled true}`, `{:path "x"}`, "path-outside-root"},
		{"fs/read-file", `{:enabled false :roots ["/srv/a"] :allow ["."]}`, `{:path "x"}`, "disabled"},
		{"fs/read-file", `{:roots ["/srv/a"] :allow ["."]}`, `{:path "x"}`, "disabled"},
		{"fs/write-file", appendScope, `{:path "." :content ""}`, "not-regular"},
		{"fs/write-file", appendScope, `{:path "x" :content "" :append? true}`, "append-not-allowed"},
		{"fs/write-file", appendScope, `{:path "x" :content "" :mkdirs? true}`, "mkdirs-not-allowed"},
		{"fs/write-file", appendScope, `{:path "x" :content ""}`, ""},

		{"process/run", processScope, `{:command ["/bin/ls"]}`, ""},
		{"process/exec", processScope, `{:command ["ls" "-l"] :cwd "/srv/a/b"}`, ""},
		{"process/run", processScope, `{:command "ls -l"}`, "schema"},
		{"process/run", processScope, `{:command []}`, "schema"},
		{"process/run", processScope, `{:command ["/bin/ls" 1]}`, "schema"},
		{"process/run", processScope, `{:command ["/bin/ls" "a\u0000b"]}`, "argument/invalid"},
		{"process/run", processScope, `{:command ["/tmp/ls"]}`, "command-not-allowed"},
		{"process/run", processScope, `{:command ["./ls"]}`, "command-not-allowed"},
		{"process/run", processScope, `{:command ["LS"]}`, "command-not-allowed"},
		{"process/run", processScope, `{:command ["/bin/../bin/ls"]}`, ""},
		{"process/run", processScope, `{:command ["/usr/bin/git" "status" "--short"]}`, ""},
		{"process/run", processScope, `{:command ["/usr/bin/git" "status" "-c" "x"]}`, "argument-not-allowed"},
		{"process/run", processScope, `{:command ["/usr/bin/git" "status\n--x"]}`, "argument-not-allowed"},
		{"process/run", processScope, `{:command ["/bin/ls"] :cwd "/srv"}`, "cwd-not-allowed"},
		{"process/run", processScope, `{:command ["/bin/ls"] :cwd "/srv/a/../b"}`, "cwd-not-allowed"},
		{"process/run", processScope, `{:command ["/bin/ls"] :cwd "/srv/ab"}`, "cwd-not-allowed"},
		{"process/run", processScope, `{:command ["/bin/ls"] :cwd "b"}`, "cwd-not-allowed"},
		{"process/run", processScope, `{:command ["/bin/ls"] :env {"LANG" "C"}}`, ""},
		{"process/run", processScope, `{:command ["/bin/ls"] :env {"LD_PRELOAD" "x"}}`, "env-not-allowed"},
		{"process/run", processScope, `{:command ["/bin/ls"] :env {"LANG=x" "C"}}`, "schema"},
		{"process/run", processScope, `{:command ["/bin/ls"] :timeout-ms 5001}`, "timeout/range"},
		{"process/run", processScope, `{:command ["/bin/ls"] :timeout-ms 9223372036854775807}`, "timeout/range"},
		{"process/run", processScope, `{:command ["/bin/ls"] :timeout-ms 0}`, "timeout/range"},
		{"process/run", `{:enabled true :allow-commands ["/a/ls" "/b/ls"] :allow-cwd ["/a"]}`, `{:command ["ls"]}`, "command/ambiguous"},
		{"process/run", `{:enabled true :allow-commands ["/a/ls"]}`, `{:command ["ls"]}`, "cwd-not-allowed"},

		{"net/http", webScope, `{:url "https://api.test/x?y#z"}`, ""},
		{"net/http-request", webScope, `{:url "https://API.test.:443/" :method :post}`, ""},
		{"net/http-request", webScope, `{:url "https://a.b.example.com:8443/"}`, ""},
		{"net/http-request", webScope, `{:url "https://example.com/"}`, "host-not-allowed"},
		{"net/http-request", webScope, `{:url "https://evilexample.com/"}`, "host-not-allowed"},
		{"net/http-request", webScope, `{:url "https://api.test.evil.org/"}`, "host-not-allowed"},
		{"net/http-request", webScope, `{:url "https://api.test@evil.org/"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "https://user:pass@api.test/"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "http://api.test/"}`, "scheme-not-allowed"},
		{"net/http-request", webScope, `{:url "file:///etc/passwd"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "gopher://api.test/"}`, "scheme-not-allowed"},
		{"net/http-request", webScope, `{:url "https://api.test:22/"}`, "port-not-allowed"},
		{"net/http-request", webScope, `{:url "https://api.test:99999/"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "https://api.test:0/"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "//api.test/"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "https:///x"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "https:api.test"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "https://\u0430pi.test/"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "https://10.1.2.3/"}`, "address-not-allowed"},
		{"net/http-request", webScope, `{:url "https://[::ffff:10.1.2.3]/"}`, "address-not-allowed"},
		{"net/http-request", webScope, `{:url "https://[fe80::1%25eth0]/"}`, "url/invalid"},
		{"net/http-request", webScope, `{:url "https://93.184.216.34/"}`, ""},
		{"net/http-request", webScope, `{:url "https://2130706433/"}`, "host-not-allowed"},
		{"net/http-request", webScope, `{:url "https://0x7f.1/"}`, "host-not-allowed"},
		{"net/http-request", webScope, `{:url "https://api.test/" :method "DELETE"}`, "method-not-allowed"},
		{"net/http-request", webScope, `{:url "https://api.test/" :method "GET\r\nX: y"}`, "method-not-allowed"},
		{"net/http-request", `{:enabled true :schemes ["https"] :ports [443] :methods ["GET"]}`, `{:url "https://api.test/"}`, "host-not-allowed"},

		{"db/query", dbScope, `{:connection :main :sql "SELECT 1"}`, ""},
		{"db/query", dbScope, `{:connection "main" :sql "SELECT $1" :parameters [1] :timeout-ms 5000}`, ""},
		{"db/query", dbScope, `{:connection "main" :sql "SELECT 1" :timeout-ms 5001}`, "timeout/range"},
		{"db/query", dbScope, `{:connection "other" :sql "SELECT 1"}`, "connection-not-allowed"},
		{"db/query", `{:enabled true}`, `{:connection "main" :sql "SELECT 1"}`, "connection-not-allowed"},
		{"db/query", `{:connections ["main"]}`, `{:connection "main" :sql "SELECT 1"}`, "disabled"},
		{"db/query", dbScope, `{:connection 7 :sql "SELECT 1"}`, "schema"},
		{"db/query", dbScope, `{:connection "main"}`, "schema"},
		{"db/query", dbScope, `{:connection "main" :sql " "}`, "schema"},
		{"db/query", dbScope, `{:connection "main" :sql "` + strings.Repeat("x", MaxSQL+1) + `"}`, "schema"},
		{"db/query", dbScope, `{:connection "main" :sql "SELECT 1\u0000"}`, "sql/invalid"},
		{"db/query", dbScope, `{:connection "main" :sql "SELECT 1" :parameters {:a 1}}`, "schema"},
		{"db/query", dbScope, `{:connection "main" :statements [{:sql "SELECT 1"}]}`, "schema"},
		{"db/exec", dbScope, `{:connection "main" :statements [{:sql "DELETE FROM a"} {:sql "DELETE FROM b" :parameters []}]}`, ""},
		{"db/exec", dbScope, `{:connection "main" :statements [{:sql "DELETE FROM a"} {:text "DELETE FROM b"}]}`, "schema"},
		{"db/exec", dbScope, `{:connection "main" :statements []}`, "schema"},
		{"db/exec", dbScope, `{:connection "main" :statements {}}`, "schema"},
		{"db/exec", dbScope, `{:connection "main" :statements [{:sql "DELETE FROM a"}] :parameters [1]}`, "schema"},
	} {
		tool, ok := ToolNamed(row.tool)
		require.True(t, ok, row.tool)
		s := mustScope(t, tool.Effect, row.scope)
		err := tool.Permit(edn.MustRead(row.input), &s)
		if row.reason == "" {
			assert.Nil(t, err, "%s %s", row.tool, row.input)
			continue
		}
		if assert.NotNil(t, err, "%s %s", row.tool, row.input) {
			reason, _ := err.Details.Key("reason").AsKeyword()
			assert.Equal(t, row.reason, reason, "%s %s: %s", row.tool, row.input, err.Message)
			assert.Contains(t, []string{"effects/scope-denied", "effects/invalid-input"}, err.Type)
			assert.NotContains(t, err.Message, "pass@", "a password of an URL is not repeated")
		}
	}
}

// An error of an input keeps its cause.
func TestErrorsKeepTheirCauses(t *testing.T) {
	write, _ := ToolNamed("fs/write-file")
	_, err := write.Content(edn.MustRead(`{:content "*" :encoding :base64}`))
	var corrupt base64.CorruptInputError
	require.ErrorAs(t, err, &corrupt)
}

// An address embedded in another form is checked as the embedded address.
func TestAddressesThatMayBeDialled(t *testing.T) {
	public, private := Scope{}, Scope{AllowPrivate: Flag{V: true, Set: true}}
	for address, may := range map[string][2]bool{ // without and with allow-private
		"93.184.216.34": {true, true}, "2606:2800:220:1::1": {true, true},
		"127.0.0.1": {false, true}, "::1": {false, true}, "10.0.0.1": {false, true}, "172.16.9.9": {false, true}, "192.168.1.1": {false, true},
		"fd12::1": {false, true}, "100.64.0.1": {false, true}, "198.18.0.1": {false, true}, "fec0::1": {false, true},
		"169.254.169.254": {false, false}, "fe80::1": {false, false}, "fd00:ec2::254": {false, false}, "100.100.100.200": {false, false}, "168.63.129.16": {false, false}, "::ffff:168.63.129.16": {false, false},
		"0.0.0.0": {false, false}, "0.1.2.3": {false, false}, "::": {false, false}, "224.0.0.1": {false, false}, "ff02::1": {false, false}, "255.255.255.255": {false, false}, "240.0.0.1": {false, false},
		"::ffff:127.0.0.1": {false, true}, "::ffff:169.254.169.254": {false, false}, "::ffff:93.184.216.34": {true, true},
		"::7f00:1": {false, true}, "::a9fe:a9fe": {false, false},
		"2002:7f00:1::1": {false, true}, "2002:a9fe:a9fe::1": {false, false}, "2002:5db8:d822::1": {true, true},
		"64:ff9b::a00:1": {false, true}, "64:ff9b::a9fe:a9fe": {false, false}, "64:ff9b:1::1": {false, true},
		"2001:0:4136:e378:8000:63bf:f5ff:fffe": {false, true}, // teredo of 10.0.0.1
		"fe80::1%eth0":                         {false, false},
	} {
		a := netip.MustParseAddr(address)
		assert.Equal(t, may, [2]bool{AddressAllowed(a, &public), AddressAllowed(a, &private)}, address)
	}
}

func TestParseScopeReportsEveryProblem(t *testing.T) {
	_, problems := ParseScope("fs/write", edn.MustRead(`{:roots ["relative" "/ok"] :allow ["../x" "/abs" "a\u0000"] :max-bytes -1 :mkdirs 1 :maxbytes 2 :quux []}`))
	var all []string
	for _, p := range problems {
		all = append(all, p.String()+" "+p.Nearest)
	}
	assert.Equal(t, strings.TrimSpace(`
[:allow 0] leaves its root with ".." 
[:allow 1] is not a relative path: it is a prefix below a root 
[:allow 2] holds a NUL character 
[:max-bytes] is not a whole number of 0 or more 
[:maxbytes] is not part of a scope of :fs/write max-bytes
[:mkdirs] is not a boolean 
[:quux] is not part of a scope of :fs/write 
[:roots 0] is not an absolute path`), strings.TrimSpace(strings.Join(all, "\n")))
	for effect, text := range map[string]string{"none": `{}`, "fs/read": `[]`, "net/http": `{:hosts ["*"]}`, "process/run": `{:arguments {"/bin/x" ["("]}}`} {
		_, problems := ParseScope(effect, edn.MustRead(text))
		assert.Len(t, problems, 1, effect)
	}
}

func FuzzToolPath(f *testing.F) {
	for _, s := range []string{"docs/a", "../x", "docs/../..", "/docs", "docs//..//x", "docs/\u0000", "docs/.", "docs\\..\\x", strings.Repeat("docs/", 100)} {
		f.Add(s)
	}
	scope := mustScope(f, "fs/read", readScope)
	tool, _ := ToolNamed("fs/read-file")
	f.Fuzz(func(t *testing.T, name string) {
		v, err := edn.String(name)
		if err != nil {
			return
		}
		p, denied := tool.Place(edn.MustMap(edn.K("path"), v), &scope)
		if denied != nil {
			return
		}
		if p.Path != "docs" && !strings.HasPrefix(p.Path, "docs/") && p.Path != "pub/x" && !strings.HasPrefix(p.Path, "pub/x/") || strings.Contains("/"+p.Path+"/", "/../") {
			t.Fatalf("%q gives %q", name, p.Path)
		}
	})
}

func FuzzToolURL(f *testing.F) {
	for _, s := range []string{"https://api.test/", "https://api.test@evil/", "https://api.test\\@evil/", "https://[::1]/", "https://api.test:443:80/", "https://a.example.com%00.evil/"} {
		f.Add(s)
	}
	scope := mustScope(f, "net/http", webScope)
	tool, _ := ToolNamed("net/http")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := edn.String(text)
		if err != nil {
			return
		}
		got, denied := tool.Target(edn.MustMap(edn.K("url"), v), &scope)
		if denied != nil {
			return
		}
		if got.Host != "api.test" && !strings.HasSuffix(got.Host, ".example.com") && got.Host != "93.184.216.34" || got.Port != 443 && got.Port != 8443 || got.URL.User != nil {
			t.Fatalf("%q goes to %s port %d", text, got.Host, got.Port)
		}
	})
}

func FuzzToolArguments(f *testing.F) {
	for _, s := range []string{"status", "--short", "status\n", "-c", "", "status --x"} {
		f.Add("git", s)
	}
	scope := mustScope(f, "process/run", processScope)
	tool, _ := ToolNamed("process/run")
	f.Fuzz(func(t *testing.T, command, argument string) {
		c, err1 := edn.String(command)
		a, err2 := edn.String(argument)
		if err1 != nil || err2 != nil {
			return
		}
		p, denied := tool.Program(edn.MustMap(edn.K("command"), edn.Vector(c, a)), &scope)
		if denied != nil {
			return
		}
		if p.Command != "/bin/ls" && p.Command != "/usr/bin/git" {
			t.Fatalf("%q runs %q", command, p.Command)
		}
		if p.Command == "/usr/bin/git" && argument != "status" && (!strings.HasPrefix(argument, "--") || strings.Trim(argument[2:], "abcdefghijklmnopqrstuvwxyz") != "") {
			t.Fatalf("git gets %q", argument)
		}
	})
}
