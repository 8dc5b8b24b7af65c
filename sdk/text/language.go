package text

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Undetermined is the result of Detect if no language is certain.
const Undetermined = "und"

// sure is the minimum confidence for a language.
const sure = 0.6

// Weights of the evidence for a language.
const (
	wordWeight   = 2.0 // one of the most frequent words
	stopWeight   = 1.0 // another word without topic
	letterWeight = 0.7 // a letter that is rare in the other languages
)

// Detect returns the language of a text by its script, its function words and
// its letters. The confidence is the winner's share of the evidence for the
// best languages, from 0 to 1. Below 0.6, and for scripts of no pack, the
// language is Undetermined.
func (p *Packs) Detect(text string) (language string, confidence float64) {
	p = p.orShipped()
	const enough = 2000 // bytes; more does not change the result
	if len(text) > enough {
		text = bare(text)
		text = text[:min(enough, len(text))]
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
	for i, score := range scores { // of equal scores the first wins
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
	// The 1 in the sum expresses doubt: a single hit proves nothing. A text in
	// a language without a pack resembles several languages that have one, so
	// the third score counts against the first. With more packs than the
	// shipped ones it does not: related languages share so many words that each
	// would reduce the confidence of the others.
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

// spelling returns a text in lower case, the number of its ASCII letters, and
// its other characters, which may indicate a language or a script.
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
		if r < utf8.RuneSelf { // from a sign such as the Kelvin sign
			plain++
		} else {
			marked = append(marked, r)
		}
	}
	return string(out), plain, marked
}

// latinLetter is 1 for each lower-case ASCII letter.
var latinLetter = func() (is [256]uint8) {
	for c := 'a'; c <= 'z'; c++ {
		is[c] = 1
	}
	return is
}()

// elision splits a word at its first apostrophe.
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

// evidenceFor is the weight of a sign for a language, which is an index into
// the order of the packs.
type evidenceFor struct {
	language int
	weight   float64
}

// signs are words, letters and scripts that indicate languages. A sign of
// several languages is weak evidence for each.
type signs struct {
	short   shortWords
	long    map[string][]evidenceFor
	longest int // length of the longest word sign
	letters map[rune][]evidenceFor
	// scripts are those of all packs, writtenIn the indices of those of each
	// pack; latin is the index of the ASCII script, -1 if no pack has it.
	scripts   []*unicode.RangeTable
	writtenIn [][]int
	latin     int
}

// of returns the evidence of a word in lower case.
func (s *signs) of(word string) []evidenceFor {
	switch {
	case len(word) <= packable:
		return s.short.of(packed(word))
	case len(word) <= s.longest:
		return s.long[word]
	}
	return nil
}

// packable is the longest word that is looked up as a number, in bytes.
const packable = 8

func packed(word string) (n uint64) {
	for i := range len(word) {
		n = n<<8 | uint64(word[i])
	}
	return n
}

// shortWords is an open-addressing hash table of words of up to eight bytes,
// stored as numbers. Less than half of the slots are used. Half of all words of
// a text are found here.
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

// place returns the slot of a word, used or free.
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

// shared converts weights to evidence: the weights of a sign are divided by the
// number of languages that have it.
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
