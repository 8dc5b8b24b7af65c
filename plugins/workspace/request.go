package main

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// request is one call of an intent.
type request struct {
	*running
	server  *server
	intent  *intent
	in      edn.Value
	common  common
	agent   *agent.Agent // nil for intents of administrators
	actor   string       // the principal, for the commit
	effect  string       // the effect key of the host
	part    string       // of the effect, for an item of a batch
	out     *sdk.Stream  // nil if the intent does not stream
	phases  []*phaseProgress
	created bool // this request created the store
	*opened      // nil for intents that need no open store
}

// common holds the keys that all inputs can have.
type common struct {
	Workspace string  `edn:"workspace"`
	Agent     string  `edn:"agent/id"`
	Fallback  string  `edn:"agent/fallback"`
	AsOf      *uint64 `edn:"as-of"`
}

// serve answers a call: it validates the input, checks what the caller may do,
// opens the workspace and runs the intent.
func (s *server) serve(ctx context.Context, i *intent, in edn.Value, out *sdk.Stream) (edn.Value, error) {
	running := s.run.Load()
	if running == nil {
		return edn.Nil(), contract.Errorf("runtime/not-ready", "intent :%s: the plugin is not configured", i.name)
	}
	end := s.meter.begin(ctx, i.name)
	answer, err := s.answer(ctx, running, i, in, out)
	end(err)
	return answer, err
}

func (s *server) answer(ctx context.Context, running *running, i *intent, in edn.Value, out *sdk.Stream) (edn.Value, error) {
	r := &request{running: running, server: s, intent: i, in: in, out: out}
	if err := r.check(ctx); err != nil {
		return edn.Nil(), err
	}
	defer r.settle()
	if i.opens == unopened {
		return r.perform(ctx)
	}
	release, err := r.open(ctx)
	if i.absent != nil && r.flag("dry-run?") && errors.Is(err, contract.OfType("workspace/not-found")) {
		return i.absent(ctx, r)
	}
	if err != nil {
		return edn.Nil(), err
	}
	defer release()
	return r.perform(ctx)
}

// perform runs the intent in its open workspace. It adds the rule that ignores a path to
// an error about it (WS-185). Damage in a workspace of another process is retryable: that
// process may have moved what was read (see store.Follow).
func (r *request) perform(ctx context.Context) (edn.Value, error) {
	result, err := r.intent.run(ctx, r)
	switch {
	case r.opened == nil || err == nil:
	case errors.Is(err, contract.OfType("path/not-in-tree")), errors.Is(err, contract.OfType("node/not-found")) && r.text("path") != "":
		err = r.ws.NotInTree(ctx, err, contract.AsError(err).Object)
	case r.ws.Store.Follows() && errors.Is(err, contract.OfType("store/corrupt")):
		err = contract.Errorf("store/locked", "another process changed the store during the read: %w", err).
			WithOp("workspace", r.root)
	}
	return result, err
}

// check validates the input and what the caller may do.
func (r *request) check(ctx context.Context) error {
	if findings := r.server.inputs[r.intent.name].Validate(r.in); len(findings) > 0 {
		return invalidInput(findings)
	}
	if err := edn.Decode(r.in, &r.common); err != nil {
		return contract.Errorf("input/invalid", "decode the input of :%s: %w", r.intent.name, err)
	}
	return r.authorize(ctx)
}

// invalidInput returns the error of an input that does not fit the schema.
func invalidInput(findings []schema.Finding) error {
	values := make([]edn.Value, len(findings))
	for i, f := range findings {
		values[i] = f.Value()
	}
	return invalid(edn.Vector(findings[0].Path...), "%s", findings[0].Message).WithDetail("findings", edn.Vector(values...))
}

// invalid returns the error of a part of the input that cannot be used (WS-210).
func invalid(path edn.Value, format string, args ...any) *contract.Error {
	e := contract.Errorf("input/invalid", format, args...)
	return e.WithOp("input", path.String()).WithDetail("path", path).WithDetail("reason", edn.Text(e.Message))
}

