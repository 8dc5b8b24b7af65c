//go:build slow

package host_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// HCL-011, EMB-009: every command and configuration in the documents works as it stands, or says why it cannot be
// run here.
func TestDocuments(t *testing.T) {
	r := newReader(t)
	skipped := 0
	for _, document := range documents(t) {
		for i, f := range fencesOf(t, document) {
			if f.skipped != "" {
				skipped++
				continue
			}
			if slices.Contains(shown, f.language) {
				continue
			}
			run := map[string]func(*testing.T, fence){
				"sh": r.commands, "console": r.console, "hcl": r.configuration, "edn": r.value, "json": r.json, "go": r.program,
			}[f.language]
			require.NotNil(t, run, "%s has a sample in %s, for which there is no rule", document, f.language)
			t.Run(strings.TrimPrefix(document, "../")+" "+f.language+" "+string(rune('a'+i)), func(t *testing.T) { run(t, f) })
		}
	}
	assert.LessOrEqual(t, skipped, 3, "samples that cannot be run stay rare")
}
