package workspace

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-174: an export on standard input that is larger than what is read of it is
// refused with what to do, and not cut.
func TestLargeStandardInput(t *testing.T) {
	for n, ok := range map[int]bool{edn.Body.Bytes: true, edn.Body.Bytes + 1: false} {
		in := &invocation{Shell: &Shell{ReadFile: func(string) ([]byte, error) { return bytes.Repeat([]byte("x"), n), nil }}}
		_, err := in.readFile("-")
		if ok {
			require.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, "name of a file")
		_, err = in.readFile("export.frm")
		require.NoError(t, err, "of a file, the name is sent")
	}
}

// WS-164: an event of a watch says what failed, and what was made.
func TestWatchEventWithError(t *testing.T) {
	p := &page{}
	watchText(p, edn.MustRead(`{:event :regenerated :commit 7 :error {:type :scan/unreadable :message "p cannot be read"}}`))
	watchText(p, edn.MustRead(`{:event :regenerated :commit 8 :report {:items [{:path "a" :frame/type "digest" :reason :node-changed}]}}`))
	assert.Contains(t, p.String(), "failed: p cannot be read (:scan/unreadable)")
	assert.Contains(t, p.String(), "node-changed")
}

// WS-182: a label that is longer than its column does not run into its text.
func TestLongLabel(t *testing.T) {
	p := &page{}
	p.field("  conditions", "condition inexact")
	assert.Equal(t, "  conditions condition inexact\n", p.String())
}
