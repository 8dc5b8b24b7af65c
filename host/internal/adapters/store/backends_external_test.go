//go:build external

package store

import (
	"context"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/sdktest/postgrestest"
)

// Without the tag the tests use a file.
var backends = []backend{onServer}

// onServer is a schema of a PostgreSQL server for each directory.
var onServer = backend{
	name:   "postgres",
	driver: "pgx",
	options: func(t testing.TB, dir string) Options {
		return Options{Postgres: &Postgres{DSN: dsnOf(t, dir), Host: dir}, Now: now}
	},
	source: func(t testing.TB, dir string) string { return dsnOf(t, dir) },
}

// servers is the server of the tests of this package, which the first one starts.
var servers struct {
	mu      sync.Mutex
	one     *postgrestest.Server
	schemas map[string]string // by directory
}

func server(t testing.TB) *postgrestest.Server {
	t.Helper()
	servers.mu.Lock()
	defer servers.mu.Unlock()
	if servers.one == nil {
		one, err := postgrestest.Start()
		require.NoError(t, err)
		servers.one, servers.schemas = one, map[string]string{}
	}
	return servers.one
}

func schemaNamed(t testing.TB, dir string) string {
	t.Helper()
	s := server(t)
	servers.mu.Lock()
	defer servers.mu.Unlock()
	name := servers.schemas[dir]
	if name == "" {
		var err error
		name, err = s.Schema(context.Background())
		require.NoError(t, err)
		servers.schemas[dir] = name
	}
	return name
}

func dsnOf(t testing.TB, dir string) string {
	t.Helper()
	return server(t).DSN(schemaNamed(t, dir), "")
}

func endBackends() error {
	if servers.one == nil {
		return nil
	}
	return servers.one.Stop()
}
