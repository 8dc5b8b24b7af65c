package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Verify validates the data directory of a closed store and changes nothing.
// Every defect is a finding of the report. It returns an error only if dir has
// no store, the store has a newer version, the disk cannot be read, or ctx ends.
func Verify(ctx context.Context, dir string, check Check) (*Report, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	v := &validator{dir: dir, check: check}
	if err := v.identify(); err != nil {
		return nil, err
	}
	if v.text == nil {
		return v.done(), nil // without the scheme nothing can be verified
	}
	sealed, err := readSeal(dir)
	if err != nil {
		v.wrong(Finding{Code: SealDamaged, File: sealFile, Reason: err.Error()})
	}
	close, err := v.openClosed(ctx, sealed)
	if err != nil {
		return nil, asStoreError("verify", err)
	}
	defer close()
	v.unsealed = !exists(filepath.Join(dir, sealFile))
	if err := v.replay(ctx, false); err != nil {
		return nil, asStoreError("verify", err)
	}
	v.sealed(sealed)
	if err := v.rest(ctx); err != nil {
		return nil, asStoreError("verify", err)
	}
	return v.done(), nil
}

// validator is one validation.
type validator struct {
	findings
	dir    string
	check  Check
	who    Identity
	scheme id.Scheme
	text   []byte // of workspace.edn; nil if it cannot be found out
	// index is the index to compare the replay with, at the checkpoint at; nil if it cannot be
	// read, in which case its damage has been reported.
	index querier
	at    log.Checkpoint
	end   log.Checkpoint
	// whole means that the log has no damage.
	whole bool
	// unsealed means that no process closed the store.
	unsealed bool
	first    int // segment with the first transaction of the log
	replica  *replica
}

// identify reads workspace.edn. If it is damaged, its content is taken from the log. A file of a
// newer version counts as damaged if the log was begun with another one.
func (v *validator) identify() (err error) {
	v.who, v.scheme, v.text, err = readIdentity(v.dir)
	if err == nil {
		return nil
	}
	if errors.Is(err, contract.OfType("workspace/not-found")) && !exists(filepath.Join(v.dir, logDir)) {
		return err
	}
	found := v.text
	text, lost := lostIdentity(v.dir)
	if lost == nil {
		v.who, v.scheme, lost = parseIdentity(text)
	}
	code := IdentityDamaged
	if errors.Is(err, contract.OfType("store/version")) {
		if lost != nil || bytes.Equal(text, found) {
			return err
		}
		code = IdentityNewer
	}
	v.wrong(Finding{Code: code, File: identityFile, Reason: contract.AsError(err).Message})
	if v.text = nil; lost == nil {
		v.text = text
	}
	return nil
}

// openClosed opens the index of a closed store without changing a file.
func (v *validator) openClosed(ctx context.Context, sealed *seal) (close func(), err error) {
	none := func() {}
	path := filepath.Join(v.dir, indexFile)
	damaged := func(reason string) { v.wrong(Finding{Code: IndexDamaged, File: indexFile, Reason: reason}) }
	if sealed != nil {
		if hash, err := hashFile(path); err != nil || hash != sealed.index {
			damaged("it is not the index that was sealed")
			return none, err
		}
	} else {
		v.warn(Finding{Code: NotSealed, Reason: "the store was not closed, or is open in another process"})
	}
	if !exists(path) {
		return none, nil
	}
	settings := url.Values{"mode": {"ro"}, "immutable": {"1"}, "_query_only": {"1"}}
	remove := none
	if exists(path + "-wal") { // reading it would change files beside it
		if path, remove, err = copyIndex(path); err != nil {
			return none, err
		}
		settings = url.Values{"_query_only": {"1"}}
	}
	db, err := sql.Open("sqlite", source(path, settings))
	if err != nil {
		remove()
		return none, err
	}
	if v.at, err = checkpoint(ctx, db); err == nil {
		v.index = db
	} else {
		damaged(err.Error())
	}
	return func() { _ = db.Close(); remove() }, nil
}

// copyIndex copies a database with its write-ahead log to a temporary directory.
func copyIndex(path string) (copied string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "workspace-index")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, indexFile+suffix), b, 0o600)
		}
		if err != nil {
			remove()
			return "", nil, err
		}
	}
	return filepath.Join(dir, indexFile), remove, nil
}

