package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// seal records a clean close: the end of the log and the hash of the index, one line each, and the
// hash of these lines.
type seal struct {
	end   log.Checkpoint
	index string
}

const sealForm = "ferment-seal 1\nseq %d\nsegment %d\noffset %d\nchain %x\nindex %s\n"

func (s seal) text() []byte {
	b := fmt.Appendf(nil, sealForm, s.end.Seq, s.end.Segment, s.end.Offset, s.end.Chain, s.index)
	return fmt.Appendf(b, "seal %x\n", id.BLAKE3.Sum(b))
}

func (s seal) write(dir string) error {
	if err := renameio.WriteFile(filepath.Join(dir, sealFile), s.text(), 0o600); err != nil {
		return err
	}
	return log.SyncDir(dir)
}

var errSeal = errors.New("it does not have the form of a seal, or its hash is wrong")

// readSeal returns the seal, nil if there is none.
func readSeal(dir string) (*seal, error) {
	text, err := os.ReadFile(filepath.Join(dir, sealFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s seal
	var chain []byte
	if _, err := fmt.Sscanf(string(text), sealForm, &s.end.Seq, &s.end.Segment, &s.end.Offset, &chain, &s.index); err != nil || len(chain) != len(s.end.Chain) {
		return nil, errSeal
	}
	copy(s.end.Chain[:], chain)
	if string(s.text()) != string(text) {
		return nil, errSeal
	}
	return &s, nil
}

// hashFile returns the hash of a whole file, empty if it does not exist.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := blake3.New(32, nil)
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, f, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
