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

// unanswering lists the blocks that do not affect answers. A change in them keeps the answers in
// the cache valid.
var unanswering = map[string]bool{
	"ferment": true, "log": true, "http": true, "store": true, "queue": true, "cache": true,
	"telemetry": true,
	// The effects of a session and of a budget on an answer are part of the request.
	"session": true, "budget": true,
}

// answers sets the hash of everything that affects answers: all other blocks, and the programs,
// files and secrets of plugins.
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
