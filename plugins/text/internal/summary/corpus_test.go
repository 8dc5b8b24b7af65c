package summary

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/text"
)

// document is one document of testdata, see the head of each file for the
// notation.
type document struct {
	id, language, genre string
	unseen              bool // not used while the method was tuned
	source              string
	sentences           []string
	key                 map[int]bool
}

const keysPerDocument = 3

// corpus parses the documents of all languages, in order.
func corpus(t testing.TB) []document {
	t.Helper()
	var out []document
	for _, language := range text.Languages() {
		raw, err := os.ReadFile(filepath.Join("testdata", language+".txt"))
		require.NoError(t, err)
		parts := strings.Split("\n"+string(raw), "\n== ")
		for _, part := range parts[1:] {
			out = append(out, parseDocument(t, language, part))
		}
	}
	return out
}

func parseDocument(t testing.TB, language, part string) document {
	head, body, _ := strings.Cut(part, "\n")
	fields := strings.Fields(head)
	require.Len(t, fields, 3, head)
	require.Contains(t, []string{"tuned", "unseen"}, fields[2], head)
	d := document{id: fields[0], language: language, genre: fields[1], unseen: fields[2] == "unseen", key: map[int]bool{}}
	var b strings.Builder
	gap := ""
	for line := range strings.Lines(strings.TrimSpace(body)) {
		line, marked := strings.CutPrefix(strings.TrimSpace(line), "* ")
		if line == "" {
			gap = "\n\n"
			continue
		}
		if marked {
			d.key[len(d.sentences)] = true
		}
		d.sentences = append(d.sentences, line)
		b.WriteString(gap + line)
		gap = " "
	}
	d.source = b.String()
	return d
}

// EMB-004: the documents meet the requirements of the measurement: eight in
// each language, half of them unseen, three key sentences each, in several
// genres; the splitter and the detector agree with their annotations (TXT-006).
func TestCorpus(t *testing.T) {
	documents := corpus(t)
	require.Len(t, documents, 40)
	count := map[string]int{}
	for _, d := range documents {
		count[fmt.Sprint(d.language, " unseen ", d.unseen)]++
		count[d.genre]++
		assert.Len(t, d.key, keysPerDocument, d.id)
		assert.GreaterOrEqual(t, len(d.sentences), 7, d.id)
		assert.LessOrEqual(t, len(d.sentences), 14, d.id)
		found, _ := text.ShippedPacks().Detect(d.source)
		assert.Equal(t, d.language, found, d.id)
		var cut []string
		for _, s := range text.Sentences(d.source, d.language) {
			cut = append(cut, s.In(d.source))
		}
		assert.Equal(t, d.sentences, cut, d.id)
	}
	for _, language := range text.Languages() {
		assert.Equal(t, 4, count[language+" unseen true"], language)
		assert.Equal(t, 4, count[language+" unseen false"], language)
	}
	for _, genre := range []string{"news", "explanation", "letter", "report", "instruction"} {
		assert.GreaterOrEqual(t, count[genre], 5, genre)
	}
}
