// Package rundir creates the private directories of a host process. A [Dir] holds the sockets of
// its plugins. A file lock, which the kernel releases when the process ends, marks it as in use;
// the next host deletes the directories of ended processes.
package rundir
