//go:build linux && external

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/db/internal/task"
	"github.com/fermenthq/ferment/sdk/sdktest/postgrestest"
)

// server starts a server for a test.
func server(t *testing.T) *postgrestest.Server {
	t.Helper()
	s, err := postgrestest.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Stop()) })
	return s
}

// schema makes a schema that a role without further rights owns, and returns the
// connection string of the role.
func schema(t *testing.T, s *postgrestest.Server) (name, dsn string) {
	t.Helper()
	name, err := s.Schema(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Exec(t.Context(), name, "CREATE ROLE r_"+name+" LOGIN PASSWORD 'hidden-password'", "ALTER SCHEMA "+name+" OWNER TO r_"+name))
	return name, strings.Replace(s.DSN(name, ""), "user=postgres", "user=r_"+name+" password=hidden-password", 1)
}

func postgres(t *testing.T, dsn string) *client {
	t.Helper()
	return serve(t, fmt.Sprintf(`{:driver :postgres :dsn %q}`, dsn))
}

func TestPostgres(t *testing.T) {
	s := server(t)
	for name, test := range map[string]func(*testing.T, *client){
		"one key": testOneKey, "all or nothing": testAllOrNothing, "bounds": testBounds, "timeout": testTimeout, "refused": testRefused,
		"values": testValuesOfPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			_, dsn := schema(t, s)
			test(t, postgres(t, dsn))
		})
	}
	t.Run("kill", func(t *testing.T) {
		_, dsn := schema(t, s)
		connection := task.Connection{Driver: task.Postgres, DSN: dsn}
		testKillAfterCommit(t, connection)
		testKillAnywhere(t, connection)
	})
	t.Run("hostile", func(t *testing.T) { testHostilePostgres(t, s) })
	t.Run("roles", func(t *testing.T) { testRolesOfPostgres(t, s) })
	t.Run("broken", func(t *testing.T) { testBrokenPostgres(t, s) })
}

// Values go into PostgreSQL and come back as the table in host/docs/effects.md
// says.
func testValuesOfPostgres(t *testing.T, c *client) {
	for _, row := range []struct{ typ, in, out string }{
		{"text", `nil`, `nil`},
		{"boolean", `true`, `true`},
		{"smallint", `-32768`, `-32768`},
		{"bigint", `9223372036854775807`, `9223372036854775807`},
		{"numeric", `12345678901234567890.123456789M`, `12345678901234567890.123456789M`},
		{"numeric", `123456789012345678901234567890N`, `123456789012345678901234567890M`},
		{"numeric(8,2)", `"1.50"`, `1.5M`},
		{"double precision", `0.1`, `0.1`},
		{"double precision", `7`, `7.0`},
		{"real", `0.1`, `0.1`},
		{"text", `"ü 漢"`, `"ü 漢"`},
		{"varchar(5)", `""`, `""`},
		{"bytea", `#db/bytes "AP8Q"`, `#db/bytes "AP8Q"`},
		{"bytea", `#db/bytes ""`, `#db/bytes ""`},
		{"timestamptz", `#inst "2027-02-18T10:30:00.123456+01:00"`, `#inst "2027-02-18T09:30:00.123456Z"`},
		{"timestamp", `"2027-02-18 09:30:00"`, `"2027-02-18 09:30:00"`},
		{"date", `"2027-02-18"`, `"2027-02-18"`},
		{"interval", `"1 day 02:03:04"`, `"1 day 02:03:04"`},
		{"uuid", `#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`, `#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`},
		{"jsonb", `{:a [1 "b" nil {"c d" true}]}`, `{:a [1 "b" nil {"c d" true}]}`},
		{"json", `"[1, 2]"`, `[1 2]`},
		{"integer[]", `"{1,2}"`, `"{1,2}"`},
	} {
		out, err := c.query("SELECT $1::"+row.typ+" AS x", ":parameters ["+row.in+"]")
		require.Nil(t, err, "%s %s: %v", row.typ, row.in, err)
		assert.Equal(t, `[{:x `+row.out+`}]`, out.Key("rows").String(), "%s %s", row.typ, row.in)
	}
	for typ, in := range map[string]string{"integer": `1.5M`, "text": `1`, "uuid": `#inst "2027-02-18T10:30:00Z"`, "boolean": `1`, "date": `{:a 1}`, "bigint": `"no number"`, "jsonb": ":k"} {
		_, err := c.query("SELECT $1::"+typ+" AS x", ":parameters ["+in+"]")
		assert.Equal(t, "effects/invalid-input sql/invalid", reason(err), "%s %s", typ, in)
	}
	for _, x := range []string{"'NaN'::float8", "'infinity'::timestamptz", "'NaN'::numeric", "'-infinity'::float4", "'0044-03-15 BC'::timestamptz"} {
		_, err := c.query("SELECT "+x+" AS x", "")
		assert.Equal(t, "effects/invalid-input sql/invalid", reason(err), x)
	}
}

