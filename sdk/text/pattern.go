package text

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// rule makes a pattern evidence for an intent.
//
// A pattern is a sequence of steps separated by blanks. Each step must match
// after the previous one, with at most eight words in between. A step is one or
// more alternatives separated by |; an alternative is a word, or several
// adjacent words joined by _; a word is in lower case without diacritical marks
// and may begin or end with * for at least two arbitrary letters. Characters of
// scripts without blanks are words of their own, adjacent if nothing is between
// them. A pattern that begins with ^ must match from the first word. The step
// <fen> is a chess position in Forsyth-Edwards notation.
//
// The cost of a pattern depends on its length, not on the text: each word of a
// text is looked up once.
//
//	fix|repair bug|code|function*|pull_request
type rule struct {
	Intent   string // qualified name without colon
	Language string // code of the language, or "" for any
	Weight   float64
	Pattern  string
}

// Rules is a compiled set of rules. It is immutable and safe for concurrent
// use.
type Rules struct {
	intents []string // in the order of first mention
	rules   []compiled
	atoms   []atom
	// phrases by their first atom.
	phrases [][]phrase
	// Atoms by the letters of their words, from the first or from the last
	// letter; marked are those with letters beyond ASCII.
	heads, tails letterTree
	marked       []int
}

type compiled struct {
	rule
	intent   int
	steps    int
	anchored bool
	fen      bool
}

// atom is a word of a pattern.
type atom struct {
	letters string
	head    bool // any letters may precede
	tail    bool // any letters may follow
}

func (a atom) matches(word string) bool {
	switch {
	case a.head:
		return strings.HasSuffix(word, a.letters)
	case a.tail:
		return strings.HasPrefix(word, a.letters)
	}
	return word == a.letters
}

// phrase is one alternative of a step; rest are the atoms after the first.
type phrase struct {
	rule, step int
	rest       []int
}

// reach is the maximum number of words between two steps.
const reach = 8

const fenStep = "<fen>"

// newRules compiles rules. The error names the rule with an invalid pattern.
func newRules(rules []rule) (*Rules, error) {
	r := &Rules{tails: letterTree{backwards: true}}
	numbers := map[atom]int{}
	for i, rule := range rules {
		if err := r.add(rule, numbers); err != nil {
			return nil, fmt.Errorf("rule %d for %s: pattern %q: %w", i, rule.Intent, rule.Pattern, err)
		}
	}
	return r, nil
}

func (r *Rules) add(rule rule, numbers map[atom]int) error {
	c := compiled{rule: rule, intent: slices.Index(r.intents, rule.Intent)}
	if c.intent < 0 {
		c.intent = len(r.intents)
		r.intents = append(r.intents, rule.Intent)
	}
	pattern, anchored := strings.CutPrefix(rule.Pattern, "^")
	c.anchored = anchored
	switch {
	case rule.Weight <= 0:
		return fmt.Errorf("weight %v is not above 0", rule.Weight)
	case pattern == fenStep:
		c.fen = true
		r.rules = append(r.rules, c)
		return nil
	}
	steps, err := parseSteps(rule.Pattern)
	if err != nil {
		return err
	}
	c.steps = len(steps)
	for at, step := range steps {
		for _, words := range step {
			atoms := make([]int, len(words))
			for i, a := range words {
				n, ok := numbers[a]
				if !ok {
					n = r.addAtom(a)
					numbers[a] = n
				}
				atoms[i] = n
			}
			first := atoms[0]
			r.phrases[first] = append(r.phrases[first], phrase{len(r.rules), at, atoms[1:]})
		}
	}
	r.rules = append(r.rules, c)
	return nil
}

// patternError is the problem of a pattern.
type patternError struct{ word, message, expected, hint string }

func (e *patternError) Error() string { return e.message }

// parseSteps parses the steps of a pattern: alternatives of adjacent words. The
// error is a patternError.
func parseSteps(pattern string) ([][][]atom, error) {
	pattern, _ = strings.CutPrefix(pattern, "^")
	fields := strings.Fields(pattern)
	if len(fields) == 0 {
		return nil, &patternError{message: "it has no step", expected: "a pattern such as \"for_example|such_as\""}
	}
	steps := make([][][]atom, len(fields))
	for i, step := range fields {
		for alternative := range strings.SplitSeq(step, "|") {
			var atoms []atom
			for word := range strings.SplitSeq(alternative, "_") {
				more, err := parseWord(word)
				if err != nil {
					return nil, err
				}
				atoms = append(atoms, more...)
			}
			steps[i] = append(steps[i], atoms)
		}
	}
	return steps, nil
}

func (r *Rules) addAtom(a atom) int {
	n := len(r.atoms)
	r.atoms = append(r.atoms, a)
	r.phrases = append(r.phrases, nil)
	switch {
	case strings.ContainsFunc(a.letters, func(c rune) bool { return c >= utf8.RuneSelf }):
		r.marked = append(r.marked, n)
	case a.head:
		r.tails.add(a.letters, true, n)
	default:
		r.heads.add(a.letters, a.tail, n)
	}
	return n
}

