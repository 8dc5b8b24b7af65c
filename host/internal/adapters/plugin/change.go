package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Change lists what changes in the plugins of a supervisor. A plugin is named
// at most once; plugins that are not named stay as they are.
type Change struct {
	// Cause is the cause of the resulting transitions; empty: CauseReload.
	Cause Cause
	// Start are new plugins.
	Start []Settings
	// Replace are plugins that get a new edition, whose processes replace the
	// running ones.
	Replace []Settings
	// Update are plugins whose processes are kept. Their settings may differ only in those that can
	// change while a process runs: limits, times, log level, restart, health, pool sizes, swap.
	Update []Settings
	// Remove are plugins that are removed from the configuration.
	Remove []string
	// Optional names plugins of Start whose failure does not fail the change;
	// they keep restarting.
	Optional map[string]bool
}

// Empty reports whether the change has no plugins.
func (c Change) Empty() bool {
	return len(c.Start)+len(c.Replace)+len(c.Update)+len(c.Remove) == 0
}

// ChangeError is the error of a change that fails because of one plugin.
type ChangeError struct {
	Plugin string
	Err    *contract.Error
}

// Error implements error.
func (e *ChangeError) Error() string { return "plugin " + e.Plugin + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *ChangeError) Unwrap() error { return e.Err }

// Plan compares the running plugins with the wanted ones, by their settings and by the current
// content of their programs and configuration files, and returns the required change. It changes
// nothing. The error is that of invalid settings or of a repeated name.
func (s *Supervisor) Plan(want []Settings) (Change, error) {
	var c Change
	named := map[string]bool{}
	for _, w := range want {
		if err := w.Validate(); err != nil {
			return c, err
		}
		if named[w.Name] {
			return c, fmt.Errorf("plan a change: two plugins have the name %q", w.Name)
		}
		named[w.Name] = true
		s.mu.Lock()
		u := s.units[w.Name]
		s.mu.Unlock()
		switch {
		case u == nil:
			c.Start = append(c.Start, w)
		case u.outdated(w):
			c.Replace = append(c.Replace, w)
		case !sameSettings(u.settings(), w):
			c.Update = append(c.Update, w)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.units)) {
		if !named[name] {
			c.Remove = append(c.Remove, name)
		}
	}
	return c, nil
}

// settings returns the settings of the current edition.
func (u *unit) settings() Settings {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.current.settings()
}

// outdated reports whether the plugin needs new processes for the wanted
// settings.
func (u *unit) outdated(want Settings) bool {
	u.mu.Lock()
	e := u.current
	u.mu.Unlock()
	if !sameSettings(fixed(e.settings()), fixed(want)) {
		return true
	}
	d := e.described.Load()
	if d == nil {
		return false
	}
	if want.Config.IsNil() {
		want.Config = edn.MustMap()
	}
	binary, cfg, err := u.host.describer.key(want, want.Config, want.ConfigFiles)
	return err != nil || binary != d.Binary || cfg != d.Config
}

// fixed returns the part of the settings that cannot change while a process
// runs. It includes every setting that is not listed as changeable.
func fixed(s Settings) Settings {
	usable := DefaultSettings(s.Name)
	s.StartTimeout, s.ConfigureTimeout = usable.StartTimeout, usable.ConfigureTimeout
	s.StopGrace, s.DrainTimeout, s.CancelGrace = usable.StopGrace, usable.DrainTimeout, usable.CancelGrace
	s.MaxInFlight, s.Queue, s.CallDepth, s.LogLevel = 0, 0, 0, ""
	s.Restart, s.Health, s.Swap = usable.Restart, usable.Health, usable.Swap
	s.Approved, s.ApprovedParts = "", nil // the hash of the program is compared instead
	s.Instances = Instances{MaxCalls: s.Instances.MaxCalls}
	return s
}

