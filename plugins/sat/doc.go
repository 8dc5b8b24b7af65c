// Command sat is the plugin for propositional satisfiability.
//
// Capability sat/solver serves :sat/solve with gophersat in a worker process, or
// with a program that the configuration names (cadical, minisat, picosat, or any
// other that speaks as those of the SAT competitions do); capability sat/verifier serves :sat/verify, which evaluates a formula under
// a model and so judges the answers of any solver.
package main
