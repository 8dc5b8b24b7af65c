package expression

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/customdecode"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
)

// Limits of functions whose result may be much larger than their arguments.
const (
	MaxRange        = 10_000
	MaxPatternBytes = 4 << 10
	maxNumberText   = 1000
	maxFormatWidth  = 1000
	maxPatterns     = 16
)

// gateFunctions lists the functions that conditions may call, in the order of the reference
// (HCL-022). Attributes may also call loadFunctions.
var gateFunctions = []string{
	"duration", "bytes", "try", "can", "coalesce", "length", "tostring", "tonumber", "tobool",
	"upper", "lower", "trim", "trimspace", "trimprefix", "trimsuffix", "startswith", "endswith", "substr", "replace", "split", "join", "format", "chomp", "indent",
	"matches", "regex", "regexall",
	"abs", "ceil", "floor", "min", "max", "sum", "parseint", "alltrue", "anytrue",
	"contains", "concat", "compact", "distinct", "element", "flatten", "keys", "values", "lookup", "merge", "reverse", "slice", "sort", "zipmap", "range",
	"jsonencode", "jsondecode",
}

var loadFunctions = []string{"env", "file", "edn", "secret"}

// function returns the gate function with a name, with its cost charged to the meter; false if
// there is none.
func (m *meter) function(name string) (function.Function, bool) {
	switch name {
	case "try":
		return m.try(), true
	case "can":
		return m.can(), true
	case "matches":
		return m.metered(twoTexts(cty.Bool, m.matches), guards(m)[name]), true
	}
	if f, ok := library[name]; ok {
		return m.metered(f, guards(m)[name]), true
	}
	return function.Function{}, false
}

