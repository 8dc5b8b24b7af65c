package contract

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ScoreRules locate the score of a judge and define its scale (JDG-003).
type ScoreRules struct {
	// Path leads to the score through maps with keyword or text keys; if it is
	// empty, only the usual keys are tried.
	Path []string
	// Scale is [worst best] and is mapped to [0 1]. If nil, the score must
	// already be from 0 to 1; any other number is an error, because 8 could
	// mean 0.8 or 8 %.
	Scale edn.Value
}

// scoreKeys are tried if no path leads to a score.
var scoreKeys = [...]string{"score", "eval/score", "grade/score"}

// maxScoreText limits the text that is searched for a score, in bytes.
const maxScoreText = 64 << 10

// ParseScore reads the score in the answer of a judge: a number, a text with a
// number, "n/m" where m is the end of the scale, a map with the score at the
// path of the rules or under a usual key, or a map whose :text is one of these
// as EDN or JSON. The text must contain nothing else, because a score among
// other words may be a quotation of the judged text. The result is from 0 to 1
// and exact. The error is :judge/no-score, :judge/score-out-of-range,
// :judge/ambiguous-score (contradicting keys, or several values in one text), or
// :judge/rubric-invalid for a scale that is not [worst best].
func ParseScore(v edn.Value, rules ScoreRules) (*big.Rat, *Error) {
	low, high, e := rules.ends()
	if e != nil {
		return nil, e
	}
	raw, e := rules.find(v, high, 0)
	if e != nil {
		return nil, e
	}
	if raw == nil {
		return nil, Errorf("judge/no-score", "the judge answered with %s, which contains no score", describeScore(v)).
			WithDetail("expected", edn.Text("a number, or a map with "+rules.shown()))
	}
	score := new(big.Rat).Sub(raw, low)
	score.Quo(score, new(big.Rat).Sub(high, low))
	if score.Sign() < 0 || score.Cmp(big.NewRat(1, 1)) > 0 {
		hint := "name the scale in the rubric, such as [0 10]"
		if !rules.Scale.IsNil() {
			hint = "let the judge answer on the scale " + rules.Scale.String() + ", or change the scale of the rubric"
		}
		return nil, Errorf("judge/score-out-of-range", "the judge gave the score %s, outside of %s to %s", plainRat(raw),
			plainRat(low), plainRat(high)).WithHint(hint)
	}
	return score, nil
}

// ends returns the ends of the scale.
func (r ScoreRules) ends() (low, high *big.Rat, e *Error) {
	if r.Scale.IsNil() {
		return new(big.Rat), big.NewRat(1, 1), nil
	}
	first, _ := r.Scale.Nth(0)
	last, _ := r.Scale.Nth(1)
	low, lok := first.AsNumber()
	high, hok := last.AsNumber()
	if !lok || !hok || r.Scale.Len() != 2 || low.Cmp(high) >= 0 {
		return nil, nil, Errorf("judge/rubric-invalid",
			"the scale of the rubric is %s; expected [worst best] with worst below best", r.Scale).
			WithHint("write two numbers, such as [0 10]")
	}
	return low, high, nil
}

func (r ScoreRules) shown() string {
	if len(r.Path) > 0 {
		return strings.Join(r.Path, " ") + " or :score"
	}
	return ":score"
}

// find returns the score as written, nil if there is none.
func (r ScoreRules) find(v edn.Value, high *big.Rat, depth int) (*big.Rat, *Error) {
	if n, ok := v.AsNumber(); ok {
		return n, nil
	}
	if text, ok := v.AsString(); ok {
		return r.inText(text, high, depth)
	}
	if v.Kind() != edn.KindMap {
		return nil, nil
	}
	if at := r.at(v); !at.IsNil() {
		n, e := r.scalar(at, high)
		if n == nil && e == nil {
			e = Errorf("judge/no-score", "the judge gave %s at %s, which is not a number", describeScore(at),
				strings.Join(r.Path, " "))
		}
		return n, e
	}
	var found *big.Rat
	for _, key := range scoreKeys {
		for _, k := range [...]edn.Value{edn.K(key), edn.Text(key)} {
			at, ok := v.Get(k)
			if !ok || at.IsNil() {
				continue
			}
			n, e := r.scalar(at, high)
			switch {
			case e != nil:
				return nil, e
			case n == nil:
				return nil, Errorf("judge/no-score", "the judge gave %s as :%s, which is not a number", describeScore(at), key)
			case found != nil && found.Cmp(n) != 0:
				return nil, Errorf("judge/ambiguous-score", "the judge gave the scores %s and %s", plainRat(found), plainRat(n))
			}
			found = n
		}
	}
	if found != nil || depth > 0 {
		return found, nil
	}
	text, ok := v.Key("text").AsString()
	if !ok {
		text, ok = textKey(v)
	}
	if !ok {
		return nil, nil
	}
	return r.inText(text, high, depth+1)
}

