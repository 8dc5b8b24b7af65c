package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/schema"
	words "github.com/fermenthq/ferment/sdk/text"
)

// Session runs the checks of one plugin in sequence and records how far the
// plugin gets: if it does not start, does not describe itself, or cannot be
// configured, one check reports that and the checks that would fail for the
// same reason do not run. They fail, and [Result.Blocked] names that check. Checks
// that only make calls share an instance. A Session is not safe for concurrent use;
// Close ends it.
type Session struct {
	target   Target
	opts     Options
	plugin   contract.Description
	profiles []string
	early    map[string]Result // of checks that ran before their turn
	obstacle *obstacle
	hangs    bool // calls of the plugin do not end
	hanging  hanging
	secrets  *words.Secrets

	output    output // what the instances printed
	described string // description of the first instance
	loan      loan
}

// Open starts the plugin once, to determine its profiles and whether it starts,
// describes itself and can be configured. ctx limits this step. The caller must
// close the session.
func Open(ctx context.Context, target Target, opts Options) *Session {
	s := &Session{target: target, opts: opts, early: map[string]Result{}}
	at := s.probe(ctx)
	s.secrets = secretsOf(s.plugin.ConfigSchema, s.opts)
	s.profiles = opts.Profiles
	if len(s.profiles) == 0 {
		s.profiles = profilesOf(s.plugin)
	}
	// The order of the report does not depend on the order of opts.Profiles.
	wanted := s.profiles
	s.profiles = slices.DeleteFunc(slices.Clone(Profiles()), func(p string) bool { return !slices.Contains(wanted, p) })
	if at != everything && ctx.Err() == nil {
		s.confirm(ctx, at)
	}
	return s
}

// Plugin returns the description of the plugin; empty if it has none.
func (s *Session) Plugin() contract.Description { return s.plugin }

// Profiles returns the profiles to check.
func (s *Session) Profiles() []string { return s.profiles }

// Checks returns the checks to run, in the order in which they are reported.
func (s *Session) Checks() []Check {
	return slices.DeleteFunc(ChecksOf(s.profiles...), func(c Check) bool {
		return s.opts.Only != nil && !s.opts.Only.MatchString(c.ID)
	})
}

// Close stops the shared instance. No check may run afterwards.
func (s *Session) Close() { s.loan.end() }

// Take runs one check. Its result contains no secret of the configuration.
func (s *Session) Take(ctx context.Context, check Check) Result {
	if result, ok := s.early[check.ID]; ok {
		delete(s.early, check.ID)
		return result.without(s.secrets)
	}
	if check.last {
		s.loan.end()
	}
	limit := checkLimit
	if s.obstacle != nil {
		limit = blockedLimit
	}
	var last *bench
	know := func(b *bench) {
		s.past(b)
		last = b
	}
	result, used := take(ctx, s.target, check, s.opts, limit, know)
	if result.Status != Pass {
		s.loan.end()
	}
	if result.Status == Fail && used && result.Blocked == "" {
		result, _ = take(ctx, s.target, check, s.opts, limit, know)
	}
	if result.Status == Fail && last != nil {
		s.hanging.remember(&last.hanging, check.ID)
	}
	return result.without(s.secrets)
}

// past initializes a bench with the results of earlier checks.
func (s *Session) past(b *bench) {
	b.obstacle, b.described, b.loan, b.output = s.obstacle, s.described, &s.loan, &s.output
	b.hanging.known, b.hanging.slow = s.hanging.known, s.hanging.slow
	if s.hangs {
		b.patience.call = s.opts.long(hangingCall)
	}
}

// stage is a step on the way to the first answer of a plugin.
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

// tell returns the checks that report a failure at a stage.
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

// obstacle is a stage at which a plugin fails, and the check that reports it.
type obstacle struct {
	at    stage
	check string
}

// Time limits for a plugin that gets stuck. The failure is observed twice, the
// second time with more patience; after that the limits are short.
const (
	probeLimit   = 10 * time.Second // for each stage, first
	confirmLimit = 20 * time.Second // for the check that reports it
	blockedLimit = 5 * time.Second  // for each of the others
	probeCall    = 5 * time.Second  // for a first call, of arbitrary duration
	hangingCall  = time.Second / 2  // for calls of a plugin on which two calls hung
)

// probe runs the plugin through the stages and returns the one at which it
// fails, or everything.
func (s *Session) probe(ctx context.Context) (at stage) {
	b := newBench(s.target, s.opts)
	b.output = &s.output
	defer b.cleanUp()
	at = starting
	err := b.guard(func() error {
		in, err := within(ctx, s.opts.long(probeLimit), func(ctx context.Context) (Instance, error) { return b.start(ctx) })
		if err != nil {
			return err
		}
		at = describing
		if !s.opts.Config.IsNil() {
			settings, err := within(ctx, s.opts.long(probeLimit),
				func(ctx context.Context) (*schema.Schema, error) { return b.settings(ctx, in) })
			if err == nil { // else a check reports it
				s.opts = s.opts.withSecretsApart(settings)
				b.opts = s.opts
			}
		}
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
		if _, err := within(ctx, s.opts.long(probeLimit),
			func(ctx context.Context) (any, error) { return b.configure(ctx, in) }); err != nil {
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
	case errors.As(err, new(*fault)): // not a fault of the plugin
		return everything
	}
	return at
}

// probeCall makes one call and fails if it does not end, in whatever result.
func (s *Session) probeCall(ctx context.Context, b *bench, in Instance) error {
	c := s.plugin.Capabilities[0]
	limit := s.opts.long(probeCall)
	call := b.callContext(c)
	call.Deadline = time.Now().Add(limit)
	_, _ = in.Client().Invoke(ctx, call, request(c, b.input(s.plugin, c)), nil)
	if reached(call.Deadline) {
		return want("a call ends", "it does not within %s", limit)
	}
	return nil
}

// confirm runs the check that reports the failure at a stage. If that fails
// too, the obstacle is recorded.
func (s *Session) confirm(ctx context.Context, at stage) {
	for _, check := range s.Checks() {
		if !slices.Contains(at.tell(), check.ID) || (check.Process && !startsProcesses(s.target)) {
			continue
		}
		var last *bench
		result, _ := take(ctx, s.target, check, s.opts, confirmLimit, func(b *bench) { last = b })
		if result.Status != Fail {
			continue
		}
		s.early[check.ID] = result
		if at == answering {
			s.hangs = result.Took+clockSlack >= newBench(s.target, s.opts).call
			s.hanging.remember(&last.hanging, check.ID)
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

// blocked is the error of a check that fails for a reason that another check
// reports.
type blocked struct {
	by    string
	hangs bool // calls do not end
	late  bool // the run has reached its limit
}

func (e *blocked) Error() string {
	if e.hangs {
		return "not run: calls do not end, see " + e.by
	}
	if e.late {
		return "not run: no time is left, see " + e.by
	}
	return "not run: the plugin does not get this far, see " + e.by
}

// blocked returns the obstacle that is recorded for a stage.
func (b *bench) blocked(at stage) error {
	if b.obstacle != nil && b.obstacle.at == at {
		return &blocked{by: b.obstacle.check}
	}
	return nil
}
