// Package rules judges texts by their surface: which words, numbers, quotations,
// headings and patterns they hold, how long they are, in which language, and how
// much of a reference they repeat. It needs no model and gives equal verdicts for
// equal texts. It sees form only: a text that says the opposite of what is true
// in the right words passes.
//
// Parse reads rules and lists every problem with its path; Set.Judge applies them
// to a Subject. A rule that finds nothing to judge by, such as a source that is not
// there, takes no part in the mean. A Set never changes and is safe for concurrent
// use.
package rules
