// Package summary selects the most representative sentences of a text.
//
// Sentences become TF-IDF vectors; their cosine similarities form a graph, and
// PageRank over it finds the sentences that most others are similar to. The
// rank is weighted by the number of terms of a sentence, up to a dozen: a short
// aside can be similar to many others without containing information. Sentences
// are then selected by that score and by their novelty relative to those
// already selected, and returned in the order of the source. Every one is a
// slice of the source; no text is generated.
//
// All sums run in a fixed order, so equal texts give byte-equal summaries on
// every platform. The graph has at most 1,500 sentences; longer texts are
// ranked in blocks whose winners are ranked again. The method is that of
// Mihalcea and Tarau, "TextRank" (2004), and Erkan and Radev, "LexRank" (2004),
// with a novelty factor in place of the redundancy penalty of Carbonell and
// Goldstein (1998). TestQuality measures its quality over testdata.
//
// Extract is a pure function and safe for concurrent use. It fails only with
// ErrNothing and ErrTooTight.
package summary
