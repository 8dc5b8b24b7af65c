package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Journal reads and changes the recorded runs of a data directory. Its methods
// are safe for concurrent use. The zero value is that of a daemon which keeps its
// runs in memory.
type Journal struct {
	store *store.Store
	empty string   // file of the journal, if it does not exist
	live  *runs    // in progress; nil without a daemon
	host  *Host    // resumes runs and replays them in new ones; nil without a daemon
	dir   *dataDir // locked by this Journal, if it has opened the store
	owner string   // only its runs exist; empty: all do
	// loaded is the configuration that runs are replayed with; nil: none.
	loaded *Loaded
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
	return &Journal{store: opened, dir: dir}, nil
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
	owned.owner = principal
	return &owned
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

// RepairJournal makes a damaged journal usable again while no daemon serves its data
// directory. With dryRun it only returns what it would do.
func RepairJournal(ctx context.Context, cfg *config.Config, dryRun bool) (_ edn.Value, err error) {
	if cfg.Store.DSN != nil {
		return edn.Nil(), contract.Errorf("db/not-configured", "the journal is in PostgreSQL, whose server keeps its own files").
			WithHint("\"ferment runs verify\" finds damage; the backups of the server are the way back")
	}
	j := &Journal{empty: cfg.Store.File}
	if j.empty == "" {
		_, missing := j.kept()
		return edn.Nil(), missing
	}
	if _, err := os.Stat(j.empty); errors.Is(err, fs.ErrNotExist) {
		_, missing := j.kept()
		return edn.Nil(), missing
	}
	dir, err := lockDataDir(ctx, cfg.Host.DataDir)
	if err != nil {
		return edn.Nil(), err
	}
	defer dir.close()
	var r *store.Repaired
	options, err := storeOptions(cfg)
	if err == nil {
		r, err = store.Repair(ctx, options, dryRun)
	}
	if err != nil {
		return edn.Nil(), failureOf(err)
	}
	var b edn.MapBuilder
	b.Key("damaged?", edn.Bool(!r.Sound()))
	b.Key("dry-run?", edn.Bool(dryRun))
	b.Key("journal", edn.Text(cfg.Store.File))
	b.Key("runs", edn.Int(int64(r.Runs)))
	damaged := make([]edn.Value, len(r.Damaged))
	for i, run := range r.Damaged {
		damaged[i] = repairedValue(run)
	}
	b.Key("damaged", edn.Vector(damaged...))
	if !r.Sound() {
		for key, n := range r.Sessions.Value().Entries() {
			name, _ := key.AsKeyword()
			b.Key(name, n)
		}
	}
	if d := r.Sessions.Damage; d != nil {
		b.Key("sessions/damage", damageValue(d))
	}
	for key, text := range map[string]string{"file": r.File, "kept": r.Kept} {
		if text != "" {
			b.Key(key, edn.Text(text))
		}
	}
	for key, n := range map[string]int{"records/unnamed": r.Unnamed, "runs/missing": r.Missing} {
		if n > 0 {
			b.Key(key, edn.Int(int64(n)))
		}
	}
	return b.Map(), nil
}

// MigrateJournal brings the database of a journal to a version of its schema while no
// daemon serves the data directory; a negative one is the latest. acceptLoss allows a
// lower version, which deletes data. With dryRun it only returns what it would do.
func MigrateJournal(ctx context.Context, cfg *config.Config, to int, acceptLoss, dryRun bool) (edn.Value, error) {
	j := &Journal{empty: cfg.Store.File}
	_, err := os.Stat(j.empty)
	if !cfg.Store.Lasts() || j.empty != "" && errors.Is(err, fs.ErrNotExist) {
		_, missing := j.kept()
		return edn.Nil(), missing
	}
	dir, err := lockDataDir(ctx, cfg.Host.DataDir)
	if err != nil {
		return edn.Nil(), err
	}
	defer dir.close()
	options, err := storeOptions(cfg)
	if err != nil {
		return edn.Nil(), failureOf(err)
	}
	m, err := store.Migrate(ctx, options, to, acceptLoss, dryRun)
	var loss *store.LossError
	if errors.As(err, &loss) {
		return edn.Nil(), contract.Errorf("queue/invalid-transition", "%s", loss.Error())
	}
	if err != nil {
		return edn.Nil(), failureOf(err)
	}
	return edn.MustMap(
		edn.K("database"), edn.Text(m.Database),
		edn.K("from"), edn.Int(int64(m.From)),
		edn.K("to"), edn.Int(int64(m.To)),
		edn.K("dry-run?"), edn.Bool(dryRun),
	), nil
}

// repairedValue returns a row of the result of a repair.
func repairedValue(r store.RepairedRun) edn.Value {
	lost := make([]edn.Value, len(r.Lost))
	for i, hash := range r.Lost {
		lost[i] = edn.Text(hash)
	}
	return edn.MustMap(
		edn.K("run"), edn.Text(r.Run),
		edn.K("status"), journal.Keyword(r.State),
		edn.K("halted?"), edn.Bool(r.Halted),
		edn.K("damage"), damageValue(r.Damage),
		edn.K("records/kept"), edn.Int(int64(r.Records)),
		edn.K("records/cut"), edn.Int(int64(r.Cut)),
		edn.K("values/lost"), edn.Vector(lost...),
	)
}

// failureOf returns the error of the store for a caller.
func failureOf(err error) *contract.Error {
	var damage *store.Damage
	var schema *store.SchemaError
	var unsafe *store.SettingError
	var unreachable *store.UnreachableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unreachable):
		return contract.Errorf("journal/unavailable", "%s", unreachable.Error())
	case errors.As(err, &unsafe):
		return contract.Errorf("journal/unavailable", "%s", unsafe.Error()).WithRetryable(false)
	case errors.As(err, &damage):
		return contract.Errorf("journal/damaged", "%s", damage.Error()).WithDetail("damage", damageValue(damage))
	case errors.As(err, &schema):
		return contract.Errorf("journal/unavailable", "%s", schema.Error()).WithRetryable(false)
	}
	return contract.AsError(err)
}

