package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Remark is one finding of a check.
type Remark struct {
	Span    Span // the part of the text that the remark is about; zero for a blank text
	Message string
	Fix     string // the correction, if known
}

// CheckEnding looks for signs that a text is truncated: an open fence, bracket
// or quotation, no terminator, a final comma, or a word that needs a
// continuation. An empty text passes. The end of a list item or table row needs
// no terminator.
func (p *Packs) CheckEnding(s, language string) []Remark {
	trimmed := strings.TrimRightFunc(s, unicode.IsSpace)
	if trimmed == "" {
		return nil
	}
	code, closed := Code(trimmed)
	last := Span{max(0, strings.LastIndexByte(trimmed, '\n')+1), len(trimmed)}
	unfinished := func(message string) []Remark {
		return []Remark{{last, message, "finish the text, or end it with a whole sentence"}}
	}
	if !closed {
		return []Remark{{code[len(code)-1], "a code fence is not closed", "close the fence"}}
	}
	if open, ok := unbalanced(trimmed, code); !ok {
		return []Remark{{open, "the text ends within " + open.In(trimmed) + ", which is not closed", "finish the text"}}
	}
	line := strings.TrimSpace(last.In(trimmed))
	if len(code) > 0 && code[len(code)-1].End >= len(trimmed) && fenced(trimmed[code[len(code)-1].Start:]) {
		return nil
	}
	if tableRow(line) && strings.HasSuffix(line, "|") {
		return nil
	}
	own := p.sentenceRules(language)
	trailing := func(r rune) bool { return trailing(r) || own.closer(r) }
	terminates := func(r rune) bool { return terminates(r) || own.terminator(r) }
	end := strings.TrimRightFunc(trimmed, trailing)
	for {
		inner, cut := withoutReference(end)
		if !cut {
			break
		}
		end = strings.TrimRightFunc(inner, trailing)
	}
	final, _ := utf8.DecodeLastRuneInString(end)
	word := strings.ToLower(lastWord(strings.TrimRightFunc(end,
		func(r rune) bool { return terminates(r) || unicode.IsSpace(r) })))
	known := p.of(language)
	dangling := word != "" && known != nil && known.dangling[word]
	item := lastIsItem(trimmed)
	switch {
	case end == "":
		return nil // only emoji or marks
	case strings.ContainsRune(",:;-–—、，：；", final) && !strings.ContainsRune(own.terminators, final) && !ruleLine(line):
		return unfinished("the text ends with " + string(final))
	case dangling:
		return unfinished("the text ends with the word " + word)
	case terminates(final), item, endsInPicture(trimmed), unterminated(final):
		return nil
	case strings.Contains(lastField(end), "://"), !strings.ContainsFunc(strings.TrimSpace(trimmed), unicode.IsSpace):
		return nil // an address or a one-word answer
	}
	return unfinished("the text does not end with a whole sentence")
}

func terminates(r rune) bool {
	switch r {
	case '։', '။', '၊', '።', '፧', '។', '៕', '།', '؞':
		return true
	}
	return terminator(r)
}

// unterminated reports letters of scripts without sentence terminators.
func unterminated(r rune) bool { return unicode.In(r, unicode.Thai, unicode.Lao) }

// trailing reports characters that may follow the end of a sentence: closers,
// emphasis, blanks, pictures.
func trailing(r rune) bool {
	return closer(r) || r == '*' || r == '_' || r == '`' || unicode.IsSpace(r) || picture(r)
}

func picture(r rune) bool {
	return r >= 0x2190 && unicode.In(r, unicode.So, unicode.Sk) || r == 0xFE0F || r == joiner ||
		r >= 0x1F000 && r <= 0x1FAFF || r >= 0xE0020 && r <= 0xE007F || r == '☺'
}

func endsInPicture(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return picture(r)
}

// withoutReference removes a final reference mark such as [3] or ¹.
func withoutReference(s string) (string, bool) {
	tail := max(0, len(s)-5)
	at := tail + strings.LastIndexByte(s[tail:], '[')
	if at > 0 && s[at] == '[' && strings.Trim(s[at+1:], "0123456789^, ") == "" {
		return s[:at], true
	}
	if r, size := utf8.DecodeLastRuneInString(s); strings.ContainsRune("¹²³⁴⁵⁶⁷⁸⁹⁰", r) {
		return s[:len(s)-size], true
	}
	return s, false
}

