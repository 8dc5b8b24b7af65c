package language

// routing has the attributes of the router block that a profile can override.
var routing = []Attr{
	{
		Name: "meta", Type: boolean, Reload: ReloadUse, Serves: "RTE-004, RTE-007",
		Doc: "whether a router is asked for a decision ahead of the plan; unset: none is",
	},
	{
		Name: "strict", Type: boolean, Reload: ReloadUse, Serves: "RTE-007",
		Doc: "whether an act fails if its router gives no usable decision, unless on_error says",
	},
	{
		Name: "force", Type: boolean, Reload: ReloadUse, Serves: "RTE-006",
		Doc: "whether a decision may replace the capability that a request pins, and gates by weaker ones",
	},
	{
		Name: "on_error", Type: enum("fail-open", "fail-closed"), Reload: ReloadUse, Serves: "RTE-007",
		Doc: "fail-open: without a usable decision an act goes on with its own candidates; fail-closed: it fails with " +
			":route/decide-failed; default: as strict says",
	},
	{
		Name: "intent", Type: ref("intent"), Reload: ReloadUse, Serves: "RTE-004",
		Doc: "intent of the router; default: route/decide",
	},
	{
		Name: "capability", Type: ref("capability"), Reload: ReloadUse, Serves: "RTE-004",
		Doc: "capability that is asked first; default: the first candidate of the intent",
	},
}

// roleMap is a map from intents or capabilities to prompt roles.
var roleMap = Type{Kind: KindMap, Elem: &text}

// routerBlock configures meta routing.
var routerBlock = Block{
	Name: "router",
	Doc: "a capability, often a small language model, chooses the candidate for an act before its plan runs; with " +
		"meta = false only for requests with :routing {:meta? true}",
	Attrs: append([]Attr{
		{
			Name: "meta_intents", Type: list(ref("intent")).atMost(1024), Default: `["text/respond"]`, Reload: ReloadUse,
			Serves: "RTE-004",
			Doc:    "intents whose acts are routed",
		},
		{
			Name: "meta_share", Type: number(0.01, 1), Default: `0.2`, Reload: ReloadUse, Serves: "RTE-004",
			Doc: "part of the time and of the tokens of an act that its router may use",
		},
		{
			Name: "profile", Type: text, Default: `"default"`, Reload: ReloadUse, Serves: "RTE-007",
			Doc: "profile of requests that name none; default, low-latency and strict-meta exist without a block",
		},
		{
			Name: "capability_role", Type: roleMap, Default: `{}`, Reload: ReloadUse, Serves: "RTE-003",
			Doc: "prompt roles by capability; weaker than the role of a capability block",
		},
		{
			Name: "intent_role", Type: roleMap, Default: `{}`, Reload: ReloadUse, Serves: "RTE-003",
			Doc: "prompt roles by intent; weaker than the role of an intent block",
		},
		{
			Name: "intent_default_role", Type: roleMap, Default: `{}`, Reload: ReloadUse, Serves: "RTE-003",
			Doc: "prompt roles by intent that replace only the built-in ones",
		},
		{
			Name: "capability_model_key", Type: roleMap, Default: `{}`, Reload: ReloadUse, Serves: "RTE-003",
			Doc: "model keys by capability; weaker than the model_key of a capability block",
		},
		{
			Name: "intent_model_key", Type: roleMap, Default: `{}`, Reload: ReloadUse, Serves: "RTE-003",
			Doc: "model keys by intent; weaker than the model_key of an intent block",
		},
		{
			Name: "intent_default_model_key", Type: roleMap, Default: `{}`, Reload: ReloadUse, Serves: "RTE-003",
			Doc: "model keys by intent that hold where nothing else gives one",
		},
	}, routing...),
	Blocks: []Block{{
		Name: "profile", Label: LabelIdent, Doc: "settings of requests that name this profile; they override those of the router block",
		Attrs: routing,
	}},
}
