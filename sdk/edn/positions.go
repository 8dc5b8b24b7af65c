package edn

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"
)

// Positions holds the position of each form of a text. It is immutable and
// keeps the text.
type Positions struct {
	text string
	json bool
	root Value
	tree posNode

	index sync.Once
	lines []int // offsets of the first byte of each line
}

// posNode is the extent of a form. Its kids correspond to the elements of the
// value, in a map to alternating keys and values; a tagged literal has one.
type posNode struct {
	start, end uint32
	kids       []posNode
}

// ReadWithPositions is Read with the position of every form. It needs up to as
// much memory again as the value.
func ReadWithPositions(b []byte, opts ...Option) (Value, *Positions, error) {
	return readWithPositions(b, false, opts)
}

// ReadJSONWithPositions is ReadJSON with the position of every form.
func ReadJSONWithPositions(b []byte, opts ...Option) (Value, *Positions, error) {
	return readWithPositions(b, true, opts)
}

func readWithPositions(b []byte, json bool, opts []Option) (Value, *Positions, error) {
	set := newSettings(opts)
	if len(b) > set.limits.Bytes {
		return Value{}, nil, tooLong(unsafe.String(unsafe.SliceData(b), len(b)), &set)
	}
	s := string(b)
	tree := &posTree{}
	r := newReader(s, set.limits)
	r.tree, r.observed, r.json = tree, true, json
	r.run()
	if f := r.verdict(); f != nil {
		return Value{}, nil, r.explain(f, s, &set)
	}
	return r.root, &Positions{text: s, json: json, root: r.root, tree: tree.stack[0]}, nil
}

// Shown returns the text with the form after each secret tag masked, code point
// by code point.
func (p *Positions) Shown() string {
	var b strings.Builder
	from := 0
	var secrets []span
	if p.json {
		secrets = p.tree.secrets(p.root, nil)
	} else {
		secrets = maskedSpans(p.text, 0, len(p.text), nil)
	}
	for _, s := range secrets {
		b.WriteString(p.text[from:s.start])
		for _, r := range p.text[s.start:s.end] {
			if r != '\n' {
				r = '*'
			}
			b.WriteRune(r)
		}
		from = s.end
	}
	b.WriteString(p.text[from:])
	return b.String()
}

// At returns the extent of the value at path, or false if there is no such value. A
// step is the key of a map, the index in a list or vector, or the member of a set;
// tags are skipped. The empty path is the whole form.
func (p *Positions) At(path ...Value) (Span, bool) {
	node, _, ok := p.find(path)
	if !ok {
		return Span{}, false
	}
	return p.span(node), true
}

// KeyAt returns the extent of the key that is the last step of path, or false if
// that step is not the key of a map.
func (p *Positions) KeyAt(path ...Value) (Span, bool) {
	if len(path) == 0 {
		return Span{}, false
	}
	node, v, ok := p.find(path[:len(path)-1])
	if !ok {
		return Span{}, false
	}
	node, v = lookThrough(node, v)
	if v.kind != KindMap {
		return Span{}, false
	}
	i := findEntry(entries(v.elems()), &path[len(path)-1])
	if i < 0 {
		return Span{}, false
	}
	return p.span(&node.kids[2*i]), true
}

func (p *Positions) find(path []Value) (*posNode, Value, bool) {
	node, v := &p.tree, p.root
	for i := range path {
		node, v = lookThrough(node, v)
		at := childIndex(&v, &path[i])
		if at < 0 {
			return nil, Value{}, false
		}
		node, v = &node.kids[at], v.elems()[at]
	}
	return node, v, true
}

func lookThrough(node *posNode, v Value) (*posNode, Value) {
	for v.kind == KindTagged {
		node, v = &node.kids[0], v.tagged().val
	}
	return node, v
}

// childIndex returns the index of the element of v for step, or -1.
func childIndex(v, step *Value) int {
	switch v.kind {
	case KindMap:
		if i := findEntry(entries(v.elems()), step); i >= 0 {
			return 2*i + 1
		}
	case KindList, KindVector:
		if i, ok := step.AsInt(); ok && i >= 0 && i < int64(v.num) {
			return int(i)
		}
	case KindSet:
		elems := v.elems()
		i, found := slices.BinarySearchFunc(elems, *step, func(a, b Value) int { return compare(&a, &b) })
		if found {
			return i
		}
	}
	return -1
}

