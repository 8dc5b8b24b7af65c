package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	words "github.com/fermenthq/ferment/sdk/text"
)

// Session takes the checks of one plugin, one after the other, and remembers how
// far the plugin gets: if it does not start, does not say what it is, or cannot be
// configured, one check says so and those that would only meet the same obstacle
// are not made. They fail, and [Result.Blocked] names the one that says why. Checks
// that only make calls share an instance. A Session is for one goroutine; Close ends it.
type Session struct {
	target   Target
	opts     Options
	plugin   contract.Description
	profiles []string
	early    map[string]Result // of checks that were taken before their turn
	obstacle *obstacle
	hangs    bool // calls of the plugin do not end
	secrets  *words.Secrets

	described string // what the first instance said of itself
	loan      loan
}

// Open starts the plugin once, to learn which profiles it comes under and how far
// it gets. ctx bounds that.
func Open(ctx context.Context, target Target, opts Options) *Session {
	s := &Session{target: target, opts: opts, early: map[string]Result{}}
	reached := s.probe(ctx)
	s.secrets = secretsOf(s.plugin.ConfigSchema, opts)
	s.profiles = opts.Profiles
	if len(s.profiles) == 0 {
		s.profiles = ProfilesOf(s.plugin)
	}
	// The order of the report does not depend on that of the wishes.
	wanted := s.profiles
	s.profiles = slices.DeleteFunc(slices.Clone(Profiles()), func(p string) bool { return !slices.Contains(wanted, p) })
	if reached != everything && ctx.Err() == nil {
		s.confirm(ctx, reached)
	}
	return s
}

// Plugin is what the plugin said about itself; empty if it did not.
func (s *Session) Plugin() contract.Description { return s.plugin }

// Profiles are those that are checked.
func (s *Session) Profiles() []string { return s.profiles }

// Checks are those to take, in the order in which they are reported.
func (s *Session) Checks() []Check {
	return slices.DeleteFunc(ChecksOf(s.profiles...), func(c Check) bool {
		return s.opts.Only != nil && !s.opts.Only.MatchString(c.ID)
	})
}

// Close stops the plugin. No check may be taken afterwards.
func (s *Session) Close() { s.loan.end() }

// Take takes one check. Its result shows no secret of the configuration.
func (s *Session) Take(ctx context.Context, check Check) Result {
	if result, ok := s.early[check.ID]; ok {
		delete(s.early, check.ID)
		return result.without(s.secrets)
	}
	limit := checkLimit
	if s.obstacle != nil {
		limit = blockedLimit
	}
	result, used := take(ctx, s.target, check, s.opts, limit, s.past)
	if result.Status != Pass {
		s.loan.end()
	}
	if result.Status == Fail && used {
		result, _ = take(ctx, s.target, check, s.opts, limit, s.past)
	}
	return result.without(s.secrets)
}

// past gives a bench what is known of the plugin.
func (s *Session) past(b *bench) {
	b.obstacle, b.described, b.loan = s.obstacle, s.described, &s.loan
	if s.hangs {
		b.patience.call = s.opts.long(hangingCall)
	}
}

// stage is how far a plugin gets on the way to its first answer.
type stage int

const (
	starting stage = iota + 1
	describing
	offering
	configuring
	readying
	answering
	everything
)

// tell are the checks that say of a stage that the plugin does not get over it.
func (s stage) tell() []string {
	return map[stage][]string{
		starting:    {"core/start/certificate", "core/describe/bare"},
		describing:  {"core/describe/bare", "core/describe/metadata"},
		offering:    {"core/describe/metadata"},
		configuring: {"core/configure/agrees"},
		readying:    {"core/health/ready"},
		answering:   {"core/invoke/answer"},
	}[s]
}

// obstacle is a stage that a plugin does not get over, and the check that says so.
type obstacle struct {
	at    stage
	check string
}

// The times of a plugin that gets stuck. That it does is seen twice, the second
// time with more patience; after that nobody waits for it long.
const (
	probeLimit   = 10 * time.Second // for each stage, first
	confirmLimit = 20 * time.Second // for the check that tells it
	blockedLimit = 5 * time.Second  // for each of the others
	probeCall    = 5 * time.Second  // for a first call, whose duration is the plugin's business
	hangingCall  = time.Second      // for calls of a plugin that let two hang
)

// probe takes the plugin as far as it gets and gives the stage that it does not
// get over, or everything.
func (s *Session) probe(ctx context.Context) (at stage) {
	b := newBench(s.target, s.opts)
	defer b.cleanUp()
	at = starting
	err := b.guard(func() error {
		in, err := within(ctx, s.opts.long(probeLimit), func(ctx context.Context) (Instance, error) { return b.start(ctx) })
		if err != nil {
			return err
		}
		at = describing
		if s.plugin, err = within(ctx, s.opts.long(probeLimit), func(ctx context.Context) (contract.Description, error) {
			raw, d, err := b.describe(ctx, in, b.config())
			if err == nil {
				s.described = raw.Value.String()
			}
			return d, err
		}); err != nil {
			s.plugin = contract.Description{}
			return err
		}
		at = offering
		if len(s.plugin.Capabilities) == 0 {
			return want("at least one capability", "none")
		}
		at = configuring
		if _, err := within(ctx, s.opts.long(probeLimit), func(ctx context.Context) (any, error) { return b.configure(ctx, in) }); err != nil {
			return err
		}
		at = readying
		if err := b.awaitReady(ctx, in); err != nil {
			return err
		}
		at = answering
		return s.probeCall(ctx, b, in)
	})
	switch {
	case err == nil:
		return everything
	case errors.As(err, new(*fault)): // says nothing about the plugin
		return everything
	}
	return at
}

// probeCall makes one call and fails if it does not end, whatever it ends in.
func (s *Session) probeCall(ctx context.Context, b *bench, in Instance) error {
	c := s.plugin.Capabilities[0]
	limit := s.opts.long(probeCall)
	call := b.callContext(c)
	call.Deadline = time.Now().Add(limit)
	_, _ = in.Client().Invoke(ctx, call, request(c, b.input(s.plugin, c)), nil)
	if time.Now().Before(call.Deadline) {
		return nil
	}
	return want("a call ends", "it does not within %s", limit)
}

// confirm takes the check that tells that the plugin does not get over a stage.
// If it fails too, that is so.
func (s *Session) confirm(ctx context.Context, at stage) {
	for _, check := range s.Checks() {
		if !slices.Contains(at.tell(), check.ID) || (check.Process && !startsProcesses(s.target)) {
			continue
		}
		result, _ := take(ctx, s.target, check, s.opts, confirmLimit, func(*bench) {})
		if result.Status != Fail {
			continue
		}
		s.early[check.ID] = result
		if at == answering {
			s.hangs = result.Took >= newBench(s.target, s.opts).call
		} else {
			s.obstacle = &obstacle{at: at, check: check.ID}
		}
		return
	}
}

// within bounds one step.
func within[T any](ctx context.Context, limit time.Duration, do func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// blocked is the error of a check that meets an obstacle which another check
// tells of.
type blocked struct{ by string }

func (e *blocked) Error() string {
	return "not made: the plugin does not get this far, see " + e.by
}

// blocked is the obstacle that the plugin is known not to get over at a stage.
func (b *bench) blocked(at stage) error {
	if b.obstacle != nil && b.obstacle.at == at {
		return &blocked{by: b.obstacle.check}
	}
	return nil
}
