package plan

// EdgeKind is the reason why one node waits for another.
type EdgeKind uint8

// The edges of SCHED-008, and one more: a call whose answer may be a plan waits
// for every earlier writer, because the plan may read any of them.
const (
	EdgeSlot EdgeKind = iota
	EdgeWhen
	EdgeNeeds
	EdgeEffects
	EdgeAnswer
)

var edgeNames = [...]string{"slot", "when", "needs", "effects", "answer"}

// String returns the name of the reason: slot, when, needs, effects or answer.
func (k EdgeKind) String() string { return edgeNames[k] }

// Edge is the constraint that node To starts only after node From is committed, skipped, or
// failed with an allowed failure.
type Edge struct {
	From, To int
	Kind     EdgeKind
}

// Graph is the dependency graph of one plan, fixed before its first node runs.
type Graph struct {
	n int
	// edges without duplicates, ordered by To, then From.
	edges []Edge
	// succs[succAt[i]:succAt[i+1]] are the successors of node i, ascending.
	succs, succAt []int32
	preds         []int32
	predAt        []int32
}

// Len returns the number of nodes.
func (g *Graph) Len() int { return g.n }

// Edges returns every edge, ordered by To, then From; of several reasons for
// one pair the first of the EdgeKind order is named. It must not be changed.
func (g *Graph) Edges() []Edge { return g.edges }

// Succs returns the nodes that wait for node i, ascending. It must not be changed.
func (g *Graph) Succs(i int) []int32 { return g.succs[g.succAt[i]:g.succAt[i+1]] }

// Preds returns the nodes that node i waits for, ascending. It must not be changed.
func (g *Graph) Preds(i int) []int32 { return g.preds[g.predAt[i]:g.predAt[i+1]] }

// InDegree returns the number of nodes that node i waits for.
func (g *Graph) InDegree(i int) int { return int(g.predAt[i+1] - g.predAt[i]) }

// Before returns, by node index, the nodes that are certainly done when node i
// starts.
func (g *Graph) Before(i int) []bool {
	seen := make([]bool, g.n)
	stack := append([]int32(nil), g.Preds(i)...)
	for len(stack) > 0 {
		j := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[j] {
			continue
		}
		seen[j] = true
		stack = append(stack, g.Preds(int(j))...)
	}
	return seen
}
