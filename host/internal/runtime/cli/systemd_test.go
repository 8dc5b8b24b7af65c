package cli_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPS-006: the unit file allows writing only where needed, and does not
// restart after errors that need an operator.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "100% mine/ferment.hcl", testProfile+scripted("a", "isolation { write_paths = [\"scratch\"] }")+`
effects {
  scope "fs/write" {
    enabled = true
    roots   = ["data"]
    allow   = ["out"]
  }

  scope "process/run" {
    enabled   = false
    allow_cwd = ["elsewhere"]
  }

  scope "db/write" {
    enabled     = true
    connections = ["notes"]
  }

  db "notes" {
    driver = "sqlite"
    path   = "data/db/notes.db"
  }

  db "other" {
    driver = "sqlite"
    path   = "data/other/notes.db"
  }
}
`, "100% mine/a.edn", script(":t/a", ":t/a", ":in-schema :req/any :out-schema :res/any", `{:value {}}`))
	dir := filepath.Join(w.dir, "100% mine")
	got := w.run("admin", "systemd-unit", "--config", "100% mine/ferment.hcl", "--profile", "test")
	require.Equal(t, 0, got.code, got.stderr)
	lines := map[string]string{}
	for line := range strings.Lines(got.stdout) {
		if key, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			lines[key] = v
		}
	}
	escaped := strings.ReplaceAll(dir, "%", "%%")
	for key, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "ExecReload": "/bin/kill -HUP $MAINPID", "WatchdogSec": "30", "TimeoutStopSec": "45", "KillMode": "mixed", "OOMPolicy": "continue",
		"Delegate": "yes", "Restart": "on-failure", "RestartPreventExitStatus": "64 65 73 77 78", "StateDirectory": "ferment", "RuntimeDirectory": "ferment", "UMask": "0077",
		"NoNewPrivileges": "yes", "ProtectSystem": "strict", "PrivateTmp": "yes", "Environment": "XDG_RUNTIME_DIR=%t/ferment", "LimitNOFILE": "65536",
		"ExecStart":        built.ferment + ` serve --config "` + escaped + `/ferment.hcl" --profile test`,
		"WorkingDirectory": escaped,
		"ReadWritePaths":   `"` + escaped + `/var" -"` + escaped + `/data/db" -"` + escaped + `/data/out" -"` + escaped + `/scratch"`,
	} {
		assert.Equal(t, want, lines[key], key)
	}
	if analyze, err := exec.LookPath("systemd-analyze"); err == nil {
		unit := w.write("ferment.service", got.stdout)
		out, err := exec.Command(analyze, "verify", unit).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	}
}
