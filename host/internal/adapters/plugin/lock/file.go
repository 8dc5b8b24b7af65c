package lock

import (
	"cmp"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// Format is the version of the file format. A file with a newer version is rejected.
const Format = 1

// Limits on a lock file.
const (
	MaxBytes        = 512 << 10
	MaxTokens       = 200_000
	MaxPlugins      = 256
	MaxPlatforms    = 64  // of one plugin
	MaxFiles        = 256 // of one plugin
	MaxCapabilities = 4096
	MaxText         = 4096 // bytes of one text
	MaxMembers      = 1024 // of one list
)

// File is the content of a lock file. The zero value is empty.
type File struct {
	// Plugins are the entries, sorted by name.
	Plugins []Plugin
}

// Plugin is the entry of one plugin block.
type Plugin struct {
	Name     string // label of the plugin block
	Version  string
	Protocol string
	// Needs are the approved process needs, sorted.
	Needs []string
	// Ports are the approved TCP ports of the network needs, sorted; empty if the plugin declares
	// none.
	Ports []uint16
	// Binaries are the hashes of the program, sorted by platform.
	Binaries []Binary
	// Files are the hashes of the interpreted files, sorted by path.
	Files []Hashed
	// Capabilities are the advertised capabilities, sorted by advertised id.
	Capabilities []Capability
}

// Binary is the hash of the program for one platform.
type Binary struct {
	Platform string // "linux/amd64"
	Hash     string // "b3:" and 64 hexadecimal digits
}

// Hashed is the hash of one file. Path is relative to the root of the
// configuration, with slashes.
type Hashed struct {
	Path string
	Hash string
}

// Capability holds the approved effects and intents of one capability.
type Capability struct {
	ID      string
	Effects []string // sorted
	Intents []string // sorted
}

// Platform returns the platform of this program, such as linux/amd64.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

var (
	hashForm     = regexp.MustCompile(`^b3:[0-9a-f]{64}$`)
	platformForm = regexp.MustCompile(`^[a-z0-9]{1,32}/[a-z0-9_]{1,32}$`)
	nameForm     = regexp.MustCompile(`^[a-z0-9][a-z0-9._+-]{0,63}$`)
	wordForm     = regexp.MustCompile(`^[a-z][a-z0-9.-]*/[a-z0-9*][a-z0-9.+*?!_-]*$`)
)

// ValidPlatform reports whether s names a platform, such as linux/arm64.
func ValidPlatform(s string) bool { return platformForm.MatchString(s) }

// Plugin returns the entry with that name; false if there is none. The entries must be sorted, as
// by NewFile.
func (f File) Plugin(name string) (Plugin, bool) {
	i, ok := slices.BinarySearchFunc(f.Plugins, name, func(p Plugin, name string) int { return cmp.Compare(p.Name, name) })
	if !ok {
		return Plugin{}, false
	}
	return f.Plugins[i], true
}

// With returns a copy of the file in which p is added, or replaces the entry of the same name.
func (f File) With(p Plugin) File {
	kept := slices.DeleteFunc(slices.Clone(f.Plugins), func(x Plugin) bool { return x.Name == p.Name })
	return NewFile(append(kept, p)...)
}

// NewFile returns a file with the entries sorted and normalized. If several entries have the same
// name, the last one is kept.
func NewFile(plugins ...Plugin) File {
	byName := map[string]Plugin{}
	for _, p := range plugins {
		byName[p.Name] = p.normal()
	}
	f := File{Plugins: make([]Plugin, 0, len(byName))}
	for _, p := range byName {
		f.Plugins = append(f.Plugins, p)
	}
	slices.SortFunc(f.Plugins, func(a, b Plugin) int { return cmp.Compare(a.Name, b.Name) })
	return f
}

// Binary returns the hash of the program for a platform; false if there is none.
func (p Plugin) Binary(platform string) (string, bool) {
	for _, b := range p.Binaries {
		if b.Platform == platform {
			return b.Hash, true
		}
	}
	return "", false
}

// WithBinary returns a copy of the entry in which the hash for a platform is added or replaced.
func (p Plugin) WithBinary(platform, hash string) Plugin {
	kept := slices.DeleteFunc(slices.Clone(p.Binaries), func(b Binary) bool { return b.Platform == platform })
	p.Binaries = append(kept, Binary{platform, hash})
	return p.normal()
}

// Capability returns the approved capability with an advertised id; false if there is none.
func (p Plugin) Capability(id string) (Capability, bool) {
	for _, c := range p.Capabilities {
		if c.ID == id {
			return c, true
		}
	}
	return Capability{}, false
}

// normal returns the entry with sorted lists.
func (p Plugin) normal() Plugin {
	p.Needs = sorted(p.Needs)
	p.Ports = slices.Compact(slices.Sorted(slices.Values(p.Ports)))
	p.Binaries = slices.SortedStableFunc(slices.Values(p.Binaries),
		func(a, b Binary) int { return cmp.Compare(a.Platform, b.Platform) })
	p.Files = slices.SortedStableFunc(slices.Values(p.Files), func(a, b Hashed) int { return cmp.Compare(a.Path, b.Path) })
	p.Capabilities = slices.SortedStableFunc(slices.Values(p.Capabilities),
		func(a, b Capability) int { return cmp.Compare(a.ID, b.ID) })
	for i, c := range p.Capabilities {
		p.Capabilities[i].Effects, p.Capabilities[i].Intents = sorted(c.Effects), sorted(c.Intents)
	}
	return p
}

func sorted(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// listed formats a list for messages.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
