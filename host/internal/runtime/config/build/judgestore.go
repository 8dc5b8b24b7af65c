package build

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
)

// Calibrations stores the calibrations of judges in a data directory. It is safe
// for concurrent use.
type Calibrations struct{ DataDir string }

var _ rescore.Store = Calibrations{}

// Record implements rescore.Store.
func (c Calibrations) Record(judge string) (*calibration.Record, error) {
	return ReadCalibration(c.DataDir, judge)
}

// Keep implements rescore.Store.
func (c Calibrations) Keep(r calibration.Record) error { return KeepCalibration(c.DataDir, r) }

// Anchors implements rescore.Store.
func (c Calibrations) Anchors(file string) (calibration.Anchors, error) { return ReadAnchors(file) }

// JudgesInUse returns the names of the enabled judges that an intent uses.
func (g *Generation) JudgesInUse() []string {
	var out []string
	for _, name := range g.Registry.Judges() {
		if j, ok := g.Registry.Judge(name); ok && j.Enabled && uses(g.Policies, j) {
			out = append(out, name)
		}
	}
	return out
}

func uses(book *policy.Book, j *registry.Judge) bool {
	for _, l := range book.Intents {
		if l.Judge.V == j.Name {
			return true
		}
	}
	return false
}
