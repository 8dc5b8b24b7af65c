package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each problem of a setting is reported at the setting and the entry that cause it.
func TestProblemsOfSettings(t *testing.T) {
	for want, change := range map[string]func(*settings){
		"[:boundaries 1]":          func(s *settings) { s.Boundaries = []string{"d", "../x"} },
		`[:view "v" :types 0]`:     func(s *settings) { s.Views["v"] = viewBlock{Types: []string{"bad type!"}} },
		`[:view "v" :agents 1]`:    func(s *settings) { s.Views["v"] = viewBlock{Agents: []string{"docs", "Bob Smith"}} },
		`[:view "v" :origins 0]`:   func(s *settings) { s.Views["v"] = viewBlock{Origins: []string{"made", "authored"}} },
		`[:view "v" :include]`:     func(s *settings) { s.Views["v"] = viewBlock{Include: []string{"gone"}} },
		`expected authored, extra`: func(s *settings) { s.Views["v"] = viewBlock{Types: []string{"x"}, Origins: []string{"made"}} },
	} {
		cfg := settings{AllowedRoots: []string{"/"}, Views: map[string]viewBlock{}}
		change(&cfg)
		assert.ErrorContains(t, checkSettings(cfg), want)
	}
	assert.NoError(t, checkSettings(settings{
		AllowedRoots: []string{"/"},
		Boundaries:   []string{"", "d/e"},
		Views: map[string]viewBlock{"v": {
			Types: []string{"note"}, Agents: []string{"gone"}, Origins: []string{"authored", "generated"}, Include: []string{"stale"},
		}},
	}))
}
