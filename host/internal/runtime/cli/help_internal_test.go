package cli

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
)

// helped runs the program with arguments that need no files.
func helped(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = Main(Env{
		Args:   args,
		Stdin:  strings.NewReader(""),
		Stdout: &out,
		Stderr: &err,
		Getenv: func(string) (string, bool) { return "", false },
	})
	return code, out.String(), err.String()
}

// CLI-001: the help of each command fits a screen, and help and --help agree.
func TestHelpFits(t *testing.T) {
	var every func(*cobra.Command) int
	every = func(cmd *cobra.Command) (n int) {
		verb := strings.Fields(cmd.CommandPath())[1:]
		code, text, _ := helped(append(verb, "--help")...)
		assert.Equal(t, exit.Done, code, verb)
		for line := range strings.Lines(text) {
			assert.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), diag.Columns, "%s: %s", verb, line)
		}
		_, same, _ := helped(append([]string{"help"}, verb...)...)
		assert.Equal(t, text, same, verb)
		for _, sub := range cmd.Commands() {
			n += every(sub)
		}
		return n + 1
	}
	root := (&command{}).root()
	assert.Greater(t, every(root), len(root.Commands()))
}

// each calls f with every command below cmd.
func each(cmd *cobra.Command, f func(verb []string, cmd *cobra.Command)) {
	for _, sub := range cmd.Commands() {
		f(strings.Fields(sub.CommandPath())[1:], sub)
		each(sub, f)
	}
}

// CLI-002: a command group alone is a usage error, and so is an unknown
// subcommand.
func TestGroupsOfVerbs(t *testing.T) {
	groups := 0
	each((&command{}).root(), func(verb []string, cmd *cobra.Command) {
		if !cmd.HasAvailableSubCommands() || slices.Contains([]string{"conform", "prices", "backup"}, cmd.Name()) {
			return // not a group, or runnable itself
		}
		groups++
		for _, args := range [][]string{verb, append(slices.Clone(verb), "nonesuch")} {
			code, stdout, stderr := helped(args...)
			assert.Equal(t, exit.Usage, code, args)
			assert.Empty(t, stdout, args)
			assert.Contains(t, stderr, "ferment "+strings.Join(verb, " ")+" --help", args)
		}
	})
	assert.Greater(t, groups, 7)
}

// CLI-002: the error for an invalid flag value describes the expected value.
func TestValuesOfFlags(t *testing.T) {
	flags := 0
	each((&command{}).root(), func(verb []string, cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "string" || strings.HasPrefix(f.Value.Type(), "string") && f.Value.Type() != "stringToString" {
				return
			}
			flags++
			code, stdout, stderr := helped(append(slices.Clone(verb), "--"+f.Name+"=@")...)
			assert.Contains(t, []int{exit.Usage, daemon.ExitUsage}, code, "%s --%s", verb, f.Name)
			assert.Empty(t, stdout, "%s --%s", verb, f.Name)
			assert.Contains(t, stderr, "expected ", "%s --%s", verb, f.Name)
			assert.NotContains(t, stderr, "strconv", "%s --%s", verb, f.Name)
		})
	})
	assert.Greater(t, flags, 30)
}

// CLI-002: asking for help on an unknown command is a usage error that names
// the nearest command.
func TestHelpOfNoVerb(t *testing.T) {
	for words, nearest := range map[string]string{
		"plan":                   "",
		"plugin locc":            "ferment plugin lock",
		"plugin lock everything": "",
		"lock":                   "ferment plugin lock",
	} {
		for _, args := range [][]string{
			append([]string{"help"}, strings.Fields(words)...),
			append(strings.Fields(words), "--help"),
		} {
			if args[0] != "help" && strings.HasPrefix(words, "plugin lock ") {
				continue // --help belongs to that command, which takes arguments
			}
			code, stdout, stderr := helped(args...)
			assert.Equal(t, exit.Usage, code, args)
			assert.Empty(t, stdout, args)
			assert.Equal(t, nearest != "", strings.Contains(stderr, "did you mean "), "%s: %s", args, stderr)
			assert.Contains(t, stderr, nearest, args)
		}
	}
}

// CLI-001: a command line requests one output format, repeatedly if wanted.
func TestOneForm(t *testing.T) {
	for args, code := range map[string]int{
		"version --json --edn":       exit.Usage,
		"version -o json --edn":      exit.Usage,
		"version --json -o json":     exit.Done,
		"version --json --edn=false": exit.Done,
	} {
		got, _, _ := helped(strings.Fields(args)...)
		assert.Equal(t, code, got, args)
	}
}

// destructive are the verbs that delete, revoke or stop something that they cannot bring
// back, and whether they have --dry-run.
var destructive = map[string]bool{
	"admin drain":          false,
	"admin gc":             true,
	"admin journal-repair": true,
	"admin migrate":        true, // to a lower version
	"admin restore":        true,
	"admin rollback":       true,
	"role delete":          true,
	"role revoke":          true,
	"runs purge":           true,
	"session del":          false, // with --all
	"session delete":       false,
	"token revoke":         true,
	"user delete":          true,
	"user lock":            true,
	"workspace compact":    true,
	"workspace delete":     true,
	"workspace import":     true, // what is there is replaced
	"workspace repair":     true,
}

// CLI-005: each verb that destroys something asks, and --yes answers. A verb whose words say
// that it takes something away is one of these, or one that can be taken back.
func TestDestructiveVerbs(t *testing.T) {
	reversible := []string{
		"plugin quarantine", // plugin release
		"plugin drain",      // plugin release
		"plugin restart",
		"runs cancel", // a run is what it stops; its records stay
		"workspace restore",
		"workspace ignore remove",
		"workspace snapshot remove", // the state stays
	}
	takes := regexp.MustCompile(`\b(delete|remove|revoke|purge|drain|rollback|restore|repair|lock an|drop|cancel|quarantine|expire|stop the daemon)\b`)
	found := 0
	each((&command{}).root(), func(verb []string, cmd *cobra.Command) {
		name := strings.Join(verb, " ")
		dry, listed := destructive[name]
		if listed {
			found++
			assert.Equal(t, dry, cmd.Flags().Lookup("dry-run") != nil, "%s --dry-run", name)
		}
		assert.Equal(t, listed, cmd.Flags().Lookup("yes") != nil, "%s --yes", name)
		if !cmd.HasSubCommands() && takes.MatchString(verb[len(verb)-1]+" "+cmd.Short) {
			assert.True(t, listed || slices.Contains(reversible, name), "%s: %s", name, cmd.Short)
		}
	})
	assert.Equal(t, len(destructive), found)
	for _, args := range [][]string{{"admin", "drain"}, {"session", "delete", "talk"}, {"session", "del", "talk", "--all"}, {"user", "lock", "ann"}} {
		code, _, stderr := helped(args...)
		assert.Equal(t, exit.Usage, code, args)
		assert.Contains(t, stderr, "--yes", args)
	}
}
