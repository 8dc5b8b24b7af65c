package id

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Kind is the letter of an id: what it identifies.
type Kind byte

// The kinds of ids.
const (
	Content Kind = 'c'
	Node    Kind = 'n'
	Basis   Kind = 'b'
	Frame   Kind = 'f'
	Record  Kind = 'r'
	State   Kind = 's' // of a state, and of the set of frames of a node
	Prompt  Kind = 'p'
	Context Kind = 'x'
	Params  Kind = 'a'
)

const kinds = "cnbfrspxa"

// Alg is a hash algorithm. Its value is part of what is hashed.
type Alg byte

// The algorithms. Those of git are for content ids only.
const (
	BLAKE3       Alg = 1
	SHA256       Alg = 2
	gitSHA1Alg   Alg = 3
	gitSHA256Alg Alg = 4
)

const (
	maxSum        = 32
	formatVersion = 1
)

// algs are the names of the algorithms in text.
var algs = [...]string{BLAKE3: "b3", SHA256: "s2", gitSHA1Alg: "g1", gitSHA256Alg: "g2"}

// String returns the name of the algorithm in an id.
func (a Alg) String() string {
	if a.valid() {
		return algs[a]
	}
	return "?"
}

// Size returns the length of a sum in bytes.
func (a Alg) Size() int {
	if a == gitSHA1Alg {
		return 20
	}
	return maxSum
}

func (a Alg) valid() bool { return a >= BLAKE3 && a <= gitSHA256Alg }

func (a Alg) git() bool { return a == gitSHA1Alg || a == gitSHA256Alg }

// ID is one id. IDs are comparable with ==. The zero ID is absent.
type ID struct {
	kind Kind
	alg  Alg
	sum  [maxSum]byte
}

// Of returns the ID with the given sum. It returns an error if kind, algorithm
// and length do not match.
func Of(kind Kind, alg Alg, sum []byte) (ID, error) {
	x := ID{kind: kind, alg: alg}
	switch {
	case !alg.valid():
		return ID{}, invalid("algorithm", "%d is not an algorithm", alg)
	case strings.IndexByte(kinds, byte(kind)) < 0:
		return ID{}, invalid("kind", "%q is not a kind of id", kind)
	case alg.git() && kind != Content:
		return ID{}, invalid("algorithm", "%s is an algorithm of content ids only", alg)
	case len(sum) != alg.Size():
		return ID{}, invalid("length", "a sum of %s has %d bytes, not %d", alg, alg.Size(), len(sum))
	}
	copy(x.sum[:], sum)
	return x, nil
}

// Kind returns what the id identifies.
func (x ID) Kind() Kind { return x.kind }

// Alg returns the algorithm.
func (x ID) Alg() Alg { return x.alg }

// Sum returns a copy of the hash.
func (x ID) Sum() []byte { return bytes.Clone(x.sum[:x.alg.Size()]) }

// AppendSum appends the hash to b.
func (x ID) AppendSum(b []byte) []byte { return append(b, x.sum[:x.alg.Size()]...) }

// IsZero reports whether the id is absent.
func (x ID) IsZero() bool { return x.kind == 0 }

// Compare orders ids of one kind and algorithm by the bytes of their sums.
func (x ID) Compare(y ID) int { return bytes.Compare(x.sum[:], y.sum[:]) }

// Hex returns the hash as hexadecimal digits, as git prints it.
func (x ID) Hex() string { return hex.EncodeToString(x.sum[:x.alg.Size()]) }

// String returns the text form, empty for an absent id.
func (x ID) String() string {
	if x.IsZero() {
		return ""
	}
	b := make([]byte, 0, 6+2*maxSum)
	b = append(b, byte(x.kind), '0'+formatVersion, '-')
	b = append(append(b, x.alg.String()...), '-')
	return string(hex.AppendEncode(b, x.sum[:x.alg.Size()]))
}

