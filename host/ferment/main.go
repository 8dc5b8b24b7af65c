// Command ferment hosts plugins and evaluates plans on them. See "ferment help".
package main

import (
	"cmp"
	"io"
	"log"
	"os"
	"runtime/debug"

	"github.com/fermenthq/ferment/host/internal/runtime/cli"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/conformance/fixture"
)

// version is set by make; if it is empty, the version of the module is used.
var version string

func main() {
	if len(os.Args) > 1 && os.Args[1] == fixture.Command {
		os.Exit(fixture.Main(os.Args[2:]))
	}
	daemon.TuneCollector(0, 0)
	// Libraries print messages there about problems that this program reports itself.
	log.SetOutput(io.Discard)
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	os.Exit(cli.Main(cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: versionOf(), Getenv: os.LookupEnv, Dir: dir,
	}))
}

func versionOf() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(version, info.Main.Version, "unknown")
	}
	return cmp.Or(version, "unknown")
}
