package launch

import (
	"os"

	"github.com/fermenthq/ferment/sdk/confine"
)

// Hidden runs the hidden subcommands by which a program starts itself again: the
// reaper, the trampoline of package confine, and the bridge to a plugin that
// somebody else started. The main function of a program
// that starts processes calls it before anything else, as does the TestMain of
// a package that tests one:
//
//	if status, ok := launch.Hidden(os.Args); ok {
//		os.Exit(status)
//	}
//
// ok is false if args name none of them, and then nothing was done.
func Hidden(args []string) (status int, ok bool) {
	if len(args) < 2 {
		return 0, false
	}
	switch args[1] {
	case ReaperCommand:
		return ReaperMain(args[2:]), true
	case confine.Command:
		return confine.Main(args[2:]), true
	case BridgeCommand:
		return bridgeMain(args[2:], os.Getenv, os.Stdin, os.Stdout, os.Stderr), true
	}
	return 0, false
}
