// Command ferment hosts plugins and evaluates plans on them. See "ferment help".
package main

import (
	"io"
	"log"
	"os"

	"github.com/fermenthq/ferment/host/internal/runtime/cli"
	"github.com/fermenthq/ferment/sdk/conformance/fixture"
)

// version is set by the build.
var version = "unknown"

func main() {
	if len(os.Args) > 1 && os.Args[1] == fixture.Command {
		os.Exit(fixture.Main(os.Args[2:]))
	}
	// Libraries print there what this program reports itself, typed and once.
	log.SetOutput(io.Discard)
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	os.Exit(cli.Main(cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: version, Getenv: os.LookupEnv, Dir: dir,
	}))
}
