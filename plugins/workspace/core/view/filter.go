package view

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Filter is one condition on frames. Its fields depend on the kind.
type Filter struct {
	Kind string // type, agent, origin, frame, state, since, until, meta, path
	// Any are the accepted values, of which one must be equal, for the kinds
	// type, agent, origin and state; for the kind frame, the accepted prefixes
	// of the digits of an id.
	Any []string
	// At is in nanoseconds since 1970. Since includes it, until does not.
	At int64
	// Key and Value are an entry of the metadata.
	Key, Value edn.Value
	// Glob is a pattern of paths as in an ignore file.
	Glob *ignore.Glob
}

// match reports whether a frame fulfils the condition.
func (f *Filter) match(x *store.Head) bool {
	switch f.Kind {
	case "type":
		return slices.Contains(f.Any, x.Frame.Type)
	case "agent":
		return slices.Contains(f.Any, x.Frame.Agent)
	case "origin":
		return slices.Contains(f.Any, string(x.Frame.Origin))
	case "frame":
		return slices.ContainsFunc(f.Any, func(digits string) bool { return strings.HasPrefix(x.Frame.ID.Hex(), digits) })
	case "state":
		return slices.Contains(f.Any, string(x.State))
	case "since":
		return x.Frame.CreatedAt >= f.At
	case "until":
		return x.Frame.CreatedAt < f.At
	case "meta":
		v, ok := x.Frame.Meta.Get(f.Key)
		return ok && edn.Equal(v, f.Value)
	case "path":
		return f.Glob.Match(x.Frame.Path)
	}
	return false
}

func matchAll(filters []Filter, x *store.Head) bool {
	for i := range filters {
		if !filters[i].match(x) {
			return false
		}
	}
	return true
}
