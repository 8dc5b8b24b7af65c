package diagram

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Dimensions of a drawing, in SVG user units.
const (
	letterQuarters = 29 // width of four letters of the monospace font
	lineHeight     = 16
	padding        = 12
	gapAcross      = 28
	gapDown        = 44
	margin         = 16
)

// fills are the colors of boxes by op; others are white.
var fills = map[string]string{"call": "#e8f0fe", "tool": "#fdecea", "emit": "#e6f4ea", "plan": "#f8f9fa", "map": "#f8f9fa"}

// SVG returns the diagram as an SVG picture for browsers.
func (d *Diagram) SVG() string {
	p := place(d)
	w, h := p.width+2*margin, p.height+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, "<title>plan %s</title>\n", xmlText(short(d.Plan)))
	b.WriteString(`<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#5f6368"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", w, h)
	p.draw(&b, margin, margin)
	b.WriteString("</svg>\n")
	return b.String()
}

// placed is a plan with positioned boxes, relative to its own corner.
type placed struct {
	*Diagram
	boxes         []box
	routes        [][]point // by edge; the first and last points lie on boxes
	width, height int
}

type box struct {
	x, y, w, h int
	lines      []string
	inside     *placed
}

type point struct{ x, y int }

// place computes the size and position of every box, nested plans first.
func place(d *Diagram) *placed {
	p := &placed{Diagram: d, boxes: make([]box, len(d.Nodes))}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		b := &p.boxes[i]
		b.lines = n.lines()
		for _, line := range b.lines {
			b.w = max(b.w, (utf8.RuneCountInString(line)*letterQuarters+3)/4)
		}
		b.h = len(b.lines)*lineHeight + padding
		if n.Inside != nil {
			b.inside = place(n.Inside)
			b.w = max(b.w, b.inside.width)
			b.h += b.inside.height + padding
		}
		b.w += 2 * padding
	}
	p.arrange()
	return p
}

func (p *placed) draw(b *strings.Builder, dx, dy int) {
	for i, e := range p.Edges {
		p.edge(b, e, p.routes[i], dx, dy)
	}
	for i := range p.boxes {
		n, box := &p.Nodes[i], &p.boxes[i]
		fill, ok := fills[n.Op]
		if !ok {
			fill = "#ffffff"
		}
		x, y := box.x+dx, box.y+dy
		dash := ""
		if !n.When.IsNil() {
			dash = ` stroke-dasharray="5 3"`
		}
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#5f6368"%s/>`+"\n", x, y, box.w,
			box.h, fill, dash)
		for k, line := range box.lines {
			weight := ""
			if k == 0 {
				weight = ` font-weight="bold"`
			}
			fmt.Fprintf(b, `<text x="%d" y="%d" xml:space="preserve" fill="#202124"%s>%s</text>`+"\n", x+padding,
				y+(k+1)*lineHeight+1, weight, xmlText(line))
		}
		if box.inside != nil {
			box.inside.draw(b, x+padding, y+len(box.lines)*lineHeight+padding)
		}
	}
}

// edge draws a smooth line through its points; between two points it leaves and
// arrives vertically. Each pair of points is one segment beside the boxes of a
// layer; the last point is the end of the line.
func (p *placed) edge(b *strings.Builder, e Edge, route []point, dx, dy int) {
	fmt.Fprintf(b, `<path d="M%d %d`, route[0].x+dx, route[0].y+dy)
	for k := 1; k < len(route); k++ {
		from, to := route[k-1], route[k]
		if from == to {
			continue
		}
		if from.x == to.x {
			fmt.Fprintf(b, " L%d %d", to.x+dx, to.y+dy)
			continue
		}
		middle := (from.y+to.y)/2 + dy
		fmt.Fprintf(b, " C%d %d %d %d %d %d", from.x+dx, middle, to.x+dx, middle, to.x+dx, to.y+dy)
	}
	dash := ""
	if e.Kind != "slot" {
		dash = ` stroke-dasharray="4 3"`
	}
	fmt.Fprintf(b, `" fill="none" stroke="#5f6368" marker-end="url(#tip)"%s/>`+"\n", dash)
	if e.Kind != "slot" {
		last, before := route[len(route)-1], route[len(route)-2]
		fmt.Fprintf(b, `<text x="%d" y="%d" font-size="10" fill="#5f6368" text-anchor="middle">%s</text>`+"\n", (last.x+before.x)/2+dx, (last.y+before.y)/2+dy, e.Kind)
	}
}

func xmlText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
