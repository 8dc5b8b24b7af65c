package text

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

//go:embed packs/*.edn
var packFiles embed.FS

// pack is what is particular to one language.
type pack struct {
	abbreviations map[string]bool   // lower case, without the last point
	common        map[string]bool   // short function words by which the language is known
	stop          map[string]bool   // words that carry no topic, the common ones with them
	letters       string            // those that hardly occur in the other languages
	dangling      map[string]bool   // words that no text ends with
	numbers       map[string]string // words from zero on, with their digits
	wishes        []Rule            // patterns; the intent says for what
}

// wishKeys are the patterns of a pack: what requests want, and what answers do.
var wishKeys = [...]string{"list", "example", "detail", "brevity", "shows", "uncertainty"}

// packs are read on first use.
var packs = sync.OnceValue(func() map[string]pack {
	out := map[string]pack{}
	for _, code := range Languages() {
		raw, err := packFiles.ReadFile("packs/" + code + ".edn")
		if err == nil {
			out[code], err = readPack(string(raw))
		}
		if err != nil {
			panic(err) // the files are part of the program; a test reads them
		}
	}
	return out
})

func readPack(raw string) (pack, error) {
	fields, err := readData(raw)
	if err != nil {
		return pack{}, err
	}
	one := func(key string) string { return strings.Join(fields[key], " ") }
	p := pack{
		abbreviations: set(one("abbreviations")),
		common:        set(one("common")),
		stop:          set(one("common") + " " + one("stop")),
		letters:       one("letters"),
		dangling:      set(one("dangling")),
		numbers:       counted(strings.Fields(one("numbers"))),
	}
	for _, key := range wishKeys {
		for _, pattern := range fields[key] {
			p.wishes = append(p.wishes, Rule{Intent: key, Language: one("language"), Weight: 1, Pattern: pattern})
		}
	}
	if _, err := NewRules(p.wishes); err != nil {
		return pack{}, fmt.Errorf("language pack %s: %w", one("language"), err)
	}
	return p, nil
}

// counted numbers the words for zero, one and so on.
func counted(words []string) map[string]string {
	out := make(map[string]string, len(words))
	for i, w := range words {
		out[w] = strconv.Itoa(i)
	}
	return out
}

// readData reads the part of EDN that packs are written in: one map from
// keywords to strings and vectors of strings, with comments.
func readData(raw string) (map[string][]string, error) {
	out := map[string][]string{}
	key, inVector := "", false
	for at := 0; at < len(raw); {
		c := raw[at]
		switch {
		case c == ';':
			at = lineEnd(raw, at)
		case c == ':':
			end := at + 1
			for end < len(raw) && strings.IndexByte(" \t\r\n\"[]{};", raw[end]) < 0 {
				end++
			}
			key, at = raw[at+1:end], end
		case c == '"':
			end := strings.IndexByte(raw[at+1:], '"')
			if end < 0 || key == "" {
				return nil, fmt.Errorf("language pack: text at byte %d has no end or no key", at)
			}
			out[key] = append(out[key], raw[at+1:at+1+end])
			if at += end + 2; !inVector {
				key = ""
			}
		case c == '[' || c == ']':
			if inVector = c == '['; !inVector {
				key = ""
			}
			at++
		case c == '{' || c == '}' || c == ',' || c == '\n' || blank(c):
			at++
		default:
			return nil, fmt.Errorf("language pack: unexpected %q at byte %d", c, at)
		}
	}
	return out, nil
}

// Languages are the codes of the languages with a pack, in order.
func Languages() []string { return []string{"en", "pl", "de", "fr", "es"} }

// Stopword tells whether a word, in lower case, carries no topic in the
// language; with an unknown language, in any.
func Stopword(word, language string) bool {
	return inPack(language, func(p pack) bool { return p.stop[word] })
}

// inPack asks the pack of a language, or all if it has none.
func inPack(language string, ask func(pack) bool) bool {
	if p, ok := packs()[language]; ok {
		return ask(p)
	}
	for _, p := range packs() {
		if ask(p) {
			return true
		}
	}
	return false
}

// wishes are the patterns of all packs.
var wishes = sync.OnceValue(func() *Rules {
	var all []Rule
	for _, code := range Languages() {
		all = append(all, packs()[code].wishes...)
	}
	rules, err := NewRules(all)
	if err != nil {
		panic(err) // as in packs
	}
	return rules
})

// matched gives the keys of the patterns that a text matches in a language, or
// in any if that has no pack.
func matched(text, language string) map[string]bool {
	_, known := packs()[language]
	out := map[string]bool{}
	r := wishes()
	for _, hit := range r.find(fold(ends(text))) {
		if rule := &r.rules[hit.rule]; !known || rule.Language == language {
			out[rule.Rule.Intent] = true
		}
	}
	return out
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}
