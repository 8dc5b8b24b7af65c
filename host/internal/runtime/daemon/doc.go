// Package daemon assembles a host: it starts the plugins of a configuration that
// package setup has loaded, and creates the service that runs acts on them.
//
// Start returns a running Host, which is safe for concurrent use and must be
// closed. Close stops the plugins in stages up to SIGKILL and leaves no process
// behind.
//
// Serve runs a host as a daemon until a signal or an operator stops it. It
// restores the admin socket and the admin token if they are deleted, and
// reports not ready when its data directory was moved or replaced. ExitCode
// maps each error of Serve to an exit code.
//
// Errors: those of package setup, DirectoryError and LockedError.
package daemon
