package text

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Undetermined is the language of a text that no pack is sure about.
const Undetermined = "und"

// sure is the confidence from which a language is named.
const sure = 0.6

// Weights of the evidence for a language.
const (
	wordWeight   = 2.0 // one of the most frequent words
	stopWeight   = 1.0 // another word without a topic
	letterWeight = 0.7 // a letter that hardly occurs in the others
)

// Detect guesses the language of a text by its script, its function words and
// its letters. The confidence is the winner's share of the evidence for the languages
// that have most of it, 0 to 1; below 0.6, and for scripts that no pack is
// written in, the language is Undetermined.
func (p *Packs) Detect(text string) (language string, confidence float64) {
	p = p.orShipped()
	const enough = 2000 // bytes; more does not change the verdict
	if len(text) > enough {
		text = text[:enough]
		if !utf8.ValidString(text) {
			text = strings.ToValidUTF8(text, "")
		}
	}
	signs := p.signs
	lower, plain, marked := spelling(text)
	scores := make([]float64, len(p.order))
	credit := func(evidence []evidenceFor) {
		for _, e := range evidence {
			scores[e.language] += e.weight
		}
	}
	eachWord(lower, func(w Span) {
		word := w.In(lower)
		if evidence := signs.of(word); evidence != nil {
			credit(evidence)
			return
		}
		// "l'eau", "d'une", "qu'il"
		if elided, rest, found := elision(word); found {
			credit(signs.of(elided))
			credit(signs.of(rest))
		}
	})
	counts := make([]int, len(signs.scripts))
	if signs.latin >= 0 {
		counts[signs.latin] = plain
	}
	letters := plain
	for _, r := range marked {
		credit(signs.letters[r])
		if !unicode.IsLetter(r) {
			continue
		}
		letters++
		for i, script := range signs.scripts {
			if unicode.Is(script, r) {
				counts[i]++
			}
		}
	}
	best := -1
	var nearest [3]float64
	for i, score := range scores { // ties go to the first
		written := 0
		for _, n := range signs.writtenIn[i] {
			written += counts[n]
		}
		if written*2 < letters {
			continue
		}
		if score > nearest[0] {
			best = i
		}
		for n := range nearest {
			if score > nearest[n] {
				nearest[n], score = score, nearest[n]
			}
		}
	}
	if best < 0 || letters == 0 {
		return Undetermined, 0
	}
	// The one in the sum is doubt: a single hit proves nothing. A text in a
	// language without a pack looks a little like several that have one, so the
	// third counts against the first. With more packs than those that ship it
	// does not: relatives share so many words that each would make the others
	// unsure.
	against := nearest[1]
	if len(p.order) <= shipped {
		against += nearest[2]
	}
	confidence = nearest[0] / (nearest[0] + against + 1)
	if confidence < sure {
		return Undetermined, confidence
	}
	return p.order[best], confidence
}

// spelling gives a text in lower case, how many of its letters are of ASCII, and
// the characters beyond, which may tell of a language or a script.
func spelling(text string) (lower string, plain int, marked []rune) {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		from := i
		for i < len(text) && text[i] < utf8.RuneSelf {
			i++
		}
		out = append(out, text[from:i]...)
		run := out[len(out)-(i-from):]
		for at, c := range run {
			c = smallLetter[c]
			run[at] = c
			plain += int(latinLetter[c])
		}
		if i == len(text) {
			break
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		r = unicode.ToLower(r)
		out = utf8.AppendRune(out, r)
		if r < utf8.RuneSelf { // of a sign such as that for Kelvin
			plain++
		} else {
			marked = append(marked, r)
		}
	}
	return string(out), plain, marked
}

// latinLetter is 1 for each small letter of ASCII.
var latinLetter = func() (is [256]uint8) {
	for c := 'a'; c <= 'z'; c++ {
		is[c] = 1
	}
	return is
}()

// elision cuts a word at its first apostrophe.
func elision(word string) (elided, rest string, found bool) {
	for i := 0; i < len(word); i++ {
		switch {
		case word[i] == '\'':
			return word[:i], word[i+1:], true
		case word[i] == "’"[0] && strings.HasPrefix(word[i:], "’"):
			return word[:i], strings.ReplaceAll(word[i+len("’"):], "’", "'"), true
		}
	}
	return "", "", false
}

