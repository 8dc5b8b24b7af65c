package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/killtest"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// killWork is work on a store that is killed at some point.
type killWork struct {
	// prepare makes the directory.
	prepare func(t *testing.T, dir string)
	// run does the work in the process that is killed, and prints what it was
	// acknowledged.
	run func(s *Store)
	// repair does the work on a closed store instead.
	repair bool
	// endless work has no end; it is killed at a point up to this.
	endless int
	// check compares the store with all lines that were printed.
	check func(t *testing.T, s *Store, lines []string)
}

var killWorks = map[string]killWork{
	"put":     {run: killPut, endless: 120, check: checkPut},
	"scan":    {run: killScan, endless: 120, check: checkScan},
	"compact": {prepare: prepareCompact, run: killCompact, endless: 200, check: checkCompact},
	"import":  {prepare: prepareImport, run: killImport, check: checkImport},
	"repair":  {prepare: prepareRepair, repair: true, check: checkRepair},
}

// killed runs the work of this process in place of the tests.
func killed() bool {
	k := killtest.Killed()
	if k == nil {
		return false
	}
	o := Options{Now: func() int64 { return 1 }, SegmentSize: 4000, Faults: k.Faults()}
	w := killWorks[k.Work]
	if w.repair {
		if _, err := Repair(background, k.Dir, o, true); err != nil {
			panic(err)
		}
		k.Done()
		return true
	}
	s, err := Open(background, k.Dir, o)
	if err != nil {
		panic(err)
	}
	w.run(s)
	if err := s.Close(); err != nil {
		panic(err)
	}
	k.Done()
	return true
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// WS-043, WS-044, WS-047: a process that is killed before, within or after any
// write, fsync, rename, removal or index step of any work loses nothing that it
// acknowledged, and leaves nothing half-done; the store opens, verifies and takes
// writes. Before it is opened, a validation calls it valid.
func TestKilledProcess(t *testing.T) {
	each := proof.Size(t, "killed processes for each work", 10, 300)
	for name, w := range killWorks {
		t.Run(name, func(t *testing.T) {
			points := w.endless
			if points == 0 { // as many as the work has
				dir := directory(t, w)
				_, points = killtest.RunKilled(t, name, dir, 0)
			}
			n := each
			if w.repair { // the slowest, and no request
				n = (each + 1) / 2
			}
			var dir string
			var lines []string
			for seed := range n {
				r := rand.New(rand.NewPCG(uint64(seed), 43))
				again := seed%3 == 2 && w.endless > 0 // a store that was killed before, too
				if !again {
					dir, lines = directory(t, w), nil
				}
				more, ended := killtest.RunKilled(t, name, dir, 1+r.IntN(points))
				require.Zero(t, ended, "seed %d: it was not killed", seed)
				lines = append(lines, more...)
				checkKilled(t, w, dir, lines, seed)
			}
		})
	}
}

func directory(t *testing.T, w killWork) (dir string) {
	dir = create(t, id.B3)
	if w.prepare != nil {
		w.prepare(t, dir)
	}
	return dir
}

func checkKilled(t *testing.T, w killWork, dir string, lines []string, seed int) {
	if w.repair {
		_, err := Repair(background, dir, testOptions, true)
		require.NoError(t, err, "seed %d", seed)
	} else { // WS-170: traces of a crash are not damage
		report, err := Verify(background, dir, Check{})
		require.NoError(t, err, "seed %d", seed)
		require.Empty(t, report.Errors, "seed %d", seed)
	}
	s := open(t, dir, func(o *Options) { o.SegmentSize = 4000 })
	require.Nil(t, s.Damage(), "seed %d", seed)
	w.check(t, s.Store, lines)
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		var seq uint64
		for x := uint64(1); x <= v.Seq(); x++ { // each transaction is there as a whole
			if _, err := v.Commit(background, x); err == nil {
				seq = x
			}
		}
		assert.Equal(t, v.Seq(), seq)
		return nil
	}))
	put(t, s.Store, fmt.Sprint("after ", seed, len(lines)))
	require.NoError(t, s.Close())
	findings, err := verifyDir(dir)
	require.NoError(t, err)
	require.Empty(t, findings, "seed %d", seed)
}

func killText(n, i int) string {
	return strings.Repeat(fmt.Sprintf("writer %d, text %d. ", n, i), 1+i%20)
}

// killPut is four writers of texts, trees and frames.
func killPut(s *Store) {
	var say sync.Mutex
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				text := killText(n, i)
				seq, err := s.Update(background, "child", func(tx *Tx) error {
					if _, err := tx.PutTree(grow(id.B3, map[string]string{"f": text, "d/g": text})); err != nil {
						return err
					}
					_, err := tx.PutFrame(NewFrame{Path: "f", Type: "note", Agent: "writer", Origin: Authored, Text: []byte(text)})
					return err
				})
				must(err)
				say.Lock()
				fmt.Println(seq, n, i)
				say.Unlock()
			}
		})
	}
	writers.Wait()
}

func checkPut(t *testing.T, s *Store, lines []string) {
	for _, line := range lines {
		var seq uint64
		var n, i int
		if _, err := fmt.Sscan(line, &seq, &n, &i); err != nil {
			continue // it was killed while it printed
		}
		text := killText(n, i)
		require.Equal(t, ids(grow(id.B3, map[string]string{"f": text, "d/g": text})), treeAt(t, s, seq))
		require.NoError(t, s.View(background, seq, func(v *Snapshot) error {
			h, err := v.Head(background, "f", "note")
			if err != nil {
				return err
			}
			got, err := v.Content(background, h.Frame.Content)
			assert.Equal(t, text, string(got))
			return err
		}))
	}
}

