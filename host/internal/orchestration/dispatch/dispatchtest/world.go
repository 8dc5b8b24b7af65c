package dispatchtest

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow/flowtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	"github.com/fermenthq/ferment/sdk/schema"
)

// World is a configuration with a scripted executor.
type World struct {
	*Executor
	Registry   *registry.Registry
	Checks     *quality.Set
	Policies   *policy.Book
	Dispatcher *dispatch.Dispatcher
}

// Spec describes a World.
type Spec struct {
	// Caps are capabilities as EDN, in the form that plugins advertise. Cap writes
	// one.
	Caps []string
	// Apart gives each capability its own plugin, named like the capability.
	Apart bool
	// Humans holds, by id, the capabilities of Caps that people answer.
	Humans  map[string]registry.Human
	Intents []registry.Intent
	Checks  []quality.Check
	Judges  []registry.Judge
	// Schemas by name, as EDN, beside the built-in ones.
	Schemas map[string]string
	// Policies are the layers below the request.
	Policies policy.Book
}

// Cap returns a capability that serves :text/respond with any map, as EDN.
func Cap(id, more string) string {
	return "{:cap/id :" + id + " :cap/kind :solver :cap/intents #{:text/respond} :io/in-schema :req/any :io/out-schema :res/any " + more + "}"
}

// New makes a World. Unless tb is a benchmark, its dispatcher checks each operation
// with package flowtest.
func New(tb testing.TB, spec Spec) *World {
	tb.Helper()
	specs := maps.Clone(schema.Builtin())
	for name, text := range spec.Schemas {
		specs[name] = edn.MustRead(text)
	}
	schemas, err := schema.NewRegistry(specs)
	require.NoError(tb, err)
	checks, err := quality.NewSet(spec.Checks...)
	require.NoError(tb, err)
	caps := make([]registry.Capability, len(spec.Caps))
	for i, text := range spec.Caps {
		c, err := contract.ParseCapability(edn.MustRead(text))
		if err != nil {
			require.NoError(tb, err, text)
		}
		caps[i] = registry.Capability{Capability: c, Plugin: "scripted"}
		if h, ok := spec.Humans[c.ID]; ok {
			caps[i].Human, caps[i].Plugin = &h, ""
			continue
		}
		if spec.Apart {
			caps[i].Plugin = c.ID
		}
	}
	reg, err := registry.New(registry.Spec{
		Capabilities: caps,
		Intents:      spec.Intents,
		Checks:       checks.Declarations(),
		Judges:       spec.Judges,
		Schemas:      schemas,
	})
	require.NoError(tb, err)
	w := &World{Executor: &Executor{}, Registry: reg, Checks: checks, Policies: &spec.Policies}
	w.Dispatcher = &dispatch.Dispatcher{
		Executor: w.Executor,
		Registry: reg,
		Checks:   checks,
		Clock:    dispatch.SystemClock{},
	}
	if _, measured := tb.(*testing.B); !measured {
		w.Dispatcher.Observer = flowtest.Observe(tb)
	}
	return w
}

// Open returns effect rules that permit all effects to all roles without limits.
func Open() *policy.Effects {
	e := &policy.Effects{Rules: policy.Rules{}}
	for _, effect := range contract.Effects() {
		e.Rules[effect] = policy.Rule{Any: []string{policy.RoleAny}}
		e.Host = append(e.Host, policy.Scoped{Effect: effect,
			Scope: effects.Scope{Enabled: effects.Flag{V: true, Set: true}}})
	}
	return e
}

// Again returns a World with the same configuration and a new Executor without scripts.
func (w *World) Again() *World {
	c := *w
	d := *w.Dispatcher
	c.Executor, c.Dispatcher = &Executor{}, &d
	d.Executor = c.Executor
	return &c
}

// Records is a recorder that stores all records and checks their schemas.
type Records struct {
	tb     testing.TB
	mu     sync.Mutex
	all    []journal.Record
	synced int
	broken error
}

// NewRecords returns a recorder that fails tb when a record violates its
// schema.
func NewRecords(tb testing.TB) *Records { return &Records{tb: tb} }

var _ dispatch.Recorder = (*Records)(nil)

// Record implements dispatch.Recorder.
func (r *Records) Record(path edn.Value, node string, body journal.Body) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, ok := body.(journal.Numbered); ok {
		n.SetSeq(len(r.all) + 1)
	}
	rec := journal.Record{
		Run:   "run_test",
		Seq:   len(r.all) + 1,
		At:    journalEpoch,
		Epoch: 1,
		Path:  path,
		Node:  node,
		Body:  body,
	}
	r.all = append(r.all, rec)
	Verify(r.tb, rec)
	return nil
}

// Sync implements dispatch.Recorder.
func (r *Records) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced = len(r.all)
	return r.broken
}

// Break makes Sync return err from now on.
func (r *Records) Break(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = err
}

// Synced returns the records that were durable at the last Sync.
func (r *Records) Synced() []journal.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]journal.Record(nil), r.all[:r.synced]...)
}

// All returns the records so far.
func (r *Records) All() []journal.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]journal.Record(nil), r.all...)
}

// Verify fails tb if a record violates the closed schema of its kind.
func Verify(tb testing.TB, rec journal.Record) {
	tb.Helper()
	if err := rec.Check(); err != nil {
		tb.Errorf("record refused: %v", err)
	}
	s, ok := journal.Schema(rec.Body.Kind())
	if !ok {
		tb.Errorf("no schema for %s", rec.Body.Kind())
		return
	}
	for _, f := range s.Validate(rec.Value()) {
		tb.Errorf("record %s: %s", rec.Body.Kind(), f.Value())
	}
}

// journalEpoch is the time of every record, so that tests can compare records.
var journalEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
