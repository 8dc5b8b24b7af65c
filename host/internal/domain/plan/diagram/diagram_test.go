package diagram

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

// overlap reports whether two boxes share a point.
func overlap(a, b *box) bool {
	return a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h
}

// anyDiagram draws an acyclic diagram with nested plans.
func anyDiagram(t *rapid.T, depth int) *Diagram {
	n := rapid.IntRange(0, 12).Draw(t, "nodes")
	d := &Diagram{Plan: rapid.String().Draw(t, "plan"), Mode: "hybrid", Nodes: make([]Node, n)}
	order := rapid.Permutation(seq(n)).Draw(t, "order") // edges may lead to earlier nodes
	for i := range d.Nodes {
		d.Nodes[i] = Node{ID: rapid.String().Draw(t, "id"), Op: rapid.SampledFrom([]string{"call", "tool", "let", "emit"}).Draw(t, "op"), Must: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "must")}
		if depth > 0 && rapid.IntRange(0, 5).Draw(t, "inside") == 0 {
			d.Nodes[i].Op, d.Nodes[i].Inside = "plan", anyDiagram(t, depth-1)
		}
		for j := range i {
			if rapid.IntRange(0, 3).Draw(t, "edge") == 0 {
				d.Edges = append(d.Edges, Edge{From: order[j], To: order[i], Kind: rapid.SampledFrom([]string{"slot", "when", "needs"}).Draw(t, "kind")})
			}
		}
	}
	return d
}

func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// CHECK-002: in a picture no two boxes overlap, each lies inside the picture,
// and every line leads down from one box to another.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { sound(t, place(anyDiagram(t, 2))) })
}

func sound(t require.TestingT, p *placed) {
	for i := range p.boxes {
		a := &p.boxes[i]
		require.True(t, a.x >= 0 && a.y >= 0 && a.x+a.w <= p.width && a.y+a.h <= p.height, "box %d %v outside of %d x %d", i, a, p.width, p.height)
		for j := range i {
			require.False(t, overlap(a, &p.boxes[j]), "boxes %d and %d overlap: %v %v", j, i, &p.boxes[j], a)
		}
		if a.inside != nil {
			require.LessOrEqual(t, a.inside.width+2*padding, a.w)
			require.LessOrEqual(t, len(a.lines)*lineHeight+padding+a.inside.height, a.h)
			sound(t, a.inside)
		}
	}
	for k, e := range p.Edges {
		route, from, to := p.routes[k], &p.boxes[e.From], &p.boxes[e.To]
		require.Equal(t, from.y+from.h, route[0].y)
		require.Equal(t, to.y, route[len(route)-1].y)
		for i := 1; i < len(route); i++ {
			require.Greater(t, route[i].y, route[i-1].y-1, "edge %d goes up", k)
		}
		for i := 0; i+1 < len(route); i += 2 { // a segment beside the boxes of a layer
			for b := range p.boxes {
				box := &p.boxes[b]
				passes := b != e.From && route[i].x > box.x && route[i].x < box.x+box.w && box.y < route[i+1].y && route[i].y < box.y+box.h
				require.False(t, passes, "edge %d passes through box %d", k, b)
			}
		}
	}
}

// CHECK-002: for every plan, the picture is XML that contains its texts, and no
// text of a plan becomes markup.
func TestSVGIsXML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDiagram(t, 2)
		svg := d.SVG()
		require.Equal(t, svg, d.SVG())
		decoder := xml.NewDecoder(strings.NewReader(svg))
		known := map[string]bool{"svg": true, "title": true, "defs": true, "marker": true, "path": true, "rect": true, "text": true}
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if start, ok := token.(xml.StartElement); ok {
				require.True(t, known[start.Name.Local], start.Name.Local)
			}
		}
	})
}

// nasty is a plan whose texts contain markup of each language.
func nasty() *Diagram {
	return &Diagram{Plan: `a"b\`, Mode: "hybrid", Nodes: []Node{
		{ID: `x"]; end <b>`, Op: "call", Of: "t/a", As: "a", Candidates: []string{"t/one", "t/two"}, Must: []string{"legal-move"}, Strategy: "race", Repair: 2},
		{ID: "each", Op: "map", Over: edn.K("a"), Inside: &Diagram{Plan: "body", Nodes: []Node{{ID: "n0", Op: "let", As: "b"}, {ID: "n1", Op: "emit"}}, Edges: []Edge{{0, 1, "slot"}}}},
		{ID: "n2", Op: "emit", When: edn.MustMap(edn.K("present?"), edn.K("a"))},
	}, Edges: []Edge{{0, 1, "slot"}, {1, 2, "needs"}}}
}

// CHECK-002: the text forms escape characters that are syntax in them.
func TestTextForms(t *testing.T) {
	assert.Equal(t, `flowchart TB
  n0["x#34;#93;#59; end #60;b#62;  call :t/a<br/>race of<br/>1. t/one<br/>2. t/two<br/>must legal-move<br/>repair 2 times<br/>as :a"]
  subgraph n1["each  map<br/>over :a"]
    n1_n0["n0  let<br/>as :b"]
    n1_n1(["n1  emit"])
    n1_n0 --> n1_n1
  end
  n2(["n2  emit<br/>when #123;:present? :a#125;"])
  n0 --> n1
  n1 -. needs .-> n2
`, nasty().Mermaid())
	assert.Equal(t, `digraph "a\"b\\" {
  compound=true
  node [shape=box, style=rounded, fontname="monospace", fontsize=10]
  edge [fontname="monospace", fontsize=9]
  n0 [label="x\"]; end <b>  call :t/a\lrace of\l1. t/one\l2. t/two\lmust legal-move\lrepair 2 times\las :a\l"]
  subgraph cluster_n1 {
    label="each  map\lover :a\l"
    n1 [shape=point, style=invis, label=""]
    n1_n0 [label="n0  let\las :b\l"]
    n1_n1 [label="n1  emit"]
    n1_n0 -> n1_n1
  }
  n2 [label="n2  emit\lwhen {:present? :a}\l"]
  n0 -> n1 [lhead=cluster_n1]
  n1 -> n2 [ltail=cluster_n1, style=dashed, label="needs"]
}
`, nasty().DOT())
}

// Section 15: the largest plan is drawn in bounded time, even if every node
// waits for every earlier one.
func TestLargestPlan(t *testing.T) {
	const n = 1000
	d := &Diagram{Plan: "large", Nodes: make([]Node, n)}
	for i := range d.Nodes {
		d.Nodes[i] = Node{ID: fmt.Sprintf("n%d", i), Op: "let"}
		for j := max(0, i-20); j < i; j++ {
			d.Edges = append(d.Edges, Edge{j, i, "slot"})
		}
	}
	p := place(d)
	assert.Len(t, p.routes, len(d.Edges))
	assert.Equal(t, p.boxes[n-1].y+p.boxes[n-1].h, p.height, "a chain is as high as it is long")
}
