// Package display writes text for people: tables that fit a screen, and text of
// plugins and models without characters that act on a terminal.
package display
