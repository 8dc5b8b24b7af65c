package text

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	// minSecret is the length below which a secret is ignored, because it would
	// mask too much text.
	minSecret = 4
	// minPart is the length below which a part or encoded form of a secret is
	// ignored, because it could occur in unrelated text.
	minPart = 8
)

// Secrets removes secrets from texts: unchanged, each of their lines (a key of
// many lines is printed line by line), in any mix of upper and lower case, and
// in up to two nested encodings out of: escapes of JSON, EDN and Go, of a URL
// and of HTML, base64, hexadecimal digits, and a list of the decimal numbers of
// its bytes. Apply it before a text is cut, folded or quoted: a part of a
// secret, or another encoding, is not recognised. A nil Secrets removes
// nothing. It is safe for concurrent use.
type Secrets struct {
	starts   map[string][]form // by the first minSecret bytes, the longest first; in lower case
	possible [1 << 16]bool     // pairs of bytes at the start of a form
}

// form is a form of a secret in text, with its replacement.
type form struct{ text, instead string }

// NewSecrets returns Secrets for a map from secret to replacement. Secrets of
// less than 4 bytes are ignored.
func NewSecrets(secrets map[string]string) *Secrets {
	all := map[string]string{}
	for _, secret := range slices.Sorted(maps.Keys(secrets)) {
		if len(secret) < minSecret {
			continue
		}
		for form := range forms(secret) {
			all[lower(form)] = secrets[secret]
		}
	}
	s := &Secrets{starts: map[string][]form{}}
	for text, instead := range all {
		s.starts[text[:minSecret]] = append(s.starts[text[:minSecret]], form{text, instead})
		s.possible[pair(text)] = true
	}
	for _, same := range s.starts {
		slices.SortFunc(same,
			func(a, b form) int { return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text)) })
	}
	return s
}

// lower converts ASCII capitals to lower case; byte positions do not change.
func lower(s string) string {
	out := []byte(s)
	for i, b := range out {
		if 'A' <= b && b <= 'Z' {
			out[i] = b + 'a' - 'A'
		}
	}
	return string(out)
}

func pair[T string | []byte](s T) int { return int(s[0])<<8 | int(s[1]) }

// forms returns the texts to search for. Escapes are removed from a text before
// it is searched, so they are included only inside a block encoding.
func forms(secret string) map[string]bool {
	all := map[string]bool{}
	for _, s := range appearances(secret) {
		all[s] = true
		for _, outer := range coded(s) {
			all[outer] = true
			for _, twice := range coded(outer) {
				all[twice] = true
			}
		}
		for _, escaped := range []string{
			inside(strconv.Quote(s)), jsonText(s, true), jsonText(s, false),
			url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s),
		} {
			for _, outer := range coded(escaped) {
				all[outer] = true
			}
		}
	}
	return all
}

// appearances returns a secret, its lines, and the variants that writers
// produce for invalid UTF-8 and line ends.
func appearances(secret string) []string {
	var valid, folded strings.Builder
	for _, r := range secret { // an invalid byte becomes U+FFFD
		valid.WriteRune(r)
		if separates(r) {
			r = ' '
		}
		folded.WriteRune(r)
	}
	all := []string{secret, valid.String(), folded.String()}
	for line := range strings.FieldsFuncSeq(secret, separates) {
		// The frame lines of a key are the same in all keys.
		if line = strings.TrimSpace(line); len(line) >= minPart && !strings.HasPrefix(line, "-----") {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func separates(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// coded returns a text in the encodings of bytes.
func coded(s string) []string {
	digits := hex.EncodeToString([]byte(s))
	all := append(inBase64(s), digits, strings.ToUpper(digits))
	numbers := strings.Trim(fmt.Sprint([]byte(s)), "[]")
	all = append(all, numbers, strings.ReplaceAll(numbers, " ", ","), strings.ReplaceAll(numbers, " ", ", "))
	return slices.DeleteFunc(all, func(b string) bool { return len(b) < minPart })
}

func inside(quoted string) string {
	return strings.TrimSuffix(strings.TrimPrefix(quoted, `"`), `"`)
}

func jsonText(s string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(s) // writing to memory does not fail
	return inside(strings.TrimSuffix(b.String(), "\n"))
}

// inBase64 returns the characters that a text has in base64 regardless of the
// text around it, such as a user and a colon: one form for each position of its
// first byte in a group of three, and one with the padding at the end.
func inBase64(s string) []string {
	var out []string
	for before := range 3 {
		padded := append(make([]byte, before), s...)
		first, end := (before*8+5)/6, len(padded)*8/6
		for _, alphabet := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			if text := alphabet.EncodeToString(padded); first < end {
				out = append(out, text[first:end], text[first:], strings.TrimRight(text[first:], "="))
			}
		}
	}
	return out
}

// Replace returns a text without the secrets.
func (s *Secrets) Replace(text string) string { return s.Head(text, len(text)) }

// Head returns the first n bytes of text without the secrets. A secret that
// begins in these bytes is removed even if it ends later.
func (s *Secrets) Head(text string, n int) string {
	n = min(n, len(text))
	if s == nil {
		return text[:n]
	}
	hits := s.find(text)
	if len(hits) == 0 {
		return text[:n]
	}
	slices.SortFunc(hits,
		func(a, b secretHit) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.end, a.end)) })
	var out strings.Builder
	done := 0 // the text after it is still to be written
	for _, h := range hits {
		if h.begin >= n {
			break
		}
		if h.begin >= done {
			out.WriteString(text[done:h.begin])
			out.WriteString(h.instead)
		}
		done = max(done, h.end)
	}
	if done < n {
		out.WriteString(text[done:n])
	}
	return out.String()
}

