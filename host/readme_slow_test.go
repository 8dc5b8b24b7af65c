//go:build slow

package host_test

import (
	"os"
	"path/filepath"
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

// printedBy runs the blocks of a page that start a daemon, and returns what they
// print.
func printedBy(t *testing.T, page string) (out string) {
	r := newReader(t)
	var blocks []string
	for _, f := range fencesOf(t, page) {
		if f.language == "sh" && strings.Contains(f.text, "bin/ferment serve") {
			blocks = append(blocks, f.text)
		}
	}
	require.NotEmpty(t, blocks)
	config, err := os.ReadFile(filepath.Join(r.dir, "ferment.hcl"))
	require.NoError(t, err)
	config = append(config, "http {\n  listen = [\"127.0.0.1:0\"]\n}\n"...)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "ferment.hcl"), config, 0o644))
	for _, lines := range blocks {
		printed, err := r.shell(t, r.dir, lines)
		require.NoError(t, err, printed)
		out += printed
	}
	return out
}

// SES-014, SES-030, as the page on sessions shows it to a reader: a session is there
// in the next daemon, an act gets its language, and it can be deleted.
func TestSessionsAsShown(t *testing.T) {
	out := printedBy(t, "docs/sessions.md")
	assert.Regexp(t, `(?m)^talk  version 1  hot  owner uid/`, out)
	assert.Regexp(t, `(?m)^talk +warm +3 +uid/`, out)
	assert.Contains(t, out, `:move "d1d8"`)
	assert.Contains(t, out, ":language :pl\n")
	assert.Regexp(t, `(?m)^session/context-summary = "a game"  until `, out)
	assert.Regexp(t, `(?m)^talk  version 4  deleted `, out)
}

// JRN-040, RUN-010, as the page on durability proves it to a reader: a run that was
// cut by kill -9 is finished by the next daemon, and a job is followed to its answer.
func TestDurabilityAsShown(t *testing.T) {
	out := printedBy(t, "docs/durability.md")
	assert.Regexp(t, `(?m)^run_\S+ +open `, out)
	assert.Regexp(t, `(?m)^  resumed .* after a crash of its host`, out)
	assert.Contains(t, out, "1 run verified, none damaged")
	assert.Regexp(t, `(?m)^run_\S+: completed$`, out)
	assert.Regexp(t, `(?m)^run_\S+: queued; "ferment runs watch run_\S+" follows it$`, out)
	assert.Contains(t, out, `:move "d1d8"`)
}
