// Package install keeps plugin programs in a store on this machine, so that a configuration can
// name one as store:NAME@VERSION.
//
// # The store
//
// A program and the files installed with it are in a directory whose name is the hash of all of
// them. A directory is filled under a temporary name and then renamed, and its files are not
// writable: installed content never changes. In names/, a small file per name and version has the
// name of the directory. It is never replaced by other content, because a version must identify one
// program.
//
// # Main types
//
// A [Store] is one or more directories; the first receives installations, all are searched.
// [Store.Add] installs a program or an archive (tar.gz, zip), [Store.Resolve] finds a program.
//
// # Concurrency
//
// A Store has no mutable state; goroutines and processes may use it concurrently. If the same
// program is installed concurrently, the first rename is kept.
//
// # Failure
//
// An archive is untrusted input: names outside of it, links, devices, and contents beyond the
// limits are rejected before the store changes. Errors are *contract.Error with the type
// input/invalid for a bad archive or name, not-found for an unknown name, import/conflict for a
// version that is already installed with other content, and invalid-request for a store without a
// directory; others are those of Source.Identify and of the file system. A failed Add leaves no
// files behind.
package install
