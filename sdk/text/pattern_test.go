package text

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// findSlowly is find by comparing each word with each atom.
func (r *Rules) findSlowly(folded string) []hit {
	words := foldedWords(folded)
	s := search{r: r, said: said{folded, folded, words}, reached: make([][]place, len(r.rules))}
	for at, word := range words {
		for _, head := range []bool{false, true} {
			for n, a := range r.atoms {
				if a.head == head && a.matches(word.In(folded)) {
					s.advance(at, n)
				}
			}
		}
		s.settle()
	}
	return s.hits()
}

// foldedWords returns the words of a folded text.
func foldedWords(folded string) []Span {
	out := make([]Span, 0, len(folded)/5)
	start := -1
	end := func(at int) {
		if start >= 0 {
			out = append(out, Span{start, at})
			start = -1
		}
	}
	for i := 0; i < len(folded); i++ {
		b := folded[i]
		if b >= 0xE0 { // the first byte of such characters
			if r, size := utf8.DecodeRuneInString(folded[i:]); unbroken(r) {
				end(i)
				out = append(out, Span{i, i + size})
				i += size - 1
				continue
			}
		}
		if 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b >= utf8.RuneSelf {
			if start < 0 {
				start = i
			}
		} else {
			end(i)
		}
	}
	end(len(folded))
	return out
}

// TXT-007: find returns the same rules as findSlowly.
func TestRulesFindWhatComparingFinds(t *testing.T) {
	for name, r := range map[string]*Rules{"shipped": ShippedRules(), "wishes": ShippedPacks().wishes} {
		random := rand.New(rand.NewPCG(3, 4))
		pick := func(of ...string) string { return of[random.IntN(len(of))] }
		hits := 0
		for range 600 {
			var b strings.Builder
			rule := &r.rules[random.IntN(len(r.rules))]
			for range 3 + random.IntN(30) {
				letters := r.atoms[random.IntN(len(r.atoms))].letters
				if random.IntN(2) == 0 { // words of one rule close together make it match
					steps := strings.Fields(strings.TrimPrefix(rule.Pattern, "^"))
					for i, step := range steps {
						if lists := vocabulary[strings.Trim(step, "{}")]; lists != nil {
							steps[i] = strings.Trim(lists[""]+"|"+lists[rule.Language], "|")
						}
					}
					choices := strings.Split(steps[random.IntN(len(steps))], "|")
					letters = strings.NewReplacer("*", pick("", "", "s", "un"), "_", " ").Replace(choices[random.IntN(len(choices))])
				}
				switch random.IntN(8) {
				case 0:
					letters = pick("un", "x", "ó", "7") + letters
				case 1:
					letters += pick("s", "ing", "é", "語", "1")
				case 2:
					letters = letters[:len(letters)-1]
				}
				b.WriteString(letters + pick(" ", " ", " ", ", ", "-", "/", " a "))
			}
			folded, words := fold(b.String())
			require.Equal(t, foldedWords(folded), words)
			want := r.findSlowly(folded)
			require.Equal(t, want, r.find(said{folded, folded, words}, ""), "%s: %q", name, folded)
			hits += len(want)
		}
		require.Greater(t, hits, 600, name)
	}
}
