package sdk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Service implements the wire contract for a plugin. [Serve] creates it; tests
// and programs that serve a plugin differently use [NewService].
type Service struct {
	plugin Plugin
	log    *slog.Logger
	level  *slog.LevelVar
	health *healthBoard
	gate   gate

	configuring sync.Mutex
	setup       atomic.Pointer[setup] // nil before Configure
	hooks       sync.WaitGroup
	life        context.Context // canceled when the plugin ends
	draining    chan struct{}   // closed when the host begins to drain
	drained     sync.Once
	stop        context.CancelCauseFunc
	closed      atomic.Bool
}

var _ wire.Service = (*Service)(nil)

// setup is the state of a configured plugin. It is immutable.
type setup struct {
	given        wire.Setup
	host         *wire.Caller
	config       any
	capabilities map[string]*served
}

// served is a configured capability.
type served struct {
	Capability
	mode string
	slot limiter
}

func newServed(c Capability) *served {
	s := &served{Capability: c, mode: "live"}
	if c.meta.Deterministic {
		s.mode = "deterministic"
	}
	s.slot.most = c.meta.Limits.MaxInFlight
	return s
}

// errStopped is the cause of contexts canceled because the plugin ends.
var errStopped = errors.New("the plugin is ending")

// NewService returns the service of a plugin. A nil log discards everything.
// level may be nil; Configure sets it to the level that the host requests. The
// error lists every problem of the declaration.
func NewService(p Plugin, log *slog.Logger, level *slog.LevelVar) (*Service, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if level == nil {
		level = new(slog.LevelVar)
	}
	s := &Service{plugin: p, log: log, level: level, health: newHealthBoard(), draining: make(chan struct{})}
	s.gate.limit.most = p.MaxInFlight
	s.life, s.stop = context.WithCancelCause(context.Background())
	return s, nil
}

// Describe implements wire.Service.
func (s *Service) Describe(ctx context.Context, config edn.Value, _ wire.HostInfo) (_ wire.Description, err error) {
	defer s.recovered("describe", &err)
	p, err := s.declare((&scope{plugin: s}).in(ctx), config)
	return p.description, err
}

// declaration is the result of applying a configuration to the plugin.
type declaration struct {
	description  wire.Description
	config       any
	capabilities []Capability
}

// declare is the pure part of Describe and Configure.
func (s *Service) declare(ctx context.Context, config edn.Value) (p declaration, err error) {
	full := contract.Description{
		Name:    s.plugin.Name,
		Version: s.plugin.Version,
		Schemas: map[string]edn.Value{},
		Limits:  s.limits(),
	}
	var offer Offer
	switch {
	case s.plugin.Config != nil:
		form, err := s.plugin.Config.form()
		if err != nil {
			return p, contract.Errorf("capability/invalid-metadata", "configuration schema of %s: %w", s.plugin.Name, err).
				WithHint("correct the struct of Config.Default, or give Config a Schema")
		}
		full.ConfigSchema = edn.MustMap(edn.K("config/v"), edn.Int(1), edn.K("config/schema"), form)
		if !config.IsNil() {
			p.config, offer, p.description.Findings = s.offer(ctx, form, config)
		}
	case config.Len() > 0:
		p.description.Findings = problemsOf(errors.New("this plugin takes no configuration"))
	}
	maps.Copy(full.Schemas, s.plugin.Schemas)
	maps.Copy(full.Schemas, offer.Schemas)
	full.Needs = sorted(append(slices.Clone(s.plugin.Needs), offer.Needs...))
	full.Ports = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.plugin.Ports, offer.Ports))))
	p.capabilities = append(slices.Clone(s.plugin.Capabilities), offer.Capabilities...)
	if err := s.advertise(&full, p.capabilities); err != nil {
		return p, err
	}
	p.description.Value = full.Value()
	return p, nil
}

// offer decodes a configuration and calls the author's Offer.
func (s *Service) offer(ctx context.Context, form, config edn.Value) (cfg any, o Offer, findings []schema.Finding) {
	if cfg, findings = s.plugin.Config.decode(form, config); len(findings) > 0 {
		return nil, o, findings
	}
	o, err := s.plugin.Config.offer(ctx, cfg)
	return cfg, o, problemsOf(err)
}

// advertise adds the capabilities, their derived schemas and the features to
// the description.
func (s *Service) advertise(full *contract.Description, capabilities []Capability) error {
	if err := validateCapabilities(capabilities); err != nil {
		return contract.Errorf("capability/invalid-metadata", "capabilities of %s: %w", s.plugin.Name, err)
	}
	streams := false
	for _, c := range capabilities {
		meta, derived := c.describe(s.plugin.Version)
		full.Capabilities = append(full.Capabilities, meta)
		maps.Copy(full.Schemas, derived)
		streams = streams || meta.Streams
	}
	full.Features = slices.Clone(s.plugin.Features)
	full.Features = append(full.Features, FeatureMux)
	if streams {
		full.Features = append(full.Features, FeatureStreaming)
	}
	slices.Sort(full.Features)
	full.Features = slices.Compact(full.Features)
	return nil
}

// Features of a description: the optional parts of the contract.
const (
	// FeatureStreaming: a capability of the plugin sends deltas.
	FeatureStreaming = "streaming"
	// FeatureMux: the plugin serves many calls over one stream. Every plugin of
	// this package does.
	FeatureMux = wire.FeatureMux
	// FeatureHostCalls: the plugin calls other intents through the host. State needs no feature.
	FeatureHostCalls = "host-calls"
	// FeatureHotSwap: two instances of the plugin can serve at the same time,
	// so that one can replace the other without a gap.
	FeatureHotSwap = "hot-swap"
)

