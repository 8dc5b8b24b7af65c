package text

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// labelledRequest is a request of testdata/requests.
type labelledRequest struct {
	language, intent, number, text string
}

func labelledRequests(t testing.TB, set string) []labelledRequest {
	t.Helper()
	raw, err := os.ReadFile("testdata/requests/" + set + ".txt")
	require.NoError(t, err)
	var out []labelledRequest
	for line := range strings.Lines(string(raw)) {
		head, said, found := strings.Cut(line, " | ")
		if !found {
			continue
		}
		fields := strings.Fields(head)
		require.Len(t, fields, 3, line)
		out = append(out, labelledRequest{fields[0], fields[1], fields[2], strings.TrimSpace(said)})
	}
	return out
}

// intentOf returns the intent of a request as the classifier finds it.
func intentOf(said string) string {
	language, _ := ShippedPacks().Detect(said)
	return ShippedRules().Classify(said, language, 0.35, "problem/solve").Intent
}

// RTE-010: both sets have all intents in all languages, and no request is in both.
func TestLabelledSets(t *testing.T) {
	texts := map[string]string{}
	for set, least := range map[string]int{"seen": 6, "hidden": 3} {
		count := map[string]int{}
		for _, r := range labelledRequests(t, set) {
			count[r.language+" "+r.intent]++
			assert.Empty(t, texts[r.text], "twice: %s", r.number)
			texts[r.text] = set
		}
		assert.Len(t, count, 10*len(Languages()))
		for pair, n := range count {
			assert.GreaterOrEqual(t, n, least, "%s: %s", set, pair)
		}
	}
	assert.GreaterOrEqual(t, len(texts), 1000)
}

// RTE-010: of the requests on which the rules were written at least 90 % get
// their intent, and of the hidden ones, which another author wrote, at least
// 80 %. The log has both per language, and the confusions; it never shows a hidden
// request.
func TestLabelledRequests(t *testing.T) {
	for set, least := range map[string]float64{"seen": 0.9, "hidden": 0.8} {
		t.Run(set, func(t *testing.T) {
			all := labelledRequests(t, set)
			right, wrong := map[string]int{}, map[string]int{} // by language; by intent and what was found
			total := map[string]int{}
			hits := 0
			for _, r := range all {
				total[r.language]++
				got := intentOf(r.text)
				if got == r.intent {
					hits++
					right[r.language]++
					continue
				}
				wrong[r.intent+" taken for "+got]++
				if set == "seen" {
					t.Logf("%s %s taken for %s: %s", r.language, r.intent, got, r.text)
				}
			}
			t.Logf("%s: %d of %d", set, hits, len(all))
			for _, language := range Languages() {
				t.Logf("  %s %d of %d", language, right[language], total[language])
			}
			for _, pair := range sortedKeys(wrong) {
				t.Logf("  %s: %d", pair, wrong[pair])
			}
			assert.GreaterOrEqual(t, float64(hits)/float64(len(all)), least)
		})
	}
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// RTE-010: case, outer blanks and trailing punctuation do not change the intent.
func TestIntentIsInvariant(t *testing.T) {
	for _, set := range []string{"seen", "hidden"} {
		for i, r := range labelledRequests(t, set) {
			want := intentOf(r.text)
			for name, said := range map[string]string{
				"upper case": strings.ToUpper(r.text),
				"lower case": strings.ToLower(r.text),
				"blanks":     " \t\n" + r.text + " \n\n",
				"dots":       strings.TrimRight(r.text, ".?! ") + "...",
				"marks":      strings.TrimRight(r.text, ".?! ") + " ?!",
				"far inside": strings.Repeat(" ", 5000) + r.text + strings.Repeat("\n", 5000),
				"shouted":    strings.TrimRight(r.text, ".?! ") + strings.Repeat("!", 9000),
				"bare":       strings.TrimRight(r.text, ".?! "),
			} {
				assert.Equal(t, want, intentOf(said), "%s request %d in %s", set, i, name)
			}
		}
	}
}

// hostile are requests that are none.
func hostile() map[string]string {
	return map[string]string{
		"empty":         "",
		"blank":         " \t\n",
		"admin":         "route this to admin",
		"mixed scripts": strings.Repeat("summarize это 这个 αυτό هذا क्या 🙂 ", 3000),
		"1 MiB word":    strings.Repeat("x", 1<<20),
		"1 MiB words":   strings.Repeat("fix code ", 1<<20/9),
		"1 MiB marks":   strings.Repeat("e\u0301", 1<<20/3),
		"invalid UTF-8": strings.Repeat("\xff\xfe fix", 1<<10),
		"a FEN in bits": strings.Repeat("8/8/", 1<<18),
	}
}

// RTE-010: the classification of bad input is deterministic, and nothing in a
// request can name its own intent.
func TestHostileRequests(t *testing.T) {
	for name, said := range hostile() {
		language, _ := ShippedPacks().Detect(said)
		first := fmt.Sprintf("%+v", ShippedRules().Classify(said, language, 0.35, "problem/solve"))
		for range 5 {
			language, _ := ShippedPacks().Detect(said)
			assert.Equal(t, first, fmt.Sprintf("%+v", ShippedRules().Classify(said, language, 0.35, "problem/solve")), name)
		}
	}
	for _, said := range []string{"", " ", "route this to admin", "intent: :admin/all"} {
		assert.Equal(t, "problem/solve", intentOf(said), said)
	}
	assert.Equal(t, intentOf("task intent code patch"), intentOf(`{:task {:intent :code/patch}}`), "the words count, not the name")
}

// RTE-010: the classification of 1 MiB costs at most 40 scans of its UTF-8.
func BenchmarkHostileRequests(b *testing.B) {
	all := hostile()
	for _, name := range []string{"1 MiB word", "1 MiB words", "1 MiB marks", "a FEN in bits"} {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) { inScans(b, all[name], func() { intentOf(all[name]) }) })
	}
}
