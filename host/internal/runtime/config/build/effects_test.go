package build_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

const anyPlugin = "plugin \"chess\" {\n  command = [\"bin/chess\"]\n}\n"

// FX-001, AUTH-010: grants are decided with the settings of the blocks.
func TestEffectsBlock(t *testing.T) {
	cfg, ds := configtest.Load(t, anyPlugin+`
effects {
  rule "fs/write" { any = ["operator", role.clerk] }
  rule "net/*" { all = ["role/admin"] }
  scope "fs/write" {
    enabled   = true
    roots     = ["/srv/reports"]
    allow     = ["./out/", "out/deep", "in"]
    max_bytes = "1MiB"
  }
  scope "process/run" {
    enabled        = true
    allow_commands = ["/bin/ls"]
    arguments      = { "/bin/ls" = ["-[la]+"] }
    max_timeout    = "1m"
  }
}

role "clerk" {
  scope "fs/write" { allow = ["out/deep"] }
}

capability "chess/engine" {
  plugin = "chess"
  scope "fs/read" { enabled = false }
}
`)
	require.Empty(t, configtest.Types(ds))
	e := cfg.Generation.Effects
	assert.Equal(t, `{:fs/write {:allow ["in" "out"] :append false :enabled true :max-bytes 1048576 :mkdirs true :roots ["/srv/reports"]} `+
		`:process/run {:allow-commands ["/bin/ls"] :allow-cwd [] :arguments {"/bin/ls" [["-[la]+"]]} :enabled true :env-pass [] :max-output 1048576 :max-timeout-ms 60000 :memory 536870912 :processes 16 :timeout-ms 30000}}`,
		e.Host.Value().String())
	assert.Equal(t, `{:fs/write {:allow ["out/deep"]}}`, e.Roles["role/clerk"].Value().String())
	assert.Equal(t, `{:fs/read {:enabled false}}`, e.Capabilities["chess/engine"].Value().String())
	write := e.Rules["fs/write"]
	assert.Equal(t, []string{"role/clerk", "role/operator"}, write.Any)
	assert.Equal(t, "ferment.hcl:6:3", write.Where)
	web, _ := e.Rules.For("net/http")
	assert.Equal(t, []string{policy.RoleAdmin}, web.All, "a rule for the namespace stands in for the shipped one")
	read, _ := e.Rules.For("fs/read")
	assert.Equal(t, []string{policy.RoleAdmin, policy.RoleOperator}, read.Any, "shipped")
}

// Without an effects block every effect is disabled, and the shipped rules apply.
func TestEffectsByDefault(t *testing.T) {
	cfg, ds := configtest.Load(t, anyPlugin)
	require.Empty(t, configtest.Types(ds))
	assert.Empty(t, cfg.Generation.Effects.Host)
	assert.Equal(t, policy.ShippedEffectRules(), cfg.Generation.Effects.Rules)
}

