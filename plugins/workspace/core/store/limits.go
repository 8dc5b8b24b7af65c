package store

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits are the limits of frames and of what is read of them. A field that is 0
// has its default.
type Limits struct {
	Frame      int // bytes of the text of a frame
	ViewFrames int // frames of a view or composition without :max-frames
	ViewBytes  int // bytes of the texts of one without :max-bytes
	Related    int // related nodes of a composition
	Batch      int // items of a batch
}

// The hard limits, which no configuration extends.
var hardLimits = Limits{Frame: 16 << 20, ViewFrames: 1000, ViewBytes: 8 << 20, Related: 100, Batch: 10_000}

var defaultLimits = Limits{Frame: MaxFrame, ViewFrames: 100, ViewBytes: 1 << 20, Related: 100, Batch: 1000}

// MaxFrame is the default of the largest text of a frame, in bytes.
const MaxFrame = 1 << 20

// Limits of metadata.
const (
	maxMetaEntries = 32
	maxMetaBytes   = 8 << 10 // in canonical form
	maxMetaKey     = 64
)

// HardLimits returns the limits that no configuration extends.
func HardLimits() Limits { return hardLimits }

// OrDefault returns the limits with defaults for the fields that are 0.
func (l Limits) OrDefault() Limits {
	for i, field := range l.fields() {
		if *field == 0 {
			*field = *defaultLimits.fields()[i]
		}
	}
	return l
}

func (l *Limits) fields() []*int {
	return []*int{&l.Frame, &l.ViewFrames, &l.ViewBytes, &l.Related, &l.Batch}
}

// Check returns an error of type limit/exceeded if a limit is negative or above
// the hard one.
func (l Limits) Check() error {
	names := [...]string{"frame", "view frames", "view bytes", "related nodes", "batch items"}
	for i, field := range l.fields() {
		if hard := *hardLimits.fields()[i]; *field < 0 || *field > hard {
			return exceeded(names[i], *field, hard)
		}
	}
	return nil
}

// exceeded returns an error that names a limit.
func exceeded(name string, found, limit int) error {
	return contract.Errorf("limit/exceeded", "%s: %d is not from 0 to %d", name, found, limit).
		WithDetail("limit", edn.Text(name)).WithDetail("max", edn.Int(int64(limit)))
}
