package policy

import (
	"testing"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-094, WS-220: a policy is refused with the place of the fault, or what it means is the
// same policy when it is read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`:summarize`,
		`{:kind :concatenate :separator "--" :heading :path}`,
		`{:kind :filter :types ["a" "b"] :agents #{"x"} :name "*.go" :min-bytes 1 :max-frames 3 :fresh-only? true}`,
		`{:kind :custom :intent :a/b :params {:k [1 nil]} :deterministic? true}`,
		`{:kind :custom :intent :context/generate}`,
		`{:kind :filter :name "["}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := edn.ReadString(text)
		if err != nil {
			return
		}
		p, err := Parse(v, nil)
		if err != nil {
			if e := contract.AsError(err); e.Type != "input/invalid" || e.Details.Key("path").IsNil() {
				t.Errorf("%s: %v", text, err)
			}
			return
		}
		again, err := Parse(p.Value(), nil)
		if err != nil {
			t.Fatalf("%s is %s, which is refused: %v", text, p.Value(), err)
		}
		one, _ := p.Digest(store.Selection{})
		two, _ := again.Digest(store.Selection{})
		if one != two {
			t.Errorf("%s: %s and %s", text, p.Value(), again.Value())
		}
	})
}
