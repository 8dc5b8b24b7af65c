// Package setup reads a configuration with everything it refers to: plugins are
// described, the lock file is compared, and an Environment holds what processes
// of plugins need to start.
//
// Load is the entry. It returns a Loaded, which is immutable and explains
// itself: the binding of an intent, the layers of a prompt, the protocol
// package. Lock, LockPlatform and Install write what was approved.
//
// Errors: problems of the configuration are diagnostics of the Loaded, or an
// InvalidConfigError where nothing can go on without it; a problem of the
// machine is an EnvironmentError. Functions may be called concurrently.
package setup
