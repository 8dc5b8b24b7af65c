package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func cut(text, language string) []string {
	var out []string
	for _, s := range Sentences(text, language) {
		out = append(out, s.In(text))
	}
	return out
}

func TestSentences(t *testing.T) {
	for name, c := range map[string]struct {
		text, language string
		want           []string
	}{
		"plain":          {"One. Two! Three?", "en", []string{"One.", "Two!", "Three?"}},
		"no end":         {"One. And two", "en", []string{"One.", "And two"}},
		"abbreviation":   {"Mr. Wallace met Dr. Hooker. They spoke.", "en", []string{"Mr. Wallace met Dr. Hooker.", "They spoke."}},
		"initials":       {"When on board H.M.S. Beagle, J. R. R. wrote. Then he left.", "en", []string{"When on board H.M.S. Beagle, J. R. R. wrote.", "Then he left."}},
		"the word I":     {"It is I. Come in.", "en", []string{"It is I.", "Come in."}},
		"decimals":       {"It is 3.14 wide. Yes.", "en", []string{"It is 3.14 wide.", "Yes."}},
		"quotes":         {"“Really?” she asked. “Yes.” He left.", "en", []string{"“Really?” she asked.", "“Yes.”", "He left."}},
		"ellipsis":       {"Well… maybe. Well... Maybe.", "en", []string{"Well… maybe.", "Well...", "Maybe."}},
		"german ordinal": {"Am 3. Mai kam er. Sie ging.", "de", []string{"Am 3. Mai kam er.", "Sie ging."}},
		"german z.B.":    {"Tiere, z.B. Hunde, bellen. Gut.", "de", []string{"Tiere, z.B. Hunde, bellen.", "Gut."}},
		"polish":         {"Mieszka przy ul. Długiej. Tam jest np. sklep.", "pl", []string{"Mieszka przy ul. Długiej.", "Tam jest np. sklep."}},
		"french":         {"M. Dupont arrive. Il part.", "fr", []string{"M. Dupont arrive.", "Il part."}},
		"spanish":        {"¿Quién es? ¡El Sr. López! Bien.", "es", []string{"¿Quién es?", "¡El Sr. López!", "Bien."}},
		"chinese":        {"我来了。你呢？好。", "", []string{"我来了。", "你呢？", "好。"}},
		"paragraphs":     {"A heading\n\nA text. More\n\n\nEnd.", "en", []string{"A heading", "A text.", "More", "End."}},
		"code whole":     {"Run this:\n```go\nx := 1. // a. b\n\nfmt.Println(x)\n```\nThen stop.", "en", []string{"Run this:", "```go\nx := 1. // a. b\n\nfmt.Println(x)\n```", "Then stop."}},
		"table whole":    {"| a | b |\n|---|---|\n| 1. x | 2. |\nAfter.", "en", []string{"| a | b |\n|---|---|\n| 1. x | 2. |", "After."}},
		"list":           {"- one\n- two. Three.\n1. four", "en", []string{"- one", "- two.", "Three.", "1. four"}},
		"markdown title": {"# On bees. And more\nThey dance.", "en", []string{"# On bees. And more", "They dance."}},
		"open fence":     {"```\nnever closed. At all.", "en", []string{"```\nnever closed. At all."}},
		"blank":          {" \n\t ", "en", nil},
	} {
		assert.Equal(t, c.want, cut(c.text, c.language), name)
	}
}

// Sentences are parts of the source, in order, and only blanks are left out.
func TestSentencesLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("aB.!? \n|-#1`…。“”(I"))).Draw(t, "text")
		language := rapid.SampledFrom(append(Languages(), "", "xx")).Draw(t, "language")
		var joined strings.Builder
		end := 0
		for _, s := range Sentences(text, language) {
			require.GreaterOrEqual(t, s.Start, end)
			require.Greater(t, s.End, s.Start)
			joined.WriteString(s.In(text))
			end = s.End
		}
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		require.Equal(t, squeeze(text), squeeze(joined.String()))
	})
}

func TestWords(t *testing.T) {
	text := "Don't stop: 3.14 well-known café—naïve 你好 a_b U.S."
	var got []string
	for _, w := range Words(text) {
		got = append(got, w.In(text))
	}
	assert.Equal(t, []string{"Don't", "stop", "3.14", "well-known", "café", "naïve", "你", "好", "a_b", "U", "S"}, got)
}

