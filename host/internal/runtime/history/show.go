package history

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Show implements httpapi.Runs.
func (j *Runs) Show(ctx context.Context, name string, with httpapi.RunParts) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	if missing != nil {
		return edn.Nil(), missing
	}
	records, err := j.Store.Read(ctx, run.ID, 0, run.Records)
	if err != nil {
		return edn.Nil(), Failure(err)
	}
	var b edn.MapBuilder
	b.Key("run", j.summary(run))
	b.Key("epochs", epochs(records))
	nodes := []edn.Value{}
	for _, n := range journal.NewReport(records).Nodes {
		nodes = append(nodes, n.Value())
	}
	b.Key("nodes", edn.Vector(nodes...))
	if past := journal.NewHistory(records); past.Accepted != nil {
		b.Key("deadline-at", journal.Instant(past.DeadlineAt))
		if !run.Imported && run.Purged.IsZero() && past.MayReopen() && past.Failure.Type != "run/secret-missing" {
			b.Key("resumable?", edn.Bool(true)) // only the request itself has a missing secret
		}
	}
	host := ""
	if run.State == "open" {
		if host, _, err = j.asks(ctx, run.ID); err != nil {
			return edn.Nil(), Failure(err)
		}
	}
	if open := interruptValues(records, host); len(open) > 0 {
		b.Key("interrupts", edn.Vector(open...))
	}
	if said := interventions(records); len(said) > 0 {
		b.Key("people", edn.Vector(said...))
	}
	for i, rec := range records {
		switch body := rec.Body.(type) {
		case *journal.CancelRequested:
			b.Key("cancel", edn.MustMap(
				edn.K("at"), journal.Instant(rec.At),
				edn.K("by"), edn.Text(body.By),
				edn.K("why"), edn.Text(body.Why),
			))
		case *journal.RunSuspended:
			if run.State != "suspended" {
				continue
			}
			open := make([]edn.Value, len(body.Open))
			for i, q := range body.Open {
				open[i] = q.Value()
			}
			suspended := edn.MustMap(
				edn.K("at"), journal.Instant(rec.At),
				edn.K("why"), edn.K(body.Why),
				edn.K("open"), edn.Vector(open...),
			)
			if body.Err != nil {
				suspended = suspended.AssocKey("error", body.Err.Value())
			}
			b.Key("suspended", suspended)
		case *journal.RunFinished:
			if i < len(records)-1 {
				continue // the run was reopened
			}
			if body.Err != nil {
				b.Key("error", body.Err.Value())
			}
			if body.Cache != "" {
				b.Key("cache", journal.Keyword(body.Cache))
			}
			if body.CacheRun != "" {
				b.Key("cache/run", edn.Text(body.CacheRun))
			}
			if response := body.Response.Value(); with.Response && !response.IsNil() {
				b.Key("response", response)
			}
		}
	}
	if with.Transcript {
		b.Key("transcript", j.Content.Transcript(records))
	}
	return b.Map(), nil
}

// Diff implements httpapi.Runs. For runs whose values were purged it compares the records and
// hashes that are left.
func (j *Runs) Diff(ctx context.Context, a, b string) (edn.Value, *contract.Error) {
	var both [2][]journal.Record
	for i, name := range []string{a, b} {
		run, missing := j.find(ctx, name)
		if missing == nil {
			missing = removed("diff", run)
		}
		if missing != nil {
			return edn.Nil(), missing
		}
		records, err := j.Store.Read(ctx, run.ID, 0, run.Records)
		if err != nil {
			return edn.Nil(), Failure(err)
		}
		both[i] = records
	}
	return journal.Compare(both[0], both[1]).Value(), nil
}

// epochs returns, for each start and resume of a run, its time, process and reason.
func epochs(records []journal.Record) edn.Value {
	out := []edn.Value{}
	add := func(rec journal.Record, host, boot, config, why, by string) {
		v := edn.MustMap(
			edn.K("epoch"), edn.Int(int64(rec.Epoch)),
			edn.K("at"), journal.Instant(rec.At),
			edn.K("host"), edn.Text(host),
			edn.K("boot"), edn.Text(boot),
			edn.K("config"), edn.Text(config),
		)
		if why != "" {
			v = v.AssocKey("why", edn.K(why))
		}
		if by != "" {
			v = v.AssocKey("by", edn.Text(by))
		}
		out = append(out, v)
	}
	for _, rec := range records {
		switch body := rec.Body.(type) {
		case *journal.RunStarted:
			add(rec, body.Host, body.Boot, body.Config, "", "")
		case *journal.RunResumed:
			add(rec, body.Host, body.Boot, body.Config, body.Why, body.By)
		}
	}
	return edn.Vector(out...)
}

// interventions returns the answers of people, or of a deadline in their place, and the decisions
// about suspended calls, in their order.
func interventions(records []journal.Record) (out []edn.Value) {
	add := func(rec journal.Record, node edn.Value, what edn.Value, by string) {
		out = append(out, edn.MustMap(edn.K("at"), journal.Instant(rec.At), edn.K("node"), node, edn.K("what"), what, edn.K("by"), edn.Text(by)))
	}
	names := map[string]string{} // ids of nodes by path
	name := func(path edn.Value) edn.Value {
		if id := names[path.String()]; id != "" {
			return edn.Text(id)
		}
		return edn.Text(path.String())
	}
	for _, rec := range records {
		if rec.Node != "" {
			names[rec.Path.String()] = rec.Node
		}
		switch body := rec.Body.(type) {
		case *journal.InterruptAnswered:
			what := "answered"
			switch {
			case body.By == journal.ByDeadline && !body.Answer.Set():
				what = "deadline"
			case body.By == journal.ByDeadline:
				what = "default"
			}
			add(rec, name(rec.Path), edn.K(what), body.By)
		case *journal.RunResumed:
			for _, d := range body.Decisions {
				add(rec, name(d.Path), edn.K(d.Choice), d.By)
			}
		}
	}
	return out
}
