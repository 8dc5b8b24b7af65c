package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
)

// Repaired is the result of Repair. With dryRun it describes what a repair would do.
type Repaired struct {
	Runs int    // number of runs in the journal
	File string // the damage in the pages of the database; empty: none
	// Damaged are the runs in which damage was found.
	Damaged []RepairedRun
	// Unnamed is the number of records whose run could not be determined.
	Unnamed int
	// Missing is the number of runs of which neither a record nor a summary was found, as far as
	// that can be determined. It is 0 unless pages of the database are damaged.
	Missing int
	// HostRecords and HostCut are the numbers of records in the host stream that were kept and cut
	// off. HostCut is 0 if the stream has no damage.
	HostRecords, HostCut int
	// HostDamage is the first damage of the host stream; nil if there is none.
	HostDamage *Damage
	// Sessions reports which rows of sessions and conversations were kept and lost; zero if the
	// database has no damage.
	Sessions RepairedSessions
	// Kept is the folder with the damaged files and the records that were cut off; empty if nothing
	// was changed.
	Kept string
}

// Sound reports whether no damage was found.
func (r *Repaired) Sound() bool {
	return r.File == "" && len(r.Damaged) == 0 && r.Unnamed == 0 && r.HostDamage == nil && r.Sessions.Damage == nil
}

// RepairedRun describes a damaged run and the parts of it that were kept.
type RepairedRun struct {
	Run     string
	Damage  *Damage  // the first damage
	Records int      // number of records that were kept
	Cut     int      // number of records that were cut off
	Lost    []string // hashes of the values that were lost
	State   string   // state after the repair
	// Halted reports that the repair has suspended or ended the run, because records of its further
	// progress may be lost.
	Halted bool
}

// Names of the files of a repair. The first two are beside the database during the repair.
const (
	salvageSuffix = ".salvage"
	rebuiltSuffix = ".rebuilt"
	damagedSuffix = ".damaged-" // followed by the time: the folder for the damaged files
	cutName       = "cut.edn"   // the file in that folder for records that were cut off
)

// Repair rebuilds the database file of a store that is not open, if any part of it is damaged. It
// copies the records of each run up to the first one that does not verify, and each value that
// matches its hash. It changes no record. The damaged files are kept beside the database. With
// dryRun it only returns what it would do.
//
// If the database is missing or older than it was left, the open runs that are left are suspended.
// A run that lost its end, or records while it was open, is suspended, because its further progress
// is unknown. If it also lost values, it fails with journal/damaged. A run that lost values is
// marked as purged. A run without any record keeps its summary, like a removed run, with the error
// journal/damaged.
//
// The error is a *LockedError, *NetworkError or *SchemaError, that of ctx, or one of the file
// system or of the new database. After an error the damaged files are at their original place.
func Repair(ctx context.Context, opts Options, dryRun bool) (_ *Repaired, err error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.asIs = true
	files, err := openBlobs(opts)
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
	src    *Store // the damaged database, or the rows salvaged from its pages
	dst    *Store
	cut    *bufio.Writer
	report *Repaired
	older  bool // the database is not the one that was left there

	settled counters       // costs that the kept records settle
	lost    counters       // reservations of the runs that the repair has failed
	counted map[string]int // rows of the tables of sessions and conversations, as far as they can be counted
	missing int            // number of lost rows of sessions and conversations
}

// inspect opens src and reports whether it has no damage.
func (r *repairer) inspect(ctx context.Context, opts Options) (sound bool, err error) {
	var d *Damage
	r.src, err = open(ctx, opts, r.files)
	switch {
	case errors.As(err, &d):
		r.report.File, r.older = d.What, d.Lost
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
		damage := 0
		_, err := r.src.verifyRuns(ctx, func(*Damage) { damage++ }, nil)
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
			return damage+len(inSessions) == 0 && r.report.HostDamage == nil, err
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

// lite returns the SQLite database of a store.
func lite(s *Store) *sqliteDB { return s.db.(*sqliteDB) }

// scratch creates a database beside the original one. It does not sync, because it is only used
// when it is complete.
func (r *repairer) scratch(ctx context.Context, suffix string) (*Store, error) {
	if err := r.remove(suffix); err != nil {
		return nil, err
	}
	return open(ctx, Options{Path: r.path + suffix, NoSync: true, scratch: true}, r.files)
}

func (r *repairer) remove(suffix string) error {
	for _, more := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(r.path + suffix + more); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// close closes the databases of the repair and deletes its temporary files.
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

// salvage copies the rows of all readable pages into src. Of several rows with the same number the
// first one is kept.
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

// rebuild copies every readable run into dst and verifies it.
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

// counters copies the counters of budgets. A lost counter is rebuilt from the costs in the kept
// records, without those of removed runs.
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

// readCounters reads the counters of src; nil if the database is of version 1, which does not have
// them.
func (r *repairer) readCounters(ctx context.Context) (counters, error) {
	var there int
	if err := r.src.read.one(ctx, "counters_table", nil, []any{&there}); err != nil || there == 0 {
		return nil, err
	}
	return readCounters(ctx, r.src.read, "counters")
}

// journalRepair is the name of the host and the caller in the records that a repair writes.
const journalRepair = "journal-repair"

// replace moves the damaged files away and puts dst in their place.
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
	if err := r.files.syncFolder(filepath.Dir(r.path)); err != nil {
		return err
	}
	m := readMark(r.path)
	return m.write(0, true)
}

// setAside links the damaged files into a folder, so that each also stays in its place until the
// new database is complete.
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
