package spans

import (
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// maxContent bounds the text of a request, an answer or an explanation in bytes.
const maxContent = 16 << 10

// content adds a value to a span as far as r.Content permits: its hash under the key
// hash, its text under the key full, or nothing.
func (r *Run) content(s *Span, hash, full string, ref journal.Ref) {
	if !ref.Set() {
		return
	}
	switch r.Content {
	case journal.ContentHash:
		s.text(hash, ref.Hash())
	case journal.ContentFull:
		s.text(full, cut(ref))
	}
}

// cut returns the text of a value without secrets, shortened to maxContent.
func cut(ref journal.Ref) string {
	text := journal.HideNamed(ref.Value()).String()
	if len(text) <= maxContent {
		return text
	}
	end := maxContent
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
