package language

import "time"

// coercions returns the conversions of session variables that are bound to parts of a request.
func coercions() []string {
	return []string{"identity", "keyword", "string", "trimmed-string", "keyword-or-string"}
}

// namespaces is the type of the namespaces of session variables.
var namespaces = set(text).between(0, 256)

// sessionBlock configures sessions and their variables. Its defaults are permissive in the profiles
// for development.
var sessionBlock = Block{
	Name: "session", Doc: "sessions and their variables",
	Attrs: []Attr{
		{
			Name: "max_hot", Type: integer(1, 100_000), Default: `32`, Reload: ReloadUse, Serves: "SES-020",
			Doc: "maximum number of sessions that are not frozen; beyond it the least recently used ones are frozen, except " +
				"those with a run",
		},
		{
			Name: "idle_ttl", Type: dur(time.Second, longest), Default: `"15m"`, Reload: ReloadUse, Serves: "SES-020",
			Doc: "time without use after which a session is frozen",
		},
		{
			Name: "sweep", Type: dur(time.Second, day), Default: `"60s"`, Reload: ReloadUse, Serves: "SES-012",
			Doc: "interval in which expired variables are deleted; they are invisible before",
		},
		{
			Name: "window_turns", Type: integer(0, 1000), Default: `16`, Reload: ReloadUse, Serves: "SES-016",
			Doc: "maximum number of turns of a session that an act receives",
		},
		{
			Name: "window_chars", Type: integer(0, 10_000_000), Default: `20000`, Reload: ReloadUse, Serves: "SES-016",
			Doc: "maximum number of characters of these turns; earlier turns are left out as a whole",
		},
		{
			Name: "summary_chars", Type: integer(1, 12_000), Default: `1200`, Reload: ReloadUse, Serves: "SES-016",
			Doc: "maximum length in characters of the summary of turns that no longer fit, which context/summarize makes",
		},
	},
	Blocks: []Block{
		{
			Name: "vars", Doc: "session variables",
			Attrs: append([]Attr{
				{
					Name: "require_qualified", Type: boolean, Default: `true`, Profiles: development(`false`),
					Reload: ReloadUse, Serves: "SES-010", Doc: "whether the name of a variable needs a namespace",
				},
				{
					Name: "allowed_namespaces", Type: namespaces, Default: `["session", "request", "conversation", "project"]`,
					Profiles: development(``), Reload: ReloadUse, Serves: "SES-010",
					Doc: "namespaces that names may have; without it, any",
				},
				{
					Name: "max_vars", Type: integer(0, 100_000), Default: `256`, Reload: ReloadUse, Serves: "SES-010",
					Doc: "maximum number of variables in a session",
				},
				{
					Name: "max_key_chars", Type: integer(1, 1000), Default: `191`, Reload: ReloadUse, Serves: "SES-010",
					Doc: "maximum length of a name in characters",
				},
				{
					Name: "max_value", Type: size(0, mib), Default: `"128KiB"`, Reload: ReloadUse, Serves: "SES-010",
					Doc: "maximum size of a value as EDN",
				},
				{
					Name: "default_class", Type: ref("class"), Default: `"durable"`, Reload: ReloadUse, Serves: "SES-012",
					Doc: "class of variables whose namespace no class has",
				},
			}, lifetimes([4]string{`"0s"`, `"7d"`, `false`, `false`}, development(`true`))...),
		},
		{
			Name: "class", Label: LabelIdent,
			Doc: "a class of variables; durable exists without a block, and ephemeral in profiles with restrictive variables",
			Attrs: append([]Attr{{
				Name: "namespaces", Type: namespaces, Default: `[]`, Reload: ReloadUse, Serves: "SES-012",
				Doc: "namespaces whose variables have this class",
			}}, lifetimes([4]string{}, nil)...),
		},
		{
			Name: "policy",
			Doc:  "namespaces that may be read, written and deleted; an intent replaces an operation, which replaces default",
			Blocks: []Block{
				{Name: "default", Doc: "every use of variables", Attrs: access()},
				{Name: "operation", Label: LabelQualified, Refers: true, Doc: "one operation, such as act/defaults or session/put-var; it holds for session/put-vars too, as far as that has no block of its own", Attrs: access()},
				{Name: "intent", Label: LabelQualified, Doc: "uses on behalf of one intent", Attrs: access()},
			},
		},
		{
			Name: "binding", Label: LabelQualified, Refers: true, Doc: "a variable that fills a part of an act's request which is not set",
			Attrs: []Attr{
				{
					Name: "target", Type: list(text).between(1, 8), Required: true, Reload: ReloadUse, Serves: "SES-014",
					Doc: `path in the request, such as ["constraints", "language"]`,
				},
				{
					Name: "coerce", Type: enum(coercions()...), Default: `"identity"`, Reload: ReloadUse, Serves: "SES-014",
					Doc: "conversion of the value",
				},
				{
					Name: "required", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "SES-014",
					Doc: "true: the act fails if the variable is set and its value is denied or has the wrong type; false: a " +
						"warning of the act reports it",
				},
			},
		},
	},
}

// development returns a default for the profiles for development.
func development(def string) map[string]string {
	return map[string]string{ProfileDev: def, ProfileTest: def}
}

// lifetimes returns the attributes of a class, with defaults or with those of vars.
func lifetimes(def [4]string, frozen map[string]string) []Attr {
	suffix := ""
	if def[0] == "" {
		suffix = "; default: that of vars"
	}
	return []Attr{
		{Name: "default_ttl", Type: dur(0, longest), Default: def[0], Reload: ReloadUse, Serves: "SES-012", Doc: "lifetime of a variable that is written without one; 0s: it does not expire" + suffix},
		{Name: "max_ttl", Type: dur(0, longest), Default: def[1], Reload: ReloadUse, Serves: "SES-012", Doc: "longest lifetime that can be asked for; 0s: any" + suffix},
		{Name: "frozen_write", Type: boolean, Default: def[2], Profiles: frozen, Reload: ReloadUse, Serves: "SES-013", Doc: "whether variables of a frozen session can be written" + suffix},
		{Name: "frozen_delete", Type: boolean, Default: def[3], Profiles: frozen, Reload: ReloadUse, Serves: "SES-013", Doc: "whether variables of a frozen session can be deleted" + suffix},
	}
}

func access() []Attr {
	of := func(name, doing string) Attr {
		return Attr{
			Name: name, Type: namespaces, Reload: ReloadUse, Serves: "SES-011",
			Doc: "namespaces that may be " + doing + "; not set: as in the replaced block, finally any",
		}
	}
	return []Attr{of("read_namespaces", "read"), of("write_namespaces", "written"), of("delete_namespaces", "deleted")}
}
