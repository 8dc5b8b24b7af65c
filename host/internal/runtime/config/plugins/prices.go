package plugins

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/pricelist"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ModelPrice is the price of one model block.
type ModelPrice struct {
	Plugin, Label, Model string
	// Price is the price block of the model, or the entry of the price list, which has :listed,
	// :source and :date.
	Price edn.Value
}

// Known reports whether the model has a price.
func (m ModelPrice) Known() bool {
	return m.Price.Key("free").Truthy() || !m.Price.Key("input").IsNil() && !m.Price.Key("output").IsNil()
}

// Listed reports whether the price comes from the price list.
func (m ModelPrice) Listed() bool { return m.Known() && !m.Price.Key("listed").IsNil() }

// written reports whether the model block sets a price.
func (m ModelPrice) written() bool {
	return m.Price.Key("free").Truthy() ||
		slices.ContainsFunc([]string{"input", "cached-input", "cache-write", "output"}, func(name string) bool {
			return !m.Price.Key(name).IsNil()
		})
}

// Missing returns the hint for a model without a price.
func (m ModelPrice) Missing() string {
	return fmt.Sprintf("write price { input = \"..\", output = \"..\" } or price { free = true } in the block model %s of plugin %s", diag.Quote(m.Label), diag.Quote(m.Plugin))
}

// From returns the source of the price: "unknown", "list" or "configuration".
func (m ModelPrice) From() string {
	switch {
	case !m.Known():
		return "unknown"
	case m.Listed():
		return "list"
	}
	return "configuration"
}

// Remark returns advice about a price that is unknown or older than pricelist.Stale; empty if there
// is none.
func (m ModelPrice) Remark(now time.Time) string {
	if !m.Known() {
		return "its price is unknown: " + m.Missing()
	}
	days, ok := pricelist.Days(textAt(m.Price, "date"), now)
	if !ok || days <= int(pricelist.Stale/(24*time.Hour)) {
		return ""
	}
	return fmt.Sprintf("its price was read %d days ago: compare it with %s, and give a newer list to \"ferment model prices update\"",
		days, cmp.Or(textAt(m.Price, "source"), "-"))
}

// Value returns the price block with its source and age.
func (m ModelPrice) Value(now time.Time) edn.Value {
	v := m.Price
	if v.Kind() != edn.KindMap {
		v = edn.MustMap()
	}
	v = v.AssocKey("plugin", edn.Text(m.Plugin)).AssocKey("block", edn.Text(m.Label)).
		AssocKey("model", edn.Text(m.Model)).AssocKey("from", edn.K(m.From()))
	if days, ok := pricelist.Days(textAt(m.Price, "date"), now); ok {
		v = v.AssocKey("age-days", edn.Int(int64(days)))
	}
	if remark := m.Remark(now); remark != "" {
		v = v.AssocKey("remark", edn.Text(remark))
	}
	return v
}

// ModelPrices returns the prices of the models of a plugin by label; nil if its models have no
// prices.
func (p *Plugin) ModelPrices() []ModelPrice {
	if !p.priced {
		return nil
	}
	var all []ModelPrice
	for label, m := range p.Config.Key("model").Entries() {
		all = append(all, ModelPrice{
			Plugin: p.Name,
			Label:  language.ScalarText(label),
			Model:  cmp.Or(textAt(m, "name"), textAt(p.Config, "model-name")),
			Price:  m.Key("price"),
		})
	}
	slices.SortFunc(all, func(a, b ModelPrice) int { return cmp.Compare(a.Label, b.Label) })
	return all
}

func textAt(v edn.Value, key string) string {
	s, _ := v.Key(key).AsString()
	return s
}

