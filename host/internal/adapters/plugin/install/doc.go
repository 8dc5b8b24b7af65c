// Package install keeps plugin programs in a store on this machine, so that a
// configuration can name one as store:NAME@VERSION.
//
// # The store
//
// Each program lies with the files that came with it in a directory that is
// named by the hash of all of them. A directory is filled under another name
// and then renamed, and nothing in it is writable: what has been installed is
// never changed. Below names/ one small file per name and version says which
// directory is meant; it is not replaced by another content either, because a
// version that means two programs means nothing.
//
// # Main types
//
// A [Store] is one or more directories; the first takes what is installed, all
// are looked at. [Store.Add] installs a program or an archive (tar.gz, zip),
// [Store.Resolve] finds a program.
//
// # Concurrency
//
// A Store is a value without state and may be used by many goroutines and
// processes: renames decide who was first, and both have the same content then.
//
// # Failure
//
// An archive is input from strangers: names that lead out of it, links, devices,
// and contents beyond the limits are refused before the store has changed.
// Errors are *contract.Error with the type input/invalid for a bad archive,
// not-found for an unknown name, and conflict for a version that is taken; others are
// those of the disk. A failed Add leaves nothing behind.
package install
