package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HTTP-007: a full data directory makes the daemon not ready, with a line in
// the log for each change of state.
func TestFullDataDirectory(t *testing.T) {
	var log bytes.Buffer
	d := &Daemon{phase: phaseStarting}
	d.log, d.dir = hclog.New(&hclog.LoggerOptions{Output: &log}), &dataDir{path: t.TempDir()}
	for _, step := range []struct {
		free  uint64
		full  bool
		lines int
	}{
		{10 << 30, false, 0},
		{LittleSpace - 1, false, 1},
		{LittleSpace + 1, false, 0}, // not twice the limit
		{0, true, 1},
		{0, true, 0},
		{minSpace, true, 0}, // not twice the limit
		{2 * minSpace, false, 1},
		{2 * LittleSpace, false, 1},
	} {
		log.Reset()
		d.free = func(string) (uint64, error) { return step.free, nil }
		d.measureSpace()
		c := d.spaceCondition()
		assert.Equal(t, "space", c.Name)
		assert.Equal(t, !step.full, c.OK, "%d bytes", step.free)
		assert.Equal(t, step.full, !c.Since.IsZero(), "%d bytes", step.free)
		assert.Equal(t, step.lines, bytes.Count(log.Bytes(), []byte("\n")), "%d bytes: %s", step.free, log.String())
	}
	names := []string{}
	for _, c := range d.Ready().Conditions {
		names = append(names, c.Name)
	}
	assert.Contains(t, names, "space")
}

// HTTP-007: the condition of a journal without space has the time since when.
func TestJournalConditionSince(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	s, err := store.Open(t.Context(), store.Options{
		Path:   filepath.Join(t.TempDir(), "ferment.db"),
		Now:    func() time.Time { return at },
		Limits: store.Limits{MinFree: 512 << 20},
		NoSync: true,
		Faults: store.Faults{Free: func() (uint64, error) { return 0, nil }},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	c := (&Daemon{store: s}).journalCondition()
	assert.False(t, c.OK)
	assert.Equal(t, at, c.Since)
	assert.True(t, (&Daemon{}).journalCondition().OK)
}

// JRN-006: the log has one line when records of the audit trail begin to wait for space, and
// one when the first of them is dropped.
func TestDroppedRecordsAreLogged(t *testing.T) {
	var log bytes.Buffer
	var free atomic.Uint64
	s, err := store.Open(t.Context(), store.Options{
		Path:   filepath.Join(t.TempDir(), "ferment.db"),
		Limits: store.Limits{MinFree: 512 << 20},
		NoSync: true,
		Faults: store.Faults{Free: func() (uint64, error) { return free.Load(), nil }},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	d := &Daemon{log: hclog.New(&hclog.LoggerOptions{Output: &log}), life: t.Context(), store: s}
	d.host.Store(&Host{events: s.HostStream()})
	lines := func(records int) int {
		log.Reset()
		for range records {
			d.record(&journal.HostEvent{Event: "config/reloaded", Details: edn.MustMap()}, true)
		}
		return strings.Count(log.String(), "\n")
	}
	assert.Equal(t, 1, lines(2), log.String())
	waiting := 2
	for {
		found := lines(1)
		if _, lost := s.Waiting(); lost > 0 {
			assert.Equal(t, 1, found)
			break
		}
		require.Zero(t, found)
		waiting++
	}
	assert.Contains(t, log.String(), "dropped")
	assert.Contains(t, log.String(), fmt.Sprintf("waiting=%d", waiting))
	assert.Zero(t, lines(3))
}

// An error of the free space measurement does not make the daemon unready; a
// real file system reports its free space.
func TestFreeSpace(t *testing.T) {
	free, err := FreeSpace(t.TempDir())
	if assert.NoError(t, err) {
		assert.NotZero(t, free)
	}
	d := &Daemon{free: func(string) (uint64, error) { return 0, assert.AnError }, dir: &dataDir{}}
	d.measureSpace()
	assert.True(t, d.spaceCondition().OK)
}

// OPS-002: a dangling link is named and rejected, and its target is not
// created.
func TestDataDirBehindADanglingLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("nowhere", link))
	for _, path := range []string{link, filepath.Join(link, "var")} {
		_, err := openDataDir(path, "boot")
		var refused *DirectoryError
		require.ErrorAs(t, err, &refused, path)
		assert.Equal(t, ExitConfig, ExitCode(err))
		assert.Contains(t, err.Error(), link)
		assert.NoFileExists(t, filepath.Join(dir, "nowhere"))
		assert.NoDirExists(t, filepath.Join(dir, "nowhere"))
	}
}

// OPS-002: a link to itself is rejected, and not called a dangling link.
func TestDataDirBehindALoop(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("link", link))
	_, err := openDataDir(filepath.Join(link, "var"), "boot")
	var refused *DirectoryError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, ExitConfig, ExitCode(err))
	assert.NotContains(t, err.Error(), "does not exist")
}

