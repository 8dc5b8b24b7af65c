package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
)

// OPS-004, OPS-006: systemd waits longer than the drain of the daemon may take.
func TestStopSeconds(t *testing.T) {
	for drain, want := range map[time.Duration]int{
		0: 45, 25 * time.Second: 45, 25100 * time.Millisecond: 46, 5 * time.Minute: 320, 10 * time.Minute: 620,
	} {
		cfg := &config.Config{}
		cfg.Host.DrainTimeout = drain
		assert.Equal(t, want, stopSeconds(cfg), "%s", drain)
	}
}

// OPS-006: systemd replaces specifiers in every path, and variables only in commands.
func TestUnitQuotes(t *testing.T) {
	cfg := &config.Config{}
	cfg.Host.DataDir = `/srv/u $x 5%"`
	text, err := unit("/opt/$a/ferment", "/etc/f.hcl", "", "", cfg)
	require.NoError(t, err)
	assert.Contains(t, text, "\nExecStart=/opt/$$a/ferment serve --config /etc/f.hcl\n")
	assert.Contains(t, text, `ReadWritePaths="/srv/u $x 5%%\""`+"\n")
}
