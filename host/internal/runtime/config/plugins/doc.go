// Package plugins reads the plugin blocks of a configuration.
//
// # Main types
//
// [Read] returns a [Reader] with a [Plugin] per block: its settings, its program compared with the
// lock file, and its description. A [Describer] asks a plugin for the description, first without
// and then with its configuration, which is decoded with the schema in the first description.
// [ModelPrice] is the price of a model in such a configuration.
//
// # Concurrency
//
// A Reader is used by one goroutine. A Plugin is not modified after the load and is then safe for
// concurrent use.
//
// # Failure
//
// A plugin that is missing, not approved or not usable is reported at its block. If its block has
// optional, that is a warning, and the plugin is not started.
package plugins