var errReached = errors.New("the state of the index is reached")

// replay verifies the log and compares the index with it, at the checkpoint of
// the index. An open store is verified up to there, because more is being written.
func (v *validator) replay(ctx context.Context, open bool) (err error) {
	if v.check.Level == Full {
		if v.replica, err = newReplica(ctx, v.who, v.scheme, &v.findings, &v.check); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.replica.close()) }()
	}
	compared := false
	var damage *log.Damage
	v.end, damage, err = log.Verify(filepath.Join(v.dir, logDir), v.scheme.Alg(), func(t *log.Transaction) error {
		v.bound(t)
		if v.check.Progress != nil {
			v.check.Progress(int(t.Commit.Seq), int(max(v.at.Seq, t.Commit.Seq)))
		}
		if err := v.transaction(ctx, t, &compared); err != nil {
			return err
		}
		if open && t.Commit.Seq >= v.at.Seq {
			v.end = t.End
			return errReached
		}
		return ctx.Err()
	})
	switch {
	case errors.Is(err, errReached):
		v.end, damage = v.at, nil
	case err != nil:
		return err
	case damage != nil && damage.Cut && v.unsealed && v.at.Seq <= v.end.Seq:
		v.warn(Finding{Code: LogTorn, File: logDir + "/" + damage.File, Offset: damage.Offset, Seq: damage.Seq,
			Reason: "a process died while it wrote here: " + damage.Reason + "; the next command that opens the workspace cuts it off"})
		damage = nil
	case damage != nil:
		if err := v.damaged(damage); err != nil {
			return err
		}
	}
	v.whole = damage == nil
	if v.whole && v.index != nil && v.at.Seq > v.end.Seq {
		v.wrong(Finding{Code: LogMissing, File: logFile(max(v.end.Segment, 1)), Offset: v.end.Offset, Seq: v.end.Seq,
			Reason: fmt.Sprintf("the index knows the transaction %d", v.at.Seq)})
	}
	v.report.Seq = v.end.Seq
	return v.conclude(ctx)
}

// bound compares workspace.edn with the record of it that begins the log.
func (v *validator) bound(t *log.Transaction) {
	if len(t.Records) == 0 || t.Records[0].Kind != kindWorkspace {
		return
	}
	payload, sum := t.Records[0].Payload, v.scheme.Alg().Sum(v.text)
	if len(payload) >= len(sum) && string(payload[:len(sum)]) == string(sum[:]) {
		return
	}
	v.wrong(Finding{Code: IdentityDamaged, File: identityFile, Reason: otherIdentity})
	if len(payload) > len(sum) {
		if who, _, err := parseIdentity(payload[len(sum):]); err == nil {
			v.who = who
		}
	}
}

// transaction adds one transaction of the log to the replica, and compares the index with the
// replica when both are at the same transaction.
func (v *validator) transaction(ctx context.Context, t *log.Transaction, compared *bool) error {
	if v.replica == nil {
		return nil
	}
	if err := v.replica.add(ctx, t); err != nil {
		return err
	}
	if v.first == 0 {
		if v.first = t.End.Segment; len(t.Places) > 0 {
			v.first = t.Places[0].Segment
		}
	}
	if v.index == nil || *compared || t.Commit.Seq < v.at.Seq {
		return nil
	}
	*compared = true
	if v.unsealed && v.at.Seq == 0 {
		return nil // the process died before the index got the first transaction
	}
	if v.unsealed && v.at.Segment < v.first {
		v.warn(Finding{Code: IndexBehind, File: indexFile, Seq: v.at.Seq,
			Reason: "a process died while it compacted the log; the next command that opens the workspace rebuilds the index"})
		return nil
	}
	// A segment without transactions can follow.
	if t.Commit.Seq > v.at.Seq || t.End != v.at && v.at.Segment <= t.End.Segment {
		v.wrong(Finding{Code: IndexDiffers, File: indexFile,
			Reason: fmt.Sprintf("the index ends with transaction %d, which the log does not have", v.at.Seq)})
		return nil
	}
	return v.replica.compare(ctx, v.index)
}

