package edn

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Decimals with an exponent inside these bounds are written without exponent.
const (
	plainExpMin = -40
	plainExpMax = 20
)

// Decimal returns the exact decimal coef x 10^exp. Trailing zeros are dropped.
// A nil coefficient, more than MaxDigits digits or an exponent beyond
// +-MaxDigits returns a *ValueError.
func Decimal(coef *big.Int, exp int) (Value, error) {
	if coef == nil {
		return Value{}, &ValueError{Kind: KindDecimal, Code: "invalid-number", Message: "coefficient is a nil pointer"}
	}
	if coef.Sign() == 0 {
		return Value{kind: KindDecimal}, nil
	}
	if coef.IsInt64() && exp > -MaxDigits && exp < 0 {
		return shortDecimal(coef.Int64(), exp), nil
	}
	if coef.BitLen() <= 2*maxBits { // a coefficient with trailing zeros may shrink
		digits, neg := strings.CutPrefix(coef.String(), "-")
		if v, ok := decimalValue(neg, digits, "", exp); ok {
			return v, nil
		}
	}
	return Value{}, decimalRangeError()
}

// shortDecimal returns coef x 10^exp without writing it out. The coefficient is
// not zero, and the exponent is so small that no bound can be exceeded.
func shortDecimal(coef int64, exp int) Value {
	for coef%10 == 0 {
		coef /= 10
		exp++
	}
	return Value{kind: KindDecimal, num: uint64(coef), aux: int16(exp)}
}

func decimalRangeError() *ValueError {
	return &ValueError{Kind: KindDecimal, Code: "limit-digits",
		Message: "more than 1000 digits or an exponent beyond 1000"}
}

// RatDecimal returns the decimal equal to r. It returns a *ValueError if r is
// nil or if no decimal within the bounds of Decimal is equal, as for 1/3.
func RatDecimal(r *big.Rat) (Value, error) {
	if r == nil {
		return Value{}, &ValueError{Kind: KindDecimal, Code: "invalid-number", Message: "fraction is a nil pointer"}
	}
	digits, exact := r.FloatPrec()
	switch {
	case !exact:
		return Value{}, &ValueError{Kind: KindDecimal, Code: "invalid-number",
			Message: clip(r.String(), 60) + " is not a decimal"}
	case digits > MaxDigits:
		return Value{}, decimalRangeError()
	case digits == 0:
		return Decimal(r.Num(), 0)
	}
	// The denominator divides the power of ten, so the quotient is an integer.
	coef := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	coef.Mul(coef, r.Num()).Quo(coef, r.Denom())
	return Decimal(coef, -digits)
}

// ParseDecimal returns the decimal written as s: an integer or float literal,
// with or without the suffix M. Anything else returns a *ValueError.
func ParseDecimal(s string) (Value, error) {
	t := strings.TrimSuffix(s, "M")
	n, code := parseNumber(t)
	if code == "" && n.suffix != 0 {
		code = "invalid-number"
	}
	if code == "" {
		if v, ok := n.decimal(); ok {
			return v, nil
		}
		return Value{}, decimalRangeError()
	}
	return Value{}, &ValueError{Kind: KindDecimal, Code: code, Message: strconv.Quote(clip(s, 60)) + " is not a decimal"}
}

// decimalValue returns the decimal (whole followed by frac) x 10^exp; both may
// have zeros at either end. It fails if the canonical text would exceed the
// bounds of reading.
func decimalValue(neg bool, whole, frac string, exp int) (Value, bool) {
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		frac = strings.TrimLeft(frac, "0")
	}
	before := len(whole) + len(frac)
	if frac = strings.TrimRight(frac, "0"); frac == "" {
		whole = strings.TrimRight(whole, "0")
	}
	digits := len(whole) + len(frac)
	if digits == 0 {
		return Value{kind: KindDecimal}, true
	}
	if exp > 2*MaxDigits || exp < -4*MaxDigits {
		return Value{}, false
	}
	exp += before - digits
	spelled := digits
	if exp > 0 && exp <= plainExpMax {
		spelled += exp
	}
	if spelled > MaxDigits || exp > MaxDigits || exp < -MaxDigits {
		return Value{}, false
	}
	if digits <= 18 {
		c := joinDigits(joinDigits(0, whole), frac)
		if neg {
			c = -c
		}
		return Value{kind: KindDecimal, num: uint64(c), aux: int16(exp)}, true
	}
	sign := ""
	if neg {
		sign = "-"
	}
	text := sign + whole + frac
	if c, ok := parseInt64(text); ok {
		return Value{kind: KindDecimal, num: uint64(c), aux: int16(exp)}, true
	}
	v := textValue(KindDecimal, text)
	v.flag, v.aux = flagBig, int16(exp)
	return v, true
}

func joinDigits(n int64, digits string) int64 {
	for i := range len(digits) {
		n = n*10 + int64(digits[i]-'0')
	}
	return n
}

// parseInt64 is strconv.ParseInt without the allocation of an error.
func parseInt64(text string) (int64, bool) {
	digits, neg := text, false
	if digits[0] == '-' || digits[0] == '+' {
		neg = digits[0] == '-'
		digits = digits[1:]
	}
	if len(digits) > 19 {
		return 0, false
	}
	n := uint64(0)
	for i := range len(digits) {
		n = n*10 + uint64(digits[i]-'0') // 19 digits fit
	}
	switch {
	case neg && n <= 1<<63:
		return -int64(n), true
	case !neg && n < 1<<63:
		return int64(n), true
	}
	return 0, false
}

// numberToken is a number as written: sign, digits of the integer part, digits
// of the fraction, exponent.
type numberToken struct {
	text   string // without suffix
	neg    bool
	whole  string
	frac   string
	expLen int // bytes of the exponent with its letter, 0 if there is none
	exp    int // clamped to +-1,000,000
	suffix byte
}

