package cli_test

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// startedBy runs a command with --progress edn and returns the started
// plugins, sorted.
func (w *world) startedBy(args ...string) (started []string, got ended) {
	w.t.Helper()
	got = w.run(append(args, "--progress", "edn")...)
	for line := range strings.Lines(got.stderr) {
		v, err := edn.ReadString(line)
		if e := (event{Value: v}); err == nil && e.word("event") == "plugin" && e.word("to") == "starting" {
			started = append(started, e.word("plugin"))
		}
	}
	slices.Sort(started)
	return slices.Compact(started), got
}