func textKey(v edn.Value) (string, bool) {
	at, _ := v.Get(edn.Text("text"))
	return at.AsString()
}

// scalar reads a number or a text with a number.
func (r ScoreRules) scalar(v edn.Value, high *big.Rat) (*big.Rat, *Error) {
	if n, ok := v.AsNumber(); ok {
		return n, nil
	}
	text, ok := v.AsString()
	if !ok {
		return nil, nil
	}
	return number(text, high)
}

// inText reads a text with a number, or with EDN or JSON that contains a score.
func (r ScoreRules) inText(text string, high *big.Rat, depth int) (*big.Rat, *Error) {
	text = strings.TrimSpace(text)
	if n, e := number(text, high); n != nil || e != nil {
		return n, e
	}
	if depth > 1 || len(text) > maxScoreText {
		return nil, nil
	}
	if whole, ok := WholeValue(text); ok {
		return r.find(whole, high, depth+1)
	}
	scores := 0
	for _, inner := range ValuesIn(text) {
		if n, e := r.find(inner, high, depth+1); n != nil || e != nil {
			scores++
		}
	}
	if scores > 1 {
		return nil, Errorf("judge/ambiguous-score", "the judge wrote %d values with a score into one text", scores)
	}
	return nil, nil
}

// maxScoreDigits limits the digits of a number in a text.
const maxScoreDigits = 40

// number reads "0.8" and "8/10"; it returns nil for any other text.
func number(text string, high *big.Rat) (*big.Rat, *Error) {
	text = strings.TrimSpace(text)
	n, of, fraction := strings.Cut(text, "/")
	score := plainDecimal(strings.TrimSpace(n))
	if score == nil || !fraction {
		return score, nil
	}
	best := plainDecimal(strings.TrimSpace(of))
	switch {
	case best == nil:
		return nil, nil
	case best.Cmp(high) != 0:
		return nil, Errorf("judge/ambiguous-score", "the judge gave the score %s, and the scale ends at %s", text,
			plainRat(high))
	}
	return score, nil
}

// plainDecimal reads digits with an optional sign and point.
func plainDecimal(text string) *big.Rat {
	if text == "" || len(text) > maxScoreDigits {
		return nil
	}
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+")
	whole, part, _ := strings.Cut(digits, ".")
	if whole+part == "" || len(text)-len(digits) > 1 || strings.Trim(whole+part, "0123456789") != "" {
		return nil
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return n
}

// at returns the value at the path. It returns nil if the path is one of the
// usual keys, which are compared with each other.
func (r ScoreRules) at(v edn.Value) edn.Value {
	if len(r.Path) == 0 || len(r.Path) == 1 && slices.Contains(scoreKeys[:], strings.TrimPrefix(r.Path[0], ":")) {
		return edn.Nil()
	}
	return alongPath(v, r.Path)
}

// alongPath follows keys that may be keywords or texts; nil if a key is
// missing.
func alongPath(v edn.Value, path []string) edn.Value {
	for _, step := range path {
		if v.Kind() != edn.KindMap {
			return edn.Nil()
		}
		step = strings.TrimPrefix(step, ":")
		next, ok := edn.Nil(), false
		if k, err := edn.Keyword(step); err == nil {
			next, ok = v.Get(k)
		}
		if !ok {
			next, _ = v.Get(edn.Text(step))
		}
		v = next
	}
	return v
}

// describeScore describes the value found instead of a score.
func describeScore(v edn.Value) string {
	const most = 40
	s := v.String()
	if len(s) > most {
		return "a " + v.Kind().String()
	}
	return s
}

func plainRat(r *big.Rat) string {
	digits, exact := r.FloatPrec()
	if !exact || digits > maxScoreDigits {
		digits = 6
	}
	s := r.FloatString(digits)
	if f, err := strconv.ParseFloat(s, 64); err == nil && len(s) > maxScoreDigits {
		return strconv.FormatFloat(f, 'g', 6, 64)
	}
	return s
}
