// Package config loads ferment.hcl, the configuration of plugins, intents,
// dispatch and gates, and builds the Generation that the host runs.
//
// # Files
//
// A configuration is one file, or a directory of files that are merged in a
// fixed order (files.go): ferment.hcl, then common, common/prod, local and
// local/prod, then common and local of the profile. Merging works on
// expressions that are not evaluated yet (merge.go), so a local or a variable
// reaches every file; each value keeps all its places, from which Show prints
// origins. A file may include others of the same directory, which are loaded
// before it, and may be written in JSON (json.go). The profile comes from the
// option, the environment or the first files (profile.go) and has its own
// defaults. The .env files (dotenv.go) are visible to env and secret only; the
// process environment takes precedence over them.
//
// # Stages
//
// A file is checked against the input limits and parsed (bounds.go), converted to
// a tree of blocks with unevaluated expressions (tree.go), evaluated and checked
// against the specification (eval.go, decode.go), completed with the descriptions
// of the configured plugins (describe.go, lower.go), and built into an immutable
// Generation (build.go, gates.go): a registry, the policy layers and the checks.
// Conditions are compiled to plain functions (cond.go), so no layer below depends
// on HCL.
//
// Specification is the language as one table. It drives decoding, defaults,
// ranges and the reference. A second table lists what a build rejects because it
// lacks the feature. Nothing is accepted and ignored.
//
// # Main types
//
// Load returns a Config with Diagnostics. Report renders these as text, JSON and
// EDN. Plugin holds the settings of a plugin block. Describer returns the
// description of a plugin. Format converts a file to the canonical layout.
//
// # Concurrency
//
// A load runs in one goroutine. Its result is immutable and safe for concurrent
// use, including the functions of checks.
//
// # Failure
//
// A load does not stop at the first problem and never panics on its input: every
// problem is a Diagnostic with a type of the error catalogue, a range and a
// next step. Input limits are checked before parsing because the parser of the
// library recurses without a limit. A configuration with an error has no
// Generation.
package config
