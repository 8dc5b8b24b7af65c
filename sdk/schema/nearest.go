package schema

import "unicode/utf8"

// Nearest returns the known name with the smallest edit distance, if that is at
// most 2 or a third of the length of the name, otherwise "". Ties are resolved
// alphabetically.
func Nearest(name string, known []string) string {
	limit := max(2, utf8.RuneCountInString(name)/3)
	best, bestDistance := "", limit+1
	for _, k := range known {
		d := editDistance(name, k, bestDistance)
		if d < bestDistance || d == bestDistance && best != "" && k < best {
			best, bestDistance = k, d
		}
	}
	return best
}

// maxNameForDistance limits the quadratic comparison; a longer name has no
// nearest name.
const maxNameForDistance = 256

// editDistance counts insertions, deletions, substitutions and transpositions.
// A result above limit is only a lower bound.
func editDistance(a, b string, limit int) int {
	if len(a) > maxNameForDistance || len(b) > maxNameForDistance {
		return limit + 1
	}
	s, t := []rune(a), []rune(b)
	if len(s)-len(t) > limit || len(t)-len(s) > limit {
		return limit + 1
	}
	before := make([]int, len(t)+1)
	last := make([]int, len(t)+1)
	row := make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			d := min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}
