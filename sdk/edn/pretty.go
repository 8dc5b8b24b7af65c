package edn

import "unicode/utf8"

// PrettyOptions shape the output of WritePretty. The zero value is the default.
type PrettyOptions struct {
	Width  int     // target width in columns, 100 if zero; long strings may exceed it
	Indent int     // indentation of a value below its key, 1 if zero
	First  []Value // keys that come first in every map, in this order
}

// WritePretty returns v as text for people: a collection stays on one line if
// it fits, otherwise each element or entry has a line, aligned after the
// opening bracket. A value that does not fit beside its key is written below.
// Reading the text returns v for every width. There is no final line break.
func WritePretty(v Value, opts PrettyOptions) []byte {
	p := printer{width: opts.Width, indent: opts.Indent, first: opts.First}
	if p.width <= 0 {
		p.width = 100
	}
	if p.indent <= 0 {
		p.indent = 1
	}
	p.print(&v, 0)
	return p.out
}

type printer struct {
	width, indent int
	first         []Value
	out           []byte
	line          int // offset of the start of the current line
}

func (p *printer) column() int { return utf8.RuneCount(p.out[p.line:]) }

func (p *printer) breakTo(column int) {
	p.out = append(p.out, '\n')
	p.line = len(p.out)
	for range column {
		p.out = append(p.out, ' ')
	}
}

// fits reports whether v and the closing brackets after it fit on this line.
func (p *printer) fits(v *Value, closers int) bool {
	room := p.width - p.column() - closers
	return room > 0 && flatWidth(v, room) <= room
}

// print writes v at the current column; closers is the number of brackets that
// will follow on its last line.
func (p *printer) print(v *Value, closers int) {
	if !v.kind.isCollection() && v.kind != KindTagged || p.fits(v, closers) {
		p.flat(v)
		return
	}
	elems := v.elems0()
	switch v.kind {
	case KindTagged:
		t := v.tagged()
		column := p.column()
		p.out = append(append(p.out, '#'), t.tag...)
		p.below(&t.val, column+p.indent, closers)
	case KindMap:
		p.out = append(p.out, '{')
		p.printMap(entries(elems), closers+1)
		p.out = append(p.out, '}')
	case KindSet:
		p.printElems("#{", '}', elems, closers+1)
	case KindList:
		p.printElems("(", ')', elems, closers+1)
	case KindVector:
		p.printElems("[", ']', elems, closers+1)
	}
}

// elems0 is elems for any kind.
func (v *Value) elems0() []Value {
	if v.kind.isCollection() {
		return v.elems()
	}
	return nil
}

func (p *printer) printElems(open string, closer byte, elems []Value, closers int) {
	p.out = append(p.out, open...)
	column := p.column()
	for i := range elems {
		if i > 0 {
			p.breakTo(column)
		}
		after := 0
		if i == len(elems)-1 {
			after = closers
		}
		p.print(&elems[i], after)
	}
	p.out = append(p.out, closer)
}

func (p *printer) printMap(list []Entry, closers int) {
	column := p.column()
	for n, i := range p.order(list) {
		if n > 0 {
			p.breakTo(column)
		}
		after := 0
		if n == len(list)-1 {
			after = closers
		}
		p.print(&list[i].Key, 0)
		p.below(&list[i].Val, column+p.indent, after)
	}
}

// below writes v after a key or tag if it fits there on one line, otherwise on
// the next line at the given column.
func (p *printer) below(v *Value, column, closers int) {
	p.out = append(p.out, ' ')
	if p.fits(v, closers) {
		p.flat(v)
		return
	}
	p.out = p.out[:len(p.out)-1]
	p.breakTo(column)
	p.print(v, closers)
}

// order returns the indices of entries with the chosen keys in front.
func (p *printer) order(list []Entry) []int {
	order := make([]int, 0, len(list))
	for f := range p.first {
		if i := findEntry(list, &p.first[f]); i >= 0 {
			order = append(order, i)
		}
	}
	chosen := len(order)
	for i := range list {
		taken := false
		for _, o := range order[:chosen] {
			taken = taken || o == i
		}
		if !taken {
			order = append(order, i)
		}
	}
	return order
}

// flat writes v on one line, which is its canonical text with maps reordered.
func (p *printer) flat(v *Value) {
	if len(p.first) == 0 {
		p.out = appendValue(p.out, v)
		return
	}
	switch v.kind {
	case KindTagged:
		t := v.tagged()
		p.out = append(append(append(p.out, '#'), t.tag...), ' ')
		p.flat(&t.val)
	case KindMap:
		list := entries(v.elems())
		p.out = append(p.out, '{')
		for n, i := range p.order(list) {
			if n > 0 {
				p.out = append(p.out, ' ')
			}
			p.flat(&list[i].Key)
			p.out = append(p.out, ' ')
			p.flat(&list[i].Val)
		}
		p.out = append(p.out, '}')
	case KindSet:
		p.flatElems("#{", '}', v.elems())
	case KindList:
		p.flatElems("(", ')', v.elems())
	case KindVector:
		p.flatElems("[", ']', v.elems())
	default:
		p.out = appendValue(p.out, v)
	}
}

func (p *printer) flatElems(open string, closer byte, elems []Value) {
	p.out = append(p.out, open...)
	for i := range elems {
		if i > 0 {
			p.out = append(p.out, ' ')
		}
		p.flat(&elems[i])
	}
	p.out = append(p.out, closer)
}

// flatWidth returns the number of code points of v on one line. It stops
// counting beyond limit and then returns any larger number.
func flatWidth(v *Value, limit int) int {
	c := cursor{root: v}
	width := 0
	for {
		chunk := c.next()
		if len(chunk) == 0 {
			return width
		}
		if width += utf8.RuneCount(chunk); width > limit {
			return width
		}
	}
}
