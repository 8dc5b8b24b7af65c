package history

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Runs reads and changes the recorded runs of a data directory. Its fields must not change after
// the first use; its methods are safe for concurrent use. The zero value has no runs, as for a
// daemon that keeps its runs in memory.
type Runs struct {
	Store *store.Store
	// Missing is the path of the journal file if it does not exist.
	Missing string
	// Live gives access to the runs in progress; nil: no daemon is running.
	Live Live
	// Loaded is the configuration for replays; nil if no replay is made.
	Loaded *setup.Loaded
	// Content selects how transcripts show inputs and outputs.
	Content journal.Content

	reach store.Reach // only runs within it can be found
}

// Live gives access to the runs that a daemon executes. It must be safe for concurrent use.
type Live interface {
	// State returns the state of a run that has not ended: "queued", "waiting" or "running", or
	// "open" if this daemon does not execute it.
	State(run string) string
	// Running returns a run in progress; nil if this daemon does not execute it.
	Running(run string) *act.Run
	// Reading counts a reader of the events of a run until leave is called, which must be called
	// exactly once.
	Reading(run string) (leave func())
	// Resume continues a run that is suspended or has failed, and returns it when it is running.
	Resume(run string, how act.Resumption) (*act.Run, *contract.Error)
	// Fill replays a run in a new run, which makes the calls that are not recorded, and returns the
	// new run when it has ended. An error means that the replay was not accepted.
	Fill(ctx context.Context, of string, records []journal.Record, how act.Filling) (*act.Run, *contract.Error)
}

var _ httpapi.Runs = (*Runs)(nil)

// OwnedBy implements httpapi.Runs.
func (j *Runs) OwnedBy(principal string) httpapi.Runs {
	owned := *j
	owned.reach.Principal = principal
	return &owned
}

// OfTenant implements httpapi.Runs.
func (j *Runs) OfTenant(tenant string) httpapi.Runs {
	of := *j
	of.reach.Tenant = tenant
	return &of
}

// InSession implements httpapi.Runs.
func (j *Runs) InSession(session string) httpapi.Runs {
	of := *j
	of.reach.Session = session
	return &of
}

// Owner implements httpapi.Runs.
func (j *Runs) Owner(ctx context.Context, run string) (id, principal string, err *contract.Error) {
	found, err := j.find(ctx, run)
	return found.ID, found.Principal, err
}

// sees reports whether a recorded run is within the reach of the caller.
func (j *Runs) sees(ctx context.Context, run *store.Run) (bool, error) {
	if j.reach.All() {
		return true, nil
	}
	return j.Store.InReach(ctx, run.ID, j.reach)
}

// Kept returns the store. Without a store the error is run/not-found if the journal does not exist
// yet, and db/not-configured if runs are kept in memory.
func (j *Runs) Kept() (*store.Store, *contract.Error) {
	switch {
	case j.Store != nil:
		return j.Store, nil
	case j.Missing != "":
		return nil, contract.Errorf("run/not-found", "no run is recorded: the journal %s does not exist", j.Missing).
			WithHint("a daemon creates it; start one with \"ferment serve\"")
	}
	return nil, contract.Errorf("db/not-configured", "store.driver is \"memory\": runs are forgotten when they end").
		WithHint("set driver = \"sqlite\" or \"postgres\" in the block store and restart the daemon")
}

// lastRun is the name by which callers refer to the newest run.
const lastRun = "last"

// find returns the run that a caller refers to. The error for an unknown run, or one outside of the
// reach, is run/not-found.
func (j *Runs) find(ctx context.Context, name string) (store.Run, *contract.Error) {
	run, err := j.named(ctx, name)
	if err != nil {
		return run, err
	}
	seen, fault := j.sees(ctx, &run)
	switch {
	case fault != nil:
		return store.Run{}, Failure(fault)
	case !seen:
		return store.Run{}, notRecorded(name)
	}
	return run, nil
}

func notRecorded(name string) *contract.Error {
	return contract.Errorf("run/not-found", "no recorded run has an id that begins with %.80q", name).
		WithHint("\"ferment runs list\" shows the runs")
}

