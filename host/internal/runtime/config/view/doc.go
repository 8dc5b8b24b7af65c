// Package view renders a configuration for people.
//
// # Main types
//
// [Show] prints the merged configuration with the origins of its values, [Weaker]
// lists the values that are weaker than those of profile prod, and [Compare]
// returns the [Diff] that a reload would apply. [Reference] prints the reference
// of the language, [PluginReference] that of the config block of a plugin.
// [Format] converts a file to the canonical layout.
//
// # Concurrency
//
// All functions may be called concurrently. They modify neither the configuration
// nor, except Formatted.Write, any file.
//
// # Failure
//
// A path that the configuration or the language does not have is an
// [UnknownPathError]. A text with syntax errors is not formatted.
package view
