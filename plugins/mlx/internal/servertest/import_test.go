package servertest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// No program of the repository links the scripted server.
func TestOnlyTestsImportThis(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/fermenthq/ferment/plugins/mlx").Output()
	require.NoError(t, err)
	assert.NotContains(t, strings.Fields(string(out)), "github.com/fermenthq/ferment/plugins/mlx/internal/servertest")
}
