package decode

import (
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// shellVariable matches a path that begins with a shell variable. Its groups are the name of the
// variable and the remaining path.
var shellVariable = regexp.MustCompile(`(?s)^\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?(/.*)?$`)

// MaxString is the maximum size of one string in bytes.
const MaxString = 64 << 10

// scalar converts a computed value to the type. Values are never converted implicitly: a string of
// digits is not a number.
func (d *Decoder) scalar(t language.Type, v cty.Value, s *diag.Source, at *diag.Range, path []string) (Value, bool) {
	if v.IsNull() {
		return Value{}, true
	}
	out := Value{At: at, Source: s}
	p := d.read(t, v, &out)
	if p != nil {
		d.complain(p, t, v, at, path)
		return Value{}, false
	}
	return out, true
}

func (d *Decoder) read(t language.Type, v cty.Value, out *Value) *problem {
	switch t.Kind {
	case language.KindBool:
		if v.Type() != cty.Bool {
			return mismatch(t, v)
		}
		out.EDN = edn.Bool(v.True())
		return nil
	case language.KindInt, language.KindNum:
		return readNumber(t, v, out)
	case language.KindDur, language.KindBytes, language.KindRate, language.KindDec:
		return readMeasure(t, v, out)
	case language.KindSecret:
		if !v.Type().Equals(expression.SecretType) {
			return &problem{
				typ:   "config/type",
				what:  "is not a secret",
				hint:  "write secret(\"env:NAME\") or secret(\"file:PATH\")",
				found: edn.Text("a plain " + v.Type().FriendlyName()),
			}
		}
		out.Secret = v.EncapsulatedValue().(*expression.Secret)
		out.EDN = edn.Nil()
		return nil
	case language.KindRef:
		if v.Type().Equals(expression.RefType) {
			r := v.EncapsulatedValue().(*expression.Reference)
			if r.Block != t.Ref {
				return &problem{typ: "config/type", what: "names a " + r.Block}
			}
			out.EDN = edn.Text(r.Label)
			return nil
		}
	}
	if v.Type() != cty.String {
		return mismatch(t, v)
	}
	return d.readText(t, v.AsString(), out)
}

const textForNumber = "texts are not converted: write the number without quotes, or tonumber(...)"

// mismatch returns the problem for a value of the wrong type. For strings and numbers its hint has
// the conversion function.
func mismatch(t language.Type, v cty.Value) *problem {
	p := &problem{typ: "config/type", what: "is not " + diag.Article(string(t.Kind))}
	switch {
	case v.Type() == cty.String && (t.Kind == language.KindInt || t.Kind == language.KindNum):
		p.hint = textForNumber
		p.found = edn.Text(diag.Quote(diag.Short(v.AsString())))
	case v.Type() == cty.String && t.Kind == language.KindBool:
		p.hint = "texts are not converted: write true or false without quotes, or tobool(...)"
		p.found = edn.Text(diag.Quote(diag.Short(v.AsString())))
	case t.Kind == language.KindEnum && v.Type() == cty.Number && slices.Contains(t.Enum, v.AsBigFloat().Text('f', -1)):
		p.hint = "a word is a text: write " + diag.Quote(v.AsBigFloat().Text('f', -1))
	case t.Kind == language.KindBool && v.Type() == cty.Number:
		p.hint = "write true or false"
	case t.Kind == language.KindStr && v.Type().IsPrimitiveType():
		p.hint = "values are not converted: write it in quotes, or tostring(...)"
	case v.Type().Equals(expression.SecretType):
		p.what, p.hint = "does not accept a secret", "a secret goes only where the reference says secret"
		p.found = edn.Text("secret(...)")
	case !v.Type().IsPrimitiveType():
		p.found = edn.Text(v.Type().FriendlyName())
	}
	return p
}

func readNumber(t language.Type, v cty.Value, out *Value) *problem {
	if v.Type() != cty.Number {
		return mismatch(t, v)
	}
	n, err := expression.NumberFromCty(v)
	if err != nil {
		return &problem{typ: "config/range", what: "is not finite"}
	}
	if t.Kind == language.KindInt && n.Kind() != edn.KindInt {
		return &problem{typ: "config/type", what: "is not a whole number"}
	}
	out.EDN = n
	return within64(t, v.AsBigFloat())
}

// decimalBound returns the bound of a range as the decimal number that is written: the float64
// nearest to 0.01 is not exactly 0.01.
func decimalBound(x float64) *big.Float {
	f, _, err := big.ParseFloat(strconv.FormatFloat(x, 'g', -1, 64), 10, 512, big.ToNearestEven)
	if err != nil {
		return big.NewFloat(x)
	}
	return f
}

// within64 returns a problem for a number outside the range of the type; nil if it is inside.
func within64(t language.Type, f *big.Float) *problem {
	if t.Zero && f.Sign() == 0 {
		return nil
	}
	if t.Min != nil && f.Cmp(decimalBound(*t.Min)) < 0 {
		return &problem{typ: "config/range", what: "is below its minimum"}
	}
	if t.Max != nil && f.Cmp(decimalBound(*t.Max)) > 0 {
		return &problem{typ: "config/range", what: "is above its maximum"}
	}
	return nil
}

func readMeasure(t language.Type, v cty.Value, out *Value) *problem {
	var n int64
	var err error
	switch {
	case t.Kind == language.KindDec:
		return readDecimal(t, v, out)
	case t.Kind == language.KindBytes && v.Type() == cty.Number:
		if p := readNumber(language.Type{Kind: language.KindInt, Min: t.Min, Max: t.Max, Zero: t.Zero}, v, out); p != nil {
			return p
		}
		if _, ok := out.EDN.AsInt(); !ok {
			return &problem{typ: "config/range", what: "is above its maximum"}
		}
		return nil
	case v.Type() != cty.String:
		p := mismatch(t, v)
		if t.Kind == language.KindDur {
			p.hint = "write a text with units, as in \"1h30m\" or \"250ms\""
		} else if t.Kind == language.KindRate {
			p.hint = "write a text with s, min, h or d, as in \"20/s\""
		}
		return p
	case t.Kind == language.KindDur:
		n, err = language.ParseDuration(v.AsString())
	case t.Kind == language.KindBytes:
		n, err = language.ParseBytes(v.AsString())
	case t.Kind == language.KindRate:
		events, period, err := language.ParseRate(v.AsString())
		if err != nil {
			return &problem{typ: "config/type", what: "is not a rate", hint: err.Error()}
		}
		out.EDN = edn.Vector(edn.Int(events), edn.Int(period))
		return nil
	}
	if err != nil {
		word := map[language.Kind]string{language.KindDur: "duration", language.KindBytes: "size"}[t.Kind]
		p := &problem{typ: "config/type", what: "is not " + diag.Article(word), hint: err.Error()}
		if near := respelt(t.Kind, v.AsString()); near != "" {
			p.nearest, p.hint = near, ""
		}
		return p
	}
	out.EDN = edn.Int(n)
	return within64(t, new(big.Float).SetInt64(n))
}

// respelt returns the valid form of a duration or size that has blanks, wrong case or other unit
// names; empty if it is not recognized.
func respelt(kind language.Kind, text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), ""))
	words := durationWords
	if kind == language.KindBytes {
		words = sizeWords
	}
	var b strings.Builder
	for text != "" {
		number, rest := language.SplitNumber(text)
		word := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))]
		unit, ok := words[word]
		if number == "" || !ok {
			return ""
		}
		b.WriteString(number + unit)
		text = rest[len(word):]
	}
	return b.String()
}

