package text

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

//go:embed packs/*.edn
var packFiles embed.FS

// Packs is an ordered set of language packs. It is immutable and safe for
// concurrent use. A nil *Packs means ShippedPacks.
type Packs struct {
	order  []string
	by     map[string]*pack
	wishes *Rules
	signs  *signs
}

// pack is a compiled Pack.
type pack struct {
	Pack
	abbreviations map[string]bool
	stop          map[string]bool // includes the common ones
	dangling      map[string]bool
	numbers       map[string]string // word to digits
	scripts       []*unicode.RangeTable
}

// shipped is the number of shipped packs.
const shipped = 5

// ShippedPacks returns the packs of English, Polish, German, French and
// Spanish.
var ShippedPacks = sync.OnceValue(func() *Packs {
	var all []Pack
	for _, code := range [shipped]string{"en", "pl", "de", "fr", "es"} {
		raw, err := packFiles.ReadFile("packs/" + code + ".edn")
		if err != nil {
			panic(err) // the files are embedded; a test reads them
		}
		p, err := readPack(string(raw))
		if err != nil {
			panic(err) // likewise
		}
		all = append(all, p)
	}
	out, err := newPacks(all)
	if err != nil {
		panic(err) // likewise
	}
	return out
})

// With returns the packs with others added. A pack of an existing language
// replaces it completely, at its position. The error names the first pack with
// a problem; Pack.Check returns all problems.
func (p *Packs) With(more ...Pack) (*Packs, error) {
	p = p.orShipped()
	if len(more) == 0 {
		return p, nil
	}
	all := make([]Pack, len(p.order))
	for i, code := range p.order {
		all[i] = p.by[code].Pack
	}
	for _, one := range more {
		if at := slices.IndexFunc(all, func(q Pack) bool { return q.Language == one.Language }); at >= 0 {
			all[at] = one
		} else {
			all = append(all, one)
		}
	}
	return newPacks(all)
}

func (p *Packs) orShipped() *Packs {
	if p == nil {
		return ShippedPacks()
	}
	return p
}

func newPacks(all []Pack) (*Packs, error) {
	if len(all) > maxPacks {
		return nil, fmt.Errorf("%d language packs, over the limit of %d", len(all), maxPacks)
	}
	out := &Packs{by: make(map[string]*pack, len(all))}
	var wishes []rule
	for _, one := range all {
		if problems := one.Check(); len(problems) > 0 {
			return nil, fmt.Errorf("language pack %s: %w", one.Language, problems[0])
		}
		out.order = append(out.order, one.Language)
		out.by[one.Language] = one.ready()
		for _, w := range one.wishes() {
			for _, pattern := range w.patterns {
				wishes = append(wishes, rule{Intent: w.key, Language: one.Language, Weight: 1, Pattern: pattern})
			}
		}
	}
	rules, err := newRules(wishes)
	if err != nil {
		return nil, err
	}
	out.wishes = rules
	out.signs = out.languageSigns()
	return out, nil
}

func (p Pack) ready() *pack {
	out := &pack{Pack: p, abbreviations: set(p.Abbreviations), stop: set(p.Stop), dangling: set(p.Dangling),
		numbers: map[string]string{}}
	for _, w := range p.Common {
		out.stop[w] = true
	}
	for i, w := range p.Numbers {
		out.numbers[w] = strconv.Itoa(i)
	}
	out.scripts = scriptsOf(p.Common)
	return out
}

// scriptsOf returns the scripts of the words.
func scriptsOf(words []string) []*unicode.RangeTable {
	var out []*unicode.RangeTable
	for _, w := range words {
		for _, r := range w {
			if !unicode.IsLetter(r) || unicode.In(r, out...) {
				continue
			}
			for name, table := range unicode.Scripts {
				if name != "Common" && name != "Inherited" && unicode.Is(table, r) {
					out = append(out, table)
				}
			}
		}
	}
	return out
}

// Languages returns the codes of the languages in order.
func (p *Packs) Languages() []string { return slices.Clone(p.orShipped().order) }

// Pack returns the data of a language.
func (p *Packs) Pack(language string) (Pack, bool) {
	if found := p.of(language); found != nil {
		return found.Pack, true
	}
	return Pack{}, false
}

// Has reports whether a language has a pack. The code may name a region: the
// pack of de also serves de-AT.
func (p *Packs) Has(language string) bool { return p.of(language) != nil }

// of returns the pack of a language, nil if it has none.
func (p *Packs) of(language string) *pack {
	by := p.orShipped().by
	if found := by[language]; found != nil {
		return found
	}
	return by[primary(language)]
}

// primary returns the code of a language without its region.
func primary(language string) string {
	if at := strings.IndexAny(language, "-_"); at >= 0 {
		language = language[:at]
	}
	return strings.ToLower(language)
}

// Name returns the English name of a language with a pack, otherwise the code.
func (p *Packs) Name(code string) string {
	if found := p.of(code); found != nil && found.Name != "" {
		return found.Name
	}
	return code
}

// Stopword reports whether a word, in lower case, carries no topic in the
// language, or in any language if the given one has no pack.
func (p *Packs) Stopword(word, language string) bool {
	return p.any(language, func(one *pack) bool { return one.stop[word] })
}

// any calls ask for the pack of a language, or for all packs if it has none.
func (p *Packs) any(language string, ask func(*pack) bool) bool {
	if found := p.of(language); found != nil {
		return ask(found)
	}
	for _, one := range p.orShipped().by {
		if ask(one) {
			return true
		}
	}
	return false
}

// matched returns the keys of the patterns that a text matches in a language,
// or in any language if the given one has no pack.
func (p *Packs) matched(text, language string) map[string]bool {
	known := p.of(language)
	out := map[string]bool{}
	r := p.orShipped().wishes
	text = ends(text)
	folded, words := fold(text)
	for _, hit := range r.find(said{text, folded, words}, "") {
		if rule := &r.rules[hit.rule]; known == nil || rule.Language == known.Language {
			out[rule.rule.Intent] = true
		}
	}
	return out
}

func set(words []string) map[string]bool {
	out := make(map[string]bool, len(words))
	for _, w := range words {
		out[w] = true
	}
	return out
}
