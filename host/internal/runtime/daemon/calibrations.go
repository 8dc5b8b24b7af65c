package daemon

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store/calibrations"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/edn"
)

// calibrationCache holds the calibration of the judges of one configuration. It
// reads the file of a judge again at most once per rereadAfter, so a
// calibration made while the host runs takes effect. Safe for concurrent use.
type calibrationCache struct {
	dir      calibrations.Dir
	registry *registry.Registry
	now      func() time.Time
	// served, if not nil, is called with a judge and the model that graded an answer, if the
	// calibration did not measure that model.
	served func(judge, model string)

	mu    sync.Mutex
	known map[string]calibrated
}

// calibrated is the content of a judge's calibration file and the grades since it was read.
type calibrated struct {
	looked time.Time
	file   os.FileInfo // nil: the file does not exist
	record *calibration.Record
	// graded is the number of answers that the judge graded, and passed the number of those with at
	// least the lowest passing score of the record.
	passed, graded int
}

var (
	_ dispatch.Calibrations  = (*calibrationCache)(nil)
	_ dispatch.ModelObserver = (*calibrationCache)(nil)
	_ dispatch.GradeObserver = (*calibrationCache)(nil)
)

// rereadAfter is the time for which a calibration file is not read again.
const rereadAfter = time.Second

func newCalibrationCache(dataDir string, reg *registry.Registry) *calibrationCache {
	return &calibrationCache{dir: calibrations.Dir(dataDir), registry: reg, now: time.Now, known: map[string]calibrated{}}
}

// Weight implements dispatch.Calibrations. An unreadable file counts as no calibration; the
// configuration has a warning about it.
func (c *calibrationCache) Weight(judge string) calibration.Weight {
	j, ok := c.registry.Judge(judge)
	if !ok {
		return calibration.Weight{}
	}
	now := c.now()
	return c.record(judge, now).Weight(j, now)
}

// record returns the calibration record of a judge; nil if it has none.
func (c *calibrationCache) record(judge string, now time.Time) *calibration.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, ok := c.known[judge]
	if ok && now.Sub(was.looked) < rereadAfter {
		return was.record
	}
	file, err := os.Stat(c.dir.File(judge))
	if err != nil {
		file = nil
	}
	is := calibrated{looked: now, file: file}
	switch {
	case ok && file != nil && was.file != nil && os.SameFile(file, was.file) &&
		file.ModTime().Equal(was.file.ModTime()) && file.Size() == was.file.Size():
		was.looked, was.file = is.looked, is.file
		is = was
	case file != nil:
		if r, err := c.dir.Record(judge); err == nil {
			is.record = r
		}
	}
	c.known[judge] = is
	return is.record
}

// Served implements dispatch.ModelObserver. It calls served for a grade by a model that the
// calibration did not measure (JDG-011), because such a grade is not calibrated.
func (c *calibrationCache) Served(judge, capID, model string) {
	c.mu.Lock()
	r := c.known[judge].record
	c.mu.Unlock()
	if c.served != nil && r != nil && r.Capability == capID && !r.Knows(model) {
		c.served(judge, model)
	}
}

// Graded implements dispatch.GradeObserver: it counts the grades of the measured judge since its
// record was read.
func (c *calibrationCache) Graded(judge string, by calibration.Grader, score quality.Score) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[judge]
	if k.record == nil || by.Key != k.record.Key ||
		slices.ContainsFunc(by.Models, func(model string) bool { return !k.record.Knows(model) }) {
		return
	}
	k.graded++
	if score >= k.record.ScoreMin {
		k.passed++
	}
	c.known[judge] = k
}

// intervalSeed is the random seed of the interval, so that equal counts give equal intervals.
const intervalSeed = 10

// share returns the number of answers that the judge graded and passed, and the estimated share of
// good answers with its interval, corrected for the errors of the judge (JDG-010). It is nil if the
// judge graded none.
func (c *calibrationCache) share(judge string) edn.Value {
	c.mu.Lock()
	k := c.known[judge]
	c.mu.Unlock()
	if k.graded == 0 {
		return edn.Nil()
	}
	var b edn.MapBuilder
	b.Key("graded", edn.Int(int64(k.graded)))
	b.Key("passed", edn.Int(int64(k.passed)))
	if e, ok := k.record.Corrected(k.passed, k.graded, intervalSeed); ok {
		b.Key("good", e.Value())
	}
	return b.Map()
}

// forget drops the cached file of a judge, so that the next use reads it.
func (c *calibrationCache) forget(judge string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, judge)
}
