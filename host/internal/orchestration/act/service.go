package act

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"runtime/debug"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/domain/routing"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/interrupt"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// PlanIntent is the intent of an act that has its own plan: the input is
// {:plan p :bindings b}.
const PlanIntent = "plan/run"

// Journal writes runs, reads them while they are written and after, and, with Drop,
// releases those that this process no longer executes.
type Journal interface {
	journal.Journal
	journal.Source
	// Records returns the present records of a run, durable or not; none for an unknown run.
	Records(run string) ([]journal.Record, error)
	Drop(run string)
}

// Config configures a Service. Registry, Policies, Checks, Executor, Journal and Hash are
// required.
type Config struct {
	Registry *registry.Registry
	Policies *policy.Book
	Checks   *quality.Set
	Executor dispatch.Executor
	Journal  Journal
	Hash     string // of the configuration, "b3:.."
	// Protocol is the hash of the protocol package for records; empty: none.
	Protocol string
	// Effects are the rules for effects; nil permits none.
	Effects *policy.Effects
	// Standing returns the rights that the caller of a recorded run has now, for a run that
	// is resumed or replayed; nil if the caller has no account. The error is auth/forbidden if
	// its account was locked or deleted. nil: the recorded rights apply.
	Standing func(*journal.RunAccepted) (*policy.Caller, *contract.Error)
	// Access holds the rules of operations and intents; nil: the shipped rules.
	Access *policy.Access
	// Prompts are composed for language models; nil: no layers.
	Prompts *prompt.Book
	// Routing selects the acts for which a router is called; nil: none, unless a request
	// demands it.
	Routing *routing.Settings
	// Budgets limit the cost of acts; nil limits nothing. Ledger counts the
	// cost; nil: a new one in memory. Services of successive configurations
	// may share it, so that a reload keeps the counters.
	Budgets *policy.Budgets
	Ledger  budget.Ledger

	// Limits defaults to plan.DefaultLimits, Clock to the system clock.
	Limits *plan.Limits
	Clock  dispatch.Clock
	// Stats holds the statistics and breakers of candidates; nil: a new table. Services of
	// different configurations may share it.
	Stats *stats.Table
	// Learned holds the counts of the dispatch policy :learned; nil: a new one in memory.
	Learned *learned.Book
	// Suspends suspends a run with a call that may have had an effect and must not be
	// repeated, until Resume is given a decision (JRN-044). It needs a journal that outlives
	// the host. Without it such a run fails with effects/outcome-unknown.
	Suspends bool
	// Queue holds back runs until a worker is free; nil: they start at once. Classes
	// chooses the class of those that name none; without Names: ShippedClasses.
	Queue   *queue.Queue
	Classes Classes
	// Deadlines are the default and the longest deadlines of requests.
	Deadlines request.Deadlines
	// Retry configures the retries of failed jobs; zero: none.
	Retry Retry
	// Keys are the idempotency keys in use; nil: acts with one are rejected, as they
	// are if the journal is not a KeyFinder. Services of one host share it.
	Keys *Keys
	// Sessions holds the sessions that requests may name; nil: such requests are rejected.
	Sessions *session.Service
	// Cache stores accepted answers of cacheable intents; nil: no answer is stored. Services
	// of one host share it. Answers is the hash of the part of the configuration on which
	// answers depend; it is part of the cache key.
	Cache   *cache.Store
	Answers string
	// Grades caches the verdicts of judges on answers; nil: a cache of this service.
	// Services of one host share it.
	Grades *dispatch.Grades
	// Calibrations returns the weight of the grades of judges; nil: no judge is measured.
	Calibrations dispatch.Calibrations
	// Host and Boot identify this host and this start of it.
	Host, Boot string
	// SecretKey is the key of the hashes that stand for secrets in records, 32 bytes;
	// nil: a new one. Services whose records are compared must share it.
	SecretKey []byte
	// Content selects how much of inputs and outputs transcripts contain; empty: all.
	Content journal.Content
	// Root is the base of relative paths in inputs, unless the act names a
	// directory. Empty leaves paths unchanged.
	Root string
	// Finalize is the time limit for writing the end of a run once its outcome is known; 0:
	// 5 s.
	Finalize time.Duration
	// NewID returns run ids, NewSeed the seeds of runs.
	NewID   func() string
	NewSeed func() int64
	// Panicked, if set, is called with each recovered panic. run is empty before the act has
	// a run id; where names the step.
	Panicked func(run, where string, value any, stack []byte)
}

