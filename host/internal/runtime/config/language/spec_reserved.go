package language

import "slices"

// Reserved is a block or attribute that this build rejects, because it lacks the feature or because
// the feature is configured elsewhere. Nothing is accepted and ignored.
type Reserved struct {
	path string   // block types and attribute, with dots
	What string   // the feature, as the subject of a sentence
	Only []string // supported values; empty: none
	// Instead is a hint that names what configures the feature; empty if this build lacks it.
	Instead string
}

// Partly reports whether some values are supported.
func (r Reserved) Partly() bool { return len(r.Only) > 0 }

// reservedTable has everything that this build rejects. A build that gets a feature removes its
// rows.
var reservedTable = []Reserved{
	{path: "cluster", What: "running on several hosts"},
	{
		path:    "workspace",
		What:    "the context engine is configured by its plugin",
		Instead: `write its settings into plugin "workspace" { config { … } }`,
	},
	{path: "error", What: "declaring error types"},

	{path: "store.keep_reasoning", What: "leaving reasoning out of the journal"},
	{path: "store.reserve", What: "another reserve of space"},
	{path: "store.inline_max", What: "another limit of values in the database"},

	{path: "telemetry.fold", What: "another rate above which log lines are folded"},

	{path: "http.console", What: "the console"},
}

// ReservedNamespaces are the namespaces of Ferment. Labels that declare a name must not use them
// (HCL-027).
var ReservedNamespaces = []string{"ferment", "session", "conversation"}

// ReservedNamespace reports whether a namespace is one of ReservedNamespaces.
func ReservedNamespace(name string) bool { return slices.Contains(ReservedNamespaces, name) }

// ReservedAt returns the reserved name at a dotted path; false if the path is not reserved.
func ReservedAt(path string) (Reserved, bool) {
	for _, r := range reservedTable {
		if r.path == path {
			return r, true
		}
	}
	return Reserved{}, false
}
