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
		`effects { db "main" {} }`:                             `config/reserved "db" in effects is not supported: tools for databases is not part of this build at 5:3`,
		`effects { scope "fs/write" { on_unknown = "fail" } }`: `config/reserved "on_unknown" in effects, scope "fs/write" is not supported: another treatment of unknown outcomes than that of the intent is not part of this build at 5:22`,
		`effects { secret "x" { value = "plain" } }`:           `config/type value in effects, secret "x" is not a secret at 5:24`,
		`role "Big" {}`:                 `config/syntax "Big" is not a valid label for a role block at 4:6`,
		`role "x" { max_priority = 3 }`: `config/reserved "max_priority" in role "x" is not supported: limits of priorities is not part of this build at 4:12`,
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
