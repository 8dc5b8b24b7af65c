package config_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/sdk/contract"
)

// JRN-003, JRN-006, JRN-060, HCL-018: the defaults of the store by profile.
func TestStoreDefaults(t *testing.T) {
	for _, profile := range []string{language.ProfileProd, language.ProfileDev, language.ProfileAdmin, language.ProfileTestLive} {
		c, ds := configtest.Load(t, "ferment {\n  profile = \""+profile+"\"\n}\n")
		require.Empty(t, configtest.Types(ds), profile)
		assert.Equal(t, config.Store{
			File: filepath.Join(c.Host.DataDir, "ferment.db"), Sync: true, MinFree: 512 << 20, AutoMigrate: true,
			Age: 30 * 24 * time.Hour, FailedAge: 30 * 24 * time.Hour, Size: 10 << 30, KeyWindow: 24 * time.Hour,
		}, c.Store, profile)
	}
	c, ds := configtest.Load(t, "ferment {\n  profile = \"test\"\n}\n")
	require.Empty(t, configtest.Types(ds))
	assert.Empty(t, c.Store.File, "runs are kept in memory")
	assert.False(t, c.Store.Sync)
}

// SES-030, JRN-007: the driver postgres takes its connection string from a secret, of
// which nothing is shown.
func TestStoreOnPostgres(t *testing.T) {
	env := map[string]string{"FERMENT_DSN": "postgres://ann:hidden@db/x"}
	c, ds := configtest.LoadWith(t, `store {
  driver = "postgres"
  dsn    = secret("env:FERMENT_DSN")
  lease  = "1m"
}
`, nil, env)
	require.Empty(t, configtest.Types(ds))
	assert.True(t, c.Store.Lasts())
	assert.Empty(t, c.Store.File)
	assert.Equal(t, time.Minute, c.Store.Lease)
	dsn, err := c.StoreDSN()
	require.NoError(t, err)
	assert.Equal(t, "postgres://ann:hidden@db/x", dsn)
	shown, err := view.Show(c, view.ShowOptions{Only: "store"})
	require.NoError(t, err)
	assert.Contains(t, shown, "env:FERMENT_DSN")
	assert.NotContains(t, shown, "hidden")

	delete(env, "FERMENT_DSN")
	_, err = c.StoreDSN()
	require.ErrorIs(t, err, contract.OfType("config/secret-missing"), "a command without the variable")
	assert.Contains(t, err.Error(), "FERMENT_DSN")
}

func TestStoreSettings(t *testing.T) {
	c, ds := configtest.Load(t, `ferment {
  profile = "test"
}
store {
  driver = "sqlite"
  path   = "db/runs.db"

  auto_migrate     = false
  allow_network_fs = true

  retain {
    failed_age = "90d"
  }
}
`)
	require.Empty(t, configtest.Types(ds))
	assert.Equal(t, filepath.Join(c.Host.DataDir, "db", "runs.db"), c.Store.File)
	assert.Equal(t, 90*24*time.Hour, c.Store.FailedAge)
	assert.True(t, c.Store.AllowNetworkFS)
	assert.False(t, c.Store.AutoMigrate)

	for name, text := range map[string]string{
		"config/range":          "store {\n  sync = \"off\"\n}\n",
		"config/missing":        "store {\n  driver = \"postgres\"\n}\n",
		"config/secret-missing": "store {\n  driver = \"postgres\"\n  dsn = secret(\"env:NO_SUCH_DSN\")\n}\n",
		"config/type":           "store {\n  driver = \"postgres\"\n  dsn = \"postgres://ann:hidden@db/x\"\n}\n",
	} {
		_, ds := configtest.Load(t, text)
		assert.Equal(t, []string{name}, configtest.Types(ds), text)
		assert.NotContains(t, diag.NewReport(ds, 0, 1, 9).Text(false), "hidden")
	}
	// JRN-006: the reserve of the daemon, which it removes, cannot be the database; nor can another file of its own.
	for _, path := range []string{"/tmp/x.db", "../x.db", "", ".",
		"reserve", "./Reserve", "db/reserve", "JOURNAL", "db/blobs", "LOCK", "FORMAT", "HOST", "secrets.key", "run",
		"plugins", "backups", "run/admin.token", "prices.edn"} {
		_, ds := configtest.Load(t, "store {\n  path = \""+path+"\"\n}\n")
		assert.Equal(t, []string{"config/range"}, configtest.Types(ds), path)
	}
}

// JRN-006: the admin socket cannot take the path of a file that the daemon keeps in data_dir.
func TestAdminSocketOutsideTheFilesOfTheDaemon(t *testing.T) {
	for path, want := range map[string][]string{
		"reserve": {"config/range"}, "LOCK": {"config/range"}, "db/runs.db": {"config/range"},
		"db/runs.db-wal": {"config/range"}, "run/admin.token": {"config/range"},
		"run/admin.sock": nil, "db/runs.dbx": nil, "a.sock": nil,
	} {
		_, ds := configtest.Load(t, "ferment {\n  data_dir = \"var\"\n}\nstore {\n  path = \"db/runs.db\"\n}\n"+
			"http {\n  admin_socket = \"var/"+path+"\"\n}\n")
		assert.ElementsMatch(t, want, configtest.Types(ds), path)
	}
}
