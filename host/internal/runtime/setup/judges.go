package setup

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store/calibrations"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
)

// JudgeStates returns the states of the judges of the configuration at now, from their calibration
// files.
func (l *Loaded) JudgeStates(now time.Time) []rescore.Status {
	reg, used := l.Generation.Registry, l.Generation.JudgesInUse()
	var out []rescore.Status
	for _, name := range reg.Judges() {
		j, _ := reg.Judge(name)
		out = append(out, rescore.StatusOf(j, calibrations.Dir(l.Host.DataDir), slices.Contains(used, name), now))
	}
	return out
}

// JudgesDue returns the judges in use that must be measured again: those that have anchors and a
// record that has expired or expires soon. name selects one judge; empty: all. The error means that
// a record cannot be read.
func (l *Loaded) JudgesDue(name string, now time.Time) ([]*registry.Judge, error) {
	var out []*registry.Judge
	for _, used := range l.Generation.JudgesInUse() {
		judge, _ := l.Generation.Registry.Judge(used)
		if name != "" && used != name || judge.Anchors == "" {
			continue
		}
		r, err := calibrations.Dir(l.Host.DataDir).Record(used)
		if err != nil {
			return nil, err
		}
		if r != nil && !r.Other(judge) && !now.Before(r.EarliestDue(judge.Recheck)) {
			out = append(out, judge)
		}
	}
	return out, nil
}