// Each row gives one diagnostic at the place of the mistake.
func TestEffectsProblems(t *testing.T) {
	for text, want := range map[string]string{
		`effects { scope "fs/rite" {} }`:                        `config/unknown-name there is no scope "fs/rite" at 5:9`,
		`effects { scope "db/drop" {} }`:                        `config/unknown-name there is no scope "db/drop" at 5:9`,
		`effects { scope "fs/read" { hosts = [] } }`:            `config/unknown-name unknown attribute "hosts" in effects, scope "fs/read" at 5:21`,
		`effects { scope "fs/read" { allow = ["a", "../b"] } }`: `config/type allow in effects, scope "fs/read" leaves its root with ".." at 5:35`,
		`effects { scope "net/http" { hosts = ["*"] } }`:        `config/type hosts in effects, scope "net/http" is not a host: write a name, an address, or *.suffix at 5:31`,
		"effects { scope \"process/run\" {\n allow_commands = [\"/bin/sh\"]\n arguments = { \"/bin/sh\" = [\"(\"] }\n} }": `config/type arguments in effects, scope "process/run" is not a regular expression: missing closing )`,
		`effects { scope "process/run" { arguments = { "/bin/x" = ["a"] } } }`:                                            `config/dangling-reference arguments in effects, scope "process/run" names "/bin/x", which allow_commands does not have at 5:`,
		`effects { rule "fs/rite" { any = ["admin"] } }`:                                                                  `config/dangling-reference effects, rule "fs/rite" names the unknown effect "fs/rite" at 5:3`,
		`effects { rule "fs/write" { any = ["admn"] } }`:                                                                  `config/dangling-reference effects, rule "fs/write" names the unknown role "admn" at 5:28`,
		`effects { db "main" {} }`:                                                                 `config/missing effects, db "main" lacks the attribute "driver" at 5:3`,
		`effects { db "main" { driver = "sqlite" } }`:                                              `config/missing effects, db "main" has no path, which driver sqlite needs at 5:3`,
		"effects { db \"main\" {\n driver = \"postgres\"\n path = \"a/b\"\n} }":                    `config/missing effects, db "main" has no dsn, which driver postgres needs at 5:3`,
		"effects { db \"main\" {\n driver = \"postgres\"\n dsn = \"postgres://ann@x/y\"\n} }":      `config/type dsn in effects, db "main" is not a secret at 7:8`,
		"effects { db \"main\" {\n driver = \"sqlite\"\n path = \"main.db\"\n} }":                  `config/range effects, db "main" is in a directory with`,
		"effects { db \"main\" {\n driver = \"oracle\"\n path = \"a/b\"\n} }":                      `config/`,
		`effects { scope "db/read" { connections = ["mian"] } }`:                                   `config/dangling-reference effects, scope "db/read" names the unknown db "mian" at 5:36`,
		"role \"x\" {\n scope \"db/write\" { connections = [\"mian\"] }\n}":                        `config/dangling-reference role "x", scope "db/write" names the unknown db "mian" at 5:36`,
		"effects { db \"main\" {\n driver = \"postgres\"\n dsn = secret(\"env:NO_SUCH_DSN\")\n} }": `config/secret-missing effects, db "main": secret env:NO_SUCH_DSN`,
		`effects { secret "x" { value = "plain" } }`:                                               `config/type value in effects, secret "x" is not a secret at 5:24`,
		`role "Big" {}`: `config/syntax "Big" is not a valid label for a role block at 4:6`,
		"effects { scope \"fs/read\" {\n enabled = true\n roots = [\".\"]\n allow = [\"var\"]\n} }": `config/range effects, scope "fs/read" includes`,
		"effects { scope \"fs/write\" {\n enabled = true\n roots = [\".\"]\n allow = [\".\"]\n} }":  `config/range effects, scope "fs/write" includes`,
		"effects { scope \"process/run\" {\n enabled = true\n allow_cwd = [\"/\"]\n} }":             `config/range effects, scope "process/run" includes`,
	} {
		if inner, ok := strings.CutPrefix(text, "effects { "); ok {
			text = "effects {\n  " + strings.TrimSuffix(inner, " }") + "\n}"
		}
		_, ds := configtest.Load(t, anyPlugin+text+"\n")
		if assert.NotEmpty(t, ds, text) {
			got := ds[0].Type + " " + ds[0].Message
			if ds[0].Range != nil {
				got += " at " + ds[0].Range.String()[len("ferment.hcl:"):]
			}
			assert.Contains(t, got, want, text)
		}
	}
}

// FX-012: the directory of a database holds no files of Ferment, and is there
// before its plugin starts.
func TestDirectoriesOfDatabases(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"data", "apart", "etc"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, "data"), filepath.Join(dir, "link")))
	for path, want := range map[string][]string{
		"apart/a.db":      nil,
		"gone/a.db":       {"config/dangling-reference"},
		"data/a.db":       {"config/range"},
		"data/deep/a.db":  {"config/dangling-reference", "config/range"},
		"link/a.db":       {"config/range"},
		"a.db":            {"config/range"},
		"etc/a.db":        {"config/range"},
		"apart/../etc/db": {"config/range"},
	} {
		file := filepath.Join(dir, "etc", "ferment.hcl")
		text := fmt.Sprintf("ferment {\n  data_dir  = %q\n  lock_file = %q\n}\n"+
			"effects {\n  db \"main\" {\n    driver = \"sqlite\"\n    path = %q\n  }\n}\n",
			filepath.Join(dir, "data"), filepath.Join(dir, "data", "lock"), filepath.Join(dir, path))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, ds := config.Load(t.Context(), file, config.Options{Env: func(string) (string, bool) { return "", false }})
		got := []string{}
		for _, d := range ds {
			got = append(got, d.Type)
		}
		assert.ElementsMatch(t, want, got, "%s: %v", path, ds)
	}
}

