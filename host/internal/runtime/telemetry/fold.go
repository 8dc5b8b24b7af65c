package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Of equal lines, foldAbove are written per foldWindow, and then one line with the number of the
// others (TEL-001).
const (
	foldAbove  = 10
	foldWindow = time.Second
)

// varying lists the fields that are ignored when lines are compared, because they differ between
// occurrences of the same event.
var varying = []string{keyTime, "calls", "generation", "node", "pid", "run", "span", "took", "trace"}

// folder writes JSON lines and folds equal lines that repeat too fast. Audit lines are never
// folded.
type folder struct {
	mu     sync.Mutex
	out    io.Writer
	levels *Levels
	bursts map[string]*burst // by key, during their window
}

// burst counts equal lines in one window.
type burst struct {
	written int
	held    int    // number of lines that were not written
	last    []byte // the last line that was not written
	end     *time.Timer
}

// Write implements io.Writer. It must be called with one line.
func (f *folder) Write(written []byte) (int, error) {
	line := hide(written)
	key, ok, shown := f.read(line)
	if !shown {
		return len(written), nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !ok {
		return len(written), f.write(line)
	}
	b := f.bursts[key]
	if b == nil {
		b = &burst{}
		f.bursts[key] = b
		b.end = time.AfterFunc(foldWindow, func() { f.expire(key, b) })
	}
	if b.written == foldAbove {
		b.held++
		b.last = append(b.last[:0], line...)
		return len(written), nil
	}
	b.written++
	return len(written), f.write(line)
}

func (f *folder) write(line []byte) error {
	_, err := f.out.Write(line)
	return err
}

// expire ends the window of a burst.
func (f *folder) expire(key string, b *burst) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bursts[key] != b {
		return // flush has ended the window
	}
	delete(f.bursts, key)
	f.count(b)
}

// count writes the last held line with the number of held lines, if there are any. The caller holds
// mu.
func (f *folder) count(b *burst) {
	if b.held == 0 {
		return
	}
	line := append(bytes.TrimSuffix(bytes.TrimSpace(b.last), []byte("}")), `,"repeated":`...)
	line = append(strconv.AppendInt(line, int64(b.held), 10), "}\n"...)
	_, _ = f.out.Write(line) // a line that cannot be written is lost
}

// flush ends all windows and writes their counts.
func (f *folder) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, b := range f.bursts {
		b.end.Stop()
		delete(f.bursts, key)
		f.count(b)
	}
}

// read returns the key that equal lines share. ok is false for a line that must not be folded;
// shown is false for a line below the level of its module. Audit lines are always shown.
func (f *folder) read(line []byte) (key string, ok, shown bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil || strings.HasSuffix(string(fields[keyModule]), `.audit"`) {
		return "", false, true
	}
	var name, level string
	_ = json.Unmarshal(fields[keyModule], &name) // written by hclog, so always valid
	_ = json.Unmarshal(fields[keyLevel], &level)
	if !f.levels.shows(name, level) {
		return "", false, false
	}
	for _, name := range varying {
		delete(fields, name)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		b.WriteString(name + "\x00" + string(fields[name]) + "\x00")
	}
	return b.String(), true, true
}
