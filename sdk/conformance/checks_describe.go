package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/wire"
)

func describeChecks() []Check {
	return []Check{
		{ID: "core/describe/bare", Requirements: []string{"START-001", "DESCRIBE-001"},
			Text: "Describe without a configuration returns name, version and, if any, the configuration schema",
			run:  describeBare},
		{ID: "core/describe/pure", Requirements: []string{"DESCRIBE-002"},
			Text: "Describe with the same configuration returns the same answer, also in another process",
			run:  describePure},
		{ID: "core/describe/metadata", Requirements: []string{"DESCRIBE-003"},
			Text: "Describe returns at least one capability, and its metadata is complete and well-typed",
			run:  describeMetadata},
		{ID: "core/describe/bad-config", Requirements: []string{"DESCRIBE-004"},
			Text: "an unknown key of a configuration is a finding, not a crash",
			run:  describeBadConfig},
	}
}

func describeBare(ctx context.Context, b *bench) error {
	in, err := b.start(ctx)
	if err != nil {
		return err
	}
	_, d, err := b.describe(ctx, in, edn.Nil())
	if err != nil {
		return err
	}
	if d.Name == "" || d.Version == "" {
		return want("a name and a version", "name %q, version %q", d.Name, d.Version)
	}
	return nil
}

func describePure(ctx context.Context, b *bench) error {
	var seen []string
	if b.described != "" {
		seen = append(seen, b.described)
	}
	for range 2 {
		in, err := b.start(ctx)
		if err != nil {
			return err
		}
		for range 2 {
			raw, _, err := b.describe(ctx, in, b.config())
			if err != nil {
				return err
			}
			seen = append(seen, raw.Value.String())
		}
	}
	for _, text := range seen[1:] {
		if text != seen[0] {
			return want(cut(seen[0]), "%s", cut(text))
		}
	}
	return nil
}

func describeMetadata(ctx context.Context, b *bench) error {
	_, raw, d, err := b.startDescribed(ctx)
	if err != nil {
		return err
	}
	if _, err := raw.Parse(); err != nil {
		return want("metadata that are complete and well typed", "%v", err)
	}
	if len(d.Capabilities) == 0 {
		return want("at least one capability", "none")
	}
	return nil
}

// unknownKey is a key that no configuration has.
const unknownKey = "no-such-setting-conformance"

func describeBadConfig(ctx context.Context, b *bench) error {
	in, err := b.start(ctx)
	if err != nil {
		return err
	}
	takesAny, err := b.takesAny(ctx, in)
	if err != nil || takesAny {
		return err
	}
	config := b.config().AssocKey(unknownKey, edn.Int(1))
	raw, err := in.Client().Describe(ctx, config, b.hostInfo())
	if err != nil {
		return want("findings", "the error %v", err)
	}
	if len(raw.Findings) == 0 {
		return want(fmt.Sprintf("a finding about :%s", unknownKey), "none")
	}
	return b.alive(ctx, in, "a bad configuration")
}

// takesAny reports whether the plugin accepts a configuration with any key.
func (b *bench) takesAny(ctx context.Context, in Instance) (bool, error) {
	raw, err := in.Client().Describe(ctx, edn.Nil(), b.hostInfo())
	if err != nil {
		return false, want("Describe answers", "%v", err)
	}
	return open(raw.Value.Key("config")), nil
}

// open reports whether a configuration schema allows keys that it does not
// list. A plugin without a schema accepts no key.
func open(config edn.Value) bool {
	form := config.Key("config/schema")
	if form.IsNil() {
		return false
	}
	closed, _ := properties(form).Key("closed").AsBool()
	return !closed
}

func configureChecks() []Check {
	return []Check{
		{ID: "core/configure/agrees", Requirements: []string{"CONFIGURE-001"},
			Text: "Configure serves what Describe announced for the same configuration, also with secrets",
			run:  configureAgrees},
		{ID: "core/configure/bad-config", Requirements: []string{"CONFIGURE-002"},
			Text: "Configure reports an unknown key with its path, and the plugin keeps running",
			run:  configureBadConfig},
		{ID: "core/configure/once", Requirements: []string{"CONFIGURE-003"},
			Text: "a second Configure is refused with an error, and the plugin stays ready and answers as before",
			run:  alone(configureOnce)},
		{ID: "core/configure/before-invoke", Requirements: []string{"LIFE-001", "HEALTH-003"},
			Text: "a call before Configure is refused with an error of type :" + notReady + ", and the plugin reports that it is not ready",
			run:  invokeBeforeConfigure},
	}
}

