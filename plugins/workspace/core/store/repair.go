package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// RepairStep is one step of a repair. It is the name of a keyword.
type RepairStep string

// The steps, in the order in which they are done.
const (
	RestoreIdentity RepairStep = "restore-identity" // workspace.edn, from the log
	RewriteLog      RepairStep = "rewrite-log"      // from every transaction that verifies
	RebuildIndex    RepairStep = "rebuild-index"
	DropSeal        RepairStep = "drop-seal"       // the next close writes one
	DropCache       RepairStep = "drop-stat-cache" // the next scan reads every file
	EmptyLock       RepairStep = "empty-lock"
	NameQuarantined RepairStep = "name-quarantined" // files that were altered in quarantine
	DropMark        RepairStep = "drop-damage-mark" // the log verifies again
	ForgetRebuilt   RepairStep = "forget-rebuilt"   // warnings that derived files were replaced
)

// stepOf is the step that removes a finding.
var stepOf = map[Code]RepairStep{
	IdentityDamaged:   RestoreIdentity,
	IdentityNewer:     RestoreIdentity,
	DamageMarked:      DropMark,
	LogDamaged:        RewriteLog,
	LogMissing:        RewriteLog,
	RecordMalformed:   RewriteLog,
	FrameMismatch:     RewriteLog,
	ContentMissing:    RewriteLog,
	HeadDangling:      RewriteLog,
	NodeMismatch:      RewriteLog,
	IndexDamaged:      RebuildIndex,
	IndexDiffers:      RebuildIndex,
	RootDiffers:       RebuildIndex,
	SealDamaged:       DropSeal,
	CacheDamaged:      DropCache,
	LockNotEmpty:      EmptyLock,
	QuarantineAltered: NameQuarantined,
	Rebuilt:           ForgetRebuilt,
	SealReplaced:      ForgetRebuilt,
	CacheReplaced:     ForgetRebuilt,
}

// ofLog reports whether a finding is about the log.
func (f Finding) ofLog() bool {
	step := stepOf[f.Code]
	return step == RewriteLog || step == DropMark
}

// steps is the order of the steps.
var steps = []RepairStep{
	RestoreIdentity, RewriteLog, RebuildIndex, DropSeal, DropCache, EmptyLock, NameQuarantined, DropMark, ForgetRebuilt,
}

// LostFrame is a frame that is missing from the log, or damaged in it.
type LostFrame struct {
	Frame id.ID
	Path  string
	Type  string
	Seq   uint64
	// Text means that only the text is lost.
	Text bool
}

// Repaired is the result of a repair, or of its preview.
type Repaired struct {
	Steps []RepairStep
	// Lost are the frames that the log lacks, as far as the index or the log
	// refer to them, sorted by path.
	Lost []LostFrame
	// LostSeqs are the transactions that the log lacks.
	LostSeqs []Range
}

// Repair makes the data directory of a closed store valid again. Derived files are
// rebuilt. A damaged log is replaced by a new one with every transaction that
// still verifies, under its old number. A head whose frame is lost becomes the
// frame before. Reading a state from the first lost transaction on returns
// seq/compacted. Damaged files are moved to the quarantine and not deleted.
//
// Without apply, it only returns what it would do.
func Repair(ctx context.Context, dir string, o Options, apply bool) (*Repaired, error) {
	at, err := openDir(dir, false)
	if err != nil {
		return nil, asOpenError(dir, err)
	}
	lock, err := takeLock(at, dir)
	_ = at.Close()
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }()
	report, err := Verify(ctx, dir, Check{})
	if err != nil {
		return nil, err
	}
	r := &repairer{dir: dir, o: o, out: &Repaired{Steps: stepsFor(report)}}
	if len(r.out.Steps) == 0 {
		return r.out, nil
	}
	if err := r.identify(); err != nil {
		return nil, err
	}
	var s *salvage
	if slices.Contains(r.out.Steps, RewriteLog) {
		if s, err = r.salvage(ctx); err != nil {
			return nil, asStoreError("repair", err)
		}
	}
	if !apply {
		return r.out, nil
	}
	if err := r.apply(ctx, s, report); err != nil {
		return nil, asStoreError("repair", err)
	}
	_ = lock.Close() // Open takes it again
	return r.out, r.prove(ctx)
}

