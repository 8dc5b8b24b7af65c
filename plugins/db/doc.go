// Command db is the plugin of the database tools: db/query and db/exec in SQLite
// and PostgreSQL.
//
// Each call runs in a process of its own, which opens the database, begins the
// transaction and is then confined to it by the kernel, before it reads the
// statements. A call of db/exec enters its effect key in the same transaction,
// so it is made once, however often it is tried. host/docs/effects.md has the
// configuration and the table of values.
package main