// Act is one request with its caller.
type Act struct {
	// Request is the envelope, in any accepted spelling.
	Request edn.Value
	// Positions are those of the plan's text, for messages; may be nil.
	Positions *edn.Positions
	// Principal is the caller; empty means the user of this process.
	Principal     string
	PrincipalType string
	// Roles are those of the principal, qualified and without colon. The user
	// of this process, who owns it and its configuration, has role/admin.
	Roles []string
	// Narrow restricts the credential to a part of the principal's rights; nil: no limit.
	Narrow *policy.Narrowing
	// Tenant is the name of the principal's tenant; empty: the host itself.
	Tenant string
	// Also are further principals to which everything that the act does must be permitted,
	// see policy.Caller.
	Also []policy.Caller
	// Decisions are the access decisions that admitted the act. They are recorded with it.
	Decisions []edn.Value
	// TraceParent is the trace context of the caller, which the run joins; empty: none.
	TraceParent string
	// Dir is the working directory of the caller, for relative paths.
	Dir string
	// Stack holds the capabilities that wait for the act, outermost first, when a plugin
	// requests it; else nil. Within are the budget scopes of the calling call. AtLeast
	// permits calls of unknown price in it.
	Stack   []string
	Within  budget.Chain
	AtLeast bool
	// Behalf is the position in a conversation on whose behalf an agent makes the request.
	Behalf dispatch.Behalf
	// Deepest limits the nesting below the calling call.
	Deepest request.Limit
	// Grading marks a request for a judge's verdict on a labelled answer: it
	// counts as a vote, and breakers do not apply to the judge.
	Grading bool
	// Started, if set, is called by Start with a new run before it starts.
	Started func(*Run)
	// Accepted, if set, is called by Start and Do with the id of the run once that is
	// durable (RUN-010), after Started and before a new run starts. It must not block.
	Accepted func(run string)
	// Replayed, if set, is called by the daemon if the response is that of a finished run
	// with the same idempotency key, before the response is read.
	Replayed func()
	// Fill is the recorded run that the act replays; nil: none. See [Service.Fill].
	Fill *Fill
	// Cache selects how the act uses the cache of answers. Cached, if set, is called once if
	// the intent is cacheable: with journal.CacheHit or CacheMiss before the response is
	// available, or with CacheBypass before the act is accepted.
	Cache  CacheUse
	Cached func(outcome string)
	// Watched announces that the run will be read with Watch: a slow reader
	// exerts back pressure on the plugins whose text, values and progress it reads.
	Watched bool
}

// Service runs acts under one configuration. Create it with New. It is safe for
// concurrent use.
type Service struct {
	config   Config
	env      request.Env
	eval     *eval.Evaluator
	shapes   shapes
	prepare  chain
	route    chain
	execute  chain
	finalize chain
	resume   chain
	rebind   chain
	recall   chain
	replay   chain
	// inner and reply are prepare and finalize of a request that a plugin
	// makes within a run: that run is already accepted, and not finished by
	// it.
	inner, reply chain
	// last is finalize of a run whose finalize has failed.
	last chain
	// lead runs leadSteps.
	lead      chain
	flights   flights
	secretive bool                  // a schema marks secrets
	templates map[string]*plan.Plan // of plans, by intent
}

// New returns a service for c. The error is act/middleware-invalid, which names the step
// that cannot be compiled, or that of an invalid plan template of an intent.
func New(c Config) (*Service, error) {
	c.defaults()
	s := &Service{config: c, secretive: hidesSecrets(c.Registry)}
	if c.Registry != nil {
		templates, failed := readTemplates(c.Registry, *c.Limits)
		if failed != nil {
			return nil, failed
		}
		s.templates = templates
	}
	for _, st := range []struct {
		name string
		into *chain
		of   []step
	}{
		{"prepare", &s.prepare, prepareSteps},
		{"route", &s.route, routeSteps},
		{"execute", &s.execute, executeSteps},
		{"finalize", &s.finalize, finalizeSteps},
		{"resume", &s.resume, resumeSteps},
		{"rebind", &s.rebind, rebindSteps},
		{"recall", &s.recall, recallSteps},
		{"replay", &s.replay, replaySteps},
		{"lead", &s.lead, leadSteps},
	} {
		compiled, err := compile(st.name, st.of, s)
		if err != nil {
			return nil, err
		}
		*st.into = compiled
	}
	s.last = s.finalize.without("status", "retry", "respond")
	s.inner = s.prepare.without("confine", "session", "cache", "queue", "accept")
	s.reply = s.finalize.without("retry", "finish")
	return s, nil
}

