package language

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The table of reserved names has blocks of the top level, which the
// specification does not have (a test of config loads them), and below it only
// what the specification has.
func TestReservedTable(t *testing.T) {
	known := map[string]bool{}
	var walk func(b *Block, path string)
	walk = func(b *Block, path string) {
		for _, a := range b.Attrs {
			known[Join(path, a.Name)] = true
		}
		for i := range b.Blocks {
			known[Join(path, b.Blocks[i].Name)] = true
			walk(&b.Blocks[i], Join(path, b.Blocks[i].Name))
			for k := range b.Blocks[i].Variants {
				walk(&b.Blocks[i].Variants[k], Join(path, b.Blocks[i].Name))
			}
		}
	}
	walk(Specification(), "")
	var top []string
	for _, r := range reservedTable {
		assert.NotEmpty(t, r.What, r.path)
		if !strings.Contains(r.path, ".") {
			top = append(top, r.path)
			continue
		}
		assert.True(t, known[r.path], "the specification has no %s", r.path)
	}
	slices.Sort(top)
	assert.Equal(t, []string{
		"cluster", "error", "workspace",
	}, top)
}