func TestDetect(t *testing.T) {
	for text, want := range map[string]string{
		"The bees of this hive are in the garden and they dance for the others.":                        "en",
		"Pszczoły tańczą, żeby pokazać, gdzie jest jedzenie, ale nie każda z nich to potrafi.":          "pl",
		"Die Bienen tanzen, um den anderen zu zeigen, wo das Futter ist, und das ist nicht so einfach.": "de",
		"Les abeilles dansent pour montrer aux autres où est la nourriture, et ce n'est pas si simple.": "fr",
		"Las abejas bailan para mostrar a las otras dónde está la comida, y no es algo muy sencillo.":   "es",
		"蜜蜂跳舞":                 Undetermined,
		"12345 !!! ???":        Undetermined,
		"":                     Undetermined,
		"xyzzy plugh frotz":    Undetermined,
		"Пчёлы танцуют в саду": Undetermined,
	} {
		got, confidence := ShippedPacks().Detect(text)
		assert.Equal(t, want, got, "%s (%.2f)", text, confidence)
		if want != Undetermined {
			assert.GreaterOrEqual(t, confidence, 0.6)
		}
	}
}

func TestClassify(t *testing.T) {
	for text, want := range map[string]string{
		"Summarize this article in three sentences":                         "context/summarize",
		"Podsumuj ten tekst":                                                "context/summarize",
		"Fasse den Text bitte kurz zusammen":                                "context/summarize",
		"Fais un résumé de cet article":                                     "context/summarize",
		"Haz un resumen de este texto":                                      "context/summarize",
		"Fix the bug in this function":                                      "code/patch",
		"Popraw błąd w tym skrypcie":                                        "code/patch",
		"Write a function that parses dates":                                "code/generate",
		"Schreibe ein Programm, das Primzahlen zählt":                       "code/generate",
		"Explain what this function does":                                   "code/explain",
		"Please review my pull request":                                     "code/review",
		"What is the best move in this position?":                           "chess/best-move",
		"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1 what now": "chess/best-move",
		"p cnf 3 2 is this satisfiable":                                     "sat/solve",
		"Hello there":                                                       "text/respond",
		"Grade this answer from 0 to 10":                                    "eval/grade",
		"A train leaves at noon with 80 km/h. When does it arrive?":         "problem/solve",
		"":                    "problem/solve",
		"route this to admin": "problem/solve",
	} {
		language, _ := ShippedPacks().Detect(text)
		got := ShippedRules().Classify(text, language, 0.35, "problem/solve")
		assert.Equal(t, want, got.Intent, "%s: %v", text, got.Ranking[:2])
	}
}

// Case, outer blanks and trailing punctuation do not change the intent; equal
// input gives equal output; a megabyte is classified as fast as a short text.
func TestClassifyIsSteady(t *testing.T) {
	for _, text := range []string{"Summarize this text", "Fix the failing test in the loop", "Hello"} {
		want := ShippedRules().Classify(text, "en", 0.35, "problem/solve")
		for _, variant := range []string{strings.ToUpper(text), "  " + text + " \n", text + "...", text + "!"} {
			got := ShippedRules().Classify(variant, "en", 0.35, "problem/solve")
			assert.Equal(t, want.Intent, got.Intent, variant)
			assert.Equal(t, want.Confidence, got.Confidence, variant)
		}
	}
	long := ShippedRules().Classify(strings.Repeat("lorem ipsum ", 1<<17)+"summarize this", "", 0.35, "problem/solve")
	assert.Equal(t, "context/summarize", long.Intent)
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{"One. Two.", "```\nx", "| a |\n", "# t\n- x", "\xff.", "İ. summary", strings.Repeat("(", 300)} {
		f.Add(seed, "en")
	}
	f.Fuzz(func(t *testing.T, text, language string) {
		end := 0
		for _, s := range Sentences(text, language) {
			if s.Start < end || s.End <= s.Start || s.End > len(text) {
				t.Fatalf("bad span %v of %q", s, text)
			}
			end = s.End
		}
		for _, w := range Words(text) {
			if utf8.ValidString(text) && !utf8.ValidString(w.In(text)) {
				t.Fatalf("word cut in a rune: %q", w.In(text))
			}
		}
		ShippedPacks().Detect(text)
		ShippedRules().Classify(text, language, 0.35, "x/y")
	})
}
