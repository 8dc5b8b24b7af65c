package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/contract"
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

// CLI-001: the help of each verb fits a screen, whichever way it is asked for.
func TestHelpFits(t *testing.T) {
	var every func(*cobra.Command) int
	every = func(cmd *cobra.Command) (n int) {
		verb := strings.Fields(cmd.CommandPath())[1:]
		code, text, _ := helped(append(verb, "--help")...)
		assert.Equal(t, contract.ExitDone, code, verb)
		for line := range strings.Lines(text) {
			assert.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), tableWidth, "%s: %s", verb, line)
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

// CLI-002: asking for help on an unknown verb is a usage error that names the nearest verb.
func TestHelpOfNoVerb(t *testing.T) {
	for words, nearest := range map[string]string{
		"plan":                   "",
		"plugin locc":            "ferment plugin lock",
		"plugin lock everything": "",
		"lock":                   "ferment plugin lock",
	} {
		code, stdout, stderr := helped(append([]string{"help"}, strings.Fields(words)...)...)
		assert.Equal(t, contract.ExitUsage, code, words)
		assert.Empty(t, stdout, words)
		assert.Equal(t, nearest != "", strings.Contains(stderr, "did you mean "), words+": "+stderr)
		assert.Contains(t, stderr, nearest, words)
	}
}
