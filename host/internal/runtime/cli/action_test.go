package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// leaves lists the commands below verb that have no subcommands.
func leaves(t *testing.T, w *world, verb string) []string {
	help := w.run(append(strings.Fields(verb), "--help")...)
	require.Equal(t, 0, help.code, help.stderr)
	var all []string
	for _, sub := range section(help.stdout, "Available Commands:") {
		all = append(all, leaves(t, w, strings.TrimSpace(verb+" "+strings.Fields(sub)[0]))...)
	}
	if len(all) == 0 {
		return []string{verb}
	}
	return all
}
