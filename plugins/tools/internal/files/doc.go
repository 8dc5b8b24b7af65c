// Package files reads, lists and writes files below the prefixes of a scope.
//
// Every path is resolved by the kernel, beneath the directory of the allowed
// prefix: links may not leave it, mounts are not crossed, magic links are not
// followed. Nothing is decided by name and then opened again. Open finds that
// directory before the process is confined, so that the kernel can be told to
// hold the process to it; Read, List and Write work after.
//
// A write is a new file that takes the place of the old one: whoever looks, at
// any moment and after a crash, sees the old content or the new one, whole. An
// append is the same with the old content in front.
//
// Failure: every error is a *contract.Error with a :reason. A Base belongs to
// one goroutine. On systems other than Linux nothing can be opened.
package files
