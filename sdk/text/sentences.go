package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sentences splits a text into sentences, in order, without the blanks between
// them. A fenced code block, a table and a heading are one unit each; a blank
// line and the start of a list item always end a sentence. Abbreviations of the
// language (of all languages, if it has no pack), initials, decimals and
// ordinals do not end one.
func (p *Packs) Sentences(text, language string) []Span {
	var out []Span
	rules := p.sentenceRules(language)
	for _, block := range blocks(text) {
		if block.whole {
			out = append(out, block.Span)
			continue
		}
		out = rules.append(out, text, block.Span)
	}
	return out
}

// sentenceRules are the sentence rules of a language.
type sentenceRules struct {
	packs                *Packs
	language             string
	terminators, closers string // in addition to the common ones
	ordinalPoint         bool
}

func (p *Packs) sentenceRules(language string) sentenceRules {
	r := sentenceRules{packs: p, language: language, ordinalPoint: language == ""}
	if one := p.of(language); one != nil {
		r.terminators, r.closers, r.ordinalPoint = one.Terminators, one.Closers, one.OrdinalPoint
	}
	return r
}

func (l sentenceRules) terminator(r rune) bool {
	return terminator(r) || l.terminators != "" && strings.ContainsRune(l.terminators, r)
}

func (l sentenceRules) closer(r rune) bool {
	return closer(r) || l.closers != "" && strings.ContainsRune(l.closers, r)
}

func (l sentenceRules) append(out []Span, text string, block Span) []Span {
	add := func(start, end int) []Span {
		s := text[start:end]
		lead := len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
		tail := len(strings.TrimRightFunc(s, unicode.IsSpace))
		if lead < tail {
			out = append(out, Span{start + lead, start + tail})
		}
		return out
	}
	start := block.Start
	for i := block.Start; i < block.End; {
		r, size := utf8.DecodeRuneInString(text[i:])
		next := i + size
		if !l.terminator(r) {
			i = next
			continue
		}
		// Several terminators and the closing quotes and brackets after them
		// belong to the sentence.
		for next < block.End {
			c, n := utf8.DecodeRuneInString(text[next:])
			if !l.terminator(c) && !l.closer(c) {
				break
			}
			next += n
		}
		if l.ends(text, start, i, next, block.End, r) {
			out = add(start, next)
			start = next
		}
		i = next
	}
	return add(start, block.End)
}

// terminator reports whether a rune can end a sentence, in any script.
func terminator(r rune) bool {
	switch r {
	case '.', '!', '?', '…', '。', '！', '？', '｡', '।', '॥', '؟', '۔', '።', '‽':
		return true
	}
	return false
}

func closer(r rune) bool {
	switch r {
	case '"', '\'', '”', '’', '»', '«', '“', ')', ']', '}', '」', '』', '）', '›':
		return true
	}
	return false
}

// ends decides whether the terminator at i, whose closers end at next, ends a
// sentence.
func (l sentenceRules) ends(text string, start, i, next, end int, r rune) bool {
	if next >= end {
		return true
	}
	after, size := utf8.DecodeRuneInString(text[next:])
	wide := r >= 0x0900 // scripts without a blank after it
	if !unicode.IsSpace(after) {
		return wide
	}
	// The first character of the next sentence.
	rest := text[next+size : end]
	begin, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(rest, func(c rune) bool {
		return unicode.IsSpace(c) || strings.ContainsRune(`"'“„«‚‘([¿¡*_—–-`, c)
	}))
	if r != '.' && r != '…' {
		// "Really?" she asked.
		return !unicode.IsLower(begin)
	}
	if unicode.IsLower(begin) {
		return false
	}
	if r == '…' || strings.HasSuffix(text[start:i], "..") {
		return true
	}
	word := lastWord(text[start:i])
	switch {
	case word == "":
		return true
	case isInitial(word):
		return false
	case isNumber(word) && l.ordinalPoint:
		return false
	case l.abbreviation(word):
		return false
	}
	return true
}

// lastWord returns the run of non-blanks before a terminator, without openers.
func lastWord(s string) string {
	at := strings.LastIndexFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || r == '(' || r == '[' || r == '"' || r == '“' || r == '„' || r == '—'
	})
	if at < 0 {
		return s
	}
	_, size := utf8.DecodeRuneInString(s[at:])
	return s[at+size:]
}

func isInitial(word string) bool {
	last := word
	if at := strings.LastIndexByte(word, '.'); at >= 0 { // H.M.S, z.B
		last = word[at+1:]
	}
	r, size := utf8.DecodeRuneInString(last)
	return size == len(last) && unicode.IsUpper(r) && last != "I"
}

func isNumber(word string) bool {
	for _, r := range word {
		if !unicode.IsDigit(r) {
			return false
		}
	}
	return word != "" && len(word) <= 2
}

func (l sentenceRules) abbreviation(word string) bool {
	word = strings.ToLower(word)
	return l.packs.any(l.language, func(p *pack) bool { return p.abbreviations[word] })
}
