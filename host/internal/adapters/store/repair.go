package store

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Repaired is the result of Repair.
type Repaired struct {
	Runs int    // in the journal
	File string // what is wrong with the pages of the database; empty: nothing
	// Damaged are the runs that are not what they were.
	Damaged []RepairedRun
	// Unnamed is the number of records that belong to no run that is known.
	Unnamed int
	// Missing is the number of runs of which nothing was found, as far as it is
	// known. Only a database with damaged pages has them.
	Missing int
	// HostRecords and HostCut are the records of the host that were kept and cut off.
	// Nothing is cut from a sound stream.
	HostRecords, HostCut int
	// HostDamage is the first damage of that stream.
	HostDamage *Damage
	// Sessions is what became of sessions; zero for a sound database.
	Sessions RepairedSessions
	// Kept is the folder with the damaged files and the records that were cut off;
	// empty: nothing was changed.
	Kept string
}

// Sound reports whether there was nothing to repair.
func (r *Repaired) Sound() bool {
	return r.File == "" && len(r.Damaged) == 0 && r.Unnamed == 0 && r.HostDamage == nil && r.Sessions.Damage == nil
}

// RepairedRun is a run that had damage.
type RepairedRun struct {
	Run     string
	Damage  *Damage  // the first one
	Records int      // that were kept
	Cut     int      // that were not
	Lost    []string // hashes of values that were not kept
	State   string   // after the repair
	// Halted reports that the repair has suspended or ended the run, because it
	// cannot be known what else it had recorded.
	Halted bool
}

// Names of files of a repair. The first two are beside the database while it runs.
const (
	salvageSuffix = ".salvage"
	rebuiltSuffix = ".rebuilt"
	damagedSuffix = ".damaged-" // with the time: the folder that keeps the damaged files
	cutName       = "cut.edn"   // in it: records that were cut off
)

// Repair rebuilds the file of a store that is not open, if any of it is
// damaged: it copies each record up to the first one of its run that does not
// verify, and each value that has its hash. It changes no record. The damaged
// files are kept beside the database. With dryRun it only returns what it would
// do.
//
// A run that lost its end, or records while it was open, is suspended: what else it
// did is not known. One that has also lost values fails with journal/damaged. A run
// that lost values is marked as purged. Of a run without any record its summary
// stays, as that of a removed one with the error journal/damaged.
//
// The errors are *LockedError, *SchemaError and those of the file system; then the
// damaged files are where they were.
func Repair(ctx context.Context, opts Options, dryRun bool) (_ *Repaired, err error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.asIs = true
	files, err := openBlobs(opts.Path, opts.Faults)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, files.close()) }()
	r := &repairer{
		path:    opts.Path,
		now:     opts.Now().UTC(),
		files:   files,
		report:  &Repaired{},
		settled: counters{},
		lost:    counters{},
	}
	defer func() { err = errors.Join(err, r.close()) }()
	sound, err := r.inspect(ctx, opts)
	if err != nil || sound {
		return r.report, err
	}
	if err := r.rebuild(ctx); err != nil {
		return nil, fmt.Errorf("store: repair %s: %w", opts.Path, err)
	}
	if dryRun {
		return r.report, nil
	}
	if err := r.replace(ctx); err != nil {
		return nil, fmt.Errorf("store: repair %s: %w", opts.Path, err)
	}
	return r.report, nil
}

type repairer struct {
	path   string
	now    time.Time
	files  *blobs
	src    *Store // as it is, or its rows out of damaged pages
	dst    *Store
	cut    *bufio.Writer
	report *Repaired

	settled counters       // costs in the records that are kept
	lost    counters       // what runs had reserved that the repair has ended
	counted map[string]int // rows of the tables of sessions, as far as they could be counted
	missing int            // rows of sessions and conversations that are lost
}

