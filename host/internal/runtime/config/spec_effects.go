package config

import "time"

// scopeAttrs are the attributes that the scope of one effect has. A scope that
// narrows another has no defaults: what it does not say it inherits.
func scopeAttrs(effect string, narrows bool) []Attr {
	attrs := []Attr{
		{Name: "enabled", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "FX-001", Doc: "false wins over every other place"},
	}
	if !narrows {
		attrs = append(attrs, Attr{Name: "on_unknown", Type: enum("suspend", "fail", "retry", "assume-done"), Default: `"suspend"`, Reload: ReloadUse, Serves: "JRN-041"})
	}
	timeout := func(d string) Attr {
		return Attr{Name: "timeout", Type: dur(time.Millisecond, 10*time.Minute), Default: d, Reload: ReloadUse, Serves: "FX-002", Doc: "of a call that names none"}
	}
	files := []Attr{
		{Name: "roots", Type: list(path), Default: `[]`, Reload: ReloadUse, Serves: "FX-001", Doc: "directories; paths of calls are relative to one of them"},
		{Name: "allow", Type: list(text), Default: `[]`, Reload: ReloadUse, Serves: "FX-001", Doc: "prefixes below a root, \".\" for all of it"},
		{Name: "max_bytes", Type: size(0, tib), Default: `"8MiB"`, Reload: ReloadUse, Serves: "FX-001", Doc: "of one file"},
	}
	switch effect {
	case "fs/read":
		attrs = append(attrs, files...)
	case "fs/write":
		attrs = append(append(attrs, files...),
			Attr{Name: "mkdirs", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "FX-001", Doc: "calls may make directories"},
			Attr{Name: "append", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "FX-001", Doc: "calls may append, which is done once and never repeated"})
	case "process/run":
		attrs = append(attrs,
			Attr{Name: "allow_commands", Type: list(path), Default: `[]`, Reload: ReloadUse, Serves: "FX-001", Doc: "programs; PATH is never asked"},
			Attr{Name: "allow_cwd", Type: list(path), Default: `[]`, Reload: ReloadUse, Serves: "FX-001", Doc: "directories in and below which programs run, and which they may read and write"},
			Attr{Name: "arguments", Type: Type{Kind: KindMap, Elem: ptr(list(text))}, Default: `{}`, Reload: ReloadUse, Serves: "FX-001", Doc: "for a program, patterns (RE2) of which every argument fits one as a whole"},
			Attr{Name: "env_pass", Type: list(variable), Default: `[]`, Reload: ReloadUse, Serves: "FX-001", Doc: "variables of the plugin that programs get, and that calls may set"},
			timeout(`"30s"`),
			Attr{Name: "max_timeout", Type: dur(time.Millisecond, 10*time.Minute), Default: `"10m"`, Reload: ReloadUse, Serves: "FX-001", Doc: "the longest that a call may ask for"},
			Attr{Name: "max_output", Type: size(0, 8*mib), Default: `"1MiB"`, Reload: ReloadUse, Serves: "FX-001", Doc: "of each of the two streams; the rest is dropped"},
			Attr{Name: "memory", Type: size(mib, tib), Default: `"512MiB"`, Reload: ReloadUse, Serves: "FX-001", Doc: "of each process"},
			Attr{Name: "processes", Type: integer(1, 100_000), Default: `16`, Reload: ReloadUse, Serves: "FX-001", Doc: "processes and threads of one call"})
	case "net/http":
		attrs = append(attrs,
			Attr{Name: "hosts", Type: list(text), Default: `[]`, Reload: ReloadUse, Serves: "FX-001", Doc: "names, addresses or *.suffix"},
			Attr{Name: "schemes", Type: list(enum("https", "http")), Default: `["https"]`, Reload: ReloadUse, Serves: "FX-001"},
			Attr{Name: "ports", Type: list(integer(1, 65535)), Default: `[443]`, Reload: ReloadUse, Serves: "FX-001"},
			Attr{Name: "methods", Type: list(enum("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")), Default: `["GET", "HEAD"]`, Reload: ReloadUse, Serves: "FX-001"},
			Attr{Name: "redirects", Type: integer(0, 10), Default: `5`, Reload: ReloadUse, Serves: "FX-001", Doc: "followed at most; each is judged like the request"},
			timeout(`"10s"`),
			Attr{Name: "max_bytes", Type: size(0, 12*mib), Default: `"4MiB"`, Reload: ReloadUse, Serves: "FX-001", Doc: "of an answer"},
			Attr{Name: "allow_private", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "FX-005", Doc: "addresses of private networks and of this machine"},
			Attr{Name: "idempotency_header", Type: text, Reload: ReloadUse, Serves: "JRN-041", Doc: "carries the effect key, so that a receiver that knows it can tell a repetition"})
	}
	if narrows {
		for i := range attrs {
			attrs[i].Default = ""
		}
	}
	return attrs
}

