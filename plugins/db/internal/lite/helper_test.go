package lite

import sqlite3 "modernc.org/sqlite/lib"

// autocommit returns 1 if no transaction is open.
func autocommit(db *DB) int32 { return sqlite3.Xsqlite3_get_autocommit(db.tls, db.db) }
