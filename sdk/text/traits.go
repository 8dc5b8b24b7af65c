package text

import (
	"strings"
	"unicode"
)

// said is a text as fold returns it, and as it was written.
type said struct {
	text, folded string
	words        []Span // of folded
}

// traits are patterns that are more than words. Each returns what it found, or
// "" if the text does not have it.
var traits = map[string]func(said) string{
	"<fen>":     func(s said) string { return findFEN(s.folded) },
	"<moves>":   findMoves,
	"<formula>": findFormula,
	"<snippet>": func(s said) string { return findSnippet(s.folded) },
	"<numbers>": findNumbers,
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

// findMoves returns the first move of a game in algebraic notation, with the
// letters of the pieces in English, Polish, German, French or Spanish, if there
// are three; one with a number before it, a piece or a capture counts twice.
func findMoves(s said) string {
	if !hasDigit(s.text) {
		return ""
	}
	first, count := "", 0
	for word := range strings.FieldsSeq(strings.ToLower(s.text)) {
		word = strings.TrimRight(strings.Trim(word, "(),;:!?\"'"), ".")
		number, move, numbered := strings.Cut(word, ".")
		if !numbered || !digits(number) {
			number, move = "", word
		}
		move = strings.TrimLeft(move, ".")
		if !isMove(move) {
			continue
		}
		count++
		if number != "" || len(move) > 2 {
			count++
		}
		if first == "" {
			first = move
		}
	}
	if count < 3 {
		return ""
	}
	return first
}

// isMove reports whether a word is a move such as e4, Nf3, exd5, Qxe7+, e8=Q, O-O, in lower case.
func isMove(s string) bool {
	s = strings.TrimRight(s, "+#!?")
	if s == "o-o" || s == "o-o-o" || s == "0-0" || s == "0-0-0" {
		return true
	}
	if to, piece, ok := strings.Cut(s, "="); ok && len(piece) == 1 {
		s = to
	}
	if len(s) > 2 && strings.IndexByte("kqrbndtlscfpahwg", s[0]) >= 0 {
		s = s[1:]
	}
	if len(s) < 2 || len(s) > 5 || !square(s[len(s)-2:]) {
		return false
	}
	from := strings.TrimRight(s[:len(s)-2], "x-")
	switch len(from) {
	case 0:
		return true
	case 1:
		return from[0] >= 'a' && from[0] <= 'h' || rankDigit(from[0])
	}
	return len(from) == 2 && square(from)
}

func square(s string) bool   { return s[0] >= 'a' && s[0] <= 'h' && rankDigit(s[1]) }
func rankDigit(b byte) bool  { return b >= '1' && b <= '8' }
func digits(s string) bool   { return s != "" && strings.Trim(s, "0123456789") == "" }
func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }
func variable(s string) bool {
	s = strings.TrimLeft(s, "!~¬-")
	if s == "" || len(s) > 3 || !unicode.IsLetter(rune(s[0])) {
		return false
	}
	return len(s) == 1 || strings.Trim(s[1:], "_0123456789") == ""
}

// connectives join the variables of a formula.
var connectives = set(strings.Fields(`∧ ∨ ⊕ → ↔ => <=> -> <-> & && | || ^ /\ \/ and or xor implies iff
	i lub albo oraz implikuje und oder impliziert et ou implique y o implica v`))

var negations = set(strings.Fields("not nie nicht non no ¬ ! ~"))

var formulaSigns = strings.NewReplacer("(", " ", ")", " ", ",", " ", ".", " ", ";", " ", ":", " ", "?", " ",
	"∧", " ∧ ", "∨", " ∨ ", "→", " → ", "↔", " ↔ ", "⊕", " ⊕ ", "¬", " ¬ ",
	"<=>", " <=> ", "<->", " <-> ", "=>", " => ", "->", " -> ", "&&", " && ", "||", " || ", "&", " & ", "|", " | ")

// findFormula returns the first connective between variables, if the text has
// two: "a or b", "(p -> q)", "x1 ∨ ¬x2".
func findFormula(s said) string {
	if !variablesMeet(s) {
		return ""
	}
	words := strings.Fields(formulaSigns.Replace(strings.ToLower(s.text)))
	first, count := "", 0
	for i := 1; i+1 < len(words); i++ {
		if !connectives[words[i]] || !variable(words[i-1]) {
			continue
		}
		next := i + 1
		for next+1 < len(words) && negations[words[next]] {
			next++
		}
		if !variable(words[next]) {
			continue
		}
		if count++; first == "" {
			first = strings.Join(words[i-1:next+1], " ")
		}
	}
	if count < 2 {
		return ""
	}
	return first
}

// variablesMeet reports whether a text may have a formula: two variables with at
// most two words between them. It is a cheap test that excludes most texts.
func variablesMeet(s said) bool {
	last := -4
	for i, word := range s.words {
		if word.End-word.Start > 3 || !plainVariable(word.In(s.folded)) {
			continue
		}
		if i-last <= 3 {
			return true
		}
		last = i
	}
	return false
}

// plainVariable is variable for a word of a folded text, which has no signs.
func plainVariable(word string) bool {
	for i := 1; i < len(word); i++ {
		if word[i] < '0' || word[i] > '9' {
			return false
		}
	}
	return word[0] >= 'a' && word[0] <= 'z'
}

// snippetSigns begin with one of snippetBytes.
const snippetBytes = "`(){}[]=<$#\\+:./!"

var snippetSigns = strings.Fields("` () ){ {} }; := === != ++ :: == </ /> #include $( ${ [i] [0] => \\d [a-z [^" +
	" .py .js .go .ts .java .cpp .rs .sh .sql .php")

var signsBy = func() (by [256][]string) {
	for _, sign := range snippetSigns {
		by[sign[0]] = append(by[sign[0]], sign)
	}
	return by
}()

// findSnippet returns the first sign that a part of a folded text is program
// text, with what follows it.
func findSnippet(folded string) string {
	for at := 0; ; at++ {
		next := strings.IndexAny(folded[at:], snippetBytes)
		if next < 0 {
			return ""
		}
		at += next
		for _, sign := range signsBy[folded[at]] {
			if strings.HasPrefix(folded[at:], sign) {
				line, _, _ := strings.Cut(folded[at:min(at+20, len(folded))], "\n")
				return strings.TrimSpace(strings.ToValidUTF8(line, ""))
			}
		}
	}
}

// findNumbers returns the first number of a text that has two.
func findNumbers(s said) string {
	first, count := "", 0
	for _, span := range s.words {
		word := span.In(s.folded)
		if word[0] < '0' || word[0] > '9' {
			continue
		}
		if count++; first == "" {
			first = word
		}
	}
	if count < 2 {
		return ""
	}
	return first
}
