package schema

import (
	"regexp/syntax"

	"github.com/fermenthq/ferment/sdk/edn"
)

// MaxPatterns is the maximum number of instructions of all patterns in the schemas of a plugin. A compiled
// pattern takes about 100 bytes of memory per instruction.
const MaxPatterns = 100_000

// PatternInstructions returns the approximate number of instructions of the patterns in the forms, without
// compiling them. It stops counting above MaxPatterns.
func PatternInstructions(specs map[string]edn.Value) (n int) {
	for _, spec := range specs {
		if n += patternsOf(spec, MaxPatterns-n); n > MaxPatterns {
			break
		}
	}
	return n
}

// patternsOf counts the patterns of a form, until there are more than most instructions.
func patternsOf(v edn.Value, most int) (n int) {
	if v.Kind() != edn.KindVector || v.Len() == 0 {
		return 0
	}
	head, _ := v.Nth(0)
	if last, _ := v.Nth(v.Len() - 1); head.Equal(edn.K(KindRe.String())) {
		if text, ok := last.AsString(); ok && len(text) <= maxPatternSize {
			return instructionsOf(text)
		}
	}
	for e := range v.Elems() {
		if n += patternsOf(e, most-n); n > most {
			break
		}
	}
	return n
}

// instructionsOf returns the approximate number of instructions of a pattern; 0 if it is not valid.
func instructionsOf(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return weightOf(parsed)
}

// weightOf returns the approximate number of instructions of a part of a pattern. The parser bounds the
// depth and the repetitions.
func weightOf(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += weightOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