// killScan commits trees and keeps their stat caches.
func killScan(s *Store) {
	for i := 0; ; i++ {
		tr := grow(id.B3, map[string]string{"f": killText(0, i), fmt.Sprint("d/", i%3): "x"})
		seq, err := s.Update(background, "scan", func(tx *Tx) error { return second(tx.PutTree(tr)) })
		must(err)
		fmt.Println(seq, i)
		must(s.SaveCache(&scan.Result{Tree: tr, Complete: true}))
	}
}

func checkScan(t *testing.T, s *Store, lines []string) {
	for _, line := range lines {
		var seq uint64
		var i int
		if _, err := fmt.Sscan(line, &seq, &i); err == nil {
			require.Equal(t, ids(grow(id.B3, map[string]string{"f": killText(0, i), fmt.Sprint("d/", i%3): "x"})), treeAt(t, s, seq))
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, cacheFile)); err == nil {
		require.NotNil(t, s.LoadCache(), "it is replaced as a whole")
	}
}

func prepareCompact(t *testing.T, dir string) {
	s := open(t, dir)
	putTree(t, s.Store, grow(id.B3, map[string]string{"kept": "1", "purged": "1"}))
	require.NoError(t, s.Close())
}

// killCompact puts frames on two paths, and deletes, compacts and restores one of
// them.
func killCompact(s *Store) {
	for i := 0; ; i++ {
		for _, path := range []string{"kept", "purged"} {
			_, err := s.Update(background, "child", func(tx *Tx) error {
				_, err := tx.PutFrame(NewFrame{Path: path, Type: "note", Agent: "writer", Origin: Authored, Text: []byte(path + killText(os.Getpid(), i))})
				return err
			})
			must(err)
			fmt.Println(path, os.Getpid(), i)
		}
		if i%2 == 0 {
			continue
		}
		_, err := s.Update(background, "child", func(tx *Tx) error { return second(tx.Delete("purged")) })
		must(err)
		_, err = s.Compact(background, "child", Compaction{})
		must(err)
		fmt.Println("compacted", os.Getpid(), i)
		_, err = s.Update(background, "child", func(tx *Tx) error { return second(tx.Restore("purged")) })
		must(err)
	}
}

func checkCompact(t *testing.T, s *Store, lines []string) {
	remove(t, s, "purged", true)
	compact(t, s, Compaction{}) // the same request completes
	texts := map[string]bool{}
	for _, text := range allFrames(t, s) {
		require.False(t, strings.HasPrefix(text, "purged"))
		texts[text] = true
	}
	for _, line := range lines {
		var what string
		var pid, i int
		if _, err := fmt.Sscan(line, &what, &pid, &i); err == nil && what == "kept" {
			require.True(t, texts["kept"+killText(pid, i)], line)
		}
	}
	update(t, s, func(tx *Tx) error { return second(tx.Restore("")) })
}

// importFile is where the export lies that is imported: beside the store.
func importFile(dir string) string { return filepath.Join(filepath.Dir(dir), "export") }

func prepareImport(t *testing.T, dir string) {
	from := open(t, createAs(t, id.B3, "from"))
	putTree(t, from.Store, grow(id.B3, map[string]string{"a": "1"}))
	for i := range 40 {
		mustPut(t, from.Store, "a", fmt.Sprint("t", i), killText(0, i))
	}
	data, e := export(t, from.Store, ExportRange{History: true})
	require.Equal(t, 40, e.Frames)
	require.NoError(t, os.WriteFile(importFile(dir), data, 0o600))
	s := open(t, dir)
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	require.NoError(t, s.Close())
}

func killImport(s *Store) {
	data, err := os.ReadFile(importFile(s.dir))
	must(err)
	b, err := ReadExport(bytes.NewReader(data))
	must(err)
	_, err = s.Update(background, "child", func(tx *Tx) error { return second(tx.Import(b, ConflictFail)) })
	must(err)
	fmt.Println("imported")
}

func checkImport(t *testing.T, s *Store, lines []string) {
	n := len(allFrames(t, s))
	require.Contains(t, []int{0, 40}, n, "all or nothing")
	if len(lines) > 0 {
		require.Equal(t, 40, n)
	}
	data, err := os.ReadFile(importFile(s.dir))
	require.NoError(t, err)
	done, _, err := importInto(t, s, data, ConflictFail)
	require.NoError(t, err)
	require.Equal(t, 40, done.Imported+done.Existing)
}

// prepareRepair makes a store with a damaged log, seal and identity.
func prepareRepair(t *testing.T, dir string) {
	s := open(t, dir, func(o *Options) { o.SegmentSize = 4000 })
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	for i := range 20 {
		mustPut(t, s.Store, "a", "note", killText(0, i))
	}
	require.NoError(t, s.Close())
	path := filepath.Join(dir, logDir, log.SegmentName(2))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, identityFile), []byte("damaged"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "damaged"), b, 0o600)) // for the check
}

func checkRepair(t *testing.T, s *Store, _ []string) {
	b, err := os.ReadFile(filepath.Join(s.dir, "damaged"))
	require.NoError(t, err)
	kept := quarantined(t, s.dir)
	require.Contains(t, kept, string(b), "nothing is discarded")
	require.Contains(t, kept, "damaged")
	require.GreaterOrEqual(t, len(allFrames(t, s)), 18, "a flipped byte costs at most two transactions")
}
