// Package policy combines the frames of the entries of a directory into one text.
//
// [Parse] reads a [Policy] from EDN, fills in its defaults and reports every
// problem with its path. [Policy.Digest] identifies it together with the version
// of its synthesizer: it is the part of a basis that says how frames are combined.
// [Policy.Text] runs it.
//
//	{:kind :concatenate :separator "\n" :heading :none}
//	{:kind :summarize}
//	{:kind :filter :types #{"note"} :agents #{} :origins #{:authored} :name "*.go"
//	 :min-bytes 1 :max-bytes 1000 :fresh-only? true :max-frames 10 :separator "\n" :heading :path}
//	{:kind :custom :intent :team/merge :params {} :deterministic? true}
//	{:kind :custom :synthesizer "table" :params {}}
//
// Equal frames and policies give equal text on every machine. A custom policy
// calls an intent through a function that the caller provides, or a
// [Synthesizer] that is registered with a name and a version.
//
// All types are immutable and safe for concurrent use. Errors are of type
// input/invalid, synthesis/too-large, synthesis/custom-failed, and timeout/hard
// for a custom policy that does not answer in time.
package policy
