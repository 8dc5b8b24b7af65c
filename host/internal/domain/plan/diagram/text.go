package diagram

import (
	"fmt"
	"strings"
)

// Mermaid returns the diagram as a Mermaid flowchart for Markdown pages.
func (d *Diagram) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TB\n")
	d.mermaid(&b, "", "  ")
	return b.String()
}

// mermaid writes the nodes and edges of one plan. Mermaid ids are positions,
// because a node id may hold characters that are Mermaid syntax.
func (d *Diagram) mermaid(b *strings.Builder, prefix, indent string) {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		text := mermaidText(n.lines())
		if n.Inside == nil {
			left, right := "[", "]"
			if n.Op == "emit" {
				left, right = "([", "])"
			}
			fmt.Fprintf(b, "%s%s%d%s\"%s\"%s\n", indent, prefix+"n", i, left, text, right)
			continue
		}
		name := fmt.Sprintf("%sn%d", prefix, i)
		fmt.Fprintf(b, "%ssubgraph %s[\"%s\"]\n", indent, name, text)
		n.Inside.mermaid(b, name+"_", indent+"  ")
		fmt.Fprintf(b, "%send\n", indent)
	}
	for _, e := range d.Edges {
		arrow := "-->"
		if e.Kind != "slot" {
			arrow = "-. " + e.Kind + " .->"
		}
		fmt.Fprintf(b, "%s%sn%d %s %sn%d\n", indent, prefix, e.From, arrow, prefix, e.To)
	}
}

// mermaidText joins lines; characters that are markup in Mermaid or HTML are
// written as character codes.
func mermaidText(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteString("<br/>")
		}
		for _, r := range line {
			switch r {
			case '"', '<', '>', '&', '#', '`', ';', '*', '_', '\\', '[', ']', '{', '}', '|':
				fmt.Fprintf(&b, "#%d;", r)
			default:
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// DOT returns the diagram as a directed graph for Graphviz.
func (d *Diagram) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotText([]string{d.Plan}))
	b.WriteString("  compound=true\n  node [shape=box, style=rounded, fontname=\"monospace\", fontsize=10]\n  edge [fontname=\"monospace\", fontsize=9]\n")
	d.dot(&b, "", "  ")
	b.WriteString("}\n")
	return b.String()
}

func (d *Diagram) dot(b *strings.Builder, prefix, indent string) {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		name := fmt.Sprintf("%sn%d", prefix, i)
		if n.Inside == nil {
			fmt.Fprintf(b, "%s%s [label=%s]\n", indent, name, dotText(n.lines()))
			continue
		}
		fmt.Fprintf(b, "%ssubgraph cluster_%s {\n%s  label=%s\n", indent, name, indent, dotText(n.lines()))
		// An edge to a cluster needs a node as its end; each cluster has an
		// invisible one.
		fmt.Fprintf(b, "%s  %s [shape=point, style=invis, label=\"\"]\n", indent, name)
		n.Inside.dot(b, name+"_", indent+"  ")
		fmt.Fprintf(b, "%s}\n", indent)
	}
	for _, e := range d.Edges {
		var more []string
		if d.Nodes[e.From].Inside != nil {
			more = append(more, fmt.Sprintf("ltail=cluster_%sn%d", prefix, e.From))
		}
		if d.Nodes[e.To].Inside != nil {
			more = append(more, fmt.Sprintf("lhead=cluster_%sn%d", prefix, e.To))
		}
		if e.Kind != "slot" {
			more = append(more, "style=dashed", "label=\""+e.Kind+"\"")
		}
		fmt.Fprintf(b, "%s%sn%d -> %sn%d", indent, prefix, e.From, prefix, e.To)
		if len(more) > 0 {
			fmt.Fprintf(b, " [%s]", strings.Join(more, ", "))
		}
		b.WriteByte('\n')
	}
}

// dotText returns a quoted string with left-aligned lines.
func dotText(lines []string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, line := range lines {
		b.WriteString(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(short(line)))
		if len(lines) > 1 {
			b.WriteString(`\l`)
		}
	}
	b.WriteByte('"')
	return b.String()
}
