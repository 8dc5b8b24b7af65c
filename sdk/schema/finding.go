package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of an explanation.
const (
	maxFindings = 100
	// maxCollected limits memory; findings beyond it are only counted.
	maxCollected = 10_000
	maxGot       = 200
)

// masked replaces a value that must not be shown.
var masked = edn.Text("***")

// Finding is one problem of a value.
type Finding struct {
	// Path leads to the invalid value: map keys, indices, members of sets.
	Path []edn.Value
	// Expected is the form that the value should fit, or its type word if the
	// form is long; nil if there is no such form.
	Expected edn.Value
	// Got is the value, cut at 200 code points and masked under :secret; nil
	// for a missing key.
	Got edn.Value
	// Message completes "the value ...": "should be a string".
	Message string
	// Keys are the keys of a closed map, without colons, in a finding about an
	// unknown key; otherwise nil.
	Keys []string
	// Omitted is the number of findings that were left out. It is above zero
	// only in the last finding of a long list.
	Omitted int

	others int // alternatives besides the one that is reported
}

// Value returns the finding as a map: :path :expected :got :message, and
// :omitted in the last entry of a long list.
func (f Finding) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("path", edn.Vector(f.Path...))
	b.Key("expected", f.Expected)
	b.Key("got", f.Got)
	b.Key("message", edn.Text(f.Message))
	if f.Omitted > 0 {
		b.Key("omitted", edn.Int(int64(f.Omitted)))
	}
	return b.Map()
}

// String returns one line for people: "[:pv 0]: should be a string, got 7".
func (f Finding) String() string {
	var b strings.Builder
	if len(f.Path) > 0 {
		b.WriteString(edn.Vector(f.Path...).String() + ": ")
	}
	b.WriteString(f.Message)
	if !f.Got.IsNil() {
		b.WriteString(", got " + f.Got.String())
	}
	return b.String()
}

// Findings returns the findings as a vector of maps.
func Findings(list []Finding) edn.Value {
	out := make([]edn.Value, len(list))
	for i, f := range list {
		out[i] = f.Value()
	}
	return edn.Vector(out...)
}

// finish sorts and cuts the findings.
func finish(list []Finding, dropped int) []Finding {
	slices.SortStableFunc(list, func(a, b Finding) int { return comparePaths(a.Path, b.Path) })
	if len(list) > maxFindings {
		dropped += len(list) - maxFindings
		list = list[:maxFindings:maxFindings]
	}
	for i := range list {
		switch n := list[i].others; {
		case n == 1:
			list[i].Message += ", or fit 1 other alternative"
		case n > 1:
			list[i].Message += fmt.Sprintf(", or fit one of %d other alternatives", n)
		}
	}
	if dropped > 0 {
		list = append(list, Finding{Omitted: dropped, Message: fmt.Sprintf("and %d more findings", dropped)})
	}
	return list
}

// comparePaths orders indices by number, other steps canonically, and a path
// before the paths below it.
func comparePaths(a, b []edn.Value) int {
	for i := range min(len(a), len(b)) {
		x, xIsInt := a[i].AsInt()
		y, yIsInt := b[i].AsInt()
		d := 0
		if xIsInt && yIsInt {
			d = compareOrdered(x, y)
		} else {
			d = edn.Compare(a[i], b[i])
		}
		if d != 0 {
			return d
		}
	}
	return len(a) - len(b)
}

// excerpt returns v if its text is short, otherwise the beginning of the text.
// Its cost does not depend on the size of v.
func excerpt(v edn.Value) edn.Value {
	if text, ok := v.AsString(); ok {
		if cut, ok := cutText(text); ok {
			return edn.Text(cut)
		}
		return v
	}
	p := preview{}
	p.write(v)
	if cut, ok := cutText(string(p.text)); ok || p.full {
		return edn.Text(cut)
	}
	return v
}

// cutText cuts a text of more than maxGot code points.
func cutText(text string) (string, bool) {
	if len(text) <= maxGot {
		return text, false
	}
	n := 0
	for i := range text {
		if n == maxGot {
			return text[:i] + "…", true
		}
		n++
	}
	return text, false
}

// preview writes the beginning of the canonical text of a value.
type preview struct {
	text []byte
	full bool
}

func (p *preview) write(v edn.Value) {
	if p.full {
		return
	}
	if len(p.text) > maxGot*utf8.UTFMax {
		p.full = true
		return
	}
	switch v.Kind() {
	case edn.KindString:
		text, _ := v.AsString()
		cut, _ := cutText(text)
		p.text = edn.Text(cut).AppendCanonical(p.text)
	case edn.KindVector:
		p.sequence("[", v, "]")
	case edn.KindList:
		p.sequence("(", v, ")")
	case edn.KindSet:
		p.sequence("#{", v, "}")
	case edn.KindMap:
		p.text = append(p.text, '{')
		first := true
		for key, val := range v.Entries() {
			p.space(&first)
			p.write(key)
			p.text = append(p.text, ' ')
			p.write(val)
			if p.full {
				return
			}
		}
		p.text = append(p.text, '}')
	case edn.KindTagged:
		tag, inner, _ := v.AsTagged()
		p.text = append(append(append(p.text, '#'), tag...), ' ')
		p.write(inner)
	default:
		p.text = v.AppendCanonical(p.text)
	}
}

func (p *preview) sequence(open string, v edn.Value, closing string) {
	p.text = append(p.text, open...)
	first := true
	for e := range v.Elems() {
		p.space(&first)
		p.write(e)
		if p.full {
			return
		}
	}
	p.text = append(p.text, closing...)
}

func (p *preview) space(first *bool) {
	if !*first {
		p.text = append(p.text, ' ')
	}
	*first = false
}
