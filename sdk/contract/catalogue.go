package contract

import (
	"net/http"
	"slices"
	"strings"
)

// Outcome is what one type means when it comes from one kind of source.
type Outcome struct {
	Class     Class
	Retryable bool
	HTTP      int
}

// Row is one type of the error catalogue. Class, Source, Retryable and HTTP are
// what an error of this type has unless something says otherwise.
type Row struct {
	// Type is the name of the type without a colon, such as "runtime/crashed".
	Type string
	// Class is the default class.
	Class Class
	// Source is the default source.
	Source Source
	// Sources are all sources that errors of the type may have.
	Sources SourceSet
	// Retryable says whether a caller may send the same request again with hope.
	Retryable bool
	// HTTP is the status of an answer that carries the error, 0 if none does.
	HTTP int
	// AsCause is set when the source is that of the cause.
	AsCause bool
	// Help says in one line what the type means.
	Help string
	// Hint is the next step of whoever meets the error; it may be empty.
	Hint string
	// Aliases are other names of the type, sorted.
	Aliases []string

	alternative Class    // a second class that an error may have, or ClassNone
	elsewhere   *Outcome // what holds for every source but request
}

// For returns what the type means when it comes from source.
func (r Row) For(source Source) Outcome {
	if r.elsewhere != nil && source != SourceRequest {
		return *r.elsewhere
	}
	return Outcome{r.Class, r.Retryable, r.HTTP}
}

// Allows reports whether an error of the type may have the class when it comes
// from source.
func (r Row) Allows(class Class, source Source) bool {
	return class == r.For(source).Class || (r.alternative != ClassNone && class == r.alternative)
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
		Type: typ, Class: class, Source: source, Sources: Sources(source),
		Retryable: retryable, HTTP: status, Help: help, Hint: hint,
	}
}

func (r Row) or(sources ...Source) Row {
	r.Sources |= Sources(sources...)
	return r
}

func (r Row) orClass(class Class) Row {
	r.alternative = class
	return r
}

// asCause takes the source from the cause; until there is one, the default of
// the row holds.
func (r Row) asCause() Row {
	r.AsCause = true
	r.Sources = Sources(SourceRequest, SourceHost, SourcePlugin, SourceDownstream)
	return r
}

func (r Row) otherwise(class Class, retryable bool, status int, sources ...Source) Row {
	r.elsewhere = &Outcome{class, retryable, status}
	return r.or(sources...)
}

// index is the catalogue in the forms that it is asked for.
type index struct {
	rows       []Row // sorted by type
	byType     map[string]int
	aliases    map[string]string
	namespaces map[string]bool
}

var catalogue = newIndex(slices.Concat(
	callErrors(), runtimeErrors(), modelErrors(), accessErrors(), runErrors(), sessionErrors(), loadErrors(), workspaceErrors(),
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

// Rows returns the catalogue, sorted by type. The result belongs to the caller.
func Rows() []Row {
	rows := slices.Clone(catalogue.rows)
	for i := range rows {
		rows[i].Aliases = slices.Clone(rows[i].Aliases)
	}
	return rows
}

// Lookup returns the row of a type, with or without a leading colon. Aliases
// are not followed: see [ResolveAlias].
func Lookup(typ string) (Row, bool) {
	i, found := catalogue.byType[strings.TrimPrefix(typ, ":")]
	if !found {
		return Row{}, false
	}
	return catalogue.rows[i], true
}

// ResolveAlias returns the type that an alias stands for. Any other name is
// returned as it is, without its leading colon.
func ResolveAlias(name string) string {
	name = strings.TrimPrefix(name, ":")
	if typ, found := catalogue.aliases[name]; found {
		return typ
	}
	return name
}

// Reserved reports whether types of this namespace belong to the catalogue
// alone. Names without a namespace (the empty one) are reserved too.
func Reserved(namespace string) bool { return catalogue.namespaces[namespace] }

// NearestType returns the type or alias of the catalogue that is spelled most
// like name, or "".
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
// plugin's own: the next executor may try, and nobody is promised anything.
func rowOf(typ string) Row {
	if r, found := Lookup(typ); found {
		return r
	}
	r := row(typ, ClassSwitch, SourcePlugin, false, http.StatusBadGateway, "", "")
	return r.or(SourceRequest, SourceDownstream)
}
