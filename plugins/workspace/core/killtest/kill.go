//go:build unix

package killtest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// Variables that make the test program a process that kills itself.
const (
	killWork = "WORKSPACE_TEST_KILL_WORK"
	killDir  = "WORKSPACE_TEST_KILL_DIR"
	killAt   = "WORKSPACE_TEST_KILL_AT"
)

// KillPoints counts the operations of a process that RunKilled started, and kills
// the process before, within or after the one that was chosen.
type KillPoints struct {
	Work, Dir string
	at        int64
	points    atomic.Int64
	torn      atomic.Bool // a part of a write is on the disk: it dies before that is cut off
}

// Killed returns the kill points of this process, or nil if the process must run
// the tests. TestMain must call it first.
func Killed() *KillPoints {
	work := os.Getenv(killWork)
	if work == "" {
		return nil
	}
	at, _ := strconv.ParseInt(os.Getenv(killAt), 10, 64)
	return &KillPoints{Work: work, Dir: os.Getenv(killDir), at: at}
}

func (k *KillPoints) point() bool { return k.points.Add(1) == k.at }

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

var errTorn = errors.New("torn")

// Faults returns the faults for the store that the process opens.
func (k *KillPoints) Faults() log.Faults {
	return log.Faults{
		Before: func(op string) error {
			if k.point() || k.torn.Load() {
				die()
			}
			if op == log.OpWrite && k.point() {
				k.torn.Store(true)
				return &log.Partial{Bytes: int(k.at*37) % 900, Err: errTorn}
			}
			return nil
		},
		After: func(string) {
			if k.point() {
				die()
			}
		},
	}
}

// Done reports that the work was finished without reaching the kill point.
func (k *KillPoints) Done() { fmt.Println("points", k.points.Load()) }

// RunKilled runs the test program as a process that performs work in dir and
// kills itself at the point with the number at, or never if at is 0. It returns
// the lines that the process printed and, if it finished its work, the number
// of points that it passed.
func RunKilled(t testing.TB, work, dir string, at int) (lines []string, points int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killWork+"="+work, killDir+"="+dir, killAt+"="+strconv.Itoa(at))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	finished := false
	for in := bufio.NewScanner(out); in.Scan(); {
		if _, err := fmt.Sscanf(in.Text(), "points %d", &points); err == nil {
			finished = true
		} else {
			lines = append(lines, in.Text())
		}
	}
	err = cmd.Wait()
	if finished {
		require.NoError(t, err)
		return lines, points
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "it must die by its own hand")
	return lines, 0
}
