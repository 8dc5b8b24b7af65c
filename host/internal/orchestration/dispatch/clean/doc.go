// Package clean removes reasoning and tool-call markup from the answers of
// language models (TXT-001).
//
// A Cleaner is used for one answer, by one goroutine. It fails with
// format/drift if the text has a tool call that cannot be understood, and with
// provider/empty if nothing is left of the text.
package clean
