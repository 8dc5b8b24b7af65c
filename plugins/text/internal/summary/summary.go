package summary

import (
	"errors"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/text"
)

// ErrNothing is returned for a text without a sentence.
var ErrNothing = errors.New("summary: the text has no sentence")

// ErrTooTight is returned if no sentence fits into the limit.
var ErrTooTight = errors.New("summary: no sentence is as short as that")

// Limits bound a summary; zero means no limit.
type Limits struct {
	Sentences int
	Chars     int // code points of the joined summary
}

// Sentence is one selected sentence.
type Sentence struct {
	Index int     // among all sentences, from 0
	Score float64 // share of the total score of all ranked sentences, 0..1, rounded to 4 places
	Start int     // in code points of the source
	End   int
	Text  string
}

// Extract returns selected sentences of source in its order. languages may be nil for the built-in
// ones. language is a code, or "" to detect it. The error is ErrNothing or ErrTooTight.
func Extract(languages *text.Packs, source, language string, limits Limits) ([]Sentence, error) {
	if language == "" {
		if found, _ := languages.Detect(source); found != text.Undetermined {
			language = found
		}
	}
	spans := languages.Sentences(source, language)
	if len(spans) == 0 {
		return nil, ErrNothing
	}
	vectors := vectorise(languages, source, spans, language)
	pool := candidates(vectors)
	scores := score(vectors, pool)
	picked := pick(source, spans, vectors, pool, scores, limits)
	if len(picked) == 0 {
		return nil, ErrTooTight
	}
	slices.Sort(picked)
	at := codePoints(source)
	out := make([]Sentence, len(picked))
	for i, p := range picked {
		s := spans[pool[p]]
		out[i] = Sentence{
			Index: pool[p],
			Score: math.Round(scores[p]*1e4) / 1e4,
			Start: at.offset(s.Start),
			End:   at.offset(s.End),
			Text:  s.In(source),
		}
	}
	return out, nil
}

// Join joins selected sentences with a blank, or with a line break if they
// contain line breaks themselves, as code and tables do.
func Join(sentences []Sentence) string {
	var b strings.Builder
	for i, s := range sentences {
		if i > 0 {
			if strings.Contains(s.Text, "\n") || strings.Contains(sentences[i-1].Text, "\n") {
				b.WriteString("\n\n")
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString(s.Text)
	}
	return b.String()
}

// pick selects sentences greedily, by score and novelty. It returns positions
// in the pool.
func pick(source string, spans []text.Span, vectors []vector, pool []int, scores []float64, limits Limits) []int {
	most := len(pool)
	if limits.Sentences > 0 {
		most = min(most, limits.Sentences)
	}
	taken := make([]bool, len(pool))
	repeats := make([]float64, len(pool))
	var picked []int
	chars := 0
	for len(picked) < most {
		best, bestWorth := -1, math.Inf(-1)
		for i := range pool {
			if taken[i] {
				continue
			}
			if worth := scores[i] * novelty(repeats[i]); worth > bestWorth {
				best, bestWorth = i, worth
			}
		}
		if best < 0 {
			break
		}
		taken[best] = true
		length := utf8.RuneCountInString(spans[pool[best]].In(source))
		if len(picked) > 0 {
			length += 2 // the maximum length of a separator
		}
		if limits.Chars > 0 && chars+length > limits.Chars {
			continue
		}
		chars += length
		picked = append(picked, best)
		for i := range pool {
			repeats[i] = max(repeats[i], cosine(vectors[pool[i]], vectors[pool[best]]))
		}
	}
	return picked
}

// novelty returns the factor for a sentence with the given similarity to the
// nearest selected one. The third power hardly affects sentences on the same
// topic and almost removes restatements; a difference instead of a product
// would prefer sentences unrelated to the topic.
func novelty(similarity float64) float64 {
	rest := max(0, 1-similarity)
	return rest * rest * rest
}

// offsets converts byte offsets to code points without rescanning the text for
// each.
type offsets struct {
	source string
	byteAt int
	count  int
}

func codePoints(source string) *offsets { return &offsets{source: source} }

// offset returns the number of code points before the byte offset at. It must be called with
// ascending offsets.
func (o *offsets) offset(at int) int {
	o.count += utf8.RuneCountInString(o.source[o.byteAt:at])
	o.byteAt = at
	return o.count
}