// MarshalText returns the text form.
func (x ID) MarshalText() ([]byte, error) { return []byte(x.String()), nil }

// UnmarshalText parses the text form of any kind. Empty text is an absent id.
func (x *ID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*x = ID{}
		return nil
	}
	parsed, err := parse(string(text))
	if err == nil {
		*x = parsed
	}
	return err
}

// Parse parses the text form of an id of the kind.
func Parse(kind Kind, text string) (ID, error) {
	x, err := parse(text)
	if err == nil && x.kind != kind {
		return ID{}, About(invalid("kind", "it begins with %q, expected an id that begins with %q", x.kind, kind), text)
	}
	return x, err
}

// About adds the invalid text to an error of Parse.
func About(err error, text string) error {
	return contract.AsError(err).WithOp("id", fmt.Sprintf("%.80q", text))
}

// parse parses the text form of an id. For invalid text it returns the error of explained, which is
// slower than parsed.
func parse(text string) (ID, error) {
	if x, ok := parsed(text); ok {
		return x, nil
	}
	x, err := explained(text)
	if err != nil {
		err = About(err, text)
	}
	return x, err
}

// explained parses the text form and returns an error that names what is wrong.
func explained(text string) (ID, error) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 || len(parts[0]) != 2 {
		return ID{}, invalid("form", "it is not an id such as n1-b3-9c04…")
	}
	if parts[0][1] != '0'+formatVersion {
		return ID{}, invalid("version", "it has a version other than %d", formatVersion)
	}
	alg := Alg(0)
	for a, name := range algs {
		if name != "" && name == parts[1] {
			alg = Alg(a)
		}
	}
	if alg == 0 {
		return ID{}, invalid("algorithm", "it has none of the algorithms b3, s2, g1, g2")
	}
	if strings.ContainsAny(parts[2], "ABCDEF") {
		return ID{}, invalid("case", "it has upper-case digits")
	}
	sum, err := hex.DecodeString(parts[2])
	if err != nil {
		return ID{}, invalid("digits", "it has other characters than the digits 0 to 9 and a to f, or an odd number of them")
	}
	return Of(Kind(parts[0][0]), alg, sum)
}

// parsed is the fast path of parse; ok is false if text is invalid.
func parsed(text string) (x ID, ok bool) {
	const head = len("n1-b3-")
	if len(text) < head || text[1] != '0'+formatVersion || text[2] != '-' || text[5] != '-' || strings.IndexByte(kinds, text[0]) < 0 {
		return x, false
	}
	x.kind = Kind(text[0])
	for a, name := range algs {
		if name == text[3:5] {
			x.alg = Alg(a)
		}
	}
	if x.alg == 0 || len(text) != head+2*x.alg.Size() || x.alg.git() && x.kind != Content {
		return x, false
	}
	for i := range x.alg.Size() {
		high, low := digit(text[head+2*i]), digit(text[head+2*i+1])
		if high|low > 15 {
			return x, false
		}
		x.sum[i] = high<<4 | low
	}
	return x, true
}

// digit returns the value of a lower-case hexadecimal digit, more than 15 for other
// characters.
func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}

// invalid returns an error of type input/invalid with a message and, as detail, a reason for
// programs.
func invalid(reason, format string, args ...any) error {
	return contract.Errorf("input/invalid", format, args...).WithOp("id", "").WithDetail("reason", edn.K(reason))
}

// MarshalEDN returns the text form as a string, nil for an absent id.
func (x ID) MarshalEDN() ([]byte, error) {
	if x.IsZero() {
		return []byte("nil"), nil
	}
	return []byte(`"` + x.String() + `"`), nil
}

// UnmarshalEDN reads the form that MarshalEDN writes.
func (x *ID) UnmarshalEDN(text []byte) error {
	if string(text) == "nil" {
		*x = ID{}
		return nil
	}
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return invalid("form", "%.80q is not an id in a string", text)
	}
	return x.UnmarshalText(text[1 : len(text)-1])
}
