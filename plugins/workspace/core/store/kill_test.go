package store

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// Variables that make the test program a process that writes until it kills
// itself.
const (
	killDir = "WORKSPACE_TEST_KILL_DIR"
	killAt  = "WORKSPACE_TEST_KILL_AT" // point at which it kills itself
)

// killed runs the writing process in place of the tests. It kills itself before,
// within or after the operation with the given number.
func killed() bool {
	dir := os.Getenv(killDir)
	if dir == "" {
		return false
	}
	at, _ := strconv.ParseInt(os.Getenv(killAt), 10, 64)
	var points atomic.Int64
	die := func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	point := func() bool { return points.Add(1) == at }
	var torn atomic.Bool // a part of a write is on the disk: it dies before that is cut off
	s, err := Open(background, dir, Options{
		Now:         func() int64 { return 1 },
		SegmentSize: 4000,
		Faults: log.Faults{
			Before: func(op string) error {
				if point() || torn.Load() {
					die()
				}
				if op == log.OpWrite && point() {
					torn.Store(true)
					return &log.Partial{Bytes: int(at*37) % 900, Err: fmt.Errorf("torn")}
				}
				return nil
			},
			After: func(string) {
				if point() {
					die()
				}
			},
		},
	})
	if err != nil {
		panic(err)
	}
	var say sync.Mutex
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				text := killText(n, i)
				seq, err := s.Update(background, "child", func(tx *Tx) error {
					if _, err := tx.PutContent([]byte(text)); err != nil {
						return err
					}
					_, err := tx.PutTree(grow(id.B3, map[string]string{"f": text, "d/g": text}))
					return err
				})
				if err != nil {
					panic(err)
				}
				say.Lock()
				fmt.Println(seq, n, i)
				say.Unlock()
			}
		})
	}
	writers.Wait()
	return true
}

func killText(n, i int) string {
	return strings.Repeat(fmt.Sprintf("writer %d, text %d. ", n, i), 1+i%20)
}

// WS-043, WS-044, WS-047: a process that is killed before, within or after any
// write, fsync or index step loses nothing that it acknowledged, and leaves
// nothing half-done; the store opens, verifies and takes writes.
func TestKilledProcess(t *testing.T) {
	for seed := range proof.Size(t, "killed processes", 60, 1000) {
		r := rand.New(rand.NewPCG(uint64(seed), 43))
		dir := create(t, id.B3)
		acknowledged := map[uint64]string{}
		for range 1 + r.IntN(2) { // a store that was killed before, too
			for seq, text := range runKilled(t, dir, 1+r.IntN(120)) {
				acknowledged[seq] = text
			}
			s := open(t, dir)
			require.Nil(t, s.Damage(), "seed %d", seed)
			for seq, text := range acknowledged {
				require.Equal(t, ids(grow(id.B3, map[string]string{"f": text, "d/g": text})), treeAt(t, s.Store, seq), "seed %d at %d", seed, seq)
				require.NoError(t, s.View(background, seq, func(v *Snapshot) error {
					got, err := v.Content(background, id.B3.Bytes([]byte(text)))
					assert.Equal(t, text, string(got))
					return err
				}))
			}
			require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
				for seq := uint64(2); seq <= v.Seq(); seq++ { // each transaction is there as a whole
					c, err := v.Commit(background, seq)
					require.NoError(t, err)
					require.Positive(t, c.Records)
				}
				return nil
			}))
			put(t, s.Store, "after")
			require.NoError(t, s.Close())
			findings, err := verifyDir(dir)
			require.NoError(t, err)
			require.Empty(t, findings, "seed %d", seed)
		}
	}
}

// runKilled runs the writing process to its end and returns the texts of the
// transactions that it acknowledged.
func runKilled(t *testing.T, dir string, at int) map[uint64]string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"="+strconv.Itoa(at))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	acknowledged := map[uint64]string{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var seq uint64
		var n, i int
		if _, err := fmt.Sscan(lines.Text(), &seq, &n, &i); err == nil {
			acknowledged[seq] = killText(n, i)
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "it must die by its own hand")
	return acknowledged
}
