// Package bandit orders candidates by their earlier outcomes: the pure part of
// learned dispatch.
//
// A [Group] holds the counts of the arms that serve the calls of one intent and
// bucket. [Group.Add] counts an outcome, [Group.Cold] reports whether there are too
// few counts to use them. [Group.Belief] returns the belief about an arm, and [Draw]
// or [ByMean] orders candidates by their beliefs. [EstimateAll] estimates from
// recorded decisions the pass rate that another first choice would have had.
//
// The belief about an arm is a Beta distribution: its prior plus the counts of passes
// and fails, which halve with a half-life. Draw is Thompson sampling: it draws a
// pass rate for each arm and orders the arms by it, less their relative cost and
// latency, which enter by their means. The probability of the first choice then is a
// one-dimensional integral, which [Draw] returns with the order.
//
// Nothing here reads a clock, a random source or a file: times, generators and
// stored texts come in as values. A Group is not safe for concurrent use.
package bandit
