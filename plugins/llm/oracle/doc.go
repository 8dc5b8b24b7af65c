// Package oracle has the official Go clients of the vendors read the transcripts
// of the model adapter. It is a module of its own, so that nothing of them
// reaches a plugin; it holds tests only.
package oracle
