// Package exit defines the exit codes of the commands.
package exit
