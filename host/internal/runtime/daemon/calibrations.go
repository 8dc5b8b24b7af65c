package daemon

import (
	"os"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
)

// calibrations knows how far the judges of one configuration may be believed. A
// judge that is calibrated while the host runs is believed from then on: its file
// is looked at again, though not for each answer. Safe for concurrent use.
type calibrations struct {
	dir      string
	registry *registry.Registry
	now      func() time.Time
	// served is told of a model that graded and was not measured; nil: nobody is.
	served func(judge, model string)

	mu    sync.Mutex
	known map[string]calibrated
}

// calibrated is what the file of a judge said.
type calibrated struct {
	looked time.Time
	file   os.FileInfo // nil: there is none
	is     dispatch.Calibration
	record *calibration.Record
	until  time.Time // how long it holds
}

var (
	_ dispatch.Calibrations  = (*calibrations)(nil)
	_ dispatch.ModelObserver = (*calibrations)(nil)
)

// lookAgain is how long a host goes by what it has read.
const lookAgain = time.Second

func newCalibrations(dir string, reg *registry.Registry) *calibrations {
	return &calibrations{dir: dir, registry: reg, now: time.Now, known: map[string]calibrated{}}
}

// Calibration implements dispatch.Calibrations. A file that cannot be read is
// none: the configuration warns of it.
func (c *calibrations) Calibration(judge string) dispatch.Calibration {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, ok := c.known[judge]
	now := c.now()
	if ok && now.Sub(was.looked) < lookAgain {
		return was.at(now)
	}
	file, err := os.Stat(config.CalibrationFile(c.dir, judge))
	if err != nil {
		file = nil
	}
	is := calibrated{looked: now, file: file}
	switch {
	case ok && file != nil && was.file != nil && os.SameFile(file, was.file) && file.ModTime().Equal(was.file.ModTime()) && file.Size() == was.file.Size():
		is.is, is.until, is.record = was.is, was.until, was.record
	case file != nil:
		is.is, is.until, is.record = c.read(judge)
	}
	c.known[judge] = is
	return is.at(now)
}

// at is what is known at a time: what was measured too long ago is not. A judge
// that has drifted, or is worthless, is not asked again for that.
func (c calibrated) at(now time.Time) dispatch.Calibration {
	if now.After(c.until) && c.is.Drift == "" && c.is.Worthless == "" {
		return dispatch.Calibration{}
	}
	return c.is
}

// Served implements dispatch.ModelObserver: another model than those that were measured
// has graded (JDG-011). Who graded in the place of the one that was measured is
// another judge, of which nothing is known.
func (c *calibrations) Served(judge, capID, model string) {
	c.mu.Lock()
	r := c.known[judge].record
	c.mu.Unlock()
	if c.served != nil && r != nil && r.Capability == capID && !r.Knows(model) {
		c.served(judge, model)
	}
}

// forget has the file of a judge read again at once.
func (c *calibrations) forget(judge string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, judge)
}

func (c *calibrations) read(judge string) (is dispatch.Calibration, until time.Time, r *calibration.Record) {
	r, err := config.ReadCalibration(c.dir, judge)
	if err != nil || r == nil {
		return is, until, nil
	}
	is = dispatch.Calibration{Known: true, Kappa: r.Kappa, CapID: r.Capability, Key: r.Key}
	if j, ok := c.registry.Judge(judge); ok {
		until = r.At.Add(j.Recheck)
		if !r.Other(j) {
			is.Worthless = r.Worthless()
		}
		if r.Drifted(j.Drift) {
			is.Drift = config.Drifted(r)
		}
	}
	return is, until, r
}
