package routing

import (
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Decision is the answer of a router that chooses a capability. The maps that the answer
// lacks are nil.
type Decision struct {
	CapID string
	// Candidates are the candidates that the decision keeps, in order; nil: all.
	Candidates []string
	Dispatch   edn.Value
	// Constraints, Done, Budget and Effects have the form of a node.
	Constraints, Done, Budget, Effects edn.Value
	// Value is the decision as the router returned it, with its strings converted to
	// keywords.
	Value edn.Value
}

// Refuse returns a route/decide-failed error with the detail :reason route/<reason>, for an
// answer that is not a decision or not a permitted one.
func Refuse(reason, format string, args ...any) *contract.Error {
	return contract.Errorf("route/decide-failed", format, args...).WithDetail("reason", edn.K("route/"+reason))
}

// form converts an answer that was JSON: its strings become keywords where the contract
// requires them.
var form = sync.OnceValue(func() *schema.Schema {
	return schema.MustCompile(edn.MustRead(`[:map [:cap/id :keyword]
  [:dispatch {:optional true} [:map
    [:candidates {:optional true} [:vector :keyword]] [:checks {:optional true} [:vector :keyword]]
    [:checks/hard {:optional true} [:vector :keyword]] [:checks/soft {:optional true} [:vector :keyword]]
    [:switch-on {:optional true} [:vector :keyword]]
    [:retry {:optional true} [:map [:same-cap-max {:optional true} :int] [:fallback-max {:optional true} :int]]]]]
  [:constraints {:optional true} [:map [:language {:optional true} :keyword] [:style {:optional true} :keyword]]]
  [:done {:optional true} [:map [:must {:optional true} [:set :keyword]] [:should {:optional true} [:set :keyword]]]]
  [:effects {:optional true} [:map [:allowed {:optional true} [:set :keyword]]]]]`))
})

var decisionKeys = map[string]bool{
	"cap/id": true, "dispatch": true, "constraints": true, "done": true, "budget": true, "effects": true,
}

// The lists of :dispatch, and the prefixes of their error reasons.
var dispatchLists = []struct{ key, reason string }{
	{"candidates", "candidates"},
	{"checks", "checks"},
	{"checks/hard", "checks-hard"},
	{"checks/soft", "checks-soft"},
	{"switch-on", "switch-on"},
}

// ReadDecision reads the :out of a router under the contract of route/decide. The errors
// are those of Refuse.
func ReadDecision(out edn.Value) (Decision, *contract.Error) {
	d := Decision{Value: out}
	if !out.IsMap() {
		return d, Refuse("decide-out-not-map", "the decision is a %s, expected a map", out.Kind())
	}
	if better := form().CoerceJSON(out); form().Valid(better) {
		out, d.Value = better, better
	}
	for k := range out.Entries() {
		name, ok := k.AsKeyword()
		switch {
		case name == "error":
			return d, Refuse("decide-error-not-allowed", "the decision has an :error")
		case !ok || !decisionKeys[name]:
			return d, Refuse("decide-unknown-keys", "the decision has the unknown key %s", k)
		}
	}
	if !out.HasKey("cap/id") {
		return d, Refuse("decide-target-missing", "the decision has no :cap/id")
	}
	var ok bool
	if d.CapID, ok = out.Key("cap/id").AsKeyword(); !ok {
		return d, Refuse("decide-cap-not-keyword", "the :cap/id of the decision is %s, expected a keyword", out.Key("cap/id"))
	}
	for key, to := range map[string]*edn.Value{
		"dispatch": &d.Dispatch, "constraints": &d.Constraints, "done": &d.Done, "budget": &d.Budget, "effects": &d.Effects,
	} {
		if *to = out.Key(key); !to.IsNil() && !to.IsMap() {
			return d, Refuse("decide-"+key+"-not-map", "the :%s of the decision is a %s, expected a map", key, to.Kind())
		}
	}
	return d, d.readDispatch()
}

func (d *Decision) readDispatch() *contract.Error {
	known := map[string]bool{"retry": true}
	for _, list := range dispatchLists {
		known[list.key] = true
	}
	for k := range d.Dispatch.Entries() {
		if name, ok := k.AsKeyword(); !ok || !known[name] {
			return Refuse("decide-dispatch-unknown-keys", "the :dispatch of the decision has the unknown key %s", k)
		}
	}
	for _, list := range dispatchLists {
		v := d.Dispatch.Key(list.key)
		if v.IsNil() {
			continue
		}
		if !v.IsVector() && !v.IsList() && !v.IsSet() {
			return Refuse("decide-"+list.reason+"-not-keywords", "the :%s of the decision are a %s, expected keywords", list.key, v.Kind())
		}
		for e := range v.Elems() {
			name, ok := e.AsKeyword()
			if !ok {
				return Refuse("decide-"+list.reason+"-not-keywords", "the :%s of the decision have %s, expected keywords", list.key, e)
			}
			if list.key == "candidates" {
				d.Candidates = append(d.Candidates, name)
			}
		}
	}
	return readRetry(d.Dispatch.Key("retry"))
}

func readRetry(retry edn.Value) *contract.Error {
	if retry.IsNil() {
		return nil
	}
	if !retry.IsMap() {
		return Refuse("decide-retry-not-map", "the :retry of the decision is a %s, expected a map", retry.Kind())
	}
	for k, v := range retry.Entries() {
		name, _ := k.AsKeyword()
		if name != "same-cap-max" && name != "fallback-max" {
			return Refuse("decide-dispatch-unknown-keys", "the :retry of the decision has the unknown key %s", k)
		}
		if n, ok := v.AsInt(); !ok || n < 0 {
			return Refuse("decide-retry-"+name+"-not-nonneg-int", "the :%s of the decision is %s, expected a count", name, v)
		}
	}
	return nil
}

// Node returns the decision in the form of a plan node that calls an intent, without
// :cap/id and :candidates.
func (d *Decision) Node(intent string) edn.Value {
	var b edn.MapBuilder
	b.Key("op", edn.K("call"))
	b.Key("intent", edn.K(intent))
	if rest := d.Dispatch; rest.IsMap() {
		if rest = rest.Dissoc(edn.K("candidates")); rest.Len() > 0 {
			b.Key("dispatch", rest)
		}
	}
	b.Opt("constraints", d.Constraints)
	b.Opt("done", d.Done)
	b.Opt("budget", d.Budget)
	b.Opt("effects", d.Effects)
	return b.Map()
}
