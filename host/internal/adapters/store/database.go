package store

import (
	"context"
	"database/sql"
	"time"
)

// database is what differs between kinds of databases. The rest of the package uses
// its connections with the named statements of its dialect.
type database interface {
	// name names the database in messages.
	name() string
	// dialect is the folder of the statements and migrations below sql.
	dialect() string
	// writer returns the connection of the writer, readers the pool for everything
	// else. That pool cannot write.
	writer() *sql.Conn
	readers() *sql.DB
	// text returns the form in which a text is stored that may have any character.
	text(s string) any
	// admit rejects arguments of a statement that the database cannot store.
	admit(args []any) error
	// begin begins a transaction of the writer. done: the one before, whose outcome was
	// unknown, was committed; it must not be executed again.
	begin(ctx context.Context, w *writer) (done bool, err error)
	commit(ctx context.Context, w *writer) error
	// again reports whether a transaction that failed is to be executed again.
	again(ctx context.Context, w *writer, err error) bool
	// alone calls do, which changes the schema, while no other process does that.
	alone(ctx context.Context, do func() error) error
	// backup copies the database before a migration from a version.
	backup(ctx context.Context, version int) error
	// upkeep does what is due beside the writer. idle: the writer has nothing to do.
	// between makes the writer call do while no transaction is open.
	upkeep(ctx context.Context, idle bool, between func(do func(ctx context.Context) error) error) error
	// checkTable returns what is wrong with the pages of a table and of its indexes, or
	// nothing; a server that checks its own pages finds nothing.
	checkTable(ctx context.Context, table string) (string, error)
	// erasing calls do, which deletes values, so that their bytes are overwritten.
	erasing(ctx context.Context, do func() error) error
	// shrink returns some of the free space to the file system. It reports whether there
	// may be more.
	shrink(ctx context.Context) (more bool, err error)
	// size returns the bytes of the database, and those of them that are free.
	size(ctx context.Context) (bytes, free int64, err error)
	// flush removes what erasing has left in the log of the database. It reports
	// whether nothing is left; readers can prevent that.
	flush(ctx context.Context) (whole bool, err error)
	// inPlace returns an error if the files of the database are not those that were opened.
	inPlace() error
	close() error
}

// sharing is a database that several hosts use. Each unfinished run belongs to one of
// them, which alone may append to it. A host keeps its runs by a lease, which each of
// its transactions renews.
type sharing interface {
	// join makes this host known to the database and begins its lease, leave ends it.
	join(ctx context.Context, st *statements) error
	leave(ctx context.Context, st *statements)
	// number is that of this host in the database.
	number() int64
	// leased is the duration of the lease.
	leased() time.Duration
	// owner returns the id of the host that a run belongs to, "" if that was handed over,
	// and reports whether it is this one.
	owner(ctx context.Context, from *statements, run int64) (id string, mine bool, err error)
	// takeLapsed makes the unfinished runs of all hosts whose lease has lapsed runs of
	// this host, in the current transaction, and drops what these have reserved. take
	// does so with one run, and returns the host that had it; 0: it may not be taken.
	takeLapsed(ctx context.Context, st *statements) ([]takenRun, error)
	take(ctx context.Context, st *statements, run int64) (from int64, err error)
	// anyLapsed reports whether takeLapsed would take a run.
	anyLapsed(ctx context.Context, from *statements) (bool, error)
	// give makes runs of this host runs of one that does not exist and whose lease has
	// lapsed, in the current transaction, and returns the number of that one.
	give(ctx context.Context, st *statements, rows []runRow) (to int64, err error)
}

// takenRun is a run that a host has taken from another one.
type takenRun struct {
	n    int64
	left bool // by a host that was shut down
}

// corrupt reports whether an error says that a database is damaged.
func corrupt(err error) bool { return isCorrupt(err) || hasState(err, "XX001", "XX002") }
