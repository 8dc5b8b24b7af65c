package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Baseline lists the checks that are known to fail. An entry whose check does
// not fail is stale and fails the run, so that the list stays correct.
type Baseline struct {
	// IDs are ids of checks.
	IDs []string
}

// ParseBaseline parses one check id per line; # starts a comment. The error
// names the line.
func ParseBaseline(text string) (*Baseline, error) {
	b := &Baseline{IDs: []string{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		id := strings.TrimSpace(line)
		switch {
		case id == "":
		case strings.ContainsAny(id, " \t"):
			return nil, fmt.Errorf("line %d: %q is not the id of a check: expected one on each line, such as core/cancel/stops", n, id)
		case slices.Contains(b.IDs, id):
			return nil, fmt.Errorf("line %d: %s is listed twice", n, id)
		default:
			b.IDs = append(b.IDs, id)
		}
	}
	return b, nil
}

// Knows reports whether a check is known to fail. A nil Baseline is empty.
func (b *Baseline) Knows(id string) bool { return b != nil && slices.Contains(b.IDs, id) }
