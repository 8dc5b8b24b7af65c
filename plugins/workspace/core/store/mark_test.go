package store

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
)

// WS-044, WS-173, section 2.16: damage of a part of the log that Open does not read is
// remembered once a validation or a read has found it: this and later processes refuse
// writes, until a repair.
func TestFoundDamageIsRemembered(t *testing.T) {
	finders := map[string]func(t *testing.T, dir string, content id.ID){
		"a validation of the closed store": func(t *testing.T, dir string, _ id.ID) {
			report, err := Verify(background, dir, Check{Level: Quick})
			require.NoError(t, err)
			require.NoError(t, MarkDamage(dir, report))
		},
		"a validation of the open store": func(t *testing.T, dir string, _ id.ID) {
			s := open(t, dir)
			require.NoError(t, s.Damage(), "opening does not read the log")
			assert.False(t, validate(t, s.Store, Check{}).Valid)
			refusesWrites(t, s)
		},
		"a read": func(t *testing.T, dir string, content id.ID) {
			s := open(t, dir)
			err := s.View(background, Latest, func(v *Snapshot) error {
				_, err := v.Content(background, content)
				return err
			})
			typed(t, err, "store/corrupt")
			refusesWrites(t, s)
		},
	}
	for name, find := range finders {
		t.Run(name, func(t *testing.T) {
			dir := create(t, id.B3)
			s := furnished(t, dir)
			frame := mustPut(t, s.Store, "a", "note", "the text that is damaged")
			require.NoError(t, s.Close())
			path := filepath.Join(dir, logFile(1))
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			b[bytes.Index(b, []byte("the text that"))] = 'T'
			require.NoError(t, os.WriteFile(path, b, 0o600))

			find(t, dir, frame.Content)
			refusesWrites(t, open(t, dir))
			report, err := Verify(background, dir, Check{})
			require.NoError(t, err)
			assert.Equal(t, LogDamaged, report.Errors[0].Code)

			repaired := func(step RepairStep) {
				done, err := Repair(background, dir, testOptions, true)
				require.NoError(t, err)
				assert.Contains(t, done.Steps, step)
				s := open(t, dir)
				require.NoError(t, s.Damage())
				mustPut(t, s.Store, "a", "note", "after "+string(step))
				require.NoError(t, s.Close())
			}
			repaired(RewriteLog)
			require.NoError(t, writeMark(dir, "the log was restored from a copy"))
			report, err = Verify(background, dir, Check{})
			require.NoError(t, err)
			require.Len(t, report.Errors, 1)
			assert.Equal(t, DamageMarked, report.Errors[0].Code)
			repaired(DropMark)
		})
	}
}

// WS-171: an open that does not use a damaged seal or stat cache is remembered, as a rebuilt
// index is: validations warn of it, with the file, until a repair.
func TestReplacedFilesAreRemembered(t *testing.T) {
	for file, code := range map[string]Code{sealFile: SealReplaced, cacheFile: CacheReplaced} {
		dir, _ := everyFile(t, id.B3)
		path := filepath.Join(dir, file)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		flipped := bytes.Clone(whole)
		flipped[len(flipped)/2] ^= 1
		require.NoError(t, os.WriteFile(path, flipped, 0o600))
		s := open(t, dir)
		assert.Contains(t, codes(validate(t, s.Store, Check{}).Warnings), string(code)+" "+file)
		require.NoError(t, s.Close())
		if file == cacheFile { // as a scan does
			require.NoError(t, os.WriteFile(path, whole, 0o600))
		}
		warnings := func() []Finding {
			report, err := Verify(background, dir, Check{})
			require.NoError(t, err)
			require.Empty(t, report.Errors)
			return slices.DeleteFunc(report.Warnings, func(f Finding) bool { return f.Code == TextMissing })
		}
		found := warnings()
		require.Len(t, found, 1)
		assert.Equal(t, []any{code, file}, []any{found[0].Code, found[0].File})

		// A later version of the program builds the index anew, and the warning stays.
		db, err := sql.Open("sqlite", filepath.Join(dir, indexFile))
		require.NoError(t, err)
		_, err = db.Exec("PRAGMA user_version = 1")
		require.NoError(t, err)
		require.NoError(t, db.Close())
		require.NoError(t, os.Remove(filepath.Join(dir, sealFile)))
		require.NoError(t, open(t, dir).Close())
		assert.ElementsMatch(t, []string{string(code) + " " + file, string(Rebuilt) + " " + indexFile}, codes(warnings()))

		done, err := Repair(background, dir, testOptions, true)
		require.NoError(t, err)
		assert.Equal(t, []RepairStep{ForgetRebuilt}, done.Steps)
		assert.Empty(t, warnings())
	}
}

// WS-171, section 2.17: a process that comes after the one that rebuilt the index warns of it
// too, until a repair.
func TestRebuiltIndexIsRemembered(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"garbage": func(path string) error { return os.WriteFile(path, []byte("garbage"), 0o600) },
		"missing": os.Remove,
	} {
		for _, sealed := range []bool{true, false} {
			dir := create(t, id.B3)
			require.NoError(t, furnished(t, dir).Close())
			require.NoError(t, spoil(filepath.Join(dir, indexFile)))
			if !sealed {
				require.NoError(t, os.Remove(filepath.Join(dir, sealFile)))
			}
			require.NoError(t, open(t, dir).Close())
			warns := func() (n int) {
				report, err := Verify(background, dir, Check{})
				require.NoError(t, err)
				require.True(t, report.Valid, "%v", report.Errors)
				for _, f := range report.Warnings {
					if f.Code == Rebuilt {
						n++
						assert.NotContains(t, f.Reason, "\n")
					}
				}
				return n
			}
			assert.Equal(t, 1, warns(), "%s, sealed: %t", name, sealed)
			s := open(t, dir)
			mustPut(t, s.Store, "a", "note", "a later transaction")
			require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
				why, err := v.Rebuilt(background)
				assert.NotEmpty(t, why)
				return err
			}))
			require.NoError(t, s.Close())
			assert.Equal(t, 1, warns())
			for _, apply := range []bool{false, true} {
				done, err := Repair(background, dir, testOptions, apply)
				require.NoError(t, err)
				assert.Equal(t, []RepairStep{ForgetRebuilt}, done.Steps)
			}
			assert.Zero(t, warns())
		}
	}
}

// Section 2.16: the cause of a store that cannot be created is named once.
func TestCreateNamesTheCauseOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	err := Create(filepath.Join(file, "store"), Identity{ID: "w1", Scheme: id.B3.String()})
	typed(t, err, "store/io")
	assert.Equal(t, 1, strings.Count(contract.AsError(err).FullMessage(), "not a directory"))
}

// refusesWrites fails the test if a store takes a write, and closes it.
func refusesWrites(t *testing.T, s *opened) {
	t.Helper()
	require.Error(t, s.Damage())
	_, err := s.Update(background, "tester", func(tx *Tx) error {
		_, err := tx.SetSnapshot("refused", 0)
		return err
	})
	typed(t, err, "store/read-only")
	require.NoError(t, s.Close())
}
