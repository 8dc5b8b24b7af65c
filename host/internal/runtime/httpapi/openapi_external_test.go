//go:build external

package httpapi_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// HTTP-001: an independent validator accepts the document as OpenAPI 3.1, and
// rejects a broken one.
func TestOutsideValidator(t *testing.T) {
	w := newWorld(t)
	a := w.call("GET /openapi.json", "")
	require.Equal(t, 200, a.status)
	out, err := validate(a.body)
	require.NoError(t, err, "%s", out)
	assert.Contains(t, out, "OK")
	for what, change := range map[string][2]string{
		"version":   {`"openapi":"3.1.0"`, `"openapi":"3.1"`},
		"responses": {`"responses":{`, `"responses":{"600":{},`},
		"reference": {`#/components/schemas/answer.health`, `#/components/schemas/nobody`},
	} {
		wrong := bytes.Replace(a.body, []byte(change[0]), []byte(change[1]), 1)
		require.NotEqual(t, string(a.body), string(wrong), what)
		out, err := validate(wrong)
		assert.Error(t, err, "%s: %s", what, out)
	}
}

func validate(document []byte) (string, error) {
	cmd := exec.Command("node", filepath.Join("testdata", "openapi", "validate.mjs"))
	cmd.Stdin = bytes.NewReader(document)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
