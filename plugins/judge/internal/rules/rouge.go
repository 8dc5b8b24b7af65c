package rules

import (
	"math/big"
	"math/bits"
	"strings"

	"github.com/fermenthq/ferment/sdk/text"
)

// mostWords is the maximum number of compared words of a text: the time grows with the product of
// both lengths.
const mostWords = 8_000

// identities numbers the words of a text in lower case: equal words have the
// same number in all texts that share the map.
func identities(known map[string]int32, s string) []int32 {
	words := text.Words(s)
	if len(words) > mostWords {
		words = words[:mostWords]
	}
	out := make([]int32, len(words))
	for i, w := range words {
		lower := strings.ToLower(w.In(s))
		id, ok := known[lower]
		if !ok {
			id = int32(len(known))
			known[lower] = id
		}
		out[i] = id
	}
	return out
}

// rougeL returns the harmonic mean of the shares of the longest common subsequence of words in the
// text and in the reference.
func rougeL(s, reference string) *big.Rat {
	known := map[string]int32{}
	a, b := identities(known, s), identities(known, reference)
	if len(a)+len(b) == 0 {
		return new(big.Rat)
	}
	// With precision l/a and recall l/b the mean is 2l/(a+b).
	return big.NewRat(2*int64(subsequence(a, b, len(known))), int64(len(a)+len(b)))
}

// subsequence returns the length of the longest common subsequence of a and b,
// whose words are below most. It keeps a row of the dynamic programming table
// as bits and computes the next row with an addition.
func subsequence(a, b []int32, most int) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	width := (len(a) + 63) / 64
	places := make([][]uint64, most) // positions of each word in a
	for i, id := range a {
		if places[id] == nil {
			places[id] = make([]uint64, width)
		}
		places[id][i/64] |= 1 << (i % 64)
	}
	row := make([]uint64, width)
	for i := range row {
		row[i] = ^uint64(0)
	}
	for _, id := range b {
		at := places[id]
		if at == nil {
			continue
		}
		var carry uint64
		for i, v := range row {
			u := v & at[i]
			var sum uint64
			sum, carry = bits.Add64(v, u, carry)
			row[i] = sum | v&^u
		}
	}
	length := 0
	for i, v := range row {
		free := ^v
		if rest := len(a) - i*64; rest < 64 {
			free &= 1<<rest - 1
		}
		length += bits.OnesCount64(free)
	}
	return length
}
