package store

import (
	"context"
	"database/sql"
	"time"
)

// database abstracts over SQLite and PostgreSQL. The other files of the package use its connections
// with the named statements of its dialect.
type database interface {
	// name names the database in messages.
	name() string
	// dialect is the folder of the statements and migrations below sql.
	dialect() string
	// writer returns the connection of the writer, readers the pool for everything
	// else. That pool cannot write.
	writer() *sql.Conn
	readers() *sql.DB
	// text returns the column value for a text that may contain any character.
	text(s string) any
	// admit rejects arguments of a statement that the database cannot store.
	admit(args []any) error
	// begin begins a transaction of the writer. done reports that the previous transaction, whose
	// outcome was unknown, was committed and must not be executed again; no transaction is open
	// then.
	begin(ctx context.Context, w *writer) (done bool, err error)
	commit(ctx context.Context, w *writer) error
	// again reports whether a transaction that failed with err should be executed again.
	again(ctx context.Context, w *writer, err error) bool
	// alone calls do, which changes the schema, while it holds a lock that excludes other processes
	// that change it.
	alone(ctx context.Context, do func() error) error
	// backup copies the database before a migration from a version.
	backup(ctx context.Context, version int) error
	// upkeep does periodic work of the database outside of the writer. idle reports that the writer
	// has no work. between makes the writer call do while no transaction is open.
	upkeep(ctx context.Context, idle bool, between func(do func(ctx context.Context) error) error) error
	// checkTable returns a description of the damage in the pages of a table and its indexes; empty
	// if there is none. For a server that checks its own pages it is always empty.
	checkTable(ctx context.Context, table string) (string, error)
	// erasing calls do, which deletes values, so that their bytes are overwritten.
	erasing(ctx context.Context, do func() error) error
	// shrink returns some of the free space to the file system, and reports whether there may be
	// more.
	shrink(ctx context.Context) (more bool, err error)
	// size returns the bytes of the database, and how many of them are unused.
	size(ctx context.Context) (bytes, free int64, err error)
	// flush removes erased values from the log of the database. It reports whether the log is now
	// empty; readers can prevent that.
	flush(ctx context.Context) (whole bool, err error)
	// inPlace returns an error if the files of the database are not those that were opened.
	inPlace() error
	close() error
}

// sharing is implemented by a database that several hosts use. Each unfinished run belongs to one
// host, and only that host may append to it. A host keeps its runs by a lease, which each of its
// transactions renews.
type sharing interface {
	// join registers this host in the database and begins its lease; leave ends the lease.
	join(ctx context.Context, st *statements) error
	leave(ctx context.Context, st *statements)
	// number returns the number of this host in the database.
	number() int64
	// leased returns the duration of the lease.
	leased() time.Duration
	// owner returns the id of the host that a run belongs to, empty if the run was handed over, and
	// reports whether it is this host.
	owner(ctx context.Context, from *statements, run int64) (id string, mine bool, err error)
	// takeLapsed assigns the unfinished runs of all hosts whose lease has lapsed to this host, in
	// the current transaction, and drops the reservations of those hosts. take does so with one run
	// and returns the number of its previous host; 0 if the run may not be taken.
	takeLapsed(ctx context.Context, st *statements) ([]takenRun, error)
	take(ctx context.Context, st *statements, run int64) (from int64, err error)
	// anyLapsed reports whether takeLapsed would take a run.
	anyLapsed(ctx context.Context, from *statements) (bool, error)
	// give assigns runs of this host to a host that does not exist and whose lease has lapsed, in
	// the current transaction, and returns the number of that host. Any host can then take them.
	give(ctx context.Context, st *statements, rows []runRow) (to int64, err error)
}

// takenRun is a run that a host has taken from another one.
type takenRun struct {
	n    int64
	left bool // its host was shut down in an orderly way
}

// corrupt reports whether an error says that a database is damaged.
func corrupt(err error) bool { return isCorrupt(err) || hasState(err, "XX001", "XX002") }
