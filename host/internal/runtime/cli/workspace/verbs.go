package workspace

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// group is a command with subcommands.
type group struct{ words, short, long string }

var groupsOfVerbs = []group{
	{"workspace", "keep a Merkle tree of a directory, and the frames of its nodes",
		"workspace scans a directory into a Merkle tree and keeps the texts (frames) about its files and\n" +
			"directories: it reports, checks, repairs, watches and moves what is kept. Every command calls the intent of\n" +
			"the same name. Paths are relative to the working directory, or to the root of the workspace if the working\n" +
			"directory is outside of it (--workspace)."},
	{"workspace ignore", "list, change and explain the ignore rules of a workspace", ""},
	{"workspace snapshot", "name a state of a workspace and protect it from compaction", ""},
	{"context", "read, write and derive the frames of a workspace",
		"context reads, writes and derives frames: texts about one file or directory of a workspace. Every command\n" +
			"calls the intent of the same name.\n\n" +
			"NODE is a path, a node id, or a prefix of an id with at least 8 hexadecimal digits; write ./NAME for a file\n" +
			"whose name looks like one. Paths are relative to the working directory, or to the root of the workspace if\n" +
			"the working directory is outside of it (--workspace)."},
	{"context agents", "list, show and validate the agents of a workspace", ""},
}

// Built-in agents.
const (
	reader    = "reader"
	writer    = "writer"
	synthesis = "synthesis"
)

var (
	schemes   = []string{"b3", "s2", "git-auto", "git-sha1", "git-sha256"}
	frameType = flag{name: "type", key: "frame/type", kind: kindText, usage: "type of the frame, such as `summary`"}
	onlyTypes = flag{name: "type", key: "frame/types", kind: kindTexts, usage: "only frames of this `TYPE`; may be repeated"}
	part      = flag{name: "path", key: "path", kind: kindPath, usage: "only what is at or below this `PATH`"}
	recursive = flag{name: "recursive", key: "recursive?", usage: "also everything below NODE"}
	limit     = flag{name: "limit", key: "limit", kind: kindInt, usage: "maximum number of entries to print, up to 1000"}
	cursor    = flag{name: "cursor", key: "cursor", kind: kindText, usage: "continue after the page that printed this cursor"}
	maxFrames = flag{name: "max-frames", key: "max-frames", kind: kindInt, usage: "maximum number of frames, up to 1000 (default 100)"}
)

// onUnreadable is the flag of verbs that scan the directory.
var onUnreadable = flag{
	name:  "on-unreadable",
	key:   "on-unreadable",
	kind:  kindWord,
	words: []string{"fail", "skip"},
	usage: "what to do about unreadable entries (default fail)",
}

// kw returns an input with one keyword.
func kw(key, word string) edn.Value { return edn.MustMap(edn.K(key), edn.K(word)) }

var verbs = slices.Concat(workspaceVerbs, contextVerbs)

