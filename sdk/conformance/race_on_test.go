//go:build race

package conformance

import "time"

// impatience is the Patience for plugins at which a run gives up, under the race detector.
const impatience = 1

// impatientRun bounds such a run. Without an end of the limits after the first
// failure it would take the limit of a start for each of the many checks.
const impatientRun = 10 * time.Minute
