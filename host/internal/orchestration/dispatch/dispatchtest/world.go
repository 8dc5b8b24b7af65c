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
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// World is a configuration with an executor behind it.
type World struct {
	*Executor
	Registry   *registry.Registry
	Checks     *quality.Set
	Policies   *policy.Book
	Dispatcher *dispatch.Dispatcher
}

// Spec is what a World is made of.
type Spec struct {
	// Caps are capabilities in the form that plugins advertise; missing fields
	// take the defaults of Cap.
	Caps []string
	// Apart makes each of them one of a plugin of its own, named as the
	// capability.
	Apart   bool
	Intents []registry.Intent
	Checks  []quality.Check
	Judges  []registry.Judge
	// Schemas by name, as EDN, beside the built-in ones.
	Schemas map[string]string
	// Policies are the layers below the request.
	Policies policy.Book
}

// Cap is a capability that serves :text/respond with any map, as EDN.
func Cap(id, more string) string {
	return "{:cap/id :" + id + " :cap/kind :solver :cap/intents #{:text/respond} :io/in-schema :req/any :io/out-schema :res/any " + more + "}"
}

// New builds a World.
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
		if spec.Apart {
			caps[i].Plugin = c.ID
		}
	}
	reg, err := registry.New(registry.Spec{Capabilities: caps, Intents: spec.Intents, Checks: checks.Declarations(), Judges: spec.Judges, Schemas: schemas})
	require.NoError(tb, err)
	w := &World{Executor: &Executor{}, Registry: reg, Checks: checks, Policies: &spec.Policies}
	w.Dispatcher = &dispatch.Dispatcher{Executor: w.Executor, Registry: reg, Checks: checks, Clock: dispatch.SystemClock{}}
	return w
}

// Open are effects that everybody may have, without bounds but their being
// enabled.
func Open() *policy.Effects {
	e := &policy.Effects{Rules: policy.Rules{}}
	for _, effect := range contract.Effects() {
		e.Rules[effect] = policy.Rule{Any: []string{policy.RoleAny}}
		e.Host = append(e.Host, policy.Scoped{Effect: effect, Scope: contract.Scope{Enabled: contract.Flag{V: true, Set: true}}})
	}
	return e
}

// Again is the same configuration with an executor that knows no scripts.
func (w *World) Again() *World {
	c := *w
	d := *w.Dispatcher
	c.Executor, c.Dispatcher = &Executor{}, &d
	d.Executor = c.Executor
	return &c
}

// Records is a recorder that keeps what it is given and checks every record.
type Records struct {
	tb  testing.TB
	mu  sync.Mutex
	all []journal.Record
}

// NewRecords makes a recorder that fails tb when a record is not as its schema
// says.
func NewRecords(tb testing.TB) *Records { return &Records{tb: tb} }

var _ dispatch.Recorder = (*Records)(nil)

// Record implements dispatch.Recorder.
func (r *Records) Record(path edn.Value, node string, body journal.Body) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, ok := body.(journal.Numbered); ok {
		n.SetSeq(len(r.all) + 1)
	}
	rec := journal.Record{Run: "run_test", Seq: len(r.all) + 1, At: journalEpoch, Epoch: 1, Path: path, Node: node, Body: body}
	r.all = append(r.all, rec)
	Verify(r.tb, rec)
	return nil
}

// All are the records so far.
func (r *Records) All() []journal.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]journal.Record(nil), r.all...)
}

// Verify fails tb if a record breaks the closed schema of its kind.
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

// journalEpoch stands for the time of every record: tests compare records.
var journalEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
