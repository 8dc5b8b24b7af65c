package text

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// labelled is one labelled case of a check.
type labelled struct {
	check, language  string
	fails            bool
	request, content string
}

func labelledCases(t testing.TB, file string) []labelled {
	raw, err := os.ReadFile("testdata/checks/" + file)
	require.NoError(t, err)
	var out []labelled
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.SplitN(line, " |", 3)
		require.Len(t, parts, 3, line)
		head := strings.Fields(parts[0])
		require.Len(t, head, 3, line)
		require.Contains(t, []string{"pass", "fail"}, head[2], line)
		text := func(s string) string { return strings.ReplaceAll(strings.TrimPrefix(s, " "), `\n`, "\n") }
		out = append(out, labelled{head[0], head[1], head[2] == "fail", text(parts[1]), text(parts[2])})
	}
	return out
}

// remarks runs the check of a case.
func (c labelled) remarks(t testing.TB) []Remark {
	switch c.check {
	case "ending":
		return ShippedPacks().CheckEnding(c.content, c.language)
	case "list":
		return ShippedPacks().CheckList(c.content, c.request, c.language)
	case "detail":
		return ShippedPacks().CheckDetail(c.content, c.request, c.language)
	case "numbers":
		return ShippedPacks().CheckNumbers(c.content, c.request, c.language)
	case "quotes":
		return CheckQuotes(c.content, c.request)
	case "language":
		out, _ := ShippedPacks().CheckLanguage(c.content, c.request)
		return out
	case "think":
		return CheckReasoning(c.content)
	case "tool":
		return CheckTools(c.content)
	case "prompt":
		return CheckPrompt(c.content, c.request)
	case "secret":
		return CheckSecrets(c.content)
	}
	require.Fail(t, "no check", c.check)
	return nil
}

// figures counts the results of a check.
type figures struct{ hit, missed, wrong, right int }

func (f figures) precision() float64 { return ratio(f.hit, f.hit+f.wrong) }
func (f figures) recall() float64    { return ratio(f.hit, f.hit+f.missed) }

func ratio(n, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}

// byLanguage are the checks that depend on the language.
var byLanguage = []string{"ending", "list", "detail", "numbers", "language"}

// TXT-009: precision and recall of each check, and per language where it
// matters. The rules were never changed for the cases of unseen.txt and
// held.txt, and by then for those of mended.txt; all three were written before
// anything was run on them. Checks that do not depend on a language have fewer
// cases per language, where one error of five is 0.80 already: for them the
// threshold applies to the check.
func TestLabelledCases(t *testing.T) {
	for _, set := range []struct {
		name  string
		files []string
		least float64
		cases int // per check and language, for passing and for failing cases
	}{
		{"seen", []string{"seen.txt"}, 0.95, 0},
		{"unseen", []string{"unseen.txt", "held.txt"}, 0.85, 10},
		{"all", []string{"unseen.txt", "held.txt", "mended.txt"}, 0.85, 15},
	} {
		by := map[string]*figures{}
		count := func(key string, c labelled, fails bool) {
			if by[key] == nil {
				by[key] = &figures{}
			}
			by[key].add(c.fails, fails)
		}
		for _, file := range set.files {
			for _, c := range labelledCases(t, file) {
				fails := len(c.remarks(t)) > 0
				count(c.check+" "+c.language, c, fails)
				count(c.check, c, fails)
				if fails != c.fails && set.name != "all" || fails != c.fails && file == "mended.txt" {
					t.Logf("%s: %s %s: wrong about %q, asked %q: %v", file, c.check, c.language, c.content, c.request, c.remarks(t))
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(by)) {
			f := by[key]
			figure := fmt.Sprintf("%s: %-11s precision %.2f recall %.2f (%d pass, %d fail)", set.name, key, f.precision(), f.recall(), f.wrong+f.right, f.hit+f.missed)
			t.Log(figure)
			check, _, inLanguage := strings.Cut(key, " ")
			if set.name == "seen" || !inLanguage || slices.Contains(byLanguage, check) {
				assert.GreaterOrEqual(t, f.precision(), set.least, figure)
				assert.GreaterOrEqual(t, f.recall(), set.least, figure)
			}
			if inLanguage && slices.Contains(byLanguage, check) {
				assert.GreaterOrEqual(t, min(f.wrong+f.right, f.hit+f.missed), set.cases, figure)
			}
		}
	}
}

func (f *figures) add(should, does bool) {
	switch {
	case does && should:
		f.hit++
	case should:
		f.missed++
	case does:
		f.wrong++
	default:
		f.right++
	}
}

// TXT-008: invalid input does not panic and takes linear time.
func FuzzChecks(f *testing.F) {
	for _, seed := range []string{"One. (two", "1. a 2. b 3. c", "„a“ «b» \"c\"", "1,000.5 'x", "🎉🎉", "a: b=c", "- a\n - b,", "\xff\xfe", strings.Repeat("(", 100)} {
		f.Add(seed, "Explain with an example in detail: 12 \"x\"", "en")
	}
	f.Fuzz(func(t *testing.T, s, request, language string) {
		all := [][]Remark{ShippedPacks().CheckEnding(s, language), ShippedPacks().CheckList(s, request, language), ShippedPacks().CheckDetail(s, request, language), ShippedPacks().CheckNumbers(s, request, language),
			CheckQuotes(s, request), CheckReasoning(s), CheckTools(s), CheckPrompt(s, request), CheckSecrets(s)}
		remarks, _ := ShippedPacks().CheckLanguage(s, language)
		for _, r := range slices.Concat(append(all, remarks)...) {
			if r.Span.Start < 0 || r.Span.End < r.Span.Start || r.Span.End > len(s) {
				t.Fatalf("bad place %v: %s", r.Span, r.Message)
			}
		}
	})
}
