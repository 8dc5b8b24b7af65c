package diagram

import (
	"cmp"
	"slices"
)

// maxBends bounds the bends that route long edges around boxes; edges beyond it
// are drawn straight.
const maxBends = 4000

// sweeps is the number of passes that improve the order and the positions of
// all layers.
const sweeps = 8

// item is an element of a layer: a box, or a bend of an edge.
type item struct {
	node         int // index of the box, -1 for a bend
	w, x         int
	up, down     []int // items of the layers above and below
	layer, order int
}

// layout is the state of one arrangement.
type layout struct {
	items  []item
	layers [][]int // items by layer, from left to right
	bends  [][]int // by edge
}

// arrange places the boxes in layers, each below all that it waits for.
func (p *placed) arrange() {
	l := p.layers()
	for i := range sweeps {
		l.sort(i%2 == 0)
	}
	l.pack()
	for i := range sweeps {
		l.pull(i%2 == 0)
	}
	p.settle(l)
}

// layers puts each box one layer below the lowest box that it waits for, and
// adds bends to the layers that an edge crosses.
func (p *placed) layers() *layout {
	n := len(p.Nodes)
	depth := depths(n, p.Edges)
	l := &layout{items: make([]item, n), bends: make([][]int, len(p.Edges))}
	for i := range n {
		l.items[i] = item{node: i, w: p.boxes[i].w}
		l.enter(i, depth[i])
	}
	budget := maxBends
	for k, e := range p.Edges {
		span := depth[e.To] - depth[e.From] - 1
		if span > budget {
			continue // affects neither order nor position
		}
		budget -= max(span, 0)
		last := e.From
		for at := depth[e.From] + 1; at < depth[e.To]; at++ {
			l.items = append(l.items, item{node: -1})
			bend := len(l.items) - 1
			l.enter(bend, at)
			l.bends[k] = append(l.bends[k], bend)
			l.join(last, bend)
			last = bend
		}
		l.join(last, e.To)
	}
	return l
}

func (l *layout) enter(i, layer int) {
	for len(l.layers) <= layer {
		l.layers = append(l.layers, nil)
	}
	l.items[i].layer, l.items[i].order = layer, len(l.layers[layer])
	l.layers[layer] = append(l.layers[layer], i)
}

func (l *layout) join(upper, lower int) {
	l.items[upper].down = append(l.items[upper].down, lower)
	l.items[lower].up = append(l.items[lower].up, upper)
}

// depths returns the length of the longest path to each node. The edges of a
// linked program have no cycle.
func depths(n int, edges []Edge) []int {
	depth, waits, next := make([]int, n), make([]int, n), make([][]int, n)
	for _, e := range edges {
		waits[e.To]++
		next[e.From] = append(next[e.From], e.To)
	}
	var ready []int
	for i := range n {
		if waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, j := range next[i] {
			depth[j] = max(depth[j], depth[i]+1)
			if waits[j]--; waits[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	return depth
}

// walk visits the layers in one direction; near returns the neighbors of an
// item in the previously visited layer.
func (l *layout) walk(down bool, visit func(layer []int, near func(i int) []int)) {
	n := len(l.layers)
	for k := range n {
		if down {
			visit(l.layers[k], func(i int) []int { return l.items[i].up })
		} else {
			visit(l.layers[n-1-k], func(i int) []int { return l.items[i].down })
		}
	}
}

// sort orders each layer by the mean order of the neighbors, to reduce
// crossings.
func (l *layout) sort(down bool) {
	l.walk(down, func(layer []int, near func(int) []int) {
		wish := make(map[int]float64, len(layer))
		for _, i := range layer {
			wish[i] = float64(l.items[i].order)
			if list := near(i); len(list) > 0 {
				sum := 0
				for _, j := range list {
					sum += l.items[j].order
				}
				wish[i] = float64(sum) / float64(len(list))
			}
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(wish[a], wish[b]) })
		for order, i := range layer {
			l.items[i].order = order
		}
	})
}

// pack sets the items of each layer side by side. The x of an item is its
// middle.
func (l *layout) pack() {
	for _, layer := range l.layers {
		x := 0
		for _, i := range layer {
			l.items[i].x = x + l.items[i].w/2
			x += l.items[i].w + gapAcross
		}
	}
}

// pull moves items towards the middle of their neighbors as far as the order
// and the gaps permit.
func (l *layout) pull(down bool) {
	l.walk(down, func(layer []int, near func(int) []int) {
		wish := make([]int, len(layer))
		for k, i := range layer {
			wish[k] = l.items[i].x
			if list := near(i); len(list) > 0 {
				sum := 0
				for _, j := range list {
					sum += l.items[j].x
				}
				wish[k] = sum / len(list)
			}
		}
		shift := 0
		for k, i := range layer {
			x := wish[k]
			if k > 0 {
				x = max(x, l.items[layer[k-1]].x+l.apart(layer[k-1], i))
			}
			l.items[i].x = x
			shift += wish[k] - x
		}
		for _, i := range layer { // spread the shift to the right over all items
			l.items[i].x += shift / len(layer)
		}
	})
}

// apart is the minimum distance between the middles of two neighbors.
func (l *layout) apart(a, b int) int {
	return (l.items[a].w+1)/2 + gapAcross + (l.items[b].w+1)/2
}

// settle converts the arrangement to positions and routes.
func (p *placed) settle(l *layout) {
	left := 0
	for i := range l.items {
		if edge := l.items[i].x - l.items[i].w/2; i == 0 || edge < left {
			left = edge
		}
	}
	tops, heights := make([]int, len(l.layers)), make([]int, len(l.layers))
	for k, layer := range l.layers {
		if k > 0 {
			tops[k] = tops[k-1] + heights[k-1] + gapDown
		}
		for _, i := range layer {
			if node := l.items[i].node; node >= 0 {
				heights[k] = max(heights[k], p.boxes[node].h)
			}
		}
		p.height = tops[k] + heights[k]
	}
	for i := range l.items {
		it := &l.items[i]
		it.x -= left
		p.width = max(p.width, it.x+(it.w+1)/2)
		if it.node >= 0 {
			p.boxes[it.node].x, p.boxes[it.node].y = it.x-it.w/2, tops[it.layer]
		}
	}
	p.routes = make([][]point, len(p.Edges))
	for k, e := range p.Edges {
		from, to := &p.boxes[e.From], &p.boxes[e.To]
		// The edge leaves its layer before it turns: other boxes may be higher.
		start := &l.items[e.From]
		route := []point{{start.x, from.y + from.h}, {start.x, tops[start.layer] + heights[start.layer]}}
		for _, bend := range l.bends[k] {
			it := &l.items[bend]
			route = append(route, point{it.x, tops[it.layer]}, point{it.x, tops[it.layer] + heights[it.layer]})
		}
		p.routes[k] = append(route, point{l.items[e.To].x, to.y})
	}
}
