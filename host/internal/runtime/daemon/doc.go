// Package daemon puts a host together: it loads the configuration, asks the
// plugins what they are, starts them, and makes the service that runs acts on
// them.
//
// Load reads and checks only. Start gives a running Host, which is used by any
// number of goroutines and ends with Close; Close takes the plugins down by
// their stop ladders and leaves no process behind.
//
// Serve runs a host as a daemon until a signal or an operator ends it. While it
// serves it keeps the socket and the token of operators where they are looked
// for, and is not ready when its data directory was taken away. ExitCode has the
// code for each way in which it does not serve.
//
// Failure: a configuration with errors is an InvalidConfigError, which holds
// all of them; something missing around the host is an EnvironmentError.
package daemon
