// Package dirlock keeps the processes of one machine out of each other's way in a
// directory, with an advisory lock that the kernel releases when its holder ends. Nothing
// is written into the directory.
//
// Systems without flock have no such locks: there Wait excludes no one, and Try fails.
package dirlock
