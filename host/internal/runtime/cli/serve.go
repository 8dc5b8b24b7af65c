package cli

import (
	"context"
	"errors"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
	"github.com/fermenthq/ferment/sdk/contract"
)

func (c *command) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run as a daemon: supervise the plugins and serve HTTP and the admin socket",
		Long: "serve starts the plugins of the configuration, listens, and stays in the foreground. It logs on standard\n" +
			"error, as text on a terminal and else as JSON (log { format }). SIGHUP reloads the configuration; SIGTERM and an interrupt stop it when the runs in progress\n" +
			"have finished, a second one immediately.\n\n" +
			"Exit codes: 0 clean stop, 64 wrong command line, 65 a damaged journal, 69 a required\n" +
			"plugin or an address is unavailable, 70 a defect, 73 another daemon holds the data directory,\n" +
			"74 a disk cannot be written, 77 missing or too permissive rights, 78 a rejected configuration or listener.",
		Example: "  ferment serve\n  ferment serve --config site/ferment.hcl",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			signals := daemon.Signals()
			c.release() // the daemon handles the signals from here on
			log, levels, flush := telemetry.NewLog(c.env.Stderr, c.logsText())
			options := daemon.Options{Options: c.options()}
			options.Levels = levels
			err := daemon.Serve(options, log, signals)
			defer flush()
			if err == nil {
				return nil
			}
			if !c.logsText() && c.format == formatText {
				return logNotServed(log, err)
			}
			return c.notServed(err)
		},
	}
	c.registerLockfile(cmd)
	c.registerAttach(cmd)
	return cmd
}

// logsText reports whether the daemon logs text for people.
func (c *command) logsText() bool {
	switch c.configured(context.Background()).LogFormat {
	case language.LogText:
		return true
	case language.LogJSON:
		return false
	}
	return display.Terminal(c.env.Stderr)
}

// logNotServed logs in one line why a daemon does not serve, and returns its exit code.
func logNotServed(log hclog.Logger, err error) error {
	code := daemon.ExitCode(err)
	var invalid *setup.InvalidConfigError
	if errors.As(err, &invalid) {
		report := invalid.Config.Report(diag.DefaultMaxShown)
		typ := "invalid-request"
		for _, x := range report.Shown {
			if x.Severity == diag.SeverityError {
				typ = x.Type
				break
			}
		}
		log.Error("not served", "type", typ, "message", "the configuration has "+diag.Counted(report.Errors, "error"),
			"findings", daemon.Findings(report.Value()), "hint", serveHint(daemon.ExitConfig, err), "exit", code)
		return quietError{code}
	}
	e := startProblem(err, code)
	log.Error("not served", "type", e.Type, "message", e.FullMessage(), "hint", e.Hint, "exit", code)
	return quietError{code}
}

// notServed prints why a daemon does not serve, and returns its exit code.
func (c *command) notServed(err error) error {
	code := daemon.ExitCode(err)
	var invalid *setup.InvalidConfigError
	if errors.As(err, &invalid) {
		if err := c.diagnostics(c.env.Stderr, invalid.Config.Report(diag.DefaultMaxShown)); err != nil {
			return err
		}
		return quietError{code}
	}
	c.problem(startProblem(err, code))
	return quietError{code}
}

// startProblem returns the typed error for an exit code of the daemon.
func startProblem(err error, code int) *contract.Error {
	e, typed := err.(*contract.Error) // a wrapped one would lose its context
	if !typed {
		typ := map[int]string{
			daemon.ExitInternal: "runtime/internal",
			daemon.ExitConfig:   "config/range",
			daemon.ExitDamaged:  "journal/damaged",
		}[code]
		if typ == "" {
			typ = "runtime/start-failed"
		}
		e = contract.Errorf(typ, "%w", err).WithSource(contract.SourceHost).WithHint(serveHint(code, err))
		var directory *daemon.DirectoryError
		switch {
		case errors.As(err, &directory):
			e = e.WithHint(directory.Fix)
		case code == daemon.ExitPermission:
			e = e.WithHint(environmentHint(err))
		}
	}
	return e
}

func serveHint(code int, err error) string {
	switch code {
	case daemon.ExitLocked:
		return "\"ferment status\" shows the running daemon; stop it, or name another data directory in ferment.data_dir"
	case daemon.ExitUnavailable:
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return "\"ss -ltnp\" shows which process uses the address; stop it, or name another one in http.listen"
		case errors.As(err, new(*setup.EnvironmentError)):
			return "\"ferment plugin list\" shows the plugins"
		case errors.As(err, new(*store.UnreachableError)):
			return "check store.dsn, and whether the server runs and admits this host"
		}
		return "name an address of this machine in http.listen"
	case daemon.ExitIO:
		return diskHint
	case daemon.ExitDamaged:
		if damage := (*store.Damage)(nil); errors.As(err, &damage) && damage.Lost {
			return damage.Fix()
		}
		return repairHint
	case daemon.ExitConfig:
		if network := (*store.NetworkError)(nil); errors.As(err, &network) {
			return network.Fix()
		}
		if schema := (*store.SchemaError)(nil); errors.As(err, &schema) {
			return schema.Fix()
		}
		return "\"ferment validate\" checks the configuration"
	}
	return "the log lines before this one show its last steps"
}
