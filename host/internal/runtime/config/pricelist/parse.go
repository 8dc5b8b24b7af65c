package pricelist

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Problem is one error in a list.
type Problem struct {
	Line, Column    int
	Path            []edn.Value
	Message         string // predicate after "the value", such as "is not among :vendors"
	Expected, Found edn.Value
}

// String returns the problem as one line of text.
func (p Problem) String() string {
	text := fmt.Sprintf("line %d, column %d: ", p.Line, p.Column)
	if len(p.Path) > 0 {
		text += edn.Vector(p.Path...).String() + " "
	}
	text += p.Message
	if !p.Expected.IsNil() {
		text += ", expected " + p.Expected.String()
	}
	if !p.Found.IsNil() {
		text += ", found " + p.Found.String()
	}
	return text
}

// Value returns the problem as data.
func (p Problem) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("line", edn.Int(int64(p.Line)))
	b.Key("column", edn.Int(int64(p.Column)))
	b.Key("path", edn.Vector(p.Path...))
	b.Key("message", edn.Text(p.Message))
	b.Key("expected", p.Expected)
	b.Key("found", p.Found)
	return b.Map()
}

// form returns the schema of a list.
var form = sync.OnceValue(func() *schema.Schema {
	return schema.MustCompile(edn.MustRead(`
[:map {:closed true}
 [:prices/version [:enum 1]]
 [:currency [:enum "USD"]]
 [:vendors [:map-of [:string {:min 1}] [:map {:closed true} [:hosts [:vector [:string {:min 1}]]]]]]
 [:prices
  [:vector {:min 1}
   [:map {:closed true}
    [:vendor [:string {:min 1}]]
    [:models [:vector {:min 1} [:string {:min 1}]]]
    [:input [:decimal {:min 0}]]
    [:cached-input {:optional true} [:decimal {:min 0}]]
    [:cache-write {:optional true} [:decimal {:min 0}]]
    [:output [:decimal {:min 0}]]
    [:up-to {:optional true} [:int {:min 1}]]
    [:until {:optional true} :string]
    [:date :string]
    [:source [:string {:min 1}]]
    [:via {:optional true} :string]]]]]`))
})

// Parse parses the text of a list. Prices dated after now are a problem; with a zero now, every
// date is allowed. If there are problems, the list is empty.
func Parse(text []byte, now time.Time) (List, []Problem) {
	v, positions, err := edn.ReadWithPositions(text, edn.WithLimits(limits))
	var syntax *edn.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return List{},
			[]Problem{{Line: syntax.Pos.Line, Column: syntax.Pos.Column, Path: syntax.Path, Message: syntax.Message}}
	case err != nil:
		return List{}, []Problem{{Line: 1, Column: 1, Message: err.Error()}}
	}
	c := checker{positions: positions, now: now}
	for _, f := range form().Validate(v) {
		c.add(f.Path, f.Message, f.Expected, f.Got)
	}
	var l List
	if len(c.problems) == 0 {
		if err := edn.Decode(v, &l); err != nil {
			c.add(nil, err.Error(), edn.Nil(), edn.Nil())
		}
		c.check(l)
	}
	if len(c.problems) > 0 {
		slices.SortStableFunc(c.problems, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
		return List{}, c.problems
	}
	return l, nil
}

type checker struct {
	positions *edn.Positions
	now       time.Time
	problems  []Problem
}

// add reports a problem at the position of path, or of its nearest existing ancestor.
func (c *checker) add(path []edn.Value, message string, expected, found edn.Value) {
	p := Problem{Line: 1, Column: 1, Path: path, Message: message, Expected: expected, Found: found}
	for n := len(path); n >= 0; n-- {
		if span, ok := c.positions.At(path[:n]...); ok {
			p.Line, p.Column = span.Start.Line, span.Start.Column
			break
		}
	}
	c.problems = append(c.problems, p)
}

// check reports problems that the schema cannot express.
func (c *checker) check(l List) {
	seen := map[string]bool{}
	vendors := slices.Sorted(maps.Keys(l.Vendors))
	for i, e := range l.Prices {
		at := func(path ...edn.Value) []edn.Value {
			return append([]edn.Value{edn.K("prices"), edn.Int(int64(i))}, path...)
		}
		if _, ok := l.Vendors[e.Vendor]; !ok {
			c.add(at(edn.K("vendor")), "is not among :vendors", edn.Text(strings.Join(vendors, ", ")),
				edn.Text(e.Vendor))
		}
		for k, m := range e.Models {
			if name := e.Vendor + "/" + m; seen[name] {
				c.add(at(edn.K("models"), edn.Int(int64(k))), "has a price already", edn.Nil(), edn.Text(m))
			} else {
				seen[name] = true
			}
		}
		for _, day := range []struct {
			key, text string
			past      bool
		}{{"date", e.Date, true}, {"until", e.Until, false}} {
			age, ok := ageOf(day.text, c.now)
			if day.text != "" && (!ok || day.past && !c.now.IsZero() && age < 0) {
				what := "is not a date"
				if ok {
					what = "is a date in the future"
				}
				c.add(at(edn.K(day.key)), what, edn.Text("2026-01-31"), edn.Text(day.text))
			}
		}
	}
}
