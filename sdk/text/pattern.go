package text

import (
	"fmt"
	"slices"
	"strings"
)

// Rule says that a pattern is evidence for an intent.
//
// A pattern is a row of steps with blanks between them. Each step must be found
// after the one before, with at most eight words in between. A step is one or
// more alternatives with | between them; an alternative is a word, or several
// adjacent words with _ between them; a word is written in lower case without
// marks and may begin or end with * for any letters. A pattern that begins with
// ^ must match from the first word. The step <fen> is a chess position in
// Forsyth-Edwards notation.
//
//	fix|repair bug|code|function*|pull_request
type Rule struct {
	Intent   string // qualified name without colon
	Language string // code of the language, or "" for any
	Weight   float64
	Pattern  string
}

// Rules are compiled. They are immutable and safe for concurrent use.
type Rules struct {
	intents []string // as the rules name them first
	rules   []compiled
	atoms   []atom
	// phrases by the atom they begin with.
	phrases [][]phrase
	// Atoms by the letters of their words, the first or the last one first.
	heads, tails letterTree
}

type compiled struct {
	Rule
	intent   int
	steps    int
	anchored bool
	fen      bool
}

// atom is a word of a pattern.
type atom struct {
	letters string
	head    bool // any letters may stand before
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

// reach is how many words may stand between two steps.
const reach = 8

const fenStep = "<fen>"

// NewRules compiles rules. An error names the rule whose pattern is bad.
func NewRules(rules []Rule) (*Rules, error) {
	r := &Rules{tails: letterTree{backwards: true}}
	numbers := map[atom]int{}
	for i, rule := range rules {
		if err := r.add(rule, numbers); err != nil {
			return nil, fmt.Errorf("rule %d for %s: pattern %q: %w", i, rule.Intent, rule.Pattern, err)
		}
	}
	return r, nil
}

func (r *Rules) add(rule Rule, numbers map[atom]int) error {
	c := compiled{Rule: rule, intent: slices.Index(r.intents, rule.Intent)}
	if c.intent < 0 {
		c.intent = len(r.intents)
		r.intents = append(r.intents, rule.Intent)
	}
	pattern, anchored := strings.CutPrefix(rule.Pattern, "^")
	c.anchored = anchored
	steps := strings.Fields(pattern)
	switch {
	case len(steps) == 0:
		return fmt.Errorf("has no step")
	case rule.Weight <= 0:
		return fmt.Errorf("weight %v is not above 0", rule.Weight)
	case pattern == fenStep:
		c.fen = true
		r.rules = append(r.rules, c)
		return nil
	}
	c.steps = len(steps)
	for at, step := range steps {
		for alternative := range strings.SplitSeq(step, "|") {
			var atoms []int
			for word := range strings.SplitSeq(alternative, "_") {
				a, err := parseAtom(word)
				if err != nil {
					return err
				}
				n, ok := numbers[a]
				if !ok {
					n = r.addAtom(a)
					numbers[a] = n
				}
				atoms = append(atoms, n)
			}
			first := atoms[0]
			r.phrases[first] = append(r.phrases[first], phrase{len(r.rules), at, atoms[1:]})
		}
	}
	r.rules = append(r.rules, c)
	return nil
}

func (r *Rules) addAtom(a atom) int {
	n := len(r.atoms)
	r.atoms = append(r.atoms, a)
	r.phrases = append(r.phrases, nil)
	if a.head {
		r.tails.add(a.letters, true, n)
	} else {
		r.heads.add(a.letters, a.tail, n)
	}
	return n
}

func parseAtom(word string) (atom, error) {
	var a atom
	a.letters, a.head = strings.CutPrefix(word, "*")
	a.letters, a.tail = strings.CutSuffix(a.letters, "*")
	switch {
	case a.head && a.tail:
		return a, fmt.Errorf("%q is open at both ends", word)
	case (a.head || a.tail) && len(a.letters) < 2, a.letters == "":
		return a, fmt.Errorf("%q has too few letters", word)
	case strings.Trim(a.letters, "abcdefghijklmnopqrstuvwxyz0123456789") != "":
		return a, fmt.Errorf("%q is not in lower case without marks", word)
	}
	return a, nil
}

// hit is a rule that matched, with the text from its first to its last step.
type hit struct {
	rule  int
	match string
}

// place is where a row of steps last ended: later is never worse, since the
// next step has to come soon after.
type place struct {
	found      bool
	begin, end int // words
}

// find gives the rules whose patterns occur in what fold made of a text, in
// their order. Each word is looked at once.
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
	}
	return r.hits(reached, folded, words)
}

// hits are the rules of which the last step was reached.
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

// advance notes the phrases that begin with the atom at a word.
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
		if p.step < len(steps)-1 || !steps[p.step].found { // the first whole match is the evidence
			steps[p.step] = place{true, begin, end}
		}
	}
}

// findFEN gives the first chess position in a folded text: eight ranks with
// slashes between them, a blank and the side to move.
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
