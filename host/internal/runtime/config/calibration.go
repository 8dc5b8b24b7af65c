package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CalibrationFile is where the calibration of a judge is kept.
func CalibrationFile(dataDir, judge string) string {
	return filepath.Join(dataDir, "calibration", judge+".edn")
}

// maxCalibration bounds such a file.
const maxCalibration = 64 << 10

// ReadCalibration reads the calibration of a judge; nil without an error if it
// was never calibrated.
func ReadCalibration(dataDir, judge string) (*calibration.Record, error) {
	file := CalibrationFile(dataDir, judge)
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read calibration of judge %s: %w", judge, err)
	case len(text) > maxCalibration:
		return nil, fmt.Errorf("read calibration of judge %s: the file has %d bytes, over the limit of %d", judge, len(text), maxCalibration)
	}
	v, err := edn.Read(text)
	if err != nil {
		return nil, fmt.Errorf("read calibration of judge %s: %w", judge, err)
	}
	r, err := calibration.ParseRecord(v)
	if err != nil {
		return nil, fmt.Errorf("read calibration of judge %s: %w", judge, err)
	}
	return &r, nil
}

// believed warns of judges in use that refuse nothing by themselves, because
// nobody has measured them of late or they agree too little with people (JDG-011).
func (b *builder) believed(judges []registry.Judge) {
	for i := range judges {
		j := &judges[i]
		s := b.judges[j.Name]
		if !j.Enabled || !b.used["judge"][j.Name] || s == nil {
			continue
		}
		r, err := ReadCalibration(b.config.Host.DataDir, j.Name)
		d := Diagnostic{Severity: SeverityWarning, Range: s.at(), Path: s.node.path, Hint: "run: ferment judge calibrate " + j.Name + " --anchors FILE.edn"}
		switch {
		case err != nil:
			d.Type, d.Message = "config/type", fmt.Sprintf("the calibration of %s cannot be used, so it only counts in the score: %s", s.node.title(), cause(err))
		case r == nil:
			d.Type, d.Message = "config/missing", s.node.title()+" was not calibrated: it only counts in the score, and refuses nothing by itself"
		case r.Drifted(j.Drift):
			d.Type, d.Message = "judge/drift", fmt.Sprintf("%s does not grade as it did when it was calibrated, and is not asked: %s", s.node.title(), Drifted(r))
		case Expired(r, j.Recheck, time.Now()):
			d.Type, d.Message = "config/range", s.node.title()+" was calibrated too long ago: it only counts in the score, and refuses nothing by itself"
			d.Path = append(slices.Clone(s.node.path), "recheck")
			d.Expected, d.Found = edn.Text("a calibration not older than "+j.Recheck.String()), edn.Text("one of "+r.At.UTC().Format(time.DateOnly))
		case r.Kappa < j.MinKappa:
			d.Type, d.Message = "config/range", fmt.Sprintf("%s agrees too little with labelled answers: it only counts in the score, and refuses nothing by itself", s.node.title())
			d.Path = append(slices.Clone(s.node.path), "min_kappa")
			d.Expected, d.Found = edn.Text("kappa of at least "+figure(j.MinKappa)), edn.Text(figure(r.Kappa))
		case j.Capability != "" && r.Capability != j.Capability:
			d.Type, d.Message = "config/range", fmt.Sprintf("%s was calibrated with %s, and asks %s: it only counts in the score", s.node.title(), quote(r.Capability), quote(j.Capability))
		default:
			continue
		}
		b.report.add(d)
	}
}

// Expired tells whether a calibration is older than it may be.
func Expired(r *calibration.Record, recheck time.Duration, now time.Time) bool {
	return now.Sub(r.At) > recheck
}

// Drifted says how the agreement of a judge has fallen.
func Drifted(r *calibration.Record) string {
	return "kappa was " + figure(r.Baseline.Value) + " at first and is " + figure(r.Kappa)
}

func figure(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
