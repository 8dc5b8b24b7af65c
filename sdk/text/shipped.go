package text

import (
	"fmt"
	"strings"
)

// The functions of this file are the methods of the shipped packs.

// Languages returns the codes of the shipped languages in order.
func Languages() []string { return ShippedPacks().Languages() }

// Sentences is Packs.Sentences with the shipped packs.
func Sentences(text, language string) []Span { return ShippedPacks().Sentences(text, language) }

// readPack reads a shipped pack. packfile reads an operator's files and reports
// their problems; a test ensures that the shipped ones are valid.
func readPack(raw string) (Pack, error) {
	fields, err := readData(raw)
	if err != nil {
		return Pack{}, err
	}
	one := func(key string) string { return strings.Join(fields[key], " ") }
	words := func(key string) []string { return strings.Fields(one(key)) }
	return Pack{
		Language: one("language"), Name: one("name"),
		Terminators: one("terminators"), Closers: one("closers"), OrdinalPoint: one("ordinal-point") == "true",
		Abbreviations: words("abbreviations"), Common: words("common"), Stop: words("stop"), Letters: one("letters"),
		Dangling: words("dangling"), Numbers: words("numbers"),
		List: fields["list"], Example: fields["example"], Detail: fields["detail"], Brevity: fields["brevity"],
		Shows: fields["shows"], Uncertainty: fields["uncertainty"],
	}, nil
}

// readData reads the part of EDN that the shipped packs use: one map from
// keywords to strings, vectors of strings and booleans, with comments.
func readData(raw string) (map[string][]string, error) {
	out := map[string][]string{}
	key, inVector := "", false
	put := func(v string) {
		out[key] = append(out[key], v)
		if !inVector {
			key = ""
		}
	}
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
			put(raw[at+1 : at+1+end])
			at += end + 2
		case strings.HasPrefix(raw[at:], "true"):
			put("true")
			at += len("true")
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