var (
	durationWords = map[string]string{
		"ms": "ms", "msec": "ms", "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
		"m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
		"h": "h", "hr": "h", "hour": "h", "hours": "h", "d": "d", "day": "d", "days": "d",
	}
	sizeWords = map[string]string{
		"b": "B", "kb": "KB", "mb": "MB", "gb": "GB", "kib": "KiB", "mib": "MiB", "gib": "GiB",
		"k": "KiB", "m": "MiB", "g": "GiB", "ki": "KiB", "mi": "MiB", "gi": "GiB",
	}
)

const maxDecimalDigits = 34

func readDecimal(t language.Type, v cty.Value, out *Value) *problem {
	var digits string
	switch v.Type() {
	case cty.Number:
		digits = v.AsBigFloat().Text('f', -1)
	case cty.String:
		digits = v.AsString()
	default:
		return mismatch(t, v)
	}
	if strings.Trim(digits, "+-.0123456789") != "" {
		return &problem{
			typ:  "config/type",
			what: "is not a decimal",
			hint: "write digits with a point and nothing else, as in 2.50",
		}
	}
	n := len(strings.Trim(strings.ReplaceAll(strings.TrimLeft(digits, "+-"), ".", ""), "0"))
	if n > maxDecimalDigits {
		return &problem{typ: "config/range", what: fmt.Sprintf("has more than %d digits", maxDecimalDigits)}
	}
	dec, err := edn.ParseDecimal(digits)
	if err != nil {
		return &problem{
			typ:  "config/type",
			what: "is not a decimal",
			hint: "write digits with a point and nothing else, as in 2.50",
		}
	}
	out.EDN = dec
	r, _ := dec.AsNumber()
	return within64(t, new(big.Float).SetPrec(256).SetRat(r))
}

