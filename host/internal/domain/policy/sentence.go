package policy

import (
	"fmt"
	"strings"
)

// Sentence describes in one line which candidates were rejected, and why.
func (b *Binding) Sentence(intent string) string {
	if len(b.Rejected) == 0 {
		return fmt.Sprintf("no capability serves :%s", intent)
	}
	const most = 4
	var parts []string
	for i, r := range b.Rejected {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(b.Rejected)-most))
			break
		}
		part := fmt.Sprintf(":%s is %s", r.Cap, r.Reason)
		if r.Why != nil && r.Why.Type == r.Reason {
			part += " (" + r.Why.Message + ")"
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("no capability can serve :%s: %s", intent, strings.Join(parts, ", "))
}
