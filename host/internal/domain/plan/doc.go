// Package plan is the program of an act: what a plan means before anything
// runs.
//
// Parse reads a plan value into a Plan. Every slot is bound while parsing to
// the one place that can fill it (the nearest earlier writer in program order,
// else a binding or the parent's environment), so timing can never change what
// a node reads. Check makes all static checks and reports every Finding at
// once, with positions when the plan came from a text. Link fixes the
// dependency Graph and the other facts that depend on the registry, and gives
// the Program that an evaluator walks.
//
// At run time a Frame holds the slots of one running plan; a Template is filled
// from it, a Cond is asked, and an emit is turned into what may leave the plan.
// Templates are compiled: filling touches only the parts that hold slots and
// shares everything else.
//
// The result of a capability fills a system prompt only through a slot that says
// :slot/system? true where the text enters the call (PRM-002). Check reports the
// places that the plan shows, CHECK-029; Node.UnmarkedSystem and
// Node.UnmarkedInput find those that only a filled value shows.
//
// Plan, Program, Graph and Template are immutable and safe for concurrent use.
// A Frame has one owner, who alone sets slots; readers need the owner's word
// that what they read is set. Nothing here does I/O, starts goroutines or reads
// a clock. Bad plans are findings, bad values at run time are typed errors;
// nothing panics on any EDN value.
package plan
