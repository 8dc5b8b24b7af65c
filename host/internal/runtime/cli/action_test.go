package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// CLI-002: the help of admin action lists every action, as the hint about an unknown one says.
func TestHelpListsTheActions(t *testing.T) {
	help := newWorld(t).run("admin", "action", "--help")
	require.Equal(t, 0, help.code, help.stderr)
	listed := strings.FieldsFunc(help.stdout, func(r rune) bool { return strings.ContainsRune(" ,.\n", r) })
	for _, a := range httpapi.Actions() {
		assert.Contains(t, listed, a.Name)
	}
}

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
