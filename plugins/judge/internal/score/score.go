package score

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Scale is the range of a judge's scores; its ends become 0 and 1.
type Scale struct{ Low, High *big.Rat }

// Unit is the scale of who names none.
func Unit() Scale { return Scale{new(big.Rat), big.NewRat(1, 1)} }

// ReadScale reads [low high].
func ReadScale(v edn.Value) (Scale, error) {
	if v.IsVector() || v.IsList() {
		if v.Len() == 2 {
			low, _ := v.Nth(0)
			high, _ := v.Nth(1)
			a, ok := low.AsNumber()
			b, also := high.AsNumber()
			if ok && also && a.Cmp(b) < 0 {
				return Scale{a, b}, nil
			}
		}
	}
	return Scale{}, fmt.Errorf("expected two numbers, the lower one first, such as [0 10], found %s", Excerpt(v.String()))
}

// Value is the scale as ReadScale takes it.
func (s Scale) Value() edn.Value { return edn.Vector(exact(s.Low), exact(s.High)) }

func exact(r *big.Rat) edn.Value {
	if r.IsInt() {
		return edn.BigInt(r.Num())
	}
	v, err := edn.ParseDecimal(r.FloatString(6) + "M")
	if err != nil {
		return edn.Nil()
	}
	return v
}

// share is where on the scale x lies.
func (s Scale) share(x *big.Rat) (*big.Rat, error) {
	if x.Cmp(s.Low) < 0 || x.Cmp(s.High) > 0 {
		return nil, contract.Errorf("judge/score-out-of-range", "the score %s is not on the scale from %s to %s", short(x), s.Low.RatString(), s.High.RatString()).
			WithHint("name the scale that the judge uses under :scale")
	}
	above := new(big.Rat).Sub(x, s.Low)
	return above.Quo(above, new(big.Rat).Sub(s.High, s.Low)), nil
}

func short(x *big.Rat) string {
	text := x.RatString()
	if !x.IsInt() {
		text = strings.TrimRight(x.FloatString(6), "0")
	}
	return Excerpt(text)
}

// Rounded is a score in thousandths, rounded half to even: the form in which
// scores are compared and written.
func Rounded(r *big.Rat) edn.Value {
	num := new(big.Int).Mul(r.Num(), big.NewInt(1000))
	q, rest := new(big.Int).QuoRem(num, r.Denom(), new(big.Int))
	twice := new(big.Int).Lsh(rest.Abs(rest), 1)
	if away := twice.Cmp(r.Denom()); away > 0 || away == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(int64(r.Sign())))
	}
	v, err := edn.Decimal(q, -3)
	if err != nil { // thousandths of something in 0..1 have four digits
		return edn.Nil()
	}
	return v
}

// Reader reads scores.
type Reader struct {
	// Path is where in a map the judge puts its score, empty if that is not
	// known. A step that is a keyword also stands for the string of its name.
	Path []edn.Value
	// Scale is that of the judge.
	Scale Scale
}

// keys are where a score is looked for without a path.
var keys = []string{"score", "eval/score", "grade/score"}

// Read gives the score that v holds, from 0 to 1.
func (r Reader) Read(v edn.Value) (*big.Rat, error) {
	raw, err := r.find(v, true)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, missing(v)
	}
	return r.Scale.share(raw)
}

