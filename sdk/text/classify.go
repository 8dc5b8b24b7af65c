package text

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ranked is an intent with its confidence, computed as Classify describes; 0
// without evidence.
type Ranked struct {
	Intent     string
	Confidence float64 // 0..1
}

// Evidence is a match of a rule for an intent.
type Evidence struct {
	Intent string
	Weight float64
	Match  string // in lower case and without diacritical marks
}

// Classification is the result of Classify.
type Classification struct {
	Intent     string
	Confidence float64    // of the intent; 0 for the fallback
	Ranking    []Ranked   // all intents of the rules, best first
	Evidence   []Evidence // in the order of the rules
}

// maxClassified limits the bytes of a text that are examined; requests usually
// state their purpose at the beginning or the end.
const maxClassified = 8 << 10

// Classify returns the intent of a request in natural language. The intent with
// the largest weight w wins; ties are resolved by the order of the rules. Its
// confidence is w/(w+1) times w/(w+v), where v is the largest weight of another
// intent. If the confidence is below least, the result is fallback. If there are
// rules of the given language, rules of other languages are ignored. Case,
// diacritical marks, blanks and punctuation are ignored.
func (r *Rules) Classify(text, language string, least float64, fallback string) Classification {
	language = primary(language)
	if !slices.ContainsFunc(r.rules, func(c compiled) bool { return c.Language == language }) {
		language = ""
	}
	weight := make([]float64, len(r.intents))
	var evidence []Evidence
	last := -1
	text = ends(text)
	folded, words := fold(withoutQuotations(text))
	for _, hit := range r.find(said{text, folded, words}, language) {
		rule := &r.rules[hit.rule]
		if rule.number == last {
			continue
		}
		last = rule.number
		weight[rule.intent] += rule.Weight
		evidence = append(evidence, Evidence{rule.Intent, rule.Weight, hit.match})
	}
	ranking := make([]Ranked, len(r.intents))
	for i, intent := range r.intents {
		ranking[i].Intent = intent
		rival := 0.0
		for other, w := range weight {
			if other != i {
				rival = max(rival, w)
			}
		}
		if w := weight[i]; w > 0 {
			ranking[i].Confidence = math.Round(1000*w/(w+1)*w/(w+rival)) / 1000
		}
	}
	slices.SortStableFunc(ranking, func(a, b Ranked) int { return cmp.Compare(b.Confidence, a.Confidence) })
	c := Classification{Intent: fallback, Ranking: ranking, Evidence: evidence}
	if len(ranking) > 0 && ranking[0].Confidence > 0 && ranking[0].Confidence >= least {
		c.Intent, c.Confidence = ranking[0].Intent, ranking[0].Confidence
	}
	return c
}

// ends returns the beginning and the end of a long text.
func ends(s string) string {
	if len(s) <= maxClassified {
		return s
	}
	if s = bare(s); len(s) <= maxClassified {
		return s
	}
	return strings.ToValidUTF8(s[:maxClassified/2]+" … "+s[len(s)-maxClassified/2:], "")
}

// bare returns a text without the blanks around it and the marks at its end.
func bare(s string) string {
	s = strings.TrimRightFunc(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(".?!…。？！", r) })
	return strings.TrimLeftFunc(s, unicode.IsSpace)
}

// withoutQuotations returns a text without its quotations of three or more words:
// a quotation is the subject of a request and does not state its purpose. A text
// without letters outside of quotations is returned unchanged.
func withoutQuotations(text string) string {
	if !slices.ContainsFunc(quotes, func(q [2]string) bool { return strings.Contains(text, q[0]) }) {
		return text
	}
	var out strings.Builder
	rest := text
	for rest != "" {
		begin, quote := len(rest), [2]string{}
		for _, q := range quotes {
			if at := strings.Index(rest, q[0]); at >= 0 && at < begin {
				begin, quote = at, q
			}
		}
		inner := rest[min(begin+len(quote[0]), len(rest)):]
		length := strings.IndexAny(inner, quote[1])
		if length < 0 {
			break
		}
		end := len(rest) - len(inner) + length
		if len(strings.Fields(inner[:length])) < 3 {
			out.WriteString(rest[:end])
		} else {
			out.WriteString(rest[:begin])
		}
		_, size := utf8.DecodeRuneInString(rest[end:])
		out.WriteString(" ")
		rest = rest[end+size:]
	}
	out.WriteString(rest)
	if strings.ContainsFunc(out.String(), unicode.IsLetter) {
		return out.String()
	}
	return text
}

// quotes are quotation marks with those that may close them.
var quotes = [][2]string{{"\"", "\""}, {"“", "”\""}, {"„", "“”\""}, {"«", "»"}}
