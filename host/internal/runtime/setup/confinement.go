package setup

import (
	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Confinement returns the confinement of a plugin's processes on this machine;
// nil if the plugin was not described.
func (l *Loaded) Confinement(p plugins.Plugin) *plugin.Confinement {
	if !p.Described {
		return nil
	}
	c := Settings(p).Confinement(p.Description)
	return &c
}

// ConfinementValue returns a confinement as an EDN map; the EDN nil for nil.
func ConfinementValue(c *plugin.Confinement) edn.Value {
	if c == nil {
		return edn.Nil()
	}
	var weak, gaps, lacks []edn.Value
	for _, w := range c.Weaknesses {
		weak = append(weak, edn.MustMap(edn.K("name"), edn.K(w.Name), edn.K("text"), edn.Text(w.Text)))
	}
	for _, g := range c.Gaps {
		gaps = append(gaps, edn.MustMap(edn.K("layer"), edn.K(string(g.Layer)), edn.K("text"), edn.Text(g.Text)))
	}
	for _, u := range c.Ungranted {
		lacks = append(lacks, edn.MustMap(edn.K("need"), edn.K(u.Need), edn.K("line"), edn.Text(u.Line)))
	}
	if c.Unheld.Any() {
		gaps = append(gaps, edn.MustMap(edn.K("layer"), edn.K("enforcement"), edn.K("text"), edn.Text(c.Unheld.Text())))
	}
	if len(c.Unmade) > 0 {
		gaps = append(gaps, edn.MustMap(edn.K("layer"), edn.K("files"), edn.K("text"), edn.Text(c.UnmadeText())))
	}
	return edn.MustMap(
		edn.K("level"), edn.K(string(c.Level)),
		edn.K("written?"), edn.Bool(c.Written),
		edn.K("best-effort?"), edn.Bool(c.BestEffort),
		edn.K("enforcement"), edn.K(c.Enforcement),
		edn.K("needs"), edn.Keywords(c.Needs...),
		edn.K("weaknesses"), edn.Vector(weak...),
		edn.K("gaps"), edn.Vector(gaps...),
		edn.K("ungranted"), edn.Vector(lacks...),
	)
}
