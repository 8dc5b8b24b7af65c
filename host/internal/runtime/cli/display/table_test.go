package display_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
)

// A text of a user, such as the label of a token, cannot write to the terminal of an operator.
func TestTableEscapesControls(t *testing.T) {
	var out strings.Builder
	rows := [][]string{{"esc", "D\x1b]0;x\a\x1b[2J\nnext\u202e"}}
	require.NoError(t, display.Table(&out, []string{"role", "doc"}, rows))
	assert.Equal(t, "role  doc\nesc   D\\x1b]0;x\\x07\\x1b[2J\\x0anext\\u202e\n", out.String())
}
