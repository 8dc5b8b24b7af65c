// Package sessiontest is a test suite for implementations of session.Store. It compares
// a store with a model: a plain map, with the rules written out for a few variable
// names.
package sessiontest
