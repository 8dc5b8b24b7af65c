// Package post executes the statements of one call in a PostgreSQL database.
//
// [Open] connects, checks the rights of the role and begins the transaction of the call, before the
// process is confined; after that the process needs only the open connection.
//
// A read runs in a read-only transaction that is always rolled back. Statements go through the
// extended protocol, which accepts one at a time. What the server cannot reject is rejected by the
// text of the statement, see permit: other kinds of statements, and functions that act outside of
// the transaction. Functions and views of the database itself are not examined; what they may do is
// what the role may do.
//
// A DB must be used by one goroutine. Every failure is a [result.Fault].
package post
