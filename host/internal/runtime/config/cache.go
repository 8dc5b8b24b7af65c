package config

import (
	"strings"

	"github.com/fermenthq/ferment/host/internal/orchestration/cache"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Cache holds the settings of the cache of answers.
type Cache struct {
	Enabled bool
	cache.Settings
}

func (l *loader) cache() {
	s := l.Root.Block("cache")
	l.config.Cache = Cache{s.Flag("enabled"), cache.Settings{
		TTL:        s.Duration("ttl"),
		MaxEntries: s.Integer("max_entries"),
		MaxBytes:   int64(s.Integer("max_bytes")),
	}}
}

// unanswering are the blocks that decide about no answer: a change of them keeps the
// answers in the cache.
var unanswering = map[string]bool{
	"ferment": true, "log": true, "http": true, "store": true, "queue": true, "cache": true,
	"telemetry": true,
	// What a session binds is in the request, and so is what a budget leaves of it.
	"session": true, "budget": true,
}

// answers sets the hash of what decides about answers: all other blocks, and the
// programs, files and secrets of plugins.
func (l *loader) answers() {
	var parts []edn.Value
	for _, s := range l.Root.Blocks {
		if name := s.Node.Spec.Name; !unanswering[name] && !s.Node.Spec.Open {
			parts = append(parts, edn.Vector(edn.Text(name), edn.Text(strings.Join(s.Node.Labels, " ")), l.config.BlockValue(s)))
		}
	}
	for i := range l.config.Plugins {
		parts = append(parts, edn.Text(l.config.Plugins[i].Key()))
	}
	l.config.Answers = edn.Hash(edn.SetOf(parts...))
}
