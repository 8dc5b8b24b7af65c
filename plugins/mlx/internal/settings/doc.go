// Package settings is the configuration of the plugin: its form, what is wrong
// with one, the ports that follow from it, and the provider that speaks to a
// server which was started on one of them.
//
// Check reports every problem at once, each at its setting, and looks at no
// file, process or network. Everything is a pure function of the settings.
package settings
