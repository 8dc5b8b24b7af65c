// Package dispatch executes one call or tool node: it binds the node to its
// candidates, makes attempts, evaluates each answer with the gates of the call,
// and decides after each failure whether to retry the candidate, try the next
// one or fail. Attempts run one after another, or in parallel as a race, a
// hedge or a tournament if the candidates have no effects.
//
// Main types: Executor is what the package needs from the adapters; Call and
// Answer cross that boundary. Dispatcher serves Work, the description of a node
// whose slots are filled and whose policy is merged, and returns a Result.
// Decide is the attempt table as a pure function. StatsTable holds what is
// remembered per candidate across calls: breakers, quality windows, latencies
// and costs. Clock and Rand are the only sources of time and randomness.
//
// Streamed text leaves a run through the TextStream of the answer node. If the
// policy allows it, text is shown before the gates have run; then it can be
// retracted, or it commits the operation to that candidate. Pace blocks a
// plugin while the reader of the stream is behind.
//
// The last gate is a judge, if the policy of a call names one (judgepanel.go,
// voting.go): a capability that grades the answer. The judge is called only if
// its grade can still change the verdict, and never for its own answers or for
// calls that it makes itself. A grade below the minimum is confirmed by further
// votes. Grades caches grades, so that equal answers get equal grades. Votes
// are paid from the budget of the node. Package rescore measures judges and
// reports the result through StatsTable.Believe.
//
// If a budget of tokens or money is so tight that the estimate of the input
// size decides whether a call is possible, the candidate counts its input
// before the reservation is made (count.go).
//
// Concurrency: a Dispatcher is immutable and may serve any number of calls at
// once. One call runs on the goroutine of its caller, which records, evaluates
// and decides. Only the calls of parallel attempts and the capability checks of
// one tier run on other goroutines, and all of these have ended when Serve
// returns.
//
// Errors: every failure is a *contract.Error in the Result. Serve does not
// panic for a bad answer; a panic is a defect and is left to the evaluator,
// which finalises the run.
package dispatch