// sameSettings compares all settings except the description, which follows from the others.
func sameSettings(a, b Settings) bool {
	if !sameValue(a.Config, b.Config) || !sameValue(a.Secrets, b.Secrets) || !slices.Equal(a.Command, b.Command) ||
		!slices.Equal(a.Files, b.Files) || !maps.Equal(a.Env, b.Env) || !slices.Equal(a.EnvPass, b.EnvPass) ||
		!slices.Equal(a.ConfigFiles, b.ConfigFiles) {
		return false
	}
	for _, s := range []*Settings{&a, &b} {
		s.Config, s.Secrets, s.Described = edn.Nil(), edn.Nil(), edn.Nil()
		s.Command, s.Files, s.Env, s.EnvPass, s.ConfigFiles = nil, nil, nil, nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// sameValue reports whether a and b are equal; nil equals an empty map.
func sameValue(a, b edn.Value) bool { return edn.Equal(a, b) || a.Len() == 0 && b.Len() == 0 }

// Prepared is a change whose new processes are running but do not receive calls yet. The caller
// must call Commit or Rollback; only the first call of either has an effect.
type Prepared struct {
	supervisor *Supervisor
	change     Change
	staged     []staged
	update     []*unit // the plugins of change.Update
	remove     []*unit // the plugins of change.Remove
	once       sync.Once
	done       chan struct{}
}

// staged is an edition that is about to become the current one.
type staged struct {
	unit     *unit
	edition  *edition
	fresh    bool // the plugin is also new
	optional bool
}

// Prepare starts the new processes beside the running ones: when it returns,
// each is described, configured and ready, and no call is routed to it. The
// change fails if a process has another description than its settings, rejects
// its configuration, ends, or is not ready when ctx ends; then all new
// processes are stopped in reverse order. The error is a [ChangeError] if a
// plugin is at fault. A process of an Optional plugin that is not ready does not
// fail the change.
//
// One change is in progress at a time: Prepare blocks until the one before is
// committed or rolled back, or ctx ends.
func (s *Supervisor) Prepare(ctx context.Context, c Change) (*Prepared, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	if c.Cause == "" {
		c.Cause = CauseReload
	}
	p := &Prepared{supervisor: s, change: c, done: make(chan struct{})}
	err := p.check()
	if err == nil {
		err = p.stage(ctx)
	}
	if err == nil {
		err = p.await(ctx)
	}
	if err != nil {
		p.Rollback()
		return nil, err
	}
	return p, nil
}

// begin waits until no other change is in progress, or ctx ends.
func (s *Supervisor) begin(ctx context.Context) error {
	select {
	case s.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return contract.Errorf("runtime/not-ready", "change plugins: another change is under way: %v", context.Cause(ctx))
	}
}

// check finds errors in the change before a process is started.
func (p *Prepared) check() error {
	s, c := p.supervisor, p.change
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("change plugins: the supervisor is closed")
	}
	var all []error
	named := map[string]bool{}
	once := func(name string, there bool) *unit {
		u := s.units[name]
		switch {
		case named[name]:
			all = append(all, fmt.Errorf("change plugins: %q is named twice", name))
		case there && u == nil:
			all = append(all, fmt.Errorf("change plugins: there is no plugin %q", name))
		case !there && u != nil:
			all = append(all, fmt.Errorf("change plugins: there is a plugin %q already", name))
		}
		named[name] = true
		return u
	}
	for _, list := range [][]Settings{c.Start, c.Replace, c.Update} {
		for _, settings := range list {
			if err := settings.Validate(); err != nil {
				all = append(all, err)
			}
		}
	}
	for _, settings := range c.Start {
		once(settings.Name, false)
	}
	for _, settings := range c.Replace {
		once(settings.Name, true)
	}
	for _, settings := range c.Update {
		if u := once(settings.Name, true); u != nil {
			if !sameSettings(fixed(u.settings()), fixed(settings)) {
				all = append(all, fmt.Errorf("change plugins: internal error: the changes of %q need new processes", settings.Name))
			}
			p.update = append(p.update, u)
		}
	}
	for _, name := range c.Remove {
		p.remove = append(p.remove, once(name, true))
	}
	return errors.Join(all...)
}

// stage starts the processes.
func (p *Prepared) stage(ctx context.Context) error {
	for _, settings := range p.change.Start {
		u, fresh, err := p.supervisor.unitFor(ctx, settings.Name)
		if err != nil {
			return err
		}
		p.add(staged{unit: u, fresh: fresh, optional: p.change.Optional[settings.Name]}, settings)
	}
	for _, settings := range p.change.Replace {
		u, err := p.supervisor.unit(settings.Name)
		if err != nil {
			return err
		}
		p.add(staged{unit: u}, settings)
	}
	return nil
}

func (p *Prepared) add(st staged, settings Settings) {
	st.edition = st.unit.edition(settings, p.change.Cause)
	p.staged = append(p.staged, st)
	st.edition.populate(1)
}

// unitFor returns the unit of a new plugin. A removed unit that still serves clients is reused
// (fresh is false). If the old unit is being stopped, unitFor waits for its end, because its log
// and directories have the same name.
func (s *Supervisor) unitFor(ctx context.Context, name string) (u *unit, fresh bool, err error) {
	for {
		s.mu.Lock()
		old := s.leaving[name]
		s.mu.Unlock()
		if old == nil {
			u, err = s.newUnit(name)
			return u, true, err
		}
		old.mu.Lock()
		closed := old.closed
		old.mu.Unlock()
		if !closed {
			return old, false, nil
		}
		select {
		case <-old.removedDone:
		case <-ctx.Done():
			return nil, false, &ChangeError{name,
				contract.Errorf("runtime/not-ready", "its processes of an earlier configuration are still running: %v",
					context.Cause(ctx))}
		}
	}
}

// await waits for all processes in parallel. The first failure of a plugin that is not optional
// ends the wait and is returned.
func (p *Prepared) await(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	var once sync.Once
	var failed error
	for _, st := range p.staged {
		wait.Go(func() {
			if err := st.edition.await(ctx); err != nil && !st.optional {
				once.Do(func() { failed = &ChangeError{st.unit.name, contract.AsError(err)} })
				cancel()
			}
		})
	}
	wait.Wait()
	return failed
}

// await waits until the working processes of a new edition accept calls. It returns the first
// failure and does not wait for a restart.
func (e *edition) await(ctx context.Context) error {
	u := e.unit
	for {
		u.mu.Lock()
		failed, ready := e.progress()
		changed := u.changed
		u.mu.Unlock()
		switch {
		case failed != nil:
			return failed
		case ready:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			st := e.worst()
			return contract.Errorf("runtime/not-ready", "the new process is still %s: %v", st.State, context.Cause(ctx)).
				WithCause(st.Err)
		}
	}
}

// progress returns the first failure of a working process, and whether all of them accept calls.
// The caller holds u.mu.
func (e *edition) progress() (failed *contract.Error, ready bool) {
	ready = true
	for _, i := range e.instances {
		if i.role != Working || i.open != nil {
			continue
		}
		ready = false
		switch st := i.status.Load(); {
		case i.leaving:
			return contract.Errorf("runtime/not-ready", "plugin %s is being stopped", e.unit.name), false
		case st.State == Backoff, st.State == Quarantined, st.State == Degraded, st.State == Stopped && st.Generation > 0:
			return notServing(e.unit.name, st.State, st.Err), false
		}
	}
	return nil, ready && !e.leaving
}

// worst returns the status of an instance that is not callable yet.
func (e *edition) worst() Status {
	e.unit.mu.Lock()
	defer e.unit.mu.Unlock()
	for _, i := range e.instances {
		if i.role == Working && i.open == nil {
			return *i.status.Load()
		}
	}
	return e.face()
}

// Rollback stops the processes that Prepare started, in reverse order, and returns when they have
// ended. It does nothing after Commit.
func (p *Prepared) Rollback() {
	p.once.Do(func() {
		for _, st := range slices.Backward(p.staged) {
			if st.fresh {
				st.unit.close(CauseAbandon)
				<-st.unit.over
				_ = st.unit.log.close() // its log would stay open otherwise
				continue
			}
			st.unit.abandon(st.edition, CauseAbandon)
		}
		close(p.done)
		<-p.supervisor.changing
	})
}

// Commit makes the new editions current, updates the settings of running processes, and drains and
// stops the processes that were replaced or removed. It does not wait for their end; the returned
// channel is closed then. No call fails or waits because of Commit: calls in flight end in their
// process, and waiting calls move to the new one. Commit cannot fail and cannot be undone: if a new
// process has ended since Prepare, the old ones serve until it is ready again.
//
// With a swap mode other than direct, the old edition stays current until the trial of the new one
// is over, if both have the same description.
func (p *Prepared) Commit() <-chan struct{} {
	p.once.Do(func() {
		s := p.supervisor
		s.mu.Lock()
		for _, st := range p.staged {
			delete(s.leaving, st.unit.name)
			s.units[st.unit.name] = st.unit
		}
		for _, u := range p.remove {
			delete(s.units, u.name)
			s.leaving[u.name] = u
		}
		closed := s.closed
		s.mu.Unlock()
		var rest []func()
		for _, st := range p.staged {
			finish := s.install(st, p.change.Cause)
			rest = append(rest, func() { _ = finish(s.life) }) // the result is in the log and the transitions
		}
		for n, u := range p.update {
			u.update(p.change.Update[n])
		}
		for _, u := range p.remove {
			rest = append(rest, s.drainRemoved(u))
		}
		if closed { // Close ran before the new units were registered
			for _, st := range p.staged {
				st.unit.close(CauseStop)
			}
		}
		<-s.changing
		s.background(func() {
			var all sync.WaitGroup
			for _, do := range rest {
				all.Go(do)
			}
			all.Wait()
			close(p.done)
		})
	})
	return p.done
}

// background runs work that follows a change; Close waits for it.
func (s *Supervisor) background(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go f()
		return
	}
	s.later.Go(f)
}

