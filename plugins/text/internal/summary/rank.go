package summary

import (
	"cmp"
	"math"
	"slices"
)

// Constants of the method.
const (
	damping   = 0.85
	tolerance = 1e-9
	rounds    = 200

	// The number of terms above which a sentence gets no more weight: a
	// sentence of few terms contains little information, however many others
	// are similar to it.
	enough = 12

	// Above large sentences the graph would be too large: blocks of blockSize
	// are ranked first, and then the winners of each.
	large     = 1500
	blockSize = 500
	winners   = 60
)

// candidates returns the indices of the sentences that take part in the last ranking, ascending.
func candidates(vectors []vector) []int {
	pool := make([]int, len(vectors))
	for i := range pool {
		pool[i] = i
	}
	for len(pool) > large {
		var won []int
		for block := range slices.Chunk(pool, blockSize) {
			best := byScore(score(vectors, block))
			best = best[:min(winners, len(best))]
			slices.Sort(best)
			for _, i := range best {
				won = append(won, block[i])
			}
		}
		pool = won
	}
	return pool
}

// byScore returns the positions of scores by falling score, ties by position.
func byScore(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order
}

// score returns the rank of each sentence of the pool, weighted by its number
// of terms. Scores add up to 1.
func score(vectors []vector, pool []int) []float64 {
	out := pageRank(vectors, pool)
	total := 0.0
	for i, p := range pool {
		out[i] *= float64(min(max(len(vectors[p].terms), 1), enough))
		total += out[i]
	}
	for i := range out {
		out[i] = steady(out[i] / total)
	}
	return out
}

// edge leads to a sentence that shares a term.
type edge struct {
	to     int32
	weight float64
}

// pageRank ranks the sentences of the pool by the similarity of the others to
// them. Ranks add up to 1.
func pageRank(vectors []vector, pool []int) []float64 {
	n := len(pool)
	edges := make([][]edge, n)
	out := make([]float64, n) // weight of all edges of a sentence
	for i := range n {
		for j := range i {
			if w := cosine(vectors[pool[i]], vectors[pool[j]]); w > 0 {
				edges[i] = append(edges[i], edge{int32(j), w})
				edges[j] = append(edges[j], edge{int32(i), w})
				out[i] += w
				out[j] += w
			}
		}
	}
	rank, next := make([]float64, n), make([]float64, n)
	for i := range rank {
		rank[i] = 1 / float64(n)
	}
	for range rounds {
		loose := 0.0 // the rank of isolated sentences is spread over all
		for i := range n {
			if out[i] == 0 {
				loose += rank[i]
			}
		}
		base := (1-damping)/float64(n) + float64(damping*loose/float64(n))
		for i := range next {
			next[i] = base
		}
		for i := range n {
			if out[i] == 0 {
				continue
			}
			share := damping * rank[i] / out[i]
			for _, e := range edges[i] {
				next[e.to] += float64(share * e.weight)
			}
		}
		change := 0.0
		for i := range n {
			change += math.Abs(next[i] - rank[i])
		}
		rank, next = next, rank
		if change < tolerance {
			break
		}
	}
	return rank
}