// configureAgrees compares the descriptions for the configuration of the run, and for the same
// configuration with marked secrets, which the plugin may refuse.
func configureAgrees(ctx context.Context, b *bench) error {
	root, err := b.root()
	if err != nil {
		return err
	}
	in, announced, served, err := b.bothDescriptions(ctx, b.setup(root))
	if err != nil {
		return err
	}
	if err := sameDescription(announced, served); err != nil {
		return err
	}
	s, err := b.settings(ctx, in)
	if err != nil {
		return nil // other checks test the schema
	}
	in.Stop()
	setup, secrets := b.withSecrets(b.setup(root), s)
	if secrets == nil {
		return nil
	}
	if _, announced, served, err = b.bothDescriptions(ctx, setup); err != nil {
		return ctx.Err()
	}
	if err := sameDescription(announced, served); err != nil {
		return fmt.Errorf("with secrets: %w", err)
	}
	return nil
}

// bothDescriptions starts an instance and returns what Describe and Configure answer to a setup.
func (b *bench) bothDescriptions(
	ctx context.Context, setup wire.Setup,
) (in Instance, announced, served edn.Value, err error) {
	in, err = b.start(ctx)
	if err != nil {
		return nil, announced, served, err
	}
	described, _, err := b.describe(ctx, in, setup.Config)
	if err != nil {
		return nil, announced, served, err
	}
	configured, err := b.configureWith(ctx, in, setup, b.host())
	return in, described.Value, configured.Value, err
}

// sameDescription fails if Configure returned another description than Describe. It may return none.
func sameDescription(announced, served edn.Value) error {
	if !served.IsNil() && !edn.Equal(served, announced) {
		return want(cut(announced.String()), "%s", cut(served.String()))
	}
	return nil
}

func configureBadConfig(ctx context.Context, b *bench) error {
	in, err := b.start(ctx)
	if err != nil {
		return err
	}
	takesAny, err := b.takesAny(ctx, in)
	if err != nil || takesAny {
		return err
	}
	setup := b.setup("")
	setup.Config = setup.Config.AssocKey(unknownKey, edn.Int(1))
	got, err := in.Client().Configure(ctx, setup, nil)
	if err != nil {
		return want("findings", "the error %v", err)
	}
	if len(got.Findings) == 0 {
		return want(fmt.Sprintf("a finding about :%s", unknownKey), "none")
	}
	return b.alive(ctx, in, "a bad configuration")
}

// configureOnce calls Configure again between calls that do not change the outcome of one
// another: with the configuration of the run, with an empty one, and with other settings,
// alone and beside an unknown one. Calls that fail before are left to other checks.
func configureOnce(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	before := b.learnEach(ctx, in, d, place{})
	again := []wire.Setup{b.setup(""), b.setup("")}
	again[1].Config = edn.MustMap()
	if s, err := b.settings(ctx, in); err == nil {
		for _, setup := range otherSettings(s, b.setup("")) {
			invalid := setup
			invalid.Config = setup.Config.AssocKey(unknownKey, edn.Int(1))
			again = append(again, setup, invalid)
		}
	}
	for _, setup := range again {
		if got, err := in.Client().Configure(ctx, setup, nil); err == nil && len(got.Findings) == 0 {
			return want("an error", "the second Configure succeeded")
		}
	}
	if err := b.awaitReady(ctx, in); err != nil {
		return fmt.Errorf("after a second Configure: %w", err)
	}
	return b.unchanged(ctx, in, before, "a second Configure")
}