// install makes a new edition current, or starts its trial. The returned function waits until that
// is over and the replaced processes have ended; its error is the reason if the old edition stays.
// If its ctx ends first, an edition that is not yet current is stopped.
func (s *Supervisor) install(st staged, cause Cause) func(context.Context) error {
	u, e := st.unit, st.edition
	u.mu.Lock()
	u.removed = false
	u.stopTrial(contract.Errorf("runtime/not-ready", "plugin %s: a newer edition replaced the one on trial", u.name))
	before := u.current
	swap := e.settings().Swap
	tried := before != nil && swap.Mode != SwapDirect && len(before.ready) > 0 && before.describesLike(e)
	u.mu.Unlock()
	u.log.setLevel(e.settings().LogLevel)
	switch {
	case before == nil:
		u.promote(e, cause)
		return func(context.Context) error { return nil }
	case tried:
		t := u.try(e, swap, cause)
		return func(ctx context.Context) error { return u.outcome(ctx, t) }
	case u.promoteReady(e, cause):
		return func(ctx context.Context) error {
			select {
			case <-before.over:
			case <-ctx.Done(): // it ends in the background
			}
			return nil
		}
	}
	return func(ctx context.Context) error { return u.promoteLater(ctx, e, before, cause) }
}

// promoteReady promotes the edition if it can accept a call, and reports whether it did.
func (u *unit) promoteReady(e *edition, cause Cause) bool {
	u.mu.Lock()
	ready := len(e.ready) > 0
	u.mu.Unlock()
	if ready {
		u.promote(e, cause)
	}
	return ready
}

