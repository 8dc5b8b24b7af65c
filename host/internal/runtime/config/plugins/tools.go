package plugins

import (
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// equip adds the settings of the effects block to the configuration of the plugins of the effect
// tools.
func (r *Reader) equip(is contract.Description, p *Plugin) {
	if p.Config.Kind() != edn.KindMap {
		return
	}
	s := r.Root.Block("effects")
	switch is.Name {
	case DatabasePlugin:
		r.connect(s, p)
		return
	case ToolsPlugin:
	default:
		return
	}
	p.Config = p.Config.AssocKey("enforcement", edn.K(s.Text("enforcement")))
	var secrets edn.MapBuilder
	for _, x := range s.All("secret") {
		hosts, _ := x.Texts("hosts")
		var m edn.MapBuilder
		m.Key("hosts", textVector(hosts))
		if h := x.Text("header"); h != "" {
			m.Key("header", edn.Text(h))
		}
		m.Key("value", edn.Nil())
		secrets.Set(edn.Text(x.Label()), m.Map())
		if v := x.Attrs["value"]; v.Secret != nil {
			p.Secrets = append(p.Secrets,
				decode.SecretAt{Path: []edn.Value{edn.K("secrets"), edn.Text(x.Label()), edn.K("value")}, Secret: *v.Secret,
					At: v.At, Needed: true})
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

// ToolsPlugin is the name of the plugin of the effect tools. It enforces the scope of each call.
const ToolsPlugin = "tools"