// administer is the operation of the host's rules that intents of administrators
// need.
const administer = "workspace/admin"

// authorize finds the agent and checks what it may do (WS-062). The principal is
// the one that the host states; a request cannot name it.
func (r *request) authorize(ctx context.Context) error {
	call := sdk.CallFrom(ctx)
	r.actor, r.effect = call.Principal, call.EffectKey
	if r.effect != "" {
		r.effect += r.part
	}
	if r.intent.free {
		return nil
	}
	if r.intent.admin {
		if !slices.Contains(call.Permits, administer) {
			return contract.Errorf("agent/role-denied", "the rules of the host do not permit :%s to the caller %q", administer, call.Principal).
				WithOp("intent", r.intent.name).WithHint("ask an administrator of the host")
		}
		return nil
	}
	if r.common.Agent == "" {
		r.common.Agent = cmp.Or(r.cfg.DefaultAgent, r.common.Fallback)
	} else if err := agent.CheckID(r.common.Agent); err != nil {
		return err
	}
	needs := []agent.Capability{r.intent.needs}
	if r.intent.alsoNeeds != nil {
		needs = append(needs, r.intent.alsoNeeds(r.in)...)
	}
	for _, need := range needs {
		a, err := r.agents.Allow(agent.Request{Agent: r.common.Agent, Principal: call.Principal, Needs: need})
		if errors.Is(err, contract.OfType("agent/prompt-missing")) { // the engine refuses it for a call of a model
			a, err = r.agents.Get(r.common.Agent)
		}
		if err != nil {
			return err
		}
		r.agent = a
	}
	return nil
}

// open opens the workspace that the input names.
func (r *request) open(ctx context.Context) (release func(), err error) {
	scheme := r.cfg.Scheme
	if r.intent.name == "workspace/init" {
		if err := r.checkDataDir(); err != nil {
			return nil, err
		}
		if asked, ok := r.in.Key("scheme").AsString(); ok {
			scheme = asked
		}
	}
	var o *opened
	if r.reads() {
		o, release, err = r.hub.acquire(ctx, r.common.Workspace, r.opens(), scheme)
		switch {
		case errors.Is(err, contract.OfType("store/locked")):
			o, release, err = r.hub.follow(ctx, r.common.Workspace)
		case errors.Is(err, contract.OfType("store/io")): // such as a full disk; reads go on (WS-047)
			if f, leave, failed := r.hub.follow(ctx, r.common.Workspace); failed == nil {
				o, release, err = f, leave, nil
			}
		}
	} else {
		o, release, err = r.hub.acquirePatient(ctx, r.common.Workspace, r.opens(), scheme)
	}
	if err != nil {
		return nil, err
	}
	r.opened = o
	r.created = r.opens() == creating && o.created.Swap(false)
	return release, nil
}

// opens returns how the request opens its workspace. A dry run creates no store, and a
// batch only if one of its items does.
func (r *request) opens() opening {
	if r.intent.opens == creating && r.flag("dry-run?") {
		return existing
	}
	if r.intent.name != "context/batch" {
		return r.intent.opens
	}
	for item := range r.in.Key("items").Elems() {
		name, _ := item.Key("intent").AsKeyword()
		if i := r.server.table[name]; i != nil && i.opens == creating && !item.Key("input").Key("dry-run?").Truthy() {
			return creating
		}
	}
	return existing
}

// reads reports whether the request writes nothing: it need not wait for another process
// that writes the workspace (WS-046).
func (r *request) reads() bool {
	return !r.intent.writes || r.intent.alsoNeeds != nil && len(r.intent.alsoNeeds(r.in)) == 0 && r.intent.opens == existing
}

// asOf returns the transaction that the input reads at.
func (r *request) asOf() uint64 {
	if r.common.AsOf == nil {
		return store.Latest
	}
	return *r.common.AsOf
}

