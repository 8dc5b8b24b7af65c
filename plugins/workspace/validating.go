package main

import (
	"context"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/edn"
)

// validatingIntents check a store.
func validatingIntents() []intent {
	return []intent{{
		name: "workspace/validate", says: "Checks every hash and the logical content of a store, and changes nothing.",
		needs: agent.ReadWorkspace, effects: read, streams: true, opens: unopened, run: validate,
	}}
}

// validate checks a store. One that no request has opened is verified as it lies
// on the disk: opening it would rebuild what is damaged before it is reported
// (WS-171). It changes nothing but one file: damage of the log is recorded in
// quarantine/damage, so that writes are refused until a repair (see store.MarkDamage).
func validate(ctx context.Context, r *request) (edn.Value, error) {
	check := store.Check{Agents: r.knowsAgent, Progress: r.progress("validate", "transactions")}
	if r.word("level") == "quick" {
		check.Level = store.Quick
	}
	report, err := r.verify(ctx, check)
	if err != nil {
		return edn.Nil(), err
	}
	var out edn.MapBuilder
	out.Key("seq", number(report.Seq))
	out.Opt("root", idValue(report.Root))
	out.Opt("state-root", idValue(report.StateRoot))
	out.Key("valid?", edn.Bool(report.Valid))
	out.Key("nodes", number(report.Nodes))
	out.Key("frames", number(report.Frames))
	out.Key("errors", findings(report.Errors))
	out.Key("warnings", findings(report.Warnings))
	return out.Map(), nil
}

func (r *request) knowsAgent(name string) bool {
	_, err := r.agents.Get(name)
	return err == nil
}

// verify validates the store that the input names, open or closed.
func (r *request) verify(ctx context.Context, check store.Check) (report *store.Report, err error) {
	at, err := r.hub.locate(r.common.Workspace)
	if err != nil {
		return nil, err
	}
	if err := r.hub.storeAt(at); err != nil {
		return nil, err
	}
	if !r.flag("fs?") && !r.flag("rerun?") && !store.InUse(at.data) {
		if ran, err := r.hub.ifClosed(at, func() error {
			if report, err = store.Verify(ctx, at.data, check); err != nil {
				return err
			}
			if err := store.MarkDamage(at.data, report); err != nil { // a failure must not hide the report
				r.hub.log.Warn(err.Error(), "workspace", at.root)
			}
			return nil
		}); ran {
			return report, err
		}
	}
	release, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if r.flag("fs?") {
		check.Disk = r.onDisk
	}
	if r.flag("rerun?") {
		check.Rerun = r.engine.Rerun
	}
	return r.ws.Store.Validate(ctx, check)
}

// onDisk returns the tree as the next scan would find it.
func (r *request) onDisk(ctx context.Context) (*tree.Tree, error) {
	o, err := r.scanOptions()
	if err != nil {
		return nil, err
	}
	seen, err := r.ws.Preview(ctx, o)
	if err != nil {
		return nil, err
	}
	return seen.Result.Tree, nil
}

func findings(list []store.Finding) edn.Value {
	all := make([]edn.Value, len(list))
	for i, f := range list {
		var b edn.MapBuilder
		b.Key("code", edn.K(string(f.Code)))
		b.OptText("file", f.File)
		if f.Offset > 0 {
			b.Key("offset", number(f.Offset))
		}
		if f.Seq > 0 {
			b.Key("seq", number(f.Seq))
		}
		if f.Path != "" {
			putPath(&b, f.Path)
		}
		b.Opt("frame/id", idValue(f.Frame))
		b.Key("message", edn.Text(f.Reason))
		all[i] = b.Map()
	}
	return edn.Vector(all...)
}

// ignoreIntents are about the rules that leave paths out.
func ignoreIntents() []intent {
	return []intent{{
		name: "workspace/ignore", says: "Lists, changes and explains the rules that leave paths out of the tree.",
		needs: agent.ReadWorkspace, alsoNeeds: changing, effects: either, writes: true, run: ignoring,
	}}
}

// ignoring lists, changes or explains ignore rules (WS-033).
func ignoring(ctx context.Context, r *request) (edn.Value, error) {
	switch r.word("op") {
	case "explain":
		return r.explain(ctx)
	case "list":
		list, err := r.ws.IgnoreList(ctx)
		if err != nil {
			return edn.Nil(), err
		}
		return r.stamped(ctx, store.Latest, func(out *edn.MapBuilder) { out.Key("patterns", texts(list)) })
	}
	patterns := r.texts("patterns")
	if one := r.text("pattern"); one != "" {
		patterns = append(patterns, one)
	}
	if len(patterns) == 0 {
		return edn.Nil(), invalid(edn.Vector(edn.K("patterns")), "the patterns to %s are missing", r.word("op"))
	}
	var add, remove []string
	if add = patterns; r.word("op") == "remove" {
		add, remove = nil, patterns
	}
	o, err := r.scanOptions()
	if err != nil {
		return edn.Nil(), err
	}
	o.Patterns = nil // they are those to add or remove
	change, err := r.ws.EditIgnore(ctx, r.actor, add, remove, r.flag("dry-run?"), o)
	if err != nil {
		return edn.Nil(), err
	}
	return r.stamped(ctx, change.Seq, func(out *edn.MapBuilder) {
		out.Key("patterns", texts(change.Patterns))
		out.Key("added", number(change.Added))
		out.Key("removed", number(change.Removed))
		out.OptTrue("dry-run?", r.flag("dry-run?"))
		if change.Tree != nil {
			out.Key("changes", edn.MustMap(edn.K("added"), changed(change.Tree.Added), edn.K("removed"), changed(change.Tree.Removed)))
		}
	})
}

// explain returns the rule that decides about a path.
func (r *request) explain(ctx context.Context) (edn.Value, error) {
	ref, err := store.RefFrom(r.in)
	if err != nil {
		return edn.Nil(), err
	}
	if ref.Path == "" {
		return edn.Nil(), invalid(edn.Vector(edn.K("path")), "the path to explain is missing")
	}
	d, err := r.ws.Explain(ctx, ref.Path, r.flag("directory?"), nil)
	if err != nil {
		return edn.Nil(), err
	}
	return r.stamped(ctx, store.Latest, func(out *edn.MapBuilder) { putDecision(out, d) })
}

func putDecision(out *edn.MapBuilder, d *scan.Decision) {
	out.Key("ignored?", edn.Bool(d.Ignored))
	out.OptText("skipped", d.Skipped)
	if d.Source == "" {
		out.Key("source", edn.Nil())
		return
	}
	out.Key("source", store.ShownPath(d.Source).Value())
	if d.Line > 0 {
		out.Key("line", number(d.Line))
	}
	out.Key("pattern", edn.Text(d.Pattern))
	if d.At != "" {
		out.Key("at", store.ShownPath(d.At).Value())
	}
}