func invokeBeforeConfigure(ctx context.Context, b *bench) error {
	in, _, d, err := b.startDescribed(ctx)
	if err != nil {
		return err
	}
	h, err := b.probe(ctx, in)
	if err != nil {
		return want("a state at once", "%v", err)
	}
	if h.State.Callable() {
		return want("a state in which the plugin is not to be called", "%s", h.State)
	}
	if len(d.Capabilities) == 0 {
		return want("at least one capability", "none")
	}
	c := d.Capabilities[0]
	response, err := in.Client().Invoke(ctx, b.callContext(c), request(c, b.input(d, c)), nil)
	if err := refused(response, err, notReady); err != nil {
		return err
	}
	return b.alive(ctx, in, "a call before Configure")
}

// cut shortens a text for a report.
func cut(text string) string {
	const most = 400
	if len(text) > most {
		return text[:most] + ".."
	}
	return text
}

func healthChecks() []Check {
	return []Check{
		{ID: "core/health/at-once", Requirements: []string{"HEALTH-001"},
			Text: "Health sends the current state at once, and a probe ends after one state",
			run:  healthAtOnce},
		{ID: "core/health/ready", Requirements: []string{"HEALTH-002"},
			Text: "after Configure the plugin becomes ready, and until then it reports a reason",
			run:  healthReady},
		{ID: "core/health/capabilities", Requirements: []string{"HEALTH-004"},
			Text: "Health names only capabilities that the plugin serves, also after calls, with a reason for each that is not ready",
			run:  alone(healthOfCapabilities)},
		{ID: "core/health/reason", Requirements: []string{"HEALTH-005", "HEALTH-008"},
			Text: "also during calls, a degraded or not ready plugin or capability has a reason, " +
				"and the deaths of a capability do not decrease",
			run: alone(healthReason)},
		{ID: "core/health/changes", Requirements: []string{"HEALTH-006"},
			Text: "a Health stream that is open during Drain reports that the plugin is no longer ready",
			run:  alone(healthChanges)},
	}
}

// healthReason watches the health for a while during calls, and then probes it. A ready plugin
// may become degraded or not ready, but not without a reason.
func healthReason(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	watch, cancel := context.WithTimeout(ctx, healthWatch)
	var calls sync.WaitGroup
	calls.Go(func() {
		for _, q := range b.questions(d) {
			_, _ = b.ask(watch, in, q)
		}
	})
	deaths := deathCounts{}
	plausible := func(h wire.Health) error {
		if err := explained(h); err != nil {
			return err
		}
		return deaths.grow(h)
	}
	err := in.Client().Watch(watch, plausible)
	cancel()
	calls.Wait()
	var implausible *finding
	if errors.As(err, &implausible) {
		return err
	}
	if h, err := b.probe(ctx, in); err == nil { // how Health must end is another check
		return plausible(h)
	}
	return ctx.Err()
}

// deathCounts are the most deaths that each capability of a process has reported.
type deathCounts map[string]uint64

// grow fails if a capability reports fewer deaths than before.
func (most deathCounts) grow(h wire.Health) error {
	for _, c := range h.Capabilities {
		if c.Deaths < most[c.ID] {
			return want(fmt.Sprintf("at least %d deaths of :%.100s, as before", most[c.ID], c.ID), "%d", c.Deaths)
		}
		most[c.ID] = c.Deaths
	}
	return nil
}

// healthChanges watches the health of a plugin while it is drained.
func healthChanges(ctx context.Context, b *bench, in Instance, _ contract.Description) error {
	watch, cancel := context.WithTimeout(ctx, b.soon)
	defer cancel()
	isDraining := errors.New("draining")
	open, over := make(chan struct{}), make(chan error, 1)
	go func() {
		var once sync.Once
		over <- in.Client().Watch(watch, func(h wire.Health) error {
			once.Do(func() { close(open) })
			if !h.State.Callable() {
				return isDraining
			}
			return nil
		})
	}()
	select {
	case <-open:
	case <-watch.Done():
		return want("a state at once", "none within %s", b.soon)
	}
	if _, err := b.drain(ctx, in, b.soon); err != nil {
		return err
	}
	if err := <-over; !errors.Is(err, isDraining) {
		return want("the open Health stream sends the state after Drain", "none within %s: %v", b.soon, err)
	}
	return nil
}

