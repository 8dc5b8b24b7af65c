package expression

import (
	"fmt"
	"math/big"
	"math/bits"
	"reflect"
	"strconv"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/zclconf/go-cty/cty"
)

// Opaque types of the expression language.
var (
	EDNType    = cty.Capsule("edn", reflect.TypeFor[edn.Value]())
	SecretType = cty.Capsule("secret", reflect.TypeFor[Secret]())
	RefType    = cty.Capsule("reference", reflect.TypeFor[Reference]())
)

// Reference is the value of a traversal such as dispatch.quality_first.
type Reference struct {
	Block, Label string
}

func ednCapsule(v edn.Value) cty.Value { return cty.CapsuleVal(EDNType, &v) }

// limitError is the error for a value or a computation above a limit.
type limitError struct{ message string }

func (e *limitError) Error() string { return e.message }

// Limits of the values that a gate expression reads or returns, in bytes and elements, and of its
// steps (HCL-025).
const (
	MaxGateBytes    = 1 << 20
	MaxGateElements = 100_000
	MaxGateResult   = 4 << 20
	MaxGateSteps    = 1_000_000
)

// toCty converts a value for expressions (HCL-023). Keywords become strings and sets become tuples;
// numbers are exact. The error means that two map keys have the same text.
func toCty(v edn.Value) (cty.Value, error) {
	switch v.Kind() {
	case edn.KindNil:
		return cty.NullVal(cty.DynamicPseudoType), nil
	case edn.KindBool:
		b, _ := v.AsBool()
		return cty.BoolVal(b), nil
	case edn.KindInt, edn.KindFloat, edn.KindDecimal:
		return numberToCty(v)
	case edn.KindList, edn.KindVector, edn.KindSet:
		items := make([]cty.Value, 0, v.Len())
		for x := range v.Elems() {
			item, err := toCty(x)
			if err != nil {
				return cty.NilVal, err
			}
			items = append(items, item)
		}
		return cty.TupleVal(items), nil
	case edn.KindMap:
		return mapToCty(v)
	case edn.KindTagged:
		tag, inner, _ := v.AsTagged()
		value, err := toCty(inner)
		if err != nil {
			return cty.NilVal, err
		}
		return cty.ObjectVal(map[string]cty.Value{"tag": cty.StringVal(tag), "value": value}), nil
	default:
		return cty.StringVal(language.ScalarText(v)), nil
	}
}

func mapToCty(v edn.Value) (cty.Value, error) {
	fields := make(map[string]cty.Value, v.Len())
	for k, x := range v.Entries() {
		name := language.ScalarText(k)
		if _, twice := fields[name]; twice {
			return cty.NilVal, fmt.Errorf("the value has two keys that read %s", diag.Quote(name))
		}
		item, err := toCty(x)
		if err != nil {
			return cty.NilVal, err
		}
		fields[name] = item
	}
	return cty.ObjectVal(fields), nil
}

func numberToCty(v edn.Value) (cty.Value, error) {
	if i, ok := v.AsInt(); ok {
		return cty.NumberIntVal(i), nil
	}
	if i, ok := v.AsBigInt(); ok {
		return cty.NumberVal(new(big.Float).SetInt(i)), nil
	}
	if f, ok := v.AsFloat(); ok {
		return cty.ParseNumberVal(strconv.FormatFloat(f, 'g', -1, 64))
	}
	coef, exp, _ := v.AsDecimal()
	if exp >= 0 {
		i := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exp)), nil)
		return cty.NumberVal(new(big.Float).SetInt(i.Mul(i, coef))), nil
	}
	return cty.ParseNumberVal(coef.String() + "e" + strconv.Itoa(exp))
}

