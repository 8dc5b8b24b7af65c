package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) installCommand() *cobra.Command {
	var wish setup.InstallWish
	cmd := &cobra.Command{
		Use:   "install PATH|ARCHIVE",
		Short: "install a plugin program in the store, so that a configuration can name it",
		Long: "install copies a program, or unpacks an archive with one (tar.gz or zip), into a directory named by the hash of\n" +
			"its content, which is never changed. The program is started once to read its name and version, unless both are\n" +
			"given. The store is in the data directory of the configuration; without a configuration,\n" +
			"below XDG_DATA_HOME or ~/.local/share. A configuration names the program as store:NAME@VERSION;\n" +
			"\"ferment plugin lock\" approves it like any other.",
		Example: "  ferment plugin install bin/plugins/text\n  ferment plugin install bin/plugins/sat --name sat-stable --version 1.0.0",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wish.Path = c.path(args[0])
			got, err := setup.Install(cmd.Context(), c.options(), wish)
			if err != nil {
				return err
			}
			reference := "store:" + got.Name + "@" + got.Version
			if c.format != formatText {
				return c.value(c.env.Stdout, edn.MustMap(
					edn.K("plugin"), edn.Text(got.Name),
					edn.K("version"), edn.Text(got.Version),
					edn.K("hash"), edn.Text(got.Hash),
					edn.K("command"), edn.Text(reference), edn.K("program"), edn.Text(c.relative(got.Program)),
					edn.K("known?"), edn.Bool(got.Known)))
			}
			how := "installed"
			if got.Known {
				how = "was already installed"
			}
			_, err = fmt.Fprintf(c.env.Stdout, "%s %s %s: %s\n  command = [%q]\n", got.Name, got.Version, how, got.Hash,
				reference)
			return err
		},
	}
	cmd.Flags().StringVar(&wish.Program, "program", "", "the program in the archive, if it contains several")
	cmd.Flags().StringVar(&wish.Name, "name", "", "install under this name instead of its own")
	cmd.Flags().StringVar(&wish.Version, "version", "", "install as this version instead of its own")
	return cmd
}
