// Package shape handles answers with a schema: it lowers the schema to the
// subset that providers enforce, finds the value in a model's text without its
// reasoning, and validates it.
//
// Lower works on JSON Schema, the form on the wire. Omissions affect the wire
// copy only: Shape.Read always validates the whole schema. Nothing is repaired
// by guessing; a text without a value is reported as such.
//
// Everything is pure and safe for concurrent use.
package shape
