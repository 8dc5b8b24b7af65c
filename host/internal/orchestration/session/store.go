package session

import (
	"context"
	"time"
)

// Store keeps sessions. Its methods are safe for concurrent use.
type Store interface {
	// Update calls change with what is stored under an id and writes what it
	// returns, in one transaction. Updates are serial. change must not block, and
	// must not use the store; if it returns an error, nothing is written and the
	// error is returned.
	Update(ctx context.Context, id string, change func(Stored) (Change, error)) error
	// Session returns a session; false: there is none.
	Session(ctx context.Context, id string) (Session, bool, error)
	// Sessions returns the sessions that match, ordered by id.
	Sessions(ctx context.Context, f Filter) ([]Session, error)
	// Hot returns the sessions that are not frozen, in any order, without their notes:
	// it is asked after each run of a session.
	Hot(ctx context.Context) ([]Session, error)
	// Count returns the number of sessions.
	Count(ctx context.Context) (int, error)
	// Vars returns the named variables of a session, all without names, ordered by
	// key. They include expired ones.
	Vars(ctx context.Context, id string, keys ...string) ([]Var, error)
	// Turns returns the last turns of a session, oldest first.
	Turns(ctx context.Context, id string, most int) ([]Turn, error)
	// Purge deletes the variables of all sessions that expired at a time, and returns
	// their number.
	Purge(ctx context.Context, at time.Time) (int, error)
	// Touch sets the time of the last access of sessions. It never sets it back.
	Touch(ctx context.Context, at map[string]time.Time) error
}

// Stored is what a change sees of a session.
type Stored struct {
	Found   bool
	Session Session
	// Expires has the expiry of every variable by its key.
	Expires map[string]time.Time
}

// Change is what an update writes. The zero Change writes nothing.
type Change struct {
	Session *Session // nil: it stays as it is
	Delete  bool     // the session, with its variables and turns
	Put     []Var
	Drop    []string // keys of variables
	Turns   []Turn
}

// Filter selects sessions.
type Filter struct {
	Owner string // empty: any
	After string // id; empty: from the first
	Limit int
}
