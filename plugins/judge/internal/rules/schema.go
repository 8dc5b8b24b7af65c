package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// SchemaName is the name under which the plugin publishes Schema: a host checks the rules of a configuration by it.
const SchemaName = "rubric/rules"

const (
	aWord  = `[:or :keyword [:re "\\S"]]`
	aText  = `[:re "\\S"]`
	texts  = `[:or ` + aText + ` [:sequential {:min 1} ` + aText + `]]`
	aCount = `[:int {:min 0 :max 1073741824}]`
	from   = `[:from {:optional true} [:sequential {:min 1} :any]]`
	source = `[:source {:optional true} ` + aText + `] ` + from
)

// forms are the entries of each kind of rule beside the common ones.
var forms = map[string]string{
	"terms":      `[:all [:sequential {:min 1} ` + texts + `]]`,
	"forbidden":  `[:any ` + texts + `]`,
	"length":     `[:min {:optional true} ` + aCount + `] [:max {:optional true} ` + aCount + `] [:unit {:optional true} ` + aWord + `]`,
	"sections":   `[:titles ` + texts + `]`,
	"numbers":    source,
	"quotes":     source,
	"repetition": `[:words {:optional true} [:int {:min 1 :max 1073741824}]] [:most {:optional true} [:number {:min 0 :max 1}]]`,
	"language":   `[:is {:optional true} ` + aWord + `]`,
	"pattern":    `[:match {:optional true} ` + texts + `] [:refuse {:optional true} ` + texts + `]`,
	"rouge-l":    `[:reference {:optional true} ` + aText + `] ` + from,
}

// Schema is what rules look like: a vector of maps, one form for each kind. [Parse] refuses all that it refuses, and
// besides what a schema cannot say, such as a regular expression that does not compile.
func Schema() edn.Value {
	kinds := []edn.Value{edn.K("or")}
	for _, kind := range slices.Sorted(maps.Keys(forms)) {
		kinds = append(kinds, formOf(kind))
	}
	return edn.Vector(edn.K("sequential"), edn.MustRead(fmt.Sprintf("{:min 1 :max %d}", maxRules)), edn.Vector(kinds...))
}

func formOf(kind string) edn.Value {
	return edn.MustRead(`[:map {:closed true} [:rule [:enum :` + kind + `]] [:id {:optional true} ` + aWord + `]
		[:weight {:optional true} [:number {:min 0}]] ` + forms[kind] + `]`)
}

// keysOf are the keys that a kind of rule may have.
func keysOf(kind string) []string {
	var out []string
	for part := range formOf(kind).Elems() {
		if key, ok := part.Nth(0); ok && part.IsVector() {
			out = append(out, word(key))
		}
	}
	return out
}
