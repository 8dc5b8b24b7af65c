package contract

// workspaceErrors are the failures of the context engine. The part after the
// slash determines their status.
func workspaceErrors() []Row {
	refuse := func(typ string, status int, help, hint string) Row {
		return row(typ, ClassStop, SourceRequest, false, status, help, hint)
	}
	again := func(typ string, status int, help, hint string) Row {
		return row(typ, ClassRetry, SourceRequest, true, status, help, hint)
	}
	broken := func(typ, help, hint string) Row {
		return row(typ, ClassStop, SourceHost, false, 500, help, hint)
	}
	rows := []Row{
		refuse("workspace/not-found", 404, "there is no workspace in this directory", "run `ferment workspace init`"),
		refuse("workspace/exists", 409, "the directory has a workspace of another scheme",
			"use the workspace with its own scheme, or remove its store first"),
		refuse("workspace/root-denied", 403, "the directory is outside the allowed roots", "add it to allowed_roots in ferment.hcl"),
		refuse("workspace/unscanned", 404, "the workspace was never scanned", "run `ferment workspace scan`"),
		refuse("node/not-found", 404, "there is no such node",
			"check the id or the path; `ferment workspace scan` adds new files"),
		refuse("node/ambiguous", 409, "the prefix fits several nodes", "use more digits"),
		refuse("node/deleted", 409, "the node was removed", "`ferment workspace restore PATH` restores a deleted path"),
		refuse("path/invalid", 400, "the path is not a relative path inside the workspace",
			"write it relative to the workspace, without . and .. as parts"),
		refuse("path/not-in-tree", 404, "the path was not scanned or is ignored",
			"scan again; `ferment workspace ignore explain PATH` names the rule that leaves a path out"),
		refuse("frame/not-found", 404, "there is no such frame", "the intent context/list-frames lists the frames of a node"),
		refuse("frame/no-head", 404, "the node has no frame of this type",
			"choose another type, or write a frame of this type"),
		refuse("frame/invalid", 400, "the frame is malformed", "correct the frame where the message says"),
		refuse("frame/type-invalid", 400, "the type of the frame is malformed or reserved",
			"choose a type such as note or docs/summary"),
		refuse("frame/too-large", 413, "the frame is beyond its limit",
			"shorten the text, or raise max_frame in the config block of the plugin"),
		refuse("frame/metadata-policy", 400, "the metadata of the frame is reserved or too large",
			"correct the metadata where the message says"),
		refuse("frame/basis-mismatch", 409, "the frame was made from another state of the node", "read the node again"),
		refuse("frame/immutable", 409, "a frame cannot be overwritten", "put a new one"),
		refuse("frame/id-mismatch", 409, "the frame does not have the id that was given",
			"leave :frame/id out, or put the text that the id belongs to"),
		again("head/conflict", 409, "another frame became the head first", "read the head again"),
		refuse("agent/required", 400, "the operation needs an agent", "name one"),
		refuse("agent/unknown", 404, "there is no such agent", "the intent context/agents lists the agents"),
		refuse("agent/impersonation", 403, "the caller may not act as this agent",
			"name another agent, or add the caller to principals of this one"),
		refuse("agent/role-denied", 403, "the role of the agent does not allow this",
			"name an agent that may do this, or change its role in ferment.hcl"),
		refuse("agent/prompt-missing", 400, "the agent lacks a prompt that the operation needs", "add it in ferment.hcl"),
		again("scan/unreadable", 400, "a part of the tree could not be read",
			"make it readable, or leave it out of the tree"),
		refuse("ignore/invalid", 400, "the ignore file cannot be used",
			"correct the file of ignore patterns, or make it readable"),
		refuse("synthesis/not-directory", 400, "only a directory can be synthesised",
			"name a directory; context/generate is for files"),
		refuse("synthesis/child-not-ready", 400, "a child has no frame yet", "the details name it"),
		refuse("synthesis/too-large", 413, "the synthesis is beyond its limit", ""),
		refuse("synthesis/nondeterministic", 400, "a second run gave another result",
			"make the synthesizer deterministic, or leave :deterministic? out of the policy"),
		refuse("synthesis/custom-failed", 400, "the intent that synthesises failed",
			"the cause says why the intent failed").asCause(),
		again("regenerate/contended", 409, "the inputs kept changing", "try again when they rest"),
		refuse("compose/custom-failed", 400, "the intent that orders frames failed",
			"correct the intent, or set :on-error to another ordering").asCause(),
		again("generate/empty", 400, "the model gave no text to keep", "generate it again, or use another model"),
		again("generate/truncated", 400, "the model gave only a part of the text",
			"raise :max-tokens, or set :accept-truncated? true"),
		refuse("generate/binary", 400, "the file is not text", "use extract/facts, which describes any file"),
		refuse("generate/too-large", 413, "the input is beyond the limit of the model",
			"use an extractor such as extract/facts, or leave the path out"),
		refuse("generate/denied", 403, "the file may not be sent to a model", "the details name the rule"),
		again("store/locked", 409, "another process writes to the workspace", "try again later"),
		row("store/io", ClassRetry, SourceHost, true, 500, "the disk failed or is full",
			"check the disk of the store: its free space and the permissions"),
		broken("store/corrupt", "the store does not match its hashes", "run `ferment workspace validate`"),
		broken("store/version", "the store was written by a newer version", "use that version"),
		refuse("store/read-only", 403, "the store takes no writes after damage", "run `ferment workspace validate`"),
		refuse("store/unsafe", 403, "a symbolic link or a special file in the workspace is in the place of the store or a part of it",
			"remove it, or set data_dir in the config block of the plugin"),
		refuse("seq/unknown", 404, "the sequence number is in the future",
			"read the current state, and use a transaction up to its :seq"),
		refuse("seq/compacted", 400, "the sequence number is no longer kept", "start from the current state"),
		refuse("import/invalid", 400, "the file to import does not verify",
			"export the workspace again, and import the new file"),
		refuse("import/conflict", 409, "the import contradicts what is there",
			"import with :on-conflict :keep-local or :resample"),
		again("watch/root-lost", 400, "the watched directory disappeared",
			"check that the directory exists, and watch it again"),
		refuse("limit/exceeded", 413, "a limit of the workspace is exceeded", "the details name it"),
	}
	for i, r := range rows {
		switch Namespace(r.Type) {
		case "store", "workspace": // the state of the machine, never a defect of the plugin
			rows[i].Source, rows[i].Sources = SourceHost, sourcesOf(SourceHost)
		}
	}
	return rows
}