// lastRun names the newest run.
const lastRun = "last"

// find returns the run that a caller has named.
func (j *Journal) find(ctx context.Context, name string) (store.Run, *contract.Error) {
	run, err := j.named(ctx, name)
	if j.owner != "" && (err != nil && err.Type == "invalid-request" || err == nil && run.Principal != j.owner) {
		return store.Run{}, notRecorded(name)
	}
	return run, err
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
	if active := j.running(r.ID); r.State == "open" && active != nil {
		if active.run.Waiting() {
			return "queued"
		}
		if active.run.AwaitsPeople() {
			return "waiting"
		}
		return "running"
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
		Status: f.Status, Intent: f.Intent, Principal: f.Principal, Since: f.Since, Until: f.Until, Before: f.Before,
		Limit: limit + 1,
	}
	live := f.Status == "running" || f.Status == "queued" || f.Status == "waiting"
	if live {
		filter.Status, filter.Limit = "open", manyOpen
	}
	if j.owner != "" {
		filter.Principal = j.owner
	}
	if f.Key != "" {
		filter.Key = act.KeyHash(filter.Principal, f.Key)
	}
	var runs []store.Run
	foreign := j.owner != "" && f.Principal != "" && f.Principal != j.owner
	if s != nil && !foreign {
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

// Under sets the configuration that runs are replayed with.
func (j *Journal) Under(l *Loaded) { j.loaded = l }

// Replay implements httpapi.Runs.
func (j *Journal) Replay(ctx context.Context, q httpapi.ReplayQuery) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, q.Run)
	if missing != nil {
		return edn.Nil(), missing
	}
	records, err := j.store.Read(ctx, run.ID, 0, run.Records)
	if err != nil {
		return edn.Nil(), failureOf(err)
	}
	if !run.Purged.IsZero() {
		return edn.Nil(), contract.Errorf("replay/values-purged", "the values of run %s were purged", run.ID)
	}
	if q.Fill {
		return j.fill(ctx, run.ID, records, dispatch.Fill{Swap: q.Swap, Effects: q.Effects})
	}
	began := time.Now()
	hash, failure := act.Replay(ctx, j.loaded.actConfig(), run.ID, records)
	if failure != nil {
		return edn.Nil(), failure
	}
	return edn.MustMap(
		edn.K("run"), edn.Text(run.ID),
		edn.K("status"), journal.Keyword(run.State),
		edn.K("records"), edn.Int(int64(len(records))),
		edn.K("hash"), edn.Text(hash),
		edn.K("latency-ms"), edn.Int(time.Since(began).Milliseconds()),
	), nil
}

