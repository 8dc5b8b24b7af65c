// Package schema checks values against schemas that are themselves values.
//
// A schema is written in a small vocabulary of EDN forms in the manner of
// Malli: a keyword such as :string, or a vector such as
//
//	[:map {:closed true}
//	 [:fen :string]
//	 [:depth {:optional true} [:int {:min 1 :max 64}]]]
//
// The same data serves everyone who needs it: the host checks requests and
// answers, plugins advertise it, the configuration language decodes plugin
// blocks with it, and tools that speak JSON Schema receive an export. Nothing
// in a schema executes; patterns are RE2, so no schema and no value can make a
// check run away. A check of a hostile pair (nested alternatives over a deep
// value) ends after a fixed number of steps and refuses the value.
//
// # Main types
//
// [Compile] turns one form into a [Schema]; [NewRegistry] compiles a set of
// named forms that refer to each other with [:ref :name]. [Schema.Valid] and
// [Schema.Validate] check a value, the second says what is wrong as a list of
// [Finding]. [Schema.CoerceJSON] gives values that came as JSON the kinds that
// the schema asks for. [Schema.JSONSchema] and [FromJSONSchema] translate from
// and to JSON Schema 2020-12. [Satisfies] compares two schemas. [For] derives
// a schema from a Go type. [Builtin] holds the schemas that every host knows.
//
// Validation never changes a value: :default, :unit and the other properties
// are documentation and instructions for readers of the schema, such as
// [Schema.Replace], which finds the secrets and paths in a value.
//
// # Concurrency
//
// Schemas and registries are immutable after construction and safe for use by
// any number of goroutines. A check that succeeds allocates no memory, except
// where it compares numbers of different kinds that have no common machine
// representation.
//
// # Failure
//
// A form that is no schema gives a [*CompileError] that lists every problem
// with its path inside the form. A value that does not fit is not an error but
// a list of findings; at most 100, ordered by path, then a count.
package schema
