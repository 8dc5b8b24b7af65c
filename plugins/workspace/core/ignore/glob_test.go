package ignore

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A pattern is compared with a path and the directories above it, like a line of
// an ignore file.
func TestGlob(t *testing.T) {
	for glob, want := range map[string]map[string]bool{
		"*.go":     {"a.go": true, "d/a.go": true, "d.go/x": true, "a.god": false, "": false},
		"d":        {"d": true, "d/a": true, "x/d/a": true, "da": false},
		"d/*.go":   {"d/a.go": true, "d/e/a.go": false, "x/d/a.go": false},
		"/d":       {"d": true, "d/a": true, "x/d": false},
		"d/":       {"d/a": true, "d": false},
		"d/**/a":   {"d/a": true, "d/x/y/a": true, "a": false},
		"[ab]?":    {"ax": true, "cx": false},
		"":         {"": false, "a": false},
		"!a":       {"a": false},
		"a\nb":     {"a": false, "b": false},
		"#comment": {"#comment": false},
	} {
		g := ParseGlob(glob)
		for path, matches := range want {
			assert.Equal(t, matches, g.Match(path), "%q %q", glob, path)
		}
	}
	assert.False(t, ParseGlob("a\nb").Valid())
	assert.True(t, ParseGlob("a").Valid())
}
