// Package messagegen generates messages for property tests.
package messagegen
