// Package display writes text for people: tables that fit a screen, and text of plugins and models
// without control characters.
package display