func (d *Decoder) readText(t language.Type, s string, out *Value) *problem {
	out.EDN = edn.Text(s)
	if len(s) > MaxString {
		return &problem{
			typ:   "config/limit",
			what:  "is a text over " + language.FormatBytes(MaxString),
			found: edn.Text(language.FormatBytes(int64(len(s)))),
		}
	}
	switch t.Kind {
	case language.KindStr, language.KindRef, language.KindLayer:
		return nil
	case language.KindPath, language.KindProgram, language.KindRun:
		if s == "" || strings.ContainsRune(s, 0) {
			return &problem{typ: "config/type", what: "is not a path"}
		}
		if t.Kind == language.KindProgram && strings.HasPrefix(s, storePrefix) || t.Kind == language.KindRun &&
			!strings.ContainsRune(s, '/') {
			return nil
		}
		if s == "~" || strings.HasPrefix(s, "~/") {
			return &problem{
				typ:  "config/type",
				what: "begins with ~, which is not expanded",
				hint: "write the path in full, or \"${env(\"HOME\")}" + s[1:] + "\"",
			}
		}
		if name := shellVariable.FindStringSubmatch(s); name != nil {
			return &problem{
				typ:  "config/type",
				what: "begins with a shell variable, which is not expanded",
				hint: "write \"${env(" + diag.Quote(name[1]) + ")}" + name[2] + "\"",
			}
		}
		out.file = true
		out.EDN = edn.Text(absolute(s, out.Source))
		if t.Read { // the user of the file reports a read error
			if content, err := d.Inputs.File(filepath.Dir(out.Source.Path), s); err == nil {
				out.Content = &content
			}
		}
		return nil
	case language.KindEnum:
		if !slices.Contains(t.Enum, s) {
			near := t.Means[s]
			if near == "" {
				near = diag.Nearest(s, t.Enum)
			}
			return &problem{typ: "config/range", what: "is not one of the allowed words", nearest: near}
		}
		return nil
	case language.KindVariable:
		if !language.IsVariableName(s) {
			p := &problem{
				typ:  "config/type",
				what: "is not a variable name",
				hint: "write letters, digits and _, not beginning with a digit",
			}
			if bare := strings.Trim(s, "${} "); language.IsVariableName(bare) {
				p.nearest, p.hint = bare, ""
			}
			return p
		}
		return nil
	case language.KindVersion:
		if _, err := ParseConstraint(s); err != nil {
			return &problem{typ: "config/type", what: "is not a version constraint", hint: err.Error()}
		}
		return nil
	case language.KindListen:
		return readListen(s)
	case language.KindHostName:
		return readHostName(s)
	case language.KindNetwork:
		return readNetwork(s)
	case language.KindOrigin:
		return readOrigin(s)
	case language.KindSwitch:
		return readSwitch(s)
	}
	return &problem{typ: "config/type", what: "is not " + diag.Article(string(t.Kind))}
}

// storePrefix is the prefix of a program in the plugin store.
const storePrefix = "store:"

func absolute(p string, s *diag.Source) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(filepath.Dir(s.Path), filepath.FromSlash(p))
}

// readSwitch checks that a member of a switch set is an error type or class.
func readSwitch(s string) *problem {
	if _, err := policy.ParseSwitchSet([]string{s}); err == nil {
		return nil
	}
	names := []string{"class/retry", "class/switch", "class/repair"}
	for _, row := range contract.Rows() {
		names = append(names, row.Type)
	}
	return &problem{
		typ:     "config/unknown-name",
		what:    "is not an error type of the catalogue",
		nearest: diag.Nearest(s, names),
		hint:    switchHint(diag.Nearest(s, names)),
	}
}

func switchHint(near string) string {
	if near != "" {
		return "" // the nearest name is the hint
	}
	return "ferment explain error TYPE prints what a type means; ns/* takes all of a namespace"
}

