package conformance

import (
	"fmt"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ReadSamples adds the samples of a samples file to o: an input under the
// qualified name of each capability or intent, and under plain names
//
//	:slow     {:capability :a/b :input {..}}, see Slow
//	:answers  {:an/intent {..}}, see Answers
//	:scope    {:an/effect {..}}, see Scope
//
// The error names the entry at fault.
func (o *Options) ReadSamples(v edn.Value) error {
	for key, entry := range v.Entries() {
		name, ok := key.AsKeyword()
		if !ok {
			return fmt.Errorf("%s is not a keyword: expected the name of a capability or an intent, :slow, :answers or :scope", key)
		}
		switch {
		case name == "slow":
			id, ok := entry.Key("capability").AsKeyword()
			if !ok {
				return fmt.Errorf(":slow is %s: expected {:capability :a/b :input {..}}", cut(entry.String()))
			}
			o.Slow = &Sample{Capability: id, Input: entry.Key("input")}
		case name == "scope":
			o.Scope = entry
		case name == "answers":
			if !entry.IsMap() {
				return fmt.Errorf(":answers is %s: expected a map from intent to output", cut(entry.String()))
			}
			if o.Answers == nil {
				o.Answers = map[string]edn.Value{}
			}
			for intent, out := range entry.Entries() {
				word, ok := intent.AsKeyword()
				if !ok {
					return fmt.Errorf(":answers: %s is not a keyword: expected the name of an intent", intent)
				}
				o.Answers[word] = out
			}
		case key.Namespace() == "":
			return fmt.Errorf("%s is not the name of a capability or an intent: expected a qualified keyword, :slow, :answers or :scope", key)
		case !entry.IsMap():
			return fmt.Errorf("%s is %s: expected the input, a map", key, cut(entry.String()))
		default:
			if o.Samples == nil {
				o.Samples = map[string]edn.Value{}
			}
			o.Samples[name] = entry
		}
	}
	return nil
}