// damaged reports every damage of the log.
func (v *validator) damaged(first *log.Damage) error {
	list := []*log.Damage{first}
	s, err := log.Salvage(filepath.Join(v.dir, logDir), v.scheme.Alg(), func(*log.Transaction) error { return nil })
	if err != nil {
		return err
	}
	for _, d := range s.Damages {
		if !slices.ContainsFunc(list, func(x *log.Damage) bool { return x.File == d.File }) || d.Offset > first.Offset {
			list = append(list, d)
		}
	}
	for _, d := range list {
		v.wrong(Finding{Code: LogDamaged, File: logDir + "/" + d.File, Offset: d.Offset, Seq: d.Seq, Reason: d.Reason})
	}
	return nil
}

// sealed compares the seal with the log.
func (v *validator) sealed(s *seal) {
	switch {
	case s == nil || !v.whole || s.end == v.end:
	case s.end.Seq > v.end.Seq:
		v.wrong(Finding{Code: LogMissing, File: logFile(max(v.end.Segment, 1)), Offset: v.end.Offset, Seq: v.end.Seq,
			Reason: fmt.Sprintf("the log does not have transaction %d of the seal", s.end.Seq)})
	default:
		v.wrong(Finding{Code: SealDamaged, File: sealFile, Seq: s.end.Seq,
			Reason: fmt.Sprintf("the seal belongs to transaction %d, the log ends with %d", s.end.Seq, v.end.Seq)})
	}
}

// rest verifies the index, the stat cache, the quarantine and the names of all files.
func (v *validator) rest(ctx context.Context) error {
	if v.index != nil {
		v.integrity(ctx)
		replaced, _ := rebuilt(ctx, v.index) // of an index that cannot be read, integrity says so
		for _, f := range replaced {
			v.warn(f)
		}
	}
	if _, err := scan.LoadCache(filepath.Join(v.dir, cacheFile), v.scheme); err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.wrong(Finding{Code: CacheDamaged, File: cacheFile, Reason: err.Error()})
	}
	entries, err := os.ReadDir(v.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile:
			if info, err := e.Info(); err == nil && info.Size() > 0 {
				v.wrong(Finding{Code: LockNotEmpty, File: lockFile, Reason: "the file is not empty"})
			}
		case slices.Contains([]string{identityFile, logDir, indexFile, cacheFile, sealFile, quarantineDir}, strings.TrimSuffix(strings.TrimSuffix(name, "-wal"), "-shm")):
		default:
			v.warn(Finding{Code: FileUnknown, File: name, Reason: "the file is not part of a store"})
		}
	}
	return v.quarantine()
}

func (v *validator) quarantine() error {
	entries, err := os.ReadDir(filepath.Join(v.dir, quarantineDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if name := quarantineDir + "/" + e.Name(); name == damageMark {
			if found := readMark(v.dir); found != nil && !slices.ContainsFunc(v.report.Errors, Finding.ofLog) {
				v.wrong(Finding{Code: DamageMarked, File: name, Reason: "damage was found before: " + found.Error()})
			}
			continue
		}
		altered, err := log.Altered(filepath.Join(v.dir, quarantineDir, e.Name()))
		if err != nil {
			return err
		}
		if altered {
			v.wrong(Finding{Code: QuarantineAltered, File: quarantineDir + "/" + e.Name(),
				Reason: "the hash of the content differs from the hash in the name"})
		}
	}
	return nil
}

// integrity lets SQLite verify its file, and compares the workspace.
func (v *validator) integrity(ctx context.Context) {
	damaged := func(reason string) { v.wrong(Finding{Code: IndexDamaged, File: indexFile, Reason: reason}) }
	var workspace string
	err := v.index.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'workspace'").Scan(&workspace)
	switch {
	case err != nil:
		damaged(err.Error())
	case workspace != v.who.ID:
		damaged(fmt.Sprintf("the index belongs to workspace %q, not to %q", workspace, v.who.ID))
	}
	pragma := "PRAGMA integrity_check"
	if v.check.Level == Quick {
		pragma = "PRAGMA quick_check"
	}
	lines, err := collect(ctx, v.index, scanText[string], pragma)
	for _, text := range lines {
		if text != "ok" {
			damaged("SQLite: " + text)
		}
	}
	if err != nil {
		damaged(err.Error())
	}
}