var workspaceVerbs = []verb{
	{
		words: "workspace init", short: "create the store of a workspace",
		long: "init creates the store of a directory. It is only needed for a scheme or a data directory other than the\n" +
			"configured ones: the first scan creates a store too.",
		examples: []string{"", "--scheme git-auto"},
		flags: []flag{
			{name: "scheme", key: "scheme", kind: kindText, words: schemes, usage: "how contents are hashed"},
			{name: "data-dir", kind: kindText, usage: "`DIR` to keep the store in, for a tree that is read-only"},
		},
		finish: dataDir,
		text:   initText,
	},
	{
		words: "workspace scan", short: "scan the directory and commit what changed",
		long: "scan reads the directory and commits the changes since the last scan as one transaction. A scan that finds\n" +
			"no change commits nothing. Where there is no store yet, it creates one.",
		examples: []string{"", "--path src --dry-run", "--progress json --edn"},
		agent:    writer, takesLong: true,
		flags: []flag{
			{name: "force", key: "force?", usage: "hash every file again, also those that look unchanged"},
			{
				name:  "path",
				key:   "paths",
				kind:  kindPaths,
				usage: "scan only this `PATH` and what is above it; may be repeated",
			},
			{
				name:  "pattern",
				key:   "patterns",
				kind:  kindTexts,
				usage: "ignore what fits this `PATTERN`, before all other rules; may be repeated",
			},
			{
				name:  "preset",
				key:   "preset",
				kind:  kindWord,
				words: []string{"build-dirs"},
				usage: "ignore the usual directories of builds",
			},
			onUnreadable,
		},
		dryRun: "dry-run?", dry: true,
		text: scanText,
	},
	{
		words: "workspace status", short: "show what a workspace holds",
		examples: []string{"", "--breakdown --coverage", "--json"},
		agent:    reader, reads: true,
		flags: []flag{
			{name: "breakdown", key: "breakdown?", usage: "also the directories with the most nodes"},
			{name: "coverage", key: "coverage?", usage: "also how many nodes have a frame of each type"},
		},
		text: statusText,
	},
	{
		words:    "workspace list-deleted",
		intent:   "workspace/status",
		short:    "list what was deleted and can be restored",
		examples: []string{"", "--older-than 90d"},
		agent:    reader, reads: true,
		fixed: edn.MustMap(edn.K("deleted"), edn.MustMap()),
		flags: []flag{
			{
				name:  "older-than",
				key:   "deleted.older-than",
				kind:  kindSpan,
				usage: "only what was deleted longer ago, such as 90d",
			},
		},
		text: deletedText,
	},
	{
		words: "workspace validate", short: "check every hash and the logical content of the store",
		long: "validate checks the store without changing it: hashes and their chain, ids, roots, heads, and the index\n" +
			"against the log. It prints every finding, and exits with 1 if the store is not valid.",
		examples: []string{"", "--quick", "--fs --json"},
		agent:    reader, takesLong: true,
		flags: []flag{
			{name: "quick", usage: "check the chain and the derived files only"},
			{name: "fs", key: "fs?", usage: "also compare the tree with the disk"},
			onUnreadable,
			{name: "rerun", key: "rerun?", usage: "also compute deterministic frames again"},
		},
		finish: func(in *invocation, input edn.Value) (edn.Value, error) {
			if in.set("quick") {
				return input.AssocKey("level", edn.K("quick")), nil
			}
			return input, nil
		},
		text:     validateText,
		negative: func(_ *invocation, out edn.Value) bool { return out.HasKey("valid?") && !out.Key("valid?").Truthy() },
	},
	{
		words: "workspace repair", short: "rebuild what is damaged from what verifies",
		long: "repair rebuilds derived files, and with a damaged log writes a new one from every transaction that still\n" +
			"verifies. It shows its plan and asks. Damaged files are moved to quarantine, nothing is discarded.",
		examples:  []string{"--dry-run", "--yes"},
		takesLong: true, dryRun: "apply?", dry: false, asks: true,
		finish: func(in *invocation, input edn.Value) (edn.Value, error) {
			if in.common.dryRun {
				return input, nil
			}
			return input.AssocKey("apply?", edn.Bool(true)), nil
		},
		text: repairText,
	},
	{
		words: "workspace watch", short: "commit changes of the directory as they happen",
		long: "watch prints one event per batch of changes until it is interrupted. With --after it resumes without gap\n" +
			"or repeat. With -o lsp it prints workspace/didChangeWatchedFiles notifications with JSON-RPC framing.",
		examples: []string{"", "--regenerate digest --up root", "--after 2 --json", "-o lsp"},
		agent:    writer, streams: true, takesLong: true, calls: true, forms: []string{formLSP},
		flags: []flag{
			{
				name:  "debounce",
				key:   "debounce",
				kind:  kindMillis,
				usage: "quiet time before a directory is scanned (default 100ms)",
			},
			{
				name:  "batch",
				key:   "batch",
				kind:  kindMillis,
				usage: "time in which changes become one transaction (default 50ms)",
			},
			{name: "after", key: "after", kind: kindInt, usage: "begin after this transaction"},
			{
				name:  "regenerate",
				key:   "regenerate.frame/types",
				kind:  kindTexts,
				usage: "regenerate frames of this `TYPE` after each batch; may be repeated",
			},
			{
				name:  "up",
				key:   "regenerate.up",
				kind:  kindUp,
				usage: "how far above a change to regenerate: none, root, `LEVELS` or a path",
			},
			{
				name:  "stop-at",
				key:   "regenerate.stop-at",
				kind:  kindPaths,
				usage: "do not regenerate this `DIR`; may be repeated",
			},
			{
				name:  "on-change",
				key:   "on-change.intent",
				kind:  kindWord,
				usage: "call this `INTENT` after each batch",
			},
			{name: "max-changes", key: "max-changes", kind: kindInt, usage: "end after this many changes"},
			onUnreadable,
		},
		finish:  watchInput,
		text:    watchText,
		perform: watch,
	},
	{
		words: "workspace ignore list", intent: "workspace/ignore", short: "list the ignore patterns of the workspace",
		examples: []string{""}, agent: reader, writes: true, fixed: kw("op", "list"), text: ignoreText,
	},
	{
		words:    "workspace ignore add",
		intent:   "workspace/ignore",
		use:      "PATTERN...",
		short:    "add patterns to the ignore list of the workspace",
		examples: []string{"'*.tmp' build/", "'*.log' --dry-run"}, agent: writer, fixed: kw("op", "add"),
		takes: [2]int{1, -1}, args: patterns, dryRun: "dry-run?", dry: true, text: ignoreText,
		flags: []flag{onUnreadable},
	},
	{
		words:    "workspace ignore remove",
		intent:   "workspace/ignore",
		use:      "PATTERN...",
		short:    "remove patterns from the ignore list of the workspace",
		examples: []string{"'*.tmp'"}, agent: writer, fixed: kw("op", "remove"),
		takes: [2]int{1, -1}, args: patterns, dryRun: "dry-run?", dry: true, text: ignoreText,
		flags: []flag{onUnreadable},
	},
	{
		words:    "workspace ignore explain",
		intent:   "workspace/ignore",
		use:      "PATH",
		short:    "show which rule decides about a path",
		examples: []string{"build/a.log"}, agent: reader, writes: true, fixed: kw("op", "explain"),
		takes: [2]int{1, 1}, args: explained, text: explainText,
	},
	{
		words: "workspace snapshot list", intent: "workspace/snapshot", short: "list the snapshots of a workspace",
		examples: []string{"", "--json"}, agent: reader, writes: true, fixed: kw("op", "list"), text: snapshotText,
	},
	{
		words:    "workspace snapshot create",
		intent:   "workspace/snapshot",
		use:      "NAME",
		short:    "name the current state",
		examples: []string{"run-18"},
		agent:    writer,
		fixed:    kw("op", "create"),
		takes:    [2]int{1, 1},
		args:     text("name"),
		flags: []flag{
			{
				name:  "commit",
				key:   "commit",
				kind:  kindInt,
				usage: "name the state after this transaction instead",
			},
		},
		text: snapshotText,
	},
	{
		words:    "workspace snapshot remove",
		intent:   "workspace/snapshot",
		use:      "NAME",
		short:    "remove a name; the state stays",
		examples: []string{"run-18"},
		agent:    writer,
		fixed:    kw("op", "remove"),
		takes:    [2]int{1, 1},
		args:     text("name"),
		text:     snapshotText,
	},
	{
		words: "workspace export", short: "write frames and tree to one file that verifies itself",
		long: "export writes the state of the workspace, or the part that the flags select, to one file: equal states and\n" +
			"options give equal bytes. A backup needs --history: without it the file has only the heads of what is in the tree\n" +
			"and not deleted. Without --out the file goes to standard output, unless that is a terminal.",
		examples: []string{"--out context.frm", "--path src --type digest --history --out src.frm"},
		agent:    reader, reads: true, takesLong: true,
		flags: []flag{
			{name: "path", key: "path", kind: kindPath, usage: "only what is at or below this `PATH`"},
			onlyTypes,
			{name: "by", key: "agents", kind: kindTexts, usage: "only frames of this `AGENT`; may be repeated"},
			{name: "history", key: "history?", usage: "also frames that are not heads"},
		},
		fixed: edn.MustMap(edn.K("chunks?"), edn.Bool(true)),
		text:  exportText, perform: export,
	},
	{
		words: "workspace import", use: "FILE", short: "add what an export holds",
		long: "import verifies the whole file first and then adds it in one transaction. It shows what it would add and\n" +
			"asks. Importing twice changes nothing. What the export says is deleted is deleted, unless the workspace has a\n" +
			"frame of it that the export lacks, or deleted it before. FILE may be - for standard input.",
		examples: []string{"context.frm --dry-run", "context.frm --yes --on-conflict keep-local"},
		takes:    [2]int{1, 1}, args: imported, takesLong: true, dryRun: "dry-run?", dry: true, asks: true,
		flags: []flag{
			{
				name:  "on-conflict",
				key:   "on-conflict",
				kind:  kindWord,
				words: []string{"fail", "keep-local", "resample"},
				usage: "what to do about a frame that exists with other content",
			},
		},
		text: importText,
	},
	{
		words: "workspace compact", short: "drop what was deleted long ago",
		long: "compact drops the texts of frames that were deleted long ago. With --keep it also drops the states before the\n" +
			"newest transactions, and the texts that belong only to them. States with a name are kept (workspace snapshot).",
		examples:  []string{"--dry-run", "--ttl 90d --keep 1000 --yes"},
		takesLong: true, dryRun: "dry-run?", dry: true, asks: true,
		flags: []flag{
			{name: "ttl", key: "ttl", kind: kindSpan, usage: "how long deleted frames are kept (default 90d)"},
			{name: "keep", key: "keep", kind: kindInt, usage: "drop history beyond this many transactions"},
		},
		text: compactText,
	},
	{
		words: "workspace delete", use: "NODE", short: "mark a node and everything below it as deleted",
		long: "delete hides the frames of a node and of everything below it until restore, also if a path is removed from\n" +
			"the disk and comes back. A path that is new below it later is not deleted. The directory on the disk is\n" +
			"never changed. compact drops what was deleted long ago.",
		examples: []string{"old --dry-run", "old --yes"},
		takes:    [2]int{1, 1}, args: node, dryRun: "dry-run?", dry: true, asks: true,
		text: tombstoneText,
	},
	{
		words: "workspace restore", use: "NODE", short: "restore what was deleted",
		examples: []string{"old"},
		takes:    [2]int{1, 1}, args: node, dryRun: "dry-run?", dry: true,
		text: tombstoneText,
	},
	{
		words: "workspace graph", short: "write a page that shows the tree and its frames",
		long: "graph writes one HTML file that needs no network: tree, frames and their states. Without --out it goes to\n" +
			"standard output, unless that is a terminal; then it is graph.html in the working directory.",
		examples: []string{"--out graph.html", "--path src --out src.html"},
		agent:    reader, reads: true, takesLong: true,
		flags: []flag{part},
		text:  graphText, perform: graph,
	},
}
