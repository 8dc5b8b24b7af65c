package view

import (
	"context"
	"errors"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
)

// Parameters of BM25.
const (
	k1 = 1.2
	b  = 0.75
)

// document holds the counts from which the relevance of a text is computed.
type document struct {
	length int
	counts []int // of each term of the query
}

// score computes the relevance of each candidate for the query.
func (c *composer) score(ctx context.Context, s *store.Snapshot) error {
	terms := termsOf(c.request.Query)
	docs := make([]document, len(c.list))
	for i := range c.list {
		text, err := s.Content(ctx, c.list[i].Frame.Content)
		if err != nil && !errors.Is(err, store.ErrTextDropped) {
			return err
		}
		docs[i] = count(text, terms)
	}
	for i, score := range bm25(docs, len(terms)) {
		c.list[i].score = score
	}
	return nil
}

// termsOf returns the position of each term of a query, in sorted order.
func termsOf(query string) map[string]int {
	var list []string
	tokens([]byte(query), func(t []byte) { list = append(list, string(t)) })
	slices.Sort(list)
	terms := map[string]int{}
	for _, t := range slices.Compact(list) {
		terms[t] = len(terms)
	}
	return terms
}

func count(text []byte, terms map[string]int) document {
	d := document{counts: make([]int, len(terms))}
	tokens(text, func(t []byte) {
		d.length++
		if i, ok := terms[string(t)]; ok {
			d.counts[i]++
		}
	})
	return d
}

// tokens calls visit for each run of letters and digits, in lower case. The
// slice is valid during the call only.
func tokens(text []byte, visit func([]byte)) {
	var token []byte
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			token = utf8.AppendRune(token, unicode.ToLower(r))
			continue
		}
		if len(token) > 0 {
			visit(token)
			token = token[:0]
		}
	}
	if len(token) > 0 {
		visit(token)
	}
}

// bm25 returns the relevance of each document in millionths. The conversions
// between products and sums keep the compiler from fusing them, so all machines
// agree; the rounding hides the last bits of the logarithm.
func bm25(docs []document, terms int) []int64 {
	total := 0
	frequency := make([]int, terms) // documents that have the term
	for _, d := range docs {
		total += d.length
		for i, n := range d.counts {
			if n > 0 {
				frequency[i]++
			}
		}
	}
	average := 1.0
	if total > 0 {
		average = float64(total) / float64(len(docs))
	}
	scores := make([]int64, len(docs))
	for j, d := range docs {
		norm := float64(k1 * float64((1-b)+float64(b*float64(d.length)/average)))
		sum := 0.0
		for i, n := range d.counts {
			if n == 0 {
				continue
			}
			idf := math.Log(1 + float64(float64(len(docs)-frequency[i])+0.5)/float64(float64(frequency[i])+0.5))
			sum += float64(idf * float64(float64(n)*(k1+1)) / float64(float64(n)+norm))
		}
		scores[j] = int64(math.Round(float64(sum * 1e6)))
	}
	return scores
}
