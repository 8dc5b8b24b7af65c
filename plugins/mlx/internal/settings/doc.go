// Package settings defines the configuration of the plugin: its schema and
// validation, the ports derived from it, and the provider for a server on one
// of them.
//
// Check reports every problem at once, each at its setting, without access to
// files, processes or the network. Everything is a pure function of the
// settings.
package settings
