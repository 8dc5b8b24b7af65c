// Package dispatch executes one call or tool node: it binds the node to its
// candidates, makes attempts, evaluates each answer with the gates of the call,
// and decides after each failure whether to retry the candidate, try the next
// one or fail. Attempts run one after another, or in parallel as a race, a
// hedge or a tournament if the candidates have no effects.
//
// Main types: Executor is the interface that the adapters implement; Call and
// Answer cross that boundary. Dispatcher serves Work, the description of a node
// whose slots are filled and whose policy is merged, and returns a Result. Clock
// and Rand are the only sources of time and randomness.
//
// An operation is the state of one Serve. The machine of package flow decides
// what it does next, and drive.go carries that out with the parts of the
// operation, one per concern:
//
//	node          the work, its run and its records (node.go, grant.go)
//	callRequest   requests, effect key, counting of input (request.go, count.go)
//	funds.Payer   reservation and settlement
//	availability  what may be called now: state, breaker, budget
//	candidates    binding and order (candidates.go)
//	search        the next candidate, waits for respawns (search.go)
//	attempts      start, verdict and failure of each attempt (attempts.go)
//	attempt       one call and its answer (attempt.go, answer.go), or one question to
//	              people (ask.go)
//	judging       gates, checks and judge of one answer (gates.go, check.go)
//	voting        votes of a judge (voting.go, gradeverdict.go)
//	gateCall      calls of checks and judges (gatecall.go)
//
// Checks, votes and trials create only the parts that they need.
//
// Packages below, which do not import this one: flow decides, stats keeps
// breakers and measurements of candidates across calls, breaker is the state of
// one breaker, funds reserves and settles budget, interrupt holds questions to
// people, stream forwards text, clean removes markup from text, memo caches
// grades and answers, bandit orders candidates by their earlier outcomes, and
// learned stores these outcomes. Package rescore uses this one: it measures
// judges and reports the result through stats.Table.Believe.
//
// Streamed text leaves a run through the stream.Text of the answer node. If the
// policy allows it, text is shown before the gates have run; then it can be
// retracted, or it commits the operation to that candidate.
//
// The last gate is a judge, if the policy of a call names one: a capability that
// grades the answer. The judge is called only if its grade can still change the
// verdict, and never for its own answers or for calls that it makes itself. A
// grade below the minimum is confirmed by further votes. Grades caches grades, so
// that equal answers get equal grades. Votes are paid from the budget of the
// node.
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
