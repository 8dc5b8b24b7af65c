package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// errPower is what every operation returns once the power is gone.
var errPower = errors.New("the power is gone")

// fakeDisk knows what of a log is durable. When the power goes, it keeps that, and
// any part of what was written since, sector by sector; new and removed names
// that were not synchronized are there or not.
type fakeDisk struct {
	r       *rand.Rand
	dir     string            // of the log
	durable map[string]string // content of files when they were synchronized
	names   map[string]bool   // entries of the directory when it was
	left    int               // operations until the power goes
	image   map[string]string // the log then; nil as long as it is there
}

func newFakeDisk(r *rand.Rand, dir string, left int) *fakeDisk {
	d := &fakeDisk{r: r, dir: filepath.Join(dir, logDir), left: left, durable: map[string]string{}, names: map[string]bool{}}
	for name, text := range d.files() { // an earlier process left it
		d.durable[name], d.names[name] = text, true
	}
	return d
}

func (d *fakeDisk) files() map[string]string {
	all := map[string]string{}
	entries, _ := os.ReadDir(d.dir)
	for _, e := range entries {
		if b, err := os.ReadFile(filepath.Join(d.dir, e.Name())); err == nil {
			all[e.Name()] = string(b)
		}
	}
	return all
}

func (d *fakeDisk) faults() log.Faults {
	return log.Faults{
		Before: func(string) error {
			if d.image != nil {
				return errPower
			}
			if d.left--; d.left < 0 {
				d.image = d.afterLoss()
				return errPower
			}
			return nil
		},
		Synced: func(path string) {
			switch {
			case d.image != nil:
			case path == d.dir:
				d.names = map[string]bool{}
				for name := range d.files() {
					d.names[name] = true
				}
			case filepath.Dir(path) == d.dir:
				b, err := os.ReadFile(path)
				if err == nil {
					d.durable[filepath.Base(path)] = string(b)
				}
			}
		},
	}
}

// afterLoss returns what a disk can have after the loss.
func (d *fakeDisk) afterLoss() map[string]string {
	image, now := map[string]string{}, d.files()
	all := maps.Clone(now)
	maps.Copy(all, d.durable)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		current, there := now[name]
		if there != d.names[name] && d.r.IntN(2) == 0 {
			there = d.names[name] // the change of the directory is lost
		}
		if !there {
			continue
		}
		durable, written := d.durable[name], current
		if !strings.HasPrefix(written, durable) { // it was cut, or is gone
			image[name] = durable
			if d.r.IntN(2) == 0 && now[name] != "" {
				image[name] = current
			}
			continue
		}
		b := []byte(written)[:len(durable)+d.r.IntN(len(written)-len(durable)+1)]
		for at := len(durable); at < len(b); at += 64 {
			if d.r.IntN(3) == 0 {
				clear(b[at:min(at+64, len(b))])
			}
		}
		image[name] = string(b)
	}
	return image
}

// WS-043, WS-175, WS-173: loss of power at any operation of puts, scans,
// compactions and repairs. What was acknowledged is there, whatever part of the
// rest the disk kept, and in whatever state the derived files are; the store
// verifies and takes writes.
func TestPowerLoss(t *testing.T) {
	n, lost := proof.Size(t, "losses of power of a store", 12, 5000), 0
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 43))
		dir := create(t, id.B3)
		s := open(t, dir, func(o *Options) { o.SegmentSize = 3000 })
		putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "1"}))
		mustPut(t, s.Store, "b", "note", strings.Repeat("purged. ", 200))
		require.NoError(t, s.Close())
		disk := newFakeDisk(r, dir, r.IntN(60))
		acknowledged := workUntil(t, dir, disk)
		if disk.image == nil {
			continue // it was finished before
		}
		lost++
		logs := filepath.Join(dir, logDir)
		require.NoError(t, os.RemoveAll(logs))
		require.NoError(t, os.Mkdir(logs, 0o700))
		for name, text := range disk.image {
			require.NoError(t, os.WriteFile(filepath.Join(logs, name), []byte(text), 0o600))
		}
		looseDerived(t, dir, r)

		s = open(t, dir)
		require.Nil(t, s.Damage(), "seed %d", seed)
		texts := map[string]bool{}
		for _, text := range allFrames(t, s.Store) {
			texts[text] = true
		}
		for _, text := range acknowledged {
			require.True(t, texts[text], "seed %d: %.20s", seed, text)
		}
		update(t, s.Store, func(tx *Tx) error { return second(tx.Restore("")) })
		mustPut(t, s.Store, "a", "note", "goes on")
		require.NoError(t, s.Close())
		findings, err := verifyDir(dir)
		require.NoError(t, err)
		require.Empty(t, findings, "seed %d", seed)
	}
	require.Greater(t, lost, n/2, "most of them lose the power")
}

