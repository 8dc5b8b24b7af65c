// Package lite executes the statements of one call in an SQLite database.
//
// It uses the library below the driver of database/sql, because that driver has no authorizer. The
// authorizer decides about each statement while it is prepared: see allows. Besides it a read opens
// the file for reading only, accepts only statements that SQLite itself calls read-only, and ends
// with a rollback.
//
// [Open] opens all files that the call needs, before the process is confined: the database, its
// journal or log, and the index of the log. After that no further file is opened: sorting and
// statement journals stay in memory, and the rollback journal is emptied instead of removed.
//
// A DB must be used by one goroutine. Every failure is a [result.Fault].
package lite
