// Command db is the plugin of the database tools: db/query and db/exec in SQLite and PostgreSQL.
//
// Each call runs in a process of its own, which opens the database, begins the transaction and is
// then confined to it by the kernel, before it reads the statements. A call of db/exec records its
// effect key in the same transaction, so its statements take effect once, however often the call is
// repeated. host/docs/effects.md describes the configuration and the conversion of values.
package main