// inspect sets src and reports whether all of it is sound.
func (r *repairer) inspect(ctx context.Context, opts Options) (sound bool, err error) {
	var d *Damage
	r.src, err = open(ctx, opts, r.files)
	switch {
	case errors.As(err, &d):
		r.report.File = d.What
	case err != nil:
		return false, err
	default:
		if r.report.File, err = lite(r.src).check(ctx); err != nil {
			return false, err
		}
	}
	if r.src != nil {
		r.countSessions(ctx)
	}
	if r.report.File == "" {
		damage, err := r.src.verifyRuns(ctx)
		if err == nil {
			r.report.Runs, err = r.count(ctx, r.src.read)
		}
		if err == nil {
			_, err = r.readCounters(ctx)
		}
		var inSessions []*Damage
		if err == nil {
			_, inSessions, err = r.src.VerifySessions(ctx)
		}
		if len(inSessions) > 0 {
			r.report.Sessions.Damage = inSessions[0]
		}
		if err == nil {
			r.report.HostDamage, err = r.src.verifyHost(ctx)
		}
		if !errors.As(err, &d) {
			return len(damage)+len(inSessions) == 0 && r.report.HostDamage == nil, err
		}
		r.report.File = d.What
	}
	if r.src != nil {
		err := r.src.closeFiles()
		if r.src = nil; err != nil && !isCorrupt(err) {
			return false, err
		}
	}
	if r.src, err = r.scratch(ctx, salvageSuffix); err != nil {
		return false, err
	}
	return false, r.salvage(ctx)
}

func (r *repairer) count(ctx context.Context, from *statements) (n int, err error) {
	err = from.one(ctx, "count_runs", nil, []any{&n})
	return n, err
}

// lite returns the database of a store that is a file.
func lite(s *Store) *sqliteDB { return s.db.(*sqliteDB) }

// scratch creates a database that is not durable before it is complete.
func (r *repairer) scratch(ctx context.Context, suffix string) (*Store, error) {
	if err := r.remove(suffix); err != nil {
		return nil, err
	}
	return open(ctx, Options{Path: r.path + suffix, NoSync: true}, r.files)
}

func (r *repairer) remove(suffix string) error {
	for _, more := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(r.path + suffix + more); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// close closes and removes what a repair leaves.
func (r *repairer) close() error {
	var errs []error
	for _, s := range []*Store{r.src, r.dst} {
		if s != nil {
			errs = append(errs, s.closeFiles())
		}
	}
	for _, suffix := range []string{salvageSuffix, rebuiltSuffix, rebuiltSuffix + cutName} {
		errs = append(errs, r.remove(suffix))
	}
	return errors.Join(errs...)
}

// salvage copies the rows of all readable pages into src. Of several rows with one
// number the first stays.
func (r *repairer) salvage(ctx context.Context) (err error) {
	pages, err := openPages(r.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pages.close()) }()
	return r.src.writer.transaction(ctx, func(ctx context.Context) error {
		return pages.rows(ctx, func(table string, row []any) error {
			_, err := r.src.write.exec(ctx, "salvage_"+table, row...)
			return err
		})
	})
}

// rebuild copies every run that can be read into dst, and verifies it.
func (r *repairer) rebuild(ctx context.Context) (err error) {
	if r.dst, err = r.scratch(ctx, rebuiltSuffix); err != nil {
		return err
	}
	cut, err := os.OpenFile(r.path+rebuiltSuffix+cutName, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cut.Close()) }()
	r.cut = bufio.NewWriter(cut)
	var numbers []int64
	var n int64
	if err := r.src.read.all(ctx, "run_numbers", nil, []any{&n}, func() error { numbers = append(numbers, n); return nil }); err != nil {
		return err
	}
	for _, n := range numbers {
		if err := r.dst.writer.transaction(ctx, func(ctx context.Context) error { return r.run(ctx, n) }); err != nil {
			return err
		}
		if err := r.dst.db.upkeep(ctx, false, func(do func(context.Context) error) error { return do(ctx) }); err != nil {
			return err
		}
	}
	if err := r.dst.writer.transaction(ctx, r.counters); err != nil {
		return err
	}
	if err := r.dst.writer.transaction(ctx, r.copySessions); err != nil {
		return err
	}
	if err := r.dst.writer.transaction(ctx, r.copyConversations); err != nil {
		return err
	}
	if err := r.dst.writer.transaction(ctx, r.moveTalk); err != nil {
		return err
	}
	if err := r.dst.writer.transaction(ctx, r.copyLearned); err != nil {
		return err
	}
	if err := r.dst.writer.transaction(ctx, r.copyAccounts); err != nil {
		return err
	}
	if err := r.dst.writer.transaction(ctx, r.copyAnswers); err != nil {
		return err
	}
	if err := r.dst.writer.transaction(ctx, r.copyHost); err != nil {
		return err
	}
	if r.report.File != "" && n > 0 {
		r.report.Missing = int(n) - len(numbers)
	}
	if r.report.Runs, err = r.count(ctx, r.dst.read); err != nil {
		return err
	}
	damage, err := r.dst.VerifyAll(ctx)
	if err == nil && len(damage) > 0 {
		err = damage[0]
	}
	return errors.Join(err, r.cut.Flush(), cut.Sync())
}