// FromCty converts a computed value to EDN: whole numbers become integers, other numbers decimals,
// and keys that are identifiers keywords. Secrets, references and unknown values are an error.
func FromCty(v cty.Value) (edn.Value, error) {
	if v.IsNull() {
		return edn.Nil(), nil
	}
	if !v.IsKnown() {
		return edn.Nil(), fmt.Errorf("the value is not known")
	}
	t := v.Type()
	switch {
	case t.Equals(EDNType):
		return *v.EncapsulatedValue().(*edn.Value), nil
	case t.Equals(SecretType):
		return edn.Nil(), fmt.Errorf("a secret is allowed only in a secret attribute")
	case t.Equals(RefType):
		return edn.Nil(), fmt.Errorf("a reference is allowed only in place of a name")
	case t == cty.String:
		return edn.String(v.AsString())
	case t == cty.Bool:
		return edn.Bool(v.True()), nil
	case t == cty.Number:
		return NumberFromCty(v)
	case t.IsObjectType() || t.IsMapType():
		return objectFromCty(v)
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		var items []edn.Value
		for it := v.ElementIterator(); it.Next(); {
			_, x := it.Element()
			item, err := FromCty(x)
			if err != nil {
				return edn.Nil(), err
			}
			items = append(items, item)
		}
		return edn.Vector(items...), nil
	}
	return edn.Nil(), fmt.Errorf("a value of type %s cannot be data", t.FriendlyName())
}

func objectFromCty(v cty.Value) (edn.Value, error) {
	var b edn.MapBuilder
	for it := v.ElementIterator(); it.Next(); {
		k, x := it.Element()
		item, err := FromCty(x)
		if err != nil {
			return edn.Nil(), err
		}
		b.Set(computedKey(k.AsString()), item)
	}
	return b.Map(), nil
}

// computedKey returns the EDN key for a computed name.
func computedKey(name string) edn.Value {
	if identifier(name) {
		return language.KeyOf(name)
	}
	return edn.Text(name)
}

func identifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}

// NumberFromCty converts a number exactly. Infinity is an error.
func NumberFromCty(v cty.Value) (edn.Value, error) {
	f := v.AsBigFloat()
	if f.IsInf() {
		return edn.Nil(), fmt.Errorf("the number is not finite")
	}
	if f.IsInt() {
		i, _ := f.Int(nil)
		return edn.BigInt(i), nil
	}
	d, err := edn.ParseDecimal(decimalText(f))
	if err != nil {
		return edn.Nil(), fmt.Errorf("number %s: %w", f.Text('g', 10), err)
	}
	return d, nil
}

// decimalText returns the shortest decimal text that parses as the number. It avoids the slow
// conversion of math/big for numbers with at most as many digits as a float64 can distinguish,
// because two such decimals never parse as the same number.
func decimalText(f *big.Float) string {
	x, _ := f.Float64()
	short := strconv.FormatFloat(x, 'f', -1, 64)
	if back, _, err := big.ParseFloat(short, 10, f.Prec(), f.Mode()); err == nil && back.Cmp(f) == 0 {
		return short
	}
	return f.Text('f', -1)
}

// measure rejects values that are too large for an expression, before they are converted.
func measure(v edn.Value) error {
	m := measurer{bytes: MaxGateBytes, elements: MaxGateElements}
	if m.walk(v) {
		return nil
	}
	return &limitError{fmt.Sprintf("the value is over %s or %d elements", language.FormatBytes(MaxGateBytes),
		MaxGateElements)}
}

type measurer struct{ bytes, elements int }

func (m *measurer) walk(v edn.Value) bool {
	m.elements--
	switch v.Kind() {
	case edn.KindString:
		s, _ := v.AsString()
		m.bytes -= len(s) + 3
	case edn.KindList, edn.KindVector, edn.KindSet:
		m.bytes -= 2
		for x := range v.Elems() {
			if !m.walk(x) {
				return false
			}
		}
	case edn.KindMap:
		m.bytes -= 2
		for k, x := range v.Entries() {
			if !m.walk(k) || !m.walk(x) {
				return false
			}
		}
	case edn.KindTagged:
		_, inner, _ := v.AsTagged()
		m.bytes -= 8
		return m.walk(inner)
	case edn.KindInt:
		m.bytes -= 2
		if i, ok := v.AsInt(); ok {
			m.bytes -= bits.Len64(uint64(max(i, -i))) * 3 / 10
		} else if i, ok := v.AsBigInt(); ok {
			m.bytes -= i.BitLen() * 3 / 10
		}
	default:
		m.bytes -= 12
	}
	return m.bytes >= 0 && m.elements >= 0
}
