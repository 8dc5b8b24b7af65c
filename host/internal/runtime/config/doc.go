// Package config reads ferment.hcl, the one file in which an operator says
// what runs, who serves what and which gates an answer must pass, and turns it
// into what the rest of the host works with.
//
// # Files
//
// A configuration is one file, or a directory of files that are merged in a
// fixed order (files.go): ferment.hcl, then common, common/prod, local and
// local/prod, then common and local of the profile. Merging works on
// expressions that are not evaluated yet (merge.go), so a local or a variable
// reaches every file; each value keeps all the places where it was written, by
// which Show tells origins. A file may include others of the same directory,
// which come before it, and may be written in JSON (json.go). The profile is
// decided from the option, the environment and what is read first (profile.go),
// and brings defaults of its own. Files of variables beside the others
// (dotenv.go) reach env and secret only; the process environment wins over them.
//
// # Stages
//
// A file is bounded and parsed (bounds.go), put into a tree of blocks whose
// expressions are not evaluated yet (tree.go), evaluated and checked against
// the specification (eval.go, decode.go), completed by what the configured
// plugins say about themselves (describe.go, lower.go), and built into an
// immutable Generation (build.go, gates.go): a registry, the policy layers and
// the checks. Conditions become plain functions on the way (cond.go), so that
// no layer below knows HCL.
//
// Specification is the language as one table. It drives decoding, defaults,
// ranges and the reference; a second table holds what a build refuses because
// the feature behind it is not there. Nothing is accepted and ignored.
//
// # Main types
//
// Load gives a Config with Diagnostics. Report renders these as text, JSON and
// EDN. Plugin holds the settings of a plugin block. Describer is asked what a
// plugin is; Format gives a file its canonical layout.
//
// # Concurrency
//
// A load runs in one goroutine. What it returns is immutable and may be shared;
// the functions of checks may be called by any number of goroutines.
//
// # Failure
//
// A load never stops at the first problem and never panics on its input: every
// problem is a Diagnostic with a type of the error catalogue, a range and a
// next step. Input is measured before the parser of the library, which recurses
// without a bound, sees it. A configuration with an error has no Generation.
package config
