package edn_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// vectorFile is the published reference for other implementations (VAL-031): an
// array of objects with text, canonical text and hash.
const vectorFile = "testdata/vectors.json"

var update = flag.Bool("update", false, "write "+vectorFile+" anew; the form is version 1 for ever, so only to add cases")

type vector struct {
	Text      string `json:"text"`
	Canonical string `json:"canonical"`
	Hash      string `json:"hash"`
}

// VAL-031, ENV-022: 300 cases of text, canonical bytes and hash that never
// change.
func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	file, err := os.ReadFile(vectorFile)
	require.NoError(t, err)
	var vectors []vector
	require.NoError(t, json.Unmarshal(file, &vectors))
	require.Len(t, vectors, 300)
	kinds := map[edn.Kind]int{}
	for _, c := range vectors {
		v, err := edn.ReadString(c.Text)
		require.NoError(t, err, c.Text)
		assert.Equal(t, c.Canonical, v.String())
		assert.Equal(t, c.Hash, edn.Hash(v))
		kinds[v.Kind()]++
	}
	assert.Len(t, kinds, 16, "every kind is there")
}

// writeVectors collects the accepted rows of the grammar and generated values,
// each with non-canonical text if there is one.
func writeVectors(t *testing.T) {
	var vectors []vector
	seen := map[string]bool{}
	add := func(text string) {
		v, err := edn.ReadString(text)
		if err != nil || seen[text] || len(vectors) == 300 {
			return
		}
		seen[text] = true
		vectors = append(vectors, vector{Text: text, Canonical: v.String(), Hash: edn.Hash(v)})
	}
	for _, c := range accepted {
		add(c.text)
	}
	// Longer than one, two and three chunks of the hash.
	add(`"` + strings.Repeat("long text. ", 100) + `"`)
	add("[" + strings.Repeat(":a/b 1.50M, ", 200) + "]")
	add("#{" + strings.Join(strings.Fields(numbers(1, 900)), ",") + "}")
	for seed := 0; len(vectors) < 300; seed++ {
		v := genValue(5).Example(seed)
		if v.Depth() == 0 && seed%7 > 0 || len(v.String()) > 1000 {
			continue
		}
		text := string(edn.WritePretty(v, edn.PrettyOptions{Width: 1 + seed%60, Indent: seed % 3}))
		add(strings.NewReplacer("\n", "; comment\n ,", " :", " #_(no) :").Replace(text))
		add(text)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	require.NoError(t, enc.Encode(vectors))
	require.NoError(t, os.WriteFile(vectorFile, out.Bytes(), 0o644))
}

func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%d ", i)
	}
	return b.String()
}
