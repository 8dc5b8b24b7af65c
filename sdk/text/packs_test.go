package text

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func words20(s string) []string {
	out := strings.Fields(s)
	for len(out) < leastCommon {
		out = append(out, out[0]+strings.Repeat("q", len(out)))
	}
	return out
}

func with(t *testing.T, packs ...Pack) *Packs {
	t.Helper()
	out, err := ShippedPacks().With(packs...)
	require.NoError(t, err)
	return out
}

var (
	greek = Pack{
		Language: "el", Name: "Greek", Terminators: ";",
		Common:  words20("και το η ο να του της με για που στο είναι από δεν σε τα θα τον την οι"),
		Example: []string{"παραδειγμα*"}, Dangling: []string{"και"}, Abbreviations: []string{"κ"}, Numbers: []string{"μηδέν", "ένα", "δύο"},
	}
	czech = Pack{
		Language: "cs", Name: "Czech", OrdinalPoint: true, Letters: "ěřůž",
		Common:   words20("a v se na je že to s z do o i jako ale za by si po tak jsem které jsou není byl"),
		Stop:     []string{"měl", "zase", "tak", "jsme", "není"},
		Dangling: []string{"a", "ale", "protože"}, Uncertainty: []string{"nevim|netusim"},
	}
	chinese = Pack{
		Language: "zh", Name: "Chinese",
		Common: words20("的 了 是 在 我 有 和 就 不 人 都 一 上 也 很 到 说 要 去 你 这"),
		List:   []string{"列出|清单"}, Example: []string{"举_例|例子"},
	}
)

// TXT-006: packs of other scripts and conventions work like the shipped ones.
func TestPacksOfOthers(t *testing.T) {
	p := with(t, greek, czech, chinese)
	assert.Equal(t, []string{"en", "pl", "de", "fr", "es", "el", "cs", "zh"}, p.Languages())
	for text, want := range map[string]string{
		"Οι μέλισσες χορεύουν για να δείξουν στις άλλες που είναι η τροφή, και δεν είναι εύκολο.":      "el",
		"Včera jsem byl v divadle, které není velké, ale hry jsou dobré, tak by se tam měl jít každý.": "cs",
		"我们的蜜蜂在花园里跳舞，这是很有意思的，你也要去看。":                                                                   "zh",
		"The bees of this hive are in the garden and they dance for the others.":                       "en",
		"Nasz pociąg znowu się spóźnił, więc nie zdążyliśmy na koncert.":                               "pl",
		"Пчёлы танцуют в саду":                                                                         Undetermined,
	} {
		got, _ := p.Detect(text)
		assert.Equal(t, want, got, text)
	}
	// This mark ends a question in Greek and is a semicolon elsewhere.
	assert.Empty(t, p.CheckEnding("Τι κάνεις;", "el"))
	assert.NotEmpty(t, p.CheckEnding("Τι κάνεις;", "en"))
	assert.NotEmpty(t, p.CheckEnding("Ήρθε ο Νίκος και.", "el"))
	assert.Len(t, p.Sentences("Τι κάνεις; Είμαι καλά.", "el"), 2)
	assert.Len(t, p.Sentences("Přijel 3. května. Odjel.", "cs"), 2)
	assert.Len(t, p.Sentences("Přijel 3. Května. Odjel.", "en"), 3)
	assert.Empty(t, p.CheckDetail("Μια λέξη, όπως για παράδειγμα θάλασσα", "Δώσε ένα παράδειγμα", "cs"), "patterns of another language do not count")
	assert.NotEmpty(t, p.CheckDetail("Μια λέξη", "Δώσε ένα παράδειγμα", "el"))
	assert.NotEmpty(t, p.CheckDetail("Bohužel nevím.", "Kdo to byl?", "cs"))
	assert.Empty(t, p.CheckNumbers("Ήρθαν 2.", "Ήρθαν δύο.", "el"))
	assert.NotEmpty(t, p.CheckNumbers("Ήρθαν 2.", "Ήρθαν δύο.", "en"))
	// Scripts without blanks: each character is a word.
	list := "- 水星\n- 金星"
	assert.NotEmpty(t, p.CheckList(list, "行星是什么？", "zh"))
	assert.Empty(t, p.CheckList(list, "请为我列出所有行星。", "zh"))
	assert.NotEmpty(t, p.CheckList(list, "请为我列 出所有行星。", "en"))
	remarks, applies := p.CheckLanguage("Včera jsem byl v divadle, které není velké, ale hry jsou dobré, tak by se tam měl jít každý.", "en")
	require.True(t, applies)
	assert.Equal(t, "the text is in Czech, not in English", remarks[0].Message)
}

// A pack of a shipped language replaces it completely; the shipped packs are
// not modified.
func TestPackInstead(t *testing.T) {
	mine := Pack{Language: "en", Common: words20("yea verily thou art"), Abbreviations: []string{"esq"}}
	p := with(t, mine)
	assert.Equal(t, Languages(), p.Languages())
	assert.Len(t, p.Sentences("It was Dr. Lee. So.", "en"), 3)
	assert.Len(t, p.Sentences("It was Lee Esq. So.", "en-GB"), 1)
	assert.Len(t, Sentences("It was Dr. Lee. So.", "en"), 2)
	assert.Equal(t, "en", p.Name("en"), "a name is not taken from the shipped pack")
	assert.Equal(t, "English", ShippedPacks().Name("en"))
}

// The pack of a language serves its regions; nil means the shipped packs.
func TestPacksOfRegions(t *testing.T) {
	var none *Packs
	assert.Equal(t, Languages(), none.Languages())
	assert.True(t, none.Has("de-AT"))
	assert.True(t, none.Has("PL_pl"))
	assert.False(t, none.Has("it"))
	assert.Equal(t, "German", none.Name("de-CH"))
	assert.Len(t, none.Sentences("Am 3. Mai kam er. Sie ging.", "de-AT"), 2)
	assert.NotEmpty(t, none.CheckEnding("Er kam nicht, weil.", "de-AT"))
	same, err := none.With()
	require.NoError(t, err)
	assert.Same(t, ShippedPacks(), same)
}

// A pack with a problem is rejected.
func TestPackRefused(t *testing.T) {
	_, err := ShippedPacks().With(Pack{Language: "xx"})
	assert.ErrorContains(t, err, "language pack xx: :common has 0 words")
	many := make([]Pack, maxPacks)
	for i := range many {
		many[i] = Pack{Language: "x" + string(rune('a'+i/26)) + string(rune('a'+i%26)), Common: words20("a")}
	}
	_, err = ShippedPacks().With(many...)
	assert.ErrorContains(t, err, "over the limit")
}

// TXT-006, TXT-008: the most expensive patterns of a pack match a text made for
// them in a fraction of a second: there is no exponential case.
func TestPatternsDoNotExplode(t *testing.T) {
	step := strings.TrimSuffix(strings.Repeat("aa*_aa*_aa*_aa*_aa*_aa*_aa*_ab|", maxPackAlternatives/4), "|")
	hostile := Pack{Language: "xx", Common: words20("a"), List: []string{step + " " + step, step + " " + step}}
	require.Empty(t, hostile.Check())
	p := with(t, hostile)
	began := time.Now()
	p.CheckList("- a\n- b", strings.Repeat("aaa ", 1<<18), "xx")
	assert.Less(t, time.Since(began), 20*time.Second, "on the slowest machine; 0.1 s on a quiet one")
}
