package daemon

import (
	"fmt"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// LittleSpace is the free space of a data directory in bytes below which a warning is logged; below
// minSpace the daemon is not ready.
const (
	LittleSpace = 512 << 20
	minSpace    = 4 << 20
)

// space is the free space of the data directory at the last measurement. The
// zero value means enough.
type space struct {
	level spaceLevel
	free  uint64 // bytes
	since time.Time
}

type spaceLevel int

const (
	spaceEnough spaceLevel = iota
	spaceLittle
	spaceNone
)

// levelOf returns the level for a number of free bytes. To return to a better level, twice its
// limit must be free, so that small changes do not make the level flap.
func levelOf(free uint64, before spaceLevel) spaceLevel {
	below := func(level spaceLevel, limit uint64) bool {
		if before >= level {
			limit *= 2
		}
		return free < limit
	}
	switch {
	case below(spaceNone, minSpace):
		return spaceNone
	case below(spaceLittle, LittleSpace):
		return spaceLittle
	}
	return spaceEnough
}

// measureSpace measures the free space of the data directory and logs a change of its level. If the
// measurement fails, the level does not change.
func (d *Daemon) measureSpace() {
	free, err := d.free(d.dir.path)
	if err != nil {
		return
	}
	before := d.space.Load()
	if before == nil {
		before = &space{}
	}
	now := &space{level: levelOf(free, before.level), free: free, since: before.since}
	defer d.space.Store(now)
	if now.level == before.level {
		return
	}
	now.since = time.Now()
	about := []any{"path", d.dir.path, "free", mebibytes(free)}
	switch now.level {
	case spaceNone:
		d.log.Error("the data directory is full: the daemon is not ready",
			append(about, "needed", mebibytes(minSpace), "next", "free space on its file system")...)
	case spaceLittle:
		d.log.Warn("the data directory has little space left", about...)
	default:
		d.log.Info("the data directory has enough space again", about...)
	}
}

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }

// spaceCondition returns the condition of the free space in the data directory (HTTP-007).
func (d *Daemon) spaceCondition() httpapi.Condition {
	c := httpapi.Condition{Name: "space", OK: true}
	if s := d.space.Load(); s != nil && s.level == spaceNone {
		c.OK, c.Since = false, s.since
		c.Why = fmt.Sprintf("the data directory is full: %s free, at least %s are needed", mebibytes(s.free),
			mebibytes(minSpace))
	}
	return c
}
