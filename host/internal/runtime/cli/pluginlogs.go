package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/logfile"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// logsCommand reads the log files of a plugin directly, so it works without a daemon and in every
// state of the plugin. The log of another machine comes from its daemon.
func (c *command) logsCommand() *cobra.Command {
	var lines int
	var follow bool
	cmd := &cobra.Command{
		Use:     "logs NAME",
		Short:   "print the last lines of a plugin's log, and follow it",
		Example: "  ferment plugin logs chess\n  ferment plugin logs chess --lines 500 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return usagef("--lines %d: expected 0 or more", lines)
			}
			if c.remote != nil {
				return c.logsThere(cmd.Context(), args[0], lines, follow)
			}
			_, dataDir := c.place(cmd.Context())
			log, err := c.openLog(cmd.Context(), dataDir, args[0], follow)
			if err != nil {
				return err
			}
			defer func() { _ = log.Close() }()
			last, err := log.Last(lines)
			if err != nil {
				return err
			}
			for _, line := range last {
				if err := c.logLine(line); err != nil {
					return err
				}
			}
			for follow {
				line, err := log.Next(cmd.Context())
				if errors.Is(err, errInterrupted) {
					return quietError{exit.Interrupted} // the usual end of --follow
				}
				if err != nil {
					return err
				}
				if err := c.logLine(line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&lines, "lines", 100, "number of lines to print")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "also print new lines, until interrupted")
	return cmd
}

// remoteLines is the maximum number of lines in a response of a daemon.
const remoteLines = 1000

// logsThere prints the last lines of the log of a plugin of the daemon of --server, and with follow
// the next ones.
func (c *command) logsThere(ctx context.Context, name string, lines int, follow bool) error {
	if lines < 1 || lines > remoteLines {
		return usagef("--lines %d: with --server expected 1 to %d", lines, remoteLines)
	}
	show := func(line edn.Value) error {
		if text, ok := line.AsString(); ok { // it is not JSON
			return c.logLine([]byte(text))
		}
		text, err := edn.WriteJSON(line)
		if err != nil {
			return err
		}
		return c.logLine(text)
	}
	if follow {
		err := c.remote.Logs(ctx, name, lines, show)
		if errors.Is(err, errInterrupted) {
			return quietError{exit.Interrupted}
		}
		return err
	}
	v, err := c.order(ctx, actionOf("plugin-logs", edn.K("plugin"), edn.Text(name), edn.K("lines"), edn.Int(int64(lines))))
	if err != nil {
		return err
	}
	for line := range v.Key("lines").Elems() {
		if err := show(line); err != nil {
			return err
		}
	}
	return nil
}

// openLog opens the log of a plugin. With wait it waits until the log of a configured plugin
// exists. The error for a missing log names the existing ones.
func (c *command) openLog(ctx context.Context, dataDir, name string, wait bool) (*logfile.Reader, error) {
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return nil, usagef("%q is not a plugin name", name)
	}
	path := plugin.LogPath(dataDir, name)
	log, err := logfile.OpenReader(path)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return log, err
	case !wait || !c.known(ctx, name):
		return nil, c.noLog(ctx, dataDir, name)
	}
	return logfile.Await(ctx, path)
}

// known reports whether the configuration has the plugin.
func (c *command) known(ctx context.Context, name string) bool {
	loaded, err := c.look(ctx)
	if err != nil {
		return false
	}
	for _, p := range loaded.Plugins {
		if p.Name == name {
			return true
		}
	}
	return false
}

// noLog returns an error that lists the existing logs.
func (c *command) noLog(ctx context.Context, dataDir, name string) error {
	if c.known(ctx, name) {
		return contract.Errorf("not-found", "plugin %q has no log in %s", name, c.relative(dataDir)).
			WithHint("add -f to wait for its first line")
	}
	var names []string
	entries, _ := os.ReadDir(filepath.Join(dataDir, "plugins")) // an unreadable directory is handled like an empty one
	for _, entry := range entries {
		if _, err := os.Stat(plugin.LogPath(dataDir, entry.Name())); err == nil {
			names = append(names, entry.Name())
		}
	}
	e := contract.Errorf("not-found", "%s has no log of a plugin %q", c.relative(dataDir), name).
		WithHint("\"ferment plugin list\" lists the plugins of the configuration")
	if len(names) > 0 {
		e = e.WithHint("logs exist for " + strings.Join(names, ", "))
	}
	return e.DidYouMean(contract.Nearest(name, names))
}

// logLine prints one line of the log of a plugin. A line that is not JSON was truncated when a host
// ended, and is printed unchanged.
func (c *command) logLine(line []byte) error {
	if c.format == formatJSON && json.Valid(line) {
		_, err := fmt.Fprintf(c.env.Stdout, "%s\n", line)
		return err
	}
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		if c.format != formatText {
			return c.value(c.env.Stdout, edn.Text(string(line)))
		}
		_, err := fmt.Fprintln(c.env.Stdout, display.Printable(string(line)))
		return err
	}
	if c.format == formatEDN {
		v, err := edn.ReadJSON(line)
		if err != nil {
			return err
		}
		return c.value(c.env.Stdout, v)
	}
	_, err := fmt.Fprintln(c.env.Stdout, logText(fields))
	return err
}

// logText returns a line as text for people: time, level, process, message, and the fields of the
// plugin.
func logText(fields map[string]any) string {
	take := func(key string) string {
		v, ok := fields[key]
		delete(fields, key)
		if !ok {
			return ""
		}
		return fieldText(v)
	}
	at := take("@timestamp")
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		at = t.Local().Format("2006-01-02 15:04:05.000")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s %s/%s %s", at, take("@level"), take("generation"), take("pid"),
		display.Printable(take("@message")))
	take("plugin")
	if fields["@module"] != "supervisor" {
		take("@module")
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "instance" && fields[key] == float64(0) {
			continue
		}
		fmt.Fprintf(&b, " %s=%s", display.Printable(strings.TrimPrefix(key, "@")), display.Printable(fieldText(fields[key])))
	}
	return b.String()
}

func fieldText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		if v == float64(int64(v)) {
			return fmt.Sprint(int64(v))
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
