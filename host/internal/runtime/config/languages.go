package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	rules "github.com/fermenthq/ferment/sdk/text"
	"github.com/fermenthq/ferment/sdk/text/packfile"
)

// LanguagePack is a language pack of the configuration.
type LanguagePack struct {
	Language string // code
	Name     string // in English
	File     string // printed name
	Hash     string // of the content
	// Instead is true if the pack replaces a shipped language.
	Instead bool
}

// languagePacks reads the packs of the configuration (TXT-006).
func (b *builder) languagePacks() []LanguagePack {
	v := b.root.block("prompts").attrs["language_packs"]
	var out []LanguagePack
	var packs []rules.Pack
	seen := map[string]value{} // by language
	path := []string{"prompts", "language_packs"}
	for _, item := range v.items {
		if item.content == nil {
			b.unread(item, path)
			continue
		}
		p, from, ok := b.languagePack(item, path)
		if !ok {
			continue
		}
		name, _ := item.v.AsString()
		if first, twice := seen[p.Language]; twice {
			b.report.add(Diagnostic{
				Type:    "config/duplicate",
				Message: fmt.Sprintf("two language packs are of the language %s", quote(p.Language)),
				Range:   from,
				Path:    path,
				Found:   edn.Text(p.Language),
				Related: []Related{{Range: first.rng, Message: "names the other one"},
					{Range: item.rng, Message: "names this one"}},
				Hint: "keep one of the two",
			})
			continue
		}
		seen[p.Language] = item
		pack := LanguagePack{
			Language: p.Language,
			Name:     p.Name,
			File:     printedName(b.dir, name),
			Hash:     edn.Hash(edn.Text(*item.content)),
			Instead:  slices.Contains(rules.Languages(), p.Language),
		}
		if pack.Instead {
			b.report.add(Diagnostic{
				Type:     "config/overridden",
				Severity: SeverityWarning,
				Message: fmt.Sprintf("the language pack of %s is used instead of the shipped one, as a whole",
					quote(p.Language)),
				Range:   from,
				Path:    path,
				Related: []Related{{Range: item.rng, Message: "names it"}},
				Hint:    "what this file lacks, such as abbreviations, is not taken from the shipped pack",
			})
		}
		out, packs = append(out, pack), append(packs, p)
	}
	languages, err := rules.ShippedPacks().With(packs...)
	if err != nil {
		b.report.add(Diagnostic{Type: "config/limit", Message: err.Error(), Range: v.rng, Path: path})
		return out
	}
	b.languages = languages
	return out
}

// unread reports a pack that cannot be read.
func (b *builder) unread(item value, path []string) {
	name, _ := item.v.AsString()
	d := Diagnostic{
		Type:     "config/include",
		Range:    item.rng,
		Path:     path,
		Expected: edn.Text("a file with a language pack"),
	}
	_, err := b.decoder.inputs.file(b.dir, printedName(b.dir, name))
	var wrong *functionError
	switch {
	case errors.As(err, &wrong):
		d.Type, d.Message, d.Hint = wrong.typ, wrong.message, wrong.hint
	case err != nil:
		d.Message = err.Error()
	}
	b.report.add(d)
}

// languagePack reads one pack and returns it with the place of its language.
func (b *builder) languagePack(item value, path []string) (rules.Pack, *Range, bool) {
	name, _ := item.v.AsString()
	printed := printedName(b.dir, name)
	s := newSource(printed, name, len(b.set.Sources), []byte(*item.content))
	if known := b.set.Sources[printed]; known != nil {
		s.order = known.order // the file is listed twice
	}
	b.set.Sources[printed] = s
	p, problems := packfile.Parse(s.text)
	for _, x := range problems {
		d := Diagnostic{
			Type:     "config/type",
			Message:  x.Message,
			Range:    s.span(x.Start, x.End),
			Path:     path,
			Expected: textOrNil(x.Expected),
			Found:    textOrNil(x.Found),
			Hint:     x.Hint,
			Related:  []Related{{Range: item.rng, Message: "names the file"}},
		}
		if x.Among != nil {
			d.Type, d.Expected, d.Nearest = "config/unknown-name", words(x.Among), nearest(x.Found, x.Among)
		}
		b.report.add(d)
	}
	if len(problems) > 0 {
		return rules.Pack{}, nil, false
	}
	return p.Pack, s.span(p.Start, p.End), true
}