func (p *Positions) span(node *posNode) Span {
	return Span{p.position(int(node.start)), p.position(int(node.end))}
}

// position is positionAt with an index of the lines, which is built on first
// use: a plan with many findings needs hundreds of positions.
func (p *Positions) position(offset int) Position {
	p.index.Do(func() {
		p.lines = []int{0}
		for at := 0; ; {
			end := lineEnd(p.text, at)
			if end == len(p.text) {
				return
			}
			at = end + 1
			if p.text[end] == '\r' && at < len(p.text) && p.text[at] == '\n' {
				at++
			}
			p.lines = append(p.lines, at)
		}
	})
	offset = min(offset, len(p.text))
	line, found := slices.BinarySearch(p.lines, offset)
	if !found {
		line--
	}
	start := p.lines[line]
	if start == 0 && strings.HasPrefix(p.text, byteOrderMark) {
		start = min(len(byteOrderMark), offset)
	}
	return Position{Line: line + 1, Column: 1 + utf8.RuneCountInString(p.text[start:offset]), Offset: offset}
}

// secrets adds the extents of the forms below secret tags, in the order of the text.
func (n *posNode) secrets(v Value, out []span) []span {
	from := len(out)
	switch {
	case v.kind == KindTagged && v.tagged().tag == tagSecret:
		return append(out, span{int(n.kids[0].start), int(n.kids[0].end)})
	case v.kind == KindTagged:
		return n.kids[0].secrets(v.tagged().val, out)
	case v.kind.isCollection():
		for i, elem := range v.elems() {
			out = n.kids[i].secrets(elem, out)
		}
	}
	slices.SortFunc(out[from:], func(a, b span) int { return a.start - b.start })
	return out
}

// posTree collects the extents of forms while a reader runs.
type posTree struct {
	stack []posNode // forms of the open collections
	bases []int     // start of each open collection or tag on the stack
	kids  []posNode // parts of the form just closed
}

func (t *posTree) open() { t.bases = append(t.bases, len(t.stack)) }

// add records a finished form with the parts of the last closed collection.
func (t *posTree) add(start, end int) {
	t.stack = append(t.stack, posNode{start: uint32(start), end: uint32(end), kids: t.kids})
	t.kids = nil
}

// drop discards the parts of a discarded form.
func (t *posTree) drop() { t.kids = nil }

// close ends a collection.
func (t *posTree) close() {
	base := t.pop()
	t.kids = slices.Clone(t.stack[base:])
	t.stack = t.stack[:base]
}

// closeTagged ends a JSON object with the sorted members #tag and #value.
func (t *posTree) closeTagged(hasPart bool) {
	t.close()
	t.kids = t.kids[3:]
	if !hasPart {
		t.kids = nil
	}
}

// closeTag ends a tag around the form from start to end. Instants and UUIDs have
// no parts.
func (t *posTree) closeTag(start, end int, hasPart bool) {
	t.pop()
	inner := posNode{start: uint32(start), end: uint32(end), kids: t.kids}
	t.kids = nil
	if hasPart {
		t.kids = []posNode{inner}
	}
}

func (t *posTree) pop() int {
	base := t.bases[len(t.bases)-1]
	t.bases = t.bases[:len(t.bases)-1]
	return base
}

// sort sorts the elements of the innermost open collection into canonical
// order, together with their extents. Stride is 2 for a map.
func (t *posTree) sort(elems []Value, stride int) {
	places := t.stack[t.bases[len(t.bases)-1]:]
	order := make([]int, len(elems)/stride)
	for i := range order {
		order[i] = i * stride
	}
	slices.SortStableFunc(order, func(a, b int) int { return compare(&elems[a], &elems[b]) })
	oldElems, oldPlaces := slices.Clone(elems), slices.Clone(places)
	for i, from := range order {
		copy(elems[i*stride:(i+1)*stride], oldElems[from:])
		copy(places[i*stride:(i+1)*stride], oldPlaces[from:])
	}
}
