// Package dirlock excludes the processes of one machine from each other in a directory, with an
// advisory lock that the kernel releases when its holder ends. It writes nothing into the
// directory.
//
// Systems without flock do not have such locks: Wait does nothing there, and Try fails.
package dirlock
