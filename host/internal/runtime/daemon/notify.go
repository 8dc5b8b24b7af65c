package daemon

import (
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// notifier sends the state of the daemon to the service manager in the systemd
// protocol: datagrams of NAME=VALUE lines to the socket in NOTIFY_SOCKET.
// Without that variable it sends nothing.
type notifier struct {
	socket string
	// every is half of WATCHDOG_USEC, the longest time between two watchdog pings;
	// 0: the service manager expects no pings.
	every time.Duration
}

func newNotifier(env func(string) (string, bool)) notifier {
	var n notifier
	n.socket, _ = env("NOTIFY_SOCKET")
	if !strings.HasPrefix(n.socket, "/") && !strings.HasPrefix(n.socket, "@") {
		n.socket = ""
	}
	text, _ := env("WATCHDOG_USEC")
	if pid, ok := env("WATCHDOG_PID"); ok && pid != strconv.Itoa(os.Getpid()) {
		text = ""
	}
	if usec, err := strconv.ParseInt(text, 10, 64); err == nil && usec > 0 && n.socket != "" {
		n.every = time.Duration(usec) * time.Microsecond / 2
	}
	return n
}

// tell sends one message. Errors are ignored, because the service manager may be absent.
func (n notifier) tell(lines ...string) {
	if n.socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte(strings.Join(lines, "\n")))
}

// interval returns the time between two rounds of the main loop: at most
// beatEvery, and at most half of WATCHDOG_USEC.
func (n notifier) interval() time.Duration {
	if n.every > 0 {
		return min(beatEvery, n.every)
	}
	return beatEvery
}

// ping resets the watchdog of the service manager, if it has one. Only the main
// loop calls ping: a loop that is stuck must not look alive.
func (n notifier) ping() {
	if n.every > 0 {
		n.tell("WATCHDOG=1")
	}
}

// reloading reports the start of a reload; READY=1 reports its end.
func (n notifier) reloading() {
	n.tell("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(monotonicMicros(), 10))
}
