package tables_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/plugins/internal/provider/tables"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// LLM-022: the counts of the tables. The figures are those of js-tiktoken 1.0,
// another program over the same public tables.
func TestCount(t *testing.T) {
	newer, older := tables.For("gpt-4o"), tables.For("gpt-4")
	for _, tt := range []struct {
		name, text   string
		newer, older int64
		slack        int64 // tolerance for a text that is counted in parts
	}{
		{"nothing", "", 0, 0, 0},
		{"two words", "hello world", 2, 2, 0},
		{"a long word", "antidisestablishmentarianism", 6, 6, 0},
		{"a sum", "2 + 2 = 4", 7, 7, 0},
		{"digits", "1234567890123", 5, 5, 0},
		{"Japanese", "お誕生日おめでとう", 8, 9, 0},
		{"German", "Fünfundzwanzig große Äpfel, bitte!", 13, 13, 0},
		{"Russian", "Сегодня идёт снег.", 5, 12, 0},
		{"Arabic", "صباح الخير يا أصدقاء", 6, 14, 0},
		{"Hindi", "आज मौसम अच्छा है", 4, 19, 0},
		{"emoji", "👩‍🚀🚀 🎉🎉🎉", 13, 20, 0},
		{"contractions", "We've said they'll go; I'M sure it's THEY'RE turn.", 14, 16, 0},
		{"code", "func main() {\n\tfor i := range 10 {\n\t\tfmt.Println(i*i)\n\t}\n}\n", 20, 20, 0},
		{"JSON", `{"id":"t-1","args":{"path":"a.go","lines":[1,22,333]},"ok":true}`, 27, 27, 0},
		{"blanks", "a    b\n\n\n   c\t\t d  ", 9, 9, 0},
		{"base64", "c3VyZS4gaXQgaXMgYSBsb25nIHRleHQgd2l0aG91dCBtZWFuaW5n", 36, 37, 0},
		{"a run of blanks", strings.Repeat(" ", 200), 2, 2, 0},
		{"marks of the model are text", "<|endoftext|> is text here", 10, 10, 0},
		{"combining accents", "e\u0301a\u0300 nai\u0308ve", 7, 9, 0},
		{"line ends", "one\r\ntwo\r\n\r\nthree\n", 6, 6, 0},
		{"prose of 20 KiB", strings.Repeat("Every morning the baker counts his loaves, and every evening he counts what is left.\n", 240), 4320, 4320, 0},
		{"16 KiB without a blank", strings.Repeat("0123456789abcdef", 1000), 5000, 5000, 8},
	} {
		n, ok := newer.Count(t.Context(), tt.text)
		require.True(t, ok, tt.name)
		assert.InDelta(t, tt.newer, n, float64(tt.slack), "%s, newer", tt.name)
		n, ok = older.Count(t.Context(), tt.text)
		require.True(t, ok, tt.name)
		assert.InDelta(t, tt.older, n, float64(tt.slack), "%s, older", tt.name)
	}
}

// LLM-022: which table a model has.
func TestNameFor(t *testing.T) {
	for model, want := range map[string]string{
		"gpt-4o": "o200k_base", "gpt-4o-mini-2024-07-18": "o200k_base", "gpt-4.1-nano": "o200k_base", "gpt-5": "o200k_base", "o3-mini": "o200k_base",
		"chatgpt-4o-latest": "o200k_base", "openai/gpt-oss-20b": "o200k_base", "ft:gpt-4o-2024-08-06:acme::1": "o200k_base", "something-new": "o200k_base",
		"gpt-4": "cl100k_base", "gpt-4-0613": "cl100k_base", "gpt-4-turbo": "cl100k_base", "GPT-3.5-turbo-0125": "cl100k_base", "gpt-35-turbo": "cl100k_base",
		"ft:gpt-3.5-turbo-0125:acme::1": "cl100k_base", "openai/gpt-4": "cl100k_base",
	} {
		assert.Equal(t, want, tables.NameFor(model), model)
	}
}

// LLM-022: every text has a count of at most its length, and counting stops
// soon after ctx ends.
func TestAnyText(t *testing.T) {
	table := tables.For("gpt-4o")
	for _, text := range []string{"\x00\xff\xfe", "\xf0\x9f", strings.Repeat("\xbf", 9000), strings.Repeat("\n ", 2200), strings.Repeat("語", 3000), strings.Repeat("a ", 4096), strings.Repeat("!", 4097)} {
		n, ok := table.Count(t.Context(), text)
		assert.True(t, ok)
		assert.Positive(t, n)
		assert.LessOrEqual(t, n, int64(3*len(text)), "a byte that is none of a rune is counted as the mark for one")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, ok := table.Count(gone, strings.Repeat("text ", 1<<20))
	assert.False(t, ok)
	_, ok = tables.For("gpt-4").Count(gone, "text")
	assert.False(t, ok)
}

// One table serves concurrent calls.
func TestAtOnce(t *testing.T) {
	table := tables.For("gpt-4o")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			n, ok := table.Count(t.Context(), strings.Repeat("hello world ", 20))
			assert.True(t, ok)
			assert.EqualValues(t, 41, n)
		})
	}
	all.Wait()
}
