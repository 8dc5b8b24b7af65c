package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) unitCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "systemd-unit",
		Short: "print a systemd unit file for the daemon of this configuration",
		Long: "systemd-unit prints the content of /etc/systemd/system/ferment.service. It names this program, the\n" +
			"configuration, the data directory and the directories that effects may write; all others are read-only.\n" +
			"Nothing is installed.",
		Example: "  ferment admin systemd-unit\n  ferment admin systemd-unit --profile prod",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := c.options()
			cfg, _ := config.Load(cmd.Context(), o.Config, config.Options{
				Dir:         o.Dir,
				Env:         o.Env,
				Profile:     o.Profile,
				HostVersion: o.Version,
			})
			if cfg.Unreadable() {
				return c.invalidConfig(&setup.InvalidConfigError{Config: cfg})
			}
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the program itself: %w", err)
			}
			text, err := unit(program, c.configPath(), c.profile, user, cfg)
			if err != nil {
				return err
			}
			if c.format != formatText {
				return c.value(c.env.Stdout, edn.MustMap(edn.K("unit"), edn.Text(text)))
			}
			_, err = io.WriteString(c.env.Stdout, text)
			return err
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "system user of the service (default: root)")
	return cmd
}

// userName is the form of the name of a system user.
var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// configPath returns the configuration that a daemon in this directory would read.
func (c *command) configPath() string {
	path := c.config
	if path == "" {
		path = files.Find(c.env.Dir)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.env.Dir, path)
	}
	return filepath.Clean(path)
}

// unit returns the unit file (OPS-006). The service is not restarted after exit codes that need an
// operator. With XDG_RUNTIME_DIR, the sockets of plugins are in the runtime directory of the
// service (WIRE-001).
func unit(program, path, profile, user string, cfg *config.Config) (string, error) {
	if user != "" {
		if !userName.MatchString(user) {
			return "", usagef("--user %q: expected the name of a system user, such as ferment", user)
		}
		user = "User=" + user + "\nGroup=" + user + "\n"
	}
	start := []string{program, "serve", "--config", path}
	if profile != "" {
		start = append(start, "--profile", profile)
	}
	writable := append([]string{cfg.Host.DataDir}, cfg.Writable()...)
	for _, list := range [][]string{start, writable} {
		for i, word := range list {
			if strings.ContainsAny(word, "\n\r\x00") {
				return "", contract.Errorf("config/range", "%q is not allowed in a unit file", word)
			}
			list[i] = unitWord(word)
		}
	}
	for i, word := range start {
		start[i] = strings.ReplaceAll(word, "$", "$$") // only commands have variables
	}
	for i := 1; i < len(writable); i++ {
		writable[i] = "-" + writable[i] // "-": a directory that does not exist yet must not prevent the start
	}
	return fmt.Sprintf(`[Unit]
Description=Ferment
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
%sType=notify
NotifyAccess=main
ExecStart=%s
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory=%s
WatchdogSec=30
TimeoutStopSec=%d
KillMode=mixed
OOMPolicy=continue
Delegate=yes
Restart=on-failure
RestartSec=1
RestartPreventExitStatus=64 65 73 77 78
StateDirectory=ferment
StateDirectoryMode=0700
RuntimeDirectory=ferment
RuntimeDirectoryMode=0700
Environment=XDG_RUNTIME_DIR=%%t/ferment
UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
PrivateTmp=yes
LimitNOFILE=65536
ReadWritePaths=%s

[Install]
WantedBy=multi-user.target
`, user, strings.Join(start, " "), strings.ReplaceAll(filepath.Dir(path), "%", "%%"), stopSeconds(cfg),
		strings.Join(writable, " ")), nil
}

// stopSeconds returns the time that systemd gives the daemon to stop: drain_timeout and what stopping
// needs after it.
func stopSeconds(cfg *config.Config) int {
	const after = 20 * time.Second
	return max(45, int((cfg.Host.DrainTimeout + after + time.Second - 1).Seconds()))
}

// unitWord quotes a word for systemd.
func unitWord(word string) string {
	word = strings.NewReplacer("%", "%%", `\`, `\\`, `"`, `\"`).Replace(word)
	if strings.ContainsAny(word, " \t'") {
		return `"` + word + `"`
	}
	return word
}
