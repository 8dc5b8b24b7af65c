package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sentences cuts a text into sentences, in order, without the blanks between
// them. A fenced code block, a table and a heading are one unit each and are
// never cut; a blank line and the start of a list item always end a sentence.
// Abbreviations of the language (a pack's code, "" for all of them), initials,
// decimals and ordinals do not.
func Sentences(text, language string) []Span {
	var out []Span
	for _, block := range blocks(text) {
		if block.whole {
			out = append(out, block.Span)
			continue
		}
		out = appendSentences(out, text, block.Span, language)
	}
	return out
}

func appendSentences(out []Span, text string, block Span, language string) []Span {
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
		if !Terminator(r) {
			i = next
			continue
		}
		// Several terminators, then closing quotes and brackets, belong to
		// the sentence.
		for next < block.End {
			c, n := utf8.DecodeRuneInString(text[next:])
			if !Terminator(c) && !closer(c) {
				break
			}
			next += n
		}
		if endsSentence(text, start, i, next, block.End, r, language) {
			out = add(start, next)
			start = next
		}
		i = next
	}
	return add(start, block.End)
}

// Terminator tells whether a rune can end a sentence, in any script.
func Terminator(r rune) bool {
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

// endsSentence decides about a terminator at i, whose closers end at next.
func endsSentence(text string, start, i, next, end int, r rune, language string) bool {
	if next >= end {
		return true
	}
	after, size := utf8.DecodeRuneInString(text[next:])
	wide := r >= 0x0900 // scripts that put no blank after it
	if !unicode.IsSpace(after) {
		return wide
	}
	// What the next sentence would begin with.
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
	case isNumber(word) && ordinalDot(language):
		return false
	case abbreviation(word, language):
		return false
	}
	return true
}

// lastWord is the run of non-blanks before a terminator, without openers.
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

func abbreviation(word, language string) bool {
	word = strings.ToLower(word)
	return inPack(language, func(p pack) bool { return p.abbreviations[word] })
}

// ordinalDot says that a number with a point may be an ordinal: "am 3. Mai".
func ordinalDot(language string) bool { return language == "de" || language == "pl" || language == "" }
