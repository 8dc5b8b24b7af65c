package rules

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
)

// SchemaName is the name under which the plugin publishes Schema; the host
// validates configured rules against it.
const SchemaName = "rubric/rules"

const (
	aWord     = `[:or :keyword [:re "\\S"]]`
	aText     = `[:re "\\S"]`
	someTexts = `[:or ` + aText + ` [:sequential {:min 1} ` + aText + `]]`
	aCount    = `[:int {:min 0 :max 1073741824}]`
	from      = `[:from {:optional true} [:sequential {:min 1} :any]]`
	source    = `[:source {:optional true} ` + aText + `] ` + from
)

// entries are the keys of each kind of rule beside the common ones.
var entries = map[string]string{
	"terms":     `[:all [:sequential {:min 1} ` + someTexts + `]]`,
	"forbidden": `[:any ` + someTexts + `]`,
	"length": `[:min {:optional true} ` + aCount + `] [:max {:optional true} ` + aCount + `]
		[:unit {:optional true} [:enum :chars :words :sentences]]`,
	"sections": `[:titles ` + someTexts + `]`,
	"numbers":  source,
	"quotes":   source,
	"repetition": `[:words {:optional true} [:int {:min 1 :max 1073741824}]]
		[:most {:optional true} [:number {:min 0 :max 1}]]`,
	"language": `[:is {:optional true} ` + aWord + `]`,
	"pattern":  `[:match {:optional true} ` + someTexts + `] [:refuse {:optional true} ` + someTexts + `]`,
	"rouge-l":  `[:reference {:optional true} ` + aText + `] ` + from,
}

// forms returns the schemas of the kinds of rules.
var forms = sync.OnceValue(func() map[string]edn.Value {
	out := make(map[string]edn.Value, len(entries))
	for kind, own := range entries {
		out[kind] = edn.MustRead(`[:map {:closed true} [:rule [:enum :` + kind + `]] [:id {:optional true} ` + aWord + `]
			[:weight {:optional true} [:number {:min 0}]] ` + own + `]`)
	}
	return out
})

// known returns the keys that each kind of rule may have.
var known = sync.OnceValue(func() map[string][]string {
	out := make(map[string][]string, len(entries))
	for kind, form := range forms() {
		for part := range form.Elems() {
			if key, ok := part.Nth(0); ok && part.IsVector() {
				out[kind] = append(out[kind], word(key))
			}
		}
	}
	return out
})

// Schema returns the schema of a list of rules: maps, one form for each kind, with keywords for
// words. [Parse] rejects everything that the schema rejects, except that it accepts strings for
// keywords. It also rejects mistakes that a schema cannot express, such as an invalid regular
// expression.
func Schema() edn.Value {
	kinds := []edn.Value{edn.K("or")}
	for _, kind := range slices.Sorted(maps.Keys(entries)) {
		kinds = append(kinds, forms()[kind])
	}
	return edn.Vector(edn.K("sequential"), edn.MustRead(fmt.Sprintf("{:min 1 :max %d}", maxRules)), edn.Vector(kinds...))
}
