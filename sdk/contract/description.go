package contract

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Needs returns the needs that a plugin can declare for its process, sorted.
func Needs() []string { return slices.Clone(needNames) }

var needNames = []string{"fs/read", "fs/watch", "fs/write", "net/connect", "net/loopback", "process/run", "process/self"}

// Description is the self-description of a plugin.
type Description struct {
	Name, Version string
	Capabilities  []Capability
	// Schemas are the schemas that the plugin defines, by name.
	Schemas map[string]edn.Value
	// ConfigSchema is a map of :config/v and :config/schema, nil if the plugin
	// accepts no configuration.
	ConfigSchema edn.Value
	// Needs are needs of the process beyond the effects of its capabilities.
	Needs []string
	// Ports are the TCP ports of its network needs, sorted; empty if not
	// stated.
	Ports []uint16
	// Features are the optional parts of the protocol that it implements.
	Features []string
	// Limits is a map of the limits of the process, nil if not stated.
	Limits edn.Value
}

// MaxDescription is the maximum size of the canonical EDN of a description, in bytes.
const MaxDescription = 1 << 20

// ParseDescription reads the description of a plugin. Unknown keys are ignored,
// so that newer plugins work, but are rejected inside the metadata of a
// capability. The error is an [*Error] of type capability/invalid-metadata that
// lists every missing and every invalid field of all capabilities.
func ParseDescription(v edn.Value) (Description, error) {
	var m metadata
	s := site{metadata: &m, v: v}
	if v.Kind() != edn.KindMap {
		s.wrong(edn.Value{}, "is not a map", kMap, v)
		return Description{}, m.err("a plugin")
	}
	d := Description{
		Name:         s.text("plugin/name", ""),
		Version:      s.text("plugin/version", defaultVersion),
		Schemas:      s.schemas(),
		ConfigSchema: s.config(),
		Needs:        s.names("plugin/needs", needNames, []string{}),
		Ports:        s.ports(),
		Features:     s.features(),
	}
	if len(d.Ports) > 0 && !slices.Contains(d.Needs, "net/connect") && !slices.Contains(d.Needs, "net/loopback") {
		s.wrong(kPorts, "has ports, and no need is about a network", edn.Value{}, v.Key("plugin/ports"))
	}
	if !v.HasKey("plugin/name") {
		s.miss("plugin/name")
	}
	if limits, found := s.inner("limits"); found {
		d.Limits = limits.v
	}
	d.Capabilities = s.capabilities()
	if err := m.err(fmt.Sprintf("plugin %q", d.Name)); err != nil {
		return Description{}, err
	}
	return d, nil
}

func (s site) capabilities() []Capability {
	key := edn.K("capabilities")
	v, found := s.v.Get(key)
	if !found {
		s.miss("capabilities")
		return nil
	}
	if v.Kind() != edn.KindVector && v.Kind() != edn.KindList {
		s.wrong(key, "is not a vector of capabilities", edn.Vector(edn.K("vector"), kMap), v)
		return nil
	}
	var all []Capability
	seen := make(map[string]bool)
	for i, form := range v.All() {
		at := append(s.path(key), i)
		c := s.capability(form, at)
		if seen[c.ID] && c.ID != "" {
			site{metadata: s.metadata, at: at}.wrong(kCapID, "is the id of an earlier capability", edn.Value{}, edn.K(c.ID))
		}
		seen[c.ID] = true
		all = append(all, c)
	}
	return all
}

func (s site) schemas() map[string]edn.Value {
	in, found := s.inner("schemas")
	if !found {
		return nil
	}
	all := make(map[string]edn.Value, in.v.Len())
	for key, spec := range in.v.Entries() {
		name, ok := key.AsKeyword()
		if !ok {
			in.wrong(edn.Value{}, "has a name that is not a keyword", kKeyword, key)
			continue
		}
		all[name] = spec
	}
	return all
}

func (s site) config() edn.Value {
	in, found := s.inner("config")
	if !found {
		return edn.Nil()
	}
	if n, _ := in.v.Key("config/v").AsInt(); n != 1 {
		in.wrong(edn.K("config/v"), "is not a supported version", edn.Int(1), in.v.Key("config/v"))
	}
	if in.v.Key("config/schema").IsNil() {
		in.miss("config/schema")
	}
	return in.v
}

var kPorts = edn.K("plugin/ports")

// ports reads the ports of the network needs.
func (s site) ports() []uint16 {
	v, found := s.v.Get(kPorts)
	if !found {
		return nil
	}
	form := edn.Vector(edn.K("set"),
		edn.Vector(edn.K("int"), edn.MustMap(edn.K("min"), edn.Int(1), edn.K("max"), edn.Int(65535))))
	if !isColl(v) {
		s.wrong(kPorts, "is not a set of ports", form, v)
		return nil
	}
	var ports []uint16
	for member := range v.Elems() {
		n, ok := member.AsInt()
		if !ok || n < 1 || n > 65535 {
			s.wrong(kPorts, "has a member that is not a port", form, member)
			continue
		}
		ports = append(ports, uint16(n))
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// features reads a collection of strings or keywords.
func (s site) features() []string {
	key := edn.K("features")
	v, found := s.v.Get(key)
	if !found {
		return nil
	}
	var names []string
	for member := range v.Elems() {
		name, ok := member.AsString()
		if !ok {
			name, ok = member.AsKeyword()
		}
		if !ok {
			s.wrong(key, "has a feature that is not a string", kString, member)
			continue
		}
		names = append(names, name)
	}
	if !isColl(v) {
		s.wrong(key, "is not a set of strings", edn.Vector(edn.K("set"), kString), v)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Value returns the description as a map.
func (d Description) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("plugin/name", edn.Text(d.Name))
	b.Key("plugin/version", edn.Text(d.Version))
	capabilities := make([]edn.Value, len(d.Capabilities))
	for i, c := range d.Capabilities {
		capabilities[i] = c.Value()
	}
	b.Key("capabilities", edn.Vector(capabilities...))
	if len(d.Schemas) > 0 {
		var schemas edn.MapBuilder
		for name, spec := range d.Schemas {
			schemas.Key(name, spec)
		}
		b.Key("schemas", schemas.Map())
	}
	b.Opt("config", d.ConfigSchema)
	if len(d.Needs) > 0 {
		b.Key("plugin/needs", edn.Keywords(d.Needs...))
	}
	if len(d.Ports) > 0 {
		ports := make([]edn.Value, len(d.Ports))
		for i, p := range d.Ports {
			ports[i] = edn.Int(int64(p))
		}
		b.Key("plugin/ports", edn.SetOf(ports...))
	}
	if len(d.Features) > 0 {
		features := make([]edn.Value, len(d.Features))
		for i, f := range d.Features {
			features[i] = edn.Text(f)
		}
		b.Key("features", edn.SetOf(features...))
	}
	b.Opt("limits", d.Limits)
	return b.Map()
}
