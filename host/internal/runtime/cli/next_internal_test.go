package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// textsOf calls f with every string literal of the program and its plugins,
// and its place.
func textsOf(t *testing.T, f func(at, text string)) {
	t.Helper()
	for _, folder := range []string{"../../../../host", "../../../../sdk", "../../../../plugins"} {
		require.NoError(t, filepath.WalkDir(folder, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, err := strconv.Unquote(lit.Value)
					require.NoError(t, err)
					f(files.Position(lit.Pos()).String(), text)
				}
				return true
			})
			return nil
		}))
	}
}

var (
	// commandLine matches a command line of ferment in a text.
	commandLine = regexp.MustCompile(`(?m)(?:^|"|: |^  )ferment ((?:[a-z][a-z-]*)(?: [A-Za-z_%./\[\]<>=-]+)*)`)
	// attributePath matches an attribute as BLOCK.ATTRIBUTE, attributeInBlock as BLOCK { ATTRIBUTE = ... }.
	attributePath    = regexp.MustCompile(`(?:^|[ (])(ferment|http|effects)\.([a-z]+_[a-z_]+)\b`)
	attributeInBlock = regexp.MustCompile(`\b([a-z_]+) \{ ([a-z_]+) = `)
)

// CLI-001, ERR-005: commands, flags and attributes that error messages and hints
// name exist.
func TestNextStepsExist(t *testing.T) {
	root := (&command{}).root()
	seen := map[string]int{}
	textsOf(t, func(at, text string) {
		for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "reads ") {
				continue // a sentence
			}
			if seen["command"]++; !isCommand(root, strings.Fields(m[1])) {
				t.Errorf("%s: no command is called by: ferment %s", at, m[1])
			}
		}
		for _, m := range attributePath.FindAllStringSubmatch(text, -1) {
			block, _ := language.Specification().Block(m[1])
			_, isAttr := block.Attr(m[2])
			_, isBlock := block.Block(m[2])
			seen["attribute"]++
			if !isAttr && !isBlock {
				t.Errorf("%s: there is no attribute %s", at, m[0])
			}
		}
		for _, m := range attributeInBlock.FindAllStringSubmatch(text, -1) {
			known, has := anywhere(language.Specification(), m[1], m[2])
			if !known {
				continue // of the lock file, or of a plugin
			}
			if seen["block"]++; !has {
				t.Errorf("%s: there is no %s in a block %s", at, m[2], m[1])
			}
		}
	})
	assert.Greater(t, seen["command"], 40)
	assert.Greater(t, seen["attribute"], 5)
	assert.Greater(t, seen["block"], 3)
}

// isCommand reports whether words begin with a verb and name no flag that it lacks.
func isCommand(root *cobra.Command, words []string) bool {
	cmd, rest, err := root.Find(words)
	if err != nil || cmd == root {
		return false
	}
	if cmd.HasSubCommands() && !cmd.Runnable() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return false
	}
	for _, word := range rest {
		name, ok := strings.CutPrefix(word, "--")
		if name, _, _ = strings.Cut(name, "="); ok && name != "" && name != "help" &&
			cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return false
		}
	}
	return true
}

// anywhere reports whether a block of that name exists, and one with that
// attribute or block, at any depth.
func anywhere(b *language.Block, name, attr string) (known, has bool) {
	for i := range b.Blocks {
		inner := &b.Blocks[i]
		if inner.Name == name {
			_, isAttr := inner.Attr(attr)
			_, isBlock := inner.Block(attr)
			known, has = true, has || isAttr || isBlock || inner.Foreign || inner.Open
		}
		below, there := anywhere(inner, name, attr)
		known, has = known || below, has || there
	}
	return known, has
}