// workUntil writes and compacts until the power is gone, and returns the texts
// that were acknowledged and must be there.
func workUntil(t *testing.T, dir string, disk *fakeDisk) (acknowledged []string) {
	s, err := Open(background, dir, Options{Now: func() int64 { return 1 }, Unsynced: true, SegmentSize: 3000, Faults: disk.faults()})
	if err != nil {
		require.ErrorIs(t, err, errPower)
		return nil
	}
	defer func() { _ = s.Close() }()
	for i := range 12 {
		text := fmt.Sprint(i, bytes.Repeat([]byte("x"), 40*i))
		_, _, err := putFrame(t, s, "a", "note", text)
		if err == nil {
			acknowledged = append(acknowledged, text)
		}
		if err == nil && i%3 == 1 {
			_, err = s.Update(background, "t", func(tx *Tx) error {
				return errors.Join(second(tx.PutTree(grow(id.B3, map[string]string{"a": fmt.Sprint(i), "b": "1"}))), second(tx.Delete("b")))
			})
		}
		if err == nil && i%4 == 2 {
			_, err = s.Compact(background, "t", Compaction{})
		}
		if err == nil && i%4 == 3 {
			_, err = s.Update(background, "t", func(tx *Tx) error {
				if _, err := tx.Restore("b"); err != nil {
					return err
				}
				_, err := tx.PutFrame(NewFrame{Path: "b", Type: fmt.Sprint(i), Agent: "w", Origin: Authored, Text: bytes.Repeat([]byte("y"), 50*i)})
				return err
			})
		}
		if err != nil {
			return acknowledged
		}
	}
	return acknowledged
}

// looseDerived leaves derived files as they are, or as a loss of power can leave
// them.
func looseDerived(t *testing.T, dir string, r *rand.Rand) {
	require.NoError(t, os.RemoveAll(filepath.Join(dir, sealFile)))
	for _, name := range []string{indexFile, indexFile + "-wal", indexFile + "-shm"} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		switch r.IntN(3) {
		case 0:
			require.NoError(t, os.Remove(path))
		case 1:
			require.NoError(t, os.Truncate(path, r.Int64N(info.Size()+1)))
		}
	}
}

// WS-173: loss of power while a repair runs: the next repair has the same to work
// with, and the damaged segments are not lost.
func TestPowerLossDuringRepair(t *testing.T) {
	for seed := range proof.Size(t, "losses of power during repairs", 4, 1500) {
		r := rand.New(rand.NewPCG(uint64(seed), 173))
		dir := create(t, id.B3)
		prepareRepair(t, dir)
		before := allTexts(t, dir)
		disk := newFakeDisk(r, dir, r.IntN(25))
		o := testOptions
		o.Faults = disk.faults()
		if _, err := Repair(background, dir, o, true); err != nil {
			require.ErrorIs(t, err, errPower, "seed %d", seed)
		}
		if disk.image != nil {
			kept := quarantined(t, dir)
			require.NoError(t, os.RemoveAll(filepath.Join(dir, logDir)))
			require.NoError(t, os.Mkdir(filepath.Join(dir, logDir), 0o700))
			for name, text := range disk.image {
				require.NoError(t, os.WriteFile(filepath.Join(dir, logDir, name), []byte(text), 0o600))
				kept = append(kept, text)
			}
			looseDerived(t, dir, r)
			damaged, err := os.ReadFile(filepath.Join(dir, "damaged"))
			require.NoError(t, err)
			require.Contains(t, kept, string(damaged), "seed %d", seed)
			_, err = Repair(background, dir, testOptions, true)
			require.NoError(t, err, "seed %d", seed)
		}
		require.Subset(t, before, allTexts(t, dir))
		require.GreaterOrEqual(t, len(allTexts(t, dir)), 18, "seed %d", seed)
	}
}

// allTexts returns the texts of frames that verify in a log.
func allTexts(t *testing.T, dir string) (list []string) {
	_, err := log.Salvage(filepath.Join(dir, logDir), id.BLAKE3, func(t *log.Transaction) error {
		for _, r := range t.Records {
			if r.Kind == kindContent {
				list = append(list, string(r.Payload))
			}
		}
		return nil
	})
	require.NoError(t, err)
	return list
}
