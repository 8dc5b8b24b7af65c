package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// TEL-005: nothing is exported unless the configuration says where to.
func TestExportIsOff(t *testing.T) {
	for _, text := range []string{"", "telemetry {\n  otel {\n    endpoint = \"nowhere\"\n  }\n}\n"} {
		c, ds := configtest.Load(t, text)
		require.Empty(t, configtest.Types(ds))
		assert.Nil(t, c.Telemetry.OTel)
		assert.Equal(t, "hash", c.Telemetry.Content)
	}
}

// TEL-005, TEL-007: the block of the export. Its headers are secrets, of which nothing is
// shown.
func TestExport(t *testing.T) {
	c, ds := configtest.LoadWith(t, `telemetry {
  content = "full"

  otel {
    enabled  = true
    endpoint = "https://collector.example:4318/otlp"
    protocol = "http"
    sample   = 0.25
    headers  = { authorization = secret("env:COLLECTOR") }
    queue    = 100
  }
}
`, nil, map[string]string{"COLLECTOR": "Bearer hidden"})
	require.Empty(t, configtest.Types(ds))
	o := c.Telemetry.OTel
	assert.Equal(t, []any{"full", "https://collector.example:4318/otlp", "http", 0.25, 100},
		[]any{c.Telemetry.Content, o.Endpoint, o.Protocol, o.Sample, o.Queue})
	headers, err := c.OTelHeaders()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"authorization": "Bearer hidden"}, headers)
	shown, err := view.Show(c, view.ShowOptions{Only: "telemetry"})
	require.NoError(t, err)
	assert.Contains(t, shown, "env:COLLECTOR")
	assert.NotContains(t, shown, "hidden")
}

func TestMistakesOfTheExport(t *testing.T) {
	for line, want := range map[string]string{
		``:                                   "config/type", // no endpoint
		`endpoint = "collector:4317"`:        "config/type",
		`endpoint = "http://"`:               "config/type",
		`endpoint = "http://ann:key@host"`:   "config/type",
		`endpoint = "http://host/?key=mine"`: "config/type",
		"endpoint = \"http://host\"\nheaders = { key = \"plain\" }":              "config/type",
		"endpoint = \"http://host\"\nheaders = { key = secret(\"env:NO_KEY\") }": "config/secret-missing",
	} {
		_, ds := configtest.Load(t, "telemetry {\n  otel {\n    enabled = true\n"+line+"\n  }\n}\n")
		assert.Equal(t, []string{want}, configtest.Types(ds), line)
	}
}
