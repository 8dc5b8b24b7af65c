// Package rundir makes the private directories of a host process. A [Dir] holds
// the sockets of its plugins; a lock that ends with the process marks it as in
// use, and the next host removes the directories of ended ones.
package rundir
