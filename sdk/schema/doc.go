// Package schema validates values against schemas that are themselves values.
//
// A schema is written in a small vocabulary of EDN forms similar to Malli: a
// keyword such as :string, or a vector such as
//
//	[:map {:closed true}
//	 [:fen :string]
//	 [:depth {:optional true} [:int {:min 1 :max 64}]]]
//
// The same data is used everywhere: the host validates requests and answers,
// plugins advertise schemas, the configuration language decodes plugin blocks,
// and tools that use JSON Schema receive an export. A schema contains no code
// and its patterns are RE2. Validation of a hostile pair (nested alternatives
// over a deep value) ends after a number of steps in proportion to the size of
// the value and rejects it; the methods with a context end with the context too.
//
// # Main types
//
// [Compile] compiles one form to a [Schema]; [NewRegistry] compiles a set of
// named forms that refer to each other with [:ref :name]. [Schema.Valid] and
// [Schema.Validate] validate a value; Validate returns the problems as a list
// of [Finding]. [Schema.CoerceJSON] converts a value read from JSON to the
// kinds that the schema requires. [Schema.JSONSchema] and [FromJSONSchema]
// convert to and from JSON Schema 2020-12. [Satisfies] compares two schemas.
// [For] derives a schema from a Go type. [Builtin] returns the built-in
// schemas.
//
// Validation never changes a value: :default, :unit and the other properties
// are documentation and instructions for users of the schema, such as
// [Schema.Replace], which finds the secrets and paths in a value.
//
// # Concurrency
//
// Schemas and registries are immutable and safe for concurrent use. A
// successful validation does not allocate, except for comparisons of numbers of
// different kinds without a common machine representation.
//
// # Failure
//
// An invalid form returns a [*CompileError] that lists every problem with its
// path inside the form. A value that does not fit is not an error but a list of
// findings: at most 100, ordered by path, then a count.
package schema
