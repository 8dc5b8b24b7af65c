package wire

import (
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/schema"
)

// A value decoded from JSON has strings in place of keywords. The forms below
// restore the types of the parts of envelopes, errors and descriptions that
// this contract defines. Values under :input, :context, :out and :details are
// restored with the schemas of capabilities, outside of this package.

// decodeAs is DecodePayload for a payload of a known form.
func decodeAs(form func() *schema.Schema, p *pluginv1.Payload, blobs *Blobs) (edn.Value, error) {
	v, err := DecodePayload(p, blobs)
	if err == nil && Encoding(p.GetEncoding()) == JSON {
		v = form().CoerceJSON(v)
	}
	return v, err
}

var requestForm = compiled(`
 [:map
  [:task {:optional true}
   [:map [:intent {:optional true} :keyword] [:cap/id {:optional true} :keyword]
         [:requires {:optional true}
          [:map [:in-schema {:optional true} :keyword] [:out-schema {:optional true} :keyword] [:result/type {:optional true} :keyword]
                [:cap/kind {:optional true} :keyword] [:cap/tags {:optional true} [:set :keyword]] [:effects/allowed {:optional true} [:set :keyword]]]]]]
  [:constraints {:optional true} [:map [:language {:optional true} :keyword] [:style {:optional true} :keyword]]]
  [:done {:optional true} [:map [:must {:optional true} [:set :keyword]] [:should {:optional true} [:set :keyword]]]]
  [:effects {:optional true} [:map [:allowed {:optional true} [:set :keyword]]]]
  [:budget {:optional true} [:map [:max-usd {:optional true} :decimal]]]
  [:role {:optional true} :keyword]
  [:response/type {:optional true} :keyword]]`)

const errorForm3 = `
 [:map
  [:type :keyword] [:class {:optional true} :keyword] [:source {:optional true} :keyword]
  [:where {:optional true} [:or [:map [:at {:optional true} :keyword] [:cap/id {:optional true} :keyword]] :keyword]]
  [:cause {:optional true} `

// Causes nest; those deeper than three are not typed.
var errorText = errorForm3 + errorForm3 + errorForm3 + ":any]]]]]]"

var errorForm = compiled(errorText)

var responseForm = compiled(`
 [:map
  [:result {:optional true}
   [:map [:type {:optional true} :keyword]
         [:usage {:optional true}
          [:map [:mode {:optional true} :keyword] [:cost-usd {:optional true} :decimal]
                [:tokens-mark {:optional true} :keyword] [:cost-mark {:optional true} :keyword]]]
         [:error {:optional true} ` + errorText + `]]]
  [:error {:optional true} ` + errorText + `]
  [:invoke/meta {:optional true}
   [:map [:role {:optional true} :keyword] [:intent {:optional true} :keyword] [:cap/id {:optional true} :keyword]
         [:finish {:optional true} :keyword] [:agent/id {:optional true} :keyword]]]]`)

var deltaForm = compiled(`[:map [:kind {:optional true} :keyword]]`)

var descriptionForm = compiled(`
 [:map
  [:plugin/needs {:optional true} [:set :keyword]]
  [:plugin/ports {:optional true} [:set :int]]
  [:features {:optional true} [:set :string]]
  [:schemas {:optional true} [:map-of :keyword :any]]
  [:capabilities {:optional true}
   [:sequential
    [:map
     [:cap/id {:optional true} :keyword] [:cap/kind {:optional true} :keyword]
     [:cap/intents {:optional true} [:set :keyword]] [:cap/can-produce {:optional true} [:set :keyword]]
     [:io/in-schema {:optional true} [:or [:map-of :keyword :keyword] :keyword]]
     [:io/out-schema {:optional true} [:or [:map-of :keyword :keyword] :keyword]]
     [:cap/effects {:optional true} [:set :keyword]] [:cap/tags {:optional true} [:set :keyword]]
     [:cap/cost {:optional true}
      [:map [:usd {:optional true} :decimal] [:usd-in-per-mtok {:optional true} :decimal]
            [:usd-cached-in-per-mtok {:optional true} :decimal] [:usd-out-per-mtok {:optional true} :decimal]]]
     [:cap/recovery-rules {:optional true} [:sequential [:tuple [:sequential :keyword] :any :keyword]]]
     [:cap/role {:optional true} :keyword] [:cap/stability {:optional true} :keyword]]]]]`)

// compiled returns a function that compiles a form on first use.
func compiled(form string) func() *schema.Schema {
	return sync.OnceValue(func() *schema.Schema { return schema.MustCompile(edn.MustRead(form)) })
}

// readSchemas reads the schemas of a description in JSON. There a schema is a
// string of EDN or the JSON view of its form.
func readSchemas(d edn.Value) (edn.Value, error) {
	return eachSchema(d, func(name string, said edn.Value) (edn.Value, error) {
		if !said.IsString() && !said.IsVector() {
			return said, contract.Errorf("capability/invalid-metadata",
				`schema %s: in JSON a schema is a string of EDN such as "[:map [:text :string]]", or ["map", ["text", "string"]], got %s`,
				name, shown(said.String()))
		}
		form, err := schema.ReadForm(said)
		if err != nil {
			return said, contract.Errorf("capability/invalid-metadata", "schema %s: %w", name, err)
		}
		return form, nil
	})
}

// writeSchemas is the reverse of readSchemas.
func writeSchemas(d edn.Value) edn.Value {
	written, _ := eachSchema(d, func(_ string, form edn.Value) (edn.Value, error) {
		return edn.Text(form.String()), nil
	})
	return written
}

// eachSchema replaces the schemas of a description, including the schema of the
// configuration.
func eachSchema(d edn.Value, replace func(name string, form edn.Value) (edn.Value, error)) (edn.Value, error) {
	if schemas := d.Key("schemas"); schemas.Kind() == edn.KindMap {
		var all edn.MapBuilder
		for name, form := range schemas.Entries() {
			form, err := replace(name.String(), form)
			if err != nil {
				return d, err
			}
			all.Set(name, form)
		}
		d = d.AssocKey("schemas", all.Map())
	}
	config := d.Key("config")
	if form := config.Key("config/schema"); !form.IsNil() {
		form, err := replace("of the configuration", form)
		if err != nil {
			return d, err
		}
		d = d.AssocKey("config", config.AssocKey("config/schema", form))
	}
	return d, nil
}

// pathIn restores the types of a path in config that came as JSON: a step into
// a map is the key that exists there, otherwise a keyword.
func pathIn(config edn.Value, path []edn.Value) []edn.Value {
	at := config
	typed := make([]edn.Value, len(path))
	for i, step := range path {
		if name, ok := step.AsString(); ok && !at.Has(step) {
			if key, err := edn.Keyword(strings.TrimPrefix(name, ":")); err == nil {
				step = key
			}
		}
		typed[i] = step
		if n, ok := step.AsInt(); ok {
			at, _ = at.Nth(int(n))
		} else {
			at, _ = at.Get(step)
		}
	}
	return typed
}
