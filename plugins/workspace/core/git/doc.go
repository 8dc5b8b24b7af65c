// Package git reads the files of git repositories that determine git's object
// ids: configuration, exclude files, attributes, and the commit of a nested
// repository. It starts no program and writes nothing.
//
// [Read] returns what applies to a whole workspace. [Head] returns the commit of
// a nested repository. [RefusedName] and [Converting] report what git would
// refuse or convert.
//
// All functions are safe for concurrent use. A file that cannot be read is a
// [Reason] why equality with git cannot be promised, not an error.
package git
