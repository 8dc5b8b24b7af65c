package packfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/text"
	"github.com/fermenthq/ferment/sdk/text/packfile"
)

// TXT-006: the shipped packs are valid files and are read as the same packs.
func TestShippedPacks(t *testing.T) {
	for _, code := range text.Languages() {
		raw, err := os.ReadFile("../packs/" + code + ".edn")
		require.NoError(t, err)
		got, problems := packfile.Parse(raw)
		require.Empty(t, problems, code)
		want, ok := text.ShippedPacks().Pack(code)
		require.True(t, ok)
		assert.Equal(t, want, got.Pack)
		assert.Equal(t, `"`+code+`"`, string(raw[got.Start:got.End]))
	}
}

// pack returns the text of a valid file with more entries.
func pack(more string) string {
	return `{:language "xx" :common "aa bb cc dd ee ff gg hh ii jj kk ll mm nn oo pp qq rr ss tt"` + more + "}"
}

// TXT-006: each problem is reported once, at its position.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct{ raw, at, says, expected, hint string }{
		"no EDN":                {`{:language "xx"`, "", "not EDN", "", ""},
		"no map":                {`["xx"]`, `["xx"]`, "is not a map", "a map", ""},
		"unknown key":           {pack(` :abreviations "dr"`), ":abreviations", "has no key :abreviations", "", ""},
		"a key that is a text":  {pack(` "stop" "x"`), `"stop"`, `has no key "stop"`, "", ""},
		"no language":           {`{:common "aa bb cc dd ee ff gg hh ii jj kk ll mm nn oo pp qq rr ss tt"}`, "{", "lacks :language", "", "add :language"},
		"no function words":     {`{:language "xx"}`, "{", "lacks :common", "", "add :common"},
		"too few of them":       {`{:language "xx" :common "aa bb"}`, `"aa bb"`, "has 2 words, too few", "at least 20", ""},
		"no code":               {strings.Replace(pack(""), `"xx"`, `"Italian"`, 1), "Italian", "is not a language code", "two or three letters", ""},
		"not a language":        {strings.Replace(pack(""), `"xx"`, `"und"`, 1), "und", "is not a language code", "", ""},
		"a list of words":       {pack(` :stop ["x" "y"]`), `["x" "y"]`, ":stop is a vector", "one text, of words", ""},
		"a number":              {pack(` :letters 3`), "3", ":letters is a number", "a text", ""},
		"no vector":             {pack(` :example "exempl*"`), `"exempl*"`, ":example is a text", "a vector of texts", "put it in brackets"},
		"a number in it":        {pack(` :example ["exempl*" 3]`), "3", ":example holds a number", "a text with a pattern", ""},
		"no boolean":            {pack(` :ordinal-point "yes"`), `"yes"`, ":ordinal-point is a text", "true or false", ""},
		"open at both ends":     {pack(` :list ["fine" "a b|*list*"]`), "*list*", `"*list*" is open at both ends`, "at one end", ""},
		"too open":              {pack(` :list ["l*"]`), "l*", "too few letters", "two letters", ""},
		"marks in a pattern":    {pack(` :list ["però"]`), "però", "not in lower case without marks", "without accents", "write pero"},
		"capitals in a pattern": {pack(` :list ["Lista"]`), "Lista", "not in lower case without marks", "", "write lista"},
		"an empty alternative":  {pack(` :list ["a||b"]`), "a||b", "a word is empty", "", "take away"},
		"an empty pattern":      {pack(` :list [" "]`), " ", "has no step", "", ""},
		"a regular expression":  {pack(` :list ["(a+)+$"]`), "(a+)+$", "more than letters and digits", "", ""},
		"a last point":          {pack(` :abbreviations "dr. prof"`), "dr.", `"dr." with its last point`, "", "write dr"},
		"capitals":              {pack(` :stop "io Tu"`), "Tu", `the word "Tu"`, "lower case", "write tu"},
		"a letter that ends":    {pack(` :terminators "x"`), "x", ":terminators holds 'x'", "neither letters", ""},
		"a long word":           {pack(` :stop "` + strings.Repeat("a", 65) + `"`), strings.Repeat("a", 65), "too long", "", ""},
		"too many words":        {pack(` :stop "` + strings.Repeat("a ", 2001) + `"`), "", "has 2001 words", "at most 2000", ""},
		"what takes too long":   {pack(` :uncertainty ["` + strings.Repeat("ab|", 600) + `ab"]`), "", "601 alternatives", "at most 600", "open ends"},
		"a long alternative":    {pack(` :list ["a_b_c_d_e_f_g_h_i"]`), `"a_b_c_d_e_f_g_h_i"`, "alternative of 9 words", "at most 8", "as steps"},
		"a large file":          {pack(" " + strings.Repeat(";\n", packfile.MaxFile)), "", "not EDN", "", ""},
		"twice":                 {pack(` :stop "a" :stop "b"`), "", "not EDN", "", ""},
	} {
		_, problems := packfile.Parse([]byte(c.raw))
		require.Len(t, problems, 1, "%s: %v", name, problems)
		p := problems[0]
		assert.Contains(t, p.Message, c.says, name)
		assert.Contains(t, p.Expected, c.expected, name)
		assert.Contains(t, p.Hint, c.hint, name)
		if c.at == "{" {
			assert.Equal(t, 0, p.Start, name)
		} else if c.at != "" {
			assert.Equal(t, c.at, c.raw[p.Start:p.End], name)
		}
	}
	_, problems := packfile.Parse([]byte(pack(` :sotp "x" :list ["*a*"] :stop 3`)))
	assert.Len(t, problems, 2, "a pack is only judged once it can be read: %v", problems)
}

