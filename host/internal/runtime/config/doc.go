// Package config loads ferment.hcl, the configuration of plugins, intents,
// dispatch and gates.
//
// # Stages
//
// A load passes through the packages below this one, whose imports point one way:
//
//	diag        places in files, diagnostics, reports
//	language    the table of blocks, attributes and types
//	disk        reading of named files
//	syntax      parsing and merging of trees whose expressions are not evaluated
//	expression  evaluation, functions, compiled conditions
//	files       the order of files, includes, the profile, .env files
//	decode      typed values with their defaults and places
//	plugins     plugin blocks with the lock file and the descriptions
//	build       the generation that the host runs
//
// Merging works on expressions that are not evaluated yet, so a local or a
// variable reaches every file. Conditions are compiled to plain functions, so no
// layer below depends on HCL. Package view renders a loaded configuration.
//
// # Main types
//
// [Load] returns a [Config] with its diagnostics. [Host] and [HTTP] hold the
// settings of the host itself; the plugins and the generation have the types of
// their stages.
//
// # Concurrency
//
// A load runs in one goroutine. Its result is immutable and safe for concurrent
// use, including the functions of checks.
//
// # Failure
//
// A load does not stop at the first problem and never panics on its input: every
// problem is a diagnostic with a type of the error catalogue, a range and a next
// step. A configuration with an error has no generation.
package config
