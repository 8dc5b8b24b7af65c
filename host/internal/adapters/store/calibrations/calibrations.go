package calibrations

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Dir is the path of a data directory. The calibrations are in its folder calibration.
type Dir string

var _ rescore.Store = Dir("")

// maxFile is the maximum size of a calibration file in bytes.
const maxFile = 64 << 10

// File returns the path of the calibration file of a judge.
func (d Dir) File(judge string) string { return filepath.Join(string(d), "calibration", judge+".edn") }

// Record implements rescore.Store. It returns the calibration of a judge; nil without an error if
// the judge was never calibrated.
func (d Dir) Record(judge string) (*calibration.Record, error) {
	r, err := d.read(judge)
	if err != nil {
		return nil, fmt.Errorf("read calibration of judge %s: %w", judge, err)
	}
	return r, nil
}

func (d Dir) read(judge string) (*calibration.Record, error) {
	text, err := os.ReadFile(d.File(judge))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("the file has %d bytes, over the limit of %d", len(text), maxFile)
	}
	v, err := edn.Read(text)
	if err != nil {
		return nil, err
	}
	r, err := calibration.ParseRecord(v)
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// Keep implements rescore.Store. It replaces the calibration file of the judge atomically.
func (d Dir) Keep(r calibration.Record) error {
	file := d.File(r.Judge)
	first := []edn.Value{edn.K("calibration/version"), edn.K("judge"), edn.K("cap/id")}
	text := append(edn.WritePretty(r.Value(), edn.PrettyOptions{First: first}), '\n')
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = renameio.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep calibration of judge %s: %w", r.Judge, err)
	}
	return nil
}

// Anchors implements rescore.Store. It reads labelled answers from a file, which is JSON if its
// name ends in .json, else EDN. The error is not-found if the file cannot be read or is too large,
// and invalid-request if it cannot be parsed.
func (Dir) Anchors(file string) (calibration.Anchors, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > int64(edn.Body.Bytes) {
		err = fmt.Errorf("it has %d bytes, over the limit of %d", info.Size(), edn.Body.Bytes)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return calibration.Anchors{}, contract.Errorf("not-found", "the anchors %s cannot be read: %w", file, err)
	}
	read := edn.Read
	if strings.HasSuffix(file, ".json") {
		read = edn.ReadJSON
	}
	v, err := read(text, edn.WithLimits(edn.Body), edn.WithSource(file))
	if err != nil {
		return calibration.Anchors{}, contract.SyntaxError("invalid-request", err)
	}
	return calibration.ParseAnchors(v)
}
