// Package backup copies a data directory with its journal into a backup, while a host
// uses it, and back.
//
// # Main types
//
// [Create] writes a backup, a [Source] describes what it copies, and a [Manifest] what it
// holds. [Open] opens a backup; [Backup.Verify] reads all of it back, [Backup.Restore]
// fills an empty directory from it.
//
// # Form
//
// A backup is a folder, or the tar archive of one if its name ends in .tar:
//
//	MANIFEST    one EDN map per line: the header, each file with its hash, the end
//	data/       the files of the data directory, the database as one file
//
// The database is a snapshot between two commits, and has the files beside it that it
// names: values of runs that were purged or removed meanwhile are not in the backup.
// What belongs to one process or to one host is left out: locks, sockets, logs, work
// directories and the id of the host.
//
// # Concurrency
//
// Functions may be called concurrently, for different targets.
//
// # Errors
//
// A file that is not a backup, or is not what was written, has the error type
// backup/invalid; one that cannot be written has backup/failed. A backup that is not
// complete has no name: it is written beside its target and renamed.
package backup
