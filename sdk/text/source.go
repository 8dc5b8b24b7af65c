package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckNumbers looks for numbers that do not occur in source. Separators of
// thousands and decimals are read in the conventions of all languages, and
// words up to twelve by the pack of the language. Marks of list items are
// ignored.
func (p *Packs) CheckNumbers(s, source, language string) []Remark {
	known := values{}
	for _, n := range numbers(source) {
		for _, reading := range readings(n.In(source)) {
			known[reading] = true
		}
	}
	known.addWords(p, source, language)
	var out []Remark
	for _, n := range numbers(s) {
		if mark(s, n) {
			continue
		}
		found := false
		for _, reading := range readings(n.In(s)) {
			found = found || known[reading]
		}
		if !found && len(out) < maxRemarks {
			out = append(out, Remark{n, "the number " + n.In(s) + " is not in the source", "use the numbers of the source"})
		}
	}
	return out
}

// values are the numbers of a source, as digits.
type values map[string]bool

// addWords adds the numbers that the source spells as words of a language, or
// of any language if the given one has no pack.
func (v values) addWords(p *Packs, source, language string) {
	for _, w := range Words(source) {
		word := strings.ToLower(w.In(source))
		p.any(language, func(one *pack) bool {
			if n, ok := one.numbers[word]; ok {
				v[n] = true
			}
			return false
		})
	}
}

// numbers finds runs of digits with single separators. Digits within a word, as
// in B2B, are ignored.
func numbers(s string) []Span {
	var out []Span
	for i := 0; i < len(s); {
		if !digit(s[i]) {
			i++
			continue
		}
		start := i
		for i < len(s) {
			if digit(s[i]) {
				i++
				continue
			}
			n := separator(s[i:])
			if n == 0 || i+n >= len(s) || !digit(s[i+n]) {
				break
			}
			if blankSeparator := s[i] != '.' && s[i] != ',' && s[i] != '\''; blankSeparator && !threeDigits(s[i+n:]) {
				break
			}
			i += n
		}
		before, _ := utf8.DecodeLastRuneInString(s[:start])
		if !unicode.IsLetter(before) && before != '_' {
			out = append(out, Span{start, i})
		}
	}
	return out
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func threeDigits(s string) bool {
	return len(s) >= 3 && digit(s[0]) && digit(s[1]) && digit(s[2]) && (len(s) == 3 || !digit(s[3]))
}

// separator returns the length of a separator at the beginning; 0 for none.
func separator(s string) int {
	if s[0] == '.' || s[0] == ',' || s[0] == '\'' || s[0] == ' ' {
		return 1
	}
	for _, wide := range [...]string{"\u00a0", "\u202f", "\u2009", "’"} {
		if strings.HasPrefix(s, wide) {
			return len(wide)
		}
	}
	return 0
}

// readings returns the values that a number may represent. A single point or
// comma before three digits may be either separator.
func readings(n string) []string {
	last := strings.LastIndexAny(n, ".,")
	whole := trimZeros(onlyDigits(n))
	if last < 0 {
		return []string{whole}
	}
	fraction := n[last+1:]
	decimal := trimZeros(onlyDigits(n[:last])) + "." + strings.TrimRight(fraction, "0")
	decimal = strings.TrimSuffix(decimal, ".")
	switch {
	case strings.Count(n, n[last:last+1]) > 1:
		return []string{whole, n} // thousands, or a version or date
	case len(fraction) == 3 && n[:last] != "0":
		return []string{whole, decimal}
	}
	return []string{decimal}
}

func onlyDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, s)
}

func trimZeros(s string) string {
	if t := strings.TrimLeft(s, "0"); t != "" {
		return t
	}
	return "0"
}

// mark reports whether a number is the mark of a list item.
func mark(s string, n Span) bool {
	near := max(0, n.Start-16) // a limit, so that long lines cost no more
	from := near + strings.LastIndexByte(s[near:n.Start], '\n') + 1
	if from == near && near > 0 {
		return false
	}
	return strings.TrimLeft(s[from:n.Start], " \t*#(") == "" && n.End+1 < len(s) &&
		(s[n.End] == '.' || s[n.End] == ')') && s[n.End+1] == ' ' && n.End-n.Start <= 2
}

// CheckQuotes looks for quotations that do not occur in source. Case, blanks,
// the form of quotation marks and punctuation at the ends are ignored; an
// ellipsis matches anything.
func CheckQuotes(s, source string) []Remark {
	quotes := quotations(s)
	if len(quotes) == 0 {
		return nil
	}
	whole := plainQuote(source)
	var out []Remark
	for _, q := range quotes[:min(len(quotes), maxQuotes)] {
		if !quoted(q.In(s), whole) && len(out) < maxRemarks {
			out = append(out, Remark{q, "the quotation is not in the source",
				"quote what the source says, or write it without quotation marks"})
		}
	}
	return out
}

func quoted(q, source string) bool {
	for _, cut := range [...]string{"[...]", "[…]", "(...)", "(…)", "..."} {
		q = strings.ReplaceAll(q, cut, "…")
	}
	at := 0
	for part := range strings.SplitSeq(q, "…") {
		part = strings.Trim(plainQuote(part), " .,;:!?")
		i := strings.Index(source[at:], part)
		if i < 0 {
			return false
		}
		at += i + len(part)
	}
	return true
}

// plainQuote returns a text in lower case, with single blanks, one kind of
// quotation marks and no emphasis.
func plainQuote(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	blanks := false
	put := func(r rune) {
		if blanks && b.Len() > 0 {
			b.WriteByte(' ')
		}
		blanks = false
		b.WriteRune(r)
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z':
			put(r)
		case 'A' <= r && r <= 'Z':
			put(r + 'a' - 'A')
		case r == '*' || r == '_':
		case unicode.IsSpace(r):
			blanks = true
		case strings.ContainsRune("’‘“”„\"«»", r):
			put('\'')
		case r == '–' || r == '—':
			put('-')
		default:
			put(unicode.ToLower(r))
		}
	}
	return b.String()
}

// maxQuotation is the longest quotation in bytes; two marks farther apart are
// unrelated.
const maxQuotation = 2000

// maxQuotes limits the quotations of a text that are checked.
const maxQuotes = 100

// quotations finds text in quotation marks, outside of code.
func quotations(s string) []Span {
	code, _ := Code(s)
	var out []Span
	from, closing := -1, ""
	for i, r := range s {
		if from < 0 && r < utf8.RuneSelf && r != '"' {
			continue // no quotation begins here
		}
		for len(code) > 0 && code[0].End <= i {
			code = code[1:]
		}
		if len(code) > 0 && code[0].Start <= i {
			continue
		}
		if from >= 0 && (r == '\n' || i-from > maxQuotation) {
			from = -1
		}
		if from >= 0 {
			if strings.ContainsRune(closing, r) {
				if strings.TrimSpace(s[from:i]) != "" {
					out = append(out, Span{from, i})
				}
				from = -1
			}
			continue
		}
		switch r {
		case '"':
			if before, _ := utf8.DecodeLastRuneInString(s[:i]); unicode.IsDigit(before) {
				continue
			}
			closing = "\""
		case '“':
			closing = "”"
		case '„':
			closing = "“”"
		case '«':
			closing = "»"
		case '»':
			closing = "«"
		case '「':
			closing = "」"
		default:
			continue
		}
		from = i + utf8.RuneLen(r)
	}
	return out
}