// TXT-006: a related language is distinguished from shipped languages, in both
// directions.
func TestRelatives(t *testing.T) {
	packs, err := packfile.Load([]string{"../../../examples/languages/it.edn"})
	require.NoError(t, err)
	for s, want := range map[string]string{
		"La luna gira intorno alla Terra e il Sole ne illumina la metà. Per esempio, al primo quarto ne vediamo di lato la parte chiara.": "it",
		"Il treno era in ritardo e quindi abbiamo perso l'inizio del concerto di sabato.":                                                 "it",
		"Non so che cosa dire, ma la casa è vecchia e il tetto perde acqua da anni.":                                                      "it",
		"La funzione restituisce un errore se il file non esiste sul disco.":                                                              "it",
		"La luna no cambia de forma, pero desde aquí no siempre vemos toda la parte que está iluminada.":                                  "es",
		"La función devuelve un error si el archivo no existe en el disco.":                                                               "es",
		"Nuestro tren llegó tarde otra vez, así que nos perdimos el concierto.":                                                           "es",
		"La fonction renvoie une erreur si le fichier n'existe pas.":                                                                      "fr",
		"La vieille bibliothèque a fermé l'an dernier à cause d'une fuite du toit.":                                                       "fr",
		"The function returns an error if the file does not exist.":                                                                       "en",
	} {
		got, confidence := packs.Detect(s)
		assert.Equal(t, want, got, "%.2f %s", confidence, s)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Read returns a pack, or one error that lists every problem with its line.
func TestLoad(t *testing.T) {
	good, other := write(t, "xx.edn", pack("")), write(t, "other.edn", pack(""))
	packs, err := packfile.Load([]string{good})
	require.NoError(t, err)
	assert.Equal(t, []string{"en", "pl", "de", "fr", "es", "xx"}, packs.Languages())

	none, err := packfile.Load(nil)
	require.NoError(t, err)
	assert.Equal(t, text.Languages(), none.Languages())

	for _, c := range []struct {
		files []string
		index int
		says  string
	}{
		{[]string{good, other}, 1, `are both of the language "xx"`},
		{[]string{good, filepath.Join(t.TempDir(), "absent.edn")}, 1, "no such file"},
		{[]string{t.TempDir()}, 0, "is not a regular file"},
		{[]string{write(t, "bad.edn", "; a comment\n"+pack("\n :list [\"*a*\"]"))}, 0, `bad.edn:3:10: :list has a pattern that does not compile: "*a*" is open at both ends, expected`},
		{[]string{write(t, "large.edn", strings.Repeat(";", packfile.MaxFile+1))}, 0, "is larger than"},
	} {
		_, err := packfile.Load(c.files)
		var bad *packfile.FileError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, c.index, bad.Index)
		assert.Contains(t, err.Error(), c.says)
	}
}

// TXT-006, TXT-008: any file is a valid pack or has a problem with a position
// in it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{pack(""), pack(` :list ["a_b|c* <d>"] :letters "ñ" :ordinal-point true`), "{", "[]", `{:language 1 :common nil}`, pack(` :list ["列_出"] :terminators ";"`)} {
		f.Add(seed, "Some text. 列出 a b;")
	}
	f.Fuzz(func(t *testing.T, raw, s string) {
		p, problems := packfile.Parse([]byte(raw))
		for _, x := range problems {
			if x.Start < 0 || x.End < x.Start || x.End > len(raw) {
				t.Fatalf("bad place %d..%d: %s", x.Start, x.End, x.Message)
			}
		}
		if len(problems) > 0 {
			return
		}
		packs, err := text.ShippedPacks().With(p.Pack)
		if err != nil {
			t.Fatal(err)
		}
		packs.Detect(s)
		packs.CheckEnding(s, p.Language)
		packs.CheckDetail(s, s, p.Language)
		packs.CheckList(s, s, p.Language)
		packs.CheckNumbers(s, s, p.Language)
		packs.Limit(s, 10, p.Language)
	})
}
