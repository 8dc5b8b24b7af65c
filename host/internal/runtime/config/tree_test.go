package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// treeOf returns the tree of one file.
func treeOf(name, text string) *node {
	report := newCollector(sources{})
	s := newSource(name, "/"+name, 0, []byte(text))
	return growTree(s, parse(s, report), report)
}

// dump writes everything in a tree that determines its value.
func dump(n *node, indent string, b *strings.Builder) {
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range n.attrs {
			if !yield(k) {
				return
			}
		}
	}) {
		for _, a := range n.attrs[name].stack() {
			fmt.Fprintf(b, "%s%s %s %s\n", indent, name, a.source.Name, sourceText(a.source, a.expr))
		}
	}
	for _, l := range n.layers {
		fmt.Fprintf(b, "%slayer %s\n", indent, l.source.Name)
	}
	for _, block := range n.blocks {
		fmt.Fprintf(b, "%s%s %s", indent, strings.Join(block.path, "."), block.source.Name)
		for _, p := range block.also {
			b.WriteString(" " + p.source.Name)
		}
		b.WriteByte('\n')
		dump(block, indent+"  ", b)
	}
}

func dumped(n *node) string {
	var b strings.Builder
	dump(n, "", &b)
	return b.String()
}

// HCL-014: merge(merge(a, b), c) = merge(a, merge(b, c)), and no operand is
// modified.
func TestMergeIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := treeOf("a.hcl", aFile(t, "a ")), treeOf("b.hcl", aFile(t, "b ")), treeOf("c.hcl", aFile(t, "c "))
		before := dumped(a) + dumped(b) + dumped(c)
		left, right := dumped(merge(merge(a, b), c)), dumped(merge(a, merge(b, c)))
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
		left, right := merge(merge(x, y), z), merge(x, merge(y, z))
		if dumped(left) != dumped(right) {
			t.Fatalf("not associative:\n%s\n%s", dumped(left), dumped(right))
		}
	})
}
