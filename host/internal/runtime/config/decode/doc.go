// Package decode converts evaluated configuration to typed values.
//
// # Main types
//
// A [Decoder] converts the tree of a configuration to a [Section] per block. Each attribute is a
// [Value] with its EDN form, its position, the values that it overrides, and the default if it is
// not written. A [Lowering] decodes the config block of a plugin with the schema that the plugin
// advertises. A [Printer] renders values as data or as HCL, independent of the machine.
//
// # Concurrency
//
// A Decoder is used by one goroutine. Sections and values are not modified after the load.
//
// # Failure
//
// A value that does not fit its type is reported to the collector and omitted. Values are never
// converted implicitly, such as a string to a number.
package decode
