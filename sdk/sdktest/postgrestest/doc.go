// Package postgrestest starts a PostgreSQL server for tests.
//
// A [Server] keeps its files in a temporary directory and listens on a socket
// there, so it needs no network. Its programs are those of Debian's package
// postgresql. PostgreSQL refuses to run as root: a test that runs as root starts
// it as the user postgres.
//
// All methods are safe for concurrent use. Errors say which program failed and
// what it wrote.
package postgrestest