// parseWord parses a word: one atom, or one per character of a script without
// blanks.
func parseWord(word string) ([]atom, error) {
	var out []atom
	for part := range brokenUp(word) {
		var a atom
		a.letters, a.head = strings.CutPrefix(part, "*")
		a.letters, a.tail = strings.CutSuffix(a.letters, "*")
		folded, _ := fold(a.letters)
		switch {
		case a.head && a.tail:
			return nil, &patternError{word, fmt.Sprintf("%q is open at both ends", word), "a word with * at one end at most",
				"name the words that are meant"}
		case (a.head || a.tail) && utf8.RuneCountInString(a.letters) < 2:
			return nil, &patternError{word, fmt.Sprintf("%q has too few letters, so it would match too much", word),
				"at least two letters beside a *", ""}
		case a.letters == "":
			return nil, &patternError{word, "a word is empty", "words between | and _",
				"take away the | or _ that has nothing beside it"}
		case folded != a.letters && !strings.ContainsFunc(folded, notOfWord):
			return nil, &patternError{word, fmt.Sprintf("%q is not in lower case without marks", word),
				"words in lower case without accents and other marks, which match words with them",
				"write " + strings.Replace(part, a.letters, folded, 1)}
		case strings.ContainsFunc(a.letters, notOfWord):
			return nil, &patternError{word, fmt.Sprintf("%q holds more than letters and digits", word),
				"letters and digits, with _ for what stands between two words", ""}
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		return nil, &patternError{word, "a word is empty", "words between | and _",
			"take away the | or _ that has nothing beside it"}
	}
	return out, nil
}

func notOfWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// brokenUp yields the characters of scripts without blanks one by one, and the
// text between them.
func brokenUp(word string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := 0
		for i, r := range word {
			if !unbroken(r) {
				continue
			}
			end := i + utf8.RuneLen(r)
			if i > start && !yield(word[start:i]) || !yield(word[i:end]) {
				return
			}
			start = end
		}
		if start < len(word) {
			yield(word[start:])
		}
	}
}

// hit is a matching rule with the text from its first to its last step.
type hit struct {
	rule  int
	match string
}

// place is the latest end of a sequence of steps. Only the latest is needed,
// because the next step must follow within reach.
type place struct {
	found      bool
	begin, end int // words
}

// find returns the rules that match a folded text, in their order. Each word is
// looked up once.
func (r *Rules) find(folded string, words []Span) []hit {
	reached := make([][]place, len(r.rules)) // by rule and step
	var room [8]int
	for at, word := range words {
		spelt := word.In(folded)
		for _, n := range r.heads.find(spelt, room[:0]) {
			r.advance(reached, folded, words, at, n)
		}
		for _, n := range r.tails.find(spelt, room[:0]) {
			r.advance(reached, folded, words, at, n)
		}
		if len(r.marked) == 0 || !beyondASCII(spelt) {
			continue
		}
		for _, n := range r.marked {
			if r.atoms[n].matches(spelt) {
				r.advance(reached, folded, words, at, n)
			}
		}
	}
	return r.hits(reached, folded, words)
}

func beyondASCII(word string) bool {
	for i := range len(word) {
		if word[i] >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// hits returns the rules whose last step was reached.
func (r *Rules) hits(reached [][]place, folded string, words []Span) []hit {
	var out []hit
	for i, c := range r.rules {
		switch {
		case c.fen:
			if fen := findFEN(folded); fen != "" {
				out = append(out, hit{i, fen})
			}
		case reached[i] != nil && reached[i][c.steps-1].found:
			p := reached[i][c.steps-1]
			out = append(out, hit{i, folded[words[p.begin].Start:words[p.end-1].End]})
		}
	}
	return out
}

// advance records the phrases that begin with the atom at a word.
func (r *Rules) advance(reached [][]place, folded string, words []Span, at, first int) {
	for _, p := range r.phrases[first] {
		end := at + 1 + len(p.rest)
		if end > len(words) || r.rules[p.rule].anchored && p.step == 0 && at > 0 {
			continue
		}
		all := true
		for i, n := range p.rest {
			all = all && r.atoms[n].matches(words[at+1+i].In(folded))
		}
		if !all {
			continue
		}
		steps := reached[p.rule]
		if steps == nil {
			steps = make([]place, r.rules[p.rule].steps)
			reached[p.rule] = steps
		}
		begin := at
		if p.step > 0 {
			before := steps[p.step-1]
			if !before.found || at < before.end || at-before.end > reach {
				continue
			}
			begin = before.begin
		}
		if p.step < len(steps)-1 || !steps[p.step].found { // the first complete match is the evidence
			steps[p.step] = place{true, begin, end}
		}
	}
}

// findFEN returns the first chess position in a folded text: eight ranks
// separated by slashes, a blank and the side to move.
func findFEN(folded string) string {
	for rest := folded; ; {
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			return ""
		}
		begin := slash
		for begin > 0 && rank(rest[begin-1]) {
			begin--
		}
		end, slashes := begin, 0
		for end < len(rest) && (rank(rest[end]) || rest[end] == '/') {
			if rest[end] == '/' {
				slashes++
			}
			end++
		}
		if slashes == 7 && end+1 < len(rest) && rest[end] == ' ' && (rest[end+1] == 'w' || rest[end+1] == 'b') {
			return rest[begin : end+2]
		}
		rest = rest[max(end, slash+1):]
	}
}

func rank(b byte) bool { return '1' <= b && b <= '8' || strings.IndexByte("pnbrqk", b) >= 0 }