func ruleLine(line string) bool { return len(line) >= 3 && strings.Trim(line, "-") == "" }

func lastField(s string) string { return s[strings.LastIndexFunc(s, unicode.IsSpace)+1:] }

// lastIsItem reports whether a text ends in a list item.
func lastIsItem(s string) bool {
	for at := len(s); at > 0; {
		from := strings.LastIndexByte(s[:at], '\n') + 1
		line := strings.TrimSpace(s[from:at])
		if line == "" {
			return false
		}
		if item(line) {
			return true
		}
		if from == 0 || s[from] != ' ' && s[from] != '\t' {
			return false // indented lines continue an item
		}
		at = from - 1
	}
	return false
}

// item reports whether a line is a list item, including marks that Markdown
// does not define.
func item(line string) bool {
	if listItem(line) {
		return true
	}
	for _, mark := range [...]string{"• ", "‣ ", "· ", "◦ ", "▪ ", "– ", "— ", "☐ ", "✓ ", "✔ "} {
		if strings.HasPrefix(line, mark) {
			return true
		}
	}
	return false
}

// unbalanced returns the first bracket or quotation mark outside of code that
// is not closed. Any closing bracket closes the last one, because of intervals;
// an extra closing bracket does not indicate a missing end.
func unbalanced(s string, code []Span) (Span, bool) {
	var brackets, quotes []Span
	straight, reversed := Span{}, false
	odd := false
	before := ' '
	for i, r := range s {
		if r < utf8.RuneSelf && !pairs(byte(r)) {
			before = r
			continue
		}
		for len(code) > 0 && code[0].End <= i {
			code = code[1:]
		}
		if len(code) > 0 && code[0].Start <= i {
			before = r
			continue
		}
		here := Span{i, i + utf8.RuneLen(r)}
		switch r {
		case '(', '[', '{', '（', '［':
			if before != ':' && before != ';' && before != '-' && before != '\\' {
				brackets = append(brackets, here)
			}
		case ')', ']', '}', '）', '］':
			if len(brackets) > 0 {
				brackets = brackets[:len(brackets)-1]
			}
		case '"':
			if !unicode.IsDigit(before) || odd {
				odd, straight = !odd, here
			}
		case '„', '「', '『', '《':
			quotes = append(quotes, here)
		case '“':
			if n := len(quotes); n > 0 && strings.HasPrefix(s[quotes[n-1].Start:], "„") {
				quotes = quotes[:n-1]
			} else {
				quotes = append(quotes, here)
			}
		case '”', '」', '』', '》':
			if len(quotes) > 0 {
				quotes = quotes[:len(quotes)-1]
			}
		case '«', '»':
			if len(quotes) == 0 {
				reversed = r == '»'
			}
			if opens := (r == '«') != reversed; opens {
				quotes = append(quotes, here)
			} else if len(quotes) > 0 {
				quotes = quotes[:len(quotes)-1]
			}
		}
		before = r
	}
	switch {
	case len(brackets) > 0:
		return brackets[0], false
	case len(quotes) > 0:
		return quotes[0], false
	case odd:
		return straight, false
	}
	return Span{}, true
}

// pairs reports whether a mark belongs to a pair.
func pairs(c byte) bool {
	switch c {
	case '(', ')', '[', ']', '{', '}', '"':
		return true
	}
	return false
}

// CheckList looks for a list in the answer to a request that did not ask for
// one: two or more items on lines of their own, or three within running text.
// An answer may have as many items as the request.
func (p *Packs) CheckList(s, request, language string) []Remark {
	lines, first := items(s)
	inline := inlineItems(s)
	if lines < 2 && inline.End == 0 {
		return nil
	}
	if p.matched(request, language)["list"] {
		return nil
	}
	if there, _ := items(request); there >= max(lines, 2) || inline.End > 0 && lines < 2 && inlineItems(request).End > 0 {
		return nil
	}
	where, what := first, "a list"
	if lines < 2 {
		where, what = inline, "a numbered list within a line"
	}
	return []Remark{{where, "the text has become " + what + ", which was not requested",
		"write the same as running text"}}
}

// items counts the list items outside of code.
func items(s string) (n int, first Span) {
	code, _ := Code(s)
	for at := 0; at < len(s); {
		end := lineEnd(s, at)
		for len(code) > 0 && code[0].End <= at {
			code = code[1:]
		}
		if len(code) == 0 || code[0].Start > at {
			if line := strings.TrimSpace(s[at:end]); item(line) {
				if n++; n == 1 {
					first = Span{at, end}
				}
			}
		}
		at = end
	}
	return n, first
}

