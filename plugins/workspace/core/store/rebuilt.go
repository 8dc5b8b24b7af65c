package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
)

// rebuiltFiles are the derived files by the code of the warning that they were replaced. The code
// is also the key in the table meta under which the index stores the reason, so that later
// processes warn of it too, until a repair (WS-171).
var rebuiltFiles = map[Code]string{Rebuilt: indexFile, SealReplaced: sealFile, CacheReplaced: cacheFile}

// rebuiltRows are the rows of the table meta about them.
const rebuiltRows = "FROM meta WHERE key IN ('" + string(Rebuilt) + "', '" + string(SealReplaced) + "', '" + string(CacheReplaced) + "')"

func (s *Store) remember(ctx context.Context, code Code, why string) error {
	_, err := s.index.conn.ExecContext(ctx, "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
		string(code), why)
	return err
}

// remembered returns the findings that an index of this workspace stores, nil if it cannot be read.
func (s *Store) remembered(ctx context.Context, path string) []Finding {
	readers, err := openReaders(path)
	if err != nil {
		return nil
	}
	defer func() { _ = readers.close() }()
	var workspace string
	err = readers.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'workspace'").Scan(&workspace)
	if err != nil || workspace != s.Identity.ID {
		return nil
	}
	list, _ := rebuilt(ctx, readers.db)
	return list
}

// rememberRebuilt reads the derived files that are replaced later: the seal, which openDerived
// did not use if it is damaged, and the stat cache.
func (s *Store) rememberRebuilt(ctx context.Context) (err error) {
	if _, err := readSeal(s.dir); err != nil {
		if err := s.remember(ctx, SealReplaced, unusableSeal(err)); err != nil {
			return err
		}
	}
	s.saved, err = scan.LoadCache(filepath.Join(s.dir, cacheFile), s.Scheme)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	why := "the stat cache is not used: " + err.Error()
	s.warn(why)
	return s.remember(ctx, CacheReplaced, why)
}

func unusableSeal(err error) string { return "the seal is not used: " + err.Error() }

// rebuilt returns which derived files were replaced because they could not be used.
func rebuilt(ctx context.Context, q querier) (list []Finding, err error) {
	err = eachRow(ctx, q, func(rows *sql.Rows) error {
		var f Finding
		err := rows.Scan(&f.Code, &f.Reason)
		f.File = rebuiltFiles[f.Code]
		list = append(list, f)
		return err
	}, "SELECT key, value "+rebuiltRows+" ORDER BY key")
	return list, err
}

// Rebuilt returns a finding for each derived file that was replaced because it was
// unusable, since the store was created or repaired.
func (v *Snapshot) Rebuilt(ctx context.Context) ([]Finding, error) {
	list, err := rebuilt(ctx, v.tx)
	return list, readError(err)
}
