package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
)

// damageMark is the file that describes damage of the log which a validation or a read found. Open
// does not read the part of the log that the index covers, so it would not find that damage. While
// the file exists, the store is read-only; a repair removes it.
const damageMark = quarantineDir + "/damage"

// MarkDamage writes the damage of the log in a validation report to the quarantine, so
// that the store is read-only until a repair. It does nothing if the report has no
// damage of the log.
func MarkDamage(dir string, r *Report) error {
	i := slices.IndexFunc(r.Errors, Finding.ofLog)
	if i < 0 || r.Errors[i].Code == DamageMarked {
		return nil
	}
	f := r.Errors[i]
	return writeMark(dir, fmt.Sprintf("%s at byte %d, transaction %d: %s", f.File, f.Offset, f.Seq, f.Reason))
}

func writeMark(dir, text string) error {
	path := filepath.Join(dir, damageMark)
	have, err := Exists(dir)
	if err != nil || !have || exists(path) {
		return err // the first damage that was found is kept; without a store there is none
	}
	err = os.Mkdir(filepath.Dir(path), 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = renameio.WriteFile(path, []byte(text), 0o600)
	}
	if err == nil {
		err = errors.Join(log.SyncDir(filepath.Dir(path)), log.SyncDir(dir))
	}
	if err != nil {
		return asStoreError("mark the damage", err)
	}
	return nil
}

// readMark returns the recorded damage as an error, nil if none is recorded.
func readMark(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, damageMark))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return errors.New(string(text))
}

// notice records the damage of the log that an error of a read reports. It ignores errors of a
// follower, which can be caused by a compaction of the other process.
func (s *Store) notice(err error) {
	if err == nil || s.follows || !errors.Is(err, contract.OfType("store/corrupt")) || !s.InPlace() {
		return
	}
	e := contract.AsError(err)
	if file, _ := e.Details.Key("file").AsString(); !strings.HasSuffix(file, log.SegmentSuffix) {
		return
	}
	if err := writeMark(s.dir, e.FullMessage()); err != nil {
		s.warn(err.Error())
	}
}
