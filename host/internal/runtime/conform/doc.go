// Package conform checks that the host survives plugins that break the contract. Host
// runs a plugin with one fault and a sound one under a supervisor of their own, calls
// both, and returns the result of the check.
package conform
