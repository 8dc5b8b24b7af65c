package launch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// BridgeCommand is the hidden subcommand that represents a plugin which runs
// under a debugger. The host starts, watches and stops the bridge like any
// plugin, but connects to the plugin process, which was started separately. Its
// argument is the socket on which the plugin waits. The end of the bridge ends
// the session of the plugin, not its process.
const BridgeCommand = "attach-bridge"

// bridgeWait bounds the wait for the handshake line. A plugin at a breakpoint
// is limited by the start timeout.
const bridgeWait = 24 * time.Hour

// bridgeMain is the bridge process.
func bridgeMain(args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		_, _ = fmt.Fprintf(stderr, "attach: expected one argument, the socket where the plugin waits, found %d\n", len(args))
		return 2
	}
	conn, err := net.DialTimeout("unix", args[0], time.Second)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "attach: the plugin no longer waits: %v\n", err)
		return 1
	}
	defer func() { _ = conn.Close() }()
	hello, err := json.Marshal(map[string]string{"cert": getenv("PLUGIN_CLIENT_CERT"),
		"dir": getenv("PLUGIN_UNIX_SOCKET_DIR")})
	if err == nil {
		_, err = conn.Write(append(hello, '\n'))
	}
	in := bufio.NewReader(conn)
	line := ""
	if err == nil {
		_ = conn.SetReadDeadline(time.Now().Add(bridgeWait))
		line, err = in.ReadString('\n')
	}
	line = strings.TrimSpace(line)
	if _, ok := ParseHandshake(line); err != nil || !ok {
		_, _ = fmt.Fprintf(stderr, "attach: the plugin sent no handshake: %s %v\n", line, err)
		return 1
	}
	_ = conn.SetReadDeadline(time.Time{})
	_, _ = fmt.Fprintln(stdout, line)
	hostGone, pluginGone := make(chan struct{}), make(chan struct{})
	go func() { defer close(hostGone); _, _ = io.Copy(io.Discard, stdin) }()
	go func() { defer close(pluginGone); _, _ = io.Copy(io.Discard, in) }()
	select {
	case <-hostGone:
		return 0
	case <-pluginGone:
		_, _ = fmt.Fprintln(stderr, "attach: the plugin closed the connection")
		return 1
	}
}
