// Package setup loads a configuration with everything it refers to: plugins are described, the lock
// file is compared, and an Environment holds the resources that plugin processes need to start.
//
// Load is the entry point. It returns a Loaded, which is immutable and explains itself: the binding
// of an intent, the layers of a prompt, the protocol package. Lock, LockPlatform and Install write
// what was approved or installed.
//
// Errors: problems of the configuration are diagnostics of the Loaded, or an InvalidConfigError if
// the operation cannot continue; a problem of the machine is an EnvironmentError. Functions may be
// called concurrently.
package setup
