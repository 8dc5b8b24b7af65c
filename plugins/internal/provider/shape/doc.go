// Package shape deals with answers that must have a form: it lowers a schema to
// what providers can enforce, finds the value in what a model wrote, and checks
// it.
//
// Lower works on JSON Schema, since that is what goes over the wire. What it
// leaves out is left out of the wire copy only: Shape.Read always checks the
// whole schema. Nothing is repaired by guessing; a text that holds no value is
// reported as such.
//
// Everything is pure and safe for concurrent use.
package shape
