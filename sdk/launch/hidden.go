package launch

import "os"

// A program that imports this package runs the hidden subcommands by which it
// starts itself again: the reaper, and the bridge to a plugin that somebody else
// started; package confine does so for its trampoline. That happens while the
// packages are initialised, because what the whole program prepares costs more
// than what these processes do.
func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case ReaperCommand:
		os.Exit(reaperMain(os.Args[2:]))
	case BridgeCommand:
		os.Exit(bridgeMain(os.Args[2:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
	}
}