// OPS-001: a finding in the log has its place and its next step.
func TestFindingsInTheLog(t *testing.T) {
	report := edn.MustRead(`{:diagnostics [
		{:message "no such intent" :range {:file "ferment.hcl" :line 3 :column 5} :hint "name another"}
		{:message "cannot be read" :range {:file "ferment.hcl" :line 0 :column 0}}
		{:message "two roots"}]}`)
	assert.Equal(t, []string{
		"ferment.hcl:3:5: no such intent; next: name another",
		"ferment.hcl: cannot be read",
		"two roots",
	}, Findings(report))
}

// HTTP-009: the log line of a reload lists each change, up to a limit.
func TestChangeLines(t *testing.T) {
	change := edn.MustRead(`{:path ["plugin" "b" "drain_timeout"] :change :changed :action :update :before 1 :after {:a "x"}}`)
	assert.Equal(t, []string{"update plugin.b.drain_timeout: 1 -> {:a \"x\"}"}, changeLines(edn.Vector(change)))
	long := change.AssocKey("after", edn.Text(strings.Repeat("x", maxChangeValues)))
	assert.Equal(t, []string{"update plugin.b.drain_timeout"}, changeLines(edn.Vector(long)))
	many := slices.Repeat([]edn.Value{change}, maxChangeLines+3)
	lines := changeLines(edn.Vector(many...))
	require.Len(t, lines, maxChangeLines+1)
	assert.Contains(t, lines[maxChangeLines], "3")
}

// OPS-002: a data directory that the host creates is ignored by a repository around it. In an
// existing one the host writes no .gitignore.
func TestNewDataDirIsIgnored(t *testing.T) {
	fresh, given := filepath.Join(t.TempDir(), "a", "var"), t.TempDir()
	require.NoError(t, os.Chmod(given, 0o700))
	for _, path := range []string{fresh, given} {
		d, err := openDataDir(path, "boot")
		require.NoError(t, err)
		d.close()
	}
	text, err := os.ReadFile(filepath.Join(fresh, ".gitignore"))
	require.NoError(t, err)
	assert.Equal(t, "*\n", string(text))
	assert.NoFileExists(t, filepath.Join(given, ".gitignore"))
}

// CLI-003: a token file that cannot be read or written for the moment counts
// as present.
func TestTokenIsKept(t *testing.T) {
	d, err := openDataDir(filepath.Join(t.TempDir(), "var"), "boot")
	require.NoError(t, err)
	defer d.close()
	require.NoError(t, d.prepareRun())
	path := AdminTokenFile(d.path)
	require.True(t, d.tokenPresent())
	// A name that is too long stands for any error except a missing file.
	long := &dataDir{path: strings.Repeat("x", 5000), token: d.token}
	assert.True(t, long.tokenPresent())
	require.NoError(t, os.WriteFile(path, []byte("other"), 0o600))
	assert.False(t, d.tokenPresent())
	require.NoError(t, d.prepareRun())
	assert.True(t, d.tokenPresent())
	require.NoError(t, os.Remove(path))
	assert.False(t, d.tokenPresent())
}

// RUN-016: a start that fails after a crash leaves its sign, and one that has resumed the
// runs removes it.
func TestFailedStartDoesNotHideACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "var")
	open := func() *dataDir {
		d, err := openDataDir(path, "boot")
		require.NoError(t, err)
		require.NoError(t, d.prepareRun())
		return d
	}
	d := open()
	assert.False(t, d.crashed)
	d.close()
	d = open()
	assert.False(t, d.crashed, "a start that fails without a crash before it is not one")
	require.NoError(t, d.lock.Close()) // as the end of the process does
	for range 2 {
		d = open()
		assert.True(t, d.crashed)
		d.close()
	}
	d = open()
	d.crashed = false
	d.close()
	d = open()
	assert.False(t, d.crashed)
	d.close()
}

// OPS-002: a daemon that starts while a command works on the files waits for it, and
// does not wait for another daemon.
func TestDaemonAwaitsCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "var")
	command, err := lockDataDir(t.Context(), path)
	require.NoError(t, err)
	time.AfterFunc(100*time.Millisecond, command.close)
	d, err := openDataDir(path, "boot")
	require.NoError(t, err)
	defer d.close()
	begun := time.Now()
	_, err = openDataDir(path, "other")
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	assert.Equal(t, "boot", locked.Boot)
	assert.Less(t, time.Since(begun), lockWait)
}