func (s *Service) limits() edn.Value {
	if s.plugin.MaxInFlight == 0 {
		return edn.Nil()
	}
	return edn.MustMap(edn.K("max-in-flight"), edn.Int(int64(s.plugin.MaxInFlight)))
}

// Configure implements wire.Service.
func (s *Service) Configure(ctx context.Context, given wire.Setup, host *wire.Caller) (d wire.Description, err error) {
	defer s.recovered("configure", &err)
	s.configuring.Lock()
	defer s.configuring.Unlock()
	switch {
	case s.setup.Load() != nil:
		return d, contract.Errorf("runtime/protocol", "configure: the plugin is already configured").
			WithHint("start another process for another configuration")
	case s.closed.Load():
		return d, contract.Errorf("runtime/protocol", "configure: the plugin is shutting down").
			WithHint("start another process")
	}
	s.level.Set(levelOf(given.LogLevel))
	next := &setup{given: given, host: host}
	ctx = (&scope{plugin: s, setup: next}).in(ctx)
	config, err := withSecrets(given.Config, given.Secrets)
	if err != nil {
		return d, err
	}
	if config.IsNil() {
		config = edn.MustMap()
	}
	p, err := s.declare(ctx, config)
	d = p.description
	if err != nil || len(d.Findings) > 0 {
		return d, err
	}
	next.config = p.config
	next.capabilities = make(map[string]*served, len(p.capabilities))
	for _, c := range p.capabilities {
		next.capabilities[c.ID()] = newServed(c)
	}
	if s.plugin.Config != nil {
		if err := s.plugin.Config.start(ctx, p.config); err != nil {
			var r *refused
			if errors.As(err, &r) {
				d.Findings = r.findings
				return d, nil
			}
			return d, typed(err, "runtime/start-failed", "configure")
		}
	}
	s.setup.Store(next)
	s.watchHealth(next)
	return d, nil
}

// watchHealth starts the author's health hook; without one the state becomes
// ready.
func (s *Service) watchHealth(next *setup) {
	if s.plugin.Health == nil {
		s.health.set(Ready())
		return
	}
	s.health.set(Status{State: wire.HealthStarting, Reason: "starting"})
	ctx := (&scope{plugin: s, setup: next}).in(s.life)
	s.hooks.Go(func() {
		var err error
		defer func() {
			if err != nil {
				s.health.set(NotReady(err.Error()))
			}
		}()
		defer s.recovered("health", &err)
		s.plugin.Health(ctx, s.health.set)
	})
}

// Health implements wire.Service.
func (s *Service) Health(ctx context.Context, send func(wire.Health) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	return s.health.watch(ctx, func(h Status) Status {
		h.InFlight = s.gate.inFlight()
		if s.gate.isClosed() {
			h.State, h.Reason = wire.HealthDraining, "draining"
		}
		return h
	}, send)
}

// EndRun implements wire.Service.
func (s *Service) EndRun(ctx context.Context, run string) (err error) {
	if s.plugin.EndRun == nil {
		return nil
	}
	defer s.recovered("end run", &err)
	return s.plugin.EndRun((&scope{plugin: s, setup: s.setup.Load()}).in(ctx), run)
}

// Drain implements wire.Service.
func (s *Service) Drain(ctx context.Context, deadline time.Time, reason string) (int, error) {
	s.log.Debug("draining", "reason", reason, "in_flight", s.gate.inFlight())
	s.gate.close()
	s.drained.Do(func() { close(s.draining) })
	s.health.set(Status{State: wire.HealthDraining, Reason: "draining"})
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return s.gate.drain(ctx), nil
}

// Close cancels the calls in flight, runs the Close hook and waits for the
// plugin's goroutines until ctx ends. Further calls do nothing.
func (s *Service) Close(ctx context.Context) (err error) {
	if s.closed.Swap(true) {
		return nil
	}
	set := s.setup.Load()
	defer s.recovered("close", &err)
	s.stop(errStopped)
	s.gate.close()
	s.gate.cancelAll(errStopped)
	s.gate.wait(ctx)
	if s.plugin.Close != nil {
		err = s.plugin.Close((&scope{plugin: s, setup: set}).in(ctx))
	}
	done := make(chan struct{})
	go func() { defer close(done); s.hooks.Wait() }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	if set != nil && set.host != nil {
		err = errors.Join(err, set.host.Close())
	}
	return err
}

// typed returns a typed or context error unchanged and gives any other error
// the type kind.
func typed(err error, kind, op string) error {
	var e *contract.Error
	if errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	made := contract.Errorf(kind, "%s: %w", op, err)
	if errors.Is(err, fs.ErrPermission) {
		return made.WithHint(permissionHint)
	}
	return made
}

// permissionHint explains errors of a plugin that works by itself but not under
// a host, where the kernel denies what was not declared.
const permissionHint = "the process may do what the plugin declares as its needs and effects " +
	"and the operator grants, nothing else"

func levelOf(name string) slog.Level {
	switch name {
	case "trace":
		return levelTrace
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// withSecrets inserts the secrets into the configuration at their paths.
func withSecrets(config, secrets edn.Value) (edn.Value, error) {
	if secrets.IsNil() {
		return config, nil
	}
	if config.IsNil() {
		config = edn.MustMap()
	}
	for path, text := range secrets.Entries() {
		steps := slices.Collect(path.Elems())
		placed, err := config.AssocIn(steps, text)
		if err != nil {
			return edn.Nil(), fmt.Errorf("configure: place secret %s: %w", path, err)
		}
		config = placed
	}
	return config, nil
}
