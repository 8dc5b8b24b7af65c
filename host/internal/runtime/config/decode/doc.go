// Package decode converts evaluated configuration to typed values.
//
// # Main types
//
// A [Decoder] converts the tree of a configuration to a [Section] per block. Each
// attribute is a [Value] with its EDN form, its place, the values that it
// overrides, and the default where nothing is written. A [Lowering] decodes the
// config block of a plugin with the schema that the plugin advertises. A [Printer]
// renders values again, as data or as HCL, independent of the machine.
//
// # Concurrency
//
// A Decoder is used by one goroutine. Sections and values are not modified after
// the load.
//
// # Failure
//
// A value that does not fit its type is reported to the collector and omitted.
// Nothing is converted silently.
package decode