// evidenceFor is what a sign says for a language, a number in the order of the packs.
type evidenceFor struct {
	language int
	weight   float64
}

// signs tell of languages. What several languages share is weak evidence for
// each.
type signs struct {
	short   shortWords
	long    map[string][]evidenceFor
	longest int // no longer word tells anything
	letters map[rune][]evidenceFor
	// scripts are those of all packs, writtenIn those of each, by number, and
	// latin is the number of that of ASCII, -1 if no pack has it.
	scripts   []*unicode.RangeTable
	writtenIn [][]int
	latin     int
}

// of is what a word in lower case tells.
func (s *signs) of(word string) []evidenceFor {
	switch {
	case len(word) <= packable:
		return s.short.of(packed(word))
	case len(word) <= s.longest:
		return s.long[word]
	}
	return nil
}

// packable is the length of words that are looked up as a number.
const packable = 8

func packed(word string) (n uint64) {
	for i := range len(word) {
		n = n<<8 | uint64(word[i])
	}
	return n
}

// shortWords are the words of up to eight bytes, as numbers: a word stands at
// the place that its number gives or, if that is taken, at one of the next. More
// than half of the places are empty, and half of all words of a text are here.
type shortWords struct {
	words    []uint64 // 0 for none
	evidence [][]evidenceFor
	shift    int
}

func newShortWords(words map[uint64][]evidenceFor) shortWords {
	size := bits.Len(uint(2 * len(words)))
	t := shortWords{words: make([]uint64, 1<<size), evidence: make([][]evidenceFor, 1<<size), shift: 64 - size}
	for word, evidence := range words {
		at := t.place(word)
		t.words[at], t.evidence[at] = word, evidence
	}
	return t
}

// place is where a word stands, or could.
func (t *shortWords) place(word uint64) int {
	at := int(word * 0x9e3779b97f4a7c15 >> t.shift)
	for t.words[at] != word && t.words[at] != 0 {
		at = (at + 1) & (len(t.words) - 1)
	}
	return at
}

func (t *shortWords) of(word uint64) []evidenceFor { return t.evidence[t.place(word)] }

func (p *Packs) languageSigns() *signs {
	words, letters := map[string][]float64{}, map[rune][]float64{}
	out := &signs{long: map[string][]evidenceFor{}, writtenIn: make([][]int, len(p.order))}
	for i, code := range p.order {
		one := p.by[code]
		for word := range one.stop {
			raise(words, word, i, len(p.order), stopWeight)
		}
		for _, word := range one.Common {
			raise(words, word, i, len(p.order), wordWeight)
		}
		for _, r := range one.Letters {
			raise(letters, r, i, len(p.order), letterWeight)
		}
		for _, script := range one.scripts {
			n := slices.Index(out.scripts, script)
			if n < 0 {
				n = len(out.scripts)
				out.scripts = append(out.scripts, script)
			}
			out.writtenIn[i] = append(out.writtenIn[i], n)
		}
	}
	out.latin = slices.Index(out.scripts, unicode.Latin)
	out.letters = shared(letters)
	short := map[uint64][]evidenceFor{}
	for word, evidence := range shared(words) {
		out.longest = max(out.longest, len(word))
		if len(word) <= packable {
			short[packed(word)] = evidence
		} else {
			out.long[word] = evidence
		}
	}
	out.short = newShortWords(short)
	return out
}

// raise sets the weight of a sign for one of several languages.
func raise[K comparable](signs map[K][]float64, sign K, language, languages int, weight float64) {
	if signs[sign] == nil {
		signs[sign] = make([]float64, languages)
	}
	signs[sign][language] = weight
}

// shared gives each sign its evidence: its weights divided by the number of
// languages that have one.
func shared[K comparable](signs map[K][]float64) map[K][]evidenceFor {
	out := make(map[K][]evidenceFor, len(signs))
	for sign, weights := range signs {
		having := 0
		for _, w := range weights {
			if w > 0 {
				having++
			}
		}
		for language, w := range weights {
			if w > 0 {
				out[sign] = append(out[sign], evidenceFor{language, w / float64(having)})
			}
		}
	}
	return out
}
