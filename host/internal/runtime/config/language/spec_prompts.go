package language

var promptsBlock = Block{
	Name: "prompts",
	Doc: "system prompt of language models: the layers default, role and intent, joined by blank lines. {language}, " +
		"{style} and {max_chars} are replaced by the constraints, {schema} by the schema of the answer; a fragment " +
		"with an undefined variable is omitted",
	Attrs: []Attr{
		{
			Name: "default", Type: layered, Reload: ReloadUse, Serves: "PRM-001, PRM-002",
			Doc: "first layer of every prompt",
		},
		{
			Name: "roles", Type: Type{Kind: KindMap, Elem: &layered}, Default: `{}`, Reload: ReloadUse,
			Serves: "PRM-001, PRM-008",
			Doc:    "layers by prompt role",
		},
		{
			Name: "intents", Type: Type{Kind: KindMap, Elem: &layered}, Default: `{}`, Reload: ReloadUse,
			Serves: "PRM-001",
			Doc:    "layers by intent, such as \"text/respond\"",
		},
		{
			Name: "fragments", Type: Type{Kind: KindMap, Elem: &layered}, Default: `{}`, Reload: ReloadUse,
			Serves: "PRM-002",
			Doc:    "named texts that layers may reference",
		},
		{
			Name: "allowed", Type: Type{Kind: KindMap, Elem: ptr(set(text))}, Default: `{}`, Reload: ReloadUse,
			Serves: "PRM-008",
			Doc: "by prompt role, the keys that an answer of a language model may have; a role without an " +
				"entry is not restricted",
		},
		{
			Name: "language_packs", Type: list(readFiles).atMost(maxLanguagePacks), Default: `[]`, Reload: ReloadUse,
			Serves: "TXT-006",
			Doc: "files of further languages for text checks and clean-up, below the root, in the format " +
				"of sdk/text/packs; a pack replaces the shipped pack of the same language. Plugins that " +
				"use language packs have a setting of their own",
		},
	},
}

// maxLanguagePacks is the maximum number of language packs in a configuration.
const maxLanguagePacks = 32