// signature returns the call form of a function, such as substr(str, offset, length); empty for an
// unknown function.
func signature(name string, all map[string]function.Function) string {
	f, ok := all[name]
	if !ok {
		return ""
	}
	var args []string
	for _, p := range f.Params() {
		args = append(args, p.Name)
	}
	if p := f.VarParam(); p != nil {
		args = append(args, p.Name, "...")
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

// library holds the functions that cost the size of their arguments and result.
var library = map[string]*function.Spec{
	"tostring": standard(stdlib.MakeToFunc(cty.String)), "tonumber": standard(stdlib.MakeToFunc(cty.Number)), "tobool": standard(stdlib.MakeToFunc(cty.Bool)),
	"upper": standard(stdlib.UpperFunc), "lower": standard(stdlib.LowerFunc), "trim": standard(stdlib.TrimFunc), "trimspace": standard(stdlib.TrimSpaceFunc),
	"trimprefix": standard(stdlib.TrimPrefixFunc), "trimsuffix": standard(stdlib.TrimSuffixFunc), "replace": standard(stdlib.ReplaceFunc),
	"split": standard(stdlib.SplitFunc), "join": joinFunc, "format": standard(stdlib.FormatFunc), "chomp": standard(stdlib.ChompFunc), "indent": standard(stdlib.IndentFunc),
	"regex": standard(stdlib.RegexFunc), "regexall": standard(stdlib.RegexAllFunc),
	"abs": standard(stdlib.AbsoluteFunc), "ceil": standard(stdlib.CeilFunc), "floor": standard(stdlib.FloorFunc), "min": standard(stdlib.MinFunc), "max": standard(stdlib.MaxFunc), "parseint": standard(stdlib.ParseIntFunc),
	"contains": standard(stdlib.ContainsFunc), "concat": standard(stdlib.ConcatFunc), "compact": compactFunc, "element": standard(stdlib.ElementFunc), "flatten": standard(stdlib.FlattenFunc),
	"keys": standard(stdlib.KeysFunc), "values": standard(stdlib.ValuesFunc), "lookup": standard(stdlib.LookupFunc), "merge": standard(stdlib.MergeFunc), "reverse": standard(stdlib.ReverseListFunc),
	"slice": standard(stdlib.SliceFunc), "sort": sortFunc, "zipmap": zipmapFunc, "jsonencode": standard(stdlib.JSONEncodeFunc), "jsondecode": standard(stdlib.JSONDecodeFunc),

	"duration": textFunc(cty.Number, func(s string) (cty.Value, error) {
		n, err := language.ParseDuration(s)
		return cty.NumberIntVal(n), err
	}),
	"bytes":      textFunc(cty.Number, func(s string) (cty.Value, error) { n, err := language.ParseBytes(s); return cty.NumberIntVal(n), err }),
	"startswith": twoTexts(cty.Bool, func(s, prefix string) (cty.Value, error) { return cty.BoolVal(strings.HasPrefix(s, prefix)), nil }),
	"endswith":   twoTexts(cty.Bool, func(s, suffix string) (cty.Value, error) { return cty.BoolVal(strings.HasSuffix(s, suffix)), nil }),
	"substr":     substrFunc, "length": lengthFunc, "coalesce": coalesceFunc, "sum": sumFunc, "distinct": distinctFunc, "range": rangeFunc,
	"alltrue": boolsFunc(true), "anytrue": boolsFunc(false),
}

// guards returns, by function name, checks that reject a call before it is executed.
func guards(m *meter) map[string]func(args []cty.Value) error {
	pattern := func(args []cty.Value) error {
		if s, ok := syntax.AsText(args[0]); ok && len(s) > MaxPatternBytes {
			return m.exceed("the pattern is over %s", language.FormatBytes(MaxPatternBytes))
		}
		return nil
	}
	digits := func(args []cty.Value) error {
		if s, ok := syntax.AsText(args[0]); ok && len(s) > maxNumberText {
			return m.exceed("the text of the number is over %d characters", maxNumberText)
		}
		return nil
	}
	return map[string]func(args []cty.Value) error{
		"regex": pattern, "matches": pattern, "tonumber": numberText(digits), "parseint": digits,
		"regexall": func(args []cty.Value) error {
			if s, ok := syntax.AsText(args[1]); ok && len(s) > MaxGateElements {
				return m.exceed("the text has more than %d places for a match", MaxGateElements)
			}
			return pattern(args)
		},
		"split": func(args []cty.Value) error {
			sep, ok1 := syntax.AsText(args[0])
			s, ok2 := syntax.AsText(args[1])
			if ok1 && ok2 && (sep == "" && len(s) > MaxGateElements || sep != "" && strings.Count(s, sep) > MaxGateElements) {
				return m.exceed("split gives more than %d elements", MaxGateElements)
			}
			return nil
		},
		"replace": func(args []cty.Value) error {
			s, ok1 := syntax.AsText(args[0])
			old, ok2 := syntax.AsText(args[1])
			with, ok3 := syntax.AsText(args[2])
			if ok1 && ok2 && ok3 && len(s)+strings.Count(s, old)*len(with) > MaxGateResult {
				return m.exceed("replace gives more than %s", language.FormatBytes(MaxGateResult))
			}
			return nil
		},
		"join":   m.joinGuard,
		"indent": m.indentGuard,
		"format": m.formatGuard,
		"jsondecode": func(args []cty.Value) error {
			if s, ok := syntax.AsText(args[0]); ok && strings.Count(s, ",")+strings.Count(s, "[")+strings.Count(s, "{") > MaxGateElements {
				return m.exceed("jsondecode gives more than %d elements", MaxGateElements)
			}
			return nil
		},
	}
}

// numberText returns the check digits, extended by a check that rejects exponents that would expand
// to millions of digits.
func numberText(digits func([]cty.Value) error) func([]cty.Value) error {
	return func(args []cty.Value) error {
		if err := digits(args); err != nil {
			return err
		}
		s, ok := syntax.AsText(args[0])
		if !ok {
			return nil
		}
		if i := strings.IndexAny(s, "eEpP"); i >= 0 && len(strings.TrimLeft(s[i+1:], "+-0")) > 3 {
			return fmt.Errorf("the exponent of %s is out of range", diag.Quote(diag.Short(s)))
		}
		return nil
	}
}

func (m *meter) joinGuard(args []cty.Value) error {
	sep, ok := syntax.AsText(args[0])
	if !ok {
		return nil
	}
	total := 0
	for _, l := range args[1:] {
		if l.IsNull() || !l.CanIterateElements() {
			continue
		}
		for it := l.ElementIterator(); it.Next(); {
			_, x := it.Element()
			s, _ := syntax.AsText(x)
			total += len(s) + len(sep)
			if total > MaxGateResult {
				return m.exceed("join gives more than %s", language.FormatBytes(MaxGateResult))
			}
		}
	}
	return nil
}

func (m *meter) indentGuard(args []cty.Value) error {
	s, ok := syntax.AsText(args[1])
	n := args[0]
	if !ok || n.IsNull() || n.Type() != cty.Number {
		return nil
	}
	spaces, _ := n.AsBigFloat().Int64()
	if spaces < 0 || spaces > MaxGateResult || int(spaces)*(strings.Count(s, "\n")+1)+len(s) > MaxGateResult {
		return m.exceed("indent gives more than %s", language.FormatBytes(MaxGateResult))
	}
	return nil
}

var formatWidths = regexp.MustCompile(`[0-9]{4,}`)

func (m *meter) formatGuard(args []cty.Value) error {
	s, ok := syntax.AsText(args[0])
	if !ok {
		return nil
	}
	if strings.Contains(s, "*") && strings.Contains(s, "%*") {
		return fmt.Errorf("widths that come from an argument are not supported")
	}
	if formatWidths.MatchString(s) && strings.Contains(s, "%") {
		return m.exceed("a width of format is over %d", maxFormatWidth-1)
	}
	return nil
}

// try returns a function that returns its first argument that evaluates without error. Its static
// type is dynamic, so that nested calls are evaluated only once.
func (m *meter) try() function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{Name: "expressions", Type: customdecode.ExpressionClosureType},
		Type:     function.StaticReturnType(cty.DynamicPseudoType),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if len(args) == 0 {
				return cty.NilVal, fmt.Errorf("at least one expression is required")
			}
			var last error
			for _, a := range args {
				if err := m.spend(1); err != nil {
					return cty.NilVal, err
				}
				v, diags := customdecode.ExpressionClosureFromVal(a).Value()
				if m.over != nil {
					return cty.NilVal, m.over
				}
				if !diags.HasErrors() {
					if !v.IsWhollyKnown() {
						return cty.DynamicVal, nil
					}
					return v, nil
				}
				last = fmt.Errorf("no expression could be evaluated; the last error: %s", syntax.Sentence(diags[0]))
			}
			return cty.NilVal, last
		},
	})
}

