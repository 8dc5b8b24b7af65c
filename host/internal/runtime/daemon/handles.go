package daemon

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// checkHandles checks the capabilities that a request of a plugin names, and
// adds the intent that a pinned capability implies. The configuration chooses
// the capability for an intent. A plugin pins a capability only by a handle
// that was passed to its own call, and passes on only such handles (ENV-018,
// IR-014, CNV-014). Plans are rejected, because a plan could name any
// capability.
func checkHandles(request edn.Value, granted []string, reg *registry.Registry) (edn.Value, error) {
	task := request.Key("task")
	if intent, _ := task.Key("intent").AsKeyword(); intent == act.PlanIntent {
		return request, contract.Errorf("auth/forbidden",
			"a plugin cannot request that the host runs a plan").
			WithHint("return the plan as the answer of the call: {:result {:type :plan :plan ..}}")
	}
	for _, id := range named(request) {
		if !reg.Known(id) {
			return request, contract.Errorf("cap/not-found", "there is no capability :%s", id).
				DidYouMean(":" + reg.NearestCapability(id))
		}
		if _, ok := slices.BinarySearch(granted, id); !ok {
			return request, contract.Errorf("auth/forbidden",
				"the input of the current call has no handle of :%s", id).
				WithDetail("cap/id", edn.K(id)).
				WithHint("pass {:cap/ref :" + id + "} in the input of the call, or request an intent without a capability")
		}
	}
	pinned, isPinned := task.Key("cap/id").AsKeyword()
	if !isPinned || !task.Key("intent").IsNil() {
		return request, nil
	}
	if a, absent := reg.Absent(pinned); absent {
		return request, absentError(pinned, a)
	}
	c, _ := reg.Capability(pinned)
	if len(c.Intents) != 1 {
		return request, contract.Errorf("invalid-request", ":%s serves several intents: name one of %s",
			pinned, edn.Keywords(c.Intents...)).
			WithDetail("reason", edn.K("shape/missing-key")).
			WithDetail("path", edn.Vector(edn.K("task"), edn.K("intent")))
	}
	return request.AssocKey("task", task.AssocKey("intent", edn.K(c.Intents[0]))), nil
}

// named returns the ids of the capabilities that a request pins or passes as handles.
func named(request edn.Value) []string {
	task := request.Key("task")
	dispatch := task.Key("dispatch")
	var out []string
	one := func(v edn.Value) {
		if id, ok := v.AsKeyword(); ok {
			out = append(out, id)
		} else if id, ok := contract.HandleOf(v); ok {
			out = append(out, id)
		}
	}
	for _, v := range []edn.Value{task.Key("cap/id"), request.Key("cap/id"), request.Key("routing").Key("cap/id")} {
		one(v)
	}
	for _, list := range []edn.Value{dispatch.Key("candidates"), dispatch.Key("fallback-to")} {
		for v := range list.Elems() {
			one(v)
		}
	}
	return append(out, contract.Handles(edn.Vector(request.Key("input"), request.Key("context")))...)
}
