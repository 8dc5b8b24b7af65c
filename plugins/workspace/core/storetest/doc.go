// Package storetest provides a store with trees that are written as paths and texts, for the tests
// of the packages that read and derive frames.
package storetest
