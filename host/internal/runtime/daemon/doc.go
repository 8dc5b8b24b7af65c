// Package daemon assembles a host: it loads the configuration, describes and
// starts the plugins, and creates the service that runs acts on them.
//
// Load only reads and checks. Start returns a running Host, which is safe for
// concurrent use and must be closed. Close stops the plugins in stages up to
// SIGKILL and leaves no process behind.
//
// Serve runs a host as a daemon until a signal or an operator stops it. It
// restores the admin socket and the admin token if they are deleted, and
// reports not ready when its data directory was moved or replaced. ExitCode
// maps each error of Serve to an exit code.
//
// Errors: a configuration with errors is an InvalidConfigError that holds all
// of them; a problem of the environment is an EnvironmentError.
package daemon