// FX-001, FX-003, FX-011: the plugin of the database tools gets the connections,
// without their secrets, and a sandbox for those that an enabled scope names. Its
// calls are confined one by one.
func TestDatabasesReachTheirPlugin(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a", "b", "c"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	text := `plugin "db" {
  command = ["/bin/true"]
}
effects {
  db "a" {
    driver = "sqlite"
    path   = "DIR/a/a.db"
  }
  db "b" {
    driver = "sqlite"
    path   = "DIR/b/b.db"
  }
  db "near" {
    driver = "postgres"
    dsn    = secret("env:NEAR")
  }
  db "far" {
    driver = "postgres"
    dsn    = secret("env:FAR")
  }
  db "off" {
    driver = "postgres"
    dsn    = secret("env:OFF")
  }
  scope "db/read" {
    enabled     = true
    connections = ["a", "near", "far"]
  }
  scope "db/write" {
    enabled     = false
    connections = ["b", "off"]
  }
}
`
	file := filepath.Join(dir, "c", "ferment.hcl")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
	dsn := map[string]string{
		"NEAR": "host=" + dir + " user=u password=hidden-password", "FAR": "postgres://u:hidden-password@db.example:6432/x?sslmode=disable",
		"OFF": "host=127.0.0.1 port=9 password=hidden-password",
	}
	tool := func(id, effect string) contract.Capability {
		return contract.Capability{ID: id, Kind: "tool", Version: "1.0.0", Intents: []string{id}, Effects: []string{effect}, CanProduce: []string{"value"},
			InSchema: contract.SchemaRef{Name: "req/any"}, OutSchema: contract.SchemaRef{Name: "res/any"}, Stability: "stable"}
	}
	described := contract.Description{
		Name: "db", Version: "1.0.0", Capabilities: []contract.Capability{tool("db/query", "db/read"), tool("db/exec", "db/write")},
		ConfigSchema: edn.MustRead(`[:map [:enforcement {:optional true} :keyword] [:connections {:optional true} [:map-of :string [:map [:driver :keyword] [:path {:optional true} :string] [:dsn {:optional true :secret true} [:maybe :string]]]]]]`),
	}
	cfg, ds := config.Load(t.Context(), file, config.Options{
		Describer: configtest.Describer{"db": described}, Env: func(name string) (string, bool) { v, ok := dsn[name]; return v, ok },
	})
	require.NotNil(t, cfg, "%v", ds)
	require.Len(t, cfg.Plugins, 1)
	p := cfg.Plugins[0]
	assert.Equal(t, `{"a" {:driver :sqlite :path "`+dir+`/a/a.db"} "b" {:driver :sqlite :path "`+dir+`/b/b.db"} "far" {:driver :postgres :dsn nil} "near" {:driver :postgres :dsn nil} "off" {:driver :postgres :dsn nil}}`,
		p.Config.Key("connections").String())
	assert.Len(t, p.Secrets, 3)
	assert.NotContains(t, fmt.Sprintf("%v %v", p.Config, ds), "hidden-password")
	assert.Equal(t, []string{dir + "/a", dir}, p.Isolation.WritePaths, "not the directory of b, which no enabled scope names")
	assert.Equal(t, []uint16{6432, 53}, p.Isolation.Ports)
	for _, id := range []string{"db/query", "db/exec"} {
		c, ok := cfg.Generation.Registry.Capability(id)
		require.True(t, ok, "%v", ds)
		assert.True(t, c.Confines, id)
	}
}

// FX-012: no scope includes files of Ferment, not even through a symbolic link: data,
// sockets and keys for every effect, configuration, lock file and programs for every
// effect that can write.
func TestOwnPaths(t *testing.T) {
	cert, key := configtest.PEMPair(t, time.Hour)
	for name, row := range map[string]struct {
		effect, scope string // %s is the directory
		own           bool
	}{
		"beside":                     {"fs/write", `roots = ["%s/docs"]; allow = ["."]`, false},
		"data":                       {"fs/read", `roots = ["%s"]; allow = ["data"]`, true},
		"below data":                 {"fs/read", `roots = ["%s"]; allow = ["data/plugins"]`, true},
		"above data":                 {"fs/read", `roots = ["%s"]; allow = ["."]`, true},
		"a root that is a link":      {"fs/read", `roots = ["%s/innocent"]; allow = ["."]`, true},
		"a prefix that is a link":    {"fs/read", `roots = ["%s/docs"]; allow = ["innocent"]`, true},
		"a prefix through a link":    {"fs/write", `roots = ["%s/docs"]; allow = ["innocent/new"]`, true},
		"working directory":          {"process/run", `allow_cwd = ["%s/data"]`, true},
		"working directory, a link":  {"process/run", `allow_cwd = ["%s/innocent"]`, true},
		"socket of operators":        {"fs/read", `roots = ["%s/sockets"]; allow = ["."]`, true},
		"runtime directory":          {"fs/read", `roots = ["%s/xdg"]; allow = ["."]`, true},
		"key of the listeners":       {"fs/read", `roots = ["%s"]; allow = ["pki"]`, true},
		"configuration, to read":     {"fs/read", `roots = ["%s"]; allow = ["etc"]`, false},
		"configuration, to write":    {"fs/write", `roots = ["%s"]; allow = ["etc"]`, true},
		"lock file, to write":        {"fs/write", `roots = ["%s"]; allow = ["lock"]`, true},
		"program, to write":          {"fs/write", `roots = ["%s"]; allow = ["etc/bin"]`, true},
		"program, to run beside":     {"process/run", `allow_cwd = ["%s/etc/bin"]`, true},
		"disabled, whatever is said": {"fs/read", `enabled = false; roots = ["%s/data"]; allow = ["."]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, sub := range []string{"docs", "data", "sockets", "xdg", "pki", "etc/bin", "lock"} {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
			}
			for file, text := range map[string]string{"pki/cert.pem": cert, "pki/key.pem": key, "etc/bin/chess": "program"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o700))
			}
			for _, link := range []string{"innocent", "docs/innocent"} {
				require.NoError(t, os.Symlink(filepath.Join(dir, "data"), filepath.Join(dir, link)))
			}
			scope := strings.ReplaceAll(fmt.Sprintf(row.scope, dir), "; ", "\n")
			if !strings.Contains(scope, "enabled") {
				scope += "\nenabled = true"
			}
			text := strings.ReplaceAll(`ferment {
  data_dir  = "DIR/data"
  lock_file = "DIR/lock/ferment.lock.hcl"
}
http {
  admin_socket = "DIR/sockets/a"
  tls {
    cert_file = "DIR/pki/cert.pem"
    key_file  = "DIR/pki/key.pem"
  }
}
plugin "chess" {
  command = ["DIR/etc/bin/chess"]
}
`, "DIR", dir) + "effects {\n scope \"" + row.effect + "\" {\n" + scope + "\n}\n}\n"
			file := filepath.Join(dir, "etc", "ferment.hcl")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			env := func(name string) (string, bool) { return filepath.Join(dir, "xdg"), name == "XDG_RUNTIME_DIR" }
			_, ds := config.Load(t.Context(), file, config.Options{Describer: configtest.Describer{"chess": configtest.Chess()}, Env: env})
			if row.own {
				require.Equal(t, []string{"config/range"}, configtest.Types(ds), "%v", ds)
				assert.Equal(t, "scope", ds[0].Path[1], "%v", ds[0].Path)
				return
			}
			assert.Empty(t, configtest.Types(ds), "%v", ds)
		})
	}
}
