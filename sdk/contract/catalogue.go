package contract

import (
	"net/http"
	"slices"
	"strings"
)

// Outcome holds the class, retryability and HTTP status of an error type for errors of one source.
type Outcome struct {
	Class     Class
	Retryable bool
	HTTP      int
}

// Row describes one type of the error catalogue. Class, Source, Retryable and
// HTTP are the defaults of its errors.
type Row struct {
	// Type is the name of the type without a colon, such as "runtime/crashed".
	Type string
	// Class is the default class.
	Class Class
	// Source is the default source.
	Source Source
	// Sources are the allowed sources.
	Sources SourceSet
	// Retryable reports whether sending the same request again can succeed.
	Retryable bool
	// HTTP is the status of an HTTP response with the error; 0 for a type that
	// never occurs in a response.
	HTTP int
	// AsCause is set if an error of the type takes the source of its cause.
	AsCause bool
	// Help explains the type in one line.
	Help string
	// Hint is the next step for the user; it may be empty.
	Hint string
	// Aliases are other names of the type, sorted.
	Aliases []string

	alternative Class    // an additional allowed class, or ClassNone
	answerable  bool     // a capability may answer with the type although its class is stop!
	elsewhere   *Outcome // the outcome for every source but request
}

// For returns the outcome of the type for errors of source.
func (r Row) For(source Source) Outcome {
	if r.elsewhere != nil && source != SourceRequest {
		return *r.elsewhere
	}
	return Outcome{r.Class, r.Retryable, r.HTTP}
}

// Allows reports whether an error of the type with the source may have the
// class.
func (r Row) Allows(class Class, source Source) bool {
	return class == r.For(source).Class || (r.alternative != ClassNone && class == r.alternative)
}

// FromCapability reports whether a capability may answer with an error of the
// type. Types of class stop!, and those without a class, are decisions of the
// host about its requests, runs and settings. A capability may answer with those
// about the request that it got, or that it made itself.
func (r Row) FromCapability() bool {
	return r.Class != ClassFinal && r.Class != ClassNone || r.answerable
}

// Namespace returns the part of a type before the slash, or "".
func Namespace(typ string) string {
	ns, _, found := strings.Cut(typ, "/")
	if !found {
		return ""
	}
	return ns
}

func row(typ string, class Class, source Source, retryable bool, status int, help, hint string) Row {
	return Row{
		Type: typ, Class: class, Source: source, Sources: sourcesOf(source),
		Retryable: retryable, HTTP: status, Help: help, Hint: hint,
	}
}

func (r Row) or(sources ...Source) Row {
	r.Sources |= sourcesOf(sources...)
	return r
}

func (r Row) orClass(class Class) Row {
	r.alternative = class
	return r
}

func (r Row) fromCapability() Row {
	r.answerable = true
	return r
}

// asCause makes the type take its source from the cause; without a cause the
// default source applies.
func (r Row) asCause() Row {
	r.AsCause = true
	r.Sources = sourcesOf(SourceRequest, SourceHost, SourcePlugin, SourceDownstream)
	return r
}

func (r Row) otherwise(class Class, retryable bool, status int, sources ...Source) Row {
	r.elsewhere = &Outcome{class, retryable, status}
	return r.or(sources...)
}

// index holds the catalogue with its lookup tables.
type index struct {
	rows       []Row // sorted by type
	byType     map[string]int
	aliases    map[string]string
	namespaces map[string]bool
}

var catalogue = newIndex(slices.Concat(
	callErrors(), runtimeErrors(), modelErrors(), accessErrors(), runErrors(), sessionErrors(), loadErrors(),
	workspaceErrors(),
), aliases())

func newIndex(rows []Row, aliases map[string]string) index {
	ix := index{
		rows:       rows,
		byType:     make(map[string]int, len(rows)),
		aliases:    aliases,
		namespaces: make(map[string]bool),
	}
	slices.SortFunc(ix.rows, func(a, b Row) int { return strings.Compare(a.Type, b.Type) })
	for i, r := range ix.rows {
		ix.byType[r.Type] = i
		ix.namespaces[Namespace(r.Type)] = true
	}
	for alias, typ := range aliases {
		r := &ix.rows[ix.byType[typ]]
		r.Aliases = append(r.Aliases, alias)
	}
	for i := range ix.rows {
		slices.Sort(ix.rows[i].Aliases)
	}
	return ix
}

// Rows returns the catalogue, sorted by type. The caller may change the result.
func Rows() []Row {
	rows := slices.Clone(catalogue.rows)
	for i := range rows {
		rows[i].Aliases = slices.Clone(rows[i].Aliases)
	}
	return rows
}

// Lookup returns the row of a type, with or without a leading colon. It does
// not follow aliases; see [ResolveAlias].
func Lookup(typ string) (Row, bool) {
	i, found := catalogue.byType[strings.TrimPrefix(typ, ":")]
	if !found {
		return Row{}, false
	}
	return catalogue.rows[i], true
}

// ResolveAlias returns the type of an alias. Any other name is returned
// unchanged, without a leading colon.
func ResolveAlias(name string) string {
	name = strings.TrimPrefix(name, ":")
	if typ, found := catalogue.aliases[name]; found {
		return typ
	}
	return name
}

// Reserved reports whether only the catalogue may define types of the
// namespace. The empty namespace is reserved too.
func Reserved(namespace string) bool { return catalogue.namespaces[namespace] }

// NearestType returns the type or alias of the catalogue with the spelling
// nearest to name, or "".
func NearestType(name string) string {
	names := make([]string, 0, len(catalogue.rows)+len(catalogue.aliases))
	for _, r := range catalogue.rows {
		names = append(names, r.Type)
	}
	for alias := range catalogue.aliases {
		names = append(names, alias)
	}
	return Nearest(strings.TrimPrefix(name, ":"), names)
}

// rowOf returns the row of a type. A type outside the catalogue is treated as a
// type of a plugin: class switch, not retryable.
func rowOf(typ string) Row {
	if r, found := Lookup(typ); found {
		return r
	}
	r := row(typ, ClassSwitch, SourcePlugin, false, http.StatusBadGateway, "", "")
	return r.or(SourceRequest, SourceDownstream)
}
