package text

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Ranked is an intent with its share of the evidence.
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
// confidence is w/(w+1) times its share of the total weight. Below least the
// result is fallback. If there are rules of the given language, rules of other
// languages are ignored. Case, diacritical marks, blanks and punctuation are
// ignored.
func (r *Rules) Classify(text, language string, least float64, fallback string) Classification {
	language = primary(language)
	known := language != "" && slices.ContainsFunc(r.rules, func(c compiled) bool { return c.Language == language })
	weight := make([]float64, len(r.intents))
	total := 0.0
	var evidence []Evidence
	for _, hit := range r.find(fold(ends(text))) {
		rule := &r.rules[hit.rule]
		if known && rule.Language != "" && rule.Language != language {
			continue
		}
		weight[rule.intent] += rule.Weight
		total += rule.Weight
		evidence = append(evidence, Evidence{rule.Intent, rule.Weight, hit.match})
	}
	ranking := make([]Ranked, len(r.intents))
	for i, intent := range r.intents {
		ranking[i].Intent = intent
		if w := weight[i]; w > 0 {
			ranking[i].Confidence = math.Round(1000*w/(w+1)*(w/total)) / 1000
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
	return strings.ToValidUTF8(s[:maxClassified/2]+" … "+s[len(s)-maxClassified/2:], "")
}