func (c *Config) defaults() {
	if c.Limits == nil {
		l := plan.DefaultLimits()
		c.Limits = &l
	}
	if c.Routing == nil {
		c.Routing = &routing.Settings{}
	}
	if c.Finalize == 0 {
		c.Finalize = 5 * time.Second
	}
	if c.Content == "" {
		c.Content = journal.ContentFull
	}
	if c.Clock == nil {
		c.Clock = dispatch.SystemClock{}
	}
	if c.Access == nil {
		c.Access = policy.ShippedAccess()
	}
	if c.Ledger == nil {
		c.Ledger = budget.NewMemory(c.Clock.Now)
	}
	if c.Stats == nil {
		c.Stats = &stats.Table{}
	}
	if c.Learned == nil {
		c.Learned = learned.NewBook(nil, nil)
	}
	if c.Grades == nil {
		c.Grades = dispatch.NewGrades(dispatch.MaxGrades)
	}
	if c.Host == "" {
		c.Host = "local"
	}
	if c.SecretKey == nil {
		c.SecretKey = make([]byte, 32)
		_, _ = rand.Read(c.SecretKey) // never fails
	}
	if c.Classes.Names == nil {
		c.Classes = ShippedClasses()
	}
	if c.NewID == nil {
		clock := c.Clock
		c.NewID = func() string {
			return "run_" + ulid.MustNew(ulid.Timestamp(clock.Now()), rand.Reader).String()
		}
	}
	if c.Boot == "" {
		c.Boot = c.NewID()[len("run_"):]
	}
	if c.NewSeed == nil {
		c.NewSeed = func() int64 {
			var b [8]byte
			_, _ = rand.Read(b[:]) // never fails
			return int64(binary.BigEndian.Uint64(b[:]) >> 1)
		}
	}
}

// Start prepares an act and, if it is accepted, starts its run and returns. Canceling
// ctx cancels the run, unless the act has an idempotency key. If another run has that
// key, the result is that run. An error means that no run was created.
func (s *Service) Start(ctx context.Context, a Act) (*Run, *contract.Error) {
	f, err := s.accept(a, false)
	if err != nil {
		return nil, err
	}
	if f.attached != nil {
		a.announce(f)
		return f.shared(), nil
	}
	if f.holds != nil {
		ctx = context.WithoutCancel(ctx) // others may wait for the run (RUN-007)
	}
	r := newRun(ctx, f)
	if f.holds != nil {
		s.config.Keys.settle(f.key, f.holds, r)
	}
	if a.Started != nil {
		a.Started(r)
	}
	a.announce(f)
	go s.launch(r)
	return r, nil
}

// announce passes the id of the run to the callback Act.Accepted.
func (a *Act) announce(f *flight) {
	if a.Accepted != nil {
		a.Accepted(f.id)
	}
}

// launch runs an accepted act to its end, with the retries of a job.
func (s *Service) launch(r *Run) {
	for {
		f := r.flight()
		if s.config.Suspends {
			f.halt = r.cancel
		}
		s.fly(r.ctx, f)
		if f.retryAt.IsZero() {
			break
		}
		if !s.retry(r, f) {
			return
		}
	}
	r.end(s.config.Keys)
}

// caller returns the principal as rules see it.
func (a *Act) caller() policy.Caller {
	return policy.Caller{Name: a.Principal, Roles: a.Roles, Narrow: a.Narrow, Tenant: a.Tenant, Also: a.Also}
}

// flight creates the state of an act.
func (s *Service) flight(a Act) *flight {
	f := &flight{service: s, act: a, also: a.Also, begun: s.config.Clock.Now(), asks: new(interrupt.Table)}
	if a.Principal == "" {
		f.act.Principal, f.act.PrincipalType, f.act.Roles = "local", "local", []string{policy.RoleAdmin}
	}
	f.grant = s.config.Effects.Grant(f.act.caller())
	return f
}