// run copies the run with number n.
func (r *repairer) run(ctx context.Context, n int64) error {
	var row runRow // stays empty if it is lost
	err := r.src.read.one(ctx, "run_by_number", []any{n}, row.columns())
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	r.dst.writer.lastRun = n
	if !row.Removed.IsZero() {
		return r.dst.writer.saveRun(ctx, &row, "")
	}
	kept, damage, err := r.verified(ctx, n, row.ID)
	if err != nil {
		return err
	}
	found := RepairedRun{Run: row.ID, Records: len(kept)}
	if found.Run == "" && len(kept) > 0 {
		found.Run = kept[0].rec.Run
	}
	if found.Cut, err = r.cutOff(ctx, n, &row, found); err != nil {
		return err
	}
	switch _, err := readRun(ctx, r.dst.write, found.Run); {
	case found.Run == "", err == nil: // or an old copy of another run
		r.report.Unnamed += found.Records + found.Cut
		return nil
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	out := summaryOf(row)
	out.n, out.ID, out.bytes = n, found.Run, 0
	lost, err := r.copy(ctx, &row, &out, kept)
	if err != nil {
		return err
	}
	// A run that was reopened and lost records since then is not whole.
	whole := out.Ended() && out.Epoch >= row.Epoch || out.State == row.State && endsAs(row, out.Records, out.chain) == nil && lost == nil
	for _, err := range append([]error{damage, differs(row, out)}, lost...) {
		var d *Damage
		if !errors.As(err, &d) {
			continue
		}
		found.Damage = cmp.Or(found.Damage, d)
		if d.Hash != "" {
			found.Lost = append(found.Lost, d.Hash)
		}
	}
	if found.Damage == nil {
		return r.dst.writer.saveRun(ctx, &out, "")
	}
	if found.Lost != nil && out.Purged.IsZero() {
		out.Purged = r.now
	}
	switch {
	case len(kept) == 0:
		found.Halted = !row.Ended()
		out = row
		out.Removed, out.Error, out.bytes = r.now, "journal/damaged", 0
		if found.Halted {
			out.State, out.Finished = journal.StatusFailed, r.now
		}
	case !whole:
		found.Halted = true
		if err := r.end(ctx, &out, kept, &found); err != nil {
			return err
		}
	}
	found.Damage.Run, found.State = found.Run, out.State
	r.report.Damaged = append(r.report.Damaged, found)
	return r.dst.writer.saveRun(ctx, &out, "")
}

// counters copies the counters of budgets. One that is lost has the costs in the
// records that are kept, but not those of removed runs.
func (r *repairer) counters(ctx context.Context) error {
	out, err := r.readCounters(ctx)
	var damage *Damage
	if err != nil && !errors.As(err, &damage) || out == nil {
		return err
	}
	for w, c := range r.settled {
		c.Granted, c.Used, c.Mark = out[w].Granted, c.Used.Max(out[w].Used), max(c.Mark, out[w].Mark)
		out[w] = c
	}
	for w, c := range r.lost {
		out.add([]budget.Window{w}, c)
	}
	return r.dst.writer.saveCounters(ctx, out)
}

// readCounters reads the counters of src; nil for a database of version 1, which
// has none.
func (r *repairer) readCounters(ctx context.Context) (counters, error) {
	var there int
	if err := r.src.read.one(ctx, "counters_table", nil, []any{&there}); err != nil || there == 0 {
		return nil, err
	}
	return readCounters(ctx, r.src.read, "counters")
}

// verifiedRecord is a record that has its chain value.
type verifiedRecord struct {
	rec   journal.Record
	chain sum
	body  []byte
}

// verified returns the records of a run up to the first damage, which is the second
// result.
func (r *repairer) verified(ctx context.Context, n int64, run string) (out []verifiedRecord, damage, err error) {
	decode := r.src.decoder()
	_, _, err = r.src.chain(ctx, n, math.MaxInt, func(seq int, chain sum, body []byte) error {
		rec, err := decodeAs(decode, run, seq, body)
		if err == nil {
			run, out = rec.Run, append(out, verifiedRecord{rec, chain, body})
		}
		return err
	})
	var d *Damage
	if errors.As(err, &d) {
		return out, err, nil
	}
	return out, nil, err
}

// cutOff writes the records that are not kept to the file of the repair and returns
// their number.
func (r *repairer) cutOff(ctx context.Context, n int64, row *runRow, found RepairedRun) (int, error) {
	last := row.Records
	err := r.src.stored(ctx, n, found.Records, math.MaxInt, func(seq int, chain sum, body []byte) error {
		last = max(last, seq)
		line := edn.MustMap(edn.K("run"), edn.Text(found.Run), edn.K("seq"), edn.Int(int64(seq)), edn.K("chain"), edn.Text(chain.hash()))
		if v, err := edn.Read(body, storedLimits); err == nil {
			line = line.AssocKey("record", v)
		} else {
			line = line.AssocKey("bytes", readableText(string(body)))
		}
		return r.cutLine(line)
	})
	var d *Damage
	if errors.As(err, &d) { // the rest is only in the damaged files
		err = nil
	}
	return max(0, last-found.Records), err
}

func readableText(s string) edn.Value { return edn.Text(strings.ToValidUTF8(s, "\uFFFD")) }

func (r *repairer) cutLine(line edn.Value) error {
	_, err := r.cut.Write(append(line.Canonical(), '\n'))
	return err
}

// copy writes records to dst with the values that have their hash, and returns a
// *Damage for each other value. row is that of src.
func (r *repairer) copy(ctx context.Context, row, out *runRow, kept []verifiedRecord) (lost []error, err error) {
	seen := map[string]bool{}
	w := r.dst.writer
	for _, k := range kept {
		k.rec.Refs(func(ref journal.Ref) {
			hash := ref.Hash()
			if err != nil || seen[hash] {
				return
			}
			seen[hash] = true
			v, failed := r.src.Value(ctx, hash)
			var d *Damage
			switch {
			case failed == nil:
				err = w.keep(ctx, v, out.n)
			case errors.As(failed, &d):
				lost = append(lost, &Damage{Seq: k.rec.Seq, Hash: hash, What: d.What})
			case !errors.Is(failed, contract.OfType("replay/values-purged")):
				err = failed
			case row.Purged.IsZero():
				lost = append(lost, &Damage{Seq: k.rec.Seq, Hash: hash, What: "the value is missing"})
			}
		})
		if err != nil {
			return nil, err
		}
		out.apply(k.rec, k.chain)
		if !out.Imported {
			r.settled.apply(k.rec, out.Principal)
		}
		if err := w.addRecord(ctx, out, k.body); err != nil {
			return nil, err
		}
	}
	out.bytes = int64(w.stored)
	return lost, nil
}

// end appends the last record of a run that lost some: it goes on only by decision,
// or not at all if it has also lost values.
func (r *repairer) end(ctx context.Context, out *runRow, kept []verifiedRecord, found *RepairedRun) error {
	// The time since its last record counts as suspended.
	rec := journal.Record{Run: out.ID, Seq: out.Records + 1, At: kept[len(kept)-1].rec.At, Epoch: out.Epoch}
	if rec.Body = (&journal.RunSuspended{Why: "journal/damaged"}); found.Lost != nil {
		records := bodies(kept)
		rec.At, rec.Body = r.now, failed(out, records, found.Damage)
		for _, open := range journal.NewHistory(records).Reserved { // its calls may have been made (LED-005)
			r.lost.add(act.Windows(open, out.Principal), budget.Counter{
				Used: policy.AmountsOf(open.Amount),
				Mark: budget.AtLeast,
			})
		}
	}
	run := &liveRun{id: out.ID, rowState: rowState{row: *out}}
	if out.Ended() { // the records that were cut off had reopened it
		h := journal.NewHistory(bodies(kept))
		again := rec
		again.Epoch++
		again.Body = &journal.RunResumed{
			Host:       journalRepair,
			Boot:       journalRepair,
			Config:     h.Config,
			Was:        h.Config,
			Why:        journal.ResumedDecision,
			By:         journalRepair,
			DeadlineAt: h.DeadlineAt,
		}
		run.row.State = stateOpen
		if err := r.dst.writer.record(ctx, newItem(run, again)); err != nil {
			return err
		}
		rec.Seq, rec.Epoch = rec.Seq+1, again.Epoch
	}
	err := r.dst.writer.record(ctx, newItem(run, rec))
	*out = run.row
	out.bytes = int64(r.dst.writer.stored)
	return err
}

// journalRepair stands for the host and the caller in the records of a repair.
const journalRepair = "journal-repair"

func bodies(kept []verifiedRecord) []journal.Record {
	records := make([]journal.Record, len(kept))
	for i, k := range kept {
		records[i] = k.rec
	}
	return records
}

// failed returns the last record of a run that cannot go on.
func failed(out *runRow, records []journal.Record, damage *Damage) *journal.RunFinished {
	failure := contract.Errorf("journal/damaged", "run %s was ended after record %d, because the journal was damaged: %s", out.ID,
		out.Records, damage.What).WithHint("what it did after this record is not known: look at its effects before the request is sent again")
	response := edn.MustMap(edn.K("proto"), edn.Int(contract.Proto), edn.K("run/id"), edn.Text(out.ID), edn.K("error"), failure.Value())
	if accepted, ok := records[0].Body.(*journal.RunAccepted); ok {
		response = response.AssocKey("trace", accepted.Trace)
	}
	account := journal.NewAccount(records)
	return &journal.RunFinished{
		Status:   journal.StatusFailed,
		Response: journal.RefTo(response),
		Executed: account.Executed(),
		Latency:  max(0, records[len(records)-1].At.Sub(out.Accepted)),
		Totals:   account.Totals(),
		Err:      failure,
	}
}

// replace puts dst in the place of the database.
func (r *repairer) replace(ctx context.Context) error {
	err := r.src.closeFiles()
	r.src = nil
	if err != nil {
		return err
	}
	kept := r.path + damagedSuffix + r.now.Format("20060102T150405Z")
	if err := os.Mkdir(kept, 0o700); err != nil {
		return err
	}
	if err := r.setAside(ctx, kept); err != nil {
		return errors.Join(err, os.RemoveAll(kept))
	}
	whole, err := r.dst.db.flush(ctx)
	if err == nil && !whole {
		err = errors.New("the new database is in use")
	}
	err = errors.Join(err, r.dst.closeFiles())
	r.dst = nil
	if err == nil {
		err = r.files.syncFolder(r.path + rebuiltSuffix)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(kept))
	}
	// SQLite would apply the log of the damaged database to the new one.
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(r.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(r.path+rebuiltSuffix, r.path); err != nil {
		return err
	}
	r.report.Kept = kept
	return r.files.syncFolder(filepath.Dir(r.path))
}

// setAside links the damaged files into a folder, so that each stays where it is
// until the new database is complete.
func (r *repairer) setAside(ctx context.Context, kept string) error {
	link := func(path, name string) error {
		name = filepath.Join(kept, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.Link(path, name); err != nil {
			return err
		}
		return r.files.syncFolder(filepath.Dir(name))
	}
	for path, name := range map[string]string{
		r.path:                           filepath.Base(r.path),
		r.path + "-wal":                  filepath.Base(r.path) + "-wal",
		r.path + rebuiltSuffix + cutName: cutName,
	} {
		if err := link(path, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// Retain deletes the files that the new database does not name.
	return r.files.sweep(ctx, func(h sum) (bool, error) {
		at, err := r.dst.writer.find(ctx, h, true)
		return at.n > 0, err
	}, func(path string) error {
		name, err := filepath.Rel(filepath.Dir(r.path), path)
		if err != nil {
			return err
		}
		return link(path, name)
	})
}
