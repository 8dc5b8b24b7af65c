package main

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/report"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// comparingIntents compare and summarize states.
func comparingIntents() []intent {
	return []intent{
		{
			name: "context/diff", says: "Compares two states of a workspace.",
			needs: agent.ReadContext, effects: read, run: diff,
		},
		{
			name: "context/report", says: "Reports coverage, staleness and use of models.",
			needs: agent.ReadContext, effects: read, run: makeReport,
		},
		{
			name: "workspace/graph", says: "Draws the tree and its frames as one page of HTML.",
			needs: agent.ReadWorkspace, effects: read, run: graph,
		},
	}
}

// graph draws the tree, or the part of it below :path.
func graph(ctx context.Context, r *request) (edn.Value, error) {
	return r.view(ctx, func(v *store.Snapshot, out *edn.MapBuilder) error {
		facts, err := r.facts(ctx, v)
		if err != nil {
			return err
		}
		page, err := report.Graph(facts, cmp.Or(r.text("title"), store.Shown(filepath.Join(filepath.Base(r.root), facts.Part))))
		if err != nil {
			return err
		}
		out.Key("html", edn.Text(string(page)))
		return nil
	})
}

// diff compares two states (WS-191).
func diff(ctx context.Context, r *request) (edn.Value, error) {
	for _, key := range []string{"from", "to"} {
		if blob, ok := r.in.Key(key).Key("blob").AsString(); ok {
			defer r.uploads.drop(blob)
		}
	}
	older, err := r.side(ctx, "from", r.in.Key("from"))
	if err != nil {
		return edn.Nil(), err
	}
	newer, err := r.side(ctx, "to", r.in.Key("to"))
	if err != nil {
		return edn.Nil(), err
	}
	path, err := store.CheckPath(r.text("path"))
	if err != nil {
		return edn.Nil(), err
	}
	asked := report.DiffRequest{Path: path, Types: r.texts("frame/types"), Content: r.flag("content?")}
	found, err := report.Diff(ctx, older, newer, asked)
	if err != nil {
		return edn.Nil(), err
	}
	return r.stampedValue(ctx, max(older.Seq, newer.Seq), found)
}

// side returns a state to compare: :current, a transaction, the name of a
// snapshot, or an export.
func (r *request) side(ctx context.Context, key string, v edn.Value) (*report.Side, error) {
	name, isName := v.AsString()
	seq, isSeq := v.AsInt()
	word, _ := v.AsKeyword()
	switch {
	case v.IsNil() || word == "current":
		return report.StoreSide(ctx, r.ws.Store, store.Latest)
	case isSeq && seq >= 0:
		return report.StoreSide(ctx, r.ws.Store, uint64(seq))
	case isName:
		at, err := r.named(ctx, name)
		if err != nil {
			return nil, err
		}
		return report.StoreSide(ctx, r.ws.Store, at)
	case v.IsMap():
		bundle, err := r.bundle(v, edn.K(key))
		if err != nil {
			return nil, err
		}
		return report.ExportSide(ctx, bundle, sdk.Root(ctx), r.ws.Store)
	}
	return nil, invalid(edn.Vector(edn.K(key)), "%s is not :current, a transaction, the name of a snapshot or an export", v)
}

// named returns the transaction of a snapshot.
func (r *request) named(ctx context.Context, name string) (seq uint64, err error) {
	err = r.ws.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		list, err := v.Snapshots(ctx)
		if err != nil {
			return err
		}
		for _, s := range list {
			if s.Name == name {
				seq = s.Seq
				return nil
			}
		}
		return contract.Errorf("seq/unknown", "the workspace has no snapshot of this name").WithOp("snapshot", name).
			WithHint("`ferment workspace snapshot list` lists the snapshots")
	})
	return seq, err
}

// facts reads the state that a report is about: of the whole tree, or of the part
// below :path.
func (r *request) facts(ctx context.Context, v *store.Snapshot) (*report.Facts, error) {
	part, err := store.CheckPath(r.text("path"))
	if err != nil {
		return nil, err
	}
	return report.Collect(ctx, v, part)
}

// makeReport reports on a state (WS-192). The output has no :seq: equal states give equal
// reports (WS-194).
func makeReport(ctx context.Context, r *request) (edn.Value, error) {
	var asked report.Request
	var err error
	if asked.Sections, err = report.ParseSections(r.in.Key("sections")); err != nil {
		return edn.Nil(), err
	}
	if r.in.HasKey("fail-on") {
		if asked.FailOn, err = report.ParseFailOn(r.text("fail-on")); err != nil {
			return edn.Nil(), err
		}
	}
	if err := r.examine(ctx, &asked); err != nil {
		return edn.Nil(), err
	}
	var out edn.MapBuilder
	err = r.ws.Store.View(ctx, r.asOf(), func(v *store.Snapshot) error {
		facts, err := r.facts(ctx, v)
		if err != nil {
			return err
		}
		made, err := report.New(facts, asked)
		if err != nil {
			return err
		}
		switch r.word("format") {
		case "markdown":
			out.Key("text", edn.Text(made.Markdown()))
		case "junit":
			out.Key("text", edn.Text(made.JUnit()))
		}
		if err := putStruct(&out, made); err != nil {
			return err
		}
		return stampRoot(ctx, v, &out)
	})
	return out.Map(), err
}

// examine adds to a request for a report the data that its sections need: the validation of the
// store, and the differences to git's ids. The validation is quick in a report of all sections, and
// full in one that asks for it.
func (r *request) examine(ctx context.Context, asked *report.Request) error {
	validation, inexact := asked.Needs()
	check := store.Check{Agents: r.knowsAgent}
	if !validation && len(asked.Sections) == 0 {
		check.Level = store.Quick
	}
	if validation || len(asked.Sections) == 0 || slices.Contains(asked.Sections, "validation") {
		found, err := r.ws.Store.Validate(ctx, check)
		if err != nil {
			return err
		}
		asked.Validation = report.ValidationOf(found)
	}
	if !inexact {
		return nil
	}
	o, err := r.scanOptions()
	if err != nil {
		return err
	}
	o.SkipUnreadable = true // the report is about what can be read
	seen, err := r.ws.Preview(ctx, o)
	if err != nil {
		return err
	}
	for _, x := range seen.Result.Inexact {
		asked.Inexact = append(asked.Inexact, report.Inexact{Path: x.Path, Reason: string(x.Reason)})
	}
	return nil
}