func ptr(t Type) *Type { return &t }

// scopeBlock is a block with the attributes of the effect that it is labelled
// with.
func scopeBlock(doc string, narrows bool) Block {
	b := Block{Name: "scope", Label: LabelQualified, Doc: doc}
	for _, effect := range []string{"fs/read", "fs/write", "process/run", "net/http"} {
		b.Variants = append(b.Variants, Block{Name: "scope", Label: LabelQualified, Only: effect, Doc: doc, Attrs: scopeAttrs(effect, narrows)})
	}
	return b
}

// ruleAttrs say who may do a thing (AUTH-010).
func ruleAttrs(serves string) []Attr {
	roles := set(ref("role"))
	return []Attr{
		{Name: "any", Type: roles, Reload: ReloadUse, Serves: serves, Doc: "one of them is enough"},
		{Name: "all", Type: roles, Reload: ReloadUse, Serves: serves, Doc: "all of them are needed"},
		{Name: "forbidden", Type: roles, Reload: ReloadUse, Serves: serves, Doc: "one of them denies"},
	}
}

var effectsBlock = Block{
	Name: "effects", Doc: "what calls may change or read in the world, and who may let them",
	Attrs: []Attr{
		{Name: "enforcement", Type: enum("strict", "best-effort"), Default: `"strict"`, Profiles: map[string]string{ProfileDev: `"best-effort"`}, Reload: ReloadUse, Serves: "FX-005", Doc: "strict refuses what the kernel cannot hold"},
	},
	Blocks: []Block{
		{Name: "rule", Label: LabelQualified, Doc: "which roles may have the effect, instead of the shipped rule", Attrs: ruleAttrs("AUTH-010, AUTH-011")},
		scopeBlock("the bounds of one effect; without an enabled one the effect is off", false),
		{Name: "secret", Label: LabelIdent, Doc: "a secret that requests name as #ferment/secret and never see", Attrs: []Attr{
			{Name: "value", Type: Type{Kind: KindSecret}, Required: true, Reload: ReloadPlugin, Serves: "FX-011"},
			{Name: "hosts", Type: list(text), Default: `[]`, Reload: ReloadPlugin, Serves: "FX-011", Doc: "that it may go to"},
			{Name: "header", Type: text, Reload: ReloadPlugin, Serves: "FX-011", Doc: "the only header that it may stand in; default: any"},
		}},
		{Name: "db", Label: LabelIdent},
	},
}

var roleBlock = Block{
	Name: "role", Label: LabelImplied, Doc: "a role, and narrower bounds for everybody who has it",
	Attrs: []Attr{
		{Name: "doc", Type: text, Reload: ReloadUse, Serves: "AUTH-006"},
		{Name: "intents", Type: set(text), Default: `[]`, Reload: ReloadUse, Serves: "AUTH-006"},
		{Name: "max_priority", Type: integer(-9, 9), Default: `0`, Reload: ReloadUse, Serves: "RUN-011"},
	},
	Blocks: []Block{scopeBlock("narrower than that of effects", true)},
}