func (m *meter) can() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "expression", Type: customdecode.ExpressionClosureType}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if err := m.spend(1); err != nil {
				return cty.NilVal, err
			}
			v, diags := customdecode.ExpressionClosureFromVal(args[0]).Value()
			if m.over != nil {
				return cty.NilVal, m.over
			}
			if diags.HasErrors() {
				return cty.False, nil
			}
			if !v.IsWhollyKnown() {
				return cty.UnknownVal(cty.Bool), nil
			}
			return cty.True, nil
		},
	})
}

func textFunc(out cty.Type, f func(string) (cty.Value, error)) *function.Spec {
	return &function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}},
		Type:   function.StaticReturnType(out),
		Impl:   func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f(args[0].AsString()) },
	}
}

func twoTexts(out cty.Type, f func(a, b string) (cty.Value, error)) *function.Spec {
	return &function.Spec{
		Params: []function.Parameter{{Name: "first", Type: cty.String}, {Name: "second", Type: cty.String}},
		Type:   function.StaticReturnType(out),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return f(args[0].AsString(), args[1].AsString())
		},
	}
}

// matches implements the function matches. It caches compiled patterns, at most maxPatterns.
func (m *meter) matches(pattern, s string) (cty.Value, error) {
	re, ok := m.patterns[pattern]
	if !ok {
		var err error
		if re, err = regexp.Compile(pattern); err != nil {
			return cty.NilVal, fmt.Errorf("the pattern is not an RE2 expression: %w", err)
		}
		if m.patterns == nil || len(m.patterns) >= maxPatterns {
			m.patterns = map[string]*regexp.Regexp{}
		}
		m.patterns[pattern] = re
	}
	return cty.BoolVal(re.MatchString(s)), nil
}

var substrFunc = &function.Spec{
	Params: []function.Parameter{{Name: "text", Type: cty.String}, {Name: "offset", Type: cty.Number}, {Name: "length", Type: cty.Number}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		runes := []rune(args[0].AsString())
		offset, ok1 := wholeNumber(args[1])
		length, ok2 := wholeNumber(args[2])
		if !ok1 || !ok2 || offset < 0 || length < 0 || offset > len(runes) || length > len(runes)-offset {
			return cty.NilVal, fmt.Errorf("the range is outside the text of %d characters", len(runes))
		}
		return cty.StringVal(string(runes[offset : offset+length])), nil
	},
}

func wholeNumber(v cty.Value) (int, bool) {
	i, acc := v.AsBigFloat().Int64()
	return int(i), acc == big.Exact && i > -1<<40 && i < 1<<40
}

var lengthFunc = &function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		t := args[0].Type()
		if t == cty.String || t.IsCollectionType() || t.IsTupleType() || t.IsObjectType() || t == cty.DynamicPseudoType {
			return cty.Number, nil
		}
		return cty.NilType, fmt.Errorf("a %s has no length", t.FriendlyName())
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v := args[0]
		switch t := v.Type(); {
		case t == cty.String:
			return cty.NumberIntVal(int64(utf8.RuneCountInString(v.AsString()))), nil
		case t.IsObjectType():
			return cty.NumberIntVal(int64(len(t.AttributeTypes()))), nil
		default:
			return cty.NumberIntVal(int64(v.LengthInt())), nil
		}
	},
}

