package plan

// Limits bounds plans (evaluation.md section 15).
type Limits struct {
	// Nodes bounds one plan, RunNodes a run including everything nested in it.
	Nodes, RunNodes int
	// Levels bounds the nesting of plans, maps and host calls.
	Levels      int
	MaxParallel int
	// MapItems bounds the length of a map's collection.
	MapItems   int
	Candidates int
	Checks     int
	Retries    int
	Fallbacks  int
	Repairs    int
	// Width bounds the candidates that a race or tournament starts together, Hedges the hedges of
	// one call.
	Width, Hedges int
	// PathSteps bounds a slot path; values are not deeper than the reader's
	// limit.
	PathSteps int
}

// DefaultLimits returns the limits of a host that configures none.
func DefaultLimits() Limits {
	return Limits{
		Nodes: 1000, RunNodes: 10_000, Levels: 16, MaxParallel: 64, MapItems: 1000,
		Candidates: 64, Checks: 32, Retries: 16, Fallbacks: 32, Repairs: 8, Width: 16, Hedges: 8, PathSteps: 128,
	}
}

// MaxFindings is the maximum number of findings that a check reports
// (CHECK-003).
const MaxFindings = 200

const (
	defaultPlanParallel = 8
	defaultMapParallel  = 4
	maxDeadlineMS       = 86_400_000
)
