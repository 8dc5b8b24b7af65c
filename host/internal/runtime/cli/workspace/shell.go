package workspace

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Shell gives the verbs access to the surrounding command line.
type Shell struct {
	Dir            string // the working directory
	Getenv         func(string) (string, bool)
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Format returns the output format: text, json or edn. Verbose reports whether ids are printed
	// in full.
	Format  func() string
	Verbose func() bool
	// Forms adds output formats to a command. The function returns the selected one; empty for one
	// of Format.
	Forms func(cmd *cobra.Command, more ...string) (chosen func() string)

	// ReadFile reads a file in the command line, or standard input for "-", up to one byte beyond
	// limit. OpenFile opens a file, or a copy if it can be read only once: that is made only if
	// accept returns no error for the first bytes. WriteFile writes a file.
	ReadFile  func(name string, limit int) ([]byte, error)
	OpenFile  func(name string, accept func(head []byte) error) (*os.File, error)
	WriteFile func(name string, content []byte) error
	// Confirm asks on the terminal whether to continue. An error means no, and ends the command.
	Confirm func(what string) error

	// Open prepares calls of the intent of a request.
	Open func(ctx context.Context, request edn.Value, o Opening) (Caller, error)

	// Usage marks an error as one of the command line. Problem prints an error in the output
	// format. Quiet returns the error that ends the command with a code after everything is
	// printed.
	Usage   func(err error) error
	Problem func(err error)
	Quiet   func(code int) error
}

// Opening configures the calls of an intent.
type Opening struct {
	Local bool // in this process, even if a daemon runs
	Quiet bool // no messages about plugins that start
}

// Caller calls an intent, in a daemon or in this process. Close releases the resources of Open.
type Caller interface {
	// Call sends a request and returns the response envelope. show receives the events of the run;
	// nil: they are ignored. An error of show cancels the run. Canceling ctx also cancels the run,
	// and Call returns when it has ended.
	Call(ctx context.Context, request edn.Value, show func(event edn.Value) error) (edn.Value, error)
	Close()
}
