// Package text implements natural-language rules for host and plugins: words,
// sentences, language detection, and the intents of requests.
//
// Words and Sentences split a text; Detect returns its language; Rules.Classify
// weighs patterns for the intents, with ShippedRules for the built-in intents.
//
// Clean removes the parts of a model's text that are not meant for people;
// Stream does the same for streamed text. The functions and methods that begin
// with Check report problems of an answer with their positions.
//
// The data of a language is a Pack. Packs combines several packs: ShippedPacks
// are those of this package, and Packs.With adds languages. Package packfile
// reads packs from files.
//
// Every function is pure, takes time linear in the length of its input, and
// returns the same result on every platform. Only Packs.With, for an invalid
// pack, returns an error. The shipped languages are English, Polish, German,
// French and Spanish; texts in languages without a pack are handled by the rules
// that all packs share. Positions are byte offsets into the text.
//
// The package imports only the standard library and is safe for concurrent use.
package text
