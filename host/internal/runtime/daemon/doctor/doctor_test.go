package doctor_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon/doctor"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
)

// states returns the states of an examination's parts by name.
func states(e doctor.Examination) map[string]string {
	out := map[string]string{}
	for _, p := range e.Parts {
		out[p.Area+" "+p.Name] = p.State
	}
	return out
}

// ISO-003: what the kernel does not hold is weak and no failure.
func TestIsolation(t *testing.T) {
	var none, all doctor.Examination
	none.Isolation(confine.Support{})
	assert.NotContains(t, states(none), "isolation level "+doctor.Fails)
	for name, state := range states(none) {
		if name != "isolation processes" { // depends on the user
			assert.Equal(t, doctor.Weak, state, name)
		}
	}
	all.Isolation(confine.Support{LandlockABI: 10, Rlimits: true, NoNewPrivs: true, Seccomp: true, Marks: true})
	for _, name := range []string{"limits", "no-new-privileges", "files", "tcp", "system-calls", "signals", "descendants"} {
		assert.Equal(t, doctor.OK, states(all)["isolation "+name], name)
	}
	assert.False(t, none.Failed())
}

func TestSpace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, row := range map[string]struct {
		dir   string
		fails bool
	}{
		"a directory":              {dir, false},
		"one that is made later":   {filepath.Join(dir, "a", "b"), false},
		"a file":                   {file, true},
		"a directory below a file": {filepath.Join(file, "a"), true},
	} {
		var e doctor.Examination
		e.Space(row.dir, func(path string) string { return path })
		assert.Equal(t, row.fails, e.Failed(), name)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing is left")
}

func TestSockets(t *testing.T) {
	var e doctor.Examination
	e.Sockets(t.TempDir())
	assert.Equal(t, map[string]string{"sockets length": doctor.OK, "sockets directory": doctor.OK}, states(e))
}

// A plugin that cannot be used fails unless it is optional.
func TestPlugin(t *testing.T) {
	l := &setup.Loaded{Config: &config.Config{}}
	why := contract.Errorf("provider/not-configured", "the plugin is disabled")
	for name, row := range map[string]struct {
		plugin plugins.Plugin
		state  string
	}{
		"disabled":          {plugins.Plugin{Disabled: why}, doctor.OK},
		"missing":           {plugins.Plugin{Enabled: true}, doctor.Fails},
		"missing, optional": {plugins.Plugin{Enabled: true, Optional: true}, doctor.Weak},
		"undescribed":       {plugins.Plugin{Enabled: true, Binary: "/bin/p"}, doctor.Fails},
		"unusable":          {plugins.Plugin{Enabled: true, Binary: "/bin/p", Described: true, Unusable: why}, doctor.Fails},
	} {
		var e doctor.Examination
		row.plugin.Name = "p"
		e.Plugin(l, row.plugin)
		assert.Equal(t, map[string]string{"plugin p": row.state}, states(e), name)
	}
}

// A port of this machine that a plugin may reach answers or is weak.
func TestReach(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := uint16(server.Addr().(*net.TCPAddr).Port)
	p := plugins.Plugin{Name: "p", Enabled: true}
	p.Isolation.Network, p.Isolation.Ports = confine.Loopback, []uint16{port}
	p.Isolation.Programs, p.Isolation.Exec = true, []string{filepath.Join(t.TempDir(), "none")}
	l := &setup.Loaded{Config: &config.Config{Plugins: []plugins.Plugin{p}}}
	reach := func() (out []string) {
		var e doctor.Examination
		e.Reach(t.Context(), l)
		for _, part := range e.Parts {
			out = append(out, part.State)
		}
		return out
	}
	assert.Equal(t, []string{doctor.Weak, doctor.OK}, reach())
	require.NoError(t, server.Close())
	assert.Equal(t, []string{doctor.Weak, doctor.Weak}, reach())
}

func TestClock(t *testing.T) {
	var e doctor.Examination
	e.Clock()
	assert.False(t, e.Failed())
}
