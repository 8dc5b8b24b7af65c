package httpapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// AUTH-032: a page of a permitted origin may send each header that routes document, and read the
// cursor of the audit trail.
func TestHeadersOfPages(t *testing.T) {
	may := strings.Split(pageHeaders, ", ")
	n := 0
	for _, r := range routes() {
		for _, h := range r.Headers {
			n++
			assert.True(t, slices.ContainsFunc(may, func(name string) bool { return strings.EqualFold(name, h.Name) }), h.Name)
		}
	}
	assert.NotZero(t, n)
	assert.Contains(t, may, AnnounceHeader)
	assert.Contains(t, strings.Split(pageAnswers, ", "), cursorHeader)
}
