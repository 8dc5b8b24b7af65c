//go:build unix

package daemon

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
)

// serviceManager is the socket of a service manager. Messages are read without
// waiting, so that a test with a fake clock can look at any moment.
type serviceManager struct {
	path string
	fd   int
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.SetNonblock(fd, true))
	dir, err := os.MkdirTemp("", "n") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &serviceManager{path: filepath.Join(dir, "s"), fd: fd}
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: m.path}))
	return m
}

// pings returns the number of watchdog pings since the last call.
func (m *serviceManager) pings() int {
	n, b := 0, make([]byte, 4096)
	for {
		size, _, err := syscall.Recvfrom(m.fd, b, 0)
		if err != nil {
			return n
		}
		if string(b[:size]) == "WATCHDOG=1" {
			n++
		}
	}
}

// daemon returns a daemon without listeners and plugins, with the watchdog of
// this service manager.
func (m *serviceManager) daemon(usec string, log io.Writer) *Daemon {
	vars := map[string]string{"NOTIFY_SOCKET": m.path, "WATCHDOG_USEC": usec}
	h := &Host{runs: newRuns(), rescorer: &rescore.Rescorer{}}
	h.closing.Do(func() {}) // there is nothing to close
	c := &config.Config{Host: config.Host{DrainTimeout: 5 * time.Second}}
	h.runs.current = &generation{loaded: &setup.Loaded{Config: c}}
	d := &Daemon{
		log:    hclog.New(&hclog.LoggerOptions{Output: log}),
		notify: newNotifier(func(name string) (string, bool) { v, ok := vars[name]; return v, ok }),
		begun:  time.Now(),
		drains: make(chan struct{}),
	}
	d.life, d.die = context.WithCancel(context.Background())
	d.host.Store(h)
	return d
}

// OPS-005: a ping comes every half of WATCHDOG_USEC while the daemon serves
// and while it drains; a longer period of the watchdog is cut to the interval
// of /health.
func TestWatchdogInterval(t *testing.T) {
	for usec, every := range map[string]time.Duration{
		"400000":  200 * time.Millisecond,
		"2000000": time.Second,
		"4000000": time.Second, // beatEvery
	} {
		t.Run(usec, func(t *testing.T) {
			m := newServiceManager(t)
			synctest.Test(t, func(t *testing.T) {
				d := m.daemon(usec, io.Discard)
				over := make(chan struct{})
				signals := make(chan os.Signal)
				go func() { defer close(over); _ = d.loop(signals) }()
				steady := func(phase string) {
					t.Helper()
					for range 4 {
						time.Sleep(every - time.Nanosecond)
						synctest.Wait()
						assert.Zero(t, m.pings(), phase)
						time.Sleep(time.Nanosecond)
						synctest.Wait()
						assert.Equal(t, 1, m.pings(), phase)
					}
				}
				synctest.Wait()
				steady("serving")
				d.host.Load().runs.taken = 1 // a run that does not end
				signals <- syscall.SIGTERM
				synctest.Wait()
				assert.Equal(t, 1, m.pings(), "the first interval of the drain begins with a ping")
				steady("draining")
				signals <- syscall.SIGTERM // do not wait for the run
				<-over
			})
		})
	}
}

// OPS-005: the service manager gets no message while the main loop is stuck,
// here in a write to a log without a reader, so it restarts the daemon.
func TestWatchdogOfAStuckLoop(t *testing.T) {
	m := newServiceManager(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := m.daemon("400000", stuckWriter(release))
		over := make(chan struct{})
		go func() { defer close(over); _ = d.loop(make(chan os.Signal)) }()
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, m.pings())
		d.Drain()
		for range 50 {
			time.Sleep(d.notify.every)
			synctest.Wait()
			require.Zero(t, m.pings())
		}
		assert.GreaterOrEqual(t, d.sinceBeat(time.Now()), beatLimit, "/health says so too")
		close(release)
		<-over
	})
}

// OPS-005, HTTP-007: while a check of the queue and the journal does not end, as with a
// disk that does not answer, the service manager gets no message, so it restarts the
// daemon. /health reports it, and a check that ends in time changes nothing.
func TestWatchdogOfAStuckJournal(t *testing.T) {
	m := newServiceManager(t)
	synctest.Test(t, func(t *testing.T) {
		d := m.daemon("400000", io.Discard)
		disk := make(chan struct{}, 1)
		go d.probe.run(d.life, d.begun, func(context.Context) { <-disk })
		over := make(chan struct{})
		go func() { defer close(over); _ = d.loop(make(chan os.Signal)) }()
		for range 5 { // a slow disk
			time.Sleep(900 * time.Millisecond)
			disk <- struct{}{}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			assert.GreaterOrEqual(t, m.pings(), 4)
		}
		assert.True(t, d.alive())
		time.Sleep(beatEvery + 2*d.notify.every)
		synctest.Wait()
		m.pings()
		for range 50 {
			time.Sleep(d.notify.every)
			synctest.Wait()
			require.Zero(t, m.pings())
		}
		assert.False(t, d.alive())
		close(disk)
		time.Sleep(d.notify.every)
		synctest.Wait()
		assert.Equal(t, 1, m.pings(), "it goes on")
		assert.True(t, d.alive())
		d.die()
		d.Drain()
		<-over
	})
}

// stuckWriter blocks every write until it is released, then ends the writing
// goroutine.
type stuckWriter <-chan struct{}

// Write implements io.Writer.
func (w stuckWriter) Write([]byte) (int, error) {
	<-w
	runtime.Goexit()
	return 0, nil
}

// OPS-005: without WATCHDOG_PID of this process no pings are sent.
func TestWatchdogOfAnother(t *testing.T) {
	for name, vars := range map[string]string{
		"no watchdog":     "NOTIFY_SOCKET=/n",
		"another process": "NOTIFY_SOCKET=/n WATCHDOG_USEC=400000 WATCHDOG_PID=1",
		"no socket":       "WATCHDOG_USEC=400000",
		"not a number":    "NOTIFY_SOCKET=/n WATCHDOG_USEC=soon",
		"negative":        "NOTIFY_SOCKET=/n WATCHDOG_USEC=-1",
	} {
		n := newNotifier(func(name string) (string, bool) {
			for _, v := range strings.Fields(vars) {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value, true
				}
			}
			return "", false
		})
		assert.Zero(t, n.every, name)
		assert.Equal(t, beatEvery, n.interval(), name)
	}
}
