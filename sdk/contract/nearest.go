package contract

import "github.com/fermenthq/ferment/sdk/schema"

// Nearest returns the known name with the spelling nearest to name, or "" if
// none is within an edit distance of 2 or of a third of the name. Ties are
// resolved by name.
func Nearest(name string, known []string) string { return schema.Nearest(name, known) }