// parseNumber splits a number token. The code is empty, "invalid-number",
// "limit-digits" or "unsupported-syntax" (a ratio).
func parseNumber(tok string) (n numberToken, code string) {
	i := 0
	if i < len(tok) && (tok[i] == '-' || tok[i] == '+') {
		n.neg = tok[i] == '-'
		i++
	}
	start := i
	i = skipDigits(tok, i)
	n.whole = tok[start:i]
	if n.whole == "" {
		return n, "invalid-number"
	}
	if i < len(tok) && tok[i] == '/' {
		if end := skipDigits(tok, i+1); end > i+1 && end == len(tok) {
			return n, "unsupported-syntax"
		}
		return n, "invalid-number"
	}
	if n.whole[0] == '0' && len(n.whole) > 1 {
		return n, "invalid-number"
	}
	if i < len(tok) && tok[i] == '.' {
		start = i + 1
		i = skipDigits(tok, start)
		if n.frac = tok[start:i]; n.frac == "" {
			return n, "invalid-number"
		}
	}
	if i < len(tok) && (tok[i] == 'e' || tok[i] == 'E') {
		start = i
		i++
		expNeg := false
		if i < len(tok) && (tok[i] == '-' || tok[i] == '+') {
			expNeg = tok[i] == '-'
			i++
		}
		digits := i
		i = skipDigits(tok, i)
		if i == digits {
			return n, "invalid-number"
		}
		n.expLen = i - start
		n.exp = clampedInt(tok[digits:i])
		if expNeg {
			n.exp = -n.exp
		}
	}
	n.text = tok[:i]
	if i < len(tok) && (tok[i] == 'N' || tok[i] == 'M') {
		n.suffix = tok[i]
		i++
	}
	if i < len(tok) || n.suffix == 'N' && !n.isInteger() {
		return n, "invalid-number"
	}
	if len(n.whole)+len(n.frac) > MaxDigits || n.expLen > MaxDigits {
		return n, "limit-digits"
	}
	return n, ""
}

func (n *numberToken) isInteger() bool { return n.frac == "" && n.expLen == 0 }

// integer returns the value of a token without fraction and exponent.
func (n *numberToken) integer() Value {
	if i, ok := parseInt64(n.text); ok {
		return Int(i)
	}
	v := textValue(KindInt, strings.TrimPrefix(n.text, "+"))
	v.flag = flagBig
	return v
}

func (n *numberToken) float() (Value, bool) {
	f, err := strconv.ParseFloat(n.text, 64)
	if err != nil || math.IsInf(f, 0) {
		return Value{}, false
	}
	return floatValue(f), true
}

func (n *numberToken) decimal() (Value, bool) {
	if n.exp > MaxDigits || n.exp < -MaxDigits {
		return Value{}, false
	}
	return decimalValue(n.neg, n.whole, n.frac, n.exp-len(n.frac))
}

func skipDigits(s string, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}

func clampedInt(digits string) int {
	n := 0
	for i := range len(digits) {
		if n = n*10 + int(digits[i]-'0'); n > 1_000_000 {
			return 1_000_000
		}
	}
	return n
}

func (v *Value) bigInt() *big.Int {
	if v.flag&flagBig == 0 {
		return big.NewInt(int64(v.num))
	}
	i, _ := new(big.Int).SetString(v.text(), 10)
	return i
}

func appendInt(dst []byte, v *Value) []byte {
	if v.flag&flagBig == 0 {
		return strconv.AppendInt(dst, int64(v.num), 10)
	}
	return append(append(dst, v.text()...), 'N')
}

// appendFloat writes the shortest digits that read back exactly, always with a
// fraction.
func appendFloat(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); f != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if format == 'f' {
		for _, c := range dst[start:] {
			if c == '.' {
				return dst
			}
		}
		return append(dst, '.', '0')
	}
	// strconv returns d.ddde+XX or de-0X; the canonical form has a fraction, no
	// plus and no leading zero in the exponent.
	e := start
	for dst[e] != 'e' {
		e++
	}
	var tail [8]byte
	exp := append(tail[:0], dst[e+1:]...)
	hasFraction := false
	for _, c := range dst[start:e] {
		hasFraction = hasFraction || c == '.'
	}
	dst = dst[:e]
	if !hasFraction {
		dst = append(dst, '.', '0')
	}
	dst = append(dst, 'e')
	if exp[0] == '-' {
		dst = append(dst, '-')
	}
	exp = exp[1:]
	for len(exp) > 1 && exp[0] == '0' {
		exp = exp[1:]
	}
	return append(dst, exp...)
}

// appendDecimal writes the canonical text without the suffix M.
func appendDecimal(dst []byte, v *Value) []byte {
	var small [24]byte
	var digits []byte
	if v.flag&flagBig == 0 {
		digits = strconv.AppendInt(small[:0], int64(v.num), 10)
	} else {
		digits = []byte(v.text())
	}
	exp := int(v.aux)
	if exp == 0 {
		return append(dst, digits...)
	}
	if exp < plainExpMin || exp > plainExpMax {
		dst = append(dst, digits...)
		return strconv.AppendInt(append(dst, 'E'), int64(exp), 10)
	}
	if digits[0] == '-' {
		dst = append(dst, '-')
		digits = digits[1:]
	}
	if exp > 0 {
		dst = append(dst, digits...)
		return appendZeros(dst, exp)
	}
	point := len(digits) + exp
	if point <= 0 {
		dst = append(dst, '0', '.')
		return append(appendZeros(dst, -point), digits...)
	}
	dst = append(dst, digits[:point]...)
	return append(append(dst, '.'), digits[point:]...)
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}
