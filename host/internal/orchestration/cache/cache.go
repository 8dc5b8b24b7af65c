package cache

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/memo"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Key holds everything on which an answer depends (RUN-030). Requests with equal keys
// may get the same answer.
type Key struct {
	Intent string
	// Request is the request, including the fields that its session filled: input, context,
	// constraints, requirements, done, effects, role, model and response type.
	Request edn.Value
	// Limits are the fields of the budget that affect an answer: tokens and temperature.
	Limits edn.Value
	// Routing holds the routing options of the request.
	Routing edn.Value
	// Plan is the hash of the plan.
	Plan string
	// Programs are the capabilities that may be called: candidates, and those that
	// check or judge their answers.
	Programs []Program
	// Session identifies the state of the session that was read; zero: none was.
	Session Session
	// Evaluator is the version of the evaluator.
	Evaluator int
	// Policy is the hash of the configuration on which answers depend: policies, gates,
	// judges, prompts, schemas and plugins. Rights are the rights of the caller on which
	// answers depend.
	Policy string
	Rights edn.Value
	// Scope identifies the callers that share the answer: all, a tenant or a principal.
	Scope edn.Value
}

// Program is a capability and the program that serves it.
type Program struct {
	ID, Version string
	Binary      string // hash; empty while no process runs
}

// Session identifies a version of a session.
type Session struct {
	ID      string
	Version int64
}

// Hash returns the hash under which a Store holds the answer.
func (k Key) Hash() string {
	programs := make([]edn.Value, len(k.Programs))
	for i, p := range k.Programs {
		programs[i] = edn.Vector(edn.Text(p.ID), edn.Text(p.Version), edn.Text(p.Binary))
	}
	return edn.Hash(edn.Vector(edn.Text(k.Intent), k.Request, k.Limits, k.Routing, edn.Text(k.Plan), edn.Vector(programs...),
		edn.Text(k.Session.ID), edn.Int(k.Session.Version), edn.Int(int64(k.Evaluator)), edn.Text(k.Policy), k.Rights, k.Scope))
}

// Answer is an accepted answer.
type Answer struct {
	Run                string // the run that produced it
	Out, Meta, Quality edn.Value
}

// size returns the number of bytes of the answer.
func (a Answer) size() int64 {
	n := len(a.Run)
	for _, v := range []edn.Value{a.Out, a.Meta, a.Quality} {
		n += len(v.Canonical())
	}
	return int64(n)
}

// Store holds answers by the hashes of their keys.
type Store = memo.Memo[string, Answer]

// Forget removes the answers that a run produced, because its values are deleted (JRN-061).
func Forget(s *Store, run string) {
	s.DropAll(func(a Answer) bool { return a.Run == run })
}

// Claim is the execution of a request by one act, whose answer all acts with an equal
// request share.
type Claim = memo.Claim[string, Answer]

// Settings are the bounds of a Store (RUN-033). A zero TTL or MaxBytes is no limit; a
// MaxEntries below 1 means 1.
type Settings struct {
	TTL        time.Duration
	MaxEntries int
	MaxBytes   int64
}

// Bounds returns the settings as bounds of a Store with the clock now.
func (s Settings) Bounds(now func() time.Time) memo.Bounds[Answer] {
	return memo.Bounds[Answer]{Entries: s.MaxEntries, Bytes: s.MaxBytes, Size: Answer.size, TTL: s.TTL, Now: now}
}

// New returns an empty store with the clock now.
func New(s Settings, now func() time.Time) *Store { return memo.Bounded[string](s.Bounds(now)) }
