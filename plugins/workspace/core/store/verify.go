package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
)

// Finding is a file of a data directory that does not verify.
type Finding struct {
	File   string
	Offset int64 // of the damage in the file, if it is known
	Seq    uint64
	Reason string
}

// Verify reads the data directory of a closed store, changes nothing, and
// returns every file that does not verify. The stat cache and the index are
// derived: damage of them loses nothing.
func Verify(ctx context.Context, dir string) ([]Finding, error) {
	v := verifier{dir: dir}
	who, scheme, text, err := readIdentity(dir)
	if err != nil {
		return []Finding{{File: identityFile, Reason: err.Error()}}, nil
	}
	sum, first := scheme.Alg().Sum(text), []byte(nil)
	end, damage, err := log.Verify(filepath.Join(dir, logDir), scheme.Alg(), func(t *log.Transaction) error {
		if t.Commit.Seq == 1 && len(t.Records) > 0 && t.Records[0].Kind == kindWorkspace {
			first = t.Records[0].Payload
		}
		return ctx.Err()
	})
	switch {
	case err != nil:
		return nil, asStoreError("verify", err)
	case damage != nil:
		v.found(filepath.Join(logDir, damage.File), damage.Reason)
		v.list[len(v.list)-1].Offset, v.list[len(v.list)-1].Seq = damage.Offset, damage.Seq
	case string(first) != string(sum[:]):
		v.found(identityFile, "it is not the file that the log was begun with")
	}
	v.derived(ctx, who, end, damage == nil)
	if _, err := scan.LoadCache(filepath.Join(dir, cacheFile), scheme); err != nil && !errors.Is(err, os.ErrNotExist) {
		v.found(cacheFile, err.Error())
	}
	if info, err := os.Lstat(filepath.Join(dir, lockFile)); err == nil && info.Size() > 0 {
		v.found(lockFile, "it is not empty")
	}
	return v.list, nil
}

type verifier struct {
	dir  string
	list []Finding
}

func (v *verifier) found(file, reason string) {
	v.list = append(v.list, Finding{File: file, Reason: reason})
}

// derived verifies seal and index against the log.
func (v *verifier) derived(ctx context.Context, who Identity, end log.Checkpoint, logIsWhole bool) {
	sealed, err := readSeal(v.dir)
	if err != nil {
		v.found(sealFile, err.Error())
	}
	path := filepath.Join(v.dir, indexFile)
	if sealed != nil {
		if logIsWhole && sealed.end != end {
			v.found(sealFile, fmt.Sprintf("it is of transaction %d at segment %d, byte %d; the log ends with %d at segment %d, byte %d",
				sealed.end.Seq, sealed.end.Segment, sealed.end.Offset, end.Seq, end.Segment, end.Offset))
		}
		hash, err := hashFile(path)
		if err != nil || hash != sealed.index {
			v.found(indexFile, "it is not the index that was sealed")
			return
		}
	}
	if !exists(path) {
		return
	}
	// A sealed index has no write-ahead log, so nothing is created beside it.
	db, err := sql.Open("sqlite", source(path, url.Values{"mode": {"ro"}, "immutable": {"1"}, "_query_only": {"1"}}))
	if err != nil {
		v.found(indexFile, err.Error())
		return
	}
	defer func() { _ = db.Close() }()
	var workspace, check string
	err = errors.Join(db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'workspace'").Scan(&workspace),
		db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&check))
	if err != nil || check != "ok" || workspace != who.ID {
		v.found(indexFile, fmt.Sprintf("it is of workspace %q, and SQLite finds %q: %v", workspace, check, err))
	}
}
