// Command sat is the plugin for propositional satisfiability.
//
// Capability sat/solver serves :sat/solve with gophersat in a worker process;
// capability sat/verifier serves :sat/verify, which evaluates a formula under
// a model and so judges the answers of any solver.
package main
