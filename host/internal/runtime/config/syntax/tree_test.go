package syntax_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
)

// treeOf returns the tree of one file.
func treeOf(name, text string) *syntax.Node {
	report := diag.NewCollector(diag.Sources{})
	s := diag.NewSource(name, "/"+name, 0, []byte(text))
	return syntax.Tree(s, syntax.Parse(s, report), report)
}

// dump writes everything in a tree that determines its value.
func dump(n *syntax.Node, indent string, b *strings.Builder) {
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range n.Attrs {
			if !yield(k) {
				return
			}
		}
	}) {
		for _, a := range n.Attrs[name].Stack() {
			fmt.Fprintf(b, "%s%s %s %s\n", indent, name, a.Source.Name, syntax.SourceText(a.Source, a.Expr))
		}
	}
	for _, l := range n.Layers {
		fmt.Fprintf(b, "%slayer %s\n", indent, l.Source.Name)
	}
	for _, block := range n.Blocks {
		fmt.Fprintf(b, "%s%s %s", indent, strings.Join(block.Path, "."), block.Source.Name)
		for _, p := range block.Also {
			b.WriteString(" " + p.Source.Name)
		}
		b.WriteByte('\n')
		dump(block, indent+"  ", b)
	}
}

func dumped(n *syntax.Node) string {
	var b strings.Builder
	dump(n, "", &b)
	return b.String()
}

// HCL-014: merge(merge(a, b), c) = merge(a, merge(b, c)), and no operand is
// modified.
func TestMergeIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := treeOf("a.hcl", configtest.AFile(t, "a ")), treeOf("b.hcl", configtest.AFile(t, "b ")), treeOf("c.hcl", configtest.AFile(t, "c "))
		before := dumped(a) + dumped(b) + dumped(c)
		left, right := dumped(syntax.Merge(syntax.Merge(a, b), c)), dumped(syntax.Merge(a, syntax.Merge(b, c)))
		if left != right {
			t.Fatalf("not associative:\n%s\n%s", left, right)
		}
		if dumped(a)+dumped(b)+dumped(c) != before {
			t.Fatalf("an operand was changed")
		}
	})
}

// FuzzMerge: merging three files is associative (HCL-014).
func FuzzMerge(f *testing.F) {
	f.Add("plugin \"a\" {\n  env = { A = 1 }\n  config {\n    x = 1\n    y \"l\" {}\n  }\n}\n", "plugin \"a\" {\n  env = { (local.a) = 2 }\n}\n", "plugin \"a\" {\n  config = 3\n}\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if len(a)+len(b)+len(c) > 8192 {
			return
		}
		x, y, z := treeOf("a.hcl", a), treeOf("b.hcl", b), treeOf("c.hcl", c)
		left, right := syntax.Merge(syntax.Merge(x, y), z), syntax.Merge(x, syntax.Merge(y, z))
		if dumped(left) != dumped(right) {
			t.Fatalf("not associative:\n%s\n%s", dumped(left), dumped(right))
		}
	})
}
