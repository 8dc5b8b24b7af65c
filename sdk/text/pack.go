package text

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pack is the data of one language: the shipped ones are in the directory
// packs, an operator's in files that packfile reads. Words are in lower case.
// Patterns are those of a rule, without a weight.
type Pack struct {
	Language string // code of two or three letters
	Name     string // in English; empty: the code

	Terminators  string // sentence terminators in addition to the common ones
	Closers      string // closers after a terminator, in addition to the common ones
	OrdinalPoint bool   // a number with a point may be an ordinal: "am 3. Mai"

	Abbreviations []string // without the last point
	Common        []string // short function words that identify the language
	Stop          []string // more words without topic
	Letters       string   // letters that are rare in other languages
	Dangling      []string // words that cannot end a text
	Numbers       []string // words for zero, one, two and so on

	List, Example, Detail, Brevity []string // patterns of requests
	Shows, Uncertainty             []string // patterns of answers: has an example, states ignorance
}

// Limits of a pack, several times the size of a shipped pack.
const (
	maxPackWords        = 2000 // per list
	maxPackWord         = 64   // bytes of a word
	maxPackMarks        = 64   // letters, terminators or closers
	maxPackNumbers      = 101
	maxPackAlternatives = 600 // of all patterns of a pack
	maxPackPhrase       = 8   // words of one alternative
	maxPacks            = 64  // including the shipped ones
)

// leastCommon is the minimum number of function words that distinguish a
// language.
const leastCommon = 20

// PackProblem is one problem of a pack.
type PackProblem struct {
	Key      string // as in a file: "common"
	Index    int    // of a pattern; -1: the whole entry
	Message  string
	Expected string
	Found    string // the invalid part of the entry, or empty
	Hint     string
}

// Error returns the key and the message.
func (p PackProblem) Error() string { return ":" + p.Key + " " + p.Message }

// Check returns the problems of a pack in the order of its fields, nil if there
// are none.
func (p Pack) Check() []PackProblem {
	c := packCheck{}
	c.code(p.Language)
	if n := utf8.RuneCountInString(p.Name); n > maxPackWord || strings.ContainsFunc(p.Name, unicode.IsControl) {
		c.add("name", -1, p.Name, "is not the name of a language",
			fmt.Sprintf("at most %d characters, such as \"Italian\"", maxPackWord), "")
	}
	c.marks("terminators", p.Terminators, punctuation, "marks that are neither letters, digits nor blanks")
	c.marks("closers", p.Closers, punctuation, "marks that are neither letters, digits nor blanks")
	c.words("abbreviations", p.Abbreviations)
	c.words("common", p.Common)
	if n := len(p.Common); n < leastCommon {
		c.add("common", -1, "", fmt.Sprintf("has %d words, too few to tell the language by", n),
			fmt.Sprintf("at least %d short words that every text of the language is full of", leastCommon), "")
	}
	c.words("stop", p.Stop)
	c.marks("letters", p.Letters, distinct, "letters in lower case, or marks as ¿")
	c.words("dangling", p.Dangling)
	c.words("numbers", p.Numbers)
	if n := len(p.Numbers); n > maxPackNumbers {
		c.add("numbers", -1, "", fmt.Sprintf("has %d words", n),
			fmt.Sprintf("at most %d, for zero to %d", maxPackNumbers, maxPackNumbers-1), "")
	}
	for _, w := range p.wishes() {
		c.patterns(w.key, w.patterns)
	}
	if c.alternatives > maxPackAlternatives {
		c.add("uncertainty", -1, "",
			fmt.Sprintf("and the other patterns have %d alternatives together: looking for them would take too long",
				c.alternatives), fmt.Sprintf("at most %d in a pack", maxPackAlternatives),
			"open ends, as in riassum*, stand for many words")
	}
	return c.problems
}

func punctuation(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsSpace(r) && !unicode.IsControl(r)
}

// distinct reports whether a character can distinguish languages.
func distinct(r rune) bool {
	return !unicode.IsSpace(r) && (r >= utf8.RuneSelf || unicode.IsLetter(r)) && unicode.ToLower(r) == r
}

type wish struct {
	key      string
	patterns []string
}

// wishes returns the patterns of a pack for requests and for answers.
func (p Pack) wishes() []wish {
	return []wish{{"list", p.List}, {"example", p.Example}, {"detail", p.Detail}, {"brevity", p.Brevity},
		{"shows", p.Shows}, {"uncertainty", p.Uncertainty}}
}

type packCheck struct {
	problems     []PackProblem
	alternatives int
}

func (c *packCheck) add(key string, index int, found, message, expected, hint string) {
	c.problems = append(c.problems,
		PackProblem{Key: key, Index: index, Message: message, Expected: expected, Found: found, Hint: hint})
}

func (c *packCheck) code(code string) {
	if len(code) < 2 || len(code) > 3 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz") != "" || code == Undetermined {
		c.add("language", -1, code, "is not a language code", "two or three letters in lower case, such as \"it\"", "")
	}
}

func (c *packCheck) marks(key, marks string, good func(rune) bool, expected string) {
	if n := utf8.RuneCountInString(marks); n > maxPackMarks {
		c.add(key, -1, "", fmt.Sprintf("has %d characters", n), fmt.Sprintf("at most %d", maxPackMarks), "")
	}
	for _, r := range marks {
		if !good(r) {
			c.add(key, -1, string(r), fmt.Sprintf("holds %q", r), expected, "")
			return
		}
	}
}

// words reports the first bad word of a list.
func (c *packCheck) words(key string, words []string) {
	if len(words) > maxPackWords {
		c.add(key, -1, "", fmt.Sprintf("has %d words", len(words)), fmt.Sprintf("at most %d", maxPackWords), "")
	}
	for _, w := range words {
		switch {
		case len(w) > maxPackWord:
			c.add(key, -1, w, "has a word that is too long",
				fmt.Sprintf("words of at most %d bytes with blanks between them", maxPackWord), "")
		case strings.ToLower(w) != w:
			c.add(key, -1, w, fmt.Sprintf("has the word %q, which no text in lower case holds", w), "words in lower case",
				"write "+strings.ToLower(w))
		case strings.HasSuffix(w, ".") && key == "abbreviations":
			c.add(key, -1, w, fmt.Sprintf("has %q with its last point", w), "abbreviations without their last point",
				"write "+strings.TrimRight(w, "."))
		default:
			continue
		}
		return
	}
}

func (c *packCheck) patterns(key string, patterns []string) {
	for i, pattern := range patterns {
		steps, err := parseSteps(pattern)
		var bad *patternError
		if errors.As(err, &bad) {
			c.add(key, i, cmp.Or(bad.word, pattern), "has a pattern that does not compile: "+bad.Error(), bad.expected, bad.hint)
			continue
		}
		for _, step := range steps {
			c.alternatives += len(step)
			for _, phrase := range step {
				if len(phrase) > maxPackPhrase {
					c.add(key, i, "", fmt.Sprintf("has an alternative of %d words", len(phrase)),
						fmt.Sprintf("at most %d", maxPackPhrase), "write it as steps, with blanks between them")
				}
			}
		}
	}
}
