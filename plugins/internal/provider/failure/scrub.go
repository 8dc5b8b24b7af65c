package failure

import (
	"bytes"
	"strings"

	words "github.com/fermenthq/ferment/sdk/text"
)

// run is the length, in bytes, of the shortest part of a secret that is removed. A shorter secret
// is removed only as a whole.
const run = 8

// mask replaces removed text.
const mask = "[secret]"

// Scrubber removes secrets from texts.
type Scrubber struct {
	forms   *words.Secrets // whole secrets, also escaped or encoded
	whole   []string       // secrets shorter than a run
	windows map[string]bool
}

// NewScrubber makes a scrubber of the secrets. Empty ones are ignored.
func NewScrubber(secrets ...string) *Scrubber {
	s := &Scrubber{windows: map[string]bool{}}
	masked := map[string]string{}
	for _, secret := range secrets {
		if len(secret) >= run {
			masked[secret] = mask
		}
		if secret != "" && len(secret) < run {
			s.whole = append(s.whole, secret)
		}
		for i := 0; i+run <= len(secret); i++ {
			s.windows[secret[i:i+run]] = true
		}
	}
	s.forms = words.NewSecrets(masked)
	return s
}

// Clean returns the text without the secrets in any form that [words.Secrets] replaces, and without
// any run of 8 bytes of one. A nil Scrubber changes nothing.
func (s *Scrubber) Clean(text string) string {
	if s == nil || len(text) == 0 {
		return text
	}
	// Whole secrets are removed first: for an escaped one, removing runs would
	// leave the bytes between its escapes.
	text = s.forms.Replace(text)
	for _, w := range s.whole {
		text = strings.ReplaceAll(text, w, mask)
	}
	if len(s.windows) == 0 {
		return text
	}
	var out bytes.Buffer
	kept := 0
	for i := 0; i+run <= len(text); i++ {
		if !s.windows[text[i:i+run]] {
			continue
		}
		end := i + run
		for end < len(text) && s.windows[text[end-run+1:end+1]] {
			end++
		}
		out.WriteString(text[kept:i])
		out.WriteString(mask)
		kept, i = end, end-1
	}
	if kept == 0 {
		return text
	}
	out.WriteString(text[kept:])
	return strings.ToValidUTF8(out.String(), "")
}
