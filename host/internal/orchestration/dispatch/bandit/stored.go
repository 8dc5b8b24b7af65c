package bandit

import (
	"fmt"
	"math"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// storedGroup is the stored form of a group, version 1. Times are milliseconds since 1970.
type storedGroup struct {
	Version   int         `edn:"version"`
	Decisions int         `edn:"decisions"`
	Warm      bool        `edn:"warm?"`
	Arms      []storedArm `edn:"arms"`
}

type storedArm struct {
	CapID    string     `edn:"cap/id"`
	Major    int        `edn:"major"`
	Outcomes int        `edn:"outcomes"`
	Older    [2]float64 `edn:"older"` // passes and fails, as they count at OlderAt
	OlderAt  int64      `edn:"older/at"`
	Recent   []int64    `edn:"recent"` // times, negative for a fail, oldest first
	Cost     storedMean `edn:"cost"`
	Latency  storedMean `edn:"latency"`
}

type storedMean struct {
	Weight float64 `edn:"weight"`
	Total  float64 `edn:"total"`
	At     int64   `edn:"at"`
}

const storedVersion = 1

// Text returns the stored form of the group, which Parse reads: EDN with absolute
// counts.
func (g *Group) Text() string {
	form := storedGroup{Version: storedVersion, Decisions: g.decisions, Warm: g.warm}
	for _, c := range g.arms {
		arm := storedArm{
			CapID:    c.CapID,
			Major:    c.Major,
			Outcomes: c.outcomes,
			Older:    [2]float64{c.older.passes, c.older.fails},
			OlderAt:  millis(c.older.at),
			Cost:     storedMean{c.cost.weight, c.cost.total, millis(c.cost.at)},
			Latency:  storedMean{c.latency.weight, c.latency.total, millis(c.latency.at)},
		}
		for _, t := range c.recent {
			at := max(1, millis(t.at))
			if !t.pass {
				at = -at
			}
			arm.Recent = append(arm.Recent, at)
		}
		form.Arms = append(form.Arms, arm)
	}
	v, err := edn.Encode(form)
	if err != nil {
		panic(fmt.Sprintf("bandit: encode a group: %s", err)) // its numbers are finite
	}
	return v.String()
}

// Parse reads the text of a group. An error means that nothing in it can be used.
func Parse(text string) (*Group, error) {
	v, err := edn.Read([]byte(text))
	if err != nil {
		return nil, err
	}
	var form storedGroup
	if err := edn.Decode(v, &form); err != nil {
		return nil, err
	}
	if form.Version != storedVersion || form.Decisions < 0 || len(form.Arms) > maxArms {
		return nil, fmt.Errorf("it has version %d, %d decisions and %d arms", form.Version, form.Decisions, len(form.Arms))
	}
	g := &Group{decisions: form.Decisions, warm: form.Warm}
	for i := range form.Arms {
		arm := &form.Arms[i]
		if !arm.sound() || g.find(Arm{arm.CapID, arm.Major}) != nil {
			return nil, fmt.Errorf("arm %d, of :%s, has impossible counts", i, arm.CapID)
		}
		c := &counts{
			Arm:      Arm{arm.CapID, arm.Major},
			outcomes: arm.Outcomes,
			older:    trials{arm.Older[0], arm.Older[1], instant(arm.OlderAt)},
			cost:     mean{arm.Cost.Weight, arm.Cost.Total, instant(arm.Cost.At)},
			latency:  mean{arm.Latency.Weight, arm.Latency.Total, instant(arm.Latency.At)},
		}
		for _, at := range arm.Recent {
			c.recent = append(c.recent, trial{at > 0, instant(max(at, -at))})
		}
		g.arms = append(g.arms, c)
	}
	return g, nil
}

// sound reports whether the numbers of an arm are possible counts.
func (a *storedArm) sound() bool {
	for _, v := range []float64{a.Older[0], a.Older[1], a.Cost.Weight, a.Cost.Total, a.Latency.Weight, a.Latency.Total} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return false
		}
	}
	return a.CapID != "" && a.Outcomes >= len(a.Recent) && len(a.Recent) <= RecentTrials
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
