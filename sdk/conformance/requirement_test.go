package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/wire"
)

var update = flag.Bool("update", false, "write the golden files")

// frozen is the file that holds the requirements of a protocol revision.
func frozen() string {
	return filepath.Join("testdata", fmt.Sprintf("requirements-%d.txt", wire.Protocol))
}

// CONF-002: within one protocol revision a requirement is neither changed nor
// removed, even with -update; new ones are added to the file by -update.
func TestRequirementsAreFrozen(t *testing.T) {
	lines := map[string]string{}
	for _, r := range Requirements() {
		assert.Regexp(t, regexp.MustCompile(`^[A-Z]+-\d{3}$`), r.ID)
		assert.NotContains(t, lines, r.ID, "two requirements have one id")
		assert.Contains(t, Profiles(), r.Profile, r.ID)
		assert.NotEmpty(t, r.Spec, r.ID)
		assert.True(t, strings.HasSuffix(r.Text, "."), "%s is not a sentence", r.ID)
		lines[r.ID] = fmt.Sprintf("%s\t%s\t%s\t%s", r.ID, r.Profile, strings.Join(r.Spec, " "), r.Text)
	}
	text, err := os.ReadFile(frozen())
	if !os.IsNotExist(err) || !*update {
		require.NoError(t, err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		id, _, _ := strings.Cut(line, "\t")
		known[id] = true
		assert.Equal(t, line, lines[id], "requirement %s is frozen for protocol revision %d", id, wire.Protocol)
	}
	var added []string
	for _, r := range Requirements() {
		if !known[r.ID] {
			added = append(added, lines[r.ID])
		}
	}
	if *update && !t.Failed() && len(added) > 0 {
		require.NoError(t, os.WriteFile(frozen(), []byte(string(text)+strings.Join(added, "\n")+"\n"), 0o644)) // part of the source
		return
	}
	assert.Empty(t, added, "run this test with -update to add what is new")
}

// CONF-002: the table of requirements and their checks is current, and every
// requirement has a check.
func TestEveryRequirementHasACheck(t *testing.T) {
	checks := map[string][]string{}
	for _, c := range Checks() {
		for _, id := range c.Requirements {
			checks[id] = append(checks[id], c.ID)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Requirements on a plugin, protocol revision %d\n\n", wire.Protocol)
	b.WriteString("Made by a test of package conformance from the table in requirement.go. The first\n")
	b.WriteString("column never changes within the revision.\n")
	var without []string
	for _, profile := range Profiles() {
		fmt.Fprintf(&b, "\n## %s\n\n| requirement | a plugin | checks |\n|---|---|---|\n", profile)
		for _, r := range Requirements() {
			if r.Profile != profile {
				continue
			}
			if len(checks[r.ID]) == 0 {
				without = append(without, r.ID)
			}
			names := make([]string, len(checks[r.ID]))
			for i, id := range checks[r.ID] {
				names[i] = "`" + id + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r.ID, r.Text, strings.Join(names, " "))
		}
	}
	b.WriteString("\n## Without a check\n\n")
	if len(without) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString(strings.Join(without, ", ") + "\n")
	}
	const path = "REQUIREMENTS.md"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644)) // part of the source
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, b.String(), string(text), "run this test with -update")
	assert.Empty(t, without)
}