// promoteLater promotes an edition as soon as it can accept a call. If the edition fails instead,
// it is abandoned and the old one stays; the error is the reason.
func (u *unit) promoteLater(ctx context.Context, e, before *edition, cause Cause) error {
	for {
		u.mu.Lock()
		ready, st, changed, over := len(e.ready) > 0, e.face(), u.changed, e.leaving
		u.mu.Unlock()
		switch {
		case over:
			return contract.Errorf("runtime/not-ready", "plugin %s is being stopped", u.name)
		case ready:
			u.promote(e, cause)
			<-before.over
			return nil
		case !st.comesBack() && st.State != Degraded:
			err := contract.Errorf("runtime/not-ready",
				"plugin %s: the new edition failed after it was ready; the old one keeps serving", u.name).WithCause(st.Err)
			u.complain(e, err)
			u.abandon(e, CauseAbandon)
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			u.abandon(e, CauseAbandon)
			return contract.Errorf("canceled", "plugin %s: the new edition was abandoned: %v", u.name, context.Cause(ctx))
		}
	}
}

// drainRemoved stops a removed plugin when its last client is closed or its drain timeout is over.
// The returned function waits until its processes have ended.
func (s *Supervisor) drainRemoved(u *unit) func() {
	u.mu.Lock()
	u.removed = true
	u.stopTrial(contract.Errorf("runtime/not-ready", "plugin %s was removed from the configuration", u.name))
	unused := u.clients == 0
	wait := u.current.settings().DrainTimeout
	u.mu.Unlock()
	if unused || wait <= 0 {
		u.close(CauseRemove)
	}
	stop := s.shared.clock.AfterFunc(wait, func() {
		u.mu.Lock()
		removed := u.removed
		u.mu.Unlock()
		if removed {
			u.close(CauseRemove)
		}
	})
	return func() {
		defer stop()
		if !u.awaitEnd() {
			return // it was added again
		}
		_ = u.log.close() // the error cannot be reported any more
		s.mu.Lock()
		if s.leaving[u.name] == u {
			delete(s.leaving, u.name)
		}
		s.mu.Unlock()
		close(u.removedDone)
	}
}

// awaitEnd waits for the end of a removed plugin. It returns false if the
// plugin was added again.
func (u *unit) awaitEnd() bool {
	for {
		u.mu.Lock()
		removed, changed := u.removed, u.changed
		u.mu.Unlock()
		if !removed {
			return false
		}
		select {
		case <-u.over:
			return true
		case <-changed:
		}
	}
}
