package language

import "time"

// scopeAttrs returns the attributes of the scope block of an effect. A scope that narrows another
// one has no defaults: it inherits the attributes that it does not set.
func scopeAttrs(effect string, narrows bool) []Attr {
	attrs := []Attr{
		{
			Name: "enabled", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "FX-001",
			Doc: "false disables the effect, whatever other scopes set",
		},
	}
	if !narrows {
		attrs = append(attrs, Attr{
			Name: "on_unknown", Type: enum("suspend", "fail", "retry", "assume-done"), Default: `"suspend"`,
			Reload: ReloadUse, Serves: "JRN-041",
			Doc: "what happens to a call with this effect whose outcome is unknown, unless on_unknown of its intent is set; " +
				"of several effects the most careful value applies",
		})
	}
	timeout := func(d string) Attr {
		return Attr{
			Name: "timeout", Type: dur(time.Millisecond, 10*time.Minute), Default: d, Reload: ReloadUse,
			Serves: "FX-002",
			Doc:    "time limit of a call that sets none",
		}
	}
	files := []Attr{
		{
			Name: "roots", Type: list(path), Default: `[]`, Reload: ReloadUse, Serves: "FX-001",
			Doc: "directories; paths of calls are relative to one of them",
		},
		{
			Name: "allow", Type: list(text), Default: `[]`, Reload: ReloadUse, Serves: "FX-001",
			Doc: "allowed path prefixes below a root; \".\" allows the whole root",
		},
		{
			Name: "max_bytes", Type: size(0, tib), Default: `"8MiB"`, Reload: ReloadUse, Serves: "FX-001",
			Doc: "maximum size of a file",
		},
	}
	switch effect {
	case "fs/read":
		attrs = append(attrs, files...)
	case "fs/write":
		attrs = append(append(attrs, files...),
			Attr{
				Name: "mkdirs", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "calls may create directories",
			},
			Attr{
				Name: "append", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "calls may append to files; an append is never retried",
			})
	case "process/run":
		attrs = append(attrs,
			Attr{
				Name: "allow_commands", Type: list(path), Default: `[]`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "absolute paths of the allowed programs; PATH is not searched",
			},
			Attr{
				Name: "allow_cwd", Type: list(path), Default: `[]`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "directories in and below which programs may run, read and write",
			},
			Attr{
				Name: "arguments", Type: Type{Kind: KindMap, Elem: ptr(list(text))}, Default: `{}`, Reload: ReloadUse,
				Serves: "FX-001",
				Doc:    "by program, regular expressions (RE2); every argument must match one of them completely",
			},
			Attr{
				Name: "env_pass", Type: list(variable), Default: `[]`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "environment variables of the plugin that programs receive and calls may set",
			},
			timeout(`"30s"`),
			Attr{
				Name: "max_timeout", Type: dur(time.Millisecond, 10*time.Minute), Default: `"10m"`, Reload: ReloadUse,
				Serves: "FX-001",
				Doc:    "longest timeout that a call may set",
			},
			Attr{
				Name: "max_output", Type: size(0, 8*mib), Default: `"1MiB"`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "maximum output that is kept per stream (standard output, standard error); the rest is dropped",
			},
			Attr{
				Name: "memory", Type: size(mib, tib), Default: `"512MiB"`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "memory limit of each process",
			},
			Attr{
				Name: "processes", Type: integer(1, 100_000), Default: `16`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "maximum number of processes and threads of one call",
			})
	case "net/http":
		attrs = append(attrs,
			Attr{
				Name: "hosts", Type: list(text), Default: `[]`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "allowed host names, addresses or *.suffix patterns",
			},
			Attr{
				Name: "schemes", Type: list(enum("https", "http")), Default: `["https"]`, Reload: ReloadUse,
				Serves: "FX-001",
				Doc:    "allowed URL schemes",
			},
			Attr{
				Name: "ports", Type: list(integer(1, 65535)), Default: `[443]`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "allowed ports",
			},
			Attr{
				Name: "methods", Type: list(enum("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
				Default: `["GET", "HEAD"]`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "allowed methods",
			},
			Attr{
				Name: "redirects", Type: integer(0, 10), Default: `5`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "maximum number of redirects that are followed; each is checked like the request",
			},
			timeout(`"10s"`),
			Attr{
				Name: "max_bytes", Type: size(0, 12*mib), Default: `"4MiB"`, Reload: ReloadUse, Serves: "FX-001",
				Doc: "maximum size of a response body",
			},
			Attr{
				Name: "allow_private", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "FX-005",
				Doc: "allow addresses of private networks and of this machine",
			},
			Attr{
				Name: "idempotency_header", Type: text, Reload: ReloadUse, Serves: "JRN-041",
				Doc: "header that carries the effect key, for servers that detect repeated requests",
			})
	}
	if effect == "db/read" || effect == "db/write" {
		attrs = append(attrs, databaseAttrs(timeout(`"10s"`), effect)...)
	}
	if narrows {
		for i := range attrs {
			attrs[i].Default = ""
		}
	}
	return attrs
}

// databaseAttrs returns the attributes of the scopes of databases.
func databaseAttrs(timeout Attr, effect string) []Attr {
	attrs := []Attr{
		{
			Name: "connections", Type: list(ref("db")), Default: `[]`, Reload: ReloadUse, Serves: "FX-001",
			Doc: "names of db blocks that calls of db/query and db/exec may use",
		},
		{
			Name: "max_rows", Type: integer(0, 1_000_000), Default: `10000`, Reload: ReloadUse, Serves: "FX-001",
			Doc: "maximum number of rows of one answer",
		},
		{
			Name: "max_bytes", Type: size(0, 12*mib), Default: `"4MiB"`, Reload: ReloadUse, Serves: "FX-001",
			Doc: "maximum total size of the rows of one answer",
		},
		timeout,
	}
	if effect == "db/write" {
		attrs = append(attrs, Attr{
			Name: "ddl", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "FX-001",
			Doc: "calls may change the schema, and create the file of an SQLite database",
		})
	}
	return attrs
}

func ptr(t Type) *Type { return &t }

// scopeBlock returns the scope block, with one variant per effect.
func scopeBlock(doc string, narrows bool) Block {
	b := Block{Name: "scope", Label: LabelQualified, Doc: doc}
	for _, effect := range []string{"fs/read", "fs/write", "process/run", "net/http", "db/read", "db/write"} {
		b.Variants = append(b.Variants, Block{
			Name: "scope", Label: LabelQualified, Only: effect, Doc: doc,
			Attrs: scopeAttrs(effect, narrows),
		})
	}
	return b
}

// ruleAttrs returns the attributes of a rule: the required and the denied roles (AUTH-010).
func ruleAttrs(serves string) []Attr {
	roles := set(ref("role"))
	return []Attr{
		{Name: "any", Type: roles, Reload: ReloadUse, Serves: serves, Doc: "at least one of these roles is required"},
		{Name: "all", Type: roles, Reload: ReloadUse, Serves: serves, Doc: "all of these roles are required"},
		{Name: "forbidden", Type: roles, Reload: ReloadUse, Serves: serves, Doc: "any of these roles denies"},
	}
}

var effectsBlock = Block{
	Name: "effects", Doc: "external effects that calls may have, and the roles that allow them",
	Attrs: []Attr{
		{
			Name: "enforcement", Type: enum("strict", "best-effort"), Default: `"strict"`,
			Profiles: map[string]string{ProfileDev: `"best-effort"`}, Reload: ReloadUse, Serves: "FX-005",
			Doc: "strict rejects effects and needs that the kernel cannot enforce",
		},
	},
	Blocks: []Block{
		{
			Name: "rule", Label: LabelQualified, Doc: "roles that may use the effect; replaces the shipped rule",
			Attrs: ruleAttrs("AUTH-010, AUTH-011"),
		},
		scopeBlock("limits of one effect; an effect without an enabled scope is disabled", false),
		{Name: "secret", Label: LabelIdent, Doc: "a secret; requests reference it as #ferment/secret", Attrs: []Attr{
			{
				Name: "value", Type: Type{Kind: KindSecret}, Required: true, Reload: ReloadPlugin, Serves: "FX-011",
				Doc: "source of the secret",
			},
			{
				Name: "hosts", Type: list(text), Default: `[]`, Reload: ReloadPlugin, Serves: "FX-011",
				Doc: "hosts that may receive the secret",
			},
			{
				Name: "header", Type: text, Reload: ReloadPlugin, Serves: "FX-011",
				Doc: "the only header that may contain the secret; default: any header",
			},
		}},
		{Name: "db", Label: LabelIdent, Doc: "a database; calls reference it by its name, through the plugin db", Attrs: []Attr{
			{
				Name: "driver", Type: enum("sqlite", "postgres"), Required: true, Reload: ReloadPlugin, Serves: "FX-001",
				Doc: "kind of the database",
			},
			{
				Name: "path", Type: path, Reload: ReloadPlugin, Serves: "FX-001",
				Doc: "file of an SQLite database, in a directory without files of ferment",
			},
			{
				Name: "dsn", Type: Type{Kind: KindSecret}, Reload: ReloadPlugin, Serves: "FX-001, FX-011",
				Doc: "connection string of a PostgreSQL database, with the rights of its role",
			},
		}},
	},
}

var roleBlock = Block{
	Name: "role", Label: LabelImplied, Doc: "a role, with narrower scopes for its members",
	Attrs: []Attr{
		{Name: "doc", Type: text, Reload: ReloadUse, Serves: "AUTH-006", Doc: "description of the role"},
		{
			Name: "intents", Type: set(text).between(0, 1024), Default: `[]`, Reload: ReloadUse, Serves: "AUTH-006",
			Doc: "intents that the role is for, as names or ns/*; empty: all",
		},
		{
			Name: "max_priority", Type: integer(0, 9), Reload: ReloadUse, Serves: "RUN-011",
			Doc: "highest priority of the acts of its holders; default: 0, for operator and admin 9. The highest of all roles counts",
		},
	},
	Blocks: []Block{scopeBlock("restricts the scope of the effects block", true)},
}
