package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/sdk/contract"
)

// JRN-053: with recorded descriptions a configuration is read where its programs, secrets
// and files are not.
func TestRecordedDescriptions(t *testing.T) {
	dir := configtest.Lay(t, map[string]string{"ferment.hcl": `
ferment {
  profile = "prod"
  root    = "absent"
}

store {
  driver = "postgres"
  dsn    = secret("env:NO_DSN")
}

telemetry {
  otel {
    endpoint = "https://otel.example.org"
    headers  = { key = secret("file:absent.key") }
  }
}

http {
  listen = ["0.0.0.0:7180"]

  tls {
    cert_file = "absent.pem"
    key_file  = "absent.key"
  }
}

auth {
  required = true
}

effects {
  secret "key" {
    value = secret("env:NO_KEY")
    hosts = ["example.org"]
  }

  db "main" {
    driver = "postgres"
    dsn    = secret("env:NO_DSN")
  }
}

plugin "chess" {
  command = ["bin/absent"]
  enabled = env("NO_KEY", "") != ""

  config {
    api_key = secret("env:NO_KEY")
  }
}

plugin "off" {
  command = ["bin/absent"]
  enabled = false
}

plugin "stockfish" {
  command = ["bin/absent"]
}

capability "chess/embedded" {
  plugin   = "chess"
  provides = "chess/engine"
}
`})
	_, ds := configtest.LoadDir(t, dir, config.Options{})
	assert.NotEmpty(t, configtest.Types(ds), "the machine of the daemon has to have them")

	c, ds := configtest.LoadDir(t, dir, config.Options{
		Recorded: map[string]contract.Description{"chess": configtest.Chess(), "off": configtest.Chess()},
	})
	require.NotNil(t, c.Generation, "%v", ds)
	for name, want := range map[string][2]bool{ // enabled, described
		"chess":     {true, true},   // its variable was set where the run was recorded
		"off":       {false, false}, // the configuration says so
		"stockfish": {true, false},
	} {
		p := c.Plugin(name)
		assert.Equal(t, want, [2]bool{p.Enabled, p.Described}, name)
	}
}
