package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// A tree lists each node before those within it, in the order of the plan, and
// leaves out nodes that only computed a value and what exceeds a screen, but no
// failure.
func TestNodesOfRun(t *testing.T) {
	node := func(path, state, attempts string) edn.Value {
		return edn.MustRead(fmt.Sprintf(`{:path %s :node "n" :op :call :state :%s :attempts %s :gates []}`, path, state, attempts))
	}
	const called = `[{:attempt 1 :cap/id :a/b :outcome :ok}]`
	var b strings.Builder
	nodesText(&b, edn.Vector(
		node(`[2]`, "committed", `[]`),
		node(`[1 "i10" 0]`, "committed", called),
		node(`[1 "i9" 0]`, "unfinished", called),
		node(`[10]`, "failed", `[]`),
		node(`[1]`, "committed", `[]`),
	))
	var got []string
	for line := range strings.Lines(b.String()) {
		if !strings.Contains(line, "attempt") {
			got = append(got, strings.Fields(line)[0])
		}
	}
	assert.Equal(t, []string{"1", "1.i9.0", "1.i10.0", "10"}, got)

	many := make([]edn.Value, 0, 2*shownNodes)
	for i := range 2 * shownNodes {
		many = append(many, node(fmt.Sprintf("[%d]", i), "committed", called))
	}
	many = append(many, node("[1000]", "failed", called))
	b.Reset()
	nodesText(&b, edn.Vector(many...))
	assert.Equal(t, shownNodes+1, strings.Count(b.String(), "attempt 1"))
	assert.Contains(t, b.String(), "1000 n")
}

func TestSinceWhen(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"90m":                  now.Add(-90 * time.Minute),
		"7d":                   now.AddDate(0, 0, -7),
		"2026-11-19":           now.Truncate(24*time.Hour).AddDate(0, 0, -1),
		"2026-11-20T08:00:00Z": now.Add(-time.Hour),
	} {
		got, err := sinceWhen(text, now)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"-1h", "yesterday", "d", "-1d", ""} {
		_, err := sinceWhen(text, now)
		var usage usageError
		assert.ErrorAs(t, err, &usage, text)
	}
}
