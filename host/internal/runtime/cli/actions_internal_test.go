package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
)

// VerbsOfActions is the command of each admin action but plugin-logs.
var VerbsOfActions = []struct{ Action, Verb string }{
	{"status", "status"},
	{"plugin-list", "plugin list"},
	{"plugin-inspect", "plugin inspect mine"},
	{"plugin-restart", "plugin restart mine"},
	{"plugin-swap", "plugin swap mine"},
	{"plugin-drain", "plugin drain mine"},
	{"plugin-release", "plugin release mine"},
	{"plugin-quarantine", "plugin quarantine mine"},
	{"plugin-approve", "plugin approve mine"},
	{"plugin-attach", "dev attach mine absent"},
	{"plugin-detach", "dev detach mine"},
	{"config-show", "config show --running"},
	{"explain", "explain mine/data"},
	{"protocol-export", "protocol export"},
	{"events", "admin events"},
	{"audit", "admin audit"},
	{"log-level", "admin log-level"},
	{"config-diff", "diff"},
	{"budget-show", "admin budget show"},
	{"budget-adjust", "admin budget adjust --tenant --grant {:attempts,1}"},
	{"judge-list", "judge list"},
	{"judge-calibrate", "judge calibrate grader"},
	{"runs-list", "runs list"},
	{"runs-show", "runs show last"},
	{"runs-records", "runs records last"},
	{"runs-diff", "runs diff last last"},
	{"runs-verify", "runs verify"},
	{"runs-replay", "runs replay last"},
	{"runs-export", "runs export last"},
	{"runs-import", "runs import run.edn"},
	{"runs-pin", "runs pin last"},
	{"runs-unpin", "runs unpin last"},
	{"runs-purge", "runs purge last --yes"},
	{"runs-cancel", "runs cancel last"},
	{"runs-resume", "runs resume last"},
	{"runs-stats", "runs stats"},
	{"dispatch-stats", "dispatch stats"},
	{"breaker-reset", "dispatch reset mine/data"},
	{"runs-interrupts", "runs interrupts"},
	{"runs-answer", "runs answer last 1"},
	{"create-user", "user add ann --no-password"},
	{"list-users", "user list"},
	{"show-user", "user show ann"},
	{"set-password", "user passwd ann"},
	{"lock-user", "user lock ann --yes"},
	{"unlock-user", "user unlock ann"},
	{"reset-login-attempts", "user reset ann"},
	{"list-roles", "role list"},
	{"list-known-roles", "role known"},
	{"create-role", "role create night --include operator"},
	{"delete-role", "role delete night --yes"},
	{"grant-role", "role grant ann operator"},
	{"revoke-role", "role revoke ann operator --yes"},
	{"token-create", "token create ann"},
	{"token-list", "token list"},
	{"token-revoke", "token revoke abcdefgh --yes"},
	{"delete-user", "user delete ann --yes"},
	{"backup", "admin backup made"},
	{"gc", "admin gc --yes"},
	{"db-status", "admin db-status"},
	{"migrate-db", "admin migrate"},
	{"rollback-db", "admin rollback"},
	{"config-reload", "admin reload"},
	{"drain", "admin drain --yes"},
}

// CLI-003, CLI-007: --server is refused only by the commands of actions that name files of
// this machine. No daemon answers here.
func TestServerTakesEveryAction(t *testing.T) {
	local := map[string]bool{"dev attach mine absent": true, "dev detach mine": true, "judge calibrate grader": true, "runs import run.edn": true,
		"admin backup made": true}
	for _, row := range append(VerbsOfActions, struct{ Action, Verb string }{"plugin-logs", "plugin logs mine"},
		struct{ Action, Verb string }{"backup", "admin backup"}) {
		var stderr strings.Builder
		code := Main(Env{
			Args:   append([]string{"--server", "http://127.0.0.1:1"}, strings.Fields(row.Verb)...),
			Stdin:  strings.NewReader("four small new words\n"),
			Stdout: &strings.Builder{},
			Stderr: &stderr,
			Dir:    t.TempDir(),
			Getenv: func(string) (string, bool) { return "", false },
		})
		want := exit.Environment
		if local[row.Verb] {
			want = exit.Usage
		}
		assert.Equal(t, want, code, "%s: %s", row.Verb, &stderr)
	}
}
