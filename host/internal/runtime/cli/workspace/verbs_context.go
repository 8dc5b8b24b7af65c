package workspace

import "github.com/fermenthq/ferment/sdk/edn"

var (
	states  = []string{"fresh", "stale", "invalid", "deleted"}
	origins = []string{"authored", "extracted", "synthesized", "generated"}
)

var contextVerbs = []verb{
	{
		words: "context get-node", use: "[NODE]", short: "print a node and its frames",
		long: "get-node prints a node with the frames that a view selects. --combine prints the texts of the frames\n" +
			"alone, one after the other.",
		examples: []string{"README.md", "src --max-frames 3 --ordering type", "README.md --combine"},
		takes:    [2]int{0, 1}, args: nodeOrRoot, agent: reader, reads: true,
		flags: []flag{
			{
				name:  "view",
				kind:  kindNameOrEDN,
				usage: "`VIEW`: default, heads, history, fresh, by-type, by-agent, one of the configuration, or EDN",
			},
			frameType,
			maxFrames,
			{name: "max-bytes", key: "max-bytes", kind: kindInt, usage: "maximum size of the texts in bytes (default 1 MiB)"},
			{
				name:  "ordering",
				key:   "ordering",
				kind:  kindWord,
				words: []string{"recency", "type", "agent"},
				usage: "order of the frames",
			},
			{name: "include-deleted", usage: "also a node that was deleted"},
			{name: "combine", usage: "print only the texts of the frames"},
			{name: "separator", kind: kindText, usage: "`TEXT` between combined frames (default: an empty line)"},
		},
		finish: viewed, text: nodeText, perform: getNode,
	},
	{
		words: "context put-frame", use: "NODE FILE", short: "append a frame to a node",
		long: "put-frame appends a text about a node. FILE may be - for standard input. The same text again is a success\n" +
			"that changes nothing. The setting max_frame is the limit of a text; with a daemon it is at most 1 MiB,\n" +
			"or 768 KiB if it is not UTF-8.",
		examples: []string{"README.md note.txt --type note", "README.md - --type note --meta ticket=T-9 < note.txt"},
		takes:    [2]int{2, 2}, args: nodeAndFile, agent: writer,
		flags: []flag{
			{name: "type", key: "frame/type", kind: kindText, usage: "type of the frame (default note)"},
			{
				name:  "content-type",
				key:   "content/type",
				kind:  kindText,
				usage: "media type of the text, such as `text/markdown`",
			},
			{name: "meta", key: "meta", kind: kindPairs, usage: "`KEY=VALUE` of the metadata; may be repeated"},
			{
				name:  "expect-head",
				kind:  kindText,
				usage: "fail unless this `ID` is the head; none: unless there is no head",
			},
		},
		finish: putDefaults, text: putText,
	},
	{
		words: "context list-frames", use: "[NODE]", short: "list the frames of a node, newest first",
		examples: []string{"README.md", "src --type digest --state stale --limit 20"},
		takes:    [2]int{0, 1}, args: nodeOrRoot, agent: reader, reads: true,
		flags: []flag{
			frameType,
			{name: "by", key: "agent", kind: kindText, usage: "only frames of this `AGENT`"},
			{name: "origin", key: "origin", kind: kindWord, words: origins, usage: "only frames of this origin"},
			{name: "state", key: "state", kind: kindWord, words: states, usage: "only heads in this state"},
			limit, cursor,
		},
		text: framesText,
	},
	{
		words: "context get-head", use: "[NODE]", short: "print the current frame of a type",
		examples: []string{"README.md --type note", "src --type digest --json"},
		takes:    [2]int{0, 1}, args: nodeOrRoot, agent: reader, reads: true,
		flags:  []flag{frameType},
		finish: needsType, text: headText,
	},
	{
		words: "context history", use: "[NODE]", short: "list the states that a path has had, with their frames",
		examples: []string{"README.md", "src --type digest --limit 5"},
		takes:    [2]int{0, 1}, args: nodeOrRoot, agent: reader, reads: true,
		flags: []flag{frameType, limit, cursor},
		text:  historyText,
	},
	{
		words: "context synthesize", use: "[NODE]", short: "make the frame of a directory from those of its children",
		long: "synthesize makes one frame of a directory from the heads of its direct children. With --recursive the\n" +
			"directories below are made first where they have none.",
		examples: []string{
			"src --type digest",
			". --type digest --recursive",
			"src --type digest --policy summarize",
		},
		takes: [2]int{0, 1}, args: nodeOrRoot, calls: true, agent: synthesis, takesLong: true,
		flags: []flag{
			frameType,
			{name: "into", key: "into", kind: kindText, usage: "type of the new frame, if --type is * (default all)"},
			{name: "policy", kind: kindNameOrEDN, usage: "`POLICY`: concatenate, summarize, filter, or EDN of any kind"},
			{name: "recursive", usage: "make the directories below first"},
			{
				name:  "order",
				key:   "order",
				kind:  kindWord,
				words: []string{"node", "name"},
				usage: "order of the children in the text; with --binds inputs always name",
			},
			{
				name:  "binds",
				key:   "binds",
				kind:  kindWord,
				words: []string{"node", "inputs"},
				usage: "what the frame depends on",
			},
			{
				name:  "on-stale",
				key:   "on-stale",
				kind:  kindWord,
				words: []string{"use", "exclude", "fail"},
				usage: "what to do about stale frames of children",
			},
			{name: "force", key: "force?", usage: "run the policy again"},
		},
		finish: synthesisInput, text: synthesizeText,
	},
	{
		words: "context regenerate", use: "[NODE]", short: "make frames again whose inputs changed",
		long: "regenerate makes the frames of a node again that are not fresh, from their stored recipes, and no others.\n" +
			"It compares them with the tree of the last scan: run \"ferment workspace scan\" after a change. Authored\n" +
			"frames cannot be made again; they are listed.",
		examples: []string{
			". --recursive",
			"src --type digest --up root",
			". --recursive --type digest --missing create",
		},
		takes: [2]int{0, 1}, args: nodeOrRoot, calls: true, agent: synthesis, takesLong: true,
		flags: []flag{
			recursive, onlyTypes,
			{name: "frame", key: "frame/id", kind: kindText, usage: "only this frame, by `ID`"},
			{name: "up", key: "up", kind: kindUp, usage: "how far above NODE to go: none, root, `LEVELS` or a path"},
			{name: "stop-at", key: "stop-at", kind: kindPaths, usage: "leave this `DIR` as it is; may be repeated"},
			{name: "force", key: "force?", usage: "make fresh frames again too"},
			{
				name:  "missing",
				key:   "missing",
				kind:  kindWord,
				words: []string{"create", "skip"},
				usage: "what to do about directories without a frame",
			},
			{
				name:  "generated",
				key:   "generated",
				kind:  kindWord,
				words: []string{"call", "skip"},
				usage: "what to do about frames that a model wrote",
			},
			{name: "policy", kind: kindNameOrEDN, usage: "`POLICY` of frames that --missing create makes"},
		},
		finish: withPolicy, text: regenerateText, negative: someFailed,
	},
	{
		words: "context invalidate", use: "[NODE]", short: "mark frames as invalid until they are made again",
		examples: []string{"src --recursive --type digest", "README.md"},
		takes:    [2]int{0, 1}, args: nodeOrRoot, agent: writer,
		flags: []flag{
			recursive, onlyTypes,
			{name: "frame", key: "frame/id", kind: kindText, usage: "only this frame, by `ID`"},
		},
		text: invalidateText,
	},
	{
		words: "context compose", use: "[NODE]", short: "select and order frames from a node and its surroundings",
		examples: []string{
			"README.md --source current --source parent",
			"src --query 'flag parsing' --order relevance --max-frames 5",
			"src --ids",
		},
		takes: [2]int{0, 1}, args: nodeOrRoot, calls: true, agent: reader, reads: true,
		flags: []flag{
			{
				name:  "source",
				kind:  kindTexts,
				usage: "`SOURCE` of frames: current, parent, siblings, or a path or id of a related node; may be repeated",
			},
			{
				name:  "order",
				kind:  kindNameOrEDN,
				usage: "`ORDER`: recency, relevance, or EDN such as '[:type-priority [\"note\"]]'",
			},
			{name: "query", key: "query", kind: kindText, usage: "`TEXT` that the order relevance compares with"},
			{
				name:  "filter",
				kind:  kindTexts,
				usage: "filter as `EDN`, such as '[:type #{\"note\"}]'; may be repeated",
			},
			frameType, maxFrames,
			{name: "max-bytes", key: "max-bytes", kind: kindInt, usage: "maximum size of the texts in bytes (default 1 MiB)"},
			{name: "ids", usage: "print only the ids of the frames"},
		},
		finish: composed, text: composeText,
	},
	{
		words: "context generate", use: "[NODE]", short: "have a model, or an extractor, write a frame",
		long: "generate renders the prompt of the agent for a file or a directory, calls a model through the host, and\n" +
			"appends the answer as a frame. With equal inputs no model is called again. --producer makes a frame from\n" +
			"the file without a model.",
		examples: []string{
			"README.md --producer extract/text --type outline",
			"README.md --type summary --stream",
			". --recursive --type summary --plan",
		},
		takes: [2]int{0, 1}, args: nodeOrRoot, calls: true, agent: writer, takesLong: true,
		flags: []flag{
			frameType,
			{name: "model", key: "model", kind: kindHandle, usage: "`PROVIDER/MODEL` to ask first"},
			{name: "intent", key: "intent", kind: kindWord, usage: "`INTENT` to call (default context/summarize)"},
			{name: "prompt", key: "prompt", kind: kindText, usage: "`TEXT` in place of the prompt of the agent"},
			{
				name:  "producer",
				key:   "producer",
				kind:  kindWord,
				words: []string{"auto", "generate", "extract/text", "extract/facts", "extract/go-outline"},
				usage: "what writes the frame (default: a model if one is named, else an extractor)",
			},
			recursive,
			{name: "force", key: "force?", usage: "call the model again for equal inputs"},
			{
				name:  "if-model-changed",
				key:   "if-model-changed?",
				usage: "call the model again if another model wrote the frame",
			},
			{name: "accept-truncated", key: "accept-truncated?", usage: "keep an answer that was cut"},
			{
				name:  "priority",
				key:   "priority",
				kind:  kindWord,
				words: []string{"urgent", "high", "normal", "low"},
				usage: "order among many targets",
			},
			{name: "concurrency", key: "concurrency", kind: kindInt, usage: "calls at once (default 3)"},
			{
				name:  "on-failure",
				key:   "on-failure",
				kind:  kindWord,
				words: []string{"continue", "stop-level", "stop"},
				usage: "what to do after a failed target",
			},
			{name: "stream", usage: "print the text as it arrives"},
			{name: "plan", usage: "have the host run a plan with a node per target, which it can resume"},
		},
		finish: generated, text: generateText, negative: someFailed, perform: generate,
	},
	{
		words: "context batch", use: "FILE", short: "call many intents at once",
		long: "batch calls the intents of a list {:intent :context/... :input {...}} and prints their results in order.\n" +
			"FILE is EDN, or JSON if its name ends in .json; - is standard input.",
		examples: []string{"calls.edn", "calls.edn --concurrency 8 --edn", "puts.edn --atomic"},
		takes:    [2]int{1, 1}, args: items, calls: true, agent: synthesis, takesLong: true,
		flags: []flag{
			{name: "atomic", key: "atomic?", usage: "one transaction, all or none; only put-frame and invalidate"},
			{name: "concurrency", key: "concurrency", kind: kindInt, usage: "calls at once (default 4)"},
		},
		text: batchText, negative: func(_ *invocation, out edn.Value) bool { return number(out.Key("failed")) > 0 },
	},
	{
		words: "context diff", use: "A [B]", short: "compare two states of a workspace",
		long: "diff compares two states: numbers of transactions, names of snapshots, files of exports, or current (the\n" +
			"default of B). A file is written with a slash, such as ./context.frm. Entries that an\n" +
			"export leaves out are not differences. With --exit-code the exit code is 1 if the states differ.",
		examples: []string{"2 current", "run-17 --content", "run-17 --path src --exit-code", "./context.frm"},
		takes:    [2]int{1, 2}, args: compared, agent: reader, takesLong: true,
		flags: []flag{
			part, onlyTypes,
			{name: "content", key: "content?", usage: "also the texts of frames as unified diffs"},
			{name: "exit-code", usage: "exit with 1 if the states differ"},
		},
		text:     diffText,
		negative: func(in *invocation, out edn.Value) bool { return in.set("exit-code") && differs(out) },
	},
	{
		words: "context report", short: "report coverage, states, models and findings",
		long: "report prints the same bytes for the same state. --fail-on exits with 1 after the report if one of its\n" +
			"conditions holds: invalid, stale, missing:TYPE, authored-stale, coverage:TYPE<N, inexact, joined by commas.\n" +
			"invalid counts heads that context invalidate marked, and damage of the store, which it checks in full.",
		examples: []string{"", "--section coverage --json", "--fail-on invalid,stale", "--path src -o markdown"},
		agent:    reader, reads: true, takesLong: true, forms: []string{"markdown", "junit"},
		flags: []flag{
			part,
			{name: "section", key: "sections", kind: kindTexts, usage: "only this `SECTION`; may be repeated"},
			{
				name:  "fail-on",
				key:   "fail-on",
				kind:  kindText,
				usage: "`CONDITIONS` under which the command exits with 1",
			},
			{name: "template", kind: kindText, usage: "`FILE` with a Go text template for the report"},
		},
		finish: reported, text: reportText, perform: report,
		negative: func(_ *invocation, out edn.Value) bool { return failedOn(out) },
	},
	{
		words: "context agents list", intent: "context/agents", short: "list the agents",
		examples: []string{"", "--json"}, agent: reader, fixed: kw("op", "list"), text: agentsText,
	},
	{
		words: "context agents show", intent: "context/agents", use: "AGENT", short: "show one agent",
		examples: []string{"writer"}, fixed: kw("op", "show"), takes: [2]int{1, 1}, args: text("agent/id"),
		text: agentsText,
	},
	{
		words:    "context agents validate",
		intent:   "context/agents",
		use:      "[AGENT]",
		short:    "check that agents can do what they declare",
		examples: []string{""}, fixed: kw("op", "validate"), takes: [2]int{0, 1}, args: text("agent/id"),
		text:     agentsText,
		negative: func(_ *invocation, out edn.Value) bool { return unsound(out) },
	},
}
