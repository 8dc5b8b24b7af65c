// Package rules judges texts by their form: which words, numbers, quotations,
// headings and patterns they hold, how long they are, in which language, and
// how much of a reference they repeat. It needs no model and gives equal
// verdicts for equal texts. It cannot judge content: a false statement in the
// right words passes.
//
// Parse parses rules and lists every problem with its path; Set.Judge applies
// them to a Subject. A rule that finds nothing to judge, for example because
// its source is absent, is excluded from the mean. A Set is immutable and safe
// for concurrent use.
package rules