// FX tools: statements that do more than read, hide it, leave their transaction,
// or take other rights.
func testHostilePostgres(t *testing.T, s *postgrestest.Server) {
	name, dsn := schema(t, s)
	c := postgres(t, dsn)
	c.must("CREATE TABLE kept (x text)")
	c.must("INSERT INTO kept VALUES ('kept')")
	require.NoError(t, s.Exec(t.Context(), name, "CREATE SEQUENCE counter", "GRANT ALL ON SEQUENCE counter TO r_"+name,
		"ALTER ROLE r_"+name+" NOINHERIT", "CREATE ROLE other_"+name, "GRANT other_"+name+" TO r_"+name, "CREATE TABLE secret AS SELECT 'top' AS x", "GRANT SELECT ON secret TO other_"+name,
		"CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO kept VALUES ('by a function') RETURNING 1 $$"))
	reads := []string{
		"DELETE FROM kept", "WITH w AS (DELETE FROM kept RETURNING x) SELECT * FROM w", "SELECT 1; DELETE FROM kept", "SELECT x FROM kept FOR UPDATE",
		"/* SELECT /* */ */ DELETE FROM kept", "SELECT 1 /* ; */; COMMIT", "SELECT nextval('counter')", "SELECT writes()", "EXPLAIN ANALYZE DELETE FROM kept",
		"COPY kept TO PROGRAM 'cat'", "COPY kept TO STDOUT", "SET ROLE other_" + name, "RESET ROLE", "SELECT set_config('role', 'other_" + name + "', false)",
		"SELECT /* */ \"set_config\" /* */ ('transaction_read_only', 'off', false)", "SELECT pg_catalog.set_config('role', 'postgres', true)",
		`SELECT U&"set\005fconfig"('role', 'postgres', true)`, "SELECT query_to_xml('DELETE FROM kept', true, true, '')", "DO $$ BEGIN DELETE FROM kept; END $$",
		"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "PREPARE p AS DELETE FROM kept", "EXECUTE p", "DECLARE c CURSOR FOR SELECT 1", "LISTEN x", "NOTIFY x", "LOCK TABLE kept",
		"VACUUM", "CREATE TEMP TABLE t (x int)", "SELECT 1 AS x INTO made", "SELECT pg_terminate_backend(1)", "SELECT pg_read_file('/etc/passwd')", "SELECT lo_import('/etc/passwd')",
		"CALL writes()", "SELECT pg_advisory_lock(1)", "LOAD 'x'", "SELECT * FROM secret", "TRUNCATE kept", "DROP TABLE kept", "SELECT dblink_exec('', 'DELETE FROM kept')",
	}
	for _, sql := range reads {
		_, err := c.query(sql, "")
		if assert.NotNil(t, err, sql) {
			assert.Contains(t, []string{"effects/scope-denied statement-not-allowed", "effects/invalid-input sql/invalid"}, reason(err), "%s: %v", sql, err)
		}
	}
	_, err := c.query("SELECT lo_from_bytea(0, 'x') AS id", "") // PostgreSQL before 16 lets it pass; the rollback undoes it
	if err == nil {
		assert.Equal(t, `[{:n 0}]`, c.rows("SELECT count(*) AS n FROM pg_catalog.pg_largeobject_metadata"))
	}
	_, err = c.query("SELECT repeat('x', 100000000) AS b", "")
	assert.Equal(t, "effects/scope-denied max-bytes", reason(err))
	c.write = `{:enabled true :connections ["main"]}`
	for _, sql := range []string{
		"COMMIT", "ROLLBACK", "INSERT INTO kept VALUES ('x'); COMMIT", "SET ROLE other_" + name, "COPY kept FROM PROGRAM 'echo x'", "CREATE TABLE made (x int)", "SELECT set_config('role', 'x', true)",
		"DELETE FROM ferment_effects", "DO $$ BEGIN COMMIT; END $$", "ALTER TABLE kept ADD y int", "GRANT ALL ON kept TO public",
	} {
		_, err := c.exec(sql, "")
		if assert.NotNil(t, err, sql) {
			assert.Contains(t, []string{"effects/scope-denied statement-not-allowed", "effects/invalid-input sql/invalid"}, reason(err), "%s: %v", sql, err)
		}
	}
	assert.Equal(t, `[{:x "kept"}]`, c.rows("SELECT x FROM kept"))
	for _, sql := range []string{"SELECT 'DELETE FROM kept' AS x", "TABLE kept", "(VALUES (1), (2))", "SHOW server_version", "EXPLAIN SELECT 1", "SELECT $$set_config($$ AS x", "SELECT 'set_config(' AS set_config -- ; set_config("} {
		_, err := c.query(sql, "")
		assert.Nil(t, err, "%s: %v", sql, err)
	}
}

