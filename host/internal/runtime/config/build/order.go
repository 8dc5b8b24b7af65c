package build

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// pairs checks pairs of values in a plugin block, such as min and max.
func (b *builder) pairs(s *decode.Section) {
	b.ordered(s.Block("restart"), "backoff", "max_backoff", false)
	b.ordered(s.Block("health"), "timeout", "interval", true)
	b.ordered(s.Block("instances"), "min", "max", false)
}

func (b *builder) ordered(s *decode.Section, low, high string, strict bool) {
	x, y := s.Integer(low), s.Integer(high)
	if x < y || x == y && !strict {
		return
	}
	v, name := s.Attrs[low], low
	if !v.Written {
		v, name = s.Attrs[high], high
	}
	if !v.Written {
		return
	}
	word := "at most"
	if strict {
		word = "below"
	}
	limit := s.Attrs[high]
	b.Report.Add(diag.Diagnostic{
		Type:     "config/range",
		Message:  fmt.Sprintf("%s in %s must be %s %s", low, s.Node.Title(), word, high),
		Range:    v.At,
		Path:     append(slices.Clone(s.Node.Path), name),
		Expected: edn.Text(fmt.Sprintf("%s %s %s", low, word, high)),
		Found:    edn.Text(fmt.Sprintf("%s and %s", shownAs(s, low), shownAs(s, high))),
		Related:  otherPlace(limit, v, high),
	})
}

func shownAs(s *decode.Section, name string) string {
	spec, _ := s.Node.Spec.Attr(name)
	v := s.Integer(name)
	if spec.Type.Kind == language.KindDur {
		return language.FormatDuration(int64(v))
	}
	return fmt.Sprint(v)
}

func otherPlace(other, here decode.Value, name string) []diag.Related {
	if !other.Written || other.At == here.At {
		return nil
	}
	return []diag.Related{{Range: other.At, Message: "is " + name}}
}
