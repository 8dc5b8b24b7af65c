package plan

// Limits bounds plans (evaluation.md section 15).
type Limits struct {
	// Nodes of one plan, and of a run with everything nested in it.
	Nodes, RunNodes int
	// Levels of plans, maps and host calls inside each other.
	Levels      int
	MaxParallel int
	// MapItems is the longest collection of a map.
	MapItems   int
	Candidates int
	Checks     int
	Retries    int
	Fallbacks  int
	Repairs    int
	// Width is how many candidates of a race or tournament start together,
	// Hedges how many may join a silent one.
	Width, Hedges int
	// PathSteps bounds a slot path; the reader's depth makes more useless.
	PathSteps int
}

// DefaultLimits are the limits of a host that configures none.
func DefaultLimits() Limits {
	return Limits{
		Nodes: 1000, RunNodes: 10_000, Levels: 16, MaxParallel: 64, MapItems: 1000,
		Candidates: 64, Checks: 32, Retries: 16, Fallbacks: 32, Repairs: 8, Width: 16, Hedges: 8, PathSteps: 128,
	}
}

// MaxFindings is how many findings a check reports at most (CHECK-003).
const MaxFindings = 200

const (
	defaultPlanParallel = 8
	defaultMapParallel  = 4
	maxDeadlineMS       = 86_400_000
)