// stepsFor returns the steps that a report asks for, in order.
func stepsFor(report *Report) (list []RepairStep) {
	found := slices.Concat(report.Errors, report.Warnings)
	for _, s := range steps {
		if slices.ContainsFunc(found, func(f Finding) bool { return stepOf[f.Code] == s }) {
			list = append(list, s)
		}
	}
	if slices.Contains(list, RewriteLog) && !slices.Contains(list, RebuildIndex) {
		list = slices.Insert(list, slices.Index(list, RewriteLog)+1, RebuildIndex)
	}
	return list
}

// repairer is one repair.
type repairer struct {
	dir    string
	o      Options
	out    *Repaired
	who    Identity
	scheme id.Scheme
	text   []byte // of workspace.edn as it must be
}

// identify determines the content that workspace.edn must have.
func (r *repairer) identify() error {
	text, err := lostIdentity(r.dir)
	if err != nil { // then only the file has it
		_, _, text, err = readIdentity(r.dir)
	}
	if err == nil {
		r.text = text
		r.who, r.scheme, err = parseIdentity(text)
	}
	return err
}

func (r *repairer) path(name string) string { return filepath.Join(r.dir, name) }

// moveAway moves a file to the quarantine, if it exists.
func (r *repairer) moveAway(name string) error {
	if !exists(r.path(name)) {
		return nil
	}
	return r.fault(log.OpRemove, func() error { return log.MoveAway(r.path(name), r.path(quarantineDir)) })
}

func (r *repairer) fault(op string, run func() error) error {
	s := Store{o: r.o}
	return s.fault(op, run)
}

// apply does the steps.
func (r *repairer) apply(ctx context.Context, s *salvage, report *Report) error {
	for _, step := range r.out.Steps {
		var err error
		switch step {
		case RestoreIdentity:
			if err = r.moveAway(identityFile); err == nil {
				err = r.fault(opIdentity, func() error { return renameio.WriteFile(r.path(identityFile), r.text, 0o600) })
			}
		case RewriteLog:
			err = s.restart(ctx)
		case RebuildIndex:
			err = errors.Join(r.moveAway(indexFile), r.moveAway(indexFile+"-wal"), r.moveAway(indexFile+"-shm"))
		case DropSeal:
			err = r.moveAway(sealFile)
		case DropCache:
			err = r.moveAway(cacheFile)
		case EmptyLock:
			err = r.emptyLock()
		case NameQuarantined:
			for _, f := range report.Errors {
				if f.Code == QuarantineAltered {
					err = keep(err, r.moveAway(f.File))
				}
			}
		}
		if err != nil {
			return err
		}
	}
	if err := os.Remove(r.path(damageMark)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// opIdentity is the operation of Faults that writes workspace.edn.
const opIdentity = "identity"

// emptyLock moves a copy of the lock file to the quarantine and truncates the file. The file itself
// must stay, because the lock is on it.
func (r *repairer) emptyLock() error {
	text, err := os.ReadFile(r.path(lockFile))
	if err != nil {
		return err
	}
	copied := r.path(lockFile + ".damaged")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		return err
	}
	return errors.Join(log.MoveAway(copied, r.path(quarantineDir)), os.Truncate(r.path(lockFile), 0))
}

// prove opens and closes the store, which rebuilds the derived files, and verifies it.
func (r *repairer) prove(ctx context.Context) error {
	s, err := Open(ctx, r.dir, r.o)
	if err != nil {
		return err
	}
	err = s.index.exec(ctx, "DELETE "+rebuiltRows) // the repair says so itself
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	report, err := Verify(ctx, r.dir, Check{})
	if err != nil {
		return err
	}
	if !report.Valid {
		return corrupt(report.Errors[0].File, "it is not valid after the repair: %s", report.Errors[0].Reason)
	}
	return nil
}

// openIndexOf opens the index of a closed store for reading, nil if it cannot be
// used.
func (r *repairer) openIndexOf(ctx context.Context) (q querier, at log.Checkpoint, close func(), err error) {
	v := &validator{dir: r.dir, who: r.who, scheme: r.scheme}
	sealed, err := readSeal(r.dir)
	if err != nil {
		sealed = nil
	}
	if close, err = v.openClosed(ctx, sealed); err != nil {
		return nil, at, nil, err
	}
	if v.index != nil {
		v.integrity(ctx)
	}
	if sealed != nil {
		at.Seq = sealed.end.Seq
	}
	if len(v.report.Errors) > 0 || v.index == nil {
		return nil, at, close, nil
	}
	at.Seq = max(at.Seq, v.at.Seq)
	return v.index, at, close, nil
}
