package telemetry

import (
	"maps"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// Levels holds the level of a log, and the levels of its modules that differ. They can be changed
// at any time. It is safe for concurrent use.
type Levels struct {
	log hclog.Logger

	mu   sync.RWMutex
	base string
	by   map[string]string
}

// Set replaces the level of the log and the levels of modules, which are names such as "info".
func (l *Levels) Set(base string, by map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base, l.by = base, maps.Clone(by)
	l.apply()
}

// SetModule changes the level of one module. With an empty module it changes the level of all
// modules without a level of their own.
func (l *Levels) SetModule(module, level string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if module == "" {
		l.base = level
	} else {
		by := maps.Clone(l.by)
		if by == nil {
			by = map[string]string{}
		}
		by[module] = level
		l.by = by
	}
	l.apply()
}

// Now returns the level of the log and the levels of modules. The map must not be modified.
func (l *Levels) Now() (base string, by map[string]string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.base, l.by
}

// apply sets the logger to the lowest level that any module needs. The caller holds mu.
func (l *Levels) apply() {
	lowest := hclog.LevelFromString(l.base)
	for _, level := range l.by {
		lowest = min(lowest, hclog.LevelFromString(level))
	}
	l.log.SetLevel(lowest)
}

// moduleOf returns the module in the name of a logger: "plugin" for "ferment.plugin.x", and "host"
// for "ferment".
func moduleOf(name string) string {
	_, below, ok := strings.Cut(name, ".")
	if !ok {
		return "host"
	}
	module, _, _ := strings.Cut(below, ".")
	return module
}

// shows reports whether a line of the named logger is written at a level.
func (l *Levels) shows(name, level string) bool {
	base, by := l.Now()
	if own, ok := by[moduleOf(name)]; ok {
		base = own
	}
	return hclog.LevelFromString(level) >= hclog.LevelFromString(base)
}
