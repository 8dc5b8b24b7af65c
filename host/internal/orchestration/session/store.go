package session

import (
	"context"
	"time"
)

// Store stores sessions with their variables and turns. Its methods are safe for
// concurrent use.
type Store interface {
	// Update calls change with the stored state of a session and writes the change that it
	// returns, in one transaction. Updates of a session are serial. change must not block or
	// use the store. If it returns an error, nothing is written and Update returns that
	// error.
	Update(ctx context.Context, id string, change func(Stored) (Change, error)) error
	// Session returns a session; false: there is none.
	Session(ctx context.Context, id string) (Session, bool, error)
	// Sessions returns the first f.Limit sessions that match, ordered by id.
	Sessions(ctx context.Context, f Filter) ([]Session, error)
	// Hot returns the sessions that are not frozen, in any order. They have no notes,
	// because Hot is called after each run of a session.
	Hot(ctx context.Context) ([]Session, error)
	// Count returns the number of sessions.
	Count(ctx context.Context) (int, error)
	// Vars returns the variables of a session with these keys, or all if no key is given, ordered
	// by key. They include expired ones.
	Vars(ctx context.Context, id string, keys ...string) ([]Var, error)
	// Turns returns the last turns of a session, at most the number most, oldest first.
	Turns(ctx context.Context, id string, most int) ([]Turn, error)
	// Purge deletes the variables of all sessions that have expired at the time at, and returns
	// their number.
	Purge(ctx context.Context, at time.Time) (int, error)
	// Touch sets the access times of sessions by their id. A time before the stored one is
	// ignored, as is an unknown id.
	Touch(ctx context.Context, at map[string]time.Time) error
}

// Stored is the stored state of a session that is passed to a change. Session is
// zero unless Found is set.
type Stored struct {
	Found   bool
	Session Session
	// Expires maps the key of every variable to its expiry; zero: it does not expire.
	Expires map[string]time.Time
}

// Change is the change that an update writes. The zero Change writes nothing.
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
