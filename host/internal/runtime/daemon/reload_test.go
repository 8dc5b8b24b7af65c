package daemon

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HCL-039: an export that cannot be set is in the answer of the reload, and the next one
// sets it.
func TestExportIsSetByTheNextReload(t *testing.T) {
	env := map[string]string{"TOKEN": "t"}
	cfg, ds := configtest.LoadWith(t, `telemetry {
  otel {
    enabled  = true
    endpoint = "http://127.0.0.1:1"
    headers  = { authorization = secret("env:TOKEN") }
  }
}
`, nil, env)
	require.Empty(t, configtest.Types(ds))
	d := &Daemon{log: hclog.NewNullLogger()}
	d.count()
	t.Cleanup(d.figures.export.Close)
	answer := edn.MustRead("{:changed? true}")
	delete(env, "TOKEN")
	for range 2 {
		failed := d.export(cfg, answer).Key("warnings")
		require.Equal(t, 1, failed.Len())
		assert.Contains(t, failed.String(), "TOKEN")
	}
	env["TOKEN"] = "t"
	assert.Equal(t, answer.String(), d.export(cfg, answer).String())
}
