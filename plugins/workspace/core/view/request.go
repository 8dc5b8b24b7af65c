package view

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// SourceKind determines the nodes from which frames are taken.
type SourceKind string

// The sources of a composition.
const (
	Current  SourceKind = "current"
	Parent   SourceKind = "parent"
	Siblings SourceKind = "siblings"
	Related  SourceKind = "related"
)

// Source is one source of a composition.
type Source struct {
	Kind  SourceKind
	Nodes []store.Ref // of related nodes
}

// OrderingKind is the kind of the ordering of a composition.
type OrderingKind string

// The orderings of compositions.
const (
	NewestFirst   OrderingKind = "recency"
	TypePriority  OrderingKind = "type-priority"
	AgentPriority OrderingKind = "agent-priority"
	Relevance     OrderingKind = "relevance"
	Custom        OrderingKind = "custom"
)

// Ordering is the order of a composition.
type Ordering struct {
	Kind OrderingKind
	// Priority are types or agents, for the orderings with a priority.
	Priority []string
	// Intent ranks the frames in the custom ordering. Content passes their texts
	// to it. OnError is the ordering to use if it fails; nil makes the failure
	// an error.
	Intent  string
	Content bool
	OnError *Ordering
}

// Request is the request to compose frames of several nodes.
type Request struct {
	Node      store.Ref
	Sources   []Source
	Filters   []Filter
	Ordering  Ordering
	Query     string
	MaxFrames int
	MaxBytes  int
	IDs       bool // the result has frame ids only
}

// maxQuery is the largest query, in bytes.
const maxQuery = 64 << 10

// RequestFrom returns the request in the input of compose.
func RequestFrom(input edn.Value, o Options) (r Request, err error) {
	if r.Node, err = store.RefFrom(input); err != nil {
		return r, err
	}
	r.MaxFrames, r.MaxBytes = DefaultFrames, DefaultBytes
	r.Sources, r.Ordering = []Source{{Kind: Current}}, Ordering{Kind: NewestFirst}
	for key, value := range input.Entries() {
		name, _ := key.AsKeyword()
		at := under(o.At, key)
		if value.IsNil() {
			continue
		}
		switch name {
		case "sources":
			r.Sources, err = parseSources(at, value)
		case "filters":
			r.Filters, err = parseFilters(at, value, true)
		case "ordering":
			r.Ordering, err = parseOrdering(at, value, true)
		case "query":
			r.Query, err = parseQuery(at, value)
		case "max-frames":
			r.MaxFrames, err = number(at, value, mostFrames)
		case "max-bytes":
			r.MaxBytes, err = number(at, value, mostBytes)
		case "as":
			var form string
			form, err = oneOf(at, "a form of the result", value, "frames", "ids")
			r.IDs = form == "ids"
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func parseQuery(at []edn.Value, v edn.Value) (string, error) {
	text, ok := v.AsString()
	switch {
	case !ok:
		return "", invalid(at, "%.80s is not a string", v)
	case len(text) > maxQuery:
		return "", invalid(at, "the query has %d bytes, more than %d", len(text), maxQuery)
	}
	return text, nil
}

var sourceNames = []string{":current", ":parent", ":siblings", "[:related [path or id …]]"}

func parseSources(at []edn.Value, v edn.Value) (list []Source, err error) {
	if !v.IsVector() && !v.IsList() {
		return nil, invalid(at, "%.80s is not a list of sources", v)
	}
	i := int64(0)
	for x := range v.Elems() {
		inner := under(at, edn.Int(i))
		s := Source{Kind: SourceKind(word(x))}
		switch first, _ := nth(x, 0).AsKeyword(); {
		case x.IsVector() && first == string(Related) && x.Len() == 2:
			s.Kind = Related
			if s.Nodes, err = parseRelated(under(inner, edn.Int(1)), nth(x, 1)); err != nil {
				return nil, err
			}
		case !slices.Contains([]SourceKind{Current, Parent, Siblings}, s.Kind):
			return nil, notAllowed(inner, "a source", x, sourceNames)
		}
		list = append(list, s)
		i++
	}
	return list, nil
}

func nth(v edn.Value, i int) edn.Value { x, _ := v.Nth(i); return x }

// parseRelated returns related nodes: paths, node ids in their text form, which can be
// cut off, or maps with one of :path, :path/b64 and :node/id.
func parseRelated(at []edn.Value, v edn.Value) (refs []store.Ref, err error) {
	if v.Len() > mostRelated {
		return nil, contract.Errorf("limit/exceeded", "expected at most %d related nodes, found %d", mostRelated,
			v.Len()).
			WithDetail("limit", edn.Text("related nodes")).WithDetail("max", edn.Int(int64(mostRelated))).WithDetail("path", edn.Vector(at...))
	}
	err = each(at, v, func(x edn.Value) error {
		if x.IsMap() {
			ref, err := store.RefFrom(x)
			refs = append(refs, ref)
			return err
		}
		text, ok := x.AsString()
		if !ok {
			return invalid(at, "%.80s is not a path or a node id", x)
		}
		if strings.HasPrefix(text, "n1-") && store.IsNode(text) {
			refs = append(refs, store.Ref{Node: text})
			return nil
		}
		path, err := store.CheckPath(text)
		refs = append(refs, store.Ref{Path: path})
		return err
	})
	return refs, err
}

var orderings = []string{":recency", ":relevance", "[:type-priority [type …]]", "[:agent-priority [agent …]]", "[:custom {:intent :ns/name}]"}

func parseOrdering(at []edn.Value, v edn.Value, custom bool) (o Ordering, err error) {
	if name := OrderingKind(word(v)); name == NewestFirst || name == Relevance {
		return Ordering{Kind: name}, nil
	}
	first, _ := nth(v, 0).AsKeyword()
	o.Kind = OrderingKind(first)
	inner := under(at, edn.Int(1))
	switch {
	case !v.IsVector() || v.Len() != 2:
	case o.Kind == TypePriority || o.Kind == AgentPriority:
		o.Priority, err = texts(inner, nth(v, 1))
		return o, err
	case o.Kind == Custom && custom:
		return parseCustom(inner, nth(v, 1))
	}
	allowed := orderings
	if !custom {
		allowed = orderings[:4]
	}
	return o, notAllowed(at, "an ordering", v, allowed)
}

func parseCustom(at []edn.Value, v edn.Value) (o Ordering, err error) {
	o.Kind = Custom
	if !v.IsMap() {
		return o, invalid(at, "%.80s is not a map with :intent", v)
	}
	for key, value := range v.Entries() {
		inner := under(at, key)
		ok, want := true, "a qualified keyword"
		switch name, _ := key.AsKeyword(); name {
		case "intent":
			o.Intent, ok = value.AsKeyword()
			ok = ok && strings.Contains(o.Intent, "/")
		case "content?":
			o.Content, ok = value.AsBool()
			want = "true or false"
		case "on-error":
			var other Ordering
			other, err = parseOrdering(inner, value, false)
			o.OnError = &other
		default:
			err = notAllowed(inner, "a key of a custom ordering", key, []string{":intent", ":content?", ":on-error"})
		}
		if err == nil && !ok {
			err = invalid(inner, "%.80s is not %s", value, want)
		}
		if err != nil {
			return o, err
		}
	}
	if o.Intent == "" {
		return o, invalid(at, "the custom ordering has no :intent")
	}
	return o, nil
}
