// Package settings is the configuration of the plugin: its form, what is wrong
// with one, and the provider that follows from it.
//
// Check reports every problem at once, each at its setting. Build makes the
// client, which opens no connection.
package settings
