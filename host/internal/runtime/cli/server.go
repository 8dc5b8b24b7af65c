package cli

import (
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
)

// tokenVariable is the variable with the token for the daemon of --server.
const tokenVariable = "FERMENT_TOKEN" //nolint:gosec // the name of a variable

// remoteVerbs are the commands that support --server, with those below them. The others use files
// of this machine.
var remoteVerbs = []string{
	"act", "run", "runs", "session", "status", "user", "role", "token", "dispatch", "explain", "diff", "config show",
	"judge list", "judge show", "protocol export",
	"plugin list", "plugin inspect", "plugin logs", "plugin restart", "plugin swap", "plugin drain", "plugin release",
	"plugin quarantine", "plugin approve",
	"admin action", "admin audit", "admin backup", "admin budget", "admin db-status", "admin drain", "admin events", "admin gc",
	"admin log-level", "admin migrate", "admin reload", "admin rollback",
}

// localVerbs are exceptions, because they use files of this machine.
var localVerbs = []string{"runs import", "admin backup verify"}

// localFlags are flags of remote commands that use files or processes of this machine.
var localFlags = []string{"local", "attach", "against", "inputs", "flat", "no-start"}

// chooseServer sets the daemon of --server, which identifies its caller by a token (CLI-003).
func (c *command) chooseServer(cmd *cobra.Command) error {
	if c.server == "" {
		if cmd.Flags().Changed("token-file") {
			return usagef("--token-file: it is for the daemon of --server")
		}
		return nil
	}
	verb := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	below := func(of string) bool { return verb == of || strings.HasPrefix(verb, of+" ") }
	if !slices.ContainsFunc(remoteVerbs, below) || slices.ContainsFunc(localVerbs, below) {
		return usagef("%s works on this machine: omit --server", cmd.CommandPath())
	}
	for _, flag := range localFlags {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return usagef("--server: expected no --%s with it", flag)
		}
	}
	token, err := c.serverToken()
	if err != nil {
		return err
	}
	c.remote, err = remote(c.server, token)
	return err
}

// remote returns a client of the daemon at a URL. It must be https unless it is on this machine,
// because the token must not be sent unencrypted.
func remote(server, token string) (*client.Client, error) {
	c, err := client.New(server, client.WithToken(token))
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil || strings.Trim(u.Path, "/") != "" {
		return nil, contract.Errorf("invalid-request", "%.200q is not the URL of a daemon: expected scheme, host and port", server)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		return nil, contract.Errorf("http/insecure-listener", "http to %s would send the token unencrypted", u.Host).
			WithHint("use https, as the daemon does for other machines")
	}
	return c, nil
}

// maxTokenFile is the maximum size of a file with a token in bytes.
const maxTokenFile = 4 << 10

// serverToken returns the token in the environment or in a file that only its owner can read; empty
// if there is none.
func (c *command) serverToken() (string, error) {
	if c.tokenFile == "" {
		token, _ := c.env.Getenv(tokenVariable)
		return strings.TrimSpace(token), nil
	}
	info, err := os.Stat(c.path(c.tokenFile))
	if err != nil {
		return "", contract.Errorf("invalid-request", "--token-file: %w", err).WithHint("name a file that contains the token")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", contract.Errorf("auth/forbidden", "the token file %s may be read by others: its mode is %#o, expected 0600", c.tokenFile, mode).
			WithHint("chmod 600 " + c.tokenFile)
	}
	if !info.Mode().IsRegular() || info.Size() > maxTokenFile {
		return "", contract.Errorf("invalid-request", "%s is not a file with a token", c.tokenFile)
	}
	text, err := os.ReadFile(c.path(c.tokenFile))
	if err != nil {
		return "", contract.Errorf("invalid-request", "--token-file: %w", err).WithHint("name a file that you can read")
	}
	return strings.TrimSpace(string(text)), nil
}
