// Package summary picks the sentences of a text that stand for the whole.
//
// Sentences become TF-IDF vectors; their cosine similarities make a graph, and
// PageRank over it finds the sentences that most others are like. The rank is
// weighed by how many terms a sentence has, up to a dozen: a short aside can be
// like many others and still say nothing. Sentences are then taken by that
// score and by what they add to those already taken, and given back in the
// order of the source. Every one is a slice of the source: nothing is written
// anew.
//
// All sums run in a fixed order, so equal texts give byte-equal summaries on
// every platform. The graph has at most 1,500 sentences; longer texts are
// ranked in blocks whose winners meet again. The method is that of Mihalcea and
// Tarau, "TextRank" (2004), and Erkan and Radev, "LexRank" (2004), with a
// novelty factor in place of the redundancy penalty of Carbonell and Goldstein
// (1998). How well it does is measured by TestQuality over testdata.
//
// Extract is a pure function and safe for concurrent use. It fails only with
// ErrNothing and ErrTooTight.
package summary