// secretHit is the position of a secret in a text.
type secretHit struct {
	begin, end int
	instead    string
}

func (s *Secrets) find(text string) []secretHit {
	plain := reading{text: text}
	hits := s.search(plain, nil)
	for _, outer := range escapes {
		once, changed := outer(plain)
		if !changed {
			continue
		}
		hits = s.search(once, hits)
		for _, inner := range escapes {
			if twice, changed := inner(once); changed {
				hits = s.search(twice, hits)
			}
		}
	}
	return hits
}

func (s *Secrets) search(r reading, hits []secretHit) []secretHit {
	text := lower(r.text)
	for i := 0; i+minSecret <= len(text); i++ {
		if !s.possible[pair(text[i:])] {
			continue
		}
		for _, f := range s.starts[text[i:i+minSecret]] {
			if strings.HasPrefix(text[i:], f.text) {
				hits = append(hits, secretHit{r.begin(i), r.end(i + len(f.text) - 1), f.instead})
				break
			}
		}
	}
	return hits
}

// reading is a text without its escapes, with the original position of each
// byte.
type reading struct {
	text     string
	from, to []int // nil: identical
}

func (r reading) begin(i int) int {
	if r.from == nil {
		return i
	}
	return r.from[i]
}

func (r reading) end(i int) int {
	if r.to == nil {
		return i + 1
	}
	return r.to[i]
}

// escapes remove one layer of escapes from a reading and report whether there
// was one.
var escapes = []func(reading) (reading, bool){
	func(r reading) (reading, bool) { return r.unescape(`\`, backslash) },
	func(r reading) (reading, bool) { return r.unescape(`%`, percent) },
	func(r reading) (reading, bool) { return r.unescape(`+`, query) }, // otherwise equal to percent
	func(r reading) (reading, bool) { return r.unescape(`&`, entity) },
}

// unescape applies one to each occurrence of mark. size is 0 if no escape
// begins there.
func (r reading) unescape(mark string, one func(string) (text string, size int)) (reading, bool) {
	if !strings.Contains(r.text, mark) {
		return r, false
	}
	var out strings.Builder
	next := reading{from: make([]int, 0, len(r.text)), to: make([]int, 0, len(r.text))}
	for i := 0; i < len(r.text); {
		text, size := one(r.text[i:])
		if size == 0 {
			text, size = r.text[i:i+1], 1
		}
		out.WriteString(text)
		for range len(text) {
			next.from, next.to = append(next.from, r.begin(i)), append(next.to, r.end(i+size-1))
		}
		i += size
	}
	next.text = out.String()
	return next, true
}

// backslash reads an escape of JSON, EDN or Go.
func backslash(s string) (string, int) {
	if s[0] != '\\' || len(s) < 2 {
		return "", 0
	}
	if at := strings.IndexByte(`nrtbfav"\/'`, s[1]); at >= 0 {
		return "\n\r\t\b\f\a\v\"\\/'"[at : at+1], 2
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	code, ok := number(s, 2, digits)
	if !ok {
		return "", 0
	}
	if s[1] == 'x' {
		return string([]byte{byte(code)}), 4
	}
	const high, low, last = 0xd800, 0xdc00, 0xdfff
	if code >= high && code < low && strings.HasPrefix(s[6:], `\u`) {
		if second, ok := number(s, 8, 4); ok && second >= low && second <= last {
			return string(rune(0x10000 + (code-high)<<10 + (second - low))), 12
		}
	}
	return string(rune(code)), 2 + digits
}

// percent reads an escape of a URL.
func percent(s string) (string, int) {
	if s[0] != '%' {
		return "", 0
	}
	code, ok := number(s, 1, 2)
	if !ok {
		return "", 0
	}
	return string([]byte{byte(code)}), 3
}

// query is percent with a plus for a space.
func query(s string) (string, int) {
	if s[0] == '+' {
		return " ", 1
	}
	return percent(s)
}

// entity reads a character reference of HTML.
func entity(s string) (string, int) {
	const longest = len("&#x10ffff;")
	end := strings.IndexByte(s[:min(len(s), longest)], ';')
	if s[0] != '&' || end < 0 {
		return "", 0
	}
	if text := html.UnescapeString(s[:end+1]); text != s[:end+1] {
		return text, end + 1
	}
	return "", 0
}

// number reads hexadecimal digits of s.
func number(s string, at, digits int) (int, bool) {
	if digits == 0 || len(s) < at+digits {
		return 0, false
	}
	n, err := strconv.ParseUint(s[at:at+digits], 16, 32)
	return int(n), err == nil
}