// price adds prices of the list to model blocks without amounts. Plugins cannot read the list,
// which is a file of the host. The added prices are compared, cached and shown like the rest of the
// configuration.
func (r *Reader) price(own *decode.PluginSchema, p *Plugin) {
	form, ok := own.Root.At(edn.K("model"), edn.Text("label"), edn.K("price"))
	if !ok || p.Config.Kind() != edn.KindMap {
		return
	}
	if _, p.priced = form.Entry(edn.K("listed")); !p.priced {
		return
	}
	now := time.Now()
	list := r.priceList(now)
	vendor := vendorOf(list, p.Config)
	models := p.Config.Key("model")
	replace := func(m ModelPrice, price edn.Value) {
		label := edn.Text(m.Label)
		block, _ := models.Get(label)
		models = models.Assoc(label, block.AssocKey("price", price))
	}
	for _, m := range p.ModelPrices() {
		if m.written() {
			if !m.Price.Key("listed").IsNil() { // else the price would read as one of the list
				replace(m, m.Price.Dissoc(edn.K("listed")))
				r.unusedEntry(p, m)
			}
			continue
		}
		owner, name := vendor, m.Model
		if written := textAt(m.Price, "listed"); written != "" {
			owner, name, _ = strings.Cut(written, "/")
		}
		e, found := list.Find(owner, name, now)
		switch {
		case found:
			replace(m, listPrice(e, owner+"/"+name))
		case !m.Price.Key("listed").IsNil():
			r.unlisted(p, m, list)
		}
	}
	p.Config = p.Config.AssocKey("model", models)
}

// priceList returns the price list in force. A list that cannot be read is reported once.
func (r *Reader) priceList(now time.Time) pricelist.List {
	if r.prices == nil {
		list, err := pricelist.InForce(r.Options.DataDir, now)
		if err != nil {
			r.Report.Add(diag.Diagnostic{
				Type:     "config/type",
				Severity: diag.SeverityWarning,
				Message:  disk.Cause(err) + "; the shipped prices are used",
				Hint:     "install it again with \"ferment model prices update FILE\", or remove it",
			})
		}
		r.prices = &list
	}
	return *r.prices
}

// vendorOf returns the vendor of a plugin configuration, by the host in its address, else by its
// preset or provider; empty for the address of an unknown vendor.
func vendorOf(list pricelist.List, config edn.Value) string {
	if base := textAt(config, "base-url"); base != "" {
		u, err := url.Parse(base)
		if err != nil {
			return ""
		}
		return list.VendorAt(u.Hostname())
	}
	return cmp.Or(textAt(config, "preset"), textAt(config, "provider"))
}

// listPrice returns an entry of the price list as a price block.
func listPrice(e pricelist.Entry, name string) edn.Value {
	var b edn.MapBuilder
	for key, v := range e.Amounts() {
		if !v.IsNil() {
			b.Key(key, v)
		}
	}
	if e.UpTo > 0 {
		b.Key("up-to", edn.Int(e.UpTo))
	}
	b.Key("listed", edn.Text(name))
	b.Key("source", edn.Text(e.Source))
	b.Key("date", edn.Text(e.Date))
	return b.Map()
}

// unusedEntry warns about a price block that names an entry of the list beside amounts.
func (r *Reader) unusedEntry(p *Plugin, m ModelPrice) {
	d := p.atListed(m)
	d.Type = "config/unused"
	d.Message = fmt.Sprintf("listed of model %s has no effect, since its price block sets the price itself", diag.Quote(m.Label))
	d.Hint = "remove listed, or the amounts and free"
	r.Report.Add(d)
}

// atListed returns a warning at the attribute listed of a model.
func (p *Plugin) atListed(m ModelPrice) diag.Diagnostic {
	path := []edn.Value{edn.K("model"), edn.Text(m.Label), edn.K("price"), edn.K("listed")}
	return diag.Diagnostic{
		Severity: diag.SeverityWarning,
		Range:    p.Lowered.Place([]string{"plugin", p.Name, "config"}, path),
		Path:     []string{"plugin", p.Name, "config", "model", m.Label, "price", "listed"},
		Found:    m.Price.Key("listed"),
	}
}

// unlisted warns about a model that is not in the list.
func (r *Reader) unlisted(p *Plugin, m ModelPrice, list pricelist.List) {
	written := textAt(m.Price, "listed")
	var names []string
	for _, e := range list.Prices {
		for _, name := range e.Models {
			names = append(names, e.Vendor+"/"+name)
		}
	}
	d := p.atListed(m)
	d.Type, d.Nearest = "config/unknown-name", contract.Nearest(written, names)
	d.Message = fmt.Sprintf("the price list has no %s, so the price of model %s is not known", diag.Quote(written),
		diag.Quote(m.Label))
	d.Hint = "\"ferment model prices --all\" lists what it has"
	r.Report.Add(d)
}
