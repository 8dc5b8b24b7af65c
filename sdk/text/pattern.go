package text

import (
	"cmp"
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
// them. A pattern that begins with ^ must match from the first word.
//
// The step {name} is a list of the vocabulary in the language of the rule; a
// rule of no language that has one holds for all languages. Steps with & between
// them may match in either order. A first step such as <fen> is a trait of the
// whole text (see traits). Each rule is evidence once, whatever matches.
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
	// Lists of alternatives, which are steps of rules: phrases by their first atom,
	// and uses by list.
	phrases [][]phrase
	uses    [][]use
	// Atoms by the letters of their words, from the first or from the last
	// letter; marked are those with letters beyond ASCII.
	heads, tails letterTree
	marked       []int
}

type compiled struct {
	rule
	number   int // of the rule that it was made from
	intent   int
	steps    int
	anchored bool
	trait    string // of the text; "" if any will do
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

// phrase is one alternative of a list; rest are the atoms after the first.
type phrase struct {
	list int
	rest []int
}

// use is a step of a rule.
type use struct{ rule, step int }

// reach is the maximum number of words between two steps.
const reach = 8

// newRules compiles rules. The error names the rule with an invalid pattern.
func newRules(rules []rule) (*Rules, error) {
	c := compiler{Rules: &Rules{tails: letterTree{backwards: true}}, numbers: map[atom]int{}, lists: map[string]int{}}
	for i, rule := range rules {
		for _, form := range formsOf(rule) {
			if err := c.add(i, form); err != nil {
				return nil, fmt.Errorf("rule %d for %s: pattern %q: %w", i, rule.Intent, rule.Pattern, err)
			}
		}
	}
	return c.Rules, nil
}

// compiler makes Rules; equal words and equal lists are in them once.
type compiler struct {
	*Rules
	numbers map[atom]int
	lists   map[string]int
}

// formsOf returns a rule of no language that uses the vocabulary once per
// language, and one with & once per order.
func formsOf(r rule) []rule {
	languages := []string{r.Language}
	if r.Language == "" && strings.Contains(r.Pattern, "{") {
		languages = vocabularyLanguages
	}
	var out []rule
	for _, language := range languages {
		form := r
		form.Language = language
		first, second, either := strings.Cut(r.Pattern, " & ")
		if form.Pattern = first + " " + second; !either {
			form.Pattern = r.Pattern
		}
		out = append(out, form)
		if either && first != second {
			form.Pattern = second + " " + first
			out = append(out, form)
		}
	}
	return out
}

func (c *compiler) add(number int, rule rule) error {
	one := compiled{rule: rule, number: number, intent: slices.Index(c.intents, rule.Intent)}
	if one.intent < 0 {
		one.intent = len(c.intents)
		c.intents = append(c.intents, rule.Intent)
	}
	pattern, anchored := strings.CutPrefix(rule.Pattern, "^")
	one.anchored = anchored
	if rule.Weight <= 0 {
		return fmt.Errorf("weight %v is not above 0", rule.Weight)
	}
	trait, words, more := strings.Cut(pattern, " ")
	if _, known := traits[trait]; known {
		one.trait, pattern = trait, words
	}
	steps := strings.Fields(pattern)
	if len(steps) == 0 && (more || one.trait == "") {
		return errNoStep()
	}
	one.steps = len(steps)
	for at, step := range steps {
		if err := c.addStep(use{len(c.rules), at}, step, rule.Language); err != nil {
			return err
		}
	}
	c.rules = append(c.rules, one)
	return nil
}

// addStep makes a list, or both of a name of the vocabulary, a step of a rule.
func (c *compiler) addStep(at use, step, language string) error {
	lists := []string{step}
	if name, ok := strings.CutPrefix(step, "{"); ok {
		words, known := vocabulary[strings.TrimSuffix(name, "}")]
		if !known {
			return fmt.Errorf("the vocabulary has no list %s", step)
		}
		lists = slices.DeleteFunc([]string{words[""], words[language]}, func(list string) bool { return list == "" })
	}
	for _, list := range lists {
		number, known := c.lists[list]
		if !known {
			number = len(c.uses)
			c.lists[list] = number
			c.uses = append(c.uses, nil)
			if err := c.addList(number, list); err != nil {
				return err
			}
		}
		c.uses[number] = append(c.uses[number], at)
	}
	return nil
}

func (c *compiler) addList(number int, list string) error {
	phrases, err := parseStep(list)
	if err != nil {
		return err
	}
	for _, words := range phrases {
		atoms := make([]int, len(words))
		for i, a := range words {
			n, ok := c.numbers[a]
			if !ok {
				n = c.addAtom(a)
				c.numbers[a] = n
			}
			atoms[i] = n
		}
		first := atoms[0]
		c.phrases[first] = append(c.phrases[first], phrase{number, atoms[1:]})
	}
	return nil
}

// patternError is the problem of a pattern.
type patternError struct{ word, message, expected, hint string }

func (e *patternError) Error() string { return e.message }

func errNoStep() error {
	return &patternError{message: "it has no step", expected: "a pattern such as \"for_example|such_as\""}
}

// parseSteps parses the steps of a pattern: alternatives of adjacent words. The
// error is a patternError.
func parseSteps(pattern string) ([][][]atom, error) {
	pattern, _ = strings.CutPrefix(pattern, "^")
	fields := strings.Fields(pattern)
	if len(fields) == 0 {
		return nil, errNoStep()
	}
	steps := make([][][]atom, len(fields))
	for i, field := range fields {
		step, err := parseStep(field)
		if err != nil {
			return nil, err
		}
		steps[i] = step
	}
	return steps, nil
}

// parseStep parses the alternatives of a step.
func parseStep(step string) ([][]atom, error) {
	var out [][]atom
	for alternative := range strings.SplitSeq(step, "|") {
		var atoms []atom
		for word := range strings.SplitSeq(alternative, "_") {
			more, err := parseWord(word)
			if err != nil {
				return nil, err
			}
			atoms = append(atoms, more...)
		}
		out = append(out, atoms)
	}
	return out, nil
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
				"letters and digits, with _ between two words", ""}
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

// find returns the rules that match a text, in their order, without those of
// languages other than the given one; with no language all are tried. Each
// word is looked up once.
func (r *Rules) find(text said, language string) []hit {
	s := search{r: r, said: text, language: language, reached: make([][]place, len(r.rules))}
	var room [8]int
	for at, word := range text.words {
		spelt := word.In(text.folded)
		for _, n := range r.heads.find(spelt, room[:0]) {
			s.advance(at, n)
		}
		for _, n := range r.tails.find(spelt, room[:0]) {
			s.advance(at, n)
		}
		if len(r.marked) > 0 && beyondASCII(spelt) {
			for _, n := range r.marked {
				if r.atoms[n].matches(spelt) {
					s.advance(at, n)
				}
			}
		}
		s.settle()
	}
	return s.hits()
}

// search is one execution of find.
type search struct {
	said
	r        *Rules
	language string
	reached  [][]place // by rule and step
	pending  []step    // of the current word
}

// step is a place to which a word leads.
type step struct {
	use
	place
}

func beyondASCII(word string) bool {
	for i := range len(word) {
		if word[i] >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// hits returns the rules whose last step was reached, if the text has their
// trait.
func (s *search) hits() []hit {
	var out []hit
	found := map[string]string{}
	for i := range s.r.rules {
		c := &s.r.rules[i]
		match := ""
		if c.steps > 0 {
			if s.reached[i] == nil || !s.reached[i][c.steps-1].found {
				continue
			}
			p := s.reached[i][c.steps-1]
			match = s.folded[s.words[p.begin].Start:s.words[p.end-1].End]
		}
		if c.trait != "" {
			sign, known := found[c.trait]
			if !known {
				sign = traits[c.trait](s.said)
				found[c.trait] = sign
			}
			if sign == "" {
				continue
			}
			match = cmp.Or(match, sign)
		}
		out = append(out, hit{i, match})
	}
	return out
}

// advance finds the phrases that begin with an atom at a word. A step may follow
// only steps that earlier words completed, so a match takes effect in settle.
func (s *search) advance(at, first int) {
	for _, p := range s.r.phrases[first] {
		end := at + 1 + len(p.rest)
		if end > len(s.words) {
			continue
		}
		all := true
		for i, n := range p.rest {
			all = all && s.r.atoms[n].matches(s.words[at+1+i].In(s.folded))
		}
		if !all {
			continue
		}
		for _, u := range s.r.uses[p.list] {
			s.take(u, at, end)
		}
	}
}

// take adds the words from at to end to the pending matches of a step of a rule, if
// the step can follow the previous one.
func (s *search) take(u use, at, end int) {
	rule := &s.r.rules[u.rule]
	if s.language != "" && rule.Language != "" && rule.Language != s.language || rule.anchored && u.step == 0 && at > 0 {
		return
	}
	begin := at
	if u.step > 0 {
		if s.reached[u.rule] == nil {
			return
		}
		before := s.reached[u.rule][u.step-1]
		if !before.found || at < before.end || at-before.end > reach {
			return
		}
		begin = before.begin
	}
	s.pending = append(s.pending, step{u, place{true, begin, end}})
}

// settle records the steps that the current word completed.
func (s *search) settle() {
	for _, p := range s.pending {
		steps := s.reached[p.rule]
		if steps == nil {
			steps = make([]place, s.r.rules[p.rule].steps)
			s.reached[p.rule] = steps
		}
		if p.step < len(steps)-1 || !steps[p.step].found { // the first complete match is the evidence
			steps[p.step] = p.place
		}
	}
	s.pending = s.pending[:0]
}
