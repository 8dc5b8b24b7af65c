package daemon

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Journal reads and changes the recorded runs of a data directory. Its methods
// are safe for concurrent use. The zero value is that of a daemon which keeps its
// runs in memory.
type Journal struct {
	store *store.Store
	empty string      // file of the journal, if it does not exist
	live  *runs       // in progress; nil without a daemon
	host  *Host       // resumes runs and replays them in new ones; nil without a daemon
	dir   *dataDir    // locked by this Journal, if it has opened the store
	of    store.Reach // only these runs exist
	// loaded is the configuration that runs are replayed with; nil: none.
	loaded *setup.Loaded
	// content is what transcripts have of inputs and outputs.
	content journal.Content
}

var _ httpapi.Runs = (*Journal)(nil)

// OpenJournal opens the journal of a configuration while no daemon serves its
// data directory, and locks the directory. A journal that does not exist has no
// runs; create makes one.
func OpenJournal(ctx context.Context, cfg *config.Config, create bool) (*Journal, error) {
	if !cfg.Store.Lasts() {
		return &Journal{}, nil
	}
	if file := cfg.Store.File; file != "" && !create {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return &Journal{empty: file}, nil
		}
	}
	dir, err := lockDataDir(ctx, cfg.Host.DataDir)
	if err != nil {
		return nil, err
	}
	options, err := storeOptions(cfg)
	var opened *store.Store
	if err == nil {
		options.NoMigrate = true // a daemon does that
		opened, err = store.Open(ctx, options)
	}
	if err != nil {
		dir.close()
		return nil, failureOf(err)
	}
	return &Journal{store: opened, dir: dir, content: journal.Content(cfg.Telemetry.Content)}, nil
}

// Close closes what OpenJournal has opened.
func (j *Journal) Close() error {
	if j.dir == nil {
		return nil
	}
	defer j.dir.close()
	return j.store.Close()
}

// OwnedBy implements httpapi.Runs.
func (j *Journal) OwnedBy(principal string) httpapi.Runs {
	owned := *j
	owned.of.Principal = principal
	return &owned
}

// OfTenant implements httpapi.Runs.
func (j *Journal) OfTenant(tenant string) httpapi.Runs {
	of := *j
	of.of.Tenant = tenant
	return &of
}

// InSession implements httpapi.Runs.
func (j *Journal) InSession(session string) httpapi.Runs {
	of := *j
	of.of.Session = session
	return &of
}

// sees reports whether a recorded run is in the reach of the caller.
func (j *Journal) sees(ctx context.Context, run *store.Run) (bool, error) {
	if j.of.All() {
		return true, nil
	}
	return j.store.InReach(ctx, run.ID, j.of)
}

// kept returns the store; the error is that of a host without one.
func (j *Journal) kept() (*store.Store, *contract.Error) {
	switch {
	case j.store != nil:
		return j.store, nil
	case j.empty != "":
		return nil, contract.Errorf("run/not-found", "no run is recorded: the journal %s does not exist", j.empty).
			WithHint("a daemon creates it; start one with \"ferment serve\"")
	}
	return nil, contract.Errorf("db/not-configured", "store.driver is \"memory\": runs are forgotten when they end").
		WithHint("set driver = \"sqlite\" or \"postgres\" in the block store and restart the daemon")
}

// lastRun names the newest run.
const lastRun = "last"

// find returns the run that a caller has named.
func (j *Journal) find(ctx context.Context, name string) (store.Run, *contract.Error) {
	run, err := j.named(ctx, name)
	if j.of.All() || err != nil && err.Type != "invalid-request" {
		return run, err
	}
	if err == nil {
		seen, fault := j.sees(ctx, &run)
		if fault != nil {
			return store.Run{}, failureOf(fault)
		}
		if seen {
			return run, nil
		}
	}
	return store.Run{}, notRecorded(name)
}

func notRecorded(name string) *contract.Error {
	return contract.Errorf("run/not-found", "no recorded run has an id that begins with %.80q", name).
		WithHint("\"ferment runs list\" shows the runs")
}

// named returns the run with a name, of any owner.
func (j *Journal) named(ctx context.Context, name string) (store.Run, *contract.Error) {
	s, missing := j.kept()
	if missing != nil {
		return store.Run{}, missing
	}
	if name == lastRun {
		runs, err := s.Runs(ctx, store.Filter{Limit: 1})
		if err == nil && len(runs) == 0 {
			return store.Run{}, contract.Errorf("run/not-found", "no run is recorded yet")
		}
		if err != nil {
			return store.Run{}, failureOf(err)
		}
		return runs[0], nil
	}
	run, err := s.Run(ctx, name)
	if !errors.Is(err, contract.OfType("run/not-found")) {
		return run, failureOf(err)
	}
	prefix := name
	if !strings.HasPrefix(name, "run_") {
		prefix = "run_" + strings.ToUpper(name)
	}
	ids, err := s.Match(ctx, prefix, 2)
	switch {
	case err != nil:
		return run, failureOf(err)
	case len(ids) == 0:
		return run, notRecorded(name)
	case len(ids) > 1:
		return run, contract.Errorf("invalid-request", "several runs have ids that begin with %.80q, such as %s and %s",
			name, ids[0], ids[1]).WithHint("write more of the id")
	}
	run, err = s.Run(ctx, ids[0])
	return run, failureOf(err)
}

// status returns the status of a run: an open one that this daemon executes is
// running.
func (j *Journal) status(r store.Run) string {
	if r.State == "open" && j.live != nil {
		return j.live.stateOf(r.ID)
	}
	return r.State
}

// running returns the run in progress with an id, nil if there is none.
func (j *Journal) running(id string) *activeRun {
	if j.live == nil {
		return nil
	}
	j.live.mu.Lock()
	defer j.live.mu.Unlock()
	return j.live.byID[id]
}

// summary returns a row of the list of runs.
func (j *Journal) summary(r store.Run) edn.Value {
	var b edn.MapBuilder
	b.Key("run", edn.Text(r.ID))
	b.Key("status", journal.Keyword(j.status(r)))
	b.Key("intent", journal.Keyword(r.Intent))
	b.Key("principal", edn.Text(r.Principal))
	b.Key("accepted-at", instant(r.Accepted))
	if !r.Finished.IsZero() {
		b.Key("finished-at", instant(r.Finished))
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
			b.Key(key, instant(at))
		}
	}
	return b.Map()
}

func instant(at time.Time) edn.Value { return edn.Inst(at.UTC().Truncate(time.Millisecond)) }

// The number of runs in a list by default, and the number of open runs that are
// searched for those in progress.
const (
	listedRuns = 20
	manyOpen   = 10_000
)

// List implements httpapi.Runs.
func (j *Journal) List(ctx context.Context, f httpapi.RunFilter) (edn.Value, *contract.Error) {
	s, missing := j.kept()
	if missing != nil && j.empty == "" {
		return edn.Nil(), missing
	}
	limit := f.Limit
	if limit <= 0 {
		limit = listedRuns
	}
	filter := store.Filter{
		Status: f.Status, Intent: f.Intent, Principal: f.Principal, Session: f.Session, Since: f.Since, Until: f.Until,
		Before: f.Before, Limit: limit + 1, Reach: j.of,
	}
	live := f.Status == "running" || f.Status == "queued" || f.Status == "waiting"
	if live {
		filter.Status, filter.Limit = "open", manyOpen
	}
	if f.Key != "" {
		filter.Key = act.KeyHash(cmp.Or(j.of.Principal, f.Principal), f.Key)
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
			return edn.Nil(), failureOf(err)
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
