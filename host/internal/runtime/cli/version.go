package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

func (c *command) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the versions of the host and of its contracts",
		Example: "  ferment version\n  ferment version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return c.printVersion() },
	}
}

// printVersion prints the versions built into the program.
func (c *command) printVersion() error {
	if c.format == formatText {
		_, err := fmt.Fprintf(c.env.Stdout, "ferment %s\nenvelope %d, plugin protocol ferment.plugin.v%d\n%s %s/%s\n",
			c.env.Version, contract.Proto, wire.Protocol, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	}
	return c.value(c.env.Stdout, edn.MustMap(
		edn.K("version"), edn.Text(c.env.Version),
		edn.K("proto"), edn.Int(contract.Proto),
		edn.K("plugin/protocol"), edn.Text(fmt.Sprintf("ferment.plugin.v%d", wire.Protocol)),
		edn.K("go"), edn.Text(runtime.Version()),
		edn.K("platform"), edn.Text(runtime.GOOS+"/"+runtime.GOARCH),
	))
}