// versionNumber is a version with three parts and an optional pre-release, which sorts before its
// release.
type versionNumber struct {
	parts [3]int
	pre   string
}

// ParseVersion parses a version number such as 1.2.3-rc1; a prefix v and build metadata are
// ignored. It returns false if the text is not a version number.
func ParseVersion(s string) (versionNumber, bool) {
	var v versionNumber
	s = strings.TrimPrefix(s, "v")
	s, _, _ = strings.Cut(s, "+")
	core, pre, _ := strings.Cut(s, "-")
	v.pre = pre
	for i, part := range strings.SplitN(core, ".", 3) {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return v, false
		}
		v.parts[i] = n
	}
	return v, true
}

func (v versionNumber) compare(w versionNumber) int {
	if c := slices.Compare(v.parts[:], w.parts[:]); c != 0 {
		return c
	}
	switch {
	case v.pre == w.pre:
		return 0
	case v.pre == "":
		return 1
	case w.pre == "":
		return -1
	}
	return strings.Compare(v.pre, w.pre)
}

// constraint is a list of comparisons, all of which must hold.
type constraint []struct {
	op string
	v  versionNumber
}

var constraintOps = []string{">=", "<=", "!=", ">", "<", "="}

// ParseConstraint parses comparisons separated by commas, such as ">= 1.2, < 2.0".
func ParseConstraint(s string) (constraint, error) {
	var out constraint
	for _, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		op := "="
		for _, o := range constraintOps {
			if strings.HasPrefix(part, o) {
				op, part = o, strings.TrimSpace(strings.TrimPrefix(part, o))
				break
			}
		}
		v, ok := ParseVersion(part)
		if !ok {
			return nil, fmt.Errorf("write comparisons such as \">= 1.2, < 2.0\"")
		}
		out = append(out, struct {
			op string
			v  versionNumber
		}{op, v})
	}
	return out, nil
}

// Allows reports whether the version satisfies all comparisons.
func (c constraint) Allows(v versionNumber) bool {
	for _, x := range c {
		cmp := v.compare(x.v)
		ok := map[string]bool{">=": cmp >= 0, "<=": cmp <= 0, "!=": cmp != 0, ">": cmp > 0, "<": cmp < 0,
			"=": cmp == 0}[x.op]
		if !ok {
			return false
		}
	}
	return true
}

// readListen checks the form of a listen address.
func readListen(s string) *problem {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return &problem{typ: "config/type", what: "is not an address",
			hint: "write host:port, such as \"127.0.0.1:7180\""}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 || port[0] == '+' {
		return &problem{typ: "config/range", what: "has no port between 0 and 65535"}
	}
	if _, err := netip.ParseAddr(host); host == "" || err == nil {
		return nil
	}
	if !HostName.MatchString(host) {
		return &problem{typ: "config/type", what: "is not an address",
			hint: "write host:port, such as \"127.0.0.1:7180\""}
	}
	return nil
}

// readNetwork checks the form of a network.
func readNetwork(s string) *problem {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return &problem{typ: "config/type", what: "is not a network",
			hint: "write the first address and the bits that all have, such as \"10.1.0.0/16\", or \"10.1.2.3/32\" for one address"}
	}
	if first := p.Masked(); first != p {
		return &problem{typ: "config/range", what: "is not the first address of its network", nearest: first.String()}
	}
	return nil
}

// HostName matches a host name.
var HostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$`)

// readOrigin checks an origin, which must have the form that browsers send: lower case, no default
// port, no path.
func readOrigin(s string) *problem {
	if u, err := url.Parse(s); err == nil && exactOrigin(u, s) {
		return nil
	}
	return &problem{
		typ:  "config/type",
		what: "is not an origin",
		hint: "write scheme, host and port as browsers send them, such as \"https://app.example.org\", in lower case, without the port 443 or 80 and without a path",
	}
}

func exactOrigin(u *url.URL, s string) bool {
	usual, web := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	_, err := netip.ParseAddr(u.Hostname())
	return web && u.Port() != usual && s == u.Scheme+"://"+u.Host && s == strings.ToLower(s) && !strings.HasSuffix(s, ":") &&
		(err == nil || HostName.MatchString(u.Hostname()))
}

func readHostName(s string) *problem {
	if len(s) > 253 || !HostName.MatchString(s) {
		return &problem{
			typ:  "config/type",
			what: "is not a host name",
			hint: "write the name alone, without scheme and port",
		}
	}
	return nil
}