// FX-003: a role whose rights reach beyond the database is refused, because
// nothing holds it to a scope.
func testRolesOfPostgres(t *testing.T, s *postgrestest.Server) {
	name, dsn := schema(t, s)
	t.Run("superuser", func(t *testing.T) {
		_, err := postgres(t, s.DSN(name, "")).query("SELECT 1", "")
		assert.Equal(t, "effects/not-enforceable", reason(err))
	})
	c := postgres(t, dsn)
	_, err := c.query("SELECT 1 AS one", "")
	require.Nil(t, err, "%v", err)
	for _, grant := range []string{"GRANT pg_execute_server_program TO r_" + name, "GRANT pg_read_server_files TO r_" + name, "ALTER ROLE r_" + name + " CREATEROLE"} {
		require.NoError(t, s.Exec(t.Context(), name, grant))
		_, err = c.query("SELECT 1 AS one", "")
		assert.Equal(t, "effects/not-enforceable", reason(err), grant)
		require.NoError(t, s.Exec(t.Context(), name, strings.NewReplacer("GRANT ", "REVOKE ", " TO ", " FROM ", " CREATEROLE", " NOCREATEROLE").Replace(grant)))
	}
	require.NoError(t, s.Exec(t.Context(), name, "ALTER SCHEMA "+name+" OWNER TO postgres", "CREATE TABLE kept (x int)", "GRANT USAGE ON SCHEMA "+name+" TO r_"+name, "GRANT INSERT ON kept TO r_"+name))
	_, err = c.exec("INSERT INTO kept VALUES (1)", "")
	assert.Equal(t, "effects/runtime-missing", reason(err), "it may not create the table of keys")
	require.NoError(t, s.Exec(t.Context(), name, "CREATE TABLE ferment_effects (effect_key text PRIMARY KEY, statements text NOT NULL, answer text NOT NULL, created_at timestamptz NOT NULL)",
		"GRANT SELECT, INSERT, UPDATE ON ferment_effects TO r_"+name))
	_, err = c.exec("INSERT INTO kept VALUES (1)", "")
	assert.Nil(t, err, "%v", err)
}

// FX-011, ERR-002: connections that fail, without their secrets in the error; a
// server that dies in a call; a caller that goes away, whose statement ends.
func testBrokenPostgres(t *testing.T, s *postgrestest.Server) {
	name, dsn := schema(t, s)
	for _, row := range []struct{ dsn, want string }{
		{"postgres://u:hidden-password@%zz", "effects/runtime-missing"},
		{"host=127.0.0.1 port=1 user=u password=hidden-password", "effects/runtime-failed"},
		{"host=/nowhere user=u password=hidden-password", "effects/runtime-failed"},
		{strings.Replace(dsn, "dbname=postgres", "dbname=gone", 1), "effects/runtime-failed"},
	} {
		t.Run(row.want, func(t *testing.T) {
			_, err := postgres(t, row.dsn).query("SELECT 1", "")
			assert.Equal(t, row.want, reason(err))
			assert.NotContains(t, fmt.Sprintf("%v %s", err, err.Value()), "hidden-password")
		})
	}
	admin, err := pgx.Connect(t.Context(), s.DSN(name, ""))
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	running := func() (n int) {
		require.NoError(t, admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", "r_"+name).Scan(&n))
		return n
	}
	connection := task.Connection{Driver: task.Postgres, DSN: dsn}
	for _, end := range []string{"the caller goes away", "the server ends the connection"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			self, _ := os.Executable()
			done <- runWork(ctx, self, work(t, connection, "b3:"+strings.ReplaceAll(end, " ", "-"), `{:connection "main" :sql "SELECT pg_sleep(600)"}`))
		}()
		for running() == 0 {
			require.NoError(t, t.Context().Err())
		}
		if end == "the caller goes away" {
			cancel()
		} else {
			_, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", "r_"+name)
			require.NoError(t, err)
		}
		require.Error(t, <-done, end)
		for running() > 0 { // the server has noticed, long before the timeout of the statement
			require.NoError(t, t.Context().Err())
		}
		cancel()
	}
}
