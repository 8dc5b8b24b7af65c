package contract

import "github.com/fermenthq/ferment/sdk/schema"

// Nearest returns the name among known that is spelled most like name, or "" if
// none is near: an edit distance of at most 2, or of a third of the name. Of
// equally near ones the first by name is taken.
func Nearest(name string, known []string) string { return schema.Nearest(name, known) }
