// Package files reads the files of a configuration in their order.
//
// # Order
//
// A configuration is one file, or a directory of files that are merged in a fixed order:
// ferment.hcl, then common, common/prod, local and local/prod, then common and local of the
// profile. A file may include others of the same directory, which are loaded before it. The profile
// is selected by the option, the environment or the first files. The .env files are visible to env
// and secret only; the process environment takes precedence over them.
//
// # Main types
//
// [Read] returns a [Set]: the files, the profile, the merged tree and the variables. [List] returns
// the files of a directory for all profiles, [Find] the default configuration of a directory.
//
// # Concurrency
//
// A Set is created in one goroutine and not modified afterwards.
//
// # Failure
//
// A file that cannot be read is reported to the collector; the other files are still read. A Set
// without any readable file has no tree.
package files
