package text

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Undetermined is the language of a text that no pack is sure about.
const Undetermined = "und"

// LanguageName is the English name of a language that has a pack, and the code
// itself of any other.
func LanguageName(code string) string {
	switch code {
	case "en":
		return "English"
	case "pl":
		return "Polish"
	case "de":
		return "German"
	case "fr":
		return "French"
	case "es":
		return "Spanish"
	}
	return code
}

// sure is the confidence from which a language is named.
const sure = 0.6

// Weights of the evidence for a language.
const (
	wordWeight   = 2.0 // one of the most frequent words
	stopWeight   = 1.0 // another word without a topic
	letterWeight = 0.7 // a letter that hardly occurs in the others
)

// Detect guesses the language of a text by its function words and letters. The
// confidence is the winner's share of the evidence, 0 to 1; below 0.6, and for
// scripts that no pack is written in, the language is Undetermined.
func Detect(text string) (language string, confidence float64) {
	const enough = 2000 // bytes; more does not change the verdict
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "")
	}
	text = strings.ToLower(text)
	signs := languageSigns()
	scores := make([]float64, len(Languages()))
	credit := func(weights []float64) {
		for i, w := range weights {
			scores[i] += w
		}
	}
	for _, w := range Words(text) {
		word := w.In(text)
		if weights := signs.words[word]; weights != nil {
			credit(weights)
			continue
		}
		// "l'eau", "d'une", "qu'il"
		if elided, rest, found := elision(word); found {
			credit(signs.words[elided])
			credit(signs.words[rest])
		}
	}
	latin, letters := 0, 0
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			if 'a' <= r && r <= 'z' {
				latin++
				letters++
			}
		case unicode.IsLetter(r):
			letters++
			if unicode.Is(unicode.Latin, r) {
				latin++
				credit(signs.letters[r])
			}
		case r == '¿' || r == '¡':
			credit(signs.letters[r])
		}
	}
	if letters == 0 || latin*2 < letters {
		return Undetermined, 0
	}
	best, sum := 0, 0.0
	for i, score := range scores { // ties go to the first
		sum += score
		if score > scores[best] {
			best = i
		}
	}
	if sum == 0 {
		return Undetermined, 0
	}
	// The one in the sum is doubt: a single hit proves nothing.
	confidence = scores[best] / (sum + 1)
	if confidence < sure {
		return Undetermined, confidence
	}
	return Languages()[best], confidence
}

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

// signs tell of languages. Each has a weight for every language, in the order
// of Languages; what several languages share is weak evidence for each.
type signs struct {
	words   map[string][]float64
	letters map[rune][]float64
}

var languageSigns = sync.OnceValue(func() signs {
	out := signs{words: map[string][]float64{}, letters: map[rune][]float64{}}
	for i, code := range Languages() {
		p := packs()[code]
		for word := range p.stop {
			raise(out.words, word, i, stopWeight)
		}
		for word := range p.common {
			raise(out.words, word, i, wordWeight)
		}
		for _, r := range p.letters {
			raise(out.letters, r, i, letterWeight)
		}
	}
	for _, weights := range out.words {
		share(weights)
	}
	for _, weights := range out.letters {
		share(weights)
	}
	return out
})

// raise sets the weight of a sign for one language.
func raise[K comparable](signs map[K][]float64, sign K, language int, weight float64) {
	if signs[sign] == nil {
		signs[sign] = make([]float64, len(Languages()))
	}
	signs[sign][language] = weight
}

// share divides weights by the number of languages that have one.
func share(weights []float64) {
	having := 0
	for _, w := range weights {
		if w > 0 {
			having++
		}
	}
	for i := range weights {
		weights[i] /= float64(having)
	}
}
