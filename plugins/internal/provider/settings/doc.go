// Package settings defines the configuration of the plugin: its schema and
// validation, and the provider built from it.
//
// Check reports every problem at once, each at its setting. Build makes the
// client, which opens no connection.
package settings