// fill replays a run in a new one, which makes the calls that are not recorded, and
// compares them. The error is that of a replay which was not accepted; how the new
// run ended is in the result.
func (j *Journal) fill(ctx context.Context, of string, records []journal.Record, how dispatch.Fill) (edn.Value, *contract.Error) {
	if j.host == nil {
		return edn.Nil(), contract.Errorf("runtime/not-ready", "replay run %s: only a daemon makes the calls that are not recorded", of).
			WithHint("start one with \"ferment serve\"")
	}
	taken, err := j.host.Take()
	if err != nil {
		return edn.Nil(), err
	}
	defer taken.Release()
	t := taken.(*turn)
	a, err := t.of.service.Fill(of, records, how)
	if err != nil {
		return edn.Nil(), err
	}
	var run *act.Run
	if _, err := t.perform(ctx, a, func(r *act.Run) { run = r }); run == nil {
		return edn.Nil(), err
	}
	recorded, made := int64(0), int64(0)
	for _, rec := range run.Records() {
		switch start, ok := rec.Body.(*journal.AttemptStarted); {
		case !ok:
		case start.Recorded:
			recorded++
		default:
			made++
		}
	}
	diff := journal.Compare(records, run.Records())
	return edn.MustMap(
		edn.K("run"), edn.Text(run.ID()),
		edn.K("replay/of"), edn.Text(of),
		edn.K("replay/mode"), edn.K(journal.ReplayFill),
		edn.K("status"), diff.B.Key("status"),
		edn.K("recorded"), edn.Int(recorded),
		edn.K("made"), edn.Int(made),
		edn.K("diff"), diff.Value(),
	), nil
}

