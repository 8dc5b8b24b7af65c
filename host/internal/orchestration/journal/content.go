package journal

import "github.com/fermenthq/ferment/sdk/edn"

// Content selects how much of requests and answers logs, traces and transcripts contain
// (TEL-001). It does not limit the records of a run.
type Content string

// The settings of content: nothing, the hashes of values, or the values.
const (
	ContentOff  Content = "off"
	ContentHash Content = "hash"
	ContentFull Content = "full"
)

// Transcript returns the transcript of a run with what c permits of the inputs and outputs
// of its attempts (EVAL-061).
func (c Content) Transcript(records []Record) edn.Value {
	whole := Transcript(records)
	if c == ContentFull {
		return whole
	}
	var entries []edn.Value
	for e := range whole.Elems() {
		if op, _ := e.Key("op").AsKeyword(); op != opQuality {
			e = c.permitted(e, "input")
			e = c.permitted(e, "out")
		}
		entries = append(entries, e)
	}
	return edn.Vector(entries...)
}

// permitted returns an entry with what c permits of the value of a key.
func (c Content) permitted(entry edn.Value, key string) edn.Value {
	v, ok := entry.Get(edn.K(key))
	switch {
	case !ok:
		return entry
	case c == ContentHash:
		return entry.AssocKey(key, edn.Text(edn.Hash(v)))
	}
	return entry.Dissoc(edn.K(key))
}
