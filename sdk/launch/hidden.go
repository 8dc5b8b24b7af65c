package launch

import "os"

// A program that imports this package runs the hidden subcommands by which it
// starts itself again: the reaper and the bridge; package confine does the same
// for its trampoline. They run during package initialization, because the
// initialization of the whole program costs more than these processes do.
func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case reaperCommand:
		os.Exit(reaperMain(os.Args[2:]))
	case BridgeCommand:
		os.Exit(bridgeMain(os.Args[2:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
	}
}