// find gives the score as the judge wrote it; nil if there is none.
func (r Reader) find(v edn.Value, texts bool) (*big.Rat, error) {
	if x := r.scalar(v); x != nil {
		return x, nil
	}
	if s, ok := v.AsString(); ok {
		if !texts {
			return nil, nil
		}
		return r.inText(s)
	}
	if !v.IsMap() {
		return nil, nil
	}
	if len(r.Path) > 0 {
		if at, ok, err := follow(v, r.Path); err != nil {
			return nil, err
		} else if ok {
			if x := r.scalar(at); x != nil {
				return x, nil
			}
			return nil, contract.Errorf("judge/no-score", "there is no number at %s, but %s", edn.Vector(r.Path...), Excerpt(at.String()))
		}
	}
	var found []*big.Rat
	for _, key := range keys {
		for _, at := range both(v, key) {
			if at.IsNil() {
				continue
			}
			x := r.scalar(at)
			if x == nil {
				return nil, contract.Errorf("judge/no-score", "the score under %s is no number, but %s", key, Excerpt(at.String()))
			}
			found = append(found, x)
		}
	}
	if len(found) > 0 || !texts {
		return same(found)
	}
	for _, at := range both(v, "text") {
		s, ok := at.AsString()
		if !ok {
			continue
		}
		x, err := r.inText(s)
		if err != nil {
			return nil, err
		}
		if x != nil {
			found = append(found, x)
		}
	}
	return same(found)
}

// inText gives the score that the values in a text agree on.
func (r Reader) inText(s string) (*big.Rat, error) {
	if x := r.numeral(s); x != nil {
		return x, nil
	}
	var found []*big.Rat
	for _, v := range Values(s) {
		x, err := r.find(v, false)
		if err != nil {
			return nil, err
		}
		if x != nil {
			found = append(found, x)
		}
	}
	return same(found)
}

func same(found []*big.Rat) (*big.Rat, error) {
	for _, x := range found {
		if x.Cmp(found[0]) != 0 {
			return nil, contract.Errorf("judge/ambiguous-score", "the judge gave the scores %s and %s", short(found[0]), short(x))
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found[0], nil
}

func (r Reader) scalar(v edn.Value) *big.Rat {
	if x, ok := v.AsNumber(); ok {
		return x
	}
	if s, ok := v.AsString(); ok {
		return r.numeral(s)
	}
	return nil
}

var (
	numeral  = regexp.MustCompile(`^[+-]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?$`)
	fraction = regexp.MustCompile(`^([^/ ]+) ?/ ?([^/ ]+)$`)
)

// numeral reads a text that is nothing but a number, or n/m where m ends the
// scale.
func (r Reader) numeral(s string) *big.Rat {
	if len(s) > 200 {
		return nil
	}
	s = strings.TrimSpace(s)
	if parts := fraction.FindStringSubmatch(s); parts != nil {
		of := number(parts[2])
		if of == nil || of.Cmp(r.Scale.High) != 0 {
			return nil
		}
		s = parts[1]
	}
	return number(s)
}

func number(s string) *big.Rat {
	if !numeral.MatchString(s) {
		return nil
	}
	x, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return x
}

// both gives what stands under a key that may be a keyword or a string.
func both(v edn.Value, key string) []edn.Value {
	return []edn.Value{v.Key(key), get(v, edn.Text(key))}
}

func get(v, key edn.Value) edn.Value {
	at, _ := v.Get(key)
	return at
}

// follow walks a path. ok is false where there is nothing at its end.
func follow(v edn.Value, path []edn.Value) (at edn.Value, ok bool, err error) {
	for _, step := range path {
		name, isKeyword := step.AsKeyword()
		if s, isString := step.AsString(); isString {
			name = strings.TrimPrefix(s, ":")
		} else if !isKeyword {
			v = get(v, step) // an index
			continue
		}
		as, text := edn.Nil(), get(v, edn.Text(name))
		if k, err := edn.Keyword(name); err == nil {
			as = get(v, k)
		}
		if !as.IsNil() && !text.IsNil() && !as.Equal(text) {
			return edn.Nil(), false, contract.Errorf("judge/ambiguous-score", "%s stands in the verdict as keyword and as string, with different values", name)
		}
		if v = as; as.IsNil() {
			v = text
		}
	}
	return v, !v.IsNil(), nil
}

func missing(v edn.Value) error {
	return contract.Errorf("judge/no-score", "there is no score in %s", Excerpt(v.String())).
		WithDetail("output/hash", edn.Text(edn.Hash(v)))
}

// Excerpt is the beginning of a text on one line, for messages.
func Excerpt(s string) string {
	const most = 80
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
