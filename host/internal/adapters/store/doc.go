// Package store keeps the journal of runs in a SQL database: a file of SQLite, or
// PostgreSQL.
//
// # Main types
//
// A [Store] implements the journal of the orchestration: it takes records,
// lets readers follow a run, and reads finished runs back. [Open] opens it,
// [Options] configure it. [Run] is the summary of one run, [Filter] selects
// summaries. [Damage] is the position of a record or a value that is not what
// was written.
//
// # Writing
//
// Records of live runs are appended to memory and queued. One goroutine takes
// all queued records as soon as a caller waits for one of them in [Store.Sync],
// encodes them, stores the values that they name, and commits once; only then do
// readers that follow a run see them. A batch forms while the previous commit
// runs, so a waiting caller is not delayed. In SQLite the records before a call of a
// plugin are executed during the call, in the transaction that commits later. Each record
// has a chain value: the BLAKE3 sum of the previous chain value and the bytes of the
// record.
//
// A value is stored once, under its hash. Elements of maps and vectors above
// 256 bytes are values of their own, and long vectors are trees, so that a
// conversation which grows by a turn is stored as that turn and a few numbers.
// In SQLite, bodies above 256 KiB are files of the folder blobs. In PostgreSQL every
// body is in its row: hosts have no folder in common, and a value commits with the
// record that names it.
//
// # Databases
//
// What differs between the databases is behind the interface database, and each
// dialect has its statements and migrations below sql. sqlite.go and postgres.go have
// the rest. A transaction whose connection is lost is executed again. If it was lost
// in the commit, the number of transactions in the row of the host shows whether it
// was made.
//
// # Hosts
//
// Several hosts may share a PostgreSQL database. Their transactions follow each other
// by a lock on the row of the table head, so everything that holds for one writer holds
// for all. Each unfinished run belongs to one host; [Store.Take] gives a host those of
// hosts whose lease has lapsed. [Budgets] are decided in the database.
//
// # Budgets
//
// The Store is the budget.Keeper of the host: the writer adds the cost in each record
// budget/settled to the counters of tenant and user, in the same transaction. Counters
// are not derived again from records, which retention removes.
//
// # Learned dispatch
//
// The Store keeps the counts of learned dispatch. The writer executes their updates, each
// in a transaction of its own that reads the stored counts.
//
// # Sessions
//
// [Store.Sessions] is the store of sessions in the same database. The writer executes
// their updates, each in a transaction of its own.
//
// # Identity
//
// [Store.Identity] is the store of users and tokens in the same database. A row counts
// their changes, by which hosts that share the database see those of each other.
//
// # Conversations
//
// [Store.Conversations] is the store of conversations in the same database. A step of a
// path has the versions to which it belongs, so that a commit writes what changed.
//
// The turns of a session are rows of its conversation. What a purge erases of it, and of
// the conversations that a run has spawned, is in erase.go.
//
// # Damage
//
// [Store.Verify] finds what is not as it was written, [Repair] makes a damaged
// database usable again: it copies what verifies into a new one, run by run, and
// keeps the old one. If SQLite cannot read a page, it reads the others itself.
//
// # Concurrency
//
// All methods are safe for concurrent use; the records of one run come from one
// goroutine at a time. A file has one Store: a lock on the folder blobs rejects a
// second one. A host in PostgreSQL has one Store as well: a later one fences it.
// Readers use their own read-only connections.
//
// # Errors
//
// The errors of callers are of type *contract.Error. A failed commit, sync or
// file write is final: [Store.Failed] is closed, and each later append returns
// journal/unavailable. While free space is below the minimum, new runs get
// journal/full. An append with an old epoch, or to a run of another host, gets
// journal/fenced. One with a record or a value above its limit gets journal/too-large; the
// records that end its run are still accepted. A lost connection is a failure after [Postgres].Grace. [Open] returns
// a *[Damage] for an open run with a broken chain, a *[SchemaError] for a
// database that another version wrote, a *[LockedError] for one that is
// already open, a *[NetworkError] for a file on a network file system, an
// *[UnreachableError] for a server that does not answer, and a
// *[SettingError] for one that does not keep what it has committed.
package store
