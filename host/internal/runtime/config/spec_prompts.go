package config

var promptsBlock = Block{
	Name: "prompts", Doc: "what language models are told: the layers are joined in the order default, role, intent, with a blank line between them. {language}, {style} and {max_chars} are those of the constraints, {schema} is that of the answer; a fragment that lacks one is left out",
	Attrs: []Attr{
		{Name: "default", Type: layered, Reload: ReloadUse, Serves: "PRM-001, PRM-002", Doc: "of every prompt"},
		{Name: "roles", Type: Type{Kind: KindMap, Elem: &layered}, Default: `{}`, Reload: ReloadUse, Serves: "PRM-001, PRM-008", Doc: "by role"},
		{Name: "intents", Type: Type{Kind: KindMap, Elem: &layered}, Default: `{}`, Reload: ReloadUse, Serves: "PRM-001", Doc: "by intent, as \"text/respond\""},
		{Name: "fragments", Type: Type{Kind: KindMap, Elem: &layered}, Default: `{}`, Reload: ReloadUse, Serves: "PRM-002", Doc: "named, for layers to share"},
		{Name: "allowed", Type: Type{Kind: KindMap, Elem: ptr(set(text))}, Default: `{}`, Reload: ReloadUse, Serves: "PRM-008", Doc: "by role, the keys that an answer of a language model may have; a role without any may have all"},
		{Name: "language_packs", Type: list(readFiles).atMost(maxLanguagePacks), Default: `[]`, Reload: ReloadUse, Serves: "TXT-006", Doc: "files of further languages for the checks and the clean-up of texts, below the root, in the form of the packs in sdk/text/packs; one of a language that ships is used instead of it as a whole. Plugins that know languages have a setting of their own"},
	},
}
