// Package text holds the rules about natural language that host and plugins
// share: words, sentences, which language a text is in, and what a request in
// plain words asks for.
//
// Words and Sentences cut a text; Detect names its language; Rules.Classify
// weighs patterns for the intents, with ShippedRules for those that every
// installation knows.
//
// Clean takes out of the text of a model what is not meant for people, and
// Filter and Stream do it while the text comes. The functions that begin with
// Check say what is wrong with an answer, and where.
//
// What is particular to a language is data, a Pack. Packs are several that work
// together; the functions of the package are the methods of ShippedPacks, and
// Packs.With adds languages. Package packfile reads them from files.
//
// Everything is a pure function of its input, linear in its length, and gives
// the same answer on every platform; nothing here fails, except that NewRules
// refuses a bad pattern and Packs.With a bad pack. The languages that ship are
// English, Polish, German, French and Spanish; texts in languages without a pack
// are handled by the rules that all packs share. Positions are byte offsets into the text.
//
// The package imports the standard library only and is safe for concurrent use.
package text