var coalesceFunc = &function.Spec{
	VarParam: &function.Parameter{
		Name:             "values",
		Type:             cty.DynamicPseudoType,
		AllowNull:        true,
		AllowUnknown:     true,
		AllowDynamicType: true,
	},
	Type: function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		for _, a := range args {
			if !a.IsKnown() {
				return cty.DynamicVal, nil
			}
			if !a.IsNull() {
				return a, nil
			}
		}
		return cty.NilVal, fmt.Errorf("all values are null")
	},
}

// elements returns the elements of a list, set or tuple.
func elements(v cty.Value) ([]cty.Value, error) {
	t := v.Type()
	if !t.IsListType() && !t.IsSetType() && !t.IsTupleType() {
		return nil, fmt.Errorf("a list is required, not a %s", t.FriendlyName())
	}
	return v.AsValueSlice(), nil
}

var sumFunc = &function.Spec{
	Params: []function.Parameter{{Name: "numbers", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		items, err := elements(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		total := cty.Zero
		for _, x := range items {
			if x.IsNull() || x.Type() != cty.Number {
				return cty.NilVal, fmt.Errorf("every member must be a number")
			}
			total = total.Add(x)
		}
		return total, nil
	},
}

func boolsFunc(all bool) *function.Spec {
	return &function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			items, err := elements(args[0])
			if err != nil {
				return cty.NilVal, err
			}
			for _, x := range items {
				if x.IsNull() || x.Type() != cty.Bool {
					return cty.NilVal, fmt.Errorf("every member must be true or false")
				}
				if x.True() != all {
					return cty.BoolVal(!all), nil
				}
			}
			return cty.BoolVal(all), nil
		},
	}
}

var distinctFunc = &function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		items, err := elements(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		seen := make(map[int][]cty.Value, len(items))
		out := make([]cty.Value, 0, len(items))
		for _, x := range items {
			h := x.Hash()
			if slices.ContainsFunc(seen[h], func(y cty.Value) bool { return y.RawEquals(x) }) {
				continue
			}
			seen[h] = append(seen[h], x)
			out = append(out, x)
		}
		return cty.TupleVal(out), nil
	},
}

var rangeFunc = &function.Spec{
	VarParam: &function.Parameter{Name: "limits", Type: cty.Number},
	Type:     function.StaticReturnType(cty.List(cty.Number)),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		start, step := cty.Zero, cty.NumberIntVal(1)
		var end cty.Value
		switch len(args) {
		case 1:
			end = args[0]
		case 2:
			start, end = args[0], args[1]
		case 3:
			start, end, step = args[0], args[1], args[2]
		default:
			return cty.NilVal, fmt.Errorf("one to three numbers are required")
		}
		if len(args) < 3 && end.LessThan(start).True() {
			step = cty.NumberIntVal(-1)
		}
		down := step.LessThan(cty.Zero).True()
		if step.RawEquals(cty.Zero) || down != end.LessThan(start).True() && !start.RawEquals(end) {
			return cty.NilVal, fmt.Errorf("the step does not lead from the start to the end")
		}
		var out []cty.Value
		for x := start; down && x.GreaterThan(end).True() || !down && x.LessThan(end).True(); x = x.Add(step) {
			if len(out) == MaxRange {
				return cty.NilVal, fmt.Errorf("more than %d numbers", MaxRange)
			}
			out = append(out, x)
		}
		if out == nil {
			return cty.ListValEmpty(cty.Number), nil
		}
		return cty.ListVal(out), nil
	},
}

// AsBool returns the result of a condition. Values of other types are an error.
func AsBool(v cty.Value) (bool, error) {
	if v.IsNull() {
		return false, fmt.Errorf("the condition gives null, not true or false")
	}
	if v.Type() != cty.Bool {
		return false, fmt.Errorf("the condition gives a %s, not true or false", v.Type().FriendlyName())
	}
	return v.True(), nil
}

// asMessage returns the result of a template. A value that is not a text is an error.
func asMessage(v cty.Value) (string, error) {
	s, err := convert.Convert(v, cty.String)
	if err != nil || s.IsNull() {
		return "", fmt.Errorf("the message is not a text")
	}
	return s.AsString(), nil
}