// named returns the run with a name. "last" and prefixes of ids are resolved within the reach; a
// complete id is found in any case.
func (j *Runs) named(ctx context.Context, name string) (store.Run, *contract.Error) {
	s, missing := j.Kept()
	if missing != nil {
		return store.Run{}, missing
	}
	if name == lastRun {
		runs, err := s.Runs(ctx, store.Filter{Limit: 1, Reach: j.reach})
		if err == nil && len(runs) == 0 {
			return store.Run{}, contract.Errorf("run/not-found", "no run is recorded yet")
		}
		if err != nil {
			return store.Run{}, Failure(err)
		}
		return runs[0], nil
	}
	run, err := s.Run(ctx, name)
	if !errors.Is(err, contract.OfType("run/not-found")) {
		return run, Failure(err)
	}
	prefix := name
	if !strings.HasPrefix(name, "run_") {
		prefix = "run_" + strings.ToUpper(name)
	}
	ids, err := s.Match(ctx, prefix, 2, j.reach)
	switch {
	case err != nil:
		return run, Failure(err)
	case len(ids) == 0:
		return run, notRecorded(name)
	case len(ids) > 1:
		return run, contract.Errorf("invalid-request", "several runs have ids that begin with %.80q, such as %s and %s",
			name, ids[0], ids[1]).WithHint("write more characters of the id")
	}
	run, err = s.Run(ctx, ids[0])
	return run, Failure(err)
}

// status returns the status of a run. For an open run that this daemon executes it is the state of
// Live.
func (j *Runs) status(r store.Run) string {
	if r.State == "open" && j.Live != nil {
		return j.Live.State(r.ID)
	}
	return r.State
}

// running returns the run in progress with an id, nil if there is none.
func (j *Runs) running(id string) *act.Run {
	if j.Live == nil {
		return nil
	}
	return j.Live.Running(id)
}

// summary returns the summary of a run as EDN, as in the list of runs.
func (j *Runs) summary(r store.Run) edn.Value {
	var b edn.MapBuilder
	b.Key("run", edn.Text(r.ID))
	b.Key("status", journal.Keyword(j.status(r)))
	b.Key("intent", journal.Keyword(r.Intent))
	b.Key("principal", edn.Text(r.Principal))
	b.Key("accepted-at", journal.Instant(r.Accepted))
	if !r.Finished.IsZero() {
		b.Key("finished-at", journal.Instant(r.Finished))
		b.Key("latency-ms", edn.Int(r.Latency.Milliseconds()))
	}
	if cost, err := edn.ReadString(r.Cost + "M"); err == nil && cost.IsNumber() {
		b.Key("cost-usd", cost)
	}
	if r.Error != "" {
		b.Key("error/type", journal.Keyword(r.Error))
	}
	b.Key("epoch", edn.Int(int64(r.Epoch)))
	b.Key("records", edn.Int(int64(r.Records)))
	for key, set := range map[string]bool{"imported?": r.Imported, "pinned?": r.Pinned} {
		if set {
			b.Key(key, edn.Bool(true))
		}
	}
	for key, at := range map[string]time.Time{"purged-at": r.Purged, "removed-at": r.Removed} {
		if !at.IsZero() {
			b.Key(key, journal.Instant(at))
		}
	}
	return b.Map()
}

// listedRuns is the default number of runs in a list. manyOpen is the maximum number of open runs
// that are searched for those in progress.
const (
	listedRuns = 20
	manyOpen   = 10_000
)

// List implements httpapi.Runs.
func (j *Runs) List(ctx context.Context, f httpapi.RunFilter) (edn.Value, *contract.Error) {
	s, missing := j.Kept()
	if missing != nil && j.Missing == "" {
		return edn.Nil(), missing
	}
	limit := f.Limit
	if limit <= 0 {
		limit = listedRuns
	}
	filter := store.Filter{
		Status: f.Status, Intent: f.Intent, Principal: f.Principal, Session: f.Session, Since: f.Since, Until: f.Until,
		Before: f.Before, Limit: limit + 1, Reach: j.reach,
	}
	live := f.Status == "running" || f.Status == "queued" || f.Status == "waiting"
	if live {
		filter.Status, filter.Limit = "open", manyOpen
	}
	if f.Key != "" {
		filter.Key = act.KeyHash(cmp.Or(j.reach.Principal, f.Principal), f.Key)
	}
	var runs []store.Run
	if s != nil {
		var err error
		if f.Before != "" {
			if _, err := j.find(ctx, f.Before); err != nil {
				return edn.Nil(), contract.Errorf("invalid-request", "list runs: the cursor names run %s, which is not recorded",
					f.Before).WithHint("list without the cursor")
			}
		}
		if runs, err = s.Runs(ctx, filter); err != nil {
			return edn.Nil(), Failure(err)
		}
	}
	out := []edn.Value{}
	for _, r := range runs {
		if !live || j.status(r) == f.Status {
			out = append(out, j.summary(r))
		}
	}
	more := len(out) > limit
	return edn.MustMap(
		edn.K("runs"), edn.Vector(out[:min(len(out), limit)]...),
		edn.K("more?"), edn.Bool(more),
	), nil
}
