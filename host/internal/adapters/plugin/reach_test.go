package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// FX-003: the scopes of the effects of a plugin extend its sandbox, and keep
// what the configuration grants.
func TestReach(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "a"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "a", "f"), nil, 0o600))
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	for name, row := range map[string]struct {
		effect, scope string
		from, want    Isolation
	}{
		"a file may be read itself": {
			"fs/read", `{:roots ["` + root + `"] :allow ["a/f" "none"]}`, Isolation{ReadPaths: []string{"/x"}},
			Isolation{ReadPaths: []string{"/x", at("a", "f")}},
		},
		"a file is replaced in its directory": {
			"fs/write", `{:roots ["` + root + `"] :allow ["a/f"]}`, Isolation{}, Isolation{WritePaths: []string{at("a")}},
		},
		"a missing path is created below what exists": {
			"fs/write", `{:roots ["` + root + `"] :allow ["a/b/c"]}`, Isolation{WritePaths: []string{at("a")}},
			Isolation{WritePaths: []string{at("a")}},
		},
		"programs and their directories": {
			"process/run", `{:allow-commands ["` + at("a", "f") + `" "/none"] :allow-cwd ["` + at("a") + `" "/none"]}`, Isolation{},
			Isolation{WritePaths: []string{at("a")}, Exec: []string{at("a", "f")}},
		},
		"ports replace another network": {
			"net/http", `{:ports [443 80]}`, Isolation{Network: confine.Offline, Ports: []uint16{1}},
			Isolation{Network: confine.Ports, Ports: []uint16{80, 443, 53}},
		},
		"ports are added to ports": {
			"net/http", `{:ports [80]}`, Isolation{Network: confine.Ports, Ports: []uint16{80}},
			Isolation{Network: confine.Ports, Ports: []uint16{80, 53}},
		},
		"another effect": {"none", `{}`, Isolation{}, Isolation{}},
	} {
		t.Run(name, func(t *testing.T) {
			var scope effects.Scope
			if row.effect != "none" {
				var problems []effects.Problem
				scope, problems = effects.ParseScope(row.effect, edn.MustRead(row.scope))
				require.Empty(t, problems)
			}
			assert.Equal(t, row.want, row.from.Reach(policy.Scopes{{Effect: row.effect, Scope: scope}}))
		})
	}
}

// FX-003: the databases of the configuration extend the sandbox of their plugin
// by their directories and ports, and by nothing if there are none.
func TestReachOfDatabases(t *testing.T) {
	dir := t.TempDir()
	granted := Isolation{WritePaths: []string{"/x"}}
	assert.Equal(t, granted, granted.Databases(DatabaseReach{}))
	assert.Equal(t, Isolation{WritePaths: []string{"/x", dir}}, granted.Databases(DatabaseReach{Dirs: []string{dir, "/none"}}), "offline")
	assert.Equal(t, Isolation{WritePaths: []string{"/x"}, Network: confine.Ports, Ports: []uint16{5432, 53}},
		granted.Databases(DatabaseReach{Ports: []uint16{5432, 5432}}))

	d := contract.Description{Name: "db", Needs: []string{"process/self"}, Capabilities: []contract.Capability{{ID: "db/query", Effects: []string{"db/read"}}}}
	s := Settings{Name: "db", Command: []string{"/bin/db"}, Isolation: Isolation{Level: confine.Strict}.Databases(DatabaseReach{Dirs: []string{dir}})}
	p := s.policy(d, hostDirs{})
	assert.Equal(t, []string{dir}, p.WritePaths)
	assert.Equal(t, confine.Offline, p.Network)
	assert.False(t, p.Attributes)
	assert.Empty(t, p.ExecPaths)
}
