package summary

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/text"
)

// maxWords is the maximum number of compared words of one sentence: a listing of a thousand lines
// is one sentence.
const maxWords = 400

// vector is a sparse TF-IDF vector of unit length; terms ascend.
type vector struct {
	terms   []int
	weights []float64
}

// vectorise returns the vector of each sentence. Terms are numbered by their first appearance and
// ascend, so every later sum has a fixed order.
func vectorise(languages *text.Packs, source string, spans []text.Span, language string) []vector {
	numbers := map[string]int{}
	var documents []int // number of sentences with the term
	out := make([]vector, len(spans))
	var said []int // terms of one sentence, with repetitions
	for i, s := range spans {
		said = said[:0]
		sentence := s.In(source)
		words := text.Words(sentence)
		for _, w := range words[:min(len(words), maxWords)] {
			term := stem(languages, strings.ToLower(w.In(sentence)), language)
			if term == "" {
				continue
			}
			n, ok := numbers[term]
			if !ok {
				n = len(documents)
				numbers[term] = n
				documents = append(documents, 0)
			}
			said = append(said, n)
		}
		slices.Sort(said)
		for at := 0; at < len(said); {
			n, first := said[at], at
			for at < len(said) && said[at] == n {
				at++
			}
			documents[n]++
			out[i].terms = append(out[i].terms, n)
			out[i].weights = append(out[i].weights, 1+steady(math.Log(float64(at-first))))
		}
	}
	idf := make([]float64, len(documents))
	for n, d := range documents {
		idf[n] = steady(math.Log(1 + float64(len(spans))/float64(d)))
	}
	for _, v := range out {
		norm := 0.0
		for j, n := range v.terms {
			v.weights[j] *= idf[n]
			norm += float64(v.weights[j] * v.weights[j])
		}
		norm = math.Sqrt(norm)
		for j := range v.weights {
			v.weights[j] /= norm
		}
	}
	return out
}

// steady returns x rounded to nine decimals: the last digit of results of the math library differs
// between processors. For the same reason products are converted before they are summed: the
// conversion prevents a fused multiply-add.
func steady(x float64) float64 { return math.Round(x*1e9) / 1e9 }

// cosine returns the similarity of two unit vectors, 0..1.
func cosine(a, b vector) float64 {
	sum := 0.0
	for i, j := 0, 0; i < len(a.terms) && j < len(b.terms); {
		switch {
		case a.terms[i] < b.terms[j]:
			i++
		case a.terms[i] > b.terms[j]:
			j++
		default:
			sum += float64(a.weights[i] * b.weights[j])
			i, j = i+1, j+1
		}
	}
	return sum
}

// endings are the endings that stem removes from words, by language, longer ones first.
var endings = map[string][]string{
	"en": {"ations", "ation", "ings", "edly", "ing", "ies", "ed", "es", "ly", "s"},
	"de": {"ungen", "ung", "en", "er", "es", "em", "e", "n", "s"},
	"fr": {"ements", "ations", "ement", "ation", "ées", "es", "er", "ée", "s", "e"},
	"es": {"aciones", "ación", "mente", "os", "as", "es", "o", "a"},
	"pl": {"owego", "owej", "ami", "ach", "ego", "ych", "ów", "om", "em", "ie", "a", "e", "i", "y", "ą", "ę"},
}

// shortest is the maximum length of words that are not stemmed, and the minimum length of a stem,
// in code points.
const shortest = 4

// stem returns a word without a common ending, which is enough to unify most forms of one word. It
// returns "" for a stop word.
func stem(languages *text.Packs, word, language string) string {
	word = bare(languages, word, language)
	if languages.Stopword(word, language) {
		return ""
	}
	if utf8.RuneCountInString(word) <= shortest {
		return word
	}
	for _, e := range endings[language] {
		if cut, ok := strings.CutSuffix(word, e); ok && utf8.RuneCountInString(cut) >= shortest {
			return cut
		}
	}
	return word
}

// bare returns a word without the parts joined by an apostrophe: the elided article of "l'eau", the
// ending of "the bridge's".
func bare(languages *text.Packs, word, language string) string {
	at := strings.IndexAny(word, "'’")
	if at < 0 {
		return word
	}
	_, size := utf8.DecodeRuneInString(word[at:])
	switch language {
	case "fr":
		if at <= len("qu") {
			return word[at+size:]
		}
	case "en":
		if word[at+size:] == "s" {
			return word[:at]
		}
	default: // "dell'alveare"
		if languages.Has(language) && languages.Stopword(word[:at], language) {
			return word[at+size:]
		}
	}
	return word
}
