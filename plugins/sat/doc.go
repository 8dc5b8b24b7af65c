// Command sat is the plugin for propositional satisfiability.
//
// Capability sat/solver serves :sat/solve with gophersat in a worker process,
// or with a configured program (cadical, minisat, picosat, or any other with
// the interface of the SAT competitions). Capability sat/verifier serves
// :sat/verify, which evaluates a formula under a model and can judge the
// answers of any solver.
package main
