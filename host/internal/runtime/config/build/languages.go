package build

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
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
	// Instead is set if the pack replaces a shipped language.
	Instead bool
}

// languagePacks returns the packs of the configuration (TXT-006).
func (b *builder) languagePacks() []LanguagePack {
	v := b.Root.Block("prompts").Attrs["language_packs"]
	var out []LanguagePack
	var packs []rules.Pack
	seen := map[string]decode.Value{} // by language
	path := []string{"prompts", "language_packs"}
	for _, item := range v.Items {
		if item.Content == nil {
			b.unread(item, path)
			continue
		}
		p, from, ok := b.languagePack(item, path)
		if !ok {
			continue
		}
		name, _ := item.EDN.AsString()
		if first, twice := seen[p.Language]; twice {
			b.Report.Add(diag.Diagnostic{
				Type:    "config/duplicate",
				Message: fmt.Sprintf("two language packs are of the language %s", diag.Quote(p.Language)),
				Range:   from,
				Path:    path,
				Found:   edn.Text(p.Language),
				Related: []diag.Related{{Range: first.At, Message: "names the other one"},
					{Range: item.At, Message: "names this one"}},
				Hint: "keep one of the two",
			})
			continue
		}
		seen[p.Language] = item
		pack := LanguagePack{
			Language: p.Language,
			Name:     p.Name,
			File:     disk.PrintedName(b.Dir, name),
			Hash:     edn.Hash(edn.Text(*item.Content)),
			Instead:  slices.Contains(rules.Languages(), p.Language),
		}
		if pack.Instead {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/overridden",
				Severity: diag.SeverityWarning,
				Message: fmt.Sprintf("the language pack of %s is used instead of the shipped one, as a whole",
					diag.Quote(p.Language)),
				Range:   from,
				Path:    path,
				Related: []diag.Related{{Range: item.At, Message: "names it"}},
				Hint: "check that the file is complete: what it lacks, such as abbreviations, is not taken from the shipped " +
					"pack",
			})
		}
		out, packs = append(out, pack), append(packs, p)
	}
	languages, err := rules.ShippedPacks().With(packs...)
	if err != nil {
		b.Report.Add(diag.Diagnostic{Type: "config/limit", Message: err.Error(), Range: v.At, Path: path})
		return out
	}
	b.languages = languages
	return out
}

// unread reports a pack that cannot be read.
func (b *builder) unread(item decode.Value, path []string) {
	name, _ := item.EDN.AsString()
	d := diag.Diagnostic{
		Type:     "config/include",
		Range:    item.At,
		Path:     path,
		Expected: edn.Text("a file with a language pack"),
	}
	_, err := b.Decoder.Inputs.File(b.Dir, disk.PrintedName(b.Dir, name))
	var wrong *expression.FunctionError
	switch {
	case errors.As(err, &wrong):
		d.Type, d.Message, d.Hint = wrong.Type, wrong.Message, wrong.Hint
	case err != nil:
		d.Message = err.Error()
	}
	b.Report.Add(d)
}

// languagePack returns a pack with the place of its language; false if it is invalid.
func (b *builder) languagePack(item decode.Value, path []string) (rules.Pack, *diag.Range, bool) {
	name, _ := item.EDN.AsString()
	printed := disk.PrintedName(b.Dir, name)
	s := diag.NewSource(printed, name, len(b.Set.Sources), []byte(*item.Content))
	if known := b.Set.Sources[printed]; known != nil {
		s.Order = known.Order // the file is listed twice
	}
	b.Set.Sources[printed] = s
	p, problems := packfile.Parse(s.Text)
	for _, x := range problems {
		d := diag.Diagnostic{
			Type:     "config/type",
			Message:  x.Message,
			Range:    s.Span(x.Start, x.End),
			Path:     path,
			Expected: diag.TextOrNil(x.Expected),
			Found:    diag.TextOrNil(x.Found),
			Hint:     x.Hint,
			Related:  []diag.Related{{Range: item.At, Message: "names the file"}},
		}
		if x.Among != nil {
			d.Type, d.Expected, d.Nearest = "config/unknown-name", diag.Words(x.Among), diag.Nearest(x.Found, x.Among)
		}
		b.Report.Add(d)
	}
	if len(problems) > 0 {
		return rules.Pack{}, nil, false
	}
	return p.Pack, s.Span(p.Start, p.End), true
}