// accept prepares an act. If alone is set, it runs on the goroutine of its
// caller and its records are not published.
func (s *Service) accept(a Act, alone bool) (*flight, *contract.Error) {
	for {
		f, err := s.tryAccept(a, alone)
		if err == nil || !errors.Is(err, ErrKeyTaken) { // else the next try finds that run
			return f, err
		}
	}
}

func (s *Service) tryAccept(a Act, alone bool) (*flight, *contract.Error) {
	f := s.flight(a)
	f.alone = alone
	err := s.stage(s.prepare, f)
	if err == nil && f.failed != nil {
		var again *flight
		if again, err = f.reopenKeyed(); err == nil {
			f = again
		}
	}
	if err != nil && f.holds != nil {
		s.config.Keys.settle(f.key, f.holds, nil)
	}
	if err != nil {
		f.publish()
		if f.id != "" {
			s.config.Journal.Drop(f.id)
		}
		f.closeBudget()
		f.leave()
		return nil, err
	}
	if f.attached != nil {
		f.id = f.attached.ID()
	}
	return f, nil
}

// Do runs an act and returns when it has ended; canceling ctx cancels it. The result is
// always a response envelope. The error is the one in it, nil if the act completed. An act
// with an idempotency key is not canceled with ctx, which then only limits the wait for a
// run that another act started.
func (s *Service) Do(ctx context.Context, a Act) (edn.Value, *contract.Error) {
	if a.Request.HasKey("idempotency/key") {
		r, err := s.Start(ctx, a)
		if err != nil {
			return s.Refusal(a, err), err
		}
		return r.Await(ctx)
	}
	f, err := s.accept(a, true)
	if err != nil {
		return s.Refusal(a, err), err
	}
	a.announce(f)
	s.fly(ctx, f)
	return f.response, f.err
}

// fly runs the remaining stages of an accepted act.
func (s *Service) fly(ctx context.Context, f *flight) {
	ctx, cancel := context.WithDeadline(ctx, f.deadline)
	defer cancel()
	f.ctx = ctx
	defer f.closeBudget()
	defer f.leave()
	defer func() {
		if f.release != nil {
			f.release()
		}
	}()
	defer f.publish()
	if f.place != nil {
		f.asks.Worker = f.place
	}
	s.flights.add(f)
	defer s.flights.remove(f)
	if f.past != nil {
		f.err = s.again(f)
	}
	if f.err == nil {
		defer f.useSession()()
		f.err = f.share()
	}
	if f.err == nil && f.cache.answer == nil {
		f.err = f.perform()
	}
	f.ended = ctx.Err()
	f.end()
	if o := f.cache.outcome; o == journal.CacheHit || o == journal.CacheMiss {
		f.tellCache()
	}
}

// again runs the stages that prepare a run from its records.
func (s *Service) again(f *flight) *contract.Error {
	if err := s.stage(s.resume, f); err != nil {
		return err
	}
	if err := s.stage(s.rebind, f); err != nil {
		return f.unready(err)
	}
	if err := s.stage(s.recall, f); err != nil {
		return f.undecided(err)
	}
	return nil
}

// perform runs the act once it is its turn.
func (f *flight) perform() *contract.Error {
	err := f.await()
	for _, stage := range []chain{f.service.route, f.service.execute} {
		if err == nil {
			err = f.service.stage(stage, f)
		}
	}
	return err
}

// closeBudget releases what the run reserved and did not spend. A suspended run keeps
// its reservations.
func (f *flight) closeBudget() {
	switch a := f.budget.account; {
	case a == nil:
	case f.stopped != nil:
		a.Leave(context.Background())
	default:
		a.Close(context.Background())
	}
}

// stage runs the steps of one stage until one fails or the act is diverted. A panic
// becomes the error runtime/internal.
func (s *Service) stage(c chain, f *flight) (err *contract.Error) {
	name := ""
	defer func() {
		if p := recover(); p != nil {
			if s.config.Panicked != nil {
				s.config.Panicked(f.id, "step "+name, p, debug.Stack())
			}
			err = contract.Errorf("runtime/internal", "step %s panicked: %v", name, p)
		}
	}()
	for _, st := range c {
		name = st.name
		if err := st.run(f); err != nil || f.diverted() {
			return err
		}
	}
	return nil
}
