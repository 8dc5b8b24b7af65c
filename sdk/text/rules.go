package text

import "sync"

// ShippedRules returns the rules for the built-in intents.
var ShippedRules = sync.OnceValue(func() *Rules {
	rules, err := newRules(shippedRules)
	if err != nil {
		panic(err) // the table is part of the program; a test reads it
	}
	return rules
})

// The rules hold for all languages of the vocabulary. Weights add up: 3 and more
// is a clear request, 1.5 a likely one, below 1 a hint that decides between
// others, or alone where nothing else is found (see minimum confidence in
// Classify).
var shippedRules = []rule{
	{"chess/best-move", "", 6, "<fen>"},
	{"chess/best-move", "", 3, "<moves>"},
	{"chess/best-move", "", 2.6, "{chess} & {move}"},
	{"chess/best-move", "", 2.3, "{chess} & {chess}"},
	{"chess/best-move", "", 0.5, "{chess}"},

	{"sat/solve", "", 6, "p_cnf"},
	{"sat/solve", "", 2.9, "<formula>"},
	{"sat/solve", "", 3.8, "{formula}"},
	{"sat/solve", "", 2, "{formula} & {logic}"},
	{"sat/solve", "", 2, "{logic} & {logic}"},

	{"context/summarize", "", 3, "{shorten}"},
	{"context/summarize", "", 1, "{shorten} & {document}"},
	{"context/summarize", "", 2.6, "{about} {document}"},

	{"code/patch", "", 2.9, "{change} & {code}"},
	{"code/patch", "", 1.7, "{change} & {failure}"},
	{"code/patch", "", 0.7, "{failure} & {code}"},
	{"code/patch", "", 2.9, "<snippet> {change}"},
	{"code/patch", "", 3.8, "{failure} & {test}"},
	{"code/patch", "", 1.3, "{change} & {test}"},
	{"code/patch", "", 0.7, "{failure}"},

	{"code/generate", "", 2.2, "{make} {code}"},
	{"code/generate", "", 0.7, "{code}"},
	{"code/generate", "", 1.2, "{code} & {code}"},
	{"code/generate", "", 2, "{program} {run} {tests}"},
	{"code/generate", "", 2, "{program} {tests} {run}"},

	{"code/explain", "", 3, "{explain} & {code}"},
	{"code/explain", "", 0.5, "{explain}"},
	{"code/explain", "", 1.1, "{explain} & {failure}"},
	{"code/explain", "", 2.5, "<snippet> {explain}"},
	{"code/explain", "", 0.7, "<snippet>"},

	{"code/review", "", 3.4, "{review} & {changeset}"},
	{"code/review", "", 3.5, "<snippet> {review}"},
	{"code/review", "", 1.8, "{review} & {review}"},
	{"code/review", "", 0.7, "{review}"},

	{"code/test", "", 2.4, "{run} & {tests}"},

	{"eval/grade", "", 2.6, "{grade} & {work}"},
	{"eval/grade", "", 1.5, "{grade}"},
	{"eval/grade", "", 0.5, "{grade} & {grade}"},
	{"eval/grade", "", 2.5, "{compare} & {work}"},
	{"eval/grade", "", 1, "{grade} & {compare}"},
	{"eval/grade", "", 1.5, "{compare}"},
	{"eval/grade", "", 1.5, "<numbers> {grade}"},

	{"text/respond", "", 2.3, "{talk}"},
	{"text/respond", "", 1.2, "{make} & {writing}"},
	{"text/respond", "", 0.9, "{writing}"},
	{"text/respond", "", 1, "{people}"},
	{"text/respond", "", 0.5, "{fact}"},

	{"problem/solve", "", 1.4, "{solve}"},
	{"problem/solve", "", 0.9, "<numbers>"},
	{"problem/solve", "", 1.3, "{solve} & {solve}"},
}