// Show implements httpapi.Runs.
func (j *Journal) Show(ctx context.Context, name string, with httpapi.RunParts) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	if missing != nil {
		return edn.Nil(), missing
	}
	records, err := j.store.Read(ctx, run.ID, 0, run.Records)
	if err != nil {
		return edn.Nil(), failureOf(err)
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
		b.Key("deadline-at", instant(past.DeadlineAt))
	}
	if open := interruptValues(records); len(open) > 0 {
		b.Key("interrupts", edn.Vector(open...))
	}
	if said := interventions(records); len(said) > 0 {
		b.Key("people", edn.Vector(said...))
	}
	for i, rec := range records {
		switch body := rec.Body.(type) {
		case *journal.CancelRequested:
			b.Key("cancel", edn.MustMap(
				edn.K("at"), instant(rec.At),
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
			b.Key("suspended", edn.MustMap(
				edn.K("at"), instant(rec.At),
				edn.K("why"), edn.K(body.Why),
				edn.K("open"), edn.Vector(open...),
			))
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
		b.Key("transcript", journal.Transcript(records))
	}
	return b.Map(), nil
}

// Diff implements httpapi.Runs. Runs whose values were purged are compared by what
// is kept.
func (j *Journal) Diff(ctx context.Context, a, b string) (edn.Value, *contract.Error) {
	var both [2][]journal.Record
	for i, name := range []string{a, b} {
		run, missing := j.find(ctx, name)
		if missing == nil {
			missing = removed("diff", run)
		}
		if missing != nil {
			return edn.Nil(), missing
		}
		records, err := j.store.Read(ctx, run.ID, 0, run.Records)
		if err != nil {
			return edn.Nil(), failureOf(err)
		}
		both[i] = records
	}
	return journal.Compare(both[0], both[1]).Value(), nil
}

// epochs lists when a run was started and resumed, by which process and why.
func epochs(records []journal.Record) edn.Value {
	out := []edn.Value{}
	add := func(rec journal.Record, host, boot, config, why, by string) {
		v := edn.MustMap(
			edn.K("epoch"), edn.Int(int64(rec.Epoch)),
			edn.K("at"), instant(rec.At),
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

// interventions are the answers of people, or of a deadline in their place, and the
// decisions about suspended calls, in the order in which they were taken.
func interventions(records []journal.Record) (out []edn.Value) {
	add := func(rec journal.Record, node edn.Value, what edn.Value, by string) {
		out = append(out, edn.MustMap(edn.K("at"), instant(rec.At), edn.K("node"), node, edn.K("what"), what, edn.K("by"), edn.Text(by)))
	}
	names := map[string]string{} // of nodes by path
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

// Limits of a page of records and of a part of an exported file.
const (
	pageRecords = 500
	pageBytes   = 4 << 20
	valueBytes  = 16 << 20 // of one value of a record
)

// Records implements httpapi.Runs. A page has at least one record, if there is
// one. Values above 16 MiB are left out.
func (j *Journal) Records(ctx context.Context, q httpapi.RecordsQuery) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, q.Run)
	if missing != nil {
		return edn.Nil(), missing
	}
	limit := q.Limit
	if limit <= 0 {
		limit = pageRecords
	}
	records, err := j.store.Read(ctx, run.ID, q.After, limit)
	if err != nil {
		return edn.Nil(), failureOf(err)
	}
	out, last, size := []edn.Value{}, q.After, 0
	for _, rec := range records {
		v := rec.Value()
		if q.Values {
			v = v.AssocKey("values", valuesOf(rec))
		}
		out, last = append(out, v), rec.Seq
		if size += len(v.Canonical()); size > pageBytes {
			break
		}
	}
	return edn.MustMap(
		edn.K("run"), edn.Text(run.ID),
		edn.K("records"), edn.Vector(out...),
		edn.K("last"), edn.Int(int64(last)),
		edn.K("more?"), edn.Bool(len(out) > 0 && last < run.Records),
	), nil
}

// Watch implements httpapi.Runs. The events before the first one that is shown are
// read too: they say which capability an attempt was of.
func (j *Journal) Watch(ctx context.Context, name string, after int) (httpapi.Watching, *contract.Error) {
	run, missing := j.find(ctx, name)
	switch {
	case missing != nil:
		return nil, missing
	case !run.Removed.IsZero() || !run.Purged.IsZero():
		return nil, contract.Errorf("stream/gone", "watch run %s: its events were removed or purged", run.ID).
			WithHint("the summary of the run is kept")
	case after > run.Records:
		return nil, contract.Errorf("stream/cursor-ahead", "watch run %s: the cursor is record %d, and the run has %d",
			run.ID, after, run.Records)
	case after == run.Records && run.Ended():
		return nil, nil
	}
	return func(ctx context.Context, show func(journal.Event) error) error {
		if j.live != nil {
			defer j.live.readers.enter(run.ID)()
		}
		var records journal.Reader = &pages{store: j.store, run: run.ID}
		if run.State == "open" {
			records = j.store.Follow(run.ID, 0)
		}
		var failed error
		err := journal.Watch(ctx, records, func(e journal.Event) bool {
			if e.Seq > after {
				failed = show(e)
			}
			return failed == nil
		})
		return errors.Join(err, failed)
	}, nil
}

// pages reads the records of a run that does not grow, a page at a time: a slow
// reader does not keep more of them in memory (RUN-040).
type pages struct {
	store *store.Store
	run   string
	last  int              // record that was returned
	page  []journal.Record // the next ones
}

// Next implements journal.Reader.
func (p *pages) Next(ctx context.Context) (rec journal.Record, ok bool, err error) {
	if len(p.page) == 0 {
		p.page, err = p.store.Read(ctx, p.run, p.last, pageRecords)
		if err != nil || len(p.page) == 0 {
			return journal.Record{}, false, err
		}
	}
	rec, p.page = p.page[0], p.page[1:]
	p.last = rec.Seq
	return rec, true, nil
}

// valuesOf returns the values of a record that are kept, by their hashes.
func valuesOf(rec journal.Record) edn.Value {
	values := edn.MustMap()
	rec.Refs(func(ref journal.Ref) {
		if v := ref.Value(); !v.IsNil() && len(v.Canonical()) <= valueBytes {
			values = values.Assoc(edn.Text(ref.Hash()), v)
		}
	})
	return values
}

// Verify implements httpapi.Runs.
func (j *Journal) Verify(ctx context.Context, name string) (edn.Value, *contract.Error) {
	s, missing := j.kept()
	if missing != nil && (name != "" || j.empty == "") {
		return edn.Nil(), missing
	}
	verified, damaged := 0, []edn.Value{}
	verify := func(r store.Run) *contract.Error {
		err := s.Verify(ctx, r.ID)
		var damage *store.Damage
		if errors.As(err, &damage) {
			damaged, err = append(damaged, damageValue(damage)), nil
		}
		verified++
		return failureOf(err)
	}
	if name != "" {
		run, err := j.find(ctx, name)
		if err == nil {
			err = verify(run)
		}
		if err != nil {
			return edn.Nil(), err
		}
	}
	for f := (store.Filter{Limit: pageRecords, Principal: j.owner}); name == "" && s != nil; {
		runs, err := s.Runs(ctx, f)
		if err != nil {
			return edn.Nil(), failureOf(err)
		}
		if len(runs) == 0 {
			break
		}
		for _, r := range runs {
			if err := verify(r); err != nil {
				return edn.Nil(), err
			}
		}
		f.Before = runs[len(runs)-1].ID
	}
	var b edn.MapBuilder
	if name == "" && s != nil && j.owner == "" {
		sessions, found, err := s.VerifySessions(ctx)
		if err != nil {
			return edn.Nil(), failureOf(err)
		}
		for _, d := range found {
			damaged = append(damaged, damageValue(d))
		}
		b.Key("sessions", edn.Int(int64(sessions)))
	}
	b.Key("ok?", edn.Bool(len(damaged) == 0))
	b.Key("runs", edn.Int(int64(verified)))
	b.Key("damaged", edn.Vector(damaged...))
	return b.Map(), nil
}

func damageValue(d *store.Damage) edn.Value {
	var b edn.MapBuilder
	for key, text := range map[string]string{"run": d.Run, "hash": d.Hash} {
		if text != "" {
			b.Key(key, edn.Text(text))
		}
	}
	if d.Seq > 0 {
		b.Key("seq", edn.Int(int64(d.Seq)))
	}
	b.Key("what", edn.Text(d.What))
	return b.Map()
}

// ended returns a run that has finished and is still recorded.
func (j *Journal) ended(ctx context.Context, op, name string) (store.Run, *contract.Error) {
	run, err := j.find(ctx, name)
	switch {
	case err != nil:
	case !run.Ended():
		next := fmt.Sprintf("\"ferment runs cancel %s\" ends it", run.ID)
		switch {
		case j.live == nil && run.State == "suspended":
			next = "\"ferment serve\" and then \"ferment runs resume\" continue it"
		case j.live == nil:
			next = "\"ferment serve\" resumes it"
		}
		err = contract.Errorf("queue/invalid-transition", "%s run %s: the run is %s, expected a finished one", op, run.ID,
			j.status(run)).WithHint(next)
	default:
		err = removed(op, run)
	}
	return run, err
}

// removed returns the error for a run whose records are removed, nil for others.
func removed(op string, run store.Run) *contract.Error {
	if run.Removed.IsZero() {
		return nil
	}
	return contract.Errorf("run/not-found", "%s run %s: its records were removed at %s", op, run.ID,
		run.Removed.Format(time.RFC3339)).WithHint("store.retain says how long runs are kept")
}

// Export implements httpapi.Runs.
func (j *Journal) Export(ctx context.Context, name string, offset int64) (edn.Value, *contract.Error) {
	run, missing := j.ended(ctx, "export", name)
	if missing != nil {
		return edn.Nil(), missing
	}
	part := &part{skip: offset}
	if err := j.store.Export(ctx, run.ID, part); err != nil && !errors.Is(err, errPartFull) {
		return edn.Nil(), failureOf(err)
	}
	text := part.text
	if part.full { // ends between two characters
		for n := len(text); n > 0 && !utf8.Valid(text[n-1:]); n-- {
			if utf8.RuneStart(text[n-1]) {
				text = text[:n-1]
				break
			}
		}
	}
	out := edn.MustMap(edn.K("run"), edn.Text(run.ID), edn.K("text"), edn.Text(string(text)))
	if part.full {
		out = out.AssocKey("next", edn.Int(offset+int64(len(text))))
	}
	return out, nil
}

var errPartFull = errors.New("the part is full")

// part keeps the bytes of a file from an offset on, up to pageBytes.
type part struct {
	skip int64
	text []byte
	full bool
}

// Write implements io.Writer.
func (p *part) Write(b []byte) (int, error) {
	n := len(b)
	cut := min(p.skip, int64(n))
	p.skip -= cut
	b = b[cut:]
	if room := pageBytes - len(p.text); len(b) > room {
		p.text, p.full = append(p.text, b[:room]...), true
		return 0, errPartFull
	}
	p.text = append(p.text, b...)
	return n, nil
}

// Import implements httpapi.Runs.
func (j *Journal) Import(ctx context.Context, name string) (edn.Value, *contract.Error) {
	s, missing := j.kept()
	if missing != nil {
		return edn.Nil(), missing
	}
	f, err := os.Open(name)
	if err != nil {
		return edn.Nil(), contract.Errorf("invalid-request", "import: %w", err).
			WithHint("name a file that the user of the daemon can read, by its absolute path")
	}
	defer func() { _ = f.Close() }()
	id, err := s.Import(ctx, f)
	if errors.Is(err, contract.OfType("journal/fenced")) {
		return edn.Nil(), contract.AsError(err).WithHint("\"ferment runs list\" shows the recorded runs")
	}
	if err != nil {
		return edn.Nil(), failureOf(err)
	}
	run, err := s.Run(ctx, id)
	return j.summary(run), failureOf(err)
}

// Pin implements httpapi.Runs.
func (j *Journal) Pin(ctx context.Context, name string, on bool) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	if missing != nil {
		return edn.Nil(), missing
	}
	change := j.store.Unpin
	if on {
		change = j.store.Pin
	}
	if err := change(ctx, run.ID); err != nil {
		return edn.Nil(), failureOf(err)
	}
	run.Pinned = on
	return j.summary(run), nil
}

// Purge implements httpapi.Runs.
func (j *Journal) Purge(ctx context.Context, name string, dryRun bool) (edn.Value, *contract.Error) {
	run, missing := j.ended(ctx, "purge", name)
	if missing != nil {
		return edn.Nil(), missing
	}
	if !dryRun {
		if err := j.store.Purge(ctx, run.ID); err != nil {
			return edn.Nil(), failureOf(err)
		}
		var err error
		if run, err = j.store.Run(ctx, run.ID); err != nil {
			return edn.Nil(), failureOf(err)
		}
	}
	return j.summary(run).AssocKey("dry-run?", edn.Bool(dryRun)), nil
}

// Cancel implements httpapi.Runs.
func (j *Journal) Cancel(ctx context.Context, name string, c httpapi.Cancellation) (edn.Value, *contract.Error) {
	active := j.running(name)
	if active == nil || j.owner != "" && active.run.Principal() != j.owner {
		run, missing := j.find(ctx, name)
		if missing != nil {
			return edn.Nil(), missing
		}
		if active = j.running(run.ID); active == nil {
			if run.Ended() {
				return canceled(run.ID, run.State, false), nil
			}
			if run.State == "suspended" && j.host != nil {
				how := act.Resumption{Why: journal.ResumedDecision, Cancel: &journal.CancelRequested{By: c.By, Why: c.Why}}
				return canceled(run.ID, "running", true), j.host.resume(run.ID, how)
			}
			return edn.Nil(), contract.Errorf("queue/invalid-transition",
				"cancel run %s: it is %s, but no daemon executes it", run.ID, run.State).
				WithHint("the log of the daemon says why it was not resumed")
		}
	}
	waits := active.run.Waiting()
	accepted := active.run.Cancel(c.By, c.Why)
	if accepted && j.store != nil { // before the answer leaves (JRN-004)
		if err := j.store.Sync(ctx, active.run.ID()); err != nil {
			return edn.Nil(), failureOf(err)
		}
	}
	wait := c.Wait
	if !accepted || waits {
		wait = time.Minute // it has just ended, or does at once
	}
	return canceled(active.run.ID(), statusAfter(ctx, active.run, wait), accepted), nil
}

// statusAfter waits for the end of a run and returns its status then, or running.
func statusAfter(ctx context.Context, run *act.Run, wait time.Duration) string {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-run.Done():
	case <-timer.C:
		return "running"
	case <-ctx.Done():
		return "running"
	}
	for _, rec := range slices.Backward(run.Records()) {
		if end, ok := rec.Body.(*journal.RunFinished); ok {
			return end.Status
		}
	}
	return "open" // interrupted by the end of the daemon
}

// Job implements httpapi.Runs.
func (j *Journal) Job(ctx context.Context, name string) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	if missing != nil {
		return edn.Nil(), missing
	}
	status := j.status(run)
	records, err := j.store.Read(ctx, run.ID, 0, run.Records)
	switch {
	case err != nil:
		return edn.Nil(), failureOf(err)
	case len(records) == 0:
		return edn.Nil(), contract.Errorf("queue/job-not-found", "job %s: its records were removed", run.ID)
	}
	return jobOf(records, status), nil
}

// Resume implements httpapi.Runs.
func (j *Journal) Resume(ctx context.Context, name string, decisions []httpapi.Decision, by string) (edn.Value, *contract.Error) {
	run, missing := j.find(ctx, name)
	switch {
	case missing != nil:
		return edn.Nil(), missing
	case run.State != "suspended" && run.State != journal.StatusFailed:
		return edn.Nil(), contract.Errorf("run/not-resumable", "resume run %s: it is %s, expected a suspended or failed one", run.ID, j.status(run))
	case j.host == nil:
		return edn.Nil(), contract.Errorf("queue/invalid-transition", "resume run %s: no daemon is there to execute it", run.ID).
			WithHint("start one with \"ferment serve\"")
	}
	how := act.Resumption{Why: journal.ResumedDecision, By: by}
	for _, d := range decisions {
		how.Decisions = append(how.Decisions, act.Decision{Node: d.Node, Choice: d.Choice, Value: d.Value, By: d.By})
	}
	if err := j.host.resume(run.ID, how); err != nil {
		return edn.Nil(), err
	}
	return edn.MustMap(edn.K("run"), edn.Text(run.ID), edn.K("status"), edn.K("running")), nil
}

func canceled(run, status string, accepted bool) edn.Value {
	return edn.MustMap(
		edn.K("run"), edn.Text(run),
		edn.K("status"), edn.K(status),
		edn.K("cancel/accepted?"), edn.Bool(accepted),
	)
}
