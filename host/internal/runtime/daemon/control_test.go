package daemon

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RUN-002: a refused act is a line of the audit log, without the text of its
// request.
func TestRefusedActIsAudited(t *testing.T) {
	var out bytes.Buffer
	d := &Daemon{log: hclog.New(&hclog.LoggerOptions{Name: "ferment", Output: &out, JSONFormat: true})}
	d.Rejected(httpapi.Rejection{
		Principal: "uid/7",
		Address:   "127.0.0.1:9",
		Trace:     edn.Text("t-1"),
		Err:       contract.Errorf("invalid-request", "there is no key :canary"),
	})
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	for key, want := range map[string]string{
		"@module": "ferment.audit", "@message": "act/rejected", "principal": "uid/7", "address": "127.0.0.1:9",
		"trace": "t-1", "error": "invalid-request",
	} {
		assert.Equal(t, want, line[key], key)
	}
	assert.NotContains(t, out.String(), "canary")
}