// inlineItems returns the first run of 1, 2 and 3 as item marks within running
// text. Decimals, years and dates are not counted, because a list counts from
// one.
func inlineItems(s string) Span {
	code, _ := Code(s)
	want, start := byte('1'), 0
	for i := 0; i+1 < len(s); i++ {
		for len(code) > 0 && code[0].End <= i {
			code = code[1:]
		}
		if len(code) > 0 && code[0].Start <= i {
			i = code[0].End - 1
			continue
		}
		if s[i] != want || s[i+1] != '.' && s[i+1] != ')' {
			continue
		}
		before := i == 0 || s[i-1] == ' ' || s[i-1] == '\n' || s[i-1] == '(' || s[i-1] == '\t'
		after := i+2 < len(s) && (s[i+2] == ' ' || s[i+2] == '*')
		if !before || !after || lineBegin(s, i) {
			continue
		}
		if want == '1' {
			start = i
		}
		if want == '3' {
			return Span{start, i + 2}
		}
		want++
	}
	return Span{}
}

// lineBegin reports whether a position is the start of a line that is an item.
func lineBegin(s string, at int) bool {
	from := strings.LastIndexByte(s[:at], '\n') + 1
	return from > 0 && strings.TrimSpace(s[from:at]) == ""
}

// Minimum sizes of a detailed answer.
const (
	detailChars     = 120
	detailSentences = 2
)

// CheckDetail checks whether an answer is detailed enough: it is not empty,
// contains more than a statement of ignorance, has an example if one was
// requested, and has a minimum length if detail was requested and brevity was
// not.
func (p *Packs) CheckDetail(s, request, language string) []Remark {
	trimmed := strings.TrimSpace(s)
	if trimmed == "" {
		return []Remark{{Message: "the text is blank"}}
	}
	whole := Span{0, len(s)}
	chars := utf8.RuneCountInString(trimmed)
	short := chars <= detailChars
	sentences := 0
	if short {
		sentences = len(p.Sentences(trimmed, language))
	}
	if short && sentences <= 2 && p.matched(trimmed, language)["uncertainty"] {
		return []Remark{{whole, "the text says no more than that it does not know", "say what is known"}}
	}
	asked := p.matched(request, language)
	var out []Remark
	if asked["example"] && !strings.ContainsAny(trimmed, "`\"“”„«»:0123456789\n") &&
		!p.matched(trimmed, language)["shows"] {
		out = append(out, Remark{whole, "an example was requested and the text has none", "add an example"})
	}
	if asked["detail"] && !asked["brevity"] && chars < detailChars && sentences < detailSentences {
		out = append(out, Remark{whole, "detail was requested and the text has one short sentence",
			"explain it in several sentences"})
	}
	return out
}

// Minimum lengths, in code points, of a text whose language can be detected and
// of one whose language must be detected.
const (
	languageChars  = 40
	languageEnough = 400
)

// Prose returns a text with its code replaced by blanks.
func Prose(s string) string {
	code, _ := Code(s)
	if len(code) == 0 {
		return s
	}
	var b strings.Builder
	at := 0
	for _, c := range code {
		b.WriteString(s[at:c.Start])
		b.WriteByte(' ')
		at = c.End
	}
	b.WriteString(s[at:])
	return b.String()
}

// CheckLanguage checks whether a text is in the language want. It does not
// apply to texts that are too short. To a language without a pack it applies
// only if the text is in another language that has a pack. The check compares
// only the detected language, because the confidence of Detect is low between
// related languages.
func (p *Packs) CheckLanguage(s, want string) (remarks []Remark, applies bool) {
	want = primary(want)
	prose := strings.TrimSpace(Prose(s))
	chars := utf8.RuneCountInString(prose)
	if want == "" || want == Undetermined || chars < languageChars {
		return nil, false
	}
	switch got, _ := p.Detect(prose); {
	case got == want:
		return nil, true
	case got != Undetermined:
		return []Remark{{Span{0, len(s)}, "the text is in " + p.Name(got) + ", not in " + p.Name(want),
			"write it in " + p.Name(want)}}, true
	case p.Has(want) && chars >= languageEnough:
		return []Remark{{Span{0, len(s)}, "the text is not in " + p.Name(want), "write it in " + p.Name(want)}}, true
	}
	return nil, false
}