// healthWatch is the time for which the health of a plugin is watched.
const healthWatch = 3 * time.Second

// explained fails if a state that needs a reason has none.
func explained(h wire.Health) error {
	if err := reasonable(h); err != nil {
		return err
	}
	for _, c := range h.Capabilities {
		if c.State != wire.HealthUnknown && c.State != wire.HealthReady && c.Reason == "" {
			return want(fmt.Sprintf("a reason beside the state %s of :%.100s", c.State, c.ID), "none")
		}
	}
	return nil
}

func healthAtOnce(ctx context.Context, b *bench) error {
	in, err := b.start(ctx)
	if err != nil {
		return err
	}
	for range 3 {
		h, err := b.probe(ctx, in)
		if err != nil {
			return want(fmt.Sprintf("a state within %s", b.soon), "%v", err)
		}
		if h.State == wire.HealthUnknown {
			return want("a known state", "%s", h.State)
		}
	}
	if err := b.probeEnds(ctx, in); err != nil {
		return err
	}
	if _, err := b.configure(ctx, in); err != nil {
		return nil // another check tests Configure
	}
	return b.probeEnds(ctx, in)
}

// probeEnds makes a probe and waits until the plugin ends it. A client would stop reading
// at the first state.
func (b *bench) probeEnds(ctx context.Context, in Instance) error {
	ctx, cancel := context.WithTimeout(ctx, b.soon)
	defer cancel()
	stream, err := pluginv1.NewLifecycleClient(in.Conn()).Health(ctx, &pluginv1.HealthRequest{Once: true})
	if err != nil {
		return want("a state at once", "%v", err)
	}
	if _, err := stream.Recv(); err != nil {
		return want(fmt.Sprintf("a state within %s", b.soon), "%v", err)
	}
	end := fmt.Sprintf("Health with once ends within %s after one state", b.soon)
	switch _, err := stream.Recv(); {
	case err == nil:
		return want(end, "another state")
	case !errors.Is(err, io.EOF):
		return want(end, "%v", err)
	}
	return nil
}

func healthReady(ctx context.Context, b *bench) error {
	in, _, _, err := b.startDescribed(ctx)
	if err != nil {
		return err
	}
	if _, err := b.configure(ctx, in); err != nil {
		return err
	}
	watch, cancel := context.WithTimeout(ctx, b.call)
	defer cancel()
	isReady := errors.New("ready")
	err = in.Client().Watch(watch, func(h wire.Health) error {
		if err := reasonable(h); err != nil {
			return err
		}
		if h.State.Callable() {
			return isReady
		}
		return nil
	})
	if errors.Is(err, isReady) {
		return nil
	}
	var f *finding
	if errors.As(err, &f) {
		return err
	}
	return want("the plugin becomes ready after Configure", "it is not after %s: %v", b.call, err)
}

func healthOfCapabilities(ctx context.Context, b *bench, in Instance, d contract.Description) error {
	if err := b.healthNames(ctx, in, d); err != nil {
		return err
	}
	<-b.callAll(ctx, in, b.questions(d), quickly)
	return b.healthNames(ctx, in, d)
}

// healthNames probes the plugin and checks the health of single capabilities.
func (b *bench) healthNames(ctx context.Context, in Instance, d contract.Description) error {
	h, err := b.probe(ctx, in)
	if err != nil {
		return want(fmt.Sprintf("a state within %s", b.soon), "%v", err)
	}
	seen := map[string]bool{}
	for _, c := range h.Capabilities {
		served := slices.ContainsFunc(d.Capabilities, func(m contract.Capability) bool { return m.ID == c.ID })
		switch {
		case !served:
			return want("health of capabilities that the description has", ":%.100s", c.ID)
		case seen[c.ID]:
			return want("one statement about each capability", "two about :%s", c.ID)
		case c.State != wire.HealthUnknown && c.State != wire.HealthReady && c.Reason == "":
			return want(fmt.Sprintf("a reason beside the state %s of :%s", c.State, c.ID), "none")
		}
		seen[c.ID] = true
	}
	return nil
}
