package config

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// equip passes the settings of the effects block to the tools plugin.
func (r *reader) equip(is contract.Description, p *Plugin) {
	if is.Name != ToolsPlugin || p.Config.Kind() != edn.KindMap {
		return
	}
	s := r.root.block("effects")
	p.Config = p.Config.AssocKey("enforcement", edn.K(s.text("enforcement")))
	var secrets edn.MapBuilder
	for _, x := range s.all("secret") {
		hosts, _ := x.texts("hosts")
		var m edn.MapBuilder
		m.Key("hosts", textVector(hosts))
		if h := x.text("header"); h != "" {
			m.Key("header", edn.Text(h))
		}
		m.Key("value", edn.Nil())
		secrets.Set(edn.Text(x.label()), m.Map())
		if v := x.attrs["value"]; v.secret != nil {
			p.Secrets = append(p.Secrets,
				SecretAt{Path: []edn.Value{edn.K("secrets"), edn.Text(x.label()), edn.K("value")}, Secret: *v.secret,
					At: v.rng, needed: true})
		}
	}
	p.Config = p.Config.AssocKey("secrets", secrets.Map())
}

func textVector(list []string) edn.Value {
	vs := make([]edn.Value, len(list))
	for i, s := range list {
		vs[i] = edn.Text(s)
	}
	return edn.Vector(vs...)
}

// ToolsPlugin is the name of the plugin of the effect tools. It enforces the scope
// of each call.
const ToolsPlugin = "tools"