// view reads the workspace at the transaction that the input names and adds
// :seq and :root to what read puts into the output.
func (r *request) view(ctx context.Context, read func(v *store.Snapshot, out *edn.MapBuilder) error) (edn.Value, error) {
	var out edn.MapBuilder
	err := r.ws.Store.View(ctx, r.asOf(), func(v *store.Snapshot) error {
		if err := read(v, &out); err != nil {
			return err
		}
		return stamp(ctx, v, &out)
	})
	if err != nil {
		return edn.Nil(), err
	}
	return out.Map(), nil
}

// read is view for a result of the engine.
func (r *request) read(ctx context.Context, run func(v *store.Snapshot) (any, error)) (edn.Value, error) {
	return r.view(ctx, func(v *store.Snapshot, out *edn.MapBuilder) error {
		result, err := run(v)
		if err != nil {
			return err
		}
		return putStruct(out, result)
	})
}

// stampedValue returns a result of the engine with :seq and :root.
func (r *request) stampedValue(ctx context.Context, seq uint64, result any) (edn.Value, error) {
	var failed error
	out, err := r.stamped(ctx, seq, func(out *edn.MapBuilder) { failed = putStruct(out, result) })
	if failed != nil {
		return edn.Nil(), failed
	}
	return out, err
}

// stamp adds the transaction and the id of the root.
func stamp(ctx context.Context, v *store.Snapshot, out *edn.MapBuilder) error {
	out.Key("seq", number(v.Seq()))
	return stampRoot(ctx, v, out)
}

func stampRoot(ctx context.Context, v *store.Snapshot, out *edn.MapBuilder) error {
	root, err := v.RootAt(ctx, v.Seq())
	out.Opt("root", idValue(root))
	return err
}

// resolve returns the node that the input names.
func (r *request) resolve(ctx context.Context, v *store.Snapshot, deleted bool) (*store.Found, error) {
	ref, err := store.RefFrom(r.in)
	if err != nil {
		return nil, err
	}
	return v.Resolve(ctx, ref, deleted)
}

// update runs a transaction and returns an output with :seq and :root.
func (r *request) update(ctx context.Context, write func(tx *store.Tx) error, answer func(out *edn.MapBuilder)) (edn.Value, error) {
	var root id.ID
	seq, err := r.ws.Store.Update(ctx, r.actor, func(tx *store.Tx) (err error) {
		if err := write(tx); err != nil {
			return err
		}
		root, err = tx.Root()
		return err
	})
	if err != nil {
		return edn.Nil(), err
	}
	var out edn.MapBuilder
	answer(&out)
	out.Key("seq", number(seq))
	out.Opt("root", idValue(root))
	return out.Map(), nil
}

// stamped returns an output with the transaction and the root of it.
func (r *request) stamped(ctx context.Context, seq uint64, answer func(out *edn.MapBuilder)) (edn.Value, error) {
	var out edn.MapBuilder
	answer(&out)
	err := r.ws.Store.View(ctx, seq, func(v *store.Snapshot) error { return stamp(ctx, v, &out) })
	if err != nil {
		return edn.Nil(), err
	}
	return out.Map(), nil
}

// text returns a text of the input, empty if it is not there.
func (r *request) text(key string) string {
	s, _ := r.in.Key(key).AsString()
	return s
}

// word returns the name of a keyword of the input, or a string.
func (r *request) word(key string) string {
	if s, ok := r.in.Key(key).AsKeyword(); ok {
		return s
	}
	return r.text(key)
}

func (r *request) flag(key string) bool { return r.in.Key(key).Truthy() }

// texts returns a list of texts of the input.
func (r *request) texts(key string) []string {
	var list []string
	for v := range r.in.Key(key).Elems() {
		s, _ := v.AsString()
		list = append(list, s)
	}
	return list
}

// limit returns the size of a page, 0 if the input has none.
func (r *request) limit() (int, error) {
	v := r.in.Key("limit")
	if v.IsNil() {
		return 0, nil
	}
	n, ok := v.AsInt()
	if !ok || n < 1 || n > store.MaxPage {
		return 0, invalid(edn.Vector(edn.K("limit")), "a page has 1 to %d entries, not %s", store.MaxPage, v)
	}
	return int(n), nil
}
