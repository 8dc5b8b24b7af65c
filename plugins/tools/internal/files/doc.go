// Package files reads, lists and writes files below the prefixes of a scope.
//
// The kernel resolves every path beneath the directory of the allowed prefix:
// links may not leave it, mounts are not crossed, magic links are not followed.
// Nothing is checked by name and opened afterwards. Open opens that directory
// before the process is confined to it; Read, List and Write work after.
//
// A write creates a new file that replaces the old one: at any moment, and
// after a crash, the file has the old content or the new one, complete. An
// append copies the old content first.
//
// Every error is a *contract.Error with a :reason. A Base must be used by one
// goroutine. On systems other than Linux, Open fails.
package files
